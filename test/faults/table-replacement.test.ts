/** Tests requests that clients send while another program refills a table or the `load` command replaces it. */
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Ref, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { loadDatasetFile } from "../../src/ingest/load/DatasetLoad.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import * as SteadyClients from "../support/SteadyClients.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"
import { holdFault, waitUntilOldDataExpires } from "../support/Pauses.ts"

// @module-tag slow

/**
 * Inserts ticker changes, one per lineage. All new symbols begin with `prefix`, which identifies this generation of
 * rows.
 */
const insertGeneration = Effect.fnUntraced(function* (prefix: string, count: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
    select 'T' || n, ${prefix} || n, '2025-01-02', 'confirmed' from generate_series(1, ${count}::int) as n
  `
})

const tickerPaths = Array.from({ length: 50 }, (_, at) => `/v1/ticker-changes?ticker=T${at + 1}`)

const startClients = Effect.fnUntraced(function* (generations: ReadonlyArray<string>, CACHE_MEGABYTES = "16") {
  const { key } = yield* CustomerUsage.createCustomer(`faults ${performance.now()}`, { tier: "ultimate" })
  const port = yield* ServiceInstances.startServiceInstance({ CACHE_MEGABYTES })
  const observed: Array<string> = []
  const tickers: Array<string> = []
  const isRight = ({ status, text }: { readonly status: number; readonly text: string }) => {
    const found = status === 200 ? generations.find((prefix) => text.includes(`"new_ticker":"${prefix}`)) : undefined
    if (found !== undefined) {
      observed.push(found)
      tickers.push(/"query_ticker":"(T\d+)"/.exec(text)?.[1] ?? "")
    }
    return found !== undefined
  }
  const steady = yield* SteadyClients.startSteadyClients({ port, key, paths: tickerPaths, isRight, clients: 4 })
  return { ...steady, generations: observed, tickers }
})

/** Waits until `count` further responses contain rows of the generation `prefix`. */
const waitForResponses = Effect.fnUntraced(function* (observed: ReadonlyArray<string>, prefix: string, count: number) {
  const from = observed.length
  const further = Effect.sync(() => observed.slice(from).filter((name) => name === prefix).length)
  yield* Effect.repeat(further, { until: (found) => found >= count, schedule: Schedule.spaced("20 millis") })
})

/** Waits until each path has received another response with rows. */
const waitForAllPaths = Effect.fnUntraced(function* (tickers: ReadonlyArray<string>) {
  const from = tickers.length
  const further = Effect.sync(() => new Set(tickers.slice(from)).size)
  yield* Effect.repeat(further, {
    until: (found) => found === tickerPaths.length,
    schedule: Schedule.spaced("20 millis"),
  })
})

