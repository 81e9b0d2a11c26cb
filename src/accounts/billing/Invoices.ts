/**
 * Closes months, which creates an invoice for each account, and reads existing invoices (docs/operations/invoices.md).
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { CalendarMonth, makeTimeSql, PrintedTime } from "../../contract/rules/Dates.ts"
import { noSuchAccount } from "../Accounts.ts"
import { settleUsage } from "./UsageSettlement.ts"

class MonthNotClosable extends Data.TaggedError("MonthNotClosable")<{ readonly message: string }> {}

class NoSuchInvoice extends Data.TaggedError("NoSuchInvoice")<{ readonly message: string }> {}

/** An account for which a month is to be closed. */
const InvoicedAccount = Schema.Struct({
  account_id: Schema.Int,
  name: Schema.String,
  /** Whether the account already has an invoice for the month. */
  is_closed: Schema.Boolean,
  /** The month of the account's latest invoice. */
  latest: Schema.NullOr(CalendarMonth),
  /** Whether the account has no invoice yet, but has usage from before the month to close. */
  has_earlier_usage: Schema.Boolean,
})
type InvoicedAccount = typeof InvoicedAccount.Type

const Period = Schema.Struct({
  first_day: Schema.String,
  next_month: Schema.String,
  previous: Schema.String,
  is_over: Schema.Boolean,
})

/**
 * Reads the first day of a month, the first day of the next month, the month before it (such as `2026-02`), and whether
 * the month is over in New York. The current time is taken from PostgreSQL's clock.
 */
const readPeriod = Effect.fnUntraced(function* (month: string) {
  const sql = yield* SqlClient.SqlClient
  const [period] = yield* decodeRows(Period)(sql`
    select first_day::text, next_month::text, to_char(first_day - interval '1 month', 'YYYY-MM') as previous,
      next_month <= (clock_timestamp() at time zone 'America/New_York')::date as is_over
    from (
      select day as first_day, (day + interval '1 month')::date as next_month
      from (values (${`${month}-01`}::text::date)) as requested (day)
    ) as period
  `)
  return yield* Effect.orDie(Effect.fromNullishOr(period))
})

/**
 * Returns the accounts that existed in the month, or only the one with the given name. `is_closed` is whether the
 * account has an invoice for the month, and `latest` the month of its latest invoice (null if it has none).
 *
 * `has_earlier_usage` is true for an account that has no invoice yet, but was used before the month. Its first invoice
 * would include all of that usage, so the operator must decide whether it may.
 */
const findAccounts = Effect.fnUntraced(function* (month: string, name: string | null) {
  const sql = yield* SqlClient.SqlClient
  const { first_day, next_month } = yield* readPeriod(month)
  return yield* decodeRows(InvoicedAccount)(sql`
    select account_id::float8, name, latest,
      exists (select from invoices where account_id = accounts.account_id and month = ${month}) as is_closed,
      latest is null and created_on < ${first_day}::text::date and exists (
        select from usage_daily where account_id = accounts.account_id and usage_date < ${first_day}::text::date
      ) as has_earlier_usage
    from accounts cross join lateral (
      select (select max(month) from invoices where account_id = accounts.account_id) as latest,
        (created_at at time zone 'America/New_York')::date as created_on
    ) as computed
    where created_on < ${next_month}::text::date and (${name}::text is null or name = ${name})
    order by account_id
  `)
})

const isAfter = (latest: string | null, month: string) => latest !== null && latest > month

interface Closing {
  readonly month: string
  /** Null selects all accounts. */
  readonly account: string | null
  /** Whether usage from before the month may remain uninvoiced, for accounts that have no invoice yet. */
  readonly skipsEarlierUsage: boolean
}

/**
 * Returns a sentence that explains why the month cannot be closed for these accounts and how to resolve it. Returns
 * undefined if it can be closed. `previous` is the month before, and `open` are the accounts that need an invoice.
 */
const findObstacle = (
  { month, skipsEarlierUsage }: Closing,
  previous: string,
  open: ReadonlyArray<InvoicedAccount>,
) => {
  const later = open.find(({ latest }) => isAfter(latest, month))
  if (later !== undefined) {
    return `${later.name} has an invoice for ${later.latest}, so no earlier month can be closed for it. What was ` +
      "recorded late since the beginning of its first invoice will be in the next one. Close the month for other " +
      "accounts with --account."
  }
  const gap = open.find(({ latest }) => latest !== null && latest < previous)
  if (gap !== undefined) {
    return `${gap.name} has an invoice for ${gap.latest}, but none for ${previous}. Close the months in their order.`
  }
  const earlier = open.filter(({ has_earlier_usage }) => has_earlier_usage)
  const [first] = earlier
  if (first === undefined || skipsEarlierUsage) return undefined
  const others = earlier.length === 1 ? "" : ` and ${formatCountWithNoun(earlier.length - 1, "other account")}`
  return `${first.name}${others} used the service before ${month} and got no invoice. Close the earlier months ` +
    "first, or start with this month: with --skip-earlier-usage, what was used before it is never invoiced."
}

const ClosedInvoice = Schema.Struct({ is_new: Schema.Boolean })

/**
 * Creates an invoice for the month for each of the accounts, and reports progress. Returns how many invoices are new:
 * another process may have created some of them in the meantime.
 */
