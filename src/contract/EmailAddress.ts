/** Validates email addresses of accounts, and email addresses in settings and commands. */
import { Schema } from "effect"

/** A bare address without quotes. It cannot contain a second address or inject an email header. */
const addressPattern = /^[^\s\p{Cc}<>()[\],;:\\"@]{1,64}@[\p{L}\p{N}](?:[\p{L}\p{N}.-]{0,251}[\p{L}\p{N}])?$/u

/** Returns whether the text is a bare email address of at most 254 characters, the maximum length in SMTP. */
export const isEmailAddress = (text: string) => addressPattern.test(text) && text.length <= 254

/** An email address in a setting or a command. */
export const EmailAddress = Schema.String.check(
  Schema.makeFilter(isEmailAddress, { message: "must be an email address, such as ops@acme.example" }),
)
