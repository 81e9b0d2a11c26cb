/**
 * Builds rows of `ownership` from XML filings and from SGML headers (docs/decisions/0100-ownership-from-filings.md).
 */
import { Result } from "effect"
import type { RowCells } from "../../../contract/Datasets.ts"
import { formatLatestAcceptanceTime } from "./AcceptanceTime.ts"
import type { Doubt } from "./Doubt.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { getTickerOn, type Issuer } from "./Issuer.ts"
import { decodeOwnershipForm } from "./OwnershipForm.ts"
import { type OwnershipHolders, unknownHolding } from "./OwnershipHolders.ts"
import { decodeSchedule13 } from "./Schedule13.ts"
import { decodeSchedule13Header, parseSgmlHeader } from "./Schedule13Header.ts"
import type { EdgarFiling } from "./Submissions.ts"
import { parseXml, type XmlElement } from "./XmlDocument.ts"

/** Returns whether the form is a Form 3, 4, or 5, or an amendment to one. */
export const isOwnershipForm = (form: string) => /^[345](\/A)?$/.test(form)

/**
 * Returns whether the form is a Schedule 13D or 13G, or an amendment to one. Before December 2024, these schedules were
 * not XML.
 */
export const isSchedule13 = (form: string) => /^SC(HEDULE)? 13[DG](\/A)?$/.test(form)

/** A filing whose document or header is read as a Form 3, 4, or 5, or a Schedule 13D or 13G. */
export interface EdgarOwnershipFiling extends Pick<EdgarFiling, "acceptedAt" | "accession" | "filingDate" | "form"> {
  /** URL of the document that the rows link to. */
  readonly documentUrl: string
  /** URL of the SGML header, if it is read instead of the document. */
  readonly headerUrl?: string
}

/** Decodes a form or schedule in XML. */
const readHolders = (root: XmlElement, filingDate: string): Result.Result<OwnershipHolders, string> => {
  if (root.name === "ownershipDocument" && root.namespace === "") return decodeOwnershipForm(root, filingDate)
  return root.name === "edgarSubmission"
    ? decodeSchedule13(root, filingDate)
    : Result.fail("is not an ownership document")
}

/**
 * Returns why the document is not the one of this filing, as a clause that completes a sentence about the document, or
 * undefined if it is.
 */
const findMismatch = ({ form, issuerCik, rows }: OwnershipHolders, filing: EdgarOwnershipFiling) => {
  // Documents call the form `SCHEDULE 13D`, but the SEC's filing list called it `SC 13D` until December 2024.
  const [formOfDocument, formOfFiling] = [form, filing.form].map((name) => name?.replace(/^SC /, "SCHEDULE "))
  if (formOfDocument !== formOfFiling) return "is of another form than its filing"
  if (issuerCik === null) return "has no issuer"
  if (rows.length === 0) return "has no holders"
  return rows.every(({ owner_name }) => owner_name === null) ? "has no holder with a name" : undefined
}

/** The rows from one filing, and doubts about suspicious values. */
export interface OwnershipFilingRows {
  readonly rows: ReadonlyArray<RowCells>
  readonly doubts: ReadonlyArray<Doubt>
}

/** A row without holder columns. It shows that the filing exists, but not what the holder owns (§2.7). */
const rowWithoutHolder = { owner_name: null, owner_cik: null, owner_type: null, ...unknownHolding }

/**
 * If a document states only part of the holdings, replaces its rows with a single row without a holder. A row with a
 * holder would supersede the holder's row from an earlier filing, although it is incomplete. The values that the
 * document states for the first holder become doubts, so that an operator can publish them nevertheless.
 */
const replacePartialHoldings = (holders: OwnershipHolders): Pick<OwnershipHolders, "doubts" | "rows"> => {
  if (!holders.isPartial) return holders
  const reason = "is in an amendment without transactions, which states only a part of the holdings"
  const stated = Object.entries(holders.rows[0] ?? {}).flatMap(([column, read]) =>
    typeof read === "string" ? [{ holder: 0, column, read, confirmable: read, reason }] : []
  )
  return {
    rows: [rowWithoutHolder],
    doubts: [...holders.doubts.filter(({ holder }) => holder === 0), ...stated],
  }
}

/**
 * Builds the rows of `ownership` for one filing: one per owner for Forms 3, 4, and 5, and one per reporting person for
 * Schedules 13D and 13G. Also returns the doubts about values that the rows do not contain because they are suspicious.
 *
 * - `text`: the filing's XML document or, if `filing.headerUrl` is set, its SGML header
 * - `issuer`: the company whose filing list contains the filing; if the holdings are in another company, there are no
 *   rows
 *
 * An amendment is a separate filing with its own rows. If it states only part of the holdings, it gets a row without a
 * holder, so that the rows of the amended form remain valid. Fails if the text is not the document of this filing.
 */
export const makeOwnershipRows = ({ filing, issuer, text }: {
  readonly issuer: Issuer
  readonly filing: EdgarOwnershipFiling
  readonly text: string
}): Result.Result<OwnershipFilingRows, DocumentRejected> => {
  const { headerUrl, documentUrl, filingDate } = filing
  const sourceUrl = headerUrl ?? documentUrl
  return Result.gen(function* () {
    const holders = yield* headerUrl === undefined
      ? Result.flatMap(parseXml(text), (root) => readHolders(root, filingDate))
      : Result.flatMap(parseSgmlHeader(text), decodeSchedule13Header)
    const mismatch = findMismatch(holders, filing)
    if (mismatch !== undefined) return yield* Result.fail(mismatch)
    // A company's filing list also includes filings that the company made as an owner of shares in other companies.
    if (holders.issuerCik !== issuer.cik) return { rows: [], doubts: [] }
    /** Returns the URL of a holder's element in the document, such as `…/form4.xml#reportingOwner[1]`. */
    const getUrl = (index: number) => `${sourceUrl}#${holders.element}[${index + 1}]`
    const published = replacePartialHoldings(holders)
    const rows: ReadonlyArray<RowCells> = published.rows.map((holderCells, index) => ({
      ticker: getTickerOn(issuer, filingDate),
      reported_date: holders.reportedDate,
      filed_at: filingDate,
      form_type: filing.form,
      accession_number: filing.accession,
      document_url: documentUrl,
      ...holderCells,
      last_updated: formatLatestAcceptanceTime([filing]),
      source: [getUrl(index)],
    }))
    const doubts = published.doubts.map(({ column, confirmable = null, holder, read, reason }) => {
      const value = rows[holder]?.[column]
      return {
        table: "ownership",
        url: getUrl(holder),
        column,
        read,
        confirmable,
        published: typeof value === "string" ? value : null,
        // The doubts about a partial document must be decided together, because a row with only some of the columns
        // would supersede the row of the amended form.
        ...(holders.isPartial && { isJoint: true }),
        reason,
      }
    })
    return { rows, doubts }
  }).pipe(Result.mapError((reason) => new DocumentRejected({ url: sourceUrl, reason })))
}
