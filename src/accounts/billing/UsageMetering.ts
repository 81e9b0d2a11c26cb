/**
 * Records requests in batches, in the background (D29, usage). Requests stay in memory until PostgreSQL has stored
 * them. When too many are waiting, new requests are refused, because unrecorded requests cannot be billed.
 */
import { Config, Context, Data, Duration, Effect, Latch, Layer, Metric, Schedule, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { addForkedFinalizer, forkUntraced } from "../../postgres/metrics/BackgroundFibers.ts"
import { initializeCounters, makeCounter, registerGauge } from "../../postgres/metrics/CallbackMetrics.ts"
import { describeFailure } from "../../postgres/FailureText.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import { getDateInNewYork } from "../../contract/rules/Dates.ts"
import { DatabasePoolTimeout } from "../../contract/rules/ApiErrors.ts"
import { makeFailedRequestCounter } from "./FailedRequestCounter.ts"
import { PrepaidBalances } from "./PrepaidBalances.ts"
import { makeThrottledRequestCounter } from "./ThrottledRequestCounter.ts"
import { maxBatchRows, UsageColumns } from "./UsageColumns.ts"
import type { UsageRecord } from "./UsageRecord.ts"
import { makeThrottledRequestCountWriter, makeUsageWriter, type UsageBatch } from "./UsageWriter.ts"

/** Maximum number of requests waiting to be recorded. Beyond it, new requests are refused. */
export const UsageBufferSizeConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000_000 })),
  "USAGE_BUFFER",
).pipe(Config.withDefault(100_000))

/** Maximum number of empty batches retained for reuse. Each takes 0.25 MB. */
const maxReusableBatches = 8

/**
 * How long rows are collected before they are written. A process that is killed loses less than one second of usage.
 */
const usageDelay = Duration.millis(250)
const throttledDelay = Duration.millis(500)

/**
 * Time limit for one write. It exceeds PostgreSQL's `statement_timeout` of 30 seconds, which normally ends the write
 * first.
 */
const writeTimeout = Duration.seconds(36)

const retryDelay = Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")])

/** If usage has been waiting for this long without any being written, the response of `/health/ready` reports it. */
const lateAfterSeconds = 10

/** Time limit for writing the waiting rows during shutdown. */
const shutdownTimeout = Duration.seconds(20)

const rowsWrittenTotal = makeCounter("tickerline_usage_rows_written_total", "Requests recorded.")
const writesFailedTotal = makeCounter(
  "tickerline_usage_writes_failed_total",
  "Failed attempts to record requests. They are repeated.",
)

/** Counts requests refused because too many requests were waiting to be recorded. */
export const usageBufferRefusalsTotal = makeCounter(
  "tickerline_usage_requests_refused_total",
  "Requests refused because too many requests wait to be recorded.",
)

/** Counts requests lost because the process ended before recording them. */
export const usageRecordsLostTotal = makeCounter(
  "tickerline_usage_rows_lost_total",
  "Requests that a process could not record before it ended.",
)

class UsageWriteFailed extends Data.TaggedError("UsageWriteFailed")<{ readonly message: string }> {}

const bufferFull = new DatabasePoolTimeout({
  error: { message: "The usage of requests cannot be recorded at the moment. Retry in a few seconds." },
})

/** A queue of rows that are written in batches. A row is a request, or a count of requests refused with 429. */
interface WaitingRows<Batch> {
  /** Returns how many rows are waiting. */
  readonly count: () => number
  /** How long rows are collected before they are written. */
  readonly delay: Duration.Duration
  /** Returns the next batch. Its rows stay in the queue until `remove` is called. */
  readonly takeBatch: () => Batch
  /** Writes a batch. Must be idempotent. */
  readonly write: (batch: Batch) => Effect.Effect<unknown, { readonly message: string }>
  /** Removes the rows of a written batch from the queue. Returns how many requests they contained. */
  readonly remove: (batch: Batch) => number
}

