/** Validates names entered by people. */
import { Schema } from "effect"

/** The name of a key, an account or an admin token, or a payment reference. */
export const TrimmedName = Schema.String.check(
  Schema.makeFilter((name: string) => name !== "" && name.trim() === name && !/\p{Cc}/u.test(name), {
    message: "must not be empty, start or end with white space, or contain control characters",
  }),
  // PostgreSQL indexes these names, and limits the size of an index entry.
  Schema.isMaxLength(500, { message: "must have at most 500 characters" }),
  // Bidirectional control characters could reorder the surrounding text wherever the name is displayed.
  Schema.makeFilter((name: string) => !/\p{Bidi_Control}/u.test(name), {
    message: "must not contain characters that change the direction of text",
  }),
)

/** A valid name for a new account. */
export const NewAccountName = TrimmedName.check(
  Schema.makeFilter((name: string) => !/^(?:\.{1,2}|erased-\d.*)$/s.test(name), {
    message: "must not be . or .., which mean a folder in a URL, or begin as the names of erased accounts: erased-1",
  }),
)
