/** Fetches Tickerline responses for the servers that send stored responses from memory. */
import { readFileSync } from "node:fs"
import process from "node:process"
import { authorizationHeaders, mapConcurrently, sendRequest } from "../httpClient.ts"

/** A stored Tickerline response. */
export interface StoredResponse {
  readonly body: Buffer
  /** All headers, except those that Node adds to every response. */
  readonly headers: ReadonlyArray<readonly [string, string]>
}

/** Matches the headers that Node adds to every response. */
const ofConnection = /^(date|connection|keep-alive)$/i

/** Fetches the paths listed in the file `FILE` from the port `PORT_OF_ORIGIN`, with the API key `KEY`. */
export const fetchStoredResponses = async (): Promise<ReadonlyMap<string, StoredResponse>> => {
  const found = new Map<string, StoredResponse>()
  await mapConcurrently(readFileSync(process.env["FILE"] ?? "", "utf8").split("\n"), async (path) => {
    const { body, headers } = await sendRequest(
      Number(process.env["PORT_OF_ORIGIN"]),
      path,
      authorizationHeaders(process.env["KEY"] ?? ""),
    )
    found.set(path, { body, headers: headers.filter(([name]) => !ofConnection.test(name)) })
  })
  return found
}