/**
 * Returns a loop that writes waiting rows in batches, in a background fiber. A failed batch is retried after any error
 * until it is written, because usage must not be lost.
 */
const makeWriteLoop = <Batch>(
  { count, delay, remove, takeBatch, write }: WaitingRows<Batch>,
  now: () => number,
  reportFailure: (error: unknown) => Effect.Effect<void>,
) => {
  const hasRows = Latch.makeUnsafe()
  /** The last time rows were written, or the time when the first waiting row was added, whichever is later. */
  let stalledSince = now()
  /** The batch being written. A retry sends the same batch, so its rows are not counted twice. */
  let batch: Batch | undefined

  const writeBatch = Effect.suspend(() => {
    const sent = batch ??= takeBatch()
    return Effect.andThen(
      write(sent),
      Effect.suspend(() => {
        const requests = remove(sent)
        stalledSince = now()
        batch = undefined
        return Metric.update(rowsWrittenTotal, requests)
      }),
    )
  })
  /** Writes one batch, and retries after any error or defect until it succeeds. */
  const persist = writeBatch.pipe(
    Effect.timeout(writeTimeout),
    Effect.catchDefect((defect) => Effect.fail(new UsageWriteFailed({ message: describeFailure(defect) }))),
    Effect.tapError(reportFailure),
    Effect.retry(retryDelay),
  )
  return {
    /** Must be called before a row is added. */
    wake: () => {
      if (count() === 0) stalledSince = now()
      hasRows.openUnsafe()
    },
    /** Returns for how many seconds rows have been waiting without any being written. */
    readStalledSeconds: () => count() === 0 ? 0 : (now() - stalledSince) / 1000,
    /** Writes the rows that are left, during a shutdown. */
    writeRemaining: Effect.whileLoop({ while: () => count() > 0, body: () => persist, step: () => {} }),
    writeForever: Effect.gen(function* () {
      yield* hasRows.await
      if (count() < maxBatchRows) yield* Effect.sleep(delay)
      yield* persist
      if (count() === 0) hasRows.closeUnsafe()
    }).pipe(Effect.forever),
  }
}

/**
 * Sums up an account's requests in the given batches. `today` is the current date in New York. The returned object
 * becomes a row in SQL. It contains the number of requests today, their cost today, this month and in total, and the
 * time of the newest request that cost anything.
 */
const summarize = (batches: ReadonlyArray<UsageColumns>, account_id: number, today: string) => {
  const requests = batches.flatMap((rows) =>
    rows.findIndexes(account_id).map((index) => {
      const [requested_at = 0, cost = 0] = [rows.times[index], rows.costs[index]]
      return { cost, date: getDateInNewYork(requested_at), requested_at }
    })
  )
  // Dates are `YYYY-MM-DD`, so comparing them as text compares them in time. Every date is after the empty string.
  const sumCost = (since: string) => requests.reduce((sum, { cost, date }) => date >= since ? sum + cost : sum, 0)
  const chargedAt = requests.reduce(
    (newest, { cost, requested_at }) => cost > 0 ? Math.max(newest, requested_at) : newest,
    0,
  )
  return {
    requests_today: requests.filter(({ date }) => date === today).length,
    cost_today: sumCost(today),
    cost_this_month: sumCost(`${today.slice(0, 7)}-01`),
    cost: sumCost(""),
    charged_at: chargedAt === 0 ? null : new Date(chargedAt).toISOString(),
  }
}

type UsageSums = ReturnType<typeof summarize>

/** An account's usage that was in this process's memory when a statement was built. */
interface UnwrittenUsage {
  readonly account_id: number
  /**
   * Sums over parts of the usage. `last` is the last sequence number of the batch being written, which may already be
   * in the database, or null if the part certainly is not.
   */
  readonly parts: ReadonlyArray<UsageSums & { readonly last: number | null }>
  /** Today's counts of requests refused with 429 that are not completely in the database. */
  readonly throttled: ReturnType<ReturnType<typeof makeThrottledRequestCounter>["findWaiting"]>
  /** This process's writer number, or undefined if it has not written anything yet. */
  readonly writer: number | undefined
}

