/** Groups a company's filings into registrations by file number and builds the rows of `registrations`. */
import type { RowCells } from "../../../contract/Datasets.ts"
import { formatCountWithNoun } from "../../../contract/rules/CountText.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import { buildFilingDocumentUrl } from "../fetch/EdgarUrls.ts"
import { getTickerOn, type Issuer } from "./Issuer.ts"
import { subtractDays } from "../store/PendingFilings.ts"
import type { EdgarFiling } from "./Submissions.ts"

/** Forms that start a registration. Amendments (`/A`, POS AM) belong to the registration that they amend. */
const typesByForm: ReadonlyMap<string, "offering" | "shelf"> = new Map([
  ...["S-1", "S-1MEF", "F-1", "F-1MEF"].map((form) => [form, "offering"] as const),
  ...["S-3", "S-3ASR", "S-3MEF", "F-3", "F-3ASR", "F-3MEF"].map((form) => [form, "shelf"] as const),
  // The column has no type that fits these three forms exactly. Each of them registers an offering by the company.
  ...["S-4", "S-4MEF", "F-4", "F-4MEF", "S-8"].map((form) => [form, "offering"] as const),
])

/** Returns whether a filing of this form starts a registration or amends one that is not yet effective. */
export const isRegistrationStatement = (form: string) => typesByForm.has(form.replace(/\/A$/, ""))

/** Returns whether the registration becomes effective upon filing, without a notice (Rule 462). */
const isEffectiveUponFiling = ({ form }: EdgarFiling) => /(ASR|MEF)$|^S-8$/.test(form)

/**
 * Returns whether the filing is a prospectus under Rule 424(b), which is filed after the registration becomes
 * effective.
 */
const isProspectus = ({ form }: EdgarFiling) => /^424B\d$/.test(form)

const isPostEffectiveAmendment = ({ form }: EdgarFiling) => form.startsWith("POS") || form === "S-8 POS"

const isPostEffective = (filing: EdgarFiling) => isProspectus(filing) || isPostEffectiveAmendment(filing)

/** Date of the first notices of effectiveness (EFFECT) on EDGAR. */
const firstNoticeDate = "2006-05-01"

export interface EdgarRegistration {
  readonly fileNumber: string
  readonly statement: EdgarFiling
  /** All filings with the file number, oldest first. */
  readonly filings: readonly [EdgarFiling, ...ReadonlyArray<EdgarFiling>]
  readonly status: "effective" | "pending" | "withdrawn"
  /** The effective date. Null if the registration is not yet effective, or if the date is unknown. */
  readonly effectiveDate: string | null
  /** The filing that determines the status; undefined if the registration statement itself does. */
  readonly evidence: EdgarFiling | undefined
}

const byFilingDate = (a: EdgarFiling, b: EdgarFiling) =>
  a.filingDate.localeCompare(b.filingDate) || a.accession.localeCompare(b.accession)

const findEffectiveness = (statement: EdgarFiling, filings: ReadonlyArray<EdgarFiling>) => {
  if (isEffectiveUponFiling(statement)) return { effectiveDate: statement.filingDate, evidence: undefined }
  const notice = filings.find(({ form }) => form === "EFFECT")
  const first = filings.find(isPostEffective)
  if (notice === undefined && first === undefined) return undefined
  // If a prospectus is older than the first listed notice, that notice belongs to an amendment, and the registration's
  // effective date is unknown.
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
  // EDGAR has no notices older than `firstNoticeDate`, so the registration could be either pending or effective.
  if (statement.filingDate < firstNoticeDate) return undefined
  return { ...registration, status: "pending", effectiveDate: null, evidence: undefined }
}

/**
 * Returns the registrations on forms in `typesByForm` whose status can be determined. `filings` must be complete,
 * because the filings for one registration may be years apart.
 */
export const groupFilingsIntoRegistrations = (filings: ReadonlyArray<EdgarFiling>): ReadonlyArray<EdgarRegistration> =>
  Array.from(Map.groupBy(filings, ({ fileNumber }) => fileNumber)).flatMap(([fileNumber, group]) => {
    const [first, ...others] = group.toSorted(byFilingDate)
    if (fileNumber === null || first === undefined) return []
    return makeRegistration(fileNumber, [first, ...others]) ?? []
  })

/** Returns the headline for a registration that has not expired. */
const formatHeadline = (issuer: Issuer, { effectiveDate, evidence, statement, status }: EdgarRegistration) => {
  const state = status === "withdrawn" && evidence !== undefined
    ? `withdrawn on ${evidence.filingDate}`
    : status === "effective" && effectiveDate !== null
    ? `effective since ${effectiveDate}`
    : status
  return `${statement.form} of ${issuer.name}: ${state}`
}

/** Returns the headline that an expired registration has from the day after its last day. */
const formatExpiredHeadline = (
  issuer: Issuer,
  { statement }: EdgarRegistration,
  { endDate, expirationDate }: RegistrationEnd,
) =>
  `${statement.form} of ${issuer.name}: ${
    expirationDate === null ? `expired before ${endDate}` : `expired on ${expirationDate}`
  }`

