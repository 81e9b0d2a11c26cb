/** Writes the raw requests of a case to files for `load.lua`. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Case, type Mode, type QueryParameters, requestTarget } from "./cases.ts"
import { dataFolder } from "./postgres.ts"
import { makeRandom, makeZipf } from "./symbols.ts"

/** Builds a raw request from query parameters. Servers with another API have their own writer. */
export type RequestWriter = (
  benchCase: Case,
  parameters: QueryParameters,
  tag: string | undefined,
) => string

export interface RequestPlan {
  readonly requests: string
  /** File with the request order; "" if requests are sent in sequence. */
  readonly order: string
  /** Number of requests, if no request may be sent twice. */
  readonly most: number
}

const folder = join(dataFolder, "requests")
const separator = "\x1E"

export const writeRestRequest = (key: string): RequestWriter => (benchCase, parameters, tag) =>
  [
    `GET ${requestTarget(benchCase, parameters)} HTTP/1.1`,
    "Host: 127.0.0.1",
    "Accept: application/json",
    `Authorization: Bearer ${key}`,
    ...(tag === undefined ? [] : [`If-None-Match: ${tag}`]),
    "",
    "",
  ].join("\r\n")

export const hasCounter = ({ misses: [first] }: Case) =>
  Object.values(first ?? {}).some((value) => value.includes("\x1A"))

/** `tags` are the ETags of the popular responses, for mode `304`. */
export const writePlan = (
  name: string,
  benchCase: Case,
  mode: Mode,
  write: RequestWriter,
  tags: ReadonlyArray<string>,
): RequestPlan => {
  mkdirSync(folder, { recursive: true })
  const requests = join(folder, `${name}-${benchCase.name}-${mode}`)
  const parameters = mode === "miss" ? benchCase.misses : benchCase.popular
  writeFileSync(
    requests,
    parameters.map((one, index) => write(benchCase, one, mode === "304" ? tags[index] : undefined)).join(separator),
  )
  if (mode === "miss") {
    return {
      requests,
      order: "",
      most: hasCounter(benchCase) ? Infinity : benchCase.misses.length,
    }
  }
  const order = join(folder, "zipf")
  writeFileSync(order, makeZipf(benchCase.popular.length, 100_000, makeRandom(10)).join("\n"))
  return { requests, order, most: Infinity }
}