/**
 * Builds a query for one row with the sums of an account's unwritten usage: the number of requests today
 * (`requests_today`), their cost today, this month and in total, and the time of the newest request that cost anything
 * (`charged_at`).
 *
 * The usage consists of `parts`, such as the batch that is being written and the requests after it; the sums of each
 * are sent as a row of `unwritten`. The write may have succeeded although this process does not know it yet. So the
 * query leaves out a part whose last sequence number the database already has, and subtracts the counts of throttled
 * requests that it already has. Parts that the database certainly lacks have no sequence number (`last` is null).
 * Throttled requests are found by ID and time because `usage` is partitioned by time.
 */
const buildUnwrittenQuery = (
  sql: SqlClient.SqlClient,
  { account_id, parts, throttled, writer }: UnwrittenUsage,
): Statement.Fragment => {
  const throttledRequests = throttled.reduce((total, { requests }) => total + requests, 0)
  // `written` is the last sequence number that the database has recorded for this process.
  return sql`
        select
          -- Rows for throttled requests may already be in the database with an earlier count, which is subtracted.
          sum(requests_today)::bigint + ${throttledRequests}::float8::bigint - (
            select coalesce(sum(request_count), 0)::bigint from usage
            where usage.account_id = ${account_id}::float8::bigint
              and usage_id = any(${makeArrayParameter(throttled.map(({ id }) => id), OID.uuid)})
              and requested_at = any(${
    makeArrayParameter(throttled.map(({ row }) => row.requested_at), OID.timestamptz)
  })
          ) as requests_today,
          sum(cost_today)::bigint as cost_today, sum(cost_this_month)::bigint as cost_this_month,
          sum(cost)::bigint as cost, max(charged_at) as charged_at
        from jsonb_to_recordset(${JSON.stringify(parts)}::text::jsonb) as unwritten (
          last integer, requests_today bigint, cost_today bigint, cost_this_month bigint, cost bigint,
          charged_at timestamptz
        )
        -- Leaves out the batch being written if the database already contains it.
        where last is null or last > coalesce(
          (select written from usage_writers where writer = ${writer ?? null}::int), 0
        )
      `
}

/**
 * Creates the buffer of requests that are not in the database yet, divided into batches. One batch at a time is
 * written: the write loop gets it from `takeBatch`, and calls `remove` after the write. `PrepaidBalances` learns of
 * every request and of every completed write, so that the requests are charged for exactly once.
 */
const makeUsageBuffer = (
  usageWriter: Effect.Success<typeof makeUsageWriter>,
  balances: PrepaidBalances["Service"],
) => {
  /**
   * Batches that have not been written yet, oldest first. A new request goes into the last batch unless that batch is
   * already being written or is full.
   */
  const waiting: Array<UsageColumns> = []
  let waitingRows = 0
  /** Empty batches for reuse. */
  const reusable: Array<UsageColumns> = []
  /** The batch being written, which is the first one in `waiting`. */
  let sending: UsageBatch | undefined
  let writtenBatches = 0

  const addColumns = () => {
    const columns = reusable.pop() ?? new UsageColumns()
    waiting.push(columns)
    return columns
  }

  return {
    /** Adds a completed request. */
    add: (row: UsageRecord) => {
      const last = waiting.at(-1)
      if (last === undefined || last === sending?.rows || !last.add(row)) addColumns().add(row)
      waitingRows += 1
      balances.addCharge(row)
    },
    /** Returns the next batch to write. Its requests stay in the buffer until `remove` is called. */
    takeBatch: () => {
      sending = usageWriter.makeBatch(waiting[0] ?? addColumns())
      balances.beginWrite(sending, usageWriter.getWriter)
      return sending
    },
    /** Removes the batch that has been written. Returns how many requests it contained. */
    remove: ({ rows }: UsageBatch) => {
      const { length } = rows
      sending = undefined
      writtenBatches += 1
      waitingRows -= length
      waiting.shift()
      balances.completeCharges(rows)
      rows.clear()
      if (reusable.length < maxReusableBatches) reusable.push(rows)
      return length
    },
    countRows: () => waitingRows,
    /** Returns how many batches have been written since the process started. */
    countWrittenBatches: () => writtenBatches,
    /** Returns the batch being written, if any, and the columns of all other batches. */
    listBatches: () => ({ sending, others: waiting.slice(sending === undefined ? 0 : 1) }),
    /** Returns the total cost of the requests in the buffer, in microdollars. */
    sumCosts: () => {
      const costs = waiting.flatMap((rows) => Array.from(rows.costs.subarray(0, rows.length)))
      return costs.reduce((sum, cost) => sum + cost, 0)
    },
  }
}

