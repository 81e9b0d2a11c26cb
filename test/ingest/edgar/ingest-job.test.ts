/** Tests the scheduled ingest: when it runs, what it does after a failure, and its metrics (decision 0105). */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, ConfigProvider, Cron, Deferred, Effect, Fiber, Layer, Logger, Metric, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import process from "node:process"
import { ingestJob } from "../../../src/ingest/edgar/schedule/IngestJob.ts"
import { EdgarTickersConfig } from "../../../src/ingest/edgar/schedule/IngestOptions.ts"
import { IngestScheduleConfig } from "../../../src/ingest/edgar/schedule/IngestSchedule.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { awaitWhileRunning } from "../../support/Interruptions.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const readSchedule = (text: string) =>
  Effect.provide(IngestScheduleConfig, ConfigProvider.layer(ConfigProvider.fromUnknown({ INGEST_EDGAR: text })))

/** Lists the times of the next `count` runs, in UTC. */
const listRuns = (text: string, after: string, count: number) =>
  Effect.map(readSchedule(text), (schedule) => {
    const times = Cron.sequence(Option.getOrThrow(schedule), new Date(after))
    return Array.from({ length: count }, () => times.next().value?.toISOString().slice(0, 16))
  })

describe("EDGAR_TICKERS", () => {
  it.effect("covers all companies if it is all, in any case (operations/settings)", () =>
    Effect.gen(function* () {
      const read = (text: string) =>
        Effect.provide(EdgarTickersConfig, ConfigProvider.layer(ConfigProvider.fromUnknown({ EDGAR_TICKERS: text })))
      for (const text of ["all", "ALL", " All "]) assert.isNull(yield* read(text))
      assert.deepStrictEqual(yield* read("all,brk.b"), ["ALL", "BRK-B"])
    }))
})

describe("INGEST_EDGAR", () => {
  it.effect("sets the same local time in summer and winter (operations/ingest-edgar)", () =>
    Effect.gen(function* () {
      const text = "daily 22:15 America/New_York"
      const spring = yield* listRuns(text, "2026-03-07T12:00Z", 3)
      assert.deepStrictEqual(spring, ["2026-03-08T03:15", "2026-03-09T02:15", "2026-03-10T02:15"])
      const autumn = yield* listRuns(text, "2026-10-31T12:00Z", 3)
      assert.deepStrictEqual(autumn, ["2026-11-01T02:15", "2026-11-02T03:15", "2026-11-03T03:15"])
    }))

  it.effect("sets one run per day even if a change of daylight saving time skips or repeats its time (operations/ingest-edgar)", () =>
    Effect.gen(function* () {
      const skipped = yield* listRuns("daily 02:30 America/New_York", "2026-03-07T12:00Z", 2)
      assert.deepStrictEqual(skipped, ["2026-03-08T07:30", "2026-03-09T06:30"])
      const repeated = yield* listRuns("daily 01:30 America/New_York", "2026-10-31T12:00Z", 2)
      assert.deepStrictEqual(repeated, ["2026-11-01T05:30", "2026-11-02T06:30"])
    }))

  it.effect("must be a daily time in a time zone (operations/settings)", () =>
    Effect.gen(function* () {
      const refused = ["22:15", "daily 24:00 UTC", "daily 22:60 UTC", "daily 22:15", "daily 22:15 New_York", "hourly"]
      for (const text of refused) {
        assert.match((yield* Effect.flip(readSchedule(text))).message, /must be daily at a time in a time zone/)
      }
    }))
})

/**
 * Creates a clock whose time the test sets. Sleeps take as long as with the real clock, because PostgreSQL uses real
 * time.
 */
const makeShiftedClock = Effect.map(Clock.Clock, (live) => {
  let offset = 0
  const now = () => live.currentTimeMillisUnsafe() + offset
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanosUnsafe: () => BigInt(now()) * 1_000_000n,
    currentTimeNanos: Effect.sync(() => BigInt(now()) * 1_000_000n),
    monotonicTimeNanosUnsafe: () => live.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: live.monotonicTimeNanos,
    sleep: (duration) => live.sleep(duration),
  }
  const setTime = (millis: number) =>
    Effect.sync(() => {
      offset = millis - live.currentTimeMillisUnsafe()
    })
  return { clock, setTime }
})

/** Prepares the job. Returns an effect that runs the job once and counts the requests to the SEC. */
const prepareJob = Effect.fnUntraced(function* (stub: Stub.EdgarStub, scheduledAt: number) {
  const job = yield* ingestJob.prepare().pipe(
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({
      INGEST_EDGAR: `daily ${new Date(scheduledAt).toISOString().slice(11, 16)} UTC`,
      EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
      EDGAR_TICKERS: "SNOW",
      EDGAR_BASE_URL: stub.url,
    }))),
  )
  const run = Option.getOrThrow(job)
  return Effect.gen(function* () {
    const before = stub.requests.length
    const exit = yield* Effect.exit(run)
    return { exit, requests: stub.requests.length - before }
  })
})

