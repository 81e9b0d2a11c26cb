/**
 * Tests ingest processes: the rate limit and the pause that they share, and their interruption (decisions 0104 and
 * 0105).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import process from "node:process"
import { writeArchives } from "../../support/EdgarArchives.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { withDatabase } from "../../support/MigrationDatabases.ts"
import {
  commandFile,
  endProcess,
  runCommandProcess,
  startCommandProcess,
  startProgram,
  waitForOutput,
} from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const { stubCompanies } = Stub

const startMarket = Effect.gen(function* () {
  const stub = yield* Stub.startEdgarStub
  Stub.addCompaniesAndFilings(stub)
  const url = yield* Service.copyMigratedDatabase
  const environment = {
    DATABASE_URL: Redacted.value(url),
    EDGAR_BASE_URL: stub.url,
    EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
  }
  return { stub, url, environment }
})

const waitUntil = (expectation: string, condition: () => boolean) =>
  Effect.sync(condition).pipe(
    Effect.filterOrFail((isMet) => isMet, () => `timed out waiting until ${expectation}`),
    Effect.retry({ schedule: Schedule.spaced("20 millis"), times: 4_000 }),
  )

/** Kills the child process that holds the write end of the pipe. */
const killWriter = (pid: number) => {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number)
  const writer = children.find((child) => readFileSync(`/proc/${child}/comm`, "utf8").trim() === "sleep")
  process.kill(writer ?? Number.NaN, "SIGKILL")
}

const ingest = (...args: ReadonlyArray<string>) => ["ingest", "edgar", ...args]

