/**
 * Finds the filings that no run has ingested yet, and computes the progress to store after a company has been visited.
 */
import type { IngestDatasetProgress } from "./IngestState.ts"

/** The properties of a filing that the functions below need. */
interface FilingDate {
  readonly accession: string
  /** `YYYY-MM-DD` */
  readonly filingDate: string
}

/**
 * Maximum number of days between a filing's date and the day on which the SEC adds the filing to the company's filing
 * list.
 */
export const lateFilingDays = 7

/** Subtracts a number of days from a day (`YYYY-MM-DD`). A negative number adds days. */
export const subtractDays = (day: string, days: number) =>
  new Date(Date.parse(`${day}T00:00:00Z`) - days * 86_400_000).toISOString().slice(0, 10)

/**
 * Returns whether the stored progress covers all filings from `since` through the last run. It does not if an earlier
 * run started at a later day.
 */
export const isIngestedSince = (
  progress: IngestDatasetProgress | undefined,
  since: string,
): progress is IngestDatasetProgress => progress !== undefined && progress.since <= since

/**
 * Returns the filings dated on or after `since` that have not been ingested: new filings, and filings that the SEC
 * added to its list late. `filings` must be in the order of that list, newest first. `progress` is undefined if no run
 * has ingested the dataset for the company.
 */
export const findPendingFilings = <F extends FilingDate>(
  filings: ReadonlyArray<F>,
  progress: IngestDatasetProgress | undefined,
  since: string,
): ReadonlyArray<F> => {
  const requested = filings.filter(({ filingDate }) => filingDate >= since)
  if (!isIngestedSince(progress, since) || progress.last_filing_date === null) return requested
  // New filings precede the filing that was ingested last (`last_accession`) in the list. If that filing is no longer
  // in the list (index -1), only filings from recent days count as new.
  const newCount = filings.findIndex(({ accession }) => accession === progress.last_accession)
  const isNew = new Set(filings.slice(0, Math.max(0, newCount)).map(({ accession }) => accession))
  const known = new Set(progress.recent_accessions)
  const firstRecentDay = subtractDays(progress.last_filing_date, lateFilingDays)
  return requested.filter(({ accession, filingDate }) =>
    !known.has(accession) && (isNew.has(accession) || filingDate >= firstRecentDay)
  )
}

/**
 * Returns how far a company's dataset is ingested once the rows of all `filings` have been loaded. `filings` must be
 * sorted, newest first. `previous` is the stored progress.
 *
 * The SEC adds some filings to its list days after their date. To recognize these later, the progress contains all
 * filings of the last days (`recent_accessions`). It starts at the earliest day of all runs so far (`since`).
 */
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