/** Returns whether the prospectus is for an offering by the company itself. */
const isOfCompany = ({ form }: EdgarFiling) => /^424B[1245]$/.test(form)

/** Purposes of forms whose type alone would be misleading. */
const purposesByForm = new Map([
  ...["S-4", "S-4MEF", "F-4", "F-4MEF"].map((form) => [form, "shares issued in a merger or an exchange"] as const),
  ["S-8", "the company's plans for its staff; an amendment may have ended it"],
])

/**
 * Determines the type of a registration from its form and prospectuses. Returns the type, the filings that prove it,
 * and a sentence that explains it.
 */
const determineType = (statement: EdgarFiling, prospectuses: ReadonlyArray<EdgarFiling>) => {
  const resale = prospectuses.find(({ form }) => form === "424B7")
  const isSoldByCompany = prospectuses.some(isOfCompany)
  if (resale !== undefined && !isSoldByCompany) {
    return { type: "resale", evidence: [resale], reason: "The type follows from a prospectus under Rule 424(b)(7)." }
  }
  const type = typesByForm.get(statement.form) ?? "offering"
  const purpose = purposesByForm.get(statement.form)
  if (purpose !== undefined) return { type, evidence: [], reason: `The form is for ${purpose}.` }
  const reason = type === "shelf"
    ? "The type follows from the form."
    : isSoldByCompany
    ? "The type follows from the form and the prospectuses."
    : "The type follows from the form; the text may show a resale or an equity line."
  return { type, evidence: [], reason }
}

/** The end of a registration under Rule 415(a)(5). */
interface RegistrationEnd {
  /** The last day, or an upper bound for it if the exact day is unknown. Null if the rule does not apply. */
  readonly endDate: string | null
  /** The last day, or null if it is not known exactly. */
  readonly expirationDate: string | null
  /** A sentence for `details`. Its wording remains true after the registration has ended. */
  readonly reason: string | undefined
}

const hasNoEnd: RegistrationEnd = { endDate: null, expirationDate: null, reason: undefined }

/** Effective date of Rule 415(a)(5), which also applies to older registrations. */
const firstDayOfRule = "2005-12-01"

/**
 * Maximum number of days that a registration can be used beyond its end, while the statement that replaces it is
 * pending.
 */
const maxExtensionDays = 180

const addThreeYears = (day: string) =>
  `${String(Math.min(Number(day.slice(0, 4)) + 3, 9999)).padStart(4, "0")}${
    day.slice(4) === "-02-29" ? "-02-28" : day.slice(4)
  }`

const isReplacement = ({ form }: EdgarFiling) => form === "S-3" || form === "F-3"

/**
 * Returns the effective date or, if it is unknown, the date of the first filing that shows the registration to be
 * effective. Returns undefined if the registration is not effective.
 */
const findEffect = ({ effectiveDate, evidence, status }: EdgarRegistration) =>
  effectiveDate ?? (status === "effective" ? evidence?.filingDate : undefined)

/**
 * Returns the last day of use if a pending replacement statement allows the registration to be used after
 * `anniversary`. Returns undefined if no such statement was pending then.
 */
const findExtension = (anniversary: string, start: string, others: ReadonlyArray<EdgarRegistration>) => {
  const pending = others.find((other) =>
    isReplacement(other.statement) && other.statement.filingDate > start &&
    other.statement.filingDate <= anniversary && (findEffect(other) ?? "9999") > anniversary &&
    !(other.status === "withdrawn" && (other.evidence?.filingDate ?? "") <= anniversary)
  )
  if (pending === undefined) return undefined
  const latest = subtractDays(anniversary, -maxExtensionDays)
  const effect = findEffect(pending) ?? latest
  return effect < latest ? effect : latest
}

/**
 * Determines when a shelf registration on Form S-3 or F-3 ends: three years after it became effective, or later if a
 * replacement statement was pending on that day. The limit does not apply to resales, so a registration has no end if
 * all its prospectuses may be for resales.
 */
const findEnd = (
  registration: EdgarRegistration,
  all: ReadonlyArray<EdgarRegistration>,
): RegistrationEnd => {
  const { effectiveDate, filings, statement, status } = registration
  const prospectuses = filings.filter(isProspectus)
  if (status !== "effective" || !/^[SF]-3/.test(statement.form)) return hasNoEnd
  if (prospectuses.length > 0 && !prospectuses.some(isOfCompany)) {
    return {
      ...hasNoEnd,
      reason: "No prospectus shows a sale by the company, and resales do not end after three years.",
    }
  }
  const effective = findEffect(registration) ?? statement.filingDate
  const start = effective < firstDayOfRule ? firstDayOfRule : effective
  const anniversary = addThreeYears(start)
  const extension = findExtension(anniversary, start, all.filter((one) => one !== registration))
  const endDate = extension ?? anniversary
  // A statement that increases an offering (MEF) ends together with the original statement, which the filing list does
  // not identify.
  const isExact = effectiveDate !== null && !statement.form.endsWith("MEF")
  const rule = "three years after it became effective (Rule 415(a)(5))"
  const latest = isExact ? "" : `, by ${endDate}`
  return {
    endDate,
    expirationDate: isExact ? endDate : null,
    reason: extension === undefined
      ? `Ends ${rule}${latest}.`
      : `Ends more than ${rule}, because a new statement was pending then${latest}.`,
  }
}