layer(NodeServices.layer, { excludeTestServices: true })("Processes that ingest", (it) => {
  it.effect("together send at most 10 requests in any second (decision 0104)", () =>
    Effect.gen(function* () {
      const { environment, stub, url } = yield* startMarket
      yield* withDatabase(url, Stub.recordRequestSlots)
      const args = ingest("--tickers", "AAPL,SNOW", "--since", "2026-02-01", "--only", "ownership")
      const ended = yield* Effect.all([runCommandProcess(args, environment), runCommandProcess(args, environment)], {
        concurrency: 2,
      })
      // The server lacks most of Apple's forms.
      for (const { code, err } of ended) assert.strictEqual(code, 1, err)
      for (const { err } of ended) assert.include(err, "The data is incomplete")
      const { busiestSecond, count } = yield* withDatabase(url, Stub.countRequestSlots)
      assert.isAbove(stub.requests.length, 30)
      assert.isAtLeast(count, stub.requests.length, "every request has a slot")
      assert.isAtMost(busiestSecond, 10)
    }))

  it.effect("all wait after the SEC refuses one of them (decision 0104)", () =>
    Effect.gen(function* () {
      const { environment, stub, url } = yield* startMarket
      const only = ingest("--tickers", "SNOW", "--since", "2026-01-01", "--only", "news")
      stub.behaviour.intercept = ({ path }) =>
        path.startsWith("/submissions/") ? Stub.makeAccessRefusal(403) : undefined
      const first = yield* startCommandProcess(only, environment)
      yield* waitForOutput(first, /The SEC has refused requests from this address.* another 10m/)
      stub.behaviour.intercept = () => undefined
      const requested = stub.requests.length
      const second = yield* startCommandProcess(only, environment)
      yield* waitForOutput(second, /The SEC has refused requests from this address/)
      assert.strictEqual(stub.requests.length, requested)
      yield* withDatabase(
        url,
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`update edgar_access set paused_until = now()`),
      )
      const ended = yield* Effect.promise(() => Promise.all([first.ended, second.ended]))
      assert.deepStrictEqual(ended.map(({ code }) => code), [0, 0], ended.map(({ err }) => err).join("\n"))
    }))

  it.effect("continue with the remaining companies if they resume a run after Ctrl-C or a kill (decision 0105)", () =>
    Effect.gen(function* () {
      const { environment, stub, url } = yield* startMarket
      const isLast = (path: string) => path.startsWith(`/submissions/CIK${stubCompanies.snowflake.cik}`)
      stub.behaviour.intercept = ({ path }) => isLast(path) ? "hang" : undefined
      const isHanging = () => stub.requests.some(({ path }) => isLast(path))
      const readState = withDatabase(
        url,
        Effect.flatMap(
          SqlClient.SqlClient,
          (sql) =>
            sql<{ readonly status: string; readonly imunon: number; readonly snowflake: number }>`
          select status, (select count(*) from news where ticker = 'IMNN')::int as imunon,
            (select count(*) from news where ticker = 'SNOW')::int as snowflake
          from edgar_runs
        `,
        ),
      )

      const args = ingest("--tickers", "IMNN,SNOW", "--since", "2000-01-01", "--only", "news")
      const interrupted = yield* startCommandProcess(args, environment)
      yield* waitUntil("the last company is requested", isHanging)
      // Imunon's rows wait for other companies to be read, but are loaded after a few seconds at the latest.
      yield* Effect.retry(
        Effect.filterOrFail(readState, ([state]) => (state?.imunon ?? 0) > 0, () => "Imunon is not loaded"),
        { schedule: Schedule.spaced("200 millis"), times: 400 },
      )
      const { code, err } = yield* endProcess(interrupted, "SIGINT")
      assert.strictEqual(code, 130)
      // The rows may become visible before the process receives the response to its commit.
      assert.match(
        err,
        /Interrupted\. Loaded: [01] of 2 companies\. To continue, run npm run tickerline -- ingest edgar --resume\./,
      )
      const [afterInterrupt] = yield* readState
      assert.deepInclude(afterInterrupt, { status: "interrupted", snowflake: 0 })
      assert.isAbove(afterInterrupt?.imunon ?? 0, 1_000)

      stub.requests.length = 0
      const killed = yield* startCommandProcess(ingest("--resume"), environment)
      yield* waitUntil("the last company is requested again", isHanging)
      yield* endProcess(killed, "SIGKILL")
      assert.deepInclude((yield* readState)[0], { status: "running", snowflake: 0 })

      stub.behaviour.intercept = () => undefined
      const resumed = yield* runCommandInProcess(ingest("--resume"), environment)
      assert.strictEqual(resumed.code, 0, resumed.err)
      assert.match(resumed.out, /news: 3 rows merged: 3 added[\s\S]*1 company,/)
      assert.notInclude(stub.requests.map(({ path }) => path).join(), stubCompanies.imunon.cik)
      const state = yield* readState
      assert.strictEqual(state.length, 1)
      assert.deepInclude(state[0], { status: "succeeded", snowflake: 3 })
      assert.strictEqual(state[0]?.imunon, afterInterrupt?.imunon)
    }))

  it.effect("need no file, and doctor reports a killed run (decision 0105)", () =>
    Effect.gen(function* () {
      const { environment, stub, url } = yield* startMarket
      const own = { ...environment, TMPDIR: "/dev/null" }
      const only = ingest("--tickers", "SNOW", "--since", "2026-01-01", "--only", "news")
      stub.behaviour.intercept = ({ path }) => path.startsWith("/submissions/") ? "hang" : undefined
      const running = yield* startCommandProcess(only, own)
      yield* waitUntil(
        "the company is requested",
        () => stub.requests.some(({ path }) => path.startsWith("/submissions/")),
      )
      const doctor = Effect.map(
        runCommandInProcess(["doctor"], environment),
        ({ out }) => /.*ingest: .*/.exec(out)?.[0],
      )
      assert.match((yield* doctor) ?? "", /ok ingest: never succeeded; a run is in progress$/)

      yield* endProcess(running, "SIGKILL")
      // Backdates the heartbeat. Otherwise the test would have to wait for the two minutes after which a run without a
      // heartbeat counts as dead.
      yield* withDatabase(
        url,
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`update edgar_runs set seen_at = now() - interval '3 minutes'`),
      )
      assert.match(
        (yield* doctor) ?? "",
        /! +ingest: .*the process of the newest run ended without a report 3 minutes ago$/,
      )
      stub.behaviour.intercept = () => undefined
      const { code, err } = yield* runCommandProcess(only, own)
      assert.strictEqual(code, 0, err)
    }))

  it.effect("continue a load from archives after a kill, and download ownership forms last (decision 0128)", () =>
    Effect.gen(function* () {
      const { environment, stub, url } = yield* startMarket
      const { imunon, snowflake, zivo } = stubCompanies
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([zivo, imunon, snowflake]))
      const folder = yield* writeArchives(stub, Object.values(stubCompanies))
      const oldest = Stub.getFilingDocumentPath(snowflake, "0001640147-26-000001", "form3.xml")
      stub.behaviour.intercept = ({ path }) => path === oldest ? "hang" : undefined
      const readState = withDatabase(
        url,
        Effect.flatMap(
          SqlClient.SqlClient,
          (sql) =>
            sql<{ readonly status: string; readonly news: number; readonly waiting: number; readonly forms: number }>`
              select status, (select count(*) from news)::int as news,
                (select count(*) from edgar_work where kind = 'form' and cik in (${snowflake.cik}, ${zivo.cik}))::int as waiting,
                (select count(distinct accession_number) from ownership where ticker = 'SNOW')::int as forms
              from edgar_runs
            `,
        ),
      )
      const args = ingest("--all", "--archives", folder, "--since", "2026-05-01")
      const killed = yield* startCommandProcess(args, environment)
      yield* waitUntil("the oldest form is requested", () => stub.requests.some(({ path }) => path === oldest))
      // The other forms are loaded even though this one gets no response.
      yield* Effect.retry(
        Effect.filterOrFail(readState, ([state]) => state?.waiting === 1, () => "the forms are not loaded"),
        { schedule: Schedule.spaced("200 millis"), times: 400 },
      )
      yield* endProcess(killed, "SIGKILL")
      const [before] = yield* readState
      assert.deepInclude(before, { status: "running", forms: 1 })
      assert.isAbove(before?.news ?? 0, 3)
      const names = stub.requests.map(({ path }) => path)
      const firstForm = names.findIndex((path) => path.endsWith(".xml"))
      assert.deepStrictEqual(names.slice(firstForm).filter((path) => path.startsWith("/api/")), [])

      stub.behaviour.intercept = () => undefined
      stub.requests.length = 0
      const resumed = yield* runCommandInProcess(ingest("--resume", "--archives", folder), environment)
      assert.strictEqual(resumed.code, 0, resumed.err)
      assert.include(stub.requests.map(({ path }) => path), oldest)
      assert.notInclude(stub.requests.map(({ path }) => path).join(), "/submissions/")
      assert.deepInclude((yield* readState)[0], { news: before?.news ?? 0, waiting: 0, forms: 2 })
    }))

  it.effect("end with the service that started them, even if it is killed (decision 0128)", () =>
    Effect.gen(function* () {
      const { environment, stub, url } = yield* startMarket
      const path = `/submissions/CIK${stubCompanies.snowflake.cik}.json`
      stub.behaviour.intercept = (request) => request.path === path ? "hang" : undefined
      const readStatus = withDatabase(
        url,
        Effect.flatMap(
          SqlClient.SqlClient,
          (sql) =>
            sql<{ readonly status: string; readonly others: number }>`
              select status, (
                select count(*) from pg_stat_activity
                where datname = current_database() and application_name = 'tickerline-command'
              )::int as others from edgar_runs
            `,
        ),
      )
      // Simulates a killed service. The process can notice it only because its standard input, a pipe, is closed.
      const settings = { ...environment, EDGAR_TICKERS: "SNOW" }
      const program = `sleep 600 | exec "$0" ${commandFile} ingest edgar --scheduled`
      const service = yield* startProgram("bash", ["-c", program, process.execPath], settings)
      yield* waitUntil("the company is requested", () => stub.requests.some((request) => request.path === path))
      assert.deepInclude((yield* readStatus)[0], { status: "running" })
      yield* Effect.sync(() => killWriter(service.child.pid ?? 0))
      yield* Effect.retry(
        Effect.filterOrFail(
          readStatus,
          ([run]) => run?.status === "interrupted" && run.others === 0,
          () => "the process has not ended",
        ),
        { schedule: Schedule.spaced("200 millis"), times: 400 },
      )
    }))
})
