/** Decodes share counts and public floats from XBRL (`/api/xbrl/companyfacts/CIK##########.json`). */
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

const FactElement = Schema.Struct({
  end: CalendarDate,
  val: Schema.Number,
  accn: AccessionNumber,
  form: SecFormName,
  filed: CalendarDate,
})

/** A value that one filing reports for the date `end`. */
export interface CompanyFact extends Schema.Schema.Type<typeof FactElement> {
  /** Identifies the fact in the document: `dei/EntityPublicFloat/USD/0000320193-25-000079/2025-03-28`. */
  readonly path: string
  /** Set if the count is not in the facts, but in the XBRL instance of the filing. */
  readonly instance?: {
    /** Whether the count is the sum of several classes, or an operator's instead of counts of classes. */
    readonly hasClasses: boolean
    /** The classes with their symbols and counts. Empty if the instance has one count of all shares. */
    readonly classes: string
    /** Securities on the cover that are not common shares, with their counts. */
    readonly others?: string
    /** Links to the elements of the XBRL instance. */
    readonly source: ReadonlyArray<string>
  }
  /**
   * Set if the date that the filing states is not believed. Then `end` only decides which count is the newest, and the
   * rows have `published`: the end of the report's own period, if it is known. An operator who agrees needs no reason.
   */
  readonly date?: { readonly stated: string; readonly published: string | null; readonly reason: string | null }
}

/** The count on a cover that cannot be read, although the filing states it. */
export interface UnreadableCount extends Pick<CompanyFact, "accn" | "filed" | "form"> {
  /** The date of the count; null if it is not certain. */
  readonly end: string | null
  readonly url: string
  /** What the cover states, as `describeStated` describes it. */
  readonly read: string
  /** Why it cannot be read, as a clause: "is stated as 5 and as 6". */
  readonly reason: string
  /** Whether the cover states counts of classes. */
  readonly hasClasses?: boolean | undefined
}

/** Links to the elements of documents that state a fact. */
export const listSources = (
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

/** The facts of a company that have a usable value, sorted by date, oldest first. `ShareCounts.ts` assesses them. */
export interface CompanyFacts {
  readonly cik: string
  /** Shares outstanding, from the cover pages of filings. The facts lack them for companies with several classes. */
  readonly counts: ReadonlyArray<CompanyFact>
  /**
   * Shares outstanding of all classes, from the balance sheets in annual and quarterly reports. Reports also repeat an
   * earlier balance sheet for comparison, whose counts are included.
   */
  readonly balanceSheetCounts: ReadonlyArray<CompanyFact>
  /** Market value of the shares that are not held by affiliates, in US dollars. */
  readonly floats: ReadonlyArray<CompanyFact>
  /** Whether the newest public float is 0, as for a subsidiary or a shell company. */
  readonly isFloatZero: boolean
  /** Counts of covers that cannot be read. */
  readonly unreadable: ReadonlyArray<UnreadableCount>
  /** Facts that are not readable. The fragment of the URL is the path of the fact and its position. */
  readonly rejections: ReadonlyArray<DocumentRejected>
}

/** The facts of a company for which the SEC has none, such as a new holding company. */
export const makeEmptyFacts = (cik: string): CompanyFacts => ({
  cik,
  counts: [],
  balanceSheetCounts: [],
  floats: [],
  isFloatZero: false,
  unreadable: [],
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

/** Whether the value is from 1 to the largest safe integer. */
export const isUsable = ({ val }: Pick<CompanyFact, "val">) => val >= 1 && val <= Number.MAX_SAFE_INTEGER

/** Groups usable facts by filing and date. A filing may repeat a fact. */
const groupUsable = (path: string, facts: ReadonlyArray<typeof FactElement.Type>) =>
  Array.from(Map.groupBy(facts.filter(isUsable), ({ accn, end }) => `${accn} ${end}`).values()).map((repeated) => ({
    values: Array.from(new Set(repeated.map(({ val }) => val))).toSorted((a, b) => a - b),
    fact: repeated.map((fact): CompanyFact => ({ ...fact, path: `${path}/${fact.accn}/${fact.end}` }))
      .toSorted(byFactDate)[0],
  }))

type FactGroups = ReturnType<typeof groupUsable>

/** Returns the facts for which the filing states only one value per date. */
const selectUnequivocal = (groups: FactGroups): ReadonlyArray<CompanyFact> =>
  groups.flatMap(({ fact, values }) => fact === undefined || values.length > 1 ? [] : [fact]).toSorted(byFactDate)

/** Returns the counts for which a filing states several values for the same date. */
const selectContradicted = (cik: string, groups: FactGroups): ReadonlyArray<UnreadableCount> =>
  groups.flatMap(({ fact, values }) =>
    fact === undefined || values.length === 1 ? [] : [{
      accn: fact.accn,
      end: fact.end > fact.filed ? null : fact.end,
      filed: fact.filed,
      form: fact.form,
      url: listSources(cik, fact)[0],
      read: describeStated(values.map(String)),
      reason: `is stated as ${values.join(" and as ")}`,
    }]
  )

const isInteger = ({ val }: CompanyFact) => Number.isInteger(val)

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
      return { readable, groups: groupUsable(path, readable) }
    }
    const floats = select("dei/EntityPublicFloat/USD", float?.units.USD)
    const counts = select("dei/EntityCommonStockSharesOutstanding/shares", onCover?.units.shares)
    const onBalanceSheets = select("us-gaap/CommonStockSharesOutstanding/shares", onBalanceSheet?.units.shares)
    return {
      cik,
      counts: selectUnequivocal(counts.groups).filter(isInteger),
      balanceSheetCounts: selectUnequivocal(onBalanceSheets.groups).filter((count) =>
        isInteger(count) && isPeriodicReport(count.form)
      ),
      floats: selectUnequivocal(floats.groups),
      isFloatZero: floats.readable.toSorted((a, b) => a.filed < b.filed ? -1 : 1).at(-1)?.val === 0,
      unreadable: selectContradicted(cik, counts.groups),
      rejections,
    }
  })
