/** What was typed, as the address of a request. */
import { redactKeys } from "../../rules/Errors.ts"

export interface QueryTarget {
  /** Where a whole address was typed: its origin. */
  readonly origin: string | undefined
  readonly path: string
  /** With its `?`, or empty. */
  readonly search: string
}

/** `news`, `v1/news`, `/v1/news` and a whole address mean the same; `more` are parameters beside those of the text. */
export const parseQueryTarget = (
  typed: string,
  more: Readonly<Record<string, string>>,
  paths: ReadonlyArray<string>,
): QueryTarget => {
  const whole = /^https?:\/\//i.test(typed) ? new URL(typed) : undefined
  const [, before = "", after = ""] = /^([^?]*)\??(.*)$/s.exec(
    whole === undefined ? typed : `${whole.pathname}${whole.search}`,
  ) ?? []
  const path = before.startsWith("/") ? before : `/${before}`
  const inVersion = `/v1${path}`
  const added = Object.entries(more).map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
  const search = [after, ...added].filter((part) => part !== "").join("&")
  return {
    origin: whole?.origin,
    path: !paths.includes(path) && paths.includes(inVersion) ? inVersion : path,
    search: search === "" ? "" : `?${search}`,
  }
}

/** Arguments are in the shell's history, and every user of the machine can read them in the list of processes. */
export const containsApiKey = (text: string) => redactKeys(text) !== text
