/** A number that counts something: rows, bytes, microdollars, requests. */
import { Schema } from "effect"

export const NonNegativeInt = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
