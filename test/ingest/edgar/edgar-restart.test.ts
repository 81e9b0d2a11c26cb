/** Restarts PostgreSQL during a run of `ingest edgar` (decision 0105). */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { DedicatedPostgres, migratedDedicatedLayer } from "../../support/DedicatedPostgres.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { combinedOutput, startCommandProcess } from "../../support/Processes.ts"

// @module-tag slow

const { stubCompanies } = Stub

const startMarket = Effect.gen(function* () {
  const { url } = yield* DedicatedPostgres
  const stub = yield* Stub.startEdgarStub
  Stub.addCompaniesAndFilings(stub)
  const environment = { DATABASE_URL: url, EDGAR_BASE_URL: stub.url, EDGAR_USER_AGENT: "Acme Inc ops@acme.example" }
  const args = ["ingest", "edgar", "--tickers", "IMNN,SNOW", "--since", "2020-01-01", "--only", "news"]
  return { stub, running: startCommandProcess(args, environment) }
})

const waitUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (isMet) => isMet, schedule: Schedule.spaced("20 millis") })

const assertComplete = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly ticker: string; readonly count: number }>`
    select ticker, count(*)::int as count from news group by ticker order by ticker
  `
  assert.deepStrictEqual(rows.map(({ ticker }) => ticker), ["IMNN", "SNOW"])
  const runs = yield* sql<{ readonly status: string }>`select status from edgar_runs`
  assert.deepStrictEqual(runs.map(({ status }) => status), ["succeeded"])
})

layer(Layer.provideMerge(migratedDedicatedLayer, Layer.merge(NodeServices.layer, Logger.layer([]))), {
  excludeTestServices: true,
})("A run", (it) => {
  const snowflakeList = `/submissions/CIK${stubCompanies.snowflake.cik}`

  it.effect.each(
    [
      ["SIGINT", "last company", snowflakeList],
      ["SIGKILL", "last company", snowflakeList],
      ["SIGKILL", "list of companies", Stub.tickerListPath],
    ] as const,
  )(
    "continues after PostgreSQL has ended by %s before the response to the request of the %s (decision 0105)",
    ([signal, , hanging]) =>
      Effect.gen(function* () {
        const server = yield* DedicatedPostgres
        const sql = yield* SqlClient.SqlClient
        yield* sql`truncate news, edgar_runs, edgar_progress, edgar_work`
        const { running, stub } = yield* startMarket
        let isHanging = false
        stub.behaviour.intercept = ({ path }) => {
          if (!path.startsWith(hanging) || isHanging) return undefined
          isHanging = true
          return "reset"
        }
        const command = yield* running
        yield* waitUntil(Effect.sync(() => isHanging))
        yield* server.stop(signal)
        yield* waitUntil(Effect.sync(() => /Waiting until PostgreSQL/.test(combinedOutput(command))))
        yield* server.start
        const { code, err } = yield* Effect.promise(() => command.ended)
        assert.strictEqual(code, 0, err)
        yield* assertComplete
      }),
  )

  it.effect.each(["SIGINT", "SIGKILL"] as const)(
    "continues after PostgreSQL has ended by %s in the middle of a batch (decision 0105)",
    (signal) =>
      Effect.gen(function* () {
        const server = yield* DedicatedPostgres
        const sql = yield* SqlClient.SqlClient
        yield* sql`truncate news, edgar_runs, edgar_progress, edgar_work`
        const { running } = yield* startMarket
        // The batch waits for this lock inside its transaction.
        const lock = yield* Effect.forkChild(
          Effect.exit(sql.withTransaction(Effect.andThen(sql`lock table news in share mode`, Effect.never))),
        )
        const command = yield* running
        yield* waitUntil(Effect.map(
          sql`select from pg_locks where not granted and relation = 'public.news'::regclass`,
          (waiting) => waiting.length > 0,
        ))
        yield* server.stop(signal)
        yield* Fiber.interrupt(lock)
        yield* server.start
        const { code, err } = yield* Effect.promise(() => command.ended)
        assert.strictEqual(code, 0, err)
        yield* assertComplete
      }),
  )
})
