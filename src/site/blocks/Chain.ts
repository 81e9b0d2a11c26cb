/** A chain, or why there is none: the body that `/v1/ticker-changes` answers, drawn and told in words. */
import { DateTime } from "effect"
import { figure } from "../browser/chain.js"

const someTime = { days: 200 }

/** The picture ends some time after the last event, so that a page is the same whenever it is made. */
const ending = (body: string) => {
  const days = Array.from(body.matchAll(/"effective_date":\s*"(\d{4}-\d{2}-\d{2})"/g), ([, day = ""]) => day).toSorted()
  return DateTime.formatIsoDate(DateTime.add(DateTime.makeUnsafe(`${days.at(-1) ?? "2026-01-01"}T00:00:00Z`), someTime))
}

/** `chain META` draws and tells all; `chain META picture` draws it for the first page, with its summary alone. */
export const renderLineageBlock = (argument: string) => (body: string) => {
  const [symbol = "", how = ""] = argument.split(" ")
  // Not written yet: whoever writes the guide has the test fill it in.
  if (body.trim() === "") return ""
  const drawn = figure(JSON.parse(body), {
    id: `chain-${symbol.toLowerCase()}`,
    today: ending(body),
    brief: how === "picture",
  })
  if (drawn === undefined) throw new Error(`docs: no answer of /v1/ticker-changes?ticker=${symbol}: ${body}`)
  return `${drawn}\n`
}
