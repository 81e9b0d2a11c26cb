/** Groups a company's filings into registrations by file number, and makes rows of `registrations`. */
import type { RowCells } from "../../load/FileReader.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import { buildFilingDocumentUrl } from "./EdgarUrls.ts"
import { getTickerOn, type Issuer } from "./Issuer.ts"
import type { EdgarFiling } from "./Submissions.ts"

/** Forms that begin a registration. Their amendments (`/A`, POS AM) belong to it. */
const typesByForm: ReadonlyMap<string, "offering" | "shelf"> = new Map([
  ...["S-1", "S-1MEF", "F-1", "F-1MEF"].map((form) => [form, "offering"] as const),
  ...["S-3", "S-3ASR", "S-3MEF", "F-3", "F-3ASR", "F-3MEF"].map((form) => [form, "shelf"] as const),
])

/** Whether the registration is effective upon filing, without a notice (Rule 462). */
const isEffectiveUponFiling = ({ form }: EdgarFiling) => /(ASR|MEF)$/.test(form)

/** Whether the filing is a prospectus under Rule 424(b), which is filed after the registration became effective. */
const isProspectus = ({ form }: EdgarFiling) => /^424B\d$/.test(form)

const isPostEffective = (filing: EdgarFiling) => isProspectus(filing) || filing.form.startsWith("POS")

/** EDGAR has had notices of effectiveness (EFFECT) since this day. */
const firstNoticeDate = "2006-05-01"

export interface EdgarRegistration {
  readonly fileNumber: string
  readonly statement: EdgarFiling
  /** All filings with the file number, oldest first. */
  readonly filings: readonly [EdgarFiling, ...ReadonlyArray<EdgarFiling>]
  readonly status: "effective" | "pending" | "withdrawn"
  /** Null if not yet effective, or effective since an unknown day. */
  readonly effectiveDate: string | null
  /** The filing that determines the status; undefined if that is the statement itself. */
  readonly evidence: EdgarFiling | undefined
}

const byFilingDate = (a: EdgarFiling, b: EdgarFiling) =>
  a.filingDate.localeCompare(b.filingDate) || a.accession.localeCompare(b.accession)

const findEffectiveness = (statement: EdgarFiling, filings: ReadonlyArray<EdgarFiling>) => {
  if (isEffectiveUponFiling(statement)) return { effectiveDate: statement.filingDate, evidence: undefined }
  const notice = filings.find(({ form }) => form === "EFFECT")
  const first = filings.find(isPostEffective)
  if (notice === undefined && first === undefined) return undefined
  // If a prospectus is older than the first listed notice, that notice is for an amendment, and the date on which the
  // registration became effective is unknown.
  const isFirstNotice = notice !== undefined && (first === undefined || first.filingDate >= notice.filingDate)
  return isFirstNotice
    ? { effectiveDate: notice.filingDate, evidence: notice }
    : { effectiveDate: null, evidence: first }
}

const makeRegistration = (
  fileNumber: string,
  filings: readonly [EdgarFiling, ...ReadonlyArray<EdgarFiling>],
): EdgarRegistration | undefined => {
  const statement = filings.find(({ form }) => typesByForm.has(form))
  if (statement === undefined) return undefined
  const registration = { fileNumber, statement, filings }
  const effectiveness = findEffectiveness(statement, filings)
  const last = filings.findLast(({ form }) => ["EFFECT", "RW", "RW WD"].includes(form))
  if (last?.form === "RW") {
    const effectiveDate = effectiveness?.effectiveDate ?? null
    return { ...registration, status: "withdrawn", effectiveDate, evidence: last }
  }
  if (effectiveness !== undefined) return { ...registration, status: "effective", ...effectiveness }
  // EDGAR has no notices from before `firstNoticeDate`, so the registration may be pending or effective.
  if (statement.filingDate < firstNoticeDate) return undefined
  return { ...registration, status: "pending", effectiveDate: null, evidence: undefined }
}

/**
 * Finds the registrations on Forms S-1, S-3, F-1 and F-3 whose status follows from the filings. The filings of
 * one registration may be years apart, so `filings` must be complete.
 */
