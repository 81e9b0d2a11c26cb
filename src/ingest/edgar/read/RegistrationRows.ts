/**
 * Groups a company's filings into registrations of securities and builds the rows of `registrations`. All filings for
 * one registration have the same SEC file number.
 */
import type { RowCells } from "../../../contract/Datasets.ts"
import { formatCountWithNoun } from "../../../contract/rules/CountWithNoun.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import { buildFilingDocumentUrl } from "../fetch/EdgarUrls.ts"
import { getTickerOn, type Issuer } from "./Issuer.ts"
import { subtractDays } from "../store/PendingFilings.ts"
import type { EdgarFiling } from "./Submissions.ts"

/**
 * The type (a column of `registrations`) of the registrations that these forms start. Amendments (`/A`, POS AM) do not
 * start a registration but belong to the one that they amend.
 */
const typesByForm: ReadonlyMap<string, "offering" | "shelf"> = new Map([
  ...["S-1", "S-1MEF", "F-1", "F-1MEF"].map((form) => [form, "offering"] as const),
  ...["S-3", "S-3ASR", "S-3MEF", "F-3", "F-3ASR", "F-3MEF"].map((form) => [form, "shelf"] as const),
  // The column has no type that fits these three forms exactly. Each of them registers an offering by the company.
  ...["S-4", "S-4MEF", "F-4", "F-4MEF", "S-8"].map((form) => [form, "offering"] as const),
])

/** Returns whether a filing of this form starts a registration or amends one that is not yet effective. */
export const isRegistrationStatement = (form: string) => typesByForm.has(form.replace(/\/A$/, ""))

/**
 * Returns whether the registration becomes effective as soon as it is filed, without a notice from the SEC (Rule 462).
 */
const isEffectiveUponFiling = ({ form }: EdgarFiling) => /(ASR|MEF)$|^S-8$/.test(form)

/**
 * Returns whether the filing is a prospectus under Rule 424(b), which is filed after the registration becomes
 * effective.
 */
const isProspectus = ({ form }: EdgarFiling) => /^424B\d$/.test(form)

/** Returns whether the filing amends a registration that is already effective. */
const isPostEffectiveAmendment = ({ form }: EdgarFiling) => form.startsWith("POS") || form === "S-8 POS"

/** Returns whether the filing shows that the registration was effective when it was filed. */
const isPostEffective = (filing: EdgarFiling) => isProspectus(filing) || isPostEffectiveAmendment(filing)

/** Date of the first notices of effectiveness (form EFFECT) on EDGAR. */
const firstNoticeDate = "2006-05-01"

