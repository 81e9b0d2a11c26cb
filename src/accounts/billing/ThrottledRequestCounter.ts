/**
 * Counts requests refused with 429, and retains the counts until they are written to the database (D29, usage). Such
 * requests are free, and clients may send any number of them. They are therefore stored as one row per account,
 * endpoint and minute instead of one row per request.
 */
import { SecureRandom } from "effect/crypto"
import type { UsageRecord } from "./UsageRecord.ts"
import type { ThrottledRequestCount } from "./UsageWriter.ts"

const minuteMillis = 60_000

/**
 * Once this many rows are waiting to be written, requests in a new minute are added to an earlier minute's row. This
 * limits memory use.
 */
const maxWaitingRows = 10_000

/** A row of the table `usage`: one account's requests to one endpoint that were refused in one minute. */
interface MinuteCount {
  readonly id: string
  readonly row: UsageRecord
  readonly minute: number
  requests: number
  bytes: number
  /** The counts that are already in the database. */
  writtenCounts: ThrottledRequestCount["countsAfter"]
}

const zero = { requests: 0, bytes: 0 }

/**
 * Creates a process's counter of throttled requests. It counts them in one row per account, endpoint and minute. A row
 * has the details of the first request (`row`), the counts so far (`requests`, `bytes`), and the counts that have been
 * written to the database (`writtenCounts`). While `maxWaiting` or more rows are waiting to be written, further
 * requests of an account are added to its last row, even in a later minute, so that memory use stays limited.
 */
export const makeThrottledRequestCounter = (maxWaiting = maxWaitingRows) => {
  /** The newest row of each account and endpoint, keyed by both. */
  const current = new Map<string, MinuteCount>()
  /** Rows with requests that are not in the database yet. */
  const waiting = new Set<MinuteCount>()
  let latestMinute = -Infinity

  const deleteWrittenRows = () => {
    for (const [key, count] of current) if (!waiting.has(count)) current.delete(key)
  }

  const makeMinuteCount = (key: string, row: UsageRecord, minute: number): MinuteCount => {
    const count = { id: SecureRandom.uuidV7Unsafe(), row, minute, ...zero, writtenCounts: zero }
    current.set(key, count)
    return count
  }

  /** Counts a refused request. The first request in a minute starts a new row. */
  const add = (row: UsageRecord) => {
    const minute = Math.floor(row.requested_at / minuteMillis)
    if (minute > latestMinute) {
      latestMinute = minute
      deleteWrittenRows()
    }
    const key = `${row.account_id} ${row.endpoint}`
    const known = current.get(key)
    const isNextMinute = known !== undefined && minute > known.minute && waiting.size < maxWaiting
    const count = known === undefined || isNextMinute ? makeMinuteCount(key, row, minute) : known
    count.requests += 1
    count.bytes += row.bytes
    waiting.add(count)
  }

  /**
   * Returns the next rows to write, at most `maxRows`, and a function to call once they have been written. If the write
   * fails, the same batch can be written again.
   */
  const takeBatch = (maxRows: number) => {
    const taken = Array.from(waiting.values().take(maxRows))
    const batch = taken.map((count): ThrottledRequestCount => ({
      id: count.id,
      row: count.row,
      countsBefore: count.writtenCounts,
      countsAfter: { requests: count.requests, bytes: count.bytes },
    }))
    const markWritten = () => {
      for (const [index, count] of taken.entries()) {
        count.writtenCounts = batch[index]?.countsAfter ?? count.writtenCounts
        waiting.delete(count)
        // If requests were added during the write, the row goes to the end of the queue.
        if (count.requests > count.writtenCounts.requests) waiting.add(count)
      }
    }
    return { batch, markWritten }
  }

  return {
    add,
    takeBatch,
    /** Returns an account's rows that contain requests which are not in the database yet. */
    findWaiting: (account_id: number) => Array.from(waiting).filter(({ row }) => row.account_id === account_id),
    countWaitingRows: () => waiting.size,
    countWaitingRequests: () =>
      waiting.values().reduce((sum, { requests, writtenCounts }) => sum + requests - writtenCounts.requests, 0),
    /** Returns the number of rows in memory, including fully written ones. */
    countRows: () => new Set([...current.values(), ...waiting]).size,
  }
}
