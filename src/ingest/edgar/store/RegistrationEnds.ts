/**
 * Stores the dates on which registrations of securities end (`edgar_registration_ends`), and marks registrations as
 * expired after their last day.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ScheduledEnd } from "../read/RegistrationRows.ts"

/** The scheduled ends of a company's registrations. */
export interface CompanyRegistrationEnds {
  readonly cik: string
  readonly ends: ReadonlyArray<ScheduledEnd>
}

/**
 * Replaces the stored ends of the registrations of these companies. If a company occurs more than once, its last entry
 * is used.
 */
export const saveRegistrationEnds = Effect.fnUntraced(function* (companies: ReadonlyArray<CompanyRegistrationEnds>) {
  if (companies.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const endsByCik = new Map(companies.map(({ cik, ends }) => [cik, ends]))
  const rows = Array.from(endsByCik).flatMap(([cik, ends]) => ends.map((end) => ({ cik, ...end })))
  yield* sql`delete from edgar_registration_ends where cik = any(${Array.from(endsByCik.keys())}::text[])`
  yield* sql`
    insert into edgar_registration_ends (id, cik, last_day, headline, expired_headline)
    select id, cik, "lastDay", headline, "expiredHeadline"
    from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) as ends (
      id text, cik text, "lastDay" date, headline text, "expiredHeadline" text
    )
  `
})

/**
 * Marks registrations whose last day has passed as expired in `registrations`, with the same values that
 * `makeRegistrationRows` would set. That function only runs for companies with new filings. `today` is the date in New
 * York.
 */
export const expireRegistrations = Effect.fnUntraced(function* (today: string) {
  const sql = yield* SqlClient.SqlClient
  // Rows with a different headline do not change, because another source has replaced them.
  const isDue = sql`registration.id = ends.id and registration.headline = ends.headline
    and registration.effective_status and ends.last_day < ${today}::text::date`
  const due = yield* sql`
    select from registrations as registration join edgar_registration_ends as ends on ${isDue} limit 1
  `
  // Even an update that affects no rows would change the dataset's version and thereby expire cached responses.
  if (due.length === 0) return
  yield* sql`
    update registrations as registration set effective_status = false, headline = ends.expired_headline,
      last_updated = greatest(registration.last_updated, ends.last_day + 1)
    from edgar_registration_ends as ends where ${isDue}
  `
})
