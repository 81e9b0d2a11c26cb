/**
 * A row that is written all the time, a higher number each time, through the primary; so whoever reads it can tell
 * whether what was read is older than D17 allows, or was never committed for good.
 */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { performance } from "node:perf_hooks"

export const counterTicker = "MARK9"

/** What a write that nobody may ever read begins at: a server accepted it that was cut off. */
export const forbiddenCount = 1_000_000_000

/** D17: what was committed longer ago than that is seen. Clocks are one, since all hosts are of one machine. */
const promised = 1000

interface Committed {
  readonly number: number
  /** When the commit was known to its writer. */
  readonly at: number
}

export const startCommitCounter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into screener (ticker, is_adr, outstanding, num_gaps, num_runners, pending_s1, last_updated)
    values (${counterTicker}, false, 0, 0, 0, false, '2026-01-02 00:00:00')
  `
  const committed: Array<Committed> = [{ number: 0, at: performance.now() }]
  let begun = 0
  let judging = true
  /** While commits may be lost, nothing that was committed before is promised. */
  let from = 0

  const write = Effect.suspend(() => {
    begun += 1
    const number = begun
    return sql`update screener set outstanding = ${
      String(number)
    }::text::bigint where ticker = ${counterTicker} returning 1`
      .pipe(
        Effect.timeout("5 seconds"),
        Effect.map((rows) => {
          if (rows.length === 1) committed.push({ number, at: performance.now() })
          return number
        }),
      )
  })
  const tried = Effect.ignore(write)
  yield* Effect.forkScoped(Effect.repeat(tried, Schedule.spaced("100 millis")))

  /** The highest that everybody must have seen who asked at this moment. */
  const dueAt = (moment: number) => {
    let [low, high] = [0, committed.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((committed[middle]?.at ?? Infinity) <= moment - promised) low = middle + 1
      else high = middle
    }
    const last = committed[low - 1]
    return last === undefined || last.at < from ? undefined : last
  }

  /** What is wrong with having read this number; empty: nothing. */
  const judge = (number: number, askedAt: number) => {
    if (number >= forbiddenCount) return `${number} was accepted by a server that was cut off`
    if (number > begun) return `${number} was never written`
    const due = judging ? dueAt(askedAt) : undefined
    return due === undefined || number >= due.number
      ? ""
      : `${number} was read ${Math.round(askedAt - due.at)} ms after ${due.number} was committed`
  }

  /** Waits for the next commit. */
  const next = Effect.suspend(() => {
    const before = committed.length
    return Effect.repeat(Effect.sync(() => committed.length), {
      until: (now) => now > before,
      schedule: Schedule.spaced("20 millis"),
    })
  })
  /** From now on commits may be lost, until one that comes after `settled`. */
  const mayLose = Effect.sync(() => {
    judging = false
  })
  const settled = Effect.andThen(
    next,
    Effect.sync(() => {
      from = committed.at(-1)?.at ?? 0
      judging = true
    }),
  )
  const last = () => committed.at(-1)?.number ?? 0
  return { judge, next, mayLose, settled, last }
})

export type CommitCounter = Effect.Success<typeof startCommitCounter>
