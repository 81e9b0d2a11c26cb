/** Finds the filings that a run has yet to ingest, and computes the progress to store after a visit. */
import type { IngestDatasetProgress } from "./IngestState.ts"

/** The properties of a filing that the functions below need. */
interface FilingDate {
  readonly accession: string
  /** `YYYY-MM-DD` */
  readonly filingDate: string
}

/** Maximum number of days after its filing date for a filing to appear in the SEC's list. */
export const lateFilingDays = 7

/** Subtracts a number of days from a day (`YYYY-MM-DD`). A negative number adds days. */
export const subtractDays = (day: string, days: number) =>
  new Date(Date.parse(`${day}T00:00:00Z`) - days * 86_400_000).toISOString().slice(0, 10)

/** Returns whether the stored progress covers all filings from `since` through the last run. */
export const isIngestedSince = (
  progress: IngestDatasetProgress | undefined,
  since: string,
): progress is IngestDatasetProgress => progress !== undefined && progress.since <= since

/**
 * Returns the filings from `since` on that have not been ingested: new filings, and filings that the SEC added to its
 * list late. `filings` must be in the order of that list, newest first.
 */
export const findPendingFilings = <F extends FilingDate>(
  filings: ReadonlyArray<F>,
  progress: IngestDatasetProgress | undefined,
  since: string,
): ReadonlyArray<F> => {
  const requested = filings.filter(({ filingDate }) => filingDate >= since)
  if (!isIngestedSince(progress, since) || progress.last_filing_date === null) return requested
  // New filings precede the last ingested filing in the list. If that filing is not in the list (index -1), only
  // filings from recent days count as new.
  const newCount = filings.findIndex(({ accession }) => accession === progress.last_accession)
  const isNew = new Set(filings.slice(0, Math.max(0, newCount)).map(({ accession }) => accession))
  const known = new Set(progress.recent_accessions)
  const firstRecentDay = subtractDays(progress.last_filing_date, lateFilingDays)
  return requested.filter(({ accession, filingDate }) =>
    !known.has(accession) && (isNew.has(accession) || filingDate >= firstRecentDay)
  )
}

/** Returns the progress to store after all of `filings` have been ingested. `filings` must be sorted, newest first. */
export const makeIngestDatasetProgress = (
  cik: string,
  dataset: string,
  filings: ReadonlyArray<FilingDate>,
  since: string,
  previous: IngestDatasetProgress | undefined,
): IngestDatasetProgress => {
  const dates = filings.map(({ filingDate }) => filingDate).toSorted()
  const lastDate = dates.at(-1) ?? null
  const firstRecentDay = lastDate === null ? "" : subtractDays(lastDate, lateFilingDays)
  return {
    cik,
    dataset,
    since: isIngestedSince(previous, since) ? previous.since : since,
    last_accession: filings[0]?.accession ?? null,
    last_filing_date: lastDate,
    recent_accessions: filings.filter(({ filingDate }) => filingDate >= firstRecentDay)
      .map(({ accession }) => accession),
  }
}
