/** The schema for counts. */
import { Schema } from "effect"

/** An integer greater than or equal to 0, such as a number of rows, bytes, microdollars or requests. */
export const NonNegativeInt = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
