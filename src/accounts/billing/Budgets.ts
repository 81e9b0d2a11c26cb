/** Sets accounts' monthly budgets, for the command line and the admin API (D27, budgets). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { failIfErased, noSuchAccount } from "../Accounts.ts"

/** The most that an account intends to spend in a calendar month. */
export interface Budget {
  readonly microdollars: bigint
  /** Whether requests for data are refused once the budget has been spent. */
  readonly stops: boolean
}

/**
 * Sets an account's monthly budget; null removes it. What the account has already spent this month counts toward the
 * budget. Running processes apply the change within a second.
 */
export const setBudget = Effect.fnUntraced(function* (name: string, budget: Budget | null) {
  const sql = yield* SqlClient.SqlClient
  const amount = budget === null ? null : String(budget.microdollars)
  const found = yield* sql`
    select set_budget(account_id, ${amount}::text::bigint, ${budget?.stops ?? false}) from accounts where name = ${name}
  `
  if (found.length === 0) return yield* noSuchAccount(name)
}, (write, name) => failIfErased(name)(write))
