/**
 * Decodes a company's filing list (`/submissions/CIK##########.json`, which the SEC calls submissions). Addresses,
 * telephone numbers, and tax numbers are never decoded.
 */
import { Array, type DateTime, Record, Result, Schema } from "effect"
import { CalendarDate } from "../../../contract/rules/Dates.ts"
import { assignAcceptanceTimes } from "./AcceptanceTime.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import {
  AccessionNumber,
  checkCikMatchesUrl,
  Cik,
  makeJsonTextDecoder,
  makeParsedJsonDecoder,
  normalizeCellText,
  SecFormName,
} from "./JsonDocument.ts"

const OptionalText = Schema.NullOr(Schema.String)

/** A filing in the list. The names are those of the SEC. */
const ListedFiling = Schema.Struct({
  accessionNumber: AccessionNumber,
  filingDate: CalendarDate,
  acceptanceDateTime: OptionalText,
  form: SecFormName,
  fileNumber: OptionalText,
  items: OptionalText,
  primaryDocument: OptionalText,
  primaryDocDescription: OptionalText,
  isXBRL: Schema.optionalKey(Schema.Unknown),
  reportDate: Schema.optionalKey(Schema.Unknown),
})

/** The form of the list in the document: one array per property, with one element per filing, newest filing first. */
const FilingArrays = Schema.Struct({
  ...Record.map(ListedFiling.fields, () => Schema.Array(Schema.Unknown)),
  isXBRL: Schema.optionalKey(Schema.Array(Schema.Unknown)),
  reportDate: Schema.optionalKey(Schema.Array(Schema.Unknown)),
})

const SubmissionsDocument = Schema.Struct({
  cik: Cik,
  sicDescription: OptionalText,
  filings: Schema.Struct({
    recent: FilingArrays,
    files: Schema.Array(Schema.Struct({ name: Schema.String, filingTo: CalendarDate })),
  }),
})

/** A filing of a company. */
export interface EdgarFiling {
  readonly accession: string
  readonly form: string
  /** The SEC's official date. A filing made in the evening is dated the next business day. */
  readonly filingDate: string
  /** The SEC's acceptance timestamp, whose `Z` may be wrong. */
  readonly stamp: string
  /** The acceptance time. Null if the time or its time zone is unknown (see `AcceptanceTime.ts`). */
  readonly acceptedAt: DateTime.Utc | null
  /** The SEC's file number, such as `333-287699`. All filings for a registration have the same number. */
  readonly fileNumber: string | null
  readonly items: ReadonlyArray<string>
  /** File name of the main document. It is empty for many old filings. */
  readonly primaryDocument: string
  readonly description: string | null
  /** Whether the filing contains XBRL, so that the SEC adds its values to the company facts. */
  readonly isXbrl: boolean
  /** The last day of the period that the report covers, `YYYY-MM-DD`. */
  readonly reportDate?: string
  /** URL of the document that lists the filing. The fragment is the accession number. */
  readonly source: string
}

/**
 * A decoded list of filings. The URL fragment of a rejection is the filing's accession number or, if that is invalid,
 * its index.
 */
export interface DecodedFilings {
  readonly filings: ReadonlyArray<EdgarFiling>
  /** Filings that could not be decoded. */
  readonly rejections: ReadonlyArray<DocumentRejected>
}

/**
 * A page of older filings, which is a separate document. Its URL is `buildSubmissionsPageUrl(name)`. `filingTo` is the
 * date of its newest filing.
 */
export interface SubmissionsPage {
  readonly name: string
  readonly filingTo: string
}

/** A company's filing list: its newest filings, and where to find older ones. */
export interface CompanySubmissions extends DecodedFilings {
  readonly cik: string
  readonly sicDescription: string | null
  readonly pages: ReadonlyArray<SubmissionsPage>
  readonly url: string
}

/**
 * Matches the items of Form 8-K, Form D, and other forms, such as `5.02`. Does not match the items of EFFECT and CT
 * ORDER.
 */
const itemPattern = /^\d{1,2}[A-Za-z]?(\.\d{1,2})?$/

const decodeListedFiling = makeParsedJsonDecoder(ListedFiling)
const isAccessionNumber = Schema.is(AccessionNumber)
const isCalendarDate = Schema.is(CalendarDate)

/**
 * Converts the parallel arrays of the SEC's filing list to filings: the array of each property has one element per
 * filing, in the same order. Fails if the arrays do not have the same length, or if no filing can be decoded.
 */
const makeFilings = (
  arrays: typeof FilingArrays.Type,
  url: string,
): Result.Result<DecodedFilings, DocumentRejected> => {
  const count = arrays.accessionNumber.length
  if (Object.values(arrays).some(({ length }) => length !== count)) {
    return Result.fail(new DocumentRejected({ url, reason: "has arrays of filings with different lengths" }))
  }
  const [listed, rejections] = Array.separate(arrays.accessionNumber.map((accession, index) =>
    decodeListedFiling(
      Record.map({ isXBRL: undefined, reportDate: undefined, ...arrays }, (column) => column?.[index]),
      `${url}#${isAccessionNumber(accession) ? accession : index}`,
    )
  ))
  const filings = listed.map((filing) => ({
    accession: filing.accessionNumber,
    form: filing.form,
    filingDate: filing.filingDate,
    stamp: filing.acceptanceDateTime ?? "",
    fileNumber: normalizeCellText(filing.fileNumber ?? ""),
    items: (filing.items ?? "").split(",").filter((item) => itemPattern.test(item)),
    primaryDocument: normalizeCellText(filing.primaryDocument ?? "") ?? "",
    description: normalizeCellText(filing.primaryDocDescription ?? ""),
    isXbrl: filing.isXBRL === 1,
    ...(isCalendarDate(filing.reportDate) && { reportDate: filing.reportDate }),
    source: `${url}#${filing.accessionNumber}`,
  }))
  // If the SEC has changed the format of the list, no filing can be decoded.
  const [first] = rejections
  return first !== undefined && filings.length === 0
    ? Result.fail(new DocumentRejected({ url, reason: first.reason }))
    : Result.succeed({ filings: assignAcceptanceTimes(filings), rejections })
}

const decodeDocument = makeJsonTextDecoder(SubmissionsDocument)
const decodeArrays = makeJsonTextDecoder(FilingArrays)

/** Decodes a company's filing list. It contains only the newest filings; the result names the pages with older ones. */
export const decodeSubmissions = (text: string, url: string): Result.Result<CompanySubmissions, DocumentRejected> =>
  Result.gen(function* () {
    const document = yield* decodeDocument(text, url)
    yield* checkCikMatchesUrl(document.cik, url)
    return {
      cik: document.cik,
      sicDescription: normalizeCellText(document.sicDescription ?? ""),
      ...yield* makeFilings(document.filings.recent, url),
      pages: document.filings.files,
      url,
    }
  })

/**
 * Decodes a page of older filings, which has its arrays at the top level. Uses only the filings on this page to
 * determine whether the timestamps are in UTC or Eastern time. `resolveAcceptanceTimes` later decides for all pages
 * together.
 */
export const decodeSubmissionsPage = (text: string, url: string): Result.Result<DecodedFilings, DocumentRejected> =>
  Result.flatMap(decodeArrays(text, url), (arrays) => makeFilings(arrays, url))
