/**
 * Measures memory usage after many requests, and how the size of a table affects request rates. Each measurement starts
 * its own servers.
 */
import { cases, runners10, runners10Small } from "./cases.ts"
import { runWrk } from "./wrk.ts"
import { readMemory } from "./processStats.ts"
import { options } from "./options.ts"
import type { Memory, TableSizeComparison } from "./outcome.ts"
import type { Postgres } from "./postgres.ts"
import { median } from "./statistics.ts"
import { formatRestRequest, writeRequestPlan } from "./requestFiles.ts"
import { startServer } from "./servers/index.ts"

type Keys = Readonly<Record<"bench" | "bench_small", string>>

const requestsPerCase = 500_000

/** Measures the service's memory usage after 500,000 requests for rows and 500,000 requests for lineages. */
export const measureMemory = async (
  postgres: Postgres,
  keys: Keys,
): Promise<Memory> => {
  const server = await startServer("tickerline", {
    databaseUrl: postgres.url("bench"),
    key: keys.bench,
    origin: 0,
  })
  try {
    const plans = cases.filter(({ name }) => name === "runners-10" || name === "lineage-12").map((benchmarkCase) => ({
      plan: writeRequestPlan("memory", benchmarkCase, "miss", formatRestRequest(keys.bench), []),
      cursor: 0,
    }))
    while (plans.some(({ cursor }) => cursor < requestsPerCase)) {
      for (const one of plans.filter(({ cursor }) => cursor < requestsPerCase)) {
        one.cursor = (await runWrk({
          port: server.port,
          ...one,
          connections: 32,
          seconds: 10,
        })).cursor
      }
      const { now } = readMemory(server.pid)
      console.log(
        `memory: ${plans.reduce((sum, { cursor }) => sum + cursor, 0)} requests, ${now.toFixed(0)} MiB`,
      )
    }
    return {
      requests: plans.reduce((sum, { cursor }) => sum + cursor, 0),
      ...readMemory(server.pid),
    }
  } finally {
    await server.stop()
  }
}

/**
 * Compares request rates for a large table and a small table. The measurements alternate, so that other load on the
 * machine affects both equally.
 */
export const compareTableSizes = async (
  postgres: Postgres,
  keys: Keys,
): Promise<ReadonlyArray<TableSizeComparison>> => {
  const sides = []
  try {
    for (
      const [database, benchmarkCase] of [["bench", runners10], [
        "bench_small",
        runners10Small,
      ]] as const
    ) {
      const environment = {
        databaseUrl: postgres.url(database),
        key: keys[database],
        origin: 0,
      }
      const server = await startServer("tickerline", environment)
      const plan = writeRequestPlan(database, benchmarkCase, "miss", server.write, [])
      sides.push({ server, plan, cursor: 0 })
    }
    const found: Array<TableSizeComparison> = []
    for (const connections of [1, 32]) {
      const rates = sides.map(() => new Array<number>())
      for (let round = 0; round < options.rounds; round += 1) {
        for (const [at, side] of sides.entries()) {
          const send = (seconds: number) => runWrk({ port: side.server.port, ...side, connections, seconds })
          side.cursor = (await send(options.warmup)).cursor
          const { cursor, perSecond } = await send(options.seconds)
          side.cursor = cursor
          rates[at]?.push(perSecond)
        }
      }
      const [large = Number.NaN, small = Number.NaN] = rates.map(median)
      console.log(
        `growth, ${connections} connections: ${large.toFixed(0)} with many rows, ${small.toFixed(0)} with few rows`,
      )
      const [ofLarge = [], ofSmall = []] = rates
      found.push({
        connections,
        large,
        small,
        ratio: median(ofLarge.map((rate, round) => (ofSmall[round] ?? 0) / rate)),
      })
    }
    return found
  } finally {
    for (const { server } of sides) await server.stop()
  }
}
