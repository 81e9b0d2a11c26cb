/** Writes the HTTP requests of a case to files that `wrk.lua` reads. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type BenchmarkCase, type Mode, type QueryParameters, requestTarget } from "./cases.ts"
import { dataFolder } from "./postgres.ts"
import { makeRandomGenerator, makeZipfNumbers } from "./symbols.ts"

/** Formats an HTTP request. PostGraphile has a formatter of its own, because its API is GraphQL. */
export type RequestFormatter = (
  of: BenchmarkCase,
  parameters: QueryParameters,
  tag: string | undefined,
) => string

export interface RequestPlan {
  readonly requests: string
  /** File with the order of the requests, or "" to send them in the order of `requests`. */
  readonly order: string
  /** Number of requests that may be sent; limited if no request may be sent twice. */
  readonly most: number
}

const folder = join(dataFolder, "requests")
const separator = "\x1E"

export const formatRestRequest = (key: string): RequestFormatter => (of, parameters, tag) =>
  [
    `GET ${requestTarget(of, parameters)} HTTP/1.1`,
    "Host: 127.0.0.1",
    "Accept: application/json",
    `Authorization: Bearer ${key}`,
    ...(of.isCompressed ? ["Accept-Encoding: gzip"] : []),
    ...(tag === undefined ? [] : [`If-None-Match: ${tag}`]),
    "",
    "",
  ].join("\r\n")

export const hasCounter = ({ misses: [first] }: BenchmarkCase) =>
  Object.values(first ?? {}).some((value) => value.includes("\x1A"))

/** Writes the files for a case and a mode. `tags` has the ETags of the popular responses, for the mode 304. */
export const writeRequestPlan = (
  name: string,
  of: BenchmarkCase,
  mode: Mode,
  write: RequestFormatter,
  tags: ReadonlyArray<string>,
): RequestPlan => {
  mkdirSync(folder, { recursive: true })
  const requests = join(folder, `${name}-${of.name}-${mode}`)
  const parameters = mode === "miss" ? of.misses : of.popular
  writeFileSync(
    requests,
    parameters.map((one, at) => write(of, one, mode === "304" ? tags[at] : undefined)).join(separator),
  )
  if (mode === "miss") {
    return {
      requests,
      order: "",
      most: hasCounter(of) ? Infinity : of.misses.length,
    }
  }
  const order = join(folder, "zipf")
  writeFileSync(order, makeZipfNumbers(of.popular.length, 100_000, makeRandomGenerator(10)).join("\n"))
  return { requests, order, most: Infinity }
}
