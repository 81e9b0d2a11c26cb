/** Writes the HTTP requests of a case to files that `wrk.lua` reads. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type BenchmarkCase, counterPlaceholder, type Mode, type QueryParameters, requestTarget } from "./cases.ts"
import { dataFolder } from "./postgres.ts"
import { makeRandomGenerator, makeZipfNumbers } from "./symbols.ts"

/**
 * Formats an HTTP request. `tag` is the ETag for `If-None-Match`. PostGraphile needs a different formatter, because its
 * API is GraphQL.
 */
export type RequestFormatter = (
  benchmarkCase: BenchmarkCase,
  parameters: QueryParameters,
  tag: string | undefined,
) => string

/** The files that specify the requests for wrk. */
export interface RequestPlan {
  /** The path of the file that contains the requests. */
  readonly requests: string
  /** The path of the file that contains the order of the requests. An empty string means the order in `requests`. */
  readonly order: string
  /** The maximum number of requests to send. It is finite if sending more would repeat requests. */
  readonly most: number
}

const folder = join(dataFolder, "requests")
const separator = "\x1E"

/** Returns the request formatter for all servers except PostGraphile. */
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

/** Returns whether the requests of the case are different each time they are sent. */
export const hasCounter = ({ misses: [first] }: BenchmarkCase) =>
  Object.values(first ?? {}).some((value) => value.includes(counterPlaceholder))

/**
 * Writes the request files for a case and a mode. `tags` contains the ETags of the popular responses, for the mode
 * `304`.
 */
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
