/**
 * D29 (usage): holds counts of requests refused with 429 until they are written. Refused requests are free, and clients
 * may send any number of them, so each account has one row per endpoint and minute instead of one row per request.
 */
import { SecureRandom } from "effect/crypto"
import type { ThrottledRequestCount, UsageRecord } from "./UsageWriter.ts"

const minuteMillis = 60_000

/** While this many tallies wait for a write, requests of a new minute are added to the tally of an earlier minute. */
const maxWaitingRows = 10_000

interface Tally {
  readonly id: string
  readonly row: UsageRecord
  readonly minute: number
  requests: number
  bytes: number
  writtenCounts: ThrottledRequestCount["countsAfter"]
}

const zero = { requests: 0, bytes: 0 }

export const makeThrottledRequestCounter = (maxWaiting = maxWaitingRows) => {
  /** The newest tally of each account and endpoint. */
  const current = new Map<string, Tally>()
  /** Tallies with requests that are not in the database yet. */
  const waiting = new Set<Tally>()
  let latestMinute = -Infinity

  const deleteWrittenRows = () => {
    for (const [name, tally] of current) if (!waiting.has(tally)) current.delete(name)
  }

  const makeTally = (name: string, row: UsageRecord, minute: number): Tally => {
    const tally = { id: SecureRandom.uuidV7Unsafe(), row, minute, ...zero, writtenCounts: zero }
    current.set(name, tally)
    return tally
  }

  const add = (row: UsageRecord) => {
    const minute = Math.floor(row.requested_at / minuteMillis)
    if (minute > latestMinute) {
      latestMinute = minute
      deleteWrittenRows()
    }
    const name = `${row.account_id} ${row.endpoint}`
    const known = current.get(name)
    const isNextMinute = known !== undefined && minute > known.minute && waiting.size < maxWaiting
    const tally = known === undefined || isNextMinute ? makeTally(name, row, minute) : known
    tally.requests += 1
    tally.bytes += row.bytes
    waiting.add(tally)
  }

  /** Returns the next batch, and a function to call after the batch is written. A failed write may be repeated. */
  const takeBatch = (maxRows: number) => {
    const taken = Array.from(waiting.values().take(maxRows))
    const batch = taken.map((tally): ThrottledRequestCount => ({
      id: tally.id,
      row: tally.row,
      countsBefore: tally.writtenCounts,
      countsAfter: { requests: tally.requests, bytes: tally.bytes },
    }))
    const markWritten = () => {
      for (const [index, tally] of taken.entries()) {
        tally.writtenCounts = batch[index]?.countsAfter ?? tally.writtenCounts
        waiting.delete(tally)
        // If requests were added during the write, the tally goes to the end of the queue.
        if (tally.requests > tally.writtenCounts.requests) waiting.add(tally)
      }
    }
    return { batch, markWritten }
  }

  return {
    add,
    takeBatch,
    countWaitingRows: () => waiting.size,
    countWaitingRequests: () =>
      waiting.values().reduce((sum, { requests, writtenCounts }) => sum + requests - writtenCounts.requests, 0),
    /** Returns the number of tallies in memory, including those that are completely written. */
    countRows: () => new Set([...current.values(), ...waiting]).size,
  }
}
