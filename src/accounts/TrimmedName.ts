/** Validates names that people choose. */
import { Schema } from "effect"

/** The name of a key, an account or an admin token, or the reference of a payment. */
export const TrimmedName = Schema.String.check(
  Schema.makeFilter((name: string) => name !== "" && name.trim() === name && !/\p{Cc}/u.test(name), {
    message: "must not be empty, start or end with white space, or contain control characters",
  }),
  // PostgreSQL indexes names, and an index entry has a maximum length.
  Schema.isMaxLength(500, { message: "must have at most 500 characters" }),
  // Such characters could reorder the text around the name wherever it is shown.
  Schema.makeFilter((name: string) => !/\p{Bidi_Control}/u.test(name), {
    message: "must not contain characters that change the direction of text",
  }),
)

/** A name that an account can be given. */
export const NewAccountName = TrimmedName.check(
  Schema.makeFilter((name: string) => !/^(?:\.{1,2}|erased-\d.*)$/s.test(name), {
    message: "must not be . or .., which mean a folder in a URL, or begin as the names of erased accounts: erased-1",
  }),
)
