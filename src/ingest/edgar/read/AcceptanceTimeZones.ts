/**
 * Determines whether a company's acceptance times are in UTC or Eastern time if the hours of the times do not show it:
 * compares one of them with the exact time on the filing's index page (decision 0102).
 */
import { DateTime, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import {
  assignAcceptanceTimes,
  determineAcceptanceTimeZone,
  findFilingWithTime,
  formatAcceptanceTimeForColumns,
} from "./AcceptanceTime.ts"
import type { EdgarFiling } from "./Submissions.ts"

const decodeTimes = decodeRows(Schema.Struct({ accession: Schema.String, accepted_at: Schema.DateTimeUtcFromMillis }))

/** Reads the exact acceptance time of one of the company's filings, if an earlier run has requested it from the SEC. */
const readKnownTimes = Effect.fnUntraced(function* (cik: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeTimes(sql`
    select accession, extract(epoch from accepted_at)::float8 * 1000 as accepted_at from edgar_stamp_zones
    where cik = ${cik}
  `)
  return new Map(rows.map(({ accepted_at, accession }) => [accession, accepted_at]))
})

const saveKnownTime = Effect.fnUntraced(function* (cik: string, accession: string, time: DateTime.Utc) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into edgar_stamp_zones (cik, accession, accepted_at)
    values (${cik}, ${accession}, to_timestamp(${DateTime.toEpochMillis(time) / 1000}::float8))
    on conflict (cik) do update set accession = excluded.accession, accepted_at = excluded.accepted_at
  `
})

/**
 * Assigns acceptance times to all of a company's filings. If neither a stored exact time nor the hours reveal the time
 * zone of the company's timestamps, requests the exact time of one filing with `requestAcceptanceTime` (which returns
 * undefined if the time is not available) and stores it, so that it is not requested again.
 */
export const resolveAcceptanceTimes = Effect.fnUntraced(
  function* <E, R>(
    cik: string,
    filings: ReadonlyArray<EdgarFiling>,
    requestAcceptanceTime: (filing: EdgarFiling) => Effect.Effect<DateTime.Utc | undefined, E, R>,
  ) {
    const known = yield* readKnownTimes(cik)
    const isDecided = determineAcceptanceTimeZone(filings, known) !== null
    const wasRequested = filings.some(({ accession }) => known.has(accession))
    const filing = findFilingWithTime(filings)
    if (isDecided || wasRequested || filing === undefined) return assignAcceptanceTimes(filings, known)
    const time = yield* requestAcceptanceTime(filing)
    if (time === undefined) return assignAcceptanceTimes(filings, known)
    yield* saveKnownTime(cik, filing.accession, time)
    // None of these filings had a known time before.
    return assignAcceptanceTimes(filings, new Map([[filing.accession, time]]))
  },
)

const decodeIds = decodeRows(Schema.Struct({ id: Schema.String }))

/**
 * Returns the filings whose row of `news` is missing or has an outdated time. A row can be missing if the SEC released
 * the filing long after its date; only filings dated on or after `since` are checked for this. The time becomes
 * outdated when the company's time zone is determined or corrected.
 */
export const findStaleNews = Effect.fnUntraced(
  function* (cik: string, filings: ReadonlyArray<EdgarFiling>, since: string) {
    const sql = yield* SqlClient.SqlClient
    const byId = new Map(filings.map((filing) => [`${cik}-${filing.accession}`, filing]))
    const expected = Array.from(byId, ([id, filing]) => ({
      id,
      time: formatAcceptanceTimeForColumns(filing).newYorkTime,
      isRequested: filing.filingDate >= since,
    }))
    // A filing without a time (null) is not outdated, because the comparison then yields null. A row without a time is
    // outdated as soon as the filing has one: `infinity` differs from every time.
    const rows = yield* decodeIds(sql`
      select expected.id from jsonb_to_recordset(${JSON.stringify(expected)}::text::jsonb)
        as expected (id text, time timestamp, "isRequested" boolean) left join news on news.id = expected.id
      where case when news.id is null then "isRequested" else expected.time <> coalesce(filed_at_time, 'infinity') end
    `)
    return rows.flatMap(({ id }) => byId.get(id) ?? [])
  },
)
