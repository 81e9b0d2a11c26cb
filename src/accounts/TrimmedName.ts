/** Validates names that people choose. */
import { Schema } from "effect"

/** The name of an account or a key, or the reference of a payment. */
export const TrimmedName = Schema.String.check(
  Schema.makeFilter((name: string) => name !== "" && name.trim() === name && !/\p{Cc}/u.test(name), {
    message: "must not be empty, start or end with white space, or contain control characters",
  }),
  // PostgreSQL indexes names, and refuses long ones.
  Schema.isMaxLength(500, { message: "must have at most 500 characters" }),
)
