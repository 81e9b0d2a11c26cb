/** Finds out whether a company's acceptance times are UTC or Eastern if their hours do not show it (decision 0102). */
import { DateTime, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../db/DecodeRows.ts"
import {
  assignAcceptanceTimes,
  determineAcceptanceTimeZone,
  findFilingWithTime,
  type KnownAcceptanceTimes,
} from "./AcceptanceTime.ts"
import type { EdgarFiling } from "./Submissions.ts"

const decodeTimes = decodeRows(Schema.Struct({ accession: Schema.String, accepted_at: Schema.Finite }))

/** Reads the exact acceptance time of one of the company's filings, if the SEC was asked for it. */
const readKnownTimes = Effect.fnUntraced(function* (cik: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeTimes(sql`
    select accession, extract(epoch from accepted_at)::float8 * 1000 as accepted_at from edgar_stamp_zones
    where cik = ${cik}
  `)
  const known: KnownAcceptanceTimes = new Map(
    rows.map(({ accepted_at, accession }) => [accession, DateTime.makeUnsafe(accepted_at)]),
  )
  return known
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
 * Assigns acceptance times to all filings of a company. If neither a known time nor the hours show the time zone,
 * requests that of one filing, once per company.
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
    return assignAcceptanceTimes(filings, new Map([[filing.accession, time]]))
  },
)

const decodeAccessions = decodeRows(Schema.Struct({ accession_number: Schema.NullOr(Schema.String) }))

/** Returns the filings whose row of `news` was stored without a time, although their time is now known. */
export const findFilingsWithNewTimes = Effect.fnUntraced(function* (cik: string, filings: ReadonlyArray<EdgarFiling>) {
  const sql = yield* SqlClient.SqlClient
  const ids = filings.flatMap(({ acceptedAt, accession }) => acceptedAt === null ? [] : [`${cik}-${accession}`])
  const rows = yield* decodeAccessions(sql`
    select accession_number from news where id = any(${ids}::text[]) and filed_at_time is null
  `)
  const accessions = new Set(rows.map(({ accession_number }) => accession_number))
  return filings.filter(({ accession }) => accessions.has(accession))
})
