/** Builds rows of `news` from filings. */
import type { RowCells } from "../../../contract/Datasets.ts"
import { findImplausibleTimestamp, formatAcceptanceTimeForColumns } from "./AcceptanceTime.ts"
import { buildFilingDocumentUrl } from "../fetch/EdgarUrls.ts"
import type { Doubt } from "./Doubt.ts"
import { getTickerOn, type Issuer } from "./Issuer.ts"
import type { EdgarFiling } from "./Submissions.ts"

/** Returns whether the description only repeats the form, as `FORM 8-K`, `FORM 8 K`, and `8K` do for `8-K`. */
const repeatsForm = (description: string, form: string) => {
  const simplify = (text: string) => text.toUpperCase().replace(/FORM/, "").replace(/[^A-Z0-9]/g, "")
  return ["", "PRIMARYDOCUMENT", simplify(form)].includes(simplify(description))
}

/**
 * Combines the form, the filer's description of the main document, and the items of the form, as in `8-K: CURRENT
 * REPORT, items 5.02, 9.01`.
 */
const formatTitle = ({ description, form, items }: EdgarFiling) => {
  const parts = [
    ...(description === null || repeatsForm(description, form) ? [] : [description]),
    ...(items.length === 0 ? [] : [`${items.length === 1 ? "item" : "items"} ${items.join(", ")}`]),
  ]
  return parts.length === 0 ? form : `${form}: ${parts.join(", ")}`
}

/**
 * Returns rows of `news`, one for each of the issuer's filings. A filing about several companies has a row for each of
 * them. `filed_at_time` is the time of acceptance in New York, and `created_at` the same time at UTC-05:00, which the
 * API uses for all times.
 */
export const makeNewsRows = (issuer: Issuer, filings: ReadonlyArray<EdgarFiling>): ReadonlyArray<RowCells> =>
  filings.map((filing) => {
    const { fixedOffsetTime, newYorkTime } = formatAcceptanceTimeForColumns(filing)
    return {
      id: `${issuer.cik}-${filing.accession}`,
      ticker: getTickerOn(issuer, filing.filingDate),
      tickers: issuer.tickers,
      form_type: filing.form,
      title: formatTitle(filing),
      tags: filing.items,
      accession_number: filing.accession,
      document_url: buildFilingDocumentUrl(issuer.cik, filing.accession, filing.primaryDocument),
      filed_at: filing.filingDate,
      filed_at_time: newYorkTime,
      created_at: fixedOffsetTime,
      last_updated: fixedOffsetTime,
      source: [filing.source],
    }
  })

/** Returns doubts about implausible acceptance times. The rows of `news` do not contain these times. */
export const findNewsDoubts = (filings: ReadonlyArray<EdgarFiling>): ReadonlyArray<Doubt> =>
  filings.flatMap((filing) => {
    const read = filing.acceptedAt === null ? findImplausibleTimestamp(filing) : undefined
    const reason = "is more than a year from the date of the filing"
    return read === undefined ? [] : [{
      table: "news",
      url: filing.source,
      column: "filed_at_time",
      read,
      confirmable: read,
      published: null,
      reason,
    }]
  })
