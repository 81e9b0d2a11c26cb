/**
 * D29: what was answered waits here, in memory, until it is written: many rows at once, off the requests' way. While
 * the database does not take them they wait, and are sent again until it does. Rows are never dropped: where too many
 * wait, further requests are refused instead, since what is not recorded cannot be billed. Requests refused with 429
 * are free and without limit, so they are counted by the minute, and never cause another refusal.
 */
import { Config, Context, Data, Duration, Effect, Latch, Layer, Metric, Schedule, Schema } from "effect"
import { addForkedFinalizer } from "../../observability/BackgroundFibers.ts"
import { initializeCounters, registerGauge } from "../../observability/CallbackMetrics.ts"
import { DatabasePoolTimeout } from "../../rules/Errors.ts"
import * as Refusals from "./RefusalCounter.ts"
import { makeRefusalWriter } from "./RefusedUsage.ts"
import { makeUsageBatch, makeUsageWriter, type UsageBatch, type UsageRecord } from "./UsageWriter.ts"

export const UsageBufferConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000_000 })),
  "USAGE_BUFFER",
)
  .pipe(Config.withDefault(100_000))

/** How long rows gather, and how many are written at once: at most the last second is lost by a sudden end. */
const gathering = Duration.millis(250)
const mostAtOnce = 2_000

/** How long requests refused with 429 gather before their counts are written. */
const refusalsGather = Duration.millis(500)

/** The server counts 30 seconds itself; this is for one that no longer answers at all. */
const longestWrite = Duration.seconds(36)

const again = Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")])

/** For how long a process that is told to stop tries to write what it still has. */
const lastPatience = Duration.seconds(20)

const rowsWritten = Metric.counter("tickerline_usage_rows_written_total", {
  description: "Answered requests that were recorded.",
  incremental: true,
})
const writesFailed = Metric.counter("tickerline_usage_writes_failed_total", {
  description: "Attempts to record requests that failed and were, or will be, repeated.",
  incremental: true,
})
export const requestsRefusedTotal = Metric.counter("tickerline_usage_requests_refused_total", {
  description: "Requests refused because too many answered ones wait to be recorded.",
  incremental: true,
})
export const rowsLostTotal = Metric.counter("tickerline_usage_rows_lost_total", {
  description: "Answered requests that a process could not record before it ended.",
  incremental: true,
})

class WriterFailed extends Data.TaggedError("WriterFailed")<{ readonly message: string }> {}

const full = new DatabasePoolTimeout({
  error: { message: "The usage of requests cannot be recorded at the moment. Retry in a few seconds." },
})

