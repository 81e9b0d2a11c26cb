/** Builds the `screener` row that identifies a company. */
import type { RowCells } from "../../../contract/Datasets.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import type { Issuer } from "./Issuer.ts"
import { groupFilingsIntoRegistrations } from "./RegistrationRows.ts"
import { type CurrentCount, unknownCount } from "./ShareCounts.ts"
import type { CompanySubmissions } from "./Submissions.ts"

/**
 * Returns the latest registration of depositary receipts (Form F-6), or undefined if there is none or if the issuer's
 * symbol denotes ordinary shares. On the OTC market, the fifth letter of a symbol distinguishes receipts (Y) from
 * ordinary shares (F).
 */
export const findDepositaryReceiptRegistration = (issuer: Issuer, { filings }: CompanySubmissions) =>
  issuer.exchange === "OTC" && !/^[A-Z]{4}Y$/.test(issuer.ticker)
    ? undefined
    : filings.find(({ form }) => /^F-6(EF)?$/.test(form))

/**
 * Returns the company's row of `screener`, or no row if the company has no filings. `count` is the current number of
 * shares outstanding, with its sources. `updated` is `last_updated` of the existing row: its prices may be newer than
 * the filings, so the time must not go back. The location is omitted, because the SEC publishes only addresses and the
 * state of incorporation.
 */
export const makeScreenerRows = (
  issuer: Issuer,
  submissions: CompanySubmissions,
  count: Pick<CurrentCount, "outstanding" | "source"> = unknownCount,
  updated: string | null = null,
): ReadonlyArray<RowCells> => {
  const [first, ...others] = submissions.filings
  if (first === undefined) return []
  const receipts = findDepositaryReceiptRegistration(issuer, submissions)
  const pending = groupFilingsIntoRegistrations(submissions.filings).findLast(({ statement, status }) =>
    statement.form === "S-1" && status === "pending"
  )?.statement
  const filed = formatLatestAcceptanceTime([first, ...others])
  return [{
    ticker: issuer.ticker,
    company: issuer.name,
    cik: issuer.cik,
    exchange: issuer.exchange,
    industry: submissions.sicDescription,
    is_adr: String(receipts !== undefined),
    outstanding: count.outstanding,
    pending_s1: String(pending !== undefined),
    last_updated: updated !== null && updated > filed ? updated : filed,
    source: [
      submissions.url,
      ...[receipts, pending].flatMap((filing) => filing === undefined ? [] : [filing.source]),
      ...count.source,
    ],
  }]
}
