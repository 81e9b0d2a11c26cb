/**
 * Tests documents that a run could not read. They remain in a queue until a later run has read them (decision 0105).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Deferred, Duration, Effect, Exit, Fiber, Layer, Logger, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { EdgarClient } from "../../../src/ingest/edgar/fetch/EdgarClient.ts"
import { runIngest } from "../../../src/ingest/edgar/schedule/EdgarIngest.ts"
import type { IngestOptions } from "../../../src/ingest/edgar/schedule/IngestOptions.ts"
import { IngestReport } from "../../../src/ingest/edgar/schedule/IngestReport.ts"
import { buildDailyIndexUrl } from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import { ingestedDatasets } from "../../../src/ingest/edgar/schedule/IngestedDatasets.ts"
import { planNextTry } from "../../../src/ingest/edgar/store/IngestWork.ts"
import { subtractDays } from "../../../src/ingest/edgar/store/PendingFilings.ts"
import { todayInNewYork } from "../../../src/contract/rules/Dates.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { awaitWhileRunning } from "../../support/Interruptions.ts"
import * as Service from "../../support/Service.ts"
import { sampleUnlessThorough } from "../../support/Thoroughness.ts"
import { makeInstance } from "./Instances.ts"

// @module-tag slow

const { stubCompanies } = Stub
const { imunon, snowflake, zivo } = stubCompanies

/** Runs a test with its own database. */
const withDatabase = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.provide(
    effect,
    Layer.fresh(Layer.unwrap(Effect.map(Service.copyMigratedDatabase, (url) =>
      databaseClientLayer({ url, applicationName: "tickerline-test" })))),
  )

/**
 * Creates a clock that the test can advance. Sleeps take a twentieth of their duration, because failed requests wait
 * for minutes.
 */
const makeFastClock = Effect.map(Clock.Clock, (live) => {
  let offset = 0
  const now = () => live.currentTimeMillisUnsafe() + offset
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanosUnsafe: () => BigInt(now()) * 1_000_000n,
    currentTimeNanos: Effect.sync(() => BigInt(now()) * 1_000_000n),
    monotonicTimeNanosUnsafe: () => live.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: live.monotonicTimeNanos,
    sleep: (duration) => live.sleep(Duration.times(duration, 0.05)),
  }
  const advance = (duration: Duration.Input) =>
    Effect.sync(() => {
      offset += Duration.toMillis(duration)
    })
  return { clock, advance }
})

const form4 = Stub.getFilingDocumentPath(snowflake, "0001640147-26-000002", "form4.xml")
const submissionsPath = `/submissions/CIK${snowflake.cik}.json`
const factsPath = `/api/xbrl/companyfacts/CIK${snowflake.cik}.json`

const json = (body: unknown): Stub.EdgarStubResponse => ({
  status: 200,
  type: "application/json",
  body: JSON.stringify(body),
})

/** Builds company facts with one share count per accession number. */
const makeFacts = (...accessions: ReadonlyArray<string>) =>
  json({
    cik: Number(snowflake.cik),
    facts: {
      dei: {
        EntityCommonStockSharesOutstanding: {
          units: {
            shares: accessions.map((accn, index) => ({
              end: `2026-0${index + 1}-01`,
              val: 1_000_000 + index,
              accn,
              form: "10-Q",
              filed: `2026-0${index + 1}-15`,
            })),
          },
        },
      },
    },
  })

/** Starts a stub with Snowflake and Zivo. `run` simulates a run over all companies. */
const startMarket = Effect.gen(function* () {
  const stub = yield* Stub.startEdgarStub
  yield* Stub.removeRequestLimit
  Stub.addCompaniesAndFilings(stub)
  stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([snowflake, zivo]))
  // Zivo's only form is not well-formed and would be set aside in every test, so it is removed.
  stub.responses.set(`/submissions/CIK${zivo.cik}.json`, Stub.makeSubmissions(zivo, []))
  const { advance, clock } = yield* makeFastClock

  const run = Effect.fnUntraced(function* (options: Partial<IngestOptions> = {}) {
    const before = stub.requests.length
    const report = new IngestReport()
    const exit = yield* Effect.exit(runIngest({
      tickers: null,
      datasets: ingestedDatasets,
      since: "2026-01-01",
      resume: false,
      target: "load",
      scheduled: false,
      ...options,
    }, report)).pipe(
      Effect.provide(EdgarClient.limitedLayer("Acme Inc ops@acme.example", Option.some(stub.url))),
      Effect.provideService(Clock.Clock, clock),
    )
    return { exit, report, paths: stub.requests.slice(before).map(({ path }) => path) }
  })

  /**
   * Publishes an index that is `age` days old and lists these companies. Unlike other documents, an index may get a 304
   * response.
   */
  const addIndex = Effect.fnUntraced(function* (age: number, companies: ReadonlyArray<Stub.ListedCompany>) {
    const day = subtractDays(yield* Effect.provideService(todayInNewYork, Clock.Clock, clock), age)
    const path = new URL(buildDailyIndexUrl(day)).pathname
    const [header = ""] = Stub.readRecording("index/daily-index.master.20200103.excerpt.idx").split(/(?<=-{20,}\s*\n)/)
    const rows = companies.map(({ cik, name }) =>
      `${Number(cik)}|${name}|4|${day.replaceAll("-", "")}|edgar/data/${Number(cik)}/0001640147-26-000002.txt\n`
    )
    stub.responses.set(path, {
      status: 200,
      type: "application/octet-stream",
      body: `${header}${rows.join("")}`,
      headers: { "last-modified": "Sat, 13 Jun 2026 07:04:08 GMT" },
    })
    return path
  })
  return { stub, advance, run, addIndex }
})

