/** D2: reads the API key from a request's headers, and notices when two credentials differ. */
import type { HttpServerRequest } from "effect/http"
import { IncomingMessage } from "node:http"

/** The request carries at least two credentials that are not the same. */
export const conflictingCredentials = Symbol.for("tickerline/account/Credential/conflicting")

const bearer = /^bearer(?: +(.*))?$/i

/**
 * The API key, the empty string if there is none, or `conflicting`. Node keeps only the first of several
 * `Authorization` headers, so this reads the raw ones. Another scheme than Bearer is not a key, but conflicts with one.
 */
export const parseCredential = (rawHeaders: ReadonlyArray<string>): string | typeof conflictingCredentials => {
  let key = ""
  let first = ""
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ""
    if (name.length !== 9 && name.length !== 13) continue
    const value = rawHeaders[index + 1]?.trim() ?? ""
    const header = name.toLowerCase()
    let sent = ""
    if (header === "x-api-key") {
      sent = value
      key ||= sent
    } else if (header === "authorization") {
      const found = bearer.exec(value)
      sent = found === null ? value : found[1] ?? ""
      if (found !== null) key ||= sent
    }
    if (sent === "") continue
    if (first !== "" && sent !== first) return conflictingCredentials
    first = sent
  }
  return key
}

/** The same of a request as Effect has it; one that did not come through Node has each header once. */
export const readRequestCredential = ({ headers, source }: HttpServerRequest.HttpServerRequest) =>
  parseCredential(source instanceof IncomingMessage ? source.rawHeaders : Object.entries(headers).flat())
