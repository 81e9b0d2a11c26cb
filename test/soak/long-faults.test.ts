/** Tests long faults and loads of large files while clients send requests (RELIABILITY.md). */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, FileSystem, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { startServiceInstance } from "../support/ServiceInstances.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { DedicatedPostgres, sampleDedicatedLayer } from "../support/DedicatedPostgres.ts"
import { endProcess, startCommandProcess } from "../support/Processes.ts"
import { startTcpProxy } from "../support/TcpProxy.ts"
import * as Service from "../support/Service.ts"
import * as SteadyClients from "../support/SteadyClients.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"
import { holdFault } from "../support/Pauses.ts"

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(sampleDedicatedLayer),
  Layer.provideMerge(NodeCrypto.layer),
)

const startClients = Effect.gen(function* () {
  const { key } = yield* CustomerUsage.createCustomer(`soak ${performance.now()}`, { tier: "ultimate" })
  return yield* SteadyClients.startSteadyClients({ port: yield* startServiceInstance({ CACHE_MEGABYTES: "16" }), key })
})

/** Writes a CSV file of symbol changes in which all new symbols start with `prefix`. Returns its path. */
const writeChanges = Effect.fnUntraced(function* (prefix: string, rows: number) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-soak-" })
  const lines = Array.from({ length: rows }, (_, at) => `T${at + 1},${prefix}${at + 1},2025-01-02,confirmed`)
  yield* fs.writeFileString(
    `${folder}/changes.csv`,
    `old_ticker,new_ticker,effective_date,status\n${lines.join("\n")}\n`,
  )
  return `${folder}/changes.csv`
})

layer(database, { excludeTestServices: true, timeout: "20 minutes" })("During long faults and loads,", (it) => {
  it.effect("no response is wrong while PostgreSQL restarts ten times in a minute (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { more, stop } = yield* startClients
      for (let round = 0; round < 10; round++) {
        yield* holdFault("5 seconds")
        yield* server.stop("SIGINT")
        yield* server.start
      }
      yield* more(100)
      yield* recordFaultSummary("PostgreSQL restarted ten times in a minute", yield* stop)
    }))

  it.effect("no response is wrong while PostgreSQL is down for thirty seconds (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { more, stop } = yield* startClients
      yield* more(100)
      yield* server.stop("SIGINT")
      yield* holdFault("30 seconds")
      yield* server.start
      yield* more(100)
      yield* recordFaultSummary("PostgreSQL down for 30 s", yield* stop)
    }))

  it.effect("every request ends within a quarter of the minute for which the network stalls (§8, RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { key } = yield* CustomerUsage.createCustomer("stalled", { tier: "ultimate" })
      const proxy = yield* startTcpProxy(server.port)
      const url = new URL(server.url)
      url.port = String(proxy.port)
      const through = yield* Layer.build(
        databaseClientLayer({ url: Redacted.make(url.href), applicationName: "stalled" }),
      )
      const port = yield* Effect.provide(startServiceInstance({ CACHE_MEGABYTES: "0" }), through)
      const { more, stop } = yield* SteadyClients.startSteadyClients({ port, key })
      yield* more(100)
      yield* proxy.stall
      const [stall] = yield* Effect.timed(holdFault("60 seconds"))
      yield* proxy.resume
      yield* more(100)
      const seen = yield* stop
      assert.isBelow(seen.slowest, Duration.toMillis(stall) / 4)
      yield* recordFaultSummary("Network to PostgreSQL stalled for 60 s", seen)
    }))

  it.effect("every response is 200, and no read waits 100 ms for a lock, while 1,000,000 rows are loaded (D31, RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const sql = yield* SqlClient.SqlClient
      // Makes PostgreSQL log lock waits, which it does for waits longer than `deadlock_timeout`.
      yield* sql`alter system set deadlock_timeout = '100ms'`
      yield* sql`alter system set log_lock_waits = on`
      yield* sql`select pg_reload_conf()`
      const first = yield* writeChanges("A", 100)
      const ended = yield* startCommandProcess(["load", "ticker_changes", first, "--yes"], { DATABASE_URL: server.url })
      assert.strictEqual((yield* Effect.promise(() => ended.ended)).code, 0)
      const { key } = yield* CustomerUsage.createCustomer("loading", { tier: "ultimate" })
      const port = yield* startServiceInstance({ CACHE_MEGABYTES: "0" })
      const paths = Array.from({ length: 100 }, (_, at) => `/v1/ticker-changes?ticker=T${at + 1}`)
      const isRight = ({ status, text }: { readonly status: number; readonly text: string }) =>
        status === 200 && /"new_ticker":"[AB]/.test(text)
      const { more, stop } = yield* SteadyClients.startSteadyClients({ port, key, paths, isRight })
      yield* more(100)
      const loading = yield* startCommandProcess([
        "load",
        "ticker_changes",
        yield* writeChanges("B", 1_000_000),
        "--yes",
      ], {
        DATABASE_URL: server.url,
      })
      const memory: Array<number> = []
      const watched = Effect.sync(() => {
        const status = readFileSync(`/proc/${loading.child.pid}/status`, "utf8")
        memory.push(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
      })
      const watching = yield* Effect.forkScoped(Effect.ignore(Effect.repeat(watched, Schedule.spaced("200 millis"))))
      const loaded = yield* Effect.promise(() => loading.ended)
      assert.strictEqual(loaded.code, 0, loaded.err)
      watching.interruptUnsafe()
      yield* more(100)
      const seen = yield* stop
      assert.deepStrictEqual(Object.keys(seen.responses), ["200"])
      const log = readFileSync(server.logFile, "utf8")
      assert.notMatch(log, /still waiting for AccessShareLock/)
      yield* recordFaultSummary(
        `1,000,000 rows loaded under load; the command held ${Math.round(Math.max(...memory))} MiB`,
        seen,
      )
    }))

  it.effect("a load that is killed at a random point leaves the old rows and no staging table (D31, RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const sql = yield* SqlClient.SqlClient
      const state = sql`
        select (select count(*)::int from ticker_changes) as rows, (select min(new_ticker) from ticker_changes) as least,
          (select count(*)::int from pg_class where relnamespace = 'loading'::regnamespace) as leftovers
      `
      let before = yield* state
      const file = yield* writeChanges("C", 300_000)
      for (let round = 0; round < 20; round++) {
        const loading = yield* startCommandProcess(["load", "ticker_changes", file, "--yes"], {
          DATABASE_URL: server.url,
        })
        yield* holdFault(500 + Math.random() * 2_500)
        const { code } = yield* endProcess(loading, "SIGKILL")
        if (code === 0) before = yield* state
        yield* Effect.repeat(state, {
          until: (now) => JSON.stringify(now) === JSON.stringify(before),
          schedule: Schedule.spaced("100 millis"),
        }).pipe(Effect.timeout("20 seconds"))
      }
    }))
})
