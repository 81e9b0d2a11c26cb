/** Validates the email addresses of accounts and settings. */
import { Schema } from "effect"

/** A bare address without quotes, so that it can contain neither a second address nor a header. */
const addressPattern = /^[^\s\p{Cc}<>()[\],;:\\"@]{1,64}@[\p{L}\p{N}](?:[\p{L}\p{N}.-]{0,251}[\p{L}\p{N}])?$/u

/** Whether the text is a bare email address of at most 254 characters, the maximum in SMTP. */
export const isEmailAddress = (text: string) => addressPattern.test(text) && text.length <= 254

/** An email address in a setting or a command. */
export const EmailAddress = Schema.String.check(
  Schema.makeFilter(isEmailAddress, { message: "must be an email address, such as ops@acme.example" }),
)
