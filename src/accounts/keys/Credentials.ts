/** D2 (API keys): reads the credential from the headers, and detects conflicting ones. */
import type { HttpServerRequest } from "effect/http"
import { IncomingMessage } from "node:http"

/** The result for a request with two or more different credentials. */
export const conflictingCredentials = Symbol.for("tickerline/account/Credential/conflicting")

const bearer = /^bearer(?: +(.*))?$/i

/**
 * Returns the API key, "" without one, or `conflictingCredentials`. Reads raw headers, because Node keeps only the
 * first `Authorization`. A scheme other than Bearer is no key, but conflicts with one.
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

/** Reads the credential of a request. Only Node's requests have raw headers, in which a header may be repeated. */
export const readRequestCredential = ({ headers, source }: HttpServerRequest.HttpServerRequest) =>
  parseCredential(source instanceof IncomingMessage ? source.rawHeaders : Object.entries(headers).flat())
