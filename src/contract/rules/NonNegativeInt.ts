/** The type of numbers that count something. */
import { Schema } from "effect"

/** A number of rows, bytes, microdollars, requests and the like. */
export const NonNegativeInt = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
