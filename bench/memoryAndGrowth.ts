/** Measurements on a fresh server: memory over many requests, and throughput with ten times the rows. */
import { cases, runners10, runners10Small } from "./cases.ts"
import { runWrk } from "./load.ts"
import { memoryOf } from "./processUsage.ts"
import { options } from "./options.ts"
import type { Postgres } from "./postgres.ts"
import { median } from "./report.ts"
import { writePlan, writeRestRequest } from "./requests.ts"
import { startServer } from "./servers/index.ts"

export interface MemoryResult {
  readonly requests: number
  /** Resident memory in MiB: current and peak. */
  readonly now: number
  readonly most: number
}

export interface GrowthResult {
  readonly connections: number
  /** Requests per second with many and with few rows. */
  readonly large: number
  readonly small: number
}

type Keys = Readonly<Record<"bench" | "bench_small", string>>

const requestsPerCase = 500_000

/** Sends a million different requests, alternating between runners and lineages. */
export const measureMemory = async (
  postgres: Postgres,
  keys: Keys,
): Promise<MemoryResult> => {
  const server = await startServer("tickerline", {
    databaseUrl: postgres.url("bench"),
    key: keys.bench,
    origin: 0,
  })
  try {
    const asked = cases.filter(({ name }) => name === "runners-10" || name === "lineage-12").map((benchCase) => ({
      plan: writePlan("memory", benchCase, "miss", writeRestRequest(keys.bench), []),
      cursor: 0,
    }))
    while (asked.some(({ cursor }) => cursor < requestsPerCase)) {
      for (const one of asked.filter(({ cursor }) => cursor < requestsPerCase)) {
        one.cursor = (await runWrk({
          port: server.port,
          ...one,
          connections: 32,
          seconds: 10,
        })).cursor
      }
      const { now } = memoryOf(server.pid)
      console.log(
        `memory: ${asked.reduce((sum, { cursor }) => sum + cursor, 0)} requests, ${now.toFixed(0)} MiB`,
      )
    }
    return {
      requests: asked.reduce((sum, { cursor }) => sum + cursor, 0),
      ...memoryOf(server.pid),
    }
  } finally {
    await server.stop()
  }
}

/** Measures both databases in turn, so that machine noise affects both. */
export const measureGrowth = async (
  postgres: Postgres,
  keys: Keys,
): Promise<ReadonlyArray<GrowthResult>> => {
  const sides = []
  try {
    for (
      const [database, benchCase] of [["bench", runners10], [
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
      const plan = writePlan(database, benchCase, "miss", server.write, [])
      sides.push({ server, plan, cursor: 0 })
    }
    const found: Array<GrowthResult> = []
    for (const connections of [1, 32]) {
      const rates = sides.map(() => new Array<number>())
      for (let round = 0; round < options.rounds; round += 1) {
        for (const [at, side] of sides.entries()) {
          const ask = (seconds: number) => runWrk({ port: side.server.port, ...side, connections, seconds })
          side.cursor = (await ask(options.warmup)).cursor
          const { cursor, perSecond } = await ask(options.seconds)
          side.cursor = cursor
          rates[at]?.push(perSecond)
        }
      }
      const [large = Number.NaN, small = Number.NaN] = rates.map(median)
      console.log(
        `growth, ${connections} connections: ${large.toFixed(0)} of many, ${small.toFixed(0)} of few rows`,
      )
      found.push({ connections, large, small })
    }
    return found
  } finally {
    for (const { server } of sides) await server.stop()
  }
}
