/** Checks, before anything is measured, that all servers send the same responses. */
import { gunzipSync } from "node:zlib"
import { authorizationHeaders, getHeader, sendRequest } from "./httpClient.ts"
import { type BenchmarkCase, fillCounter, type QueryParameters, requestTarget } from "./cases.ts"
import { isFloor, isFromMemory, isMeasured, isMeasuredWith, isTickerline, type Server } from "./servers/index.ts"
import * as PostGraphile from "./servers/graphqlQueries.ts"

/** How many requests of each kind are compared. */
const sampleSize = 16

/** Returns some requests of each kind. The misses have counters that no measurement uses. */
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

/** Shows the place where two texts begin to differ. */
const showFirstDifference = (left: string, right: string) => {
  const at = Array.from(left).findIndex((letter, place) => letter !== right[place])
  const from = Math.max(0, (at < 0 ? left.length : at) - 60)
  return `  …${left.slice(from, from + 160)}…\n  …${right.slice(from, from + 160)}…`
}

/** Requests the text of a response, and its size as it was sent. */
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

/** What the comparison found out. */
export interface Verified {
  /** Average size of the sent bodies, by server and case. */
  readonly bytes: ReadonlyMap<string, number>
  /** Differences between the servers that the report must mention. */
  readonly notes: ReadonlyArray<string>
}

/** Compares the responses of all servers in a case, and adds their average size to `bytes`. */
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

/** Compares all servers with the first chosen one, which is Tickerline unless it is excluded. */
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

/** Returns the ETags of the popular responses, if Tickerline sends any. Fails if an ETag does not get a 304. */
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
