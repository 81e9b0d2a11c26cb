/**
 * The state of the primary's transaction ledger when it was polled: the time by its clock, and up to when it is
 * complete.
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../DecodeRows.ts"
import { makeMonotonicClock } from "../metrics/MonotonicTime.ts"
import { makeMomentSql } from "../../contract/rules/Dates.ts"

/** Timestamps such as `2026-03-01T10:00:00.123456-05:00`, which sort as text. */
const LedgerRow = Schema.Struct({
  clock: Schema.String,
  /** Every later statement sees all transactions up to this moment. Null while a transaction is committing. */
  settled: Schema.NullOr(Schema.String),
  /** The earliest moment that `as_of` can read. */
  earliest: Schema.String,
})

/** The state of the transaction ledger. */
export interface TransactionLedgerState extends Pick<typeof LedgerRow.Type, "clock" | "earliest"> {
  /** Start of the poll, in monotonic milliseconds. */
  readonly polledAt: number
  readonly settled: string | undefined
}

const decodeLedger = decodeRows(LedgerRow)

/**
 * Returns a function that polls the ledger. A transaction sets its `recorded_at` under an exclusive advisory lock,
 * which it holds until its commit is visible. So while nobody holds the lock, all transactions up to now are visible.
 */
export const makeTransactionLedgerPoll = (sql: SqlClient.SqlClient) => {
  // `materialized` makes PostgreSQL try the lock before it reads the clock. The current microsecond is not settled,
  // because the next transaction may still get it.
  const query = sql.literal(`
    with lock as materialized (select pg_try_advisory_xact_lock_shared(7101886) as is_free)
    select ${makeMomentSql("clock_timestamp()")} as clock, ${makeMomentSql("earliest")} as earliest,
      case when is_free then ${makeMomentSql("clock_timestamp() - interval '1 microsecond'")} end as settled
    from lock cross join history.beginning
  `)
  return Effect.fnUntraced(function* (previous: TransactionLedgerState | undefined) {
    const now = yield* makeMonotonicClock
    const polledAt = now()
    const [row] = yield* decodeLedger(sql`${query}`)
    if (row === undefined) return undefined
    // While a transaction commits, what was settled before still is.
    return { ...row, polledAt, settled: row.settled ?? previous?.settled } satisfies TransactionLedgerState
  })
}
