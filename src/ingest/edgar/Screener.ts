/** The identity of a company, and the rows of `screener`. */
import type { RowCells } from "../../load/FileReader.ts"
import { formatLatestAcceptance } from "./AcceptanceTime.ts"
import type { Issuer } from "./Issuer.ts"
import { findRegistrations } from "./Registrations.ts"
import type { Filing, Submissions } from "./Submissions.ts"

/**
 * Finds the latest registration of depositary receipts, if the issuer's symbol is one of them. On the OTC market, the
 * fifth letter tells receipts (Y) from ordinary shares (F).
 */
export const findDepositaryReceipts = (issuer: Issuer, filings: ReadonlyArray<Filing>): Filing | undefined =>
  issuer.exchange === "OTC" && !/^[A-Z]{4}Y$/.test(issuer.ticker)
    ? undefined
    : filings.find(({ form }) => /^F-6(EF)?$/.test(form))

/**
 * The row of `screener`. Columns of the company's location are left out, because the SEC only publishes addresses and
 * the state of incorporation. Returns undefined if the company has no filings.
 *
 * @param filings all filings, with all older pages
 */
export const makeScreenerRow = (
  issuer: Issuer,
  { sicDescription, url, website }: Submissions,
  filings: ReadonlyArray<Filing>,
): RowCells | undefined => {
  const [first, ...others] = filings
  if (first === undefined) return undefined
  const receipts = findDepositaryReceipts(issuer, filings)
  const pending = findRegistrations(filings).findLast(({ statement, status }) =>
    statement.form === "S-1" && status === "pending"
  )?.statement
  return {
    ticker: issuer.ticker,
    company: issuer.name,
    cik: issuer.cik,
    exchange: issuer.exchange,
    industry: sicDescription,
    // Empty for almost all companies, which does not mean that there is no website.
    ...(website === null ? {} : { website }),
    is_adr: String(receipts !== undefined),
    pending_s1: String(pending !== undefined),
    last_updated: formatLatestAcceptance([first, ...others]),
    source: [url, ...[receipts, pending].flatMap((filing) => filing === undefined ? [] : [filing.source])],
  }
}
