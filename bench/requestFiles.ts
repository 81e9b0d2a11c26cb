/** Writes the HTTP requests of a case to files that `wrk.lua` reads. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type BenchmarkCase, counterPlaceholder, type Mode, type QueryParameters, requestTarget } from "./cases.ts"
import { dataFolder } from "./postgres.ts"
import { makeRandomGenerator, makeZipfNumbers } from "./symbols.ts"

/**
 * Formats an HTTP request; `tag` is the ETag for `If-None-Match`. PostGraphile has a formatter of its own, because its
 * API is GraphQL.
 */
export type RequestFormatter = (
  benchmarkCase: BenchmarkCase,
  parameters: QueryParameters,
  tag: string | undefined,
) => string

/** The files that tell wrk what to send. */
export interface RequestPlan {
  /** File with the requests. */
  readonly requests: string
  /** File with the order of the requests, or "" to send them in the order of `requests`. */
  readonly order: string
  /** Maximum number of requests to send. It is limited if the requests would otherwise be repeated. */
  readonly most: number
}

const folder = join(dataFolder, "requests")
const separator = "\x1E"

/** Returns the formatter for all servers but PostGraphile. */
export const formatRestRequest = (key: string): RequestFormatter => (benchmarkCase, parameters, tag) =>
  [
    `GET ${requestTarget(benchmarkCase, parameters)} HTTP/1.1`,
    "Host: 127.0.0.1",
    "Accept: application/json",
    `Authorization: Bearer ${key}`,
    ...(benchmarkCase.isCompressed ? ["Accept-Encoding: gzip"] : []),
    ...(tag === undefined ? [] : [`If-None-Match: ${tag}`]),
    "",
    "",
  ].join("\r\n")

/** Whether the requests differ each time they are sent. */
export const hasCounter = ({ misses: [first] }: BenchmarkCase) =>
  Object.values(first ?? {}).some((value) => value.includes(counterPlaceholder))

/** Writes the files for a case and a mode. `tags` has the ETags of the popular responses, for the mode `304`. */
export const writeRequestPlan = (
  name: string,
  benchmarkCase: BenchmarkCase,
  mode: Mode,
  write: RequestFormatter,
  tags: ReadonlyArray<string>,
): RequestPlan => {
  mkdirSync(folder, { recursive: true })
  const requests = join(folder, `${name}-${benchmarkCase.name}-${mode}`)
  const parameters = mode === "miss" ? benchmarkCase.misses : benchmarkCase.popular
  writeFileSync(
    requests,
    parameters.map((one, at) => write(benchmarkCase, one, mode === "304" ? tags[at] : undefined)).join(separator),
  )
  if (mode === "miss") {
    return {
      requests,
      order: "",
      most: hasCounter(benchmarkCase) ? Infinity : benchmarkCase.misses.length,
    }
  }
  const order = join(folder, "zipf")
  writeFileSync(order, makeZipfNumbers(benchmarkCase.popular.length, 100_000, makeRandomGenerator(10)).join("\n"))
  return { requests, order, most: Infinity }
}
