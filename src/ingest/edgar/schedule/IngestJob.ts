/**
 * The scheduled ingest: a background job that runs once a day in one of the service's processes
 * (docs/decisions/0105-ingest-runs.md).
 */
import { Clock, type Config, Cron, Data, Duration, Effect, Metric, Option, Schema, type Scope } from "effect"
import type { ChildProcessSpawner } from "effect/process"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import type { DirectConnectionConfig } from "../../../postgres/pool/ConnectionSettings.ts"
import type { Job } from "../../../postgres/jobs/Job.ts"
import { initializeCounters, makeCounter, registerGauge } from "../../../postgres/metrics/CallbackMetrics.ts"
import { EdgarBaseUrlConfig, EdgarUserAgentConfig } from "../fetch/EdgarClient.ts"
import { EdgarTickersConfig } from "./IngestOptions.ts"
import { runIngestProcess } from "./IngestProcess.ts"
import { describeIngestError } from "./IngestReport.ts"
import { IngestScheduleConfig } from "./IngestSchedule.ts"
import {
  failRunningScheduledRun,
  readLastScheduledIngestRun,
  readScheduledIngestMetrics,
} from "../store/IngestState.ts"
import { countOpenDoubts } from "../store/Doubts.ts"
import { readWorkSize } from "../store/IngestWork.ts"
import { tickerlineCommand } from "../../../postgres/ProjectCommands.js"

/** Interval at which the job checks whether an ingest must be started. */
const pollInterval = Duration.minutes(1)

/** Delay before a failed ingest is resumed. */
const failureDelay = Duration.minutes(30)

/** Interval at which the job reads its metrics from the database while an ingest is in progress. */
const metricsInterval = Duration.seconds(30)

/** A scheduled ingest failed. The message explains the reason to an operator. */
class ScheduledIngestFailed extends Data.TaggedError("ScheduledIngestFailed")<{ readonly message: string }> {}

/**
 * Time for which a process without permission to load data does not try again, so that other processes can run the job.
 */
const notPermittedPause = Duration.hours(1)

const documentCounter = makeCounter(
  "tickerline_ingest_documents_total",
  "Documents that the scheduled ingest downloaded from the SEC.",
)

const rejectionCounter = makeCounter(
  "tickerline_ingest_rejections_total",
  "Documents that the scheduled ingest set aside because they are missing or damaged.",
)

const decodePermission = decodeRows(Schema.Struct({ may: Schema.Boolean }))

/**
 * Returns whether this process may load data. It must be connected as a role that owns the tables or is a member of the
 * owning role.
 */
const mayLoad = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [role] = yield* decodePermission(sql`
    select pg_has_role(relowner, 'usage') as may from pg_class where oid = 'public.news'::regclass
  `)
  return role?.may === true
})

/** Configuration of the scheduled ingest. */
interface ScheduledIngest {
  readonly schedule: Cron.Cron
  readonly userAgent: string
  /** Symbols of the companies to ingest; null for all companies. */
  readonly tickers: ReadonlyArray<string> | null
  /**
   * Time at which this process set up the job, in milliseconds since 1970. If there has been no ingest yet, the first
   * one starts at the next scheduled time after this.
   */
  readonly preparedAt: number
}

/**
 * Returns whether an ingest must be started now: because its scheduled time has come, because the process of the last
 * one was killed, or because `failureDelay` has passed since the last one failed.
 *
 * @param failedAt when an ingest last failed in this process, in milliseconds since 1970; `-Infinity` if never. The
 * database may not contain this failure, for example because it was unreachable.
 */
const isDue = Effect.fnUntraced(function* ({ preparedAt, schedule }: ScheduledIngest, failedAt: number) {
  const now = yield* Clock.currentTimeMillis
  if (now < failedAt + Duration.toMillis(failureDelay)) return false
  const last = yield* readLastScheduledIngestRun
  // Only one process runs the job at a time. A run without an end was therefore killed.
  if (last !== undefined && last.finished_at === null) return true
  const endedAt = last?.finished_at ?? preparedAt
  if (now >= Cron.next(schedule, new Date(endedAt)).getTime()) return true
  return last !== undefined && ["failed", "interrupted"].includes(last.status) &&
    now >= endedAt + Duration.toMillis(failureDelay)
})

/**
 * Runs the ingest in a separate process and waits for it to end. If that process was killed, it could not record the
 * end of its run, so this function does. Fails if the run failed.
 */