const readMetric = (name: string) =>
  Effect.map(Metric.snapshot, (metrics) => {
    const found = metrics.find(({ id }) => id === name)
    if (found?.type === "Gauge") return Number(found.state.value)
    return found?.type === "Counter" ? Number(found.state.count) : undefined
  })

layer(Layer.mergeAll(Service.migratedDatabaseLayer, Logger.layer([])).pipe(Layer.provideMerge(NodeServices.layer)), {
  excludeTestServices: true,
})("The scheduled ingest", (it) => {
  it.effect("runs at its scheduled time, continues a failed run after half an hour, and updates its metrics (operations/ingest-edgar)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const countNews = Effect.map(
        sql<{ readonly count: number }>`select count(*)::int as count from news`,
        ([row]) => row?.count,
      )
      const stub = yield* Stub.startEdgarStub
      yield* Stub.removeRequestLimit
      Stub.addCompaniesAndFilings(stub)
      const { clock, setTime } = yield* makeShiftedClock
      const minute = 60_000
      // The ingest runs in a separate process, whose clock the test cannot set. The scheduled time is therefore in the
      // very recent past.
      const scheduledAt = (Math.floor(Date.now() / minute) - 1) * minute
      const day = 24 * 60 * minute
      yield* Effect.gen(function* () {
        yield* setTime(scheduledAt - 2 * minute)
        const run = yield* prepareJob(stub, scheduledAt)
        assert.strictEqual((yield* run).requests, 0, "before its time")
        assert.strictEqual(yield* readMetric("tickerline_ingest_last_success_timestamp_seconds"), 0)

        yield* setTime(scheduledAt)
        stub.behaviour.intercept = ({ path }) =>
          path.startsWith("/submissions/") ? Stub.makeAccessRefusal(403) : undefined
        const pause = sql`update edgar_access set paused_until = 'epoch' where paused_until > now()`
        const failed = yield* Effect.raceFirst(
          run,
          Effect.andThen(Effect.repeat(pause, Schedule.spaced("20 millis")), Effect.never),
        )
        assert.strictEqual(failed.exit._tag, "Failure")
        assert.strictEqual(failed.requests, 3)
        yield* pause
        stub.behaviour.intercept = () => undefined
        yield* setTime(scheduledAt + 25 * minute)
        assert.strictEqual((yield* run).requests, 0, "soon after a failure")
        yield* setTime(scheduledAt + 40 * minute)
        assert.strictEqual((yield* run).exit._tag, "Success")
        assert.strictEqual(yield* countNews, 3)
        assert.isAbove((yield* readMetric("tickerline_ingest_documents_total")) ?? 0, 2)
        assert.strictEqual(yield* readMetric("tickerline_ingest_doubts"), 0)
        for (const [field, decision] of [["outstanding_shares", null], ["reported_date", "confirmed"]]) {
          yield* sql`
            insert into edgar_doubts (cik, dataset, url, field, read, reason, decision)
            values ('0000000042', 'historical_float_pro', 'a', ${field}, '', 'is not believed', ${decision}::text)
          `
        }
        yield* run
        assert.strictEqual(yield* readMetric("tickerline_ingest_doubts"), 1)
        const success = yield* readMetric("tickerline_ingest_last_success_timestamp_seconds")
        assert.isAtLeast(success ?? 0, scheduledAt / 1000)

        assert.strictEqual((yield* run).requests, 0, "only once a day")
        yield* setTime(scheduledAt + day - minute)
        assert.strictEqual((yield* run).requests, 0, "before its next time")
        yield* setTime(scheduledAt + day + minute)
        assert.isAbove((yield* run).requests, 0)
        const readRuns = sql<{ readonly status: string; readonly error: string | null }>`
          select status, error from edgar_runs where scheduled order by run_id
        `
        assert.deepStrictEqual((yield* readRuns).map(({ status }) => status), ["succeeded", "succeeded"])

        // A killed process cannot record the end of its run.
        yield* setTime(scheduledAt + 2 * day)
        const isRequested = yield* Deferred.make<void>()
        stub.behaviour.intercept = ({ path }) => {
          if (!path.startsWith("/submissions/")) return undefined
          Deferred.doneUnsafe(isRequested, Effect.void)
          return "hang"
        }
        const killed = yield* Effect.forkChild(run)
        yield* awaitWhileRunning(isRequested, killed)
        const children = execFileSync("pgrep", ["-P", String(process.pid), "-f", "ingest edgar --scheduled"])
        for (const pid of children.toString().trim().split("\n")) process.kill(Number(pid), "SIGKILL")
        assert.strictEqual((yield* Fiber.join(killed)).exit._tag, "Failure")
        const last = (yield* readRuns).at(-1)
        assert.strictEqual(last?.status, "failed")
        assert.match(last?.error ?? "", /^The ingest process was killed/)
      }).pipe(Effect.provideService(Clock.Clock, clock))
    }))
})
