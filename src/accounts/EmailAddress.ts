/** An address that mail can be sent to. */
import { Schema } from "effect"

/** One, bare, without quotes: nothing in it can become a second one, or a header. */
const shape = /^[^\s\p{Cc}<>()[\],;:\\"@]{1,64}@[\p{L}\p{N}](?:[\p{L}\p{N}.-]{0,251}[\p{L}\p{N}])?$/u

export const isEmailAddress = (text: string) => shape.test(text) && text.length <= 254

export const EmailAddress = Schema.String.check(
  Schema.makeFilter(isEmailAddress, { message: "must be an address of mail, such as ops@acme.example" }),
)
