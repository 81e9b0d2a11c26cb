/**
 * D29: requests refused with 429 until they are recorded. A client may send any number of them for free, so they are
 * not kept one by one: each account and endpoint has one row for a minute, which counts them.
 */
import { SecureRandom } from "effect/crypto"
import type { RefusalCount } from "./RefusedUsage.ts"
import type { UsageRecord } from "./UsageWriter.ts"

const minuteLength = 60_000

/** Once so many rows wait to be written, a later minute is counted in the row of an earlier one. */
const maxWaiting = 10_000

interface Tally {
  readonly id: string
  readonly row: UsageRecord
  readonly minute: number
  requests: number
  bytes: number
  written: RefusalCount["to"]
}

const nothing = { requests: 0, bytes: 0 }

export const makeRefusalCounter = (most = maxWaiting) => {
  /** The latest row of each account and endpoint. */
  const current = new Map<string, Tally>()
  /** Rows that have grown since they were written. */
  const waiting = new Set<Tally>()
  let latest = -Infinity

  /** Rows of former minutes that are written need no memory. */
  const forget = () => {
    for (const [name, tally] of current) if (!waiting.has(tally)) current.delete(name)
  }

  const begin = (name: string, row: UsageRecord, minute: number): Tally => {
    const tally = { id: SecureRandom.uuidV7Unsafe(), row, minute, ...nothing, written: nothing }
    current.set(name, tally)
    return tally
  }

  const add = (row: UsageRecord) => {
    const minute = Math.floor(row.requested_at / minuteLength)
    if (minute > latest) {
      latest = minute
      forget()
    }
    const name = `${row.account_id} ${row.endpoint}`
    const known = current.get(name)
    const isOver = known !== undefined && minute > known.minute && waiting.size < most
    const tally = known === undefined || isOver ? begin(name, row, minute) : known
    tally.requests += 1
    tally.bytes += row.bytes
    waiting.add(tally)
  }

  /** What the next statement writes. It stays the same however often it is sent. */
  const take = (rows: number) => {
    const taken = Array.from(waiting.values().take(rows))
    const batch = taken.map((tally): RefusalCount => ({
      id: tally.id,
      row: tally.row,
      from: tally.written,
      to: { requests: tally.requests, bytes: tally.bytes },
    }))
    const written = () => {
      for (const [index, tally] of taken.entries()) {
        tally.written = batch[index]?.to ?? tally.written
        waiting.delete(tally)
        // A row that has grown meanwhile waits behind the others.
        if (tally.requests > tally.written.requests) waiting.add(tally)
      }
    }
    return { batch, written }
  }

  return {
    add,
    take,
    /** Rows that wait to be written. */
    rows: () => waiting.size,
    /** Requests that are not written yet. */
    requests: () => waiting.values().reduce((sum, { requests, written }) => sum + requests - written.requests, 0),
    /** Rows in memory, written or not. */
    size: () => new Set([...current.values(), ...waiting]).size,
  }
}