const closeInvoices = Effect.fnUntraced(function* (
  accounts: ReadonlyArray<InvoicedAccount>,
  month: string,
  first_day: string,
) {
  const sql = yield* SqlClient.SqlClient
  const progress = yield* OperationProgress
  progress.label = `Closing ${month}`
  progress.total = accounts.length
  progress.unit = "invoices"
  const closed = yield* Effect.forEach(
    accounts,
    ({ account_id, has_earlier_usage }) => {
      // Usage before this day is never invoiced for the account. Null: all of its usage is invoiced.
      const usageFrom = has_earlier_usage ? first_day : null
      const close = decodeRows(ClosedInvoice)(sql`
        select close_invoice(${account_id}::float8::bigint, ${month}, ${usageFrom}::text::date) as is_new
      `)
      const countDone = Effect.sync(() => {
        progress.done += 1
        progress.count += 1
      })
      return Effect.tap(close, () => countDone)
    },
  )
  return closed.flat().filter(({ is_new }) => is_new).length
})

/**
 * Closes a month (such as `2026-03`) for one account, or for all (null). Every account that existed in the month and
 * has no invoice for it gets one, each in a separate transaction. Returns how many invoices were created, how many
 * already existed, and how many accounts got none because they have an invoice for a later month.
 */
export const closeMonth = Effect.fnUntraced(function* (closing: Closing) {
  const sql = yield* SqlClient.SqlClient
  const { account, month } = closing
  const { first_day, is_over, next_month, previous } = yield* readPeriod(month)
  const refuse = (reason: string) => new MonthNotClosable({ message: `${reason} Nothing was changed.` })
  if (!is_over) return yield* refuse(`${month} is not over. It can be closed from ${next_month} on, New York time.`)
  // Only settled usage, which is part of the daily sums, is invoiced. Usage from the month that is settled later goes
  // on the next invoice.
  yield* settleUsage
  const accounts = yield* findAccounts(month, account)
  if (account !== null && accounts.length === 0) {
    const found = yield* sql`select from accounts where name = ${account}`
    return yield* found.length === 0 ? noSuchAccount(account) : refuse(`${account} was created after ${month}.`)
  }
  // When a month is closed for all accounts, an account without an invoice for that month is skipped if it has an
  // invoice for a later month.
  const isSkipped = ({ is_closed, latest }: InvoicedAccount) => account === null && !is_closed && isAfter(latest, month)
  const open = accounts.filter((found) => !found.is_closed && !isSkipped(found))
  const obstacle = findObstacle(closing, previous, open)
  if (obstacle !== undefined) return yield* refuse(obstacle)
  const created = yield* closeInvoices(open, month, first_day)
  const later = accounts.filter(isSkipped).length
  return { created, existing: accounts.length - later - created, later }
})

/** An invoice without its lines. */
export const Invoice = Schema.Struct({
  account: Schema.String,
  month: CalendarMonth,
  closed_at: PrintedTime,
  usage_from: Schema.NullOr(Schema.String).annotate({
    description: "Usage before this day is in no invoice of the account. Null: all of its usage is.",
  }),
  lines: Schema.Int,
  requests: Schema.Int,
  bytes: Schema.Int,
  cost_microdollars: Schema.Int,
  digest: Schema.String.annotate({ description: "SHA-256 of the lines as exported CSV, in hexadecimal digits." }),
}).annotate({ identifier: "Invoice" })

/** The decoded invoice. */
export type Invoice = typeof Invoice.Type

/**
 * Returns the invoices of one account or of all accounts (null), for one month or for all months (null), newest first.
 * Fails if the account does not exist.
 */
export const listInvoices = Effect.fnUntraced(function* (account: string | null, month: string | null = null) {
  const sql = yield* SqlClient.SqlClient
  const invoices = yield* decodeRows(Invoice)(sql`
    select name as account, month, ${sql.literal(makeTimeSql("closed_at"))}, usage_from::text, lines::float8,
      requests::float8, bytes::float8, cost_microdollars::float8, digest
    from invoices join accounts using (account_id)
    where (${account}::text is null or name = ${account}) and (${month}::text is null or month = ${month})
    order by month desc, account_id
  `)
  if (account !== null && invoices.length === 0) {
    const found = yield* sql`select from accounts where name = ${account}`
    if (found.length === 0) return yield* noSuchAccount(account)
  }
  return invoices
})

const InvoiceLine = Schema.Struct({
  line: Schema.Int,
  usage_date: Schema.String,
  endpoint: Schema.String,
  kind: Schema.String,
  requests: Schema.Int,
  bytes: Schema.Int,
  price_per_gb_microdollars: Schema.NullOr(Schema.Int),
  cost_microdollars: Schema.Int,
})

/**
 * Returns an account's invoice for a month, and the invoice's lines, both as rows (`lines`) and as CSV (`csv`).
 * `invoice.digest` is the SHA-256 of the CSV.
 */
export const readInvoice = Effect.fnUntraced(function* (account: string, month: string) {
  const sql = yield* SqlClient.SqlClient
  const [invoice] = yield* listInvoices(account, month)
  if (invoice === undefined) {
    return yield* new NoSuchInvoice({
      message: `${account} has no invoice for ${month}. \`invoices list\` shows all; \`invoices close\` makes them.`,
    })
  }
  const lines = yield* decodeRows(InvoiceLine)(sql`
    select line::float8, usage_date::text, endpoint, kind, requests::float8, bytes::float8,
      price_per_gb_microdollars::float8, cost_microdollars::float8
    from invoice_lines join accounts using (account_id) where name = ${account} and month = ${month} order by line
  `)
  const [text] = yield* decodeRows(Schema.Struct({ csv: Schema.String }))(sql`
    select invoice_csv(account_id, ${month}) as csv from accounts where name = ${account}
  `)
  return { invoice, lines, csv: text?.csv ?? "" }
})
