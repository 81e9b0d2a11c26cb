/**
 * Decodes share counts and public floats from the SEC's XBRL company facts
 * (`/api/xbrl/companyfacts/CIK##########.json`).
 */
import { Array as Arr, Order, Result, Schema } from "effect"
import { CalendarDate } from "../../../contract/rules/Dates.ts"
import { buildCompanyFactsUrl } from "../fetch/EdgarUrls.ts"
import type { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { describeStated } from "./Doubt.ts"
import {
  AccessionNumber,
  checkCikMatchesUrl,
  Cik,
  makeJsonTextDecoder,
  makeParsedJsonDecoder,
  SecFormName,
} from "./JsonDocument.ts"

/** A fact in the document. The names are those of the SEC. */
const FactElement = Schema.Struct({
  end: CalendarDate,
  val: Schema.Number,
  accn: AccessionNumber,
  form: SecFormName,
  filed: CalendarDate,
})

/** A share class on a cover page. */
export interface ClassShares {
  /** The readable name, such as `Class A`. */
  readonly name: string
  readonly shares: number
  /** The symbol that the cover page states for the class, or null if it states none. */
  readonly symbol: string | null
}

/**
 * A value that a filing (`accn`, filed on `filed`) reports as of the date `end`: a number of shares or a public float
 * in US dollars.
 */
export interface CompanyFact extends Schema.Schema.Type<typeof FactElement> {
  /** Identifies the fact in the document, such as `dei/EntityPublicFloat/USD/0000320193-25-000079/2025-03-28`. */
  readonly path: string
  /** Present if the count comes from the filing's XBRL instance instead of the company facts. */
  readonly instance?: {
    /** Whether the count is the sum of several share classes, or a total set by an operator in place of such a sum. */
    readonly hasClasses: boolean
    /**
     * The classes with shares, by the part of their names that identifies the class, such as `a`. Undefined if the
     * instance has a single count of all shares.
     */
    readonly shares?: ReadonlyMap<string, ClassShares> | undefined
    /**
     * The share classes with their symbols and counts, as text. Empty if the instance has a single count of all shares.
     */
    readonly classes: string
    /**
     * Securities on the cover page that are not common shares and therefore not included, with their counts, as text.
     */
    readonly others?: string
    /** URLs of the elements of the XBRL instance that contain the count. */
    readonly source: ReadonlyArray<string>
  }
  /**
   * Present if the date stated in the filing is implausible. `end` is then used only to determine which count is the
   * newest. The rows contain `published` instead: the end of the period that the report covers, or null if unknown.
   * `reason` is null if an operator has agreed that the date is wrong.
   */
  readonly date?: { readonly stated: string; readonly published: string | null; readonly reason: string | null }
}

/** A number of shares that a filing's cover page states, but that cannot be read. `filed` is the filing date. */
export interface UnreadableCount extends Pick<CompanyFact, "accn" | "filed" | "form"> {
  /** The date of the count, or null if it is uncertain. */
  readonly end: string | null
  readonly url: string
  /** The values that the cover page states, formatted by `describeStated`. */
  readonly read: string
  /** The reason why the count cannot be read, as a clause such as "is stated as 5 and as 6". */
  readonly reason: string
  /** Whether the cover page states counts per share class. */
  readonly hasClasses?: boolean | undefined
}

/** Returns the URLs of the document elements that contain the fact. */
export const listFactSources = (
  cik: string,
  { instance, path }: CompanyFact,
): readonly [string, ...Array<string>] => {
  const [first = `${buildCompanyFactsUrl(cik)}#${path}`, ...others] = instance?.source ?? []
  return [first, ...others]
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

/** A company's facts that have a usable value, sorted by date, oldest first. `ShareCounts.ts` assesses them. */
export interface CompanyFacts {
  readonly cik: string
  /**
   * Shares outstanding, from the cover pages of filings. For companies with several share classes, the company facts
   * omit them.
   */
  readonly counts: ReadonlyArray<CompanyFact>
  /**
   * Shares outstanding of all classes, from the balance sheets in annual and quarterly reports. Also includes counts
   * from earlier balance sheets, which reports repeat for comparison.
   */
  readonly balanceSheetCounts: ReadonlyArray<CompanyFact>
  /** Market value, in US dollars, of the shares that are not held by affiliates. */
  readonly floats: ReadonlyArray<CompanyFact>
  /** Whether the newest public float is 0, as for a subsidiary or a shell company. */
  readonly isFloatZero: boolean
  /** Counts on cover pages that cannot be read. */
  readonly unreadable: ReadonlyArray<UnreadableCount>
  /** Facts that cannot be decoded. The URL fragment consists of the fact's path and its index. */
  readonly rejections: ReadonlyArray<DocumentRejected>
}

/** Returns empty facts, for companies whose facts the SEC does not have, such as a new holding company. */
export const makeEmptyFacts = (cik: string): CompanyFacts => ({
  cik,
  counts: [],
  balanceSheetCounts: [],
  floats: [],
  isFloatZero: false,
  unreadable: [],
  rejections: [],
})

/** Returns whether filings of this form state shares outstanding or public float in XBRL. */
export const isPeriodicReport = (form: string) => /^(10-[KQ]T?|20-F|40-F)(\/A)?$/.test(form)

/** Orders facts by the date of their value, then by filing date and accession number. */
export const byFactDate = Order.combineAll<CompanyFact>([
  Order.mapInput(Order.String, ({ end }) => end),
  Order.mapInput(Order.String, ({ filed }) => filed),
  Order.mapInput(Order.String, ({ accn }) => accn),
])

/**
 * Returns whether the value is between 1 and the largest safe integer. Filers enter 0 if a value does not apply, and
 * anything larger is an error.
 */
export const hasUsableValue = ({ val }: Pick<CompanyFact, "val">) => val >= 1 && val <= Number.MAX_SAFE_INTEGER

/**
 * Groups usable facts by filing and date, because a filing may repeat a fact. Returns for each group the distinct
 * values, sorted, and one of its facts.
 */
const groupUsable = (path: string, facts: ReadonlyArray<typeof FactElement.Type>) => {
  const groups = Map.groupBy(facts.filter(hasUsableValue), ({ accn, end }) => `${accn} ${end}`)
  return Array.from(groups.values(), (repeated) => ({
    values: Array.from(new Set(repeated.map(({ val }) => val))).toSorted((a, b) => a - b),
    fact: repeated.map((fact): CompanyFact => ({ ...fact, path: `${path}/${fact.accn}/${fact.end}` }))
      .toSorted(byFactDate)[0],
  }))
}

type FactGroups = ReturnType<typeof groupUsable>

/** Returns the facts that have exactly one value per filing and date. */
const selectUnambiguous = (groups: FactGroups): ReadonlyArray<CompanyFact> =>
  groups.flatMap(({ fact, values }) => fact === undefined || values.length > 1 ? [] : [fact]).toSorted(byFactDate)

/** Returns the counts that have several values in the same filing for the same date. */
const selectConflicting = (cik: string, groups: FactGroups): ReadonlyArray<UnreadableCount> =>
  groups.flatMap(({ fact, values }) =>
    fact === undefined || values.length === 1 ? [] : [{
      accn: fact.accn,
      end: fact.end > fact.filed ? null : fact.end,
      filed: fact.filed,
      form: fact.form,
      url: listFactSources(cik, fact)[0],
      read: describeStated(values.map(String)),
      reason: `is stated as ${values.join(" and as ")}`,
    }]
  )

const isInteger = ({ val }: CompanyFact) => Number.isInteger(val)

const decodeDocument = makeJsonTextDecoder(CompanyFactsDocument)
const decodeElement = makeParsedJsonDecoder(FactElement)

/**
 * Decodes a company's facts: the counts of outstanding shares on cover pages and on balance sheets, and the public
 * floats. Elements that cannot be decoded are listed in `rejections`, and facts without a usable value are omitted.
 * Counts on cover pages that have several values in one filing are `unreadable`. `isFloatZero` is whether the newest
 * public float is 0. Fails if the document as a whole is malformed or about another company.
 */
export const decodeCompanyFacts = (text: string, url: string): Result.Result<CompanyFacts, DocumentRejected> =>
  Result.gen(function* () {
    const { cik, facts } = yield* decodeDocument(text, url)
    yield* checkCikMatchesUrl(cik, url)
    const { EntityCommonStockSharesOutstanding: onCover, EntityPublicFloat: float } = facts.dei ?? {}
    const onBalanceSheet = facts["us-gaap"]?.CommonStockSharesOutstanding
    const rejections: Array<DocumentRejected> = []
    /** Decodes the facts with this path. Adds the elements that cannot be decoded to `rejections`. */
    const select = (path: string, elements: ReadonlyArray<unknown> = []) => {
      const [readable, rejected] = Arr.separate(
        elements.map((element, index) => decodeElement(element, `${url}#${path}/${index}`)),
      )
      rejections.push(...rejected)
      return { readable, groups: groupUsable(path, readable) }
    }
    const floats = select("dei/EntityPublicFloat/USD", float?.units.USD)
    const counts = select("dei/EntityCommonStockSharesOutstanding/shares", onCover?.units.shares)
    const onBalanceSheets = select("us-gaap/CommonStockSharesOutstanding/shares", onBalanceSheet?.units.shares)
    return {
      cik,
      counts: selectUnambiguous(counts.groups).filter(isInteger),
      balanceSheetCounts: selectUnambiguous(onBalanceSheets.groups).filter((count) =>
        isInteger(count) && isPeriodicReport(count.form)
      ),
      floats: selectUnambiguous(floats.groups),
      isFloatZero: floats.readable.toSorted((a, b) => a.filed < b.filed ? -1 : 1).at(-1)?.val === 0,
      unreadable: selectConflicting(cik, counts.groups),
      rejections,
    }
  })
