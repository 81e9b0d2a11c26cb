/**
 * The background job that emails accounts when they reach a threshold of their budget (docs/operations/accounts.md).
 */
import { type Config, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { formatUsd } from "../../accounts/billing/Usd.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job } from "../../postgres/jobs/Job.ts"
import { loadMailSettings } from "./MailSettings.ts"
import { queueNotice } from "./Notices.ts"

const BudgetAlert = Schema.Struct({
  account_id: Schema.BigInt,
  account: Schema.String,
  /** For example, `November 2026`. */
  month: Schema.String,
  budget_microdollars: Schema.BigInt,
  spent_microdollars: Schema.BigInt,
  percent: Schema.Int,
  stops: Schema.Boolean,
  notice_id: Schema.String,
})

const describeConsequence = ({ percent, stops }: typeof BudgetAlert.Type) => {
  if (!stops) return "Requests are still answered and billed when the budget is used up."
  const refusal = "requests for data get 402 insufficient_credits until the next month (New York) or a higher budget."
  return percent === 100 ? `From now on, ${refusal}` : `When the budget is used up, ${refusal}`
}

/**
 * Creates the email for a budget alert: the account has spent at least `percent` percent of its budget for `month`.
 * `notice_id` identifies the alert, so that its email is queued only once.
 */
const makeBudgetNotice = (alert: typeof BudgetAlert.Type) => {
  const { account, account_id, budget_microdollars, month, notice_id, percent, spent_microdollars } = alert
  return {
    id: notice_id,
    account_id,
    subject: percent === 100 ? `The budget for ${month} is used up` : `${percent}% of the budget for ${month} is spent`,
    paragraphs: [
      `The account ${account} has spent ${formatUsd(spent_microdollars)} of ${
        formatUsd(budget_microdollars)
      } USD, its ` +
      `budget for ${month}.`,
      describeConsequence(alert),
      "/v1/overview shows what is spent. If you need a higher budget, ask the operator of the service.",
    ],
  }
}

/**
 * Queues an email for each budget of which an account has reached a threshold, such as 90%. The table `budget_alerts`
 * has one row for each threshold that has been reached. Only the highest threshold reached is reported for each budget.
 * A threshold reached more than a day ago is not reported: the email could not be sent in time, for example because
 * `SMTP_URL` was not set, and is no longer useful.
 *
 * The id of a queued email, in `announcements`, is the `notice_id`. An alert whose id is already there is left out.
 */
export const queueBudgetNotices = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const due = yield* decodeRows(BudgetAlert)(sql`
    select * from (
      select distinct on (account_id, budget_alerts.month, budget_alerts.budget_microdollars)
        account_id, accounts.name as account,
        to_char(month, 'FMMonth YYYY') as month, budget_alerts.budget_microdollars, spent_microdollars,
        percent::int, budget_stops as stops,
        format('budget:%s:%s:%s:%s', account_id, to_char(month, 'YYYY-MM'), budget_alerts.budget_microdollars, percent)
          as notice_id
      from budget_alerts join accounts using (account_id)
      where recorded_at > now() - interval '1 day' and btrim(contact_email) <> ''
        -- Skips alerts about another budget or month than the account's current one.
        and budget_alerts.budget_microdollars = accounts.budget_microdollars and month = budget_month
      order by account_id, budget_alerts.month, budget_alerts.budget_microdollars, percent desc
    ) as due
    where not exists (select from announcements where entry_id = notice_id)
  `)
  yield* Effect.forEach(due, (alert) => queueNotice(makeBudgetNotice(alert)), { discard: true })
})

/** The job runs only if `SMTP_URL` is set. Otherwise, the queued emails could wait for months until it is set. */
export const budgetNoticesJob = {
  name: "budget-notices",
  every: Duration.minutes(1),
  prepare: () => Effect.map(loadMailSettings, Option.as(queueBudgetNotices)),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>