const formatDetails = (
  filings: ReadonlyArray<EdgarFiling>,
  prospectuses: ReadonlyArray<EdgarFiling>,
  reason: string,
) => {
  const amendments = filings.filter((filing) => filing.form.endsWith("/A") || isPostEffectiveAmendment(filing)).length
  const latest = prospectuses.at(-1)
  const forms = Array.from(new Set(prospectuses.map(({ form }) => form))).toSorted().join(", ")
  return [
    ...(amendments === 0 ? [] : [`${formatCountWithNoun(amendments, "amendment")}.`]),
    ...(latest === undefined ? [] : [
      `${
        formatCountWithNoun(prospectuses.length, "prospectus", "prospectuses")
      } (${forms}), latest ${latest.filingDate}.`,
    ]),
    reason,
  ].join(" ")
}

const formatRegistrationId = ({ cik }: Issuer, { fileNumber }: EdgarRegistration) => `${cik}-${fileNumber}`

const makeRow = (
  issuer: Issuer,
  registration: EdgarRegistration,
  all: ReadonlyArray<EdgarRegistration>,
  today: string,
  feeSources: ReadonlyArray<string>,
): RowCells => {
  const { effectiveDate, evidence, fileNumber, filings, statement, status } = registration
  const prospectuses = filings.filter(isProspectus)
  const { evidence: evidenceOfType, reason, type } = determineType(statement, prospectuses)
  const end = findEnd(registration, all)
  const isExpired = end.endDate !== null && end.endDate < today
  const used = [statement, ...(evidence === undefined ? [] : [evidence]), ...evidenceOfType, ...prospectuses.slice(-1)]
  const updated = formatLatestAcceptanceTime(filings)
  const ended = end.endDate !== null && isExpired ? `${subtractDays(end.endDate, -1)} 00:00:00` : updated
  return {
    id: formatRegistrationId(issuer, registration),
    ticker: getTickerOn(issuer, statement.filingDate),
    headline: isExpired ? formatExpiredHeadline(issuer, registration, end) : formatHeadline(issuer, registration),
    type,
    form_type: statement.form,
    file_no: fileNumber,
    filed_at: statement.filingDate,
    effective_date: effectiveDate,
    effective_status: String(status === "effective" && !isExpired),
    expiration_date: end.expirationDate,
    details: [formatDetails(filings, prospectuses, reason), ...(end.reason === undefined ? [] : [end.reason])].join(
      " ",
    ),
    document_url: buildFilingDocumentUrl(issuer.cik, statement.accession, statement.primaryDocument),
    last_updated: ended > updated ? ended : updated,
    source: Array.from(new Set([...used.map(({ source }) => source), ...feeSources])),
  }
}

/**
 * Returns the rows of `registrations`, one per file number. `filings` must include the filings from all older pages.
 * `today` is the date in New York. `feeSources` maps file numbers to the source URLs of their amounts. The rows
 * themselves contain no amounts:
 * `saveRegistrationFees` adds them, so that amounts loaded from another source are preserved.
 */
export const makeRegistrationRows = (
  issuer: Issuer,
  filings: ReadonlyArray<EdgarFiling>,
  today: string,
  feeSources: ReadonlyMap<string, ReadonlyArray<string>> = new Map(),
): ReadonlyArray<RowCells> => {
  const registrations = groupFilingsIntoRegistrations(filings)
  return registrations.map((registration) =>
    makeRow(issuer, registration, registrations, today, feeSources.get(registration.fileNumber) ?? [])
  )
}

/** The scheduled end of a registration, and the headlines that `expireRegistrations` needs to update its row. */
export interface ScheduledEnd {
  /** `id` of the registration's row. */
  readonly id: string
  /** The last day that the registration can be effective. */
  readonly lastDay: string
  /** The headline of the row up to that day. */
  readonly headline: string
  /** The headline of the row from the following day. */
  readonly expiredHeadline: string
}

/** Returns the past and future ends of the company's registrations under Rule 415(a)(5). */
export const listRegistrationEnds = (
  issuer: Issuer,
  filings: ReadonlyArray<EdgarFiling>,
): ReadonlyArray<ScheduledEnd> => {
  const registrations = groupFilingsIntoRegistrations(filings)
  return registrations.flatMap((registration) => {
    const end = findEnd(registration, registrations)
    if (end.endDate === null) return []
    return [{
      id: formatRegistrationId(issuer, registration),
      lastDay: end.endDate,
      headline: formatHeadline(issuer, registration),
      expiredHeadline: formatExpiredHeadline(issuer, registration, end),
    }]
  })
}
