/** D2 (API keys): reads the credential from the headers, and detects conflicting credentials. */

/** What `parseCredential` returns for two or more different credentials. */
export const conflictingCredentials = Symbol.for("tickerline/account/Credential/conflicting")

const bearer = /^bearer(?: +(.*))?$/i

/**
 * Returns the API key, "" if there is none, or `conflictingCredentials`. `Authorization` with a scheme other than
 * Bearer is not a key, but conflicts with one. Reads raw headers, because Node parses only the first `Authorization`.
 */
export const parseCredential = (rawHeaders: ReadonlyArray<string>): string | typeof conflictingCredentials => {
  let key = ""
  let first = ""
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ""
    // Skips other headers quickly: "X-API-Key" has 9 characters, and "Authorization" has 13.
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
