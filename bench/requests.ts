/** The requests of a case as they go over the wire, in files that `load.lua` reads. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type QueryParameters, type Case, type Mode, requestTarget } from "./cases.ts"
import { dataFolder } from "./postgres.ts"
import { makeRandom, makeZipf } from "./symbols.ts"

/** Turns what is asked into a request; a server that has another API has another one. */
export type RequestWriter = (
  of: Case,
  asked: QueryParameters,
  tag: string | undefined,
) => string

export interface RequestPlan {
  readonly requests: string
  /** The file of the order, "" where they are sent one after the other. */
  readonly order: string
  /** How many there are, where none may be sent twice. */
  readonly most: number
}

const folder = join(dataFolder, "requests")
const separator = "\x1E"

export const writeRestRequest = (key: string): RequestWriter => (of, asked, tag) =>
  [
    `GET ${requestTarget(of, asked)} HTTP/1.1`,
    "Host: 127.0.0.1",
    "Accept: application/json",
    `Authorization: Bearer ${key}`,
    ...(tag === undefined ? [] : [`If-None-Match: ${tag}`]),
    "",
    "",
  ].join("\r\n")

export const hasCounter = ({ misses: [first] }: Case) =>
  Object.values(first ?? {}).some((value) => value.includes("\x1A"))

/** `tags`: those of the popular answers, for 304. */
export const writePlan = (
  name: string,
  of: Case,
  mode: Mode,
  write: RequestWriter,
  tags: ReadonlyArray<string>,
): RequestPlan => {
  mkdirSync(folder, { recursive: true })
  const requests = join(folder, `${name}-${of.name}-${mode}`)
  const asked = mode === "miss" ? of.misses : of.popular
  writeFileSync(
    requests,
    asked.map((one, at) => write(of, one, mode === "304" ? tags[at] : undefined)).join(separator),
  )
  if (mode === "miss") {
    return {
      requests,
      order: "",
      most: hasCounter(of) ? Infinity : of.misses.length,
    }
  }
  const order = join(folder, "zipf")
  writeFileSync(order, makeZipf(of.popular.length, 100_000, makeRandom(10)).join("\n"))
  return { requests, order, most: Infinity }
}