export const groupFilingsIntoRegistrations = (filings: ReadonlyArray<EdgarFiling>): ReadonlyArray<EdgarRegistration> =>
  Array.from(Map.groupBy(filings, ({ fileNumber }) => fileNumber)).flatMap(([fileNumber, group]) => {
    const [first, ...others] = group.toSorted(byFilingDate)
    if (fileNumber === null || first === undefined) return []
    return makeRegistration(fileNumber, [first, ...others]) ?? []
  })

const formatStatus = ({ effectiveDate, evidence, status }: EdgarRegistration) =>
  status === "withdrawn" && evidence !== undefined
    ? `withdrawn on ${evidence.filingDate}`
    : status === "effective" && effectiveDate !== null
    ? `effective since ${effectiveDate}`
    : status

const countOf = (count: number, singular: string, plural: string) => `${count} ${count === 1 ? singular : plural}`

/** Determines the type from the forms. Returns the type, the filings that prove it, and a sentence with the reason. */
const determineType = (statement: EdgarFiling, prospectuses: ReadonlyArray<EdgarFiling>) => {
  const resale = prospectuses.find(({ form }) => form === "424B7")
  const isSoldByCompany = prospectuses.some(({ form }) => /^424B[1245]$/.test(form))
  if (resale !== undefined && !isSoldByCompany) {
    return { type: "resale", evidence: [resale], reason: "The type follows from a prospectus under Rule 424(b)(7)." }
  }
  const type = typesByForm.get(statement.form) ?? "offering"
  const reason = type === "shelf"
    ? "The type follows from the form."
    : isSoldByCompany
    ? "The type follows from the form and the prospectuses."
    : "The type follows from the form; the text may show a resale or an equity line."
  return { type, evidence: [], reason }
}

const formatDetails = (
  filings: ReadonlyArray<EdgarFiling>,
  prospectuses: ReadonlyArray<EdgarFiling>,
  reason: string,
) => {
  const amendments = filings.filter(({ form }) => form.endsWith("/A") || form.startsWith("POS")).length
  const latest = prospectuses.at(-1)
  const forms = Array.from(new Set(prospectuses.map(({ form }) => form))).toSorted().join(", ")
  return [
    ...(amendments === 0 ? [] : [`${countOf(amendments, "amendment", "amendments")}.`]),
    ...(latest === undefined
      ? []
      : [`${countOf(prospectuses.length, "prospectus", "prospectuses")} (${forms}), latest ${latest.filingDate}.`]),
    reason,
  ].join(" ")
}

const makeRow = (issuer: Issuer, registration: EdgarRegistration): RowCells => {
  const { effectiveDate, evidence, fileNumber, filings, statement, status } = registration
  const prospectuses = filings.filter(isProspectus)
  const { evidence: evidenceOfType, reason, type } = determineType(statement, prospectuses)
  const used = [statement, ...(evidence === undefined ? [] : [evidence]), ...evidenceOfType, ...prospectuses.slice(-1)]
  return {
    id: `${issuer.cik}-${fileNumber}`,
    ticker: getTickerOn(issuer, statement.filingDate),
    headline: `${statement.form} of ${issuer.name}: ${formatStatus(registration)}`,
    type,
    form_type: statement.form,
    file_no: fileNumber,
    filed_at: statement.filingDate,
    effective_date: effectiveDate,
    effective_status: String(status === "effective"),
    details: formatDetails(filings, prospectuses, reason),
    document_url: buildFilingDocumentUrl(issuer.cik, statement.accession, statement.primaryDocument),
    last_updated: formatLatestAcceptanceTime(filings),
    source: Array.from(new Set(used.map(({ source }) => source))),
  }
}

/** Returns the rows of `registrations`: one per file number. `filings` must include those of all older pages. */
export const makeRegistrationRows = (issuer: Issuer, filings: ReadonlyArray<EdgarFiling>): ReadonlyArray<RowCells> =>
  groupFilingsIntoRegistrations(filings).map((registration) => makeRow(issuer, registration))
