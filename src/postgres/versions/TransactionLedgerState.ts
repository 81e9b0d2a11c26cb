/**
 * The state of the primary's transaction ledger at the last poll: the primary's clock, and the timestamp up to which
 * the ledger is complete.
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../DecodeRows.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { makeHistoryTimestampSql } from "../../contract/rules/Dates.ts"

/** The timestamps in a poll, such as `2026-03-01T10:00:00.123456-05:00`. They can be compared as text. */
const LedgerRow = Schema.Struct({
  clock: Schema.String,
  /** Any later statement sees all transactions up to this timestamp. Null while a transaction is committing. */
  settled: Schema.NullOr(Schema.String),
  /** The earliest timestamp that `as_of` accepts. */
  earliest: Schema.String,
})

/** The polled state of the transaction ledger. */
export interface TransactionLedgerState extends Pick<typeof LedgerRow.Type, "clock" | "earliest"> {
  /** When the poll started, in monotonic milliseconds. */
  readonly polledAt: number
  readonly settled: string | undefined
}

const decodeLedger = decodeRows(LedgerRow)

/**
 * Returns a function that polls the transaction ledger, the table `history.transactions`. It takes the state returned
 * by the previous poll, and returns the current state.
 *
 * A transaction sets its `recorded_at` under an exclusive advisory lock and holds the lock until its commit is visible.
 * So while nobody holds the lock, all transactions up to the current time are visible.
 */
export const makeTransactionLedgerPoll = (sql: SqlClient.SqlClient) => {
  // The query returns one row: the database's clock, the earliest timestamp in the history, and `settled`, which is
  // null if a transaction is committing. `materialized` makes PostgreSQL try the lock before it reads the clock.
  // `settled` excludes the current microsecond, because the next transaction may still be assigned that time. 7101886
  // is the lock that a transaction holds while it commits.
  const query = sql.literal(`
    with lock as materialized (select pg_try_advisory_xact_lock_shared(7101886) as is_free)
    select ${makeHistoryTimestampSql("clock_timestamp()")} as clock, ${makeHistoryTimestampSql("earliest")} as earliest,
      case when is_free then ${makeHistoryTimestampSql("clock_timestamp() - interval '1 microsecond'")} end as settled
    from lock cross join history.beginning
  `)
  return Effect.fnUntraced(function* (previous: TransactionLedgerState | undefined) {
    const now = yield* makeMonotonicClock
    const polledAt = now()
    const [row] = yield* decodeLedger(sql`${query}`)
    if (row === undefined) return undefined
    // While a transaction commits, the previous `settled` timestamp is still correct.
    return { ...row, polledAt, settled: row.settled ?? previous?.settled } satisfies TransactionLedgerState
  })
}
