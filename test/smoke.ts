/**
 * Smoke test, run as `npx node test/smoke.ts node` or `… deno`, or as `deno task smoke`. Starts the service with a new
 * home folder, sends requests and stops the service. Prints one line per check, and exits with 1 if any check fails.
 */
import process from "node:process"
import { openServiceHome, startServiceOnRuntime } from "./support/RuntimeService.ts"

const [runtime = "node"] = process.argv.slice(2)

/** Reads a nested JSON value by a path of keys and indexes. */
const at = (body: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (value, key) => typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined,
    body,
  )

const expect = (what: string, found: unknown, wanted: unknown) => {
  const same = JSON.stringify(found) === JSON.stringify(wanted)
  console.log(`${same ? "ok    " : "WRONG "} ${what}: ${JSON.stringify(found)}`)
  if (!same) throw new Error(`${what}: wanted ${JSON.stringify(wanted)}`)
}

const { close, home } = await openServiceHome()
const { exampleUrl, key, stop } = await startServiceOnRuntime(runtime, home)
let exitCode: number | null | undefined

try {
  const base = new URL(exampleUrl).origin
  const ask = async (path: string) => {
    const response = await fetch(base + path, { headers: { authorization: `Bearer ${key}` } })
    const json = response.headers.get("content-type")?.startsWith("application/json") === true
    return {
      status: response.status,
      headers: response.headers,
      body: json ? await response.json() : await response.text(),
    }
  }
  expect(
    "the offered request",
    at((await ask(exampleUrl.slice(base.length))).body, "results", 0, "current_ticker"),
    "NXH",
  )
  const chain = await ask("/v1/ticker-changes?ticker=ostk")
  expect("a chain", at(chain.body, "results", 0, "history", 1, "new_ticker"), "BBBY")
  const meta = await ask("/v1/ticker-changes?ticker=META")
  expect("META", [meta.status, at(meta.body, "error", "details", "reason")], [409, "multiple_cik_lineages"])
  const runners = await ask("/v1/intraday-runners?limit=2&date=2025-06-09")
  expect("runners", [at(runners.body, "count"), at(runners.body, "results", 0, "date")], [2, "2025-06-09"])
  expect("a time", String(at(runners.body, "results", 0, "last_updated")).slice(-6), "-05:00")
  expect(
    "a deprecated endpoint",
    (await ask("/v1/historical-tickers?ticker=NXH")).headers.get("deprecation"),
    "@1793491200",
  )
  const wrong = await ask("/v1/intraday-runners?tickr=NXH")
  expect("a misspelt filter", [wrong.status, at(wrong.body, "error", "details", "fields", 0, "field")], [422, "tickr"])
  expect("documentation", (await ask("/v1/docs")).headers.get("content-type"), "text/html; charset=utf-8")
  expect("the reference", (await ask("/v1/docs/reference")).status, 200)
  expect("readiness", (await ask("/health/ready")).body, {
    status: "ok",
    parts: { service: "ok", database: "ok", usage: "ok", limits: "ok", cache: "ok", clock: "ok" },
  })
  exitCode = await stop()
  expect("an orderly stop", exitCode, 0)
} finally {
  if (exitCode === undefined) await stop()
  await close()
}