const readWork = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{
    readonly url: string
    readonly dataset: string
    readonly cik: string | null
    readonly reason: string
    readonly attempts: number
    readonly final: boolean
  }>`select url, dataset, cik, reason, attempts, next_try_at is null as final from edgar_work order by url, dataset`
})

const count = (table: string, ticker = "SNOW") =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly count: number }>`
      select count(*)::int as count from ${sql(table)} where ticker = ${ticker}
    `
    return row?.count
  })

const readStatuses = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const runs = yield* sql<{ readonly status: string }>`select status from edgar_runs order by run_id`
  return runs.map(({ status }) => status)
})

const assertQueueIsEmpty = Effect.map(readWork, (work) => assert.deepStrictEqual(work, []))

/** Faults of a single document. In each case, the SEC does not send the document now but will send it later. */
const faults: ReadonlyArray<readonly [string, Stub.EdgarStubResponse, RegExp]> = [
  ["a missing file", Stub.missingDocumentResponse, /^is not there$/],
  ["status 503", Stub.unavailableFileResponse, /^could not be downloaded: status 503$/],
  [
    "a maintenance page with status 200",
    { status: 200, type: "text/html", body: "<html><title>Maintenance</title></html>" },
    /^could not be downloaded: an HTML page instead of the document$/,
  ],
  [
    "a maintenance page that claims to be XML",
    Stub.makeXmlResponse("<!DOCTYPE html><html><title>Maintenance</title></html>"),
    /^could not be downloaded: an HTML page instead of the document$/,
  ],
  [
    "a maintenance page in XHTML",
    Stub.makeXmlResponse('<?xml version="1.0"?>\n<!DOCTYPE html><html><title>Maintenance</title></html>'),
    /^could not be downloaded: an HTML page instead of the document$/,
  ],
  ["a truncated document", Stub.makeXmlResponse("<ownershipDocument><issuer"), /truncated document$/],
  ["a redirect", { status: 302, type: "text/html", body: "", headers: { location: "/maintenance" } }, /status 302$/],
]

describe("The queue of documents", () => {
  it.effect("requests an absent document for two weeks, after 1, 2, 4 … hours up to three days (decision 0105)", () =>
    Effect.gen(function* () {
      const hours: Array<number> = []
      let now = 0
      for (let attempts = 1;; attempts += 1) {
        const next = yield* planNextTry("absent", { attempts, firstFailedAt: 0 }, now)
        if (next === null) break
        hours.push((next - now) / 3_600_000)
        now = next
      }
      assert.deepStrictEqual(hours, [1, 2, 4, 8, 16, 32, 64, 72, 72, 72])
      // Even an outage with many attempts is not final if it lasted only a day.
      assert.isNotNull(yield* planNextTry("absent", { attempts: 50, firstFailedAt: 0 }, 86_400_000))
    }))

  it.effect("requests a rejected document three times (decision 0105)", () =>
    Effect.gen(function* () {
      const plans = yield* Effect.forEach(
        [1, 2, 3],
        (attempts) => planNextTry("rejected", { attempts, firstFailedAt: 0 }, 0),
      )
      assert.deepStrictEqual(plans, [3_600_000, 7_200_000, null])
    }))
})