/** A registration of securities, derived from its filings. */
export interface EdgarRegistration {
  readonly fileNumber: string
  /** The registration statement: the filing that starts the registration. */
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

/**
 * Determines when a registration became effective and which filing shows it (undefined if the statement itself does).
 * The date is null if it is unknown. Returns undefined if no filing shows that the registration is effective. `filings`
 * are all filings of the registration, oldest first.
 */
const findEffectiveness = (statement: EdgarFiling, filings: ReadonlyArray<EdgarFiling>) => {
  if (isEffectiveUponFiling(statement)) return { effectiveDate: statement.filingDate, evidence: undefined }
  const notice = filings.find(({ form }) => form === "EFFECT")
  const firstPostEffective = filings.find(isPostEffective)
  if (notice === undefined && firstPostEffective === undefined) return undefined
  // If a prospectus is older than the first listed notice, that notice belongs to an amendment, and the registration's
  // effective date is unknown.
  const isFirstNotice = notice !== undefined &&
    (firstPostEffective === undefined || firstPostEffective.filingDate >= notice.filingDate)
  return isFirstNotice
    ? { effectiveDate: notice.filingDate, evidence: notice }
    : { effectiveDate: null, evidence: firstPostEffective }
}

/**
 * Builds a registration from its filings, oldest first. Returns undefined if none of them starts a registration, or if
 * its status cannot be determined.
 */
const makeRegistration = (
  fileNumber: string,
  filings: readonly [EdgarFiling, ...ReadonlyArray<EdgarFiling>],
): EdgarRegistration | undefined => {
  const statement = filings.find(({ form }) => typesByForm.has(form))
  if (statement === undefined) return undefined
  const registration = { fileNumber, statement, filings }
  const effectiveness = findEffectiveness(statement, filings)
  // RW is a request to withdraw the registration. A later EFFECT or RW WD (withdrawal of that request) cancels it.
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
 * Returns the company's registrations on forms in `typesByForm` whose status can be determined. `filings` must be
 * complete, because the filings for one registration may be years apart.
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

/**
 * Returns whether the prospectus is for an offering by the company itself, as opposed to a resale by its shareholders
 * (424B3 and 424B7 can be for resales).
 */
const isOfCompany = ({ form }: EdgarFiling) => /^424B[1245]$/.test(form)

/**
 * For forms whose type in `typesByForm` alone would be misleading, what they are actually for. The text becomes part of
 * `details`.
 */
const purposesByForm = new Map([
  ...["S-4", "S-4MEF", "F-4", "F-4MEF"].map((form) => [form, "shares issued in a merger or an exchange"] as const),
  ["S-8", "the company's plans for its staff; an amendment may have ended it"],
])

/**
 * Determines the type of a registration from its form and prospectuses. It is the type of the form, unless there are
 * prospectuses for resales and none for a sale by the company itself. Returns the type, a sentence that explains it
 * (`reason`), and the filings other than the statement itself that prove it (`evidence`). If the type follows from the
 * form, `evidence` is empty. Only the type `resale` is proved by another filing, a prospectus.
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

/** The end of a registration under Rule 415(a)(5), three years after it became effective. */
interface RegistrationEnd {
  /**
   * The last day on which the registration can be used, or an upper bound for it if the exact day is unknown. Null if
   * the rule does not apply.
   */
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
 * Maximum number of days that a registration can be used beyond its end while the statement that replaces it is
 * pending.
 */
const maxExtensionDays = 180

/**
 * Adds three years to a day (`YYYY-MM-DD`). Three years after a leap day is February 28, and the year has at most four
 * digits.
 */
const addThreeYears = (day: string) =>
  `${String(Math.min(Number(day.slice(0, 4)) + 3, 9999)).padStart(4, "0")}${
    day.slice(4) === "-02-29" ? "-02-28" : day.slice(4)
  }`

/** Returns whether the statement is one that can replace an expiring shelf registration. */
const isReplacement = ({ form }: EdgarFiling) => form === "S-3" || form === "F-3"

/**
 * Returns the day since which the registration is known to be effective: its effective date or, if that is unknown, the
 * date of the first filing that shows it to be effective. Returns undefined if the registration is not effective.
 */
const findEffect = ({ effectiveDate, evidence, status }: EdgarRegistration) =>
  effectiveDate ?? (status === "effective" ? evidence?.filingDate : undefined)

/**
 * Returns the last day of use if a pending replacement statement allows a registration to be used after `anniversary`,
 * the day three years after it became effective (`start`): the day on which the replacement becomes effective, but at
 * most 180 days after `anniversary`. Returns undefined if no such statement was pending on that day. `others` are the
 * company's other registrations.
 */
const findExtension = (anniversary: string, start: string, others: ReadonlyArray<EdgarRegistration>) => {
  const pending = others.find((other) =>
    isReplacement(other.statement) && other.statement.filingDate > start &&
    // A replacement that is not effective yet counts as effective in the distant future.
    other.statement.filingDate <= anniversary && (findEffect(other) ?? "9999") > anniversary &&
    !(other.status === "withdrawn" && (other.evidence?.filingDate ?? "") <= anniversary)
  )
  if (pending === undefined) return undefined
  const latestDay = subtractDays(anniversary, -maxExtensionDays)
  const effectiveDay = findEffect(pending) ?? latestDay
  return effectiveDay < latestDay ? effectiveDay : latestDay
}

/**
 * Determines when a shelf registration on Form S-3 or F-3 ends: three years after it became effective, or later if a
 * replacement statement was pending on that day. The limit does not apply to resales, so a registration has no end if
 * all its prospectuses may be for resales. `all` are all registrations of the company.
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
  // For registrations that were effective before the rule, the three years began when the rule took effect.
  const start = effective < firstDayOfRule ? firstDayOfRule : effective
  const anniversary = addThreeYears(start)
  const extension = findExtension(anniversary, start, all.filter((one) => one !== registration))
  const endDate = extension ?? anniversary
  // A statement that increases an offering (MEF) ends together with the original statement, which the filing list does
  // not identify.
  const isExact = effectiveDate !== null && !statement.form.endsWith("MEF")
  const rule = "three years after it became effective (Rule 415(a)(5))"
  const bound = isExact ? "" : `, by ${endDate}`
  return {
    endDate,
    expirationDate: isExact ? endDate : null,
    reason: extension === undefined
      ? `Ends ${rule}${bound}.`
      : `Ends more than ${rule}, because a new statement was pending then${bound}.`,
  }
}

/** Formats the number of amendments, the number and forms of the prospectuses, and the reason for the type. */
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

/**
 * Builds the row of a registration. `all` are all registrations of the company. `today` determines whether the
 * registration has expired. `feeSources` are the source URLs of its amounts, which are not part of this row.
 */
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
  /** The filings that the row is based on. */
  const used = [statement, ...(evidence === undefined ? [] : [evidence]), ...evidenceOfType, ...prospectuses.slice(-1)]
  const updated = formatLatestAcceptanceTime(filings)
  // The expiration changes the row, too, on the day after the last day.
  const expiredAt = end.endDate !== null && isExpired ? `${subtractDays(end.endDate, -1)} 00:00:00` : updated
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
    last_updated: expiredAt > updated ? expiredAt : updated,
    source: Array.from(new Set([...used.map(({ source }) => source), ...feeSources])),
  }
}

/**
 * Returns the company's rows of `registrations`, one per file number. `filings` must include the filings from all older
 * pages of the filing list. `today` is the date in New York.
 *
 * The rows contain no amounts: `saveRegistrationFees` adds those from fee exhibits later, so that amounts loaded from
 * another source are preserved. They do contain the source URLs of these amounts, which `feeSources` maps from file
 * numbers.
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

/**
 * The last day of a registration, and the headlines that `expireRegistrations` needs to update its row after that day.
 */
export interface ScheduledEnd {
  /** `id` of the registration's row. */
  readonly id: string
  /** The last day that the registration can be effective. */
  readonly lastDay: string
  /** The headline of the row through that day. */
  readonly headline: string
  /** The headline of the row from the following day. */
  readonly expiredHeadline: string
}

/**
 * Returns the last days of the company's registrations under Rule 415(a)(5), in the past and in the future, with the
 * headlines that their rows have through that day and after it. Registrations without a last day are left out.
 */
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