export class Metering extends Context.Service<Metering, {
  /** Fails while too many rows wait. */
  readonly requireCapacity: Effect.Effect<void, DatabasePoolTimeout>
  /** The same, without a failure to handle. */
  readonly hasCapacity: () => boolean
  /** Takes a row; it is written within half a second while the database takes it. */
  readonly record: (row: UsageRecord) => void
}>()("tickerline/account/Metering") {
  static readonly layer = Layer.effect(
    Metering,
    Effect.gen(function* () {
      const most = yield* UsageBufferConfig
      const write = yield* makeUsageWriter
      const writeRefusals = yield* makeRefusalWriter
      const refusals = Refusals.makeRefusalCounter()
      yield* initializeCounters(rowsWritten, writesFailed, requestsRefusedTotal, rowsLostTotal)
      const waiting: Array<UsageRecord> = []
      /** The first of those that wait, until they are written: sent again, they are the same rows. */
      let batch: UsageBatch | undefined
      yield* registerGauge({
        name: "tickerline_usage_rows_waiting",
        description: "Answered requests that are not recorded yet.",
        read: () => waiting.length + refusals.rows(),
      })
      const some = yield* Latch.make()
      const someRefusals = yield* Latch.make()
      let refusing = false

      const record = (row: UsageRecord) => {
        if (row.status_code === 429) {
          refusals.add(row)
          someRefusals.openUnsafe()
        } else {
          waiting.push(row)
          some.openUnsafe()
        }
      }

      const hasRoom = () => waiting.length < most

      const admit = Effect.suspend(() => {
        if (hasRoom()) return Effect.void
        const first = !refusing
        refusing = true
        const words = `Requests are refused, because ${waiting.length} answered ones wait to be recorded.`
        return Metric.update(requestsRefusedTotal, 1).pipe(
          Effect.andThen(first ? Effect.logError(words) : Effect.void),
          Effect.andThen(Effect.fail(full)),
        )
      })

      /** A row leaves only when it is written: an interruption in between writes it again, which changes nothing. */
      const writeOnce = Effect.suspend(() => {
        const sent = batch ??= makeUsageBatch(waiting.slice(0, mostAtOnce))
        return Effect.andThen(
          write(sent),
          Effect.suspend(() => {
            waiting.splice(0, sent.rows.length)
            batch = undefined
            refusing = false
            return Metric.update(rowsWritten, sent.rows.length)
          }),
        )
      })

      let refusalsTaken: ReturnType<typeof refusals.take> | undefined

      const writeRefusalsOnce = Effect.suspend(() => {
        const { batch, written } = refusalsTaken ??= refusals.take(mostAtOnce)
        return Effect.andThen(
          writeRefusals(batch),
          Effect.suspend(() => {
            written()
            refusalsTaken = undefined
            return Metric.update(rowsWritten, batch.reduce((sum, { from, to }) => sum + to.requests - from.requests, 0))
          }),
        )
      })

      const failed = (error: { readonly message: string }) =>
        Effect.andThen(
          Metric.update(writesFailed, 1),
          Effect.logWarning(
            `Usage was not recorded and will be; ${waiting.length + refusals.rows()} rows wait: ${error.message}`,
          ),
        )

      // Whatever goes wrong, the writer goes on; what it could not write is still there.
      const persistently = (write: typeof writeOnce) =>
        write.pipe(
          Effect.timeout(longestWrite),
          Effect.catchDefect((defect) => Effect.fail(new WriterFailed({ message: String(defect) }))),
          Effect.tapError(failed),
          Effect.retry(again),
        )
      const persist = persistently(writeOnce)
      const persistRefusals = persistently(writeRefusalsOnce)

      const writer = Effect.gen(function* () {
        yield* some.await
        if (waiting.length < mostAtOnce) yield* Effect.sleep(gathering)
        yield* persist
        if (waiting.length === 0) some.closeUnsafe()
      })

      // In a loop of its own, so that other requests are recorded whatever becomes of it.
      const refusalWriter = Effect.gen(function* () {
        yield* someRefusals.await
        yield* Effect.sleep(refusalsGather)
        yield* persistRefusals
        if (refusals.rows() === 0) someRefusals.closeUnsafe()
      })

      const writeAll = Effect.all([
        Effect.whileLoop({ while: () => waiting.length > 0, body: () => persist, step: () => {} }),
        Effect.whileLoop({ while: () => refusals.rows() > 0, body: () => persistRefusals, step: () => {} }),
      ], { concurrency: 2, discard: true })

      const lost = Effect.suspend(() => {
        const requests = waiting.length + refusals.requests()
        const cost = waiting.reduce((sum, { cost_microdollars }) => sum + cost_microdollars, 0)
        return Effect.andThen(
          Metric.update(rowsLostTotal, requests),
          Effect.logError(`${requests} requests, of ${cost} microdollars, could not be recorded before the end.`),
        )
      })

      const finish = Effect.timeoutOrElse(writeAll, { duration: lastPatience, orElse: () => lost })
      yield* addForkedFinalizer(finish)
      yield* Effect.forkScoped(Effect.withTracerEnabled(Effect.forever(writer), false))
      yield* Effect.forkScoped(Effect.withTracerEnabled(Effect.forever(refusalWriter), false))
      return Metering.of({ requireCapacity: admit, hasCapacity: hasRoom, record })
    }),
  )
}
