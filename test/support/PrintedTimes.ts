/** Checks the format of every time in the service's output (§2.1, D15). */
import { assert } from "@effect/vitest"

/** Headers whose date format is defined by HTTP. */
const httpDates = new Set(["date", "expires", "last-modified", "sunset"])

const timePattern = /\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?/g
const printedTimePattern = /T\d\d:\d\d:\d\d(?:\.(?!000)\d{3}|\.\d{6})?-05:00$/
const momentPattern = /"?(?:recorded_at|as_of|x-as-of|earliest)"?: ?"?(\d{4}-[^",\s]*)/g
const printedMomentPattern = /\.\d{6}-05:00$/

/**
 * Asserts that all times in the headers and text of a response have the fixed offset, and that `recorded_at` and
 * `as_of` times have six decimals.
 */
export const assertPrintedTimes = (
  what: string,
  headers: Readonly<Record<string, string | undefined>>,
  text: string,
) => {
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    httpDates.has(name) ? [] : [`${name}: ${value ?? ""}`]
  )
  const all = `${lines.join("\n")}\n${text}`
  for (const [found] of all.matchAll(timePattern)) assert.match(found, printedTimePattern, what)
  for (const [found, moment = ""] of all.matchAll(momentPattern)) {
    assert.match(moment, printedMomentPattern, `${what}: ${found}`)
  }
}
