/** The requests of a case as they go over the wire, in files that `load.lua` reads. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Asked, type Case, type Mode, targetOf } from "./cases.ts"
import { home } from "./postgres.ts"
import { random, zipf } from "./symbols.ts"

/** Turns what is asked into a request; a server that has another API has another one. */
export type Writer = (
  of: Case,
  asked: Asked,
  tag: string | undefined,
) => string

export interface Plan {
  readonly requests: string
  /** The file of the order, "" where they are sent one after the other. */
  readonly order: string
  /** How many there are, where none may be sent twice. */
  readonly most: number
}

const folder = join(home, "requests")
const separator = "\x1E"

export const rest = (key: string): Writer => (of, asked, tag) =>
  [
    `GET ${targetOf(of, asked)} HTTP/1.1`,
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
  write: Writer,
  tags: ReadonlyArray<string>,
): Plan => {
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
  writeFileSync(order, zipf(of.popular.length, 100_000, random(10)).join("\n"))
  return { requests, order, most: Infinity }
}