/**
 * Builds the functions that record requests, refuse them if they cannot be recorded, and report an account's unwritten
 * usage. Requests are stored in memory and written by two background loops: one for requests, and one for counts of
 * requests refused with 429. During a shutdown, both loops write what is left.
 */
const makeUsageMetering = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const maxWaiting = yield* UsageBufferSizeConfig
  const usageWriter = yield* makeUsageWriter
  const writeThrottledCounts = yield* makeThrottledRequestCountWriter
  const balances = yield* PrepaidBalances
  yield* initializeCounters(rowsWrittenTotal, writesFailedTotal, usageBufferRefusalsTotal, usageRecordsLostTotal)
  const buffer = makeUsageBuffer(usageWriter, balances)
  const throttled = makeThrottledRequestCounter()
  yield* registerGauge({
    name: "tickerline_usage_rows_waiting",
    description: "Rows of usage not written yet.",
    read: () => buffer.countRows() + throttled.countWaitingRows(),
  })
  const now = yield* makeMonotonicClock
  /** Whether a request has been refused since the last write. Only the first refusal is logged. */
  let isRefusing = false

  /** Counts and logs a failed write. */
  const reportFailure = (error: unknown) =>
    Effect.andThen(
      Metric.update(writesFailedTotal, 1),
      Effect.logWarning(
        `Usage was not recorded and will be retried; ${buffer.countRows() + throttled.countWaitingRows()} rows wait: ${
          describeFailure(error)
        }`,
      ),
    )

  const writeInLoop = <Batch>(rows: WaitingRows<Batch>) => makeWriteLoop(rows, now, reportFailure)

  const usageLoop = writeInLoop({
    count: buffer.countRows,
    delay: usageDelay,
    takeBatch: buffer.takeBatch,
    write: usageWriter.write,
    remove: (batch) => {
      isRefusing = false
      return buffer.remove(batch)
    },
  })
  // Throttled requests are written by a separate loop, so that they never delay the recording of billed requests.
  const throttledLoop = writeInLoop({
    count: throttled.countWaitingRows,
    delay: throttledDelay,
    takeBatch: () => throttled.takeBatch(maxBatchRows),
    write: ({ batch }) => writeThrottledCounts(batch),
    remove: ({ batch, markWritten }) => {
      markWritten()
      return batch.reduce(
        (sum, { countsAfter, countsBefore }) => sum + countsAfter.requests - countsBefore.requests,
        0,
      )
    },
  })
  const loops = [usageLoop, throttledLoop]
  const readUnwrittenSeconds = () => Math.max(...loops.map(({ readStalledSeconds }) => readStalledSeconds()))
  yield* registerGauge({
    name: "tickerline_usage_unwritten_seconds",
    description: "How long no usage, or no request refused with 429, has been written although some wait; else 0.",
    read: readUnwrittenSeconds,
  })

  /** Adds a completed request to those that are waiting to be written. It is normally written within half a second. */
  const record = (row: UsageRecord) => {
    if (row.status_code === 429) {
      throttledLoop.wake()
      throttled.add(row)
    } else {
      usageLoop.wake()
      buffer.add(row)
    }
  }

  /**
   * Returns a subquery for the account's usage that the surrounding statement cannot see yet, because it is still in
   * this process's memory. It selects one row of sums (`buildUnwrittenQuery`). `today` is the current date in New York.
   * If `isCurrent` returns false after the statement, usage was written in the meantime, and the statement must be run
   * again.
   */
  const makeUnwrittenSql = (account_id: number, today: string) => {
    const { others: otherBatches, sending } = buffer.listBatches()
    const sent = {
      ...summarize(sending === undefined ? [] : [sending.rows], account_id, today),
      last: sending?.last ?? null,
    }
    const others = { ...summarize(otherBatches, account_id, today), last: null }
    // The remaining unwritten costs belong to open streams, which are recorded once a minute. They are not requests, so
    // all other sums of `streams` are those of no requests.
    const streamCost = balances.getUnwrittenCost(account_id) - sent.cost - others.cost
    const streams = {
      ...summarize([], account_id, today),
      cost_today: streamCost,
      cost_this_month: streamCost,
      cost: streamCost,
      last: null,
    }
    const writtenBefore = buffer.countWrittenBatches()
    return {
      query: buildUnwrittenQuery(sql, {
        account_id,
        parts: [sent, others, streams],
        throttled: throttled.findWaiting(account_id)
          .filter(({ row }) => getDateInNewYork(row.requested_at) === today),
        writer: usageWriter.getWriter(),
      }),
      isCurrent: () => buffer.countWrittenBatches() === writtenBefore,
    }
  }

  /** Returns whether another request can be recorded. Unlike `requireCapacity`, it does not count or log refusals. */
  const hasCapacity = () => buffer.countRows() < maxWaiting

  /** Fails with 503 while too many requests wait to be recorded. */
  const requireCapacity = Effect.suspend(() => {
    if (hasCapacity()) return Effect.void
    const isNew = !isRefusing
    isRefusing = true
    const message = `Requests are refused because ${buffer.countRows()} requests wait to be recorded.`
    return Metric.update(usageBufferRefusalsTotal, 1).pipe(
      Effect.andThen(isNew ? Effect.logError(message) : Effect.void),
      Effect.andThen(Effect.fail(bufferFull)),
    )
  })

  /** Counts and logs the requests that are lost when the process ends. */
  const reportLoss = Effect.suspend(() => {
    const requests = buffer.countRows() + throttled.countWaitingRequests()
    const cost = buffer.sumCosts()
    return Effect.andThen(
      Metric.update(usageRecordsLostTotal, requests),
      Effect.logError(
        `${requests} requests, worth ${cost} microdollars, could not be recorded before the process ended.`,
      ),
    )
  })

  const writeRemaining = Effect.forEach(loops, (loop) => loop.writeRemaining, {
    concurrency: "unbounded",
    discard: true,
  })
  const finish = Effect.timeoutOrElse(writeRemaining, { duration: shutdownTimeout, orElse: () => reportLoss })
  yield* addForkedFinalizer(finish)
  yield* Effect.forEach(loops, ({ writeForever }) => forkUntraced(writeForever))
  /**
   * Returns whether usage has been waiting for longer than `lateAfterSeconds` without any being written. The log
   * contains the reason.
   */
  const isLate = () => readUnwrittenSeconds() > lateAfterSeconds

  const countFailure = yield* makeFailedRequestCounter
  return { requireCapacity, hasCapacity, isLate, record, makeUnwrittenSql, countFailure }
})

/** Records usage, and refuses requests whose usage cannot be recorded. */
export class UsageMetering extends Context.Service<UsageMetering, Effect.Success<typeof makeUsageMetering>>()(
  "tickerline/accounts/UsageMetering",
) {
  static readonly layer = Layer.effect(UsageMetering, makeUsageMetering)
}
