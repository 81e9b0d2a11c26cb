/** Checks that all servers send the same responses. This happens before anything is measured. */
import { gunzipSync } from "node:zlib"
import { authorizationHeaders, getHeader, sendRequest } from "./httpClient.ts"
import { type BenchmarkCase, fillCounter, type QueryParameters, requestTarget } from "./cases.ts"
import { isFloor, isFromMemory, isMeasured, isMeasuredWith, isTickerline, type Server } from "./servers/index.ts"
import * as PostGraphile from "./servers/graphqlQueries.ts"

/** The number of requests of each kind to compare. */
const sampleSize = 16

/** Returns a sample of the requests of each kind. The counters in the misses have values that no measurement uses. */
const sampleOf = ({ misses, popular }: BenchmarkCase) => ({
  popular: popular.slice(0, sampleSize),
  misses: misses.slice(-sampleSize).map((parameters, at): QueryParameters =>
    Object.fromEntries(
      Object.entries(parameters).map((
        [name, value],
      ) => [name, fillCounter(value, 9_000_000_000 + at)]),
    )
  ),
})

/** Shows where two texts begin to differ. */
const showFirstDifference = (left: string, right: string) => {
  const at = Array.from(left).findIndex((letter, place) => letter !== right[place])
  const from = Math.max(0, (at < 0 ? left.length : at) - 60)
  return `  …${left.slice(from, from + 160)}…\n  …${right.slice(from, from + 160)}…`
}

/** Sends a request, and returns the response text and the size of the body as transmitted. */
const requestBody = async (server: Server, benchmarkCase: BenchmarkCase, parameters: QueryParameters, key: string) => {
  const response = await sendRequest(
    server.port,
    requestTarget(benchmarkCase, parameters),
    { ...authorizationHeaders(key), ...(benchmarkCase.isCompressed ? { "accept-encoding": "gzip" } : {}) },
  )
  const { body, status } = response
  const what = `to ${requestTarget(benchmarkCase, parameters)}`
  if (status !== 200) throw new Error(`${server.name} returned ${status} ${what}: ${body.toString()}`)
  if (!benchmarkCase.isCompressed) return { text: body.toString(), size: body.length }
  if (getHeader(response, "content-encoding") !== "gzip") throw new Error(`${server.name} does not compress ${what}`)
  return { text: gunzipSync(body).toString(), size: body.length }
}

/** The result of the comparison. */
export interface Verified {
  /** The average size of the transmitted bodies, by server and case. */
  readonly bytes: ReadonlyMap<string, number>
  /** Differences between the servers that must be mentioned in the report. */
  readonly notes: ReadonlyArray<string>
}

/** Compares the responses of all servers for a case, and adds the average body sizes to `bytes`. */
const verifyCase = async (
  benchmarkCase: BenchmarkCase,
  servers: ReadonlyArray<Server>,
  key: string,
  bytes: Map<string, number>,
) => {
  const [first, ...others] = servers.filter(({ name }) =>
    name !== "postgraphile" && isMeasuredWith(name, benchmarkCase)
  )
  const sample = sampleOf(benchmarkCase)
  const requests = sample.popular.length + sample.misses.length
  const countBytes = ({ name }: Server, size: number) => {
    const key = `${name} ${benchmarkCase.name}`
    bytes.set(key, (bytes.get(key) ?? 0) + size / requests)
  }
  for (const [at, parameters] of [...sample.popular, ...sample.misses].entries()) {
    if (first === undefined) return
    const expected = await requestBody(first, benchmarkCase, parameters, key)
    countBytes(first, expected.size)
    for (const other of others) {
      const kept = isMeasured(other.name, benchmarkCase, "hit", 32) &&
        at < sample.popular.length
      if (isFromMemory(other.name, benchmarkCase) && !kept) {
        countBytes(other, expected.size)
        continue
      }
      const found = await requestBody(other, benchmarkCase, parameters, key)
      countBytes(other, found.size)
      if (found.text !== expected.text) {
        const what = `${other.name} differs from ${first.name} on ${requestTarget(benchmarkCase, parameters)}`
        throw new Error(`${what}:\n${showFirstDifference(expected.text, found.text)}`)
      }
    }
  }
}

/** Compares all servers with the first selected server, which is Tickerline unless Tickerline is excluded. */
export const verifySameResponses = async (
  chosen: ReadonlyArray<BenchmarkCase>,
  servers: ReadonlyArray<Server>,
  key: string,
): Promise<Verified> => {
  const bytes = new Map<string, number>()
  const notes: Array<string> = []
  for (const benchmarkCase of chosen) {
    await verifyCase(benchmarkCase, servers, key, bytes)
    const graphql = servers.find(({ name }) => name === "postgraphile")
    if (graphql !== undefined && isMeasuredWith("postgraphile", benchmarkCase)) {
      const compared = await PostGraphile.compareWithTickerline(
        graphql.port,
        servers[0]?.port ?? 0,
        benchmarkCase,
        sampleOf(benchmarkCase),
        key,
      )
      bytes.set(`postgraphile ${benchmarkCase.name}`, compared.bytes)
      notes.push(...compared.notes)
    }
  }
  return { bytes, notes: [...new Set(notes)] }
}

/**
 * Returns the ETags of the popular responses, or an empty list if Tickerline sends none. Fails if a request with one of
 * these ETags does not get a 304 response.
 */
export const readETags = async (
  servers: ReadonlyArray<Server>,
  benchmarkCase: BenchmarkCase,
  key: string,
): Promise<ReadonlyArray<string>> => {
  const first = servers.find(({ name }) => isTickerline(name))
  if (first === undefined) return []
  const tags: Array<string> = []
  for (const parameters of benchmarkCase.popular) {
    const tag = getHeader(
      await sendRequest(first.port, requestTarget(benchmarkCase, parameters), authorizationHeaders(key)),
      "etag",
    )
    if (tag === undefined) return []
    tags.push(tag)
  }
  for (
    const { name, port } of servers.filter(({ name }) => isTickerline(name) || isFloor(name))
  ) {
    for (const at of [0, 1, benchmarkCase.popular.length - 1]) {
      const headers = { ...authorizationHeaders(key), "if-none-match": tags[at] ?? "" }
      const { status } = await sendRequest(
        port,
        requestTarget(benchmarkCase, benchmarkCase.popular[at] ?? {}),
        headers,
      )
      if (status !== 304) {
        throw new Error(
          `${name} returned ${status} instead of 304 to a client that has the response`,
        )
      }
    }
  }
  return tags
}
