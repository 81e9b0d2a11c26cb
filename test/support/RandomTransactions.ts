/** Runs random transactions on three datasets, for tests of the change feed. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { RandomChooser } from "./RandomChoices.ts"
import { formatReportedSharesInsert, reportedSharesKey } from "./ReportedShares.ts"

/** Returns the integers from 0 to `length - 1`. */
export const range = (length: number) => Array.from({ length }, (_, index) => index)

/**
 * Chooses a random statement (`text`) and its sort key (`order`). Transactions run their statements in the order of
 * these keys, so that two transactions never wait for each other's rows. The statement inserts, updates, moves or
 * deletes rows of a few symbols and days in one of three datasets, so that transactions often touch the same rows.
 * "former" stands for former symbols, and "rename" for ticker changes.
 */
const chooseStatement = (choose: RandomChooser) => {
  const ticker = choose(["AAA", "BBB", "CCC"])
  const day = `2026-01-0${choose([1, 2, 3, 4])}`
  const number = choose([1, 2, 3])
  const statement = choose([
    "shares",
    "shares",
    "removal",
    "move",
    "former",
    "former removal",
    "rename",
    "rename removal",
  ])
  const order = `${statement.split(" ")[0]} ${ticker} ${day}`
  switch (statement) {
    case "shares":
      return {
        order: `shares ${ticker} ${day}`,
        text: `${formatReportedSharesInsert(`values ('${ticker}', '${day}', ${number})`)}
          on conflict (${reportedSharesKey}) do update set outstanding_shares = excluded.outstanding_shares`,
      }
    case "removal":
      return {
        order: `shares ${ticker} ${day}`,
        text: `delete from historical_float_pro where ticker = '${ticker}' and filed_at = '${day}'`,
      }
    case "move":
      return {
        order: `shares ${ticker} ${day}`,
        text: `update historical_float_pro as moved set filed_at = filed_at + 10
          where ticker = '${ticker}' and filed_at = '${day}' and not exists (select from historical_float_pro as other
            where other.ticker = moved.ticker and other.filed_at = moved.filed_at + 10)`,
      }
    case "former":
      return {
        order,
        text: `insert into historical_tickers (ticker, former_ticker, date)
          select '${ticker}', 'OLD${number}', ${number === 1 ? "null" : `date '${day}'`} on conflict do nothing`,
      }
    case "former removal":
      return {
        order,
        text: `delete from historical_tickers where ticker = '${ticker}' and date is not distinct from null`,
      }
    case "rename":
      return {
        order,
        text: `insert into ticker_changes (old_ticker, new_ticker, effective_date, cik, status, company_name)
          select 'OLD${number}', '${ticker}', '${day}', ${number === 1 ? "null" : "'0000000001'"}, 'confirmed', '${day}'
          on conflict (old_ticker, new_ticker, effective_date, cik) do update set status = 'estimated'`,
      }
    default:
      return { order, text: `delete from ticker_changes where new_ticker = '${ticker}' and effective_date = '${day}'` }
  }
}

const rollBack = Effect.fail("abandoned" as const)

/**
 * Runs a transaction with one to eight statements. The statements from `first` to `second` run in a nested transaction
 * (a savepoint), which is rolled back unless `keepsMiddle` is true. In one of four cases (`isAbandoned`), the whole
 * transaction is rolled back at its end.
 */
export const writeRandomTransaction = Effect.fnUntraced(function* (choose: RandomChooser) {
  const sql = yield* SqlClient.SqlClient
  const statements = range(choose([1, 2, 4, 8])).map(() => chooseStatement(choose))
    .toSorted((left, right) => left.order < right.order ? -1 : 1)
  const [first, second] = [choose([0, 1, 2]), choose([2, 3, 8])]
  const isAbandoned = choose([true, false, false, false])
  const keepsMiddle = choose([true, false])
  const run = (from: number, to: number) =>
    Effect.forEach(statements.slice(from, to), ({ text }) => sql.unsafe(text), { discard: true })
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* run(0, first)
    yield* Effect.ignore(sql.withTransaction(Effect.andThen(run(first, second), keepsMiddle ? Effect.void : rollBack)))
    yield* sql`select pg_sleep(${choose(["0", "0.001", "0.01"])}::text::float8)`
    yield* run(second, statements.length)
    if (isAbandoned) return yield* rollBack
  })).pipe(Effect.catchIf((error) => error === "abandoned", () => Effect.void))
})
