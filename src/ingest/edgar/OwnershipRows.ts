/** Makes rows of `ownership` from filings in XML, and from headers (docs/decisions/0100-ownership-from-filings.md). */
import { Result } from "effect"
import type { RowCells } from "../../load/FileReader.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import { DocumentRejected } from "./DocumentRejected.ts"
import { getTickerOn, type Issuer } from "./Issuer.ts"
import { decodeOwnershipForm, noOwnershipAmounts } from "./OwnershipForm.ts"
import { decodeSchedule13 } from "./Schedule13.ts"
import { decodeSchedule13Header, parseSgmlHeader } from "./Schedule13Header.ts"
import type { EdgarFiling } from "./Submissions.ts"
import { parseXml, type XmlElement } from "./XmlDocument.ts"

/** Whether the form is a Form 3, 4 or 5, or an amendment. */
export const isOwnershipForm = (form: string) => /^[345](\/A)?$/.test(form)

/** Whether the form is a Schedule 13D or 13G, or an amendment. Until 2024, these schedules were not XML. */
export const isSchedule13 = (form: string) => /^SC(HEDULE)? 13[DG](\/A)?$/.test(form)

export interface EdgarOwnershipFiling extends Pick<EdgarFiling, "acceptedAt" | "accession" | "filingDate" | "form"> {
  /** URL of the document to which the rows link. */
  readonly documentUrl: string
  /** URL of the header, if that is read instead of the document. */
  readonly headerUrl?: string
}

/** The owners or reporting persons of one document. */
interface Holders {
  /** The form as the document names it. */
  readonly form: string | null
  readonly issuerCik: string | null
  readonly reportedDate: string | null
  /** Name of the XML element that describes a holder. */
  readonly element: string
  /** One row per holder, without the columns that describe the filing. */
  readonly rows: ReadonlyArray<RowCells>
}

const readForm = (root: XmlElement): Result.Result<Holders, string> =>
  Result.map(decodeOwnershipForm(root), ({ amounts, eventDate, form, issuerCik, owners, reportedDate }) => ({
    form,
    issuerCik,
    reportedDate,
    element: "reportingOwner",
    rows: owners.map(({ cik, name, title, type }, index) => ({
      owner_name: name,
      owner_cik: cik,
      owner_type: type,
      title,
      // All owners of a document hold the same shares. Only the first row has the amounts, so a sum counts them once.
      ...(index === 0 ? amounts : noOwnershipAmounts),
      percent_of_class: null,
      sole_voting_shares: null,
      shared_voting_shares: null,
      event_date: eventDate,
    })),
  }))

const readSchedule = (root: XmlElement): Result.Result<Holders, string> =>
  Result.map(decodeSchedule13(root), ({ eventDate, form, issuerCik, personElement, persons, sharesKind }) => ({
    form,
    issuerCik,
    // Unknown: schedules state only the date of the event, and a 13D reports the holdings of a later day.
    reportedDate: null,
    element: personElement,
    rows: persons.map((person) => ({
      owner_name: person.name,
      owner_cik: person.cik,
      owner_type: person.type,
      title: null,
      ...noOwnershipAmounts,
      common_shares_amount: sharesKind === "common" ? person.shares : null,
      preferred_shares_amount: sharesKind === "preferred" ? person.shares : null,
      percent_of_class: person.percentOfClass,
      sole_voting_shares: person.soleVotes,
      shared_voting_shares: person.sharedVotes,
      event_date: eventDate,
    })),
  }))

const readHeader = (root: XmlElement): Result.Result<Holders, string> =>
  Result.map(decodeSchedule13Header(root), ({ filers, form, issuerCik }) => ({
    form,
    issuerCik,
    reportedDate: null,
    element: "FILED-BY",
    rows: filers.map(({ cik, name }) => ({
      owner_name: name,
      owner_cik: cik,
      owner_type: "five_percent_owner",
      title: null,
      ...noOwnershipAmounts,
      percent_of_class: null,
      sole_voting_shares: null,
      shared_voting_shares: null,
      event_date: null,
    })),
  }))

const readHolders = (root: XmlElement): Result.Result<Holders, string> => {
  if (root.name === "ownershipDocument" && root.namespace === "") return readForm(root)
  return root.name === "edgarSubmission" ? readSchedule(root) : Result.fail("is not an ownership document")
}

/** Returns why the document is not the requested one, or undefined if it is. */
const findMismatch = ({ form, issuerCik, rows }: Holders, filing: EdgarOwnershipFiling) => {
  // Documents name the form `SCHEDULE 13D`. The SEC's list of filings named it `SC 13D` until December 2024.
  const [read, listed] = [form, filing.form].map((name) => name?.replace(/^SC /, "SCHEDULE "))
  if (read !== listed) return "is of another form than its filing"
  if (issuerCik === null) return "has no issuer"
  return rows.length === 0 ? "has no holders" : undefined
}

/**
 * Returns the rows of one filing: one per owner of a Form 3, 4 or 5, or per reporting person of a Schedule 13D or 13G.
 * An amendment is a filing of its own. A filing about another issuer has no rows. `text` is the XML or the header.
 */
export const makeOwnershipRows = ({ filing, issuer, text }: {
  readonly issuer: Issuer
  readonly filing: EdgarOwnershipFiling
  readonly text: string
}): Result.Result<ReadonlyArray<RowCells>, DocumentRejected> => {
  const { headerUrl, documentUrl } = filing
  const sourceUrl = headerUrl ?? documentUrl
  return Result.gen(function* () {
    const holders = yield* headerUrl === undefined
      ? Result.flatMap(parseXml(text), readHolders)
      : Result.flatMap(parseSgmlHeader(text), readHeader)
    const mismatch = findMismatch(holders, filing)
    if (mismatch !== undefined) return yield* Result.fail(mismatch)
    const lastUpdated = formatLatestAcceptanceTime([filing])
    // A company's list of filings also contains those that the company made as an owner of other companies.
    if (holders.issuerCik !== issuer.cik) return []
    return holders.rows.map((owner, index) => ({
      ticker: getTickerOn(issuer, filing.filingDate),
      reported_date: holders.reportedDate,
      filed_at: filing.filingDate,
      form_type: filing.form,
      accession_number: filing.accession,
      document_url: documentUrl,
      ...owner,
      last_updated: lastUpdated,
      source: [`${sourceUrl}#${holders.element}[${index + 1}]`],
    }))
  }).pipe(Result.mapError((reason) => new DocumentRejected({ url: sourceUrl, reason })))
}
