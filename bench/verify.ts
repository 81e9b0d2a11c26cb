/** Verifies before timing that all servers return the same responses. */
import { authHeaders, headerOf, sendRequest } from "./httpClient.ts"
import { type Case, fillPlaceholder, type QueryParameters, requestTarget } from "./cases.ts"
import { isFloor, isMeasured, isTickerline, type Server } from "./servers/index.ts"
import * as PostGraphile from "./servers/queries.ts"

const sampled = 16

/** A sample of requests. Its placeholders and symbols are not used by any timing. */
const sampleOf = ({ misses, popular }: Case) => ({
  popular: popular.slice(0, sampled),
  misses: misses.slice(-sampled).map((parameters, index): QueryParameters =>
    Object.fromEntries(
      Object.entries(parameters).map((
        [name, value],
      ) => [name, fillPlaceholder(value, 9_000_000_000 + index)]),
    )
  ),
})

const firstDifference = (left: string, right: string) => {
  const index = Array.from(left).findIndex((letter, place) => letter !== right[place])
  const from = Math.max(0, (index < 0 ? left.length : index) - 60)
  return `  …${left.slice(from, from + 160)}…\n  …${right.slice(from, from + 160)}…`
}

const bodyOf = async (server: Server, benchCase: Case, parameters: QueryParameters, key: string) => {
  const { body, status } = await sendRequest(
    server.port,
    requestTarget(benchCase, parameters),
    authHeaders(key),
  )
  if (status !== 200) {
    throw new Error(
      `${server.name} answers ${status} to ${requestTarget(benchCase, parameters)}: ${body.toString()}`,
    )
  }
  return body.toString()
}

export interface VerifiedSizes {
  /** Average body size in bytes by server and case. */
  readonly bytes: ReadonlyMap<string, number>
  readonly notes: ReadonlyArray<string>
}

const verifyCase = async (
  benchCase: Case,
  servers: ReadonlyArray<Server>,
  key: string,
  bytes: Map<string, number>,
) => {
  const [first, ...others] = servers.filter(({ name }) => name !== "postgraphile")
  const sample = sampleOf(benchCase)
  let length = 0
  for (const [index, parameters] of [...sample.popular, ...sample.misses].entries()) {
    if (first === undefined) return
    const expected = await bodyOf(first, benchCase, parameters, key)
    length += expected.length
    for (const other of others) {
      const kept = isMeasured(other.name, benchCase, "hit", 32) &&
        index < sample.popular.length
      if (isFloor(other.name) && !kept) continue
      const found = await bodyOf(other, benchCase, parameters, key)
      if (found !== expected) {
        const what = `${other.name} differs from ${first.name} on ${requestTarget(benchCase, parameters)}`
        throw new Error(`${what}:\n${firstDifference(expected, found)}`)
      }
    }
  }
  const average = length / (sample.popular.length + sample.misses.length)
  for (const { name } of servers) bytes.set(`${name} ${benchCase.name}`, average)
}

/** Compares with the responses of Tickerline, or of the first server if Tickerline is not measured. */
export const verifyResponses = async (
  chosen: ReadonlyArray<Case>,
  servers: ReadonlyArray<Server>,
  key: string,
): Promise<VerifiedSizes> => {
  const bytes = new Map<string, number>()
  const notes: Array<string> = []
  for (const benchCase of chosen) {
    await verifyCase(benchCase, servers, key, bytes)
    const graphql = servers.find(({ name }) => name === "postgraphile")
    if (graphql !== undefined && PostGraphile.isExpressible(benchCase)) {
      const compared = await PostGraphile.verifySameRows(
        graphql.port,
        servers[0]?.port ?? 0,
        benchCase,
        sampleOf(benchCase),
        key,
      )
      bytes.set(`postgraphile ${benchCase.name}`, compared.bytes)
      notes.push(...compared.notes)
    }
  }
  return { bytes, notes: [...new Set(notes)] }
}

/** ETags of the popular responses; empty if Tickerline sends none or does not respond with 304. */
export const fetchEtags = async (
  servers: ReadonlyArray<Server>,
  benchCase: Case,
  key: string,
): Promise<ReadonlyArray<string>> => {
  const first = servers.find(({ name }) => isTickerline(name))
  if (first === undefined) return []
  const tags: Array<string> = []
  for (const parameters of benchCase.popular) {
    const tag = headerOf(
      await sendRequest(first.port, requestTarget(benchCase, parameters), authHeaders(key)),
      "etag",
    )
    if (tag === undefined) return []
    tags.push(tag)
  }
  for (
    const { name, port } of servers.filter(({ name }) => isTickerline(name) || isFloor(name))
  ) {
    for (const index of [0, 1, benchCase.popular.length - 1]) {
      const headers = { ...authHeaders(key), "if-none-match": tags[index] ?? "" }
      const { status } = await sendRequest(
        port,
        requestTarget(benchCase, benchCase.popular[index] ?? {}),
        headers,
      )
      if (status !== 304) {
        throw new Error(
          `${name} answers ${status} to a client that has the answer, not 304`,
        )
      }
    }
  }
  return tags
}