layer(Layer.merge(NodeServices.layer, Logger.layer([])), { excludeTestServices: true })("The ingest", (it) => {
  it.effect.each(sampleUnlessThorough(faults, 4, 1))(
    "requests a form again after %s, although its index returns 304 (decision 0105)",
    ([, fault, reason]) =>
      withDatabase(Effect.gen(function* () {
        const { addIndex, advance, run, stub } = yield* startMarket
        yield* run()
        yield* addIndex(1, [snowflake])
        const late = {
          accession: "0001640147-26-000004",
          form: "5",
          filingDate: "2026-06-11",
          primaryDocument: "x/f.xml",
        }
        stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, [late, ...Stub.snowflakeFilings]))
        const path = Stub.getFilingDocumentPath(snowflake, late.accession, "x/f.xml")
        stub.responses.set(path, fault)
        const before = yield* count("ownership")
        assert.strictEqual((yield* run()).report.rejections, 1)
        const [work] = yield* readWork
        assert.match(work?.reason ?? "", reason)
        assert.deepInclude(work, { cik: snowflake.cik, dataset: "", attempts: 1, final: false })
        assert.notInclude((yield* run()).paths, path, "before its time")
        stub.responses.set(path, Stub.makeXmlResponse(Stub.readRecording("ownership/form5-snow.xml")))
        yield* advance("61 minutes")
        assert.include((yield* run()).paths, path)
        assert.isAbove((yield* count("ownership")) ?? 0, before ?? 0)
        yield* assertQueueIsEmpty
        assert.notInclude((yield* run()).paths, path)
      })),
  )

  it.effect("visits a company again whose list of filings was missing (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { addIndex, advance, run, stub } = yield* startMarket
      const list = Stub.makeSubmissions(snowflake, Stub.snowflakeFilings)
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, []))
      yield* run()
      yield* addIndex(1, [snowflake])
      stub.responses.set(submissionsPath, Stub.missingSubmissionsResponse)
      yield* run()
      assert.strictEqual((yield* readWork).length, 1)
      stub.responses.set(submissionsPath, list)
      yield* advance("61 minutes")
      yield* run()
      assert.strictEqual(yield* count("news"), 3)
      yield* assertQueueIsEmpty
      assert.deepStrictEqual(yield* readStatuses, ["succeeded", "succeeded", "succeeded"])
    })))

  it.effect("keeps a list in the queue that only a run over fewer datasets has read (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { addIndex, advance, run, stub } = yield* startMarket
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, []))
      yield* run()
      yield* addIndex(1, [snowflake])
      stub.responses.set(submissionsPath, Stub.missingSubmissionsResponse)
      yield* run()
      const report = { accession: "0001640147-26-000005", form: "10-Q", filingDate: "2026-06-11" }
      const statement = { ...report, accession: "0001640147-26-000004", form: "S-3", fileNumber: "333-1" }
      stub.responses.set(
        submissionsPath,
        Stub.makeSubmissions(snowflake, [report, statement, ...Stub.snowflakeFilings]),
      )
      stub.responses.set(factsPath, makeFacts(report.accession))
      yield* advance("61 minutes")
      yield* run({ datasets: ["news"] })
      assert.strictEqual(yield* count("news"), 5)
      assert.deepInclude((yield* readWork)[0], { url: `https://data.sec.gov${submissionsPath}`, attempts: 1 })
      yield* run()
      assert.strictEqual(yield* count("registrations"), 1)
      assert.strictEqual(yield* count("historical_float_pro"), 1)
      assert.isAbove((yield* count("ownership")) ?? 0, 0)
      yield* assertQueueIsEmpty
    })))

  it.effect("requests filings that an index names before the company's list has them (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { addIndex, advance, run, stub } = yield* startMarket
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, []))
      yield* run()
      yield* addIndex(1, [snowflake])
      for (const attempts of [1, 2]) {
        yield* run()
        const work = yield* readWork
        assert.lengthOf(work, 1)
        assert.match(work[0]?.url ?? "", /CIK0001640147\.json#0001640147-26-000002$/)
        assert.deepInclude(work[0], {
          attempts,
          reason: "is in a daily index, but not in the company's list of filings yet",
        })
        yield* advance("121 minutes")
      }
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, Stub.snowflakeFilings))
      yield* advance("1 day")
      yield* run()
      assert.strictEqual(yield* count("news"), 3)
      yield* assertQueueIsEmpty
    })))

  it.effect("hides no filing from a run over more datasets (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { addIndex, run, stub } = yield* startMarket
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, []))
      yield* run()
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, Stub.snowflakeFilings))
      yield* addIndex(1, [snowflake])
      yield* run({ datasets: ["news"] })
      assert.strictEqual(yield* count("news"), 3)
      yield* run()
      assert.isAbove((yield* count("ownership")) ?? 0, 0)
    })))

  it.effect("loads news that were released months after their filing date (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { addIndex, run, stub } = yield* startMarket
      const letters = ["2026-03-03", "2026-02-02"].map((filingDate, index) => ({
        accession: `0001640147-26-00002${index}`,
        form: "CORRESP",
        filingDate,
      }))
      const release = (number: number) =>
        stub.responses.set(
          submissionsPath,
          Stub.makeSubmissions(snowflake, [...Stub.snowflakeFilings, ...letters.slice(0, number)]),
        )
      yield* run()
      release(1)
      yield* run({ tickers: ["SNOW"] })
      assert.strictEqual(yield* count("news"), 4)
      release(2)
      yield* addIndex(1, [snowflake])
      yield* run()
      assert.strictEqual(yield* count("news"), 5)
    })))

  it.effect("corrects the times of news if most stamps of the company now show another time zone (decision 0102)", () =>
    withDatabase(Effect.gen(function* () {
      const { run, stub } = yield* startMarket
      const publish = (...stamps: ReadonlyArray<string>) => {
        const filings = stamps.map((stamp) => ({
          accession: `0001640147-26-${stamp.replace(/\D/g, "").slice(4, 10)}`,
          form: "8-K",
          filingDate: stamp.slice(0, 10),
          stamp,
        }))
        stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, filings))
      }
      const readTimes = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql<{ readonly time: string }>`
          select filed_at_time::text as time from news where filed_at = '2026-06-01'
        `
        return rows.map(({ time }) => time)
      })
      const [undecided, eastern] = ["2026-06-01T16:30:00.000Z", "2026-06-02T08:05:00.000Z"] as const
      publish(eastern, undecided)
      yield* run()
      assert.deepStrictEqual(yield* readTimes, ["2026-06-01 16:30:00"])
      publish("2026-06-04T01:30:00.000Z", "2026-06-03T23:30:00.000Z", eastern, undecided)
      yield* run({ tickers: ["SNOW"] })
      assert.deepStrictEqual(yield* readTimes, ["2026-06-01 12:30:00"])
    })))

  it.effect("loads what a company filed while a run was interrupted, with the run after it (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { addIndex, run, stub } = yield* startMarket
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, []))
      yield* run()
      // The run has visited the company before it was interrupted.
      yield* sql`update edgar_runs set status = 'interrupted'`
      yield* sql`
        insert into edgar_runs (scheduled, tickers, datasets, since, started_at, finished_at, status)
        select scheduled, tickers, datasets, since, started_at - interval '1 day', finished_at, 'succeeded' from edgar_runs
      `
      yield* sql`update edgar_progress set run_id = (select max(run_id) from edgar_runs)`
      yield* sql`update edgar_runs set status = 'interrupted' where run_id = (select max(run_id) from edgar_runs)`
      yield* sql`update edgar_runs set status = 'succeeded' where run_id = (select min(run_id) from edgar_runs)`
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, Stub.snowflakeFilings))
      yield* addIndex(1, [snowflake])
      const resumed = yield* run({ tickers: undefined, resume: true })
      assert.notInclude(resumed.paths, submissionsPath)
      yield* run()
      assert.strictEqual(yield* count("news"), 3)
    })))

  it.effect("continues an interrupted run over all companies after a run over chosen ones (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { run } = yield* startMarket
      yield* run()
      yield* sql`update edgar_runs set status = 'interrupted'`
      yield* run({ tickers: ["ZIVO"] })
      assert.isTrue(Exit.isSuccess((yield* run({ tickers: undefined, resume: true })).exit))
      const runs = yield* sql`select tickers, status from edgar_runs order by run_id`
      assert.deepStrictEqual(runs, [
        { tickers: null, status: "succeeded" },
        { tickers: ["ZIVO"], status: "succeeded" },
      ])
    })))

  it.effect("does not continue a run over chosen companies with archives (decision 0128)", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { run } = yield* startMarket
      yield* run({ tickers: ["ZIVO"] })
      yield* sql`update edgar_runs set status = 'interrupted'`
      const { exit, paths } = yield* run({ tickers: undefined, resume: true, archives: "/nonexistent" })
      assert.include(String(exit), "The interrupted run covers ZIVO, but --archives is for all companies.")
      assert.deepStrictEqual(paths, [])
    })))

  it.effect("fails, and is incomplete, if it read no document (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { run, stub } = yield* startMarket
      stub.responses.set(submissionsPath, Stub.missingSubmissionsResponse)
      const { exit } = yield* run({ tickers: ["SNOW"] })
      assert.deepStrictEqual(exit._tag === "Success" ? exit.value : "", "1 of 1 documents were set aside")
      assert.deepStrictEqual(yield* readStatuses, ["failed"])
    })))

  it.effect("refuses to run twice at once over all companies, but not over chosen ones (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { run, stub } = yield* startMarket
      const isRequested = yield* Deferred.make<void>()
      stub.behaviour.intercept = ({ path }) => {
        if (path !== submissionsPath) return undefined
        Deferred.doneUnsafe(isRequested, Effect.void)
        return "hang"
      }
      const first = yield* Effect.forkChild(run())
      yield* awaitWhileRunning(isRequested, first)
      const second = yield* run()
      assert.include(String(second.exit), "Another process is ingesting all companies.")
      assert.deepStrictEqual(second.paths, [])
      assert.isTrue(Exit.isSuccess((yield* run({ tickers: ["ZIVO"] })).exit))
      yield* Fiber.interrupt(first)
      stub.behaviour.intercept = () => undefined
      assert.isTrue(Exit.isSuccess((yield* run()).exit))
    })))

  it.effect("ends if another run began after its connection was lost (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { run, stub } = yield* startMarket
      let isHanging = true
      const isRequested = yield* Deferred.make<void>()
      stub.behaviour.intercept = ({ path }) => {
        if (path !== submissionsPath || !isHanging) return undefined
        Deferred.doneUnsafe(isRequested, Effect.void)
        return "hang"
      }
      const first = yield* Effect.forkChild(run())
      yield* awaitWhileRunning(isRequested, first)
      const isHeld = sql`
        select pid from pg_locks where locktype = 'advisory' and granted
          and database = (select oid from pg_database where datname = current_database())
          and objid::bigint = (hashtext('tickerline ingest of all companies')::bigint & 4294967295)
      `
      // Waits until the backend has terminated and thereby released the lock.
      const holder = sql`select pg_terminate_backend(held.pid, 10000) from (${isHeld}) as held`
      assert.lengthOf(yield* holder, 1)
      // The first run notices the loss at its next heartbeat, after 1.5 s with this clock, and acquires the lock again.
      yield* Effect.repeat(isHeld, { until: (rows) => rows.length > 0, schedule: Schedule.spaced("20 millis") })
      assert.include(String((yield* run()).exit), "Another process is ingesting all companies.")
      // This time, another session acquires the lock first.
      yield* Effect.scoped(Effect.gen(function* () {
        const other = yield* sql.reserve
        yield* holder
        yield* Effect.retry(
          Effect.filterOrFail(
            other.executeUnprepared(
              "select pg_try_advisory_lock(hashtext('tickerline ingest of all companies')) as acquired",
              [],
              undefined,
            ),
            (rows) => JSON.stringify(rows).includes("true"),
          ),
          { schedule: Schedule.spaced("5 millis") },
        )
        assert.include(String((yield* Fiber.join(first)).exit), "Another process is ingesting all companies.")
        yield* other.executeUnprepared("select pg_advisory_unlock_all()", [], undefined)
      }))
      assert.deepStrictEqual(yield* readStatuses, ["failed"])
      isHanging = false
    })))

  it.effect("downloads deferred forms only if ownership is filled (decision 0128)", () =>
    withDatabase(Effect.gen(function* () {
      const { run, stub } = yield* startMarket
      const isRequested = yield* Deferred.make<void>()
      stub.behaviour.intercept = ({ path }) => {
        if (path !== form4) return undefined
        Deferred.doneUnsafe(isRequested, Effect.void)
        return "hang"
      }
      const interrupted = yield* Effect.forkChild(run())
      yield* awaitWhileRunning(isRequested, interrupted)
      yield* Fiber.interrupt(interrupted)
      stub.behaviour.intercept = () => undefined
      assert.notInclude((yield* run({ datasets: ["news"] })).paths, form4)
      assert.include((yield* run()).paths, form4)
    })))

  it.effect("ends registrations that are effective since an unknown day, without a visit (Rule 415(a)(5))", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { advance, run, stub } = yield* startMarket
      const lastDay = subtractDays(yield* todayInNewYork, -30).replace("-02-29", "-02-28")
      const filingDate = `${Number(lastDay.slice(0, 4)) - 3}${lastDay.slice(4)}`
      const prospectus = { accession: "0001640147-24-000002", form: "424B5", filingDate, fileNumber: "333-1" }
      const statement = {
        ...prospectus,
        accession: "0001640147-23-000001",
        form: "S-3",
        filingDate: subtractDays(filingDate, 90),
      }
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, [prospectus, statement]))
      const readRow = Effect.map(
        sql`select headline, effective_status, details, last_updated::text from registrations`,
        ([row]) => ({ ...row }),
      )
      yield* run()
      const before = yield* readRow
      assert.deepInclude(before, { headline: "S-3 of Snowflake Inc.: effective", effective_status: true })
      assert.match(String(before["details"]), new RegExp(`, by ${lastDay}\\.$`))
      // The end is not parsed from the text, so a different date in the text changes nothing.
      yield* sql`update registrations set details = replace(details, ${lastDay}, '2999-12-31')`
      const { details } = yield* readRow
      yield* advance("33 days")
      assert.notInclude((yield* run({ tickers: ["ZIVO"] })).paths, submissionsPath)
      const after = yield* readRow
      assert.deepStrictEqual(after, {
        ...before,
        details,
        headline: `S-3 of Snowflake Inc.: expired before ${lastDay}`,
        effective_status: false,
        last_updated: `${subtractDays(lastDay, -1)} 00:00:00`,
      })
      yield* run({ tickers: ["SNOW"], since: "2020-01-01" })
      assert.deepStrictEqual(yield* readRow, { ...after, details: before["details"] }, "a visit makes the same row")
    })))

  it.effect("does not end a registration whose row another source has replaced (Rule 415(a)(5))", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { advance, run, stub } = yield* startMarket
      const filingDate = `${Number((yield* todayInNewYork).slice(0, 4)) - 2}-01-15`
      const shelf = { accession: "0001640147-24-000001", form: "S-3ASR", filingDate, fileNumber: "333-1" }
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, [shelf]))
      yield* run()
      yield* sql`update registrations set headline = 'Loaded by hand: effective since 2020-01-01'`
      yield* advance("1200 days")
      yield* run({ tickers: ["ZIVO"] })
      assert.deepStrictEqual(yield* sql`select headline, effective_status from registrations`, [
        { headline: "Loaded by hand: effective since 2020-01-01", effective_status: true },
      ])
    })))

  it.effect("fails again if the SEC is still down, although no document was read before (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const companies = [snowflake, zivo, imunon]
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList(companies))
      for (const { cik } of companies) stub.responses.set(`/submissions/CIK${cik}.json`, Stub.unavailableFileResponse)
      for (let attempt = 0; attempt < 2; attempt++) {
        assert.strictEqual((yield* run({ tickers: ["SNOW", "ZIVO", "IMNN"] })).exit._tag, "Failure")
        yield* advance("61 minutes")
      }
      assert.deepStrictEqual(yield* readStatuses, ["failed", "failed"])
    })))

  it.effect("requests due facts even if only the screener is filled (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      stub.responses.set(factsPath, Stub.unavailableFileResponse)
      yield* run({ datasets: ["screener"] })
      stub.responses.set(factsPath, makeFacts("0001640147-26-000001"))
      yield* advance("61 minutes")
      assert.include((yield* run({ datasets: ["screener"] })).paths, factsPath)
      yield* assertQueueIsEmpty
    })))

  it.effect("changes the version of no dataset if there is nothing new (D17, decision 0102)", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { advance, run } = yield* startMarket
      const readVersions = sql`select * from dataset_versions order by 1`
      yield* run()
      yield* advance("61 minutes")
      yield* run()
      const versions = yield* readVersions
      assert.isNotEmpty(versions)
      yield* advance("1 day")
      assert.strictEqual((yield* run()).exit._tag, "Success")
      assert.deepStrictEqual(yield* readVersions, versions)
    })))

  it.effect("counts only attempts that are due, and absent and unreadable documents apart (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const options = { tickers: ["SNOW"], datasets: ["news"] } as const
      const unreadable = json({ hello: 1 })
      const runWith = Effect.fnUntraced(function* (response: Stub.EdgarStubResponse) {
        stub.responses.set(submissionsPath, response)
        yield* run(options)
        return (yield* readWork).map(({ attempts, final }) => ({ attempts, final }))
      })
      for (const _ of [1, 2, 3, 4]) {
        assert.deepStrictEqual(yield* runWith(unreadable), [{ attempts: 1, final: false }])
      }
      yield* advance("61 minutes")
      assert.deepStrictEqual(yield* runWith(unreadable), [{ attempts: 2, final: false }])
      yield* advance("121 minutes")
      assert.deepStrictEqual(yield* runWith(Stub.missingSubmissionsResponse), [{ attempts: 1, final: false }])
      yield* advance("61 minutes")
      assert.deepStrictEqual(yield* runWith(Stub.missingSubmissionsResponse), [{ attempts: 2, final: false }])
      yield* advance("1 day")
      assert.deepStrictEqual(yield* runWith(unreadable), [{ attempts: 1, final: false }])
    })))

  const undecided = [{
    accession: "0001640147-26-000010",
    form: "8-K",
    filingDate: "2026-06-01",
    stamp: "2026-06-01T14:30:00.000Z",
    primaryDocument: "a.htm",
  }]
  const [indexPath] = undecided.map(({ accession }) =>
    Stub.getFilingDocumentPath(snowflake, accession, `${accession}-index.htm`)
  )

  it.effect.each(
    [["absent", Stub.unavailableFileResponse], ["unreadable", Stub.makeXmlResponse("<html>Other</html>")]] as const,
  )(
    "requests the page again that shows a company's time zone, if it was %s (decision 0102)",
    ([, fault]) =>
      withDatabase(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { addIndex, advance, run, stub } = yield* startMarket
        stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, undecided))
        stub.responses.set(indexPath ?? "", fault)
        yield* run()
        yield* addIndex(1, [])
        assert.strictEqual((yield* readWork)[0]?.url, `https://www.sec.gov${indexPath}`)
        const page = `<div class="infoHead">Accepted</div><div class="info">2026-06-01 10:30:00</div>`
        stub.responses.set(indexPath ?? "", { status: 200, type: "text/html", body: page })
        yield* advance("61 minutes")
        yield* run()
        const [row] = yield* sql<{ readonly time: string }>`select filed_at_time::text as time from news`
        assert.strictEqual(row?.time, "2026-06-01 10:30:00")
        yield* assertQueueIsEmpty
      })),
  )

  it.effect("requests facts again that could not be downloaded (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      stub.responses.set(factsPath, Stub.unavailableFileResponse)
      yield* run()
      assert.strictEqual(yield* count("historical_float_pro"), 0)
      assert.strictEqual((yield* readWork)[0]?.url, `https://data.sec.gov${factsPath}`)
      stub.responses.set(factsPath, makeFacts("0001640147-26-000001"))
      yield* advance("61 minutes")
      yield* run()
      assert.strictEqual(yield* count("historical_float_pro"), 1)
      yield* assertQueueIsEmpty
    })))

  it.effect("requests the XBRL of a report again that could not be downloaded (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const accession = "0001640147-26-000005"
      const filing = { accession, form: "10-Q", filingDate: "2026-06-12", isXbrl: true, primaryDocument: "q.htm" }
      const path = Stub.getFilingDocumentPath(snowflake, accession, "q_htm.xml")
      const balance = { accn: accession, form: "10-Q", filed: "2026-06-12", end: "2026-04-30", val: 1_000_000 }
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, [filing, ...Stub.snowflakeFilings]))
      stub.responses.set(
        factsPath,
        json({
          cik: Number(snowflake.cik),
          facts: { "us-gaap": { CommonStockSharesOutstanding: { units: { shares: [balance] } } } },
        }),
      )
      stub.responses.set(path, Stub.unavailableFileResponse)
      const readCount = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql<{ readonly count: string }>`
          select outstanding_shares::text as count from historical_float_pro
        `
        return rows.map(({ count }) => count)
      })
      assert.include((yield* run()).paths, path, "a first load")
      assert.deepStrictEqual(yield* readCount, ["1000000"])
      const [work] = yield* readWork
      assert.deepInclude(work, { url: `https://www.sec.gov${path}`, attempts: 1, cik: snowflake.cik, final: false })
      assert.notInclude((yield* run()).paths, path, "before its time")
      yield* advance("61 minutes")
      assert.include((yield* run()).paths, path)
      assert.deepInclude((yield* readWork)[0], { attempts: 2, final: false })
      const counts = ["a:A", "a:B"].map((member) => ({ member, shares: 510_000, date: "2026-05-20" }))
      stub.responses.set(path, Stub.makeXmlResponse(makeInstance({ cik: snowflake.cik, counts })))
      yield* advance("121 minutes")
      assert.include((yield* run()).paths, path)
      assert.deepStrictEqual(yield* readCount, ["1020000"])
      yield* assertQueueIsEmpty
      yield* advance("121 minutes")
      assert.notInclude((yield* run()).paths, path)
    })))

  it.effect("requests facts until they have the newest report of the list (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const report = { accession: "0001640147-26-000005", form: "10-Q", filingDate: "2026-06-12", isXbrl: true }
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, [report, ...Stub.snowflakeFilings]))
      stub.responses.set(factsPath, makeFacts("0001640147-26-000001"))
      yield* run()
      assert.strictEqual((yield* readWork)[0]?.reason, "does not contain 0001640147-26-000005 yet")
      yield* advance("61 minutes")
      yield* run()
      assert.deepInclude((yield* readWork)[0], { attempts: 2, final: false })
      stub.responses.set(factsPath, makeFacts("0001640147-26-000001", report.accession))
      yield* advance("121 minutes")
      yield* run()
      assert.strictEqual(yield* count("historical_float_pro"), 2)
      yield* assertQueueIsEmpty
    })))

  it.effect("requests facts until they have an amendment, and all reports of one day (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const amendment = { accession: "0001640147-26-000006", form: "10-Q/A", filingDate: "2026-06-12", isXbrl: true }
      const report = { ...amendment, accession: "0001640147-26-000005", form: "10-Q" }
      const oldReport = { ...report, accession: "0001640147-26-000000", filingDate: "2026-03-12" }
      stub.responses.set(
        submissionsPath,
        Stub.makeSubmissions(snowflake, [amendment, report, ...Stub.snowflakeFilings, oldReport]),
      )
      const readReasons = Effect.fnUntraced(function* (...accessions: ReadonlyArray<string>) {
        stub.responses.set(factsPath, makeFacts("0001640147-26-000001", ...accessions))
        yield* run()
        yield* advance("1 day")
        return (yield* readWork).map(({ reason }) => reason)
      })
      assert.deepStrictEqual(yield* readReasons(), [
        "does not contain 0001640147-26-000006, 0001640147-26-000005 yet",
      ])
      assert.deepStrictEqual(yield* readReasons(report.accession), ["does not contain 0001640147-26-000006 yet"])
      assert.deepStrictEqual(yield* readReasons(amendment.accession), ["does not contain 0001640147-26-000005 yet"])
      assert.deepStrictEqual(yield* readReasons(report.accession, amendment.accession), [])
    })))

  it.effect("sets unreadable facts aside one by one, and loads the others (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const facts = makeFacts("0001640147-26-000001", "0001640147-26-000002", "0001640147-26-000003")
      const damaged = facts.body.replace('"val":1000001', '"val":null').replace('"end":"2026-03-01",', "")
      stub.responses.set(factsPath, { ...facts, body: damaged })
      const { exit } = yield* run()
      assert.strictEqual(exit._tag, "Success")
      for (const table of ["historical_float_pro", "float_outstanding", "screener"]) {
        assert.strictEqual(yield* count(table), 1, table)
      }
      const path = `https://data.sec.gov${factsPath}#dei/EntityCommonStockSharesOutstanding/shares`
      assert.deepStrictEqual(
        (yield* readWork).map(({ dataset, url }) => `${url} ${dataset}`),
        [1, 2].flatMap((place) =>
          ["float_outstanding", "historical_float_pro", "screener"].map((dataset) => `${path}/${place} ${dataset}`)
        ),
      )
      stub.responses.set(factsPath, facts)
      assert.notInclude((yield* run()).paths, factsPath, "before its time")
      yield* advance("61 minutes")
      yield* run()
      assert.strictEqual(yield* count("historical_float_pro"), 3)
      yield* assertQueueIsEmpty
    })))

  it.effect("reads an older page again that was missing, and then what depends on it (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const page = `CIK${snowflake.cik}-submissions-001.json`
      const older = { accession: "0001640147-26-000000", form: "S-3", filingDate: "2026-01-05", fileNumber: "333-1" }
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, Stub.snowflakeFilings, [page]))
      stub.responses.set(`/submissions/${page}`, Stub.unavailableFileResponse)
      yield* run()
      assert.strictEqual(yield* count("news"), 3, "the filings of the first page")
      assert.strictEqual(yield* count("registrations"), 0)
      stub.responses.set(`/submissions/${page}`, Stub.makeSubmissionsPage([older]))
      yield* advance("61 minutes")
      yield* run()
      assert.strictEqual(yield* count("news"), 4)
      assert.strictEqual(yield* count("registrations"), 1)
      assert.isAbove((yield* count("ownership")) ?? 0, 0)
      yield* assertQueueIsEmpty
      assert.notInclude((yield* run()).paths, submissionsPath)
    })))

  it.effect("requests a document of an older page again (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { addIndex, advance, run, stub } = yield* startMarket
      const page = `CIK${snowflake.cik}-submissions-001.json`
      const [first, ...older] = Stub.snowflakeFilings
      if (first === undefined) return assert.fail()
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, [first], [page]))
      stub.responses.set(`/submissions/${page}`, Stub.makeSubmissionsPage(older))
      const response = stub.responses.get(form4)
      stub.responses.delete(form4)
      yield* run()
      // A run that visits the company before the document is due must not drop the document from the queue.
      yield* addIndex(1, [snowflake])
      yield* run()
      if (response !== undefined) stub.responses.set(form4, response)
      yield* advance("61 minutes")
      assert.include((yield* run()).paths, form4)
      yield* assertQueueIsEmpty
    })))

  it.effect("sets an unreadable index aside, and reads it until it is readable, even after weeks (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { addIndex, advance, run, stub } = yield* startMarket
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, []))
      yield* run()
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, Stub.snowflakeFilings))
      const path = yield* addIndex(1, [snowflake])
      const index = stub.responses.get(path)
      stub.responses.set(path, Stub.unavailableFileResponse)
      assert.strictEqual((yield* run()).exit._tag, "Success")
      yield* advance("9 days")
      yield* run()
      yield* advance("9 days")
      assert.include((yield* run()).paths, path, "beyond the week that each run reads")
      if (index !== undefined) stub.responses.set(path, index)
      yield* advance("1 day")
      yield* run()
      assert.strictEqual(yield* count("news"), 3)
      yield* assertQueueIsEmpty
    })))

  it.effect("requests a rejected document again with --retry-rejected or a newer parser, and otherwise not (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { advance, run, stub } = yield* startMarket
      stub.responses.set(form4, Stub.makeXmlResponse("<damaged></other>"))
      yield* run()
      for (const delay of ["1 hour", "2 hours"] as const) {
        yield* advance(delay)
        assert.include((yield* run()).paths, form4)
      }
      assert.deepInclude((yield* readWork)[0], { attempts: 3, final: true })
      yield* advance("30 days")
      assert.notInclude((yield* run()).paths, form4, "a run over all companies")
      assert.notInclude((yield* run({ tickers: ["SNOW"] })).paths, form4, "a run over this company")
      assert.include((yield* run({ tickers: ["SNOW"], retryRejected: true })).paths, form4)
      yield* sql`update edgar_work set next_try_at = null, parser_version = 0`
      stub.responses.set(
        form4,
        Stub.makeXmlResponse(Stub.readRecording("ownership/form4-derivative-and-holdings-snow.xml")),
      )
      assert.include((yield* run()).paths, form4)
      yield* assertQueueIsEmpty
    })))

  it.effect("requests rejected documents of a company that is named by a symbol only its rows have (D38)", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { run, stub } = yield* startMarket
      stub.responses.set(form4, Stub.makeXmlResponse("<damaged></other>"))
      yield* run()
      yield* sql`update edgar_work set next_try_at = null`
      yield* sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, cik, status)
        values ('SNOW', 'SNOX', '2026-06-11', ${snowflake.cik}, 'confirmed')
      `
      assert.notInclude((yield* run({ tickers: ["SNOX"] })).paths, form4)
      assert.include((yield* run({ tickers: ["SNOX"], retryRejected: true })).paths, form4)
    })))

  it.effect("does not end because of documents that always fail, and visits the other companies (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const forms = Array.from({ length: 4 }, (_, index) => ({
        accession: `0001640147-26-00001${index}`,
        form: "4",
        filingDate: "2026-06-01",
        primaryDocument: `f${index}.xml`,
      }))
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, forms))
      stub.responses.set(`/submissions/CIK${zivo.cik}.json`, Stub.makeSubmissions(zivo, Stub.zivoFilings))
      stub.behaviour.intercept = ({ path }) => /f\d\.xml/.test(path) ? Stub.unavailableFileResponse : undefined
      assert.strictEqual((yield* run()).exit._tag, "Failure")
      assert.isAtLeast((yield* readWork).length, 2)
      for (const delay of ["31 minutes", "2 hours"] as const) {
        yield* advance(delay)
        yield* run({ resume: true })
      }
      assert.strictEqual((yield* readStatuses).at(-1), "incomplete")
      assert.strictEqual(yield* count("news", "ZIVO"), 1)
      assert.strictEqual(yield* count("news"), 4)
    })))

  it.effect("sets one unreadable filing of a list aside, and loads it when it is readable (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const list = Stub.makeSubmissions(snowflake, Stub.snowflakeFilings)
      stub.responses.set(submissionsPath, { ...list, body: list.body.replace("2026-06-09", "2026-06-39") })
      const { report } = yield* run()
      assert.strictEqual(report.rejections, 1)
      assert.strictEqual(yield* count("news"), 2)
      assert.isAbove((yield* count("ownership")) ?? 0, 0, "the other form")
      stub.responses.set(submissionsPath, list)
      yield* advance("61 minutes")
      assert.include((yield* run()).paths, form4)
      assert.strictEqual(yield* count("news"), 3)
      yield* assertQueueIsEmpty
    })))

  it.effect("sets rows aside that violate a rule of the table, and loads the others (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { advance, run } = yield* startMarket
      yield* sql`alter table news add constraint no_officers check (not (title like '%5.02%'))`
      const { exit, report } = yield* run()
      assert.strictEqual(exit._tag, "Success")
      assert.strictEqual(yield* count("news"), 2)
      assert.strictEqual(report.rejections, 1)
      assert.deepInclude((yield* readWork)[0], {
        url: `https://data.sec.gov${submissionsPath}#0001640147-26-000003`,
        dataset: "news",
      })
      yield* sql`alter table news drop constraint no_officers`
      yield* advance("61 minutes")
      yield* run()
      assert.strictEqual(yield* count("news"), 3)
      yield* assertQueueIsEmpty
    })))

  it.effect("names symbols that the SEC does not list, and does the rest (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { run } = yield* startMarket
      const { exit, report } = yield* run({ tickers: ["PCA", "SNOW"], scheduled: true })
      assert.strictEqual(exit._tag, "Success")
      assert.strictEqual(yield* count("news"), 3)
      assert.lengthOf(report.unlisted, 1)
      assert.match(report.unlisted[0] ?? "", /^EDGAR_TICKERS: The SEC's ticker list has no PCA\./)
      assert.strictEqual((yield* run({ tickers: ["PCA", "PCB"], scheduled: true })).exit._tag, "Failure")
      assert.deepStrictEqual(yield* readStatuses, ["succeeded", "incomplete"])
    })))

  const seven = { cik: "0000000007", name: "Seven", tickers: ["SEVN"] }

  it.effect("loads what a company filed while the SEC's list lacked it (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { addIndex, advance, run, stub } = yield* startMarket
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, []))
      stub.responses.set(`/submissions/CIK${seven.cik}.json`, Stub.makeSubmissions(seven, []))
      yield* run()
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, Stub.snowflakeFilings))
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([seven, zivo], "Sat, 13 Jun 2026 10:00:00 GMT"))
      yield* addIndex(1, [snowflake])
      assert.notInclude((yield* run()).paths, submissionsPath)
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([snowflake, zivo], "Sun, 14 Jun 2026 10:00:00 GMT"))
      yield* advance("61 minutes")
      yield* run()
      assert.strictEqual(yield* count("news"), 3)
      yield* assertQueueIsEmpty
      assert.deepStrictEqual(yield* readStatuses, ["succeeded", "succeeded", "succeeded"])
    })))

  it.effect("is complete although the queue has documents of a company that the SEC no longer lists (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      const forms = Array.from({ length: 4 }, (_, index) => ({
        accession: `0001640147-26-00001${index}`,
        form: "4",
        filingDate: "2026-06-01",
        primaryDocument: `f${index}.xml`,
      }))
      stub.responses.set(submissionsPath, Stub.makeSubmissions(snowflake, forms))
      stub.responses.set(`/submissions/CIK${seven.cik}.json`, Stub.makeSubmissions(seven, []))
      yield* run()
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([seven, zivo], "Sat, 13 Jun 2026 10:00:00 GMT"))
      yield* advance("61 minutes")
      const { exit, report } = yield* run()
      assert.isTrue(exit._tag === "Success" && exit.value === null)
      assert.strictEqual(report.rejections, 0)
      assert.strictEqual((yield* readStatuses).at(-1), "succeeded")
      assert.deepStrictEqual((yield* readWork).map(({ attempts }) => attempts), [2, 2, 2, 2])
    })))

  it.effect("keeps the queue of a company that the SEC no longer lists, but not for ever (decision 0105)", () =>
    withDatabase(Effect.gen(function* () {
      const { advance, run, stub } = yield* startMarket
      stub.responses.delete(form4)
      yield* run()
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([zivo], "Mon, 15 Jun 2026 10:00:00 GMT"))
      yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql`delete from edgar_ticker_lists`)
      yield* advance("61 minutes")
      yield* run()
      assert.deepInclude((yield* readWork)[0], {
        attempts: 2,
        final: false,
        reason: "is about a company that the SEC's ticker list lacks",
      })
    })))
})
