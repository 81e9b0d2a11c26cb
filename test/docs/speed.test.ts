/** The README shows the figures of the newest report of the benchmarks, and names each rival that is faster. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { ServerMeasurement } from "../../bench/outcome.ts"
import { makeSpeedSection, replaceSpeedSection } from "../../bench/speedTable.ts"
import { projectRoot } from "../support/Processes.ts"

/** Removes what a formatter adds: the padding of tables, and the ends of lines. */
const normalize = (text: string) => text.replace(/\s+/g, " ").replace(/-{2,}/g, "--")

const measure = (perSecond: number): ServerMeasurement => ({
  perSecond,
  p50: 1,
  p99: 1,
  p999: 1,
  max: 1,
  service: 1,
  database: 1,
  generator: 1,
  delayP999: 1,
  delayMax: 1,
})

/** A report of one round in which Tickerline and Fastify returned a screener. */
const makeReport = (own: number, rival: number) => ({
  about: { date: "2026-11-29T05:00:00Z", cores: 2, rounds: 1 },
  results: ([["tickerline", own], ["fastify", rival]] as const).map(([server, perSecond]) => ({
    server,
    case: "screener",
    mode: "miss" as const,
    connections: 32,
    failures: [],
    rounds: [{ ...measure(perSecond), beside: server === "fastify" ? { tickerline: measure(own) } : {} }],
  })),
})

describe("The figures of speed in the README", () => {
  it("are those of the newest report: `npm run speed-table` writes them (README.md)", () => {
    const readme = readFileSync(join(projectRoot, "README.md"), "utf8")
    assert.strictEqual(normalize(replaceSpeedSection(readme)), normalize(readme))
  })

  it("name a rival that is faster (README.md)", () => {
    const slower = makeSpeedSection("report", makeReport(800, 1_000))
    assert.include(slower, "| A screener with five filters | 800 | 1,000 |")
    assert.include(slower, "Rivals are faster for a screener with five filters (Fastify, by 25%).")
    assert.include(makeSpeedSection("report", makeReport(1_000, 800)), "Tickerline is the faster one")
  })
})
