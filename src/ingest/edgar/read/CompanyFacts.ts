/** Decodes share counts and public floats from XBRL (`/api/xbrl/companyfacts/CIK##########.json`). */
import { Array as Arr, Order, Result, Schema } from "effect"
import { CalendarDate } from "../../../contract/rules/Dates.ts"
import type { DocumentRejected } from "../fetch/DocumentRejected.ts"
import {
  AccessionNumber,
  checkCikMatchesUrl,
  Cik,
  makeJsonTextDecoder,
  makeParsedJsonDecoder,
  SecFormName,
} from "./JsonDocument.ts"

const FactElement = Schema.Struct({
  end: CalendarDate,
  val: Schema.Number,
  accn: AccessionNumber,
  form: SecFormName,
  filed: CalendarDate,
})

/** A value that one filing reports for the date `end`. */
export interface CompanyFact extends Schema.Schema.Type<typeof FactElement> {
  /** Path of the fact in the document, without the accession number: `dei/EntityPublicFloat/USD`. */
  readonly path: string
  /** Set if the count is not in the facts, but in the XBRL instance of the filing. */
  readonly instance?: {
    /** The classes with their symbols and counts. Empty if the instance has one count of all shares. */
    readonly classes: string
    /** Links to the elements of the XBRL instance. */
    readonly source: ReadonlyArray<string>
  }
}

const Facts = Schema.optionalKey(Schema.Array(Schema.Unknown))
const ShareFacts = Schema.optionalKey(Schema.Struct({ units: Schema.Struct({ shares: Facts }) }))

const CompanyFactsDocument = Schema.Struct({
  cik: Cik,
  facts: Schema.Struct({
    dei: Schema.optionalKey(Schema.Struct({
      EntityCommonStockSharesOutstanding: ShareFacts,
      EntityPublicFloat: Schema.optionalKey(Schema.Struct({ units: Schema.Struct({ USD: Facts }) })),
    })),
    "us-gaap": Schema.optionalKey(Schema.Struct({ CommonStockSharesOutstanding: ShareFacts })),
  }),
})

/** The usable facts of a company, sorted by date, oldest first. */
export interface CompanyFacts {
  readonly cik: string
  /** Shares outstanding, from the cover pages of filings. The facts lack those of companies with several classes. */
  readonly counts: ReadonlyArray<CompanyFact>
  /** Shares outstanding of all classes, from the balance sheet of each annual or quarterly report. */
  readonly balanceSheetCounts: ReadonlyArray<CompanyFact>
  /** Market value of the shares that are not held by affiliates, in US dollars. */
  readonly floats: ReadonlyArray<CompanyFact>
  /** Facts that are not readable. The fragment of the URL is the path of the fact and its position. */
  readonly rejections: ReadonlyArray<DocumentRejected>
}

/** The facts of a company for which the SEC has none, such as a new holding company. */
export const makeEmptyFacts = (cik: string): CompanyFacts => ({
  cik,
  counts: [],
  balanceSheetCounts: [],
  floats: [],
  rejections: [],
})

/** Whether the form states shares outstanding or public float in XBRL. */
export const isPeriodicReport = (form: string) => /^(10-[KQ]T?|20-F|40-F)(\/A)?$/.test(form)

/** Orders facts by the date of their value, and facts of one date by their filing date. */
export const byFactDate = Order.combineAll<CompanyFact>([
  Order.mapInput(Order.String, ({ end }) => end),
  Order.mapInput(Order.String, ({ filed }) => filed),
  Order.mapInput(Order.String, ({ accn }) => accn),
])

/** Whether the value is from 1 to the largest safe integer, and not dated after its filing. */
export const isUsable = ({ end, filed, val }: Pick<CompanyFact, "end" | "filed" | "val">) =>
  val >= 1 && val <= Number.MAX_SAFE_INTEGER && end <= filed

/**
 * Drops facts that are below 1, above the largest safe integer, dated after their filing, or repeated in a filing.
 * If a filing reports different values for one date, drops all of them.
 */
const selectUsable = (
  path: string,
  facts: ReadonlyArray<typeof FactElement.Type> = [],
): ReadonlyArray<CompanyFact> =>
  Array.from(Map.groupBy(facts.filter(isUsable), ({ accn, end }) => `${accn} ${end}`).values())
    .filter((repeated) => new Set(repeated.map(({ val }) => val)).size === 1)
    .flatMap((repeated) => repeated.map((fact) => ({ ...fact, path })).toSorted(byFactDate).slice(0, 1))
    .toSorted(byFactDate)

const isInteger = ({ val }: CompanyFact) => Number.isInteger(val)

/** Smaller balance sheet counts are placeholders, such as 1, 100 or 1,000 (docs/decisions/0103). */
const minBalanceSheetCount = 10_000

/** If the public float, divided by a count, gives more dollars per share, the count is in thousands or millions. */
const maxPrice = 10_000

/** Returns the plausible count of each annual or quarterly report: that of its own date, not those it compares with. */
const selectBalanceSheetCounts = (counts: ReadonlyArray<CompanyFact>, floats: ReadonlyArray<CompanyFact>) => {
  const isPlausible = ({ end, val }: CompanyFact) => {
    const float = floats.findLast((one) => one.end <= end)
    return val >= minBalanceSheetCount && (float === undefined || float.val / val <= maxPrice)
  }
  const reported = counts.filter((count) => isInteger(count) && isPeriodicReport(count.form))
  const newest = new Map(reported.map((count) => [count.accn, count]))
  return Array.from(newest.values()).filter(isPlausible).toSorted(byFactDate)
}

const decodeDocument = makeJsonTextDecoder(CompanyFactsDocument)
const decodeElement = makeParsedJsonDecoder(FactElement)

export const decodeCompanyFacts = (text: string, url: string): Result.Result<CompanyFacts, DocumentRejected> =>
  Result.gen(function* () {
    const { cik, facts } = yield* decodeDocument(text, url)
    yield* checkCikMatchesUrl(cik, url)
    const { EntityCommonStockSharesOutstanding: onCover, EntityPublicFloat: float } = facts.dei ?? {}
    const onBalanceSheet = facts["us-gaap"]?.CommonStockSharesOutstanding
    const rejections: Array<DocumentRejected> = []
    const select = (path: string, elements: ReadonlyArray<unknown> = []) => {
      const [readable, rejected] = Arr.separate(
        elements.map((element, index) => decodeElement(element, `${url}#${path}/${index}`)),
      )
      rejections.push(...rejected)
      return selectUsable(path, readable)
    }
    const floats = select("dei/EntityPublicFloat/USD", float?.units.USD)
    const counts = select("dei/EntityCommonStockSharesOutstanding/shares", onCover?.units.shares).filter(isInteger)
    const onBalanceSheets = select("us-gaap/CommonStockSharesOutstanding/shares", onBalanceSheet?.units.shares)
    return { cik, counts, balanceSheetCounts: selectBalanceSheetCounts(onBalanceSheets, floats), floats, rejections }
  })
