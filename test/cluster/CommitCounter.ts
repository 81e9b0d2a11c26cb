/**
 * Writes increasing numbers to one row on the primary. From the number that a client reads through the service, the
 * test can determine whether the data is older than D17 (caching) allows, or comes from a lost commit.
 */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { performance } from "node:perf_hooks"

/** The ticker of the counter row in `screener`. */
export const counterTicker = "MARK9"

/** A number that a scenario commits on an isolated server. No client may ever read it. */
export const forbiddenCounterValue = 1_000_000_000

/** The maximum age of data (D17). All hosts share one clock. */
const maxAgeMillis = 1000

interface Committed {
  readonly number: number
  /** The time at which the writer received the commit's confirmation (`performance.now()`). */
  readonly at: number
}

/** Inserts the counter row, and updates it ten times a second until the scope closes. */
export const startCommitCounter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into screener (ticker, is_adr, outstanding, num_gaps, num_runners, pending_s1, last_updated)
    values (${counterTicker}, false, 0, 0, 0, false, '2026-01-02 00:00:00')
  `
  const committed: Array<Committed> = [{ number: 0, at: performance.now() }]
  let lastBegun = 0
  let isChecking = true
  /** Commits confirmed before this time (`performance.now()`) may be lost. */
  let checkedFrom = 0

  const write = Effect.suspend(() => {
    lastBegun += 1
    const number = lastBegun
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
  yield* Effect.forkScoped(Effect.repeat(Effect.ignore(write), Schedule.spaced("100 millis")))

  /**
   * Returns the newest commit that a request at `moment` must see, or undefined if no commit exists or the commit may
   * be lost.
   */
  const dueAt = (moment: number) => {
    let [low, high] = [0, committed.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((committed[middle]?.at ?? Infinity) <= moment - maxAgeMillis) low = middle + 1
      else high = middle
    }
    const last = committed[low - 1]
    return last === undefined || last.at < checkedFrom ? undefined : last
  }

  /** Returns the reason why a client must not have read this number, or "" if the number is allowed. */
  const findViolation = (number: number, sentAt: number) => {
    if (number >= forbiddenCounterValue) return `${number} was accepted by a server that was cut off`
    if (number > lastBegun) return `${number} was never written`
    const due = isChecking ? dueAt(sentAt) : undefined
    return due === undefined || number >= due.number
      ? ""
      : `${number} was read ${Math.round(sentAt - due.at)} ms after ${due.number} was committed`
  }

  /** Waits for the next commit. */
  const nextCommit = Effect.suspend(() => {
    const before = committed.length
    return Effect.repeat(Effect.sync(() => committed.length), {
      until: (now) => now > before,
      schedule: Schedule.spaced("20 millis"),
    })
  })
  /** Allows commits to be lost. Stops checking for old data until `resumeCheck`. */
  const allowLoss = Effect.sync(() => {
    isChecking = false
  })
  /** Waits for the next commit, then resumes checking. No later commit may be lost. */
  const resumeCheck = Effect.andThen(
    nextCommit,
    Effect.sync(() => {
      checkedFrom = committed.at(-1)?.at ?? 0
      isChecking = true
    }),
  )
  const getLast = () => committed.at(-1)?.number ?? 0
  return { findViolation, nextCommit, allowLoss, resumeCheck, getLast }
})

/** The running commit counter. */
export type CommitCounter = Effect.Success<typeof startCommitCounter>
