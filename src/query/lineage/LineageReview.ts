/**
 * The review of estimated ticker changes, in which a person confirms or rejects each change. Only confirmed changes are
 * eligible (D19). See docs/decisions/0107-review-of-estimates.md.
 */
import { Data, Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { CompiledStatement } from "../../postgres/CompiledStatement.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { todayInChicago } from "../../contract/rules/Dates.ts"
import { type LineageChain, type LineageConflict, resolveLineage, type TickerChangeEvent } from "./LineageRules.ts"
import { makeLineageEventReader } from "./LineageEvents.ts"

/** A ticker change with the status `estimated`. */
export interface EstimatedTickerChange extends TickerChangeEvent {
  readonly source: string | null
  readonly source_links: ReadonlyArray<string> | null
  /** The date on which the change was recorded, in UTC, as `YYYY-MM-DD`. */
  readonly recorded_on: string
}

/** Identifies an estimated change. The CIK is needed only if several changes have the same symbols and date. */
export interface TickerChangeKey {
  readonly old_ticker: string
  readonly new_ticker: string
  readonly effective_date: string
  readonly cik: string | undefined
}

/** Formats a change for messages. */
export const formatTickerChange = ({ effective_date, new_ticker, old_ticker }: Omit<TickerChangeKey, "cik">) =>
  `${old_ticker} to ${new_ticker} on ${effective_date}`

/** Either no estimated change matches the key, or several do. */
export class TickerChangeNotReviewable
  extends Data.TaggedError("TickerChangeNotReviewable")<{ readonly message: string }> {}

/** Returns the changes that are waiting for review. */
export const listEstimatedTickerChanges = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<EstimatedTickerChange>`
    select old_ticker, new_ticker, effective_date::text, cik, company_name, source, source_links,
      (recorded_at at time zone 'UTC')::date::text as recorded_on
    from ticker_changes where status = 'estimated' order by effective_date, old_ticker, new_ticker, cik
  `
})

/** Returns the chain or conflict that the confirmed changes would form if this change were confirmed too. */
export const previewConfirmedLineage = Effect.fnUntraced(function* (change: TickerChangeEvent) {
  const readEvents = yield* makeLineageEventReader
  const reader = yield* DatabaseReader
  const read = (statement: CompiledStatement) => reader.read(statement, { partition: "lineage", from: "primary" })
  const now = yield* todayInChicago
  const { effective_date, new_ticker, old_ticker } = change
  // For a future change, the preview shows the lineage that clients will see on the date of the change.
  const today = effective_date > now ? effective_date : now
  const events = yield* readEvents({ tickers: [old_ticker, new_ticker], today }, read)
  return resolveLineage([change, ...events])
})

/** The chain or conflict that would result from confirming a change. */
export type LineagePreview = Result.Result<LineageChain, LineageConflict>

/**
 * Finds the estimated change with this key. Without a CIK in the key, matches changes with any CIK. Fails if no change
 * or more than one change matches. The error says whether the change exists with another status.
 */
export const findEstimatedTickerChange = Effect.fnUntraced(function* (key: TickerChangeKey) {
  const sql = yield* SqlClient.SqlClient
  const { cik, effective_date, new_ticker, old_ticker } = key
  const rows = yield* sql<TickerChangeEvent & { readonly status: string }>`
    select old_ticker, new_ticker, effective_date::text, cik, company_name, status from ticker_changes
    where old_ticker = stored_symbol(${old_ticker}) and new_ticker = stored_symbol(${new_ticker})
      and effective_date = ${effective_date}::text::date
      and ${cik === undefined ? sql.literal("true") : sql`cik = ${cik}`}
    order by cik
  `
  const [first, ...others] = rows.filter(({ status }) => status === "estimated")
  if (first === undefined) {
    const statuses = Array.from(new Set(rows.map(({ status }) => status))).join(", ")
    return yield* new TickerChangeNotReviewable({
      message: statuses === ""
        ? `There is no change from ${
          formatTickerChange(key)
        }. To list the estimated changes, run: tickerline lineage review`
        : `The change from ${formatTickerChange(key)} is not estimated any more; its status is ${statuses}. ` +
          "To correct it, load a row with its new status: tickerline load ticker-changes FILE --append",
    })
  }
  if (others.length === 0) return first
  const ciks = [first, ...others].map(({ cik }) => cik ?? "none").join(", ")
  return yield* new TickerChangeNotReviewable({
    message: `Several estimated changes go from ${formatTickerChange(key)}. Choose one with --cik: ${ciks}.`,
  })
})

/** Sets the status of an estimated change. Fails if the change is no longer estimated. */
export const reviewTickerChange = Effect.fnUntraced(
  function* (change: TickerChangeEvent, status: "confirmed" | "blocked") {
    const sql = yield* SqlClient.SqlClient
    const { cik, effective_date, new_ticker, old_ticker } = change
    // `decided` has one row if the change was still estimated and is now updated, else none. `record_audit` adds an
    // entry to the audit log, with the values before and after. It is called once for each row of `decided`, so it is
    // not called if nothing was updated.
    const decided = yield* sql`
      with decided as (
        update ticker_changes set status = ${status}, recorded_at = now()
        where old_ticker = ${old_ticker} and new_ticker = ${new_ticker}
          and effective_date = ${effective_date}::text::date and cik is not distinct from ${cik}::text
          and status = 'estimated'
        returning status
      )
      select record_audit('ticker_change', ${formatTickerChange(change)}, 'changed', '{"status": "estimated"}',
        jsonb_build_object('status', status))
      from decided
    `
    if (decided.length > 0) return
    return yield* new TickerChangeNotReviewable({
      message:
        `The change from ${formatTickerChange({ old_ticker, new_ticker, effective_date })} has just been changed. ` +
        "To list the estimated changes, run: tickerline lineage review",
    })
  },
)