const runScheduled = Effect.fnUntraced(function* (ingest: ScheduledIngest, baseUrl: Option.Option<string>) {
  const reason = yield* runIngestProcess({ ...ingest, baseUrl })
  if (reason === null) return
  yield* failRunningScheduledRun(reason)
  const last = yield* readLastScheduledIngestRun
  // An incomplete run has read all companies' filing lists, so it is not repeated until the next day.
  if (last?.status !== "incomplete") return yield* new ScheduledIngestFailed({ message: last?.error ?? reason })
})

/** Registers the job's metrics. Returns an effect that reads their values from the database and updates them. */
const registerMetrics = Effect.gen(function* () {
  /** The values read last. */
  let last: Effect.Success<typeof readScheduledIngestMetrics>[number] | undefined
  let [waiting, doubts] = [0, 0]
  yield* initializeCounters(documentCounter, rejectionCounter)
  yield* registerGauge({
    name: "tickerline_ingest_last_success_timestamp_seconds",
    description:
      "Unix time at which the newest successful ingest ended; 0 if never, or if another process runs the job.",
    read: () => last?.success_at ?? 0,
  })
  yield* registerGauge({
    name: "tickerline_ingest_run_seen_timestamp_seconds",
    description: "Unix time at which the process of the run in progress was last alive; 0 if no run is in progress.",
    read: () => last?.seen_at ?? 0,
  })
  yield* registerGauge({
    name: "tickerline_ingest_waiting_documents",
    description: "Documents that were set aside and will be requested again.",
    read: () => waiting,
  })
  yield* registerGauge({
    name: "tickerline_ingest_doubts",
    description: "Values of the SEC's documents that are not believed, and about which nobody has decided.",
    read: () => doubts,
  })
  return Effect.gen(function* () {
    waiting = (yield* readWorkSize).waiting
    doubts = yield* countOpenDoubts
    const [metrics] = yield* readScheduledIngestMetrics
    if (metrics === undefined) return
    // Each process has its own counters, which start at zero, while the database stores totals for all processes. Only
    // increases since the last reading are therefore added.
    const { documents, rejections } = last ?? metrics
    yield* Metric.update(documentCounter, Math.max(0, metrics.documents - documents))
    yield* Metric.update(rejectionCounter, Math.max(0, metrics.rejections - rejections))
    last = metrics
  })
})

/**
 * Prepares the job of the scheduled ingest. Returns an effect that runs the ingest if it is due, and then returns for
 * how long this process must leave the job to others. While the ingest runs, its metrics are read in intervals.
 */
const makeRun = Effect.fnUntraced(function* (ingest: ScheduledIngest) {
  const baseUrl = yield* EdgarBaseUrlConfig
  const readMetrics = yield* registerMetrics
  // When an ingest last failed in this process. The next one waits for a while after that.
  let failedAt = -Infinity
  const recordFailureTime = Effect.map(Clock.currentTimeMillis, (now) => {
    failedAt = now
  })
  return Effect.gen(function* () {
    yield* readMetrics
    if (!(yield* isDue(ingest, failedAt))) return Duration.zero
    if (!(yield* mayLoad)) {
      yield* Effect.logWarning(
        "INGEST_EDGAR is set, but this process may not load data. Set it in a process that connects as the role " +
          `that owns the tables, or run \`${tickerlineCommand} ingest edgar\` as that role from cron.`,
      )
      return notPermittedPause
    }
    yield* runScheduled(ingest, baseUrl).pipe(
      Effect.raceFirst(Effect.forever(Effect.delay(Effect.ignore(readMetrics), metricsInterval))),
      Effect.tapCause(() => recordFailureTime),
      Effect.mapError((error) => new ScheduledIngestFailed({ message: describeIngestError(error) })),
    )
    yield* readMetrics
    return Duration.zero
  })
})

/**
 * The job definition. The job runs only if `INGEST_EDGAR` and `EDGAR_USER_AGENT` are set. If a run fails, a later run
 * resumes it.
 */
export const ingestJob = {
  name: "ingest-edgar",
  every: pollInterval,
  prepare: Effect.fnUntraced(function* () {
    const schedule = yield* IngestScheduleConfig
    const userAgent = yield* EdgarUserAgentConfig
    if (Option.isNone(schedule) || Option.isNone(userAgent)) return Option.none()
    const run = makeRun({
      schedule: schedule.value,
      userAgent: userAgent.value,
      tickers: yield* EdgarTickersConfig,
      preparedAt: yield* Clock.currentTimeMillis,
    })
    return Option.some(yield* run)
  }),
} satisfies Job<
  Config.ConfigError,
  SqlClient.SqlClient | DirectConnectionConfig | ChildProcessSpawner.ChildProcessSpawner | Scope.Scope
>