/** Waits until a client has received a 503. */
const waitForUnavailableResponse = ({ seen }: { readonly seen: () => SteadyClients.ClientSummary }) =>
  Effect.repeat(Effect.sync(seen), {
    until: ({ responses }) => Object.keys(responses).some((response) => response.startsWith("503")),
    schedule: Schedule.spaced("20 millis"),
  }).pipe(Effect.timeout("60 seconds"))

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "The service",
  (it) => {
    it.effect("returns old rows or 503, and then new rows, while a table is refilled under a lock (§7.2, D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`truncate ticker_changes`
        yield* insertGeneration("A", 100)
        const kept = yield* startClients(["A", "B"])
        const fresh = yield* startClients(["A", "B"], "0")
        yield* waitForResponses(kept.generations, "A", 500)
        yield* sql.withTransaction(Effect.gen(function* () {
          yield* sql`truncate ticker_changes`
          yield* insertGeneration("B", 100)
          yield* holdFault("5 seconds")
          yield* waitForResponses(kept.generations, "A", 100)
          yield* waitForAllPaths(kept.tickers)
          // Waits for the first 503, because on a slow machine the requests of `fresh` may start late.
          yield* waitForUnavailableResponse(fresh)
          assert.notInclude([...kept.generations, ...fresh.generations], "B", "nothing is seen before it is committed")
        }))
        yield* waitUntilOldDataExpires
        const settled = kept.generations.length
        yield* waitForResponses(kept.generations, "B", 200)
        yield* waitForResponses(fresh.generations, "B", 50)
        assert.notInclude(kept.generations.slice(settled), "A", "a second after the commit nothing is old")
        const [fromMemory, fromDatabase] = [yield* kept.stop, yield* fresh.stop]
        assert.deepStrictEqual(Object.keys(fromDatabase.responses), ["200", "503 data_refreshing"])
        // Without a poll for 900 ms, no response comes from memory. On a slow machine a poll may take that long, and
        // the few requests that arrive during it wait for the lock.
        const { "200": served = 0, "503 data_refreshing": unavailable = 0, ...others } = fromMemory.responses
        assert.deepStrictEqual(others, {})
        assert.isBelow(unavailable, served / 20)
        yield* recordFaultSummary("A table truncated and filled behind a lock of 6 s; responses in memory", fromMemory)
        yield* recordFaultSummary("The same, responses not in memory", fromDatabase)
      }))

    it.effect("delays requests, but refuses none, during repeated locks of one second (§8)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`truncate ticker_changes`
        yield* insertGeneration("A", 100)
        const { generations, stop } = yield* startClients(["A"], "0")
        for (let round = 0; round < 3; round++) {
          yield* sql.withTransaction(Effect.gen(function* () {
            yield* sql`lock table ticker_changes`
            yield* holdFault("1 second")
          }))
          yield* waitForResponses(generations, "A", 50)
        }
        const all = yield* stop
        assert.deepStrictEqual(Object.keys(all.responses), ["200"])
        yield* recordFaultSummary("A table locked for 1 s, three times", all)
      }))

    it.effect("keeps connections available for other tables while many clients wait for a locked table (§8)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`truncate ticker_changes`
        yield* insertGeneration("A", 100)
        const { key } = yield* CustomerUsage.createCustomer(`faults ${performance.now()}`, { tier: "ultimate" })
        const port = yield* ServiceInstances.startServiceInstance({ CACHE_MEGABYTES: "0" })
        const others = Array.from({ length: 20 }, (_, at) => `/v1/news?limit=${at + 1}`)
        const stuck = yield* SteadyClients.startSteadyClients({ port, key, paths: tickerPaths, clients: 40 })
        const free = yield* SteadyClients.startSteadyClients({ port, key, paths: others, clients: 4 })
        yield* sql.withTransaction(Effect.gen(function* () {
          yield* sql`lock table ticker_changes`
          // The first 503 shows that the maximum number of clients is waiting for the table.
          yield* waitForUnavailableResponse(stuck)
          yield* free.more()
        }))
        const [waited, went] = [yield* stuck.stop, yield* free.stop]
        assert.deepStrictEqual(Object.keys(went.responses), ["200"])
        yield* recordFaultSummary("A locked table under 40 clients of it", waited)
        yield* recordFaultSummary("Meanwhile 4 clients of another table", went)
      }))

    it.effect("returns no error and no old row after new ones while load replaces a table repeatedly (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const fs = yield* FileSystem.FileSystem
        const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-faults-" })
        yield* sql`truncate ticker_changes`
        yield* insertGeneration("A", 100)
        const { generations, stop } = yield* startClients(["A", "B", "C"])
        for (const prefix of ["B", "C"]) {
          const lines = Array.from({ length: 20_000 }, (_, at) => `T${at + 1},${prefix}${at + 1},2025-01-02,confirmed`)
          yield* fs.writeFileString(
            `${folder}/${prefix}.csv`,
            `old_ticker,new_ticker,effective_date,status\n${lines.join("\n")}\n`,
          )
          yield* loadDatasetFile(
            { dataset: "ticker_changes", file: `${folder}/${prefix}.csv`, append: false },
            yield* Ref.make(0),
          )
          yield* waitUntilOldDataExpires
          const settled = generations.length
          yield* waitForResponses(generations, prefix, 100)
          assert.deepStrictEqual(new Set(generations.slice(settled)), new Set([prefix]))
        }
        const all = yield* stop
        assert.deepStrictEqual(Object.keys(all.responses), ["200"])
        yield* recordFaultSummary("A table replaced by load, twice, 20,000 rows", all)
      }))
  },
)
