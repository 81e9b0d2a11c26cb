/** Decodes share counts and public floats from XBRL (`/api/xbrl/companyfacts/CIK##########.json`). */
import { Order, Result, Schema } from "effect"
import { CalendarDate } from "../../rules/Dates.ts"
import type { DocumentRejected } from "./DocumentRejected.ts"
import { AccessionNumber, checkCikMatchesUrl, Cik, FormType, makeJsonDecoder } from "./JsonDocument.ts"

const FactElement = Schema.Struct({
  end: CalendarDate,
  val: Schema.Number,
  accn: AccessionNumber,
  form: FormType,
  filed: CalendarDate,
})

/** A value as one filing reports it for the date `end`. */
export type Fact = typeof FactElement.Type

const Facts = Schema.optionalKey(Schema.Array(FactElement))

const CompanyFactsDocument = Schema.Struct({
  cik: Cik,
  facts: Schema.Struct({
    dei: Schema.optionalKey(Schema.Struct({
      EntityCommonStockSharesOutstanding: Schema.optionalKey(
        Schema.Struct({ units: Schema.Struct({ shares: Facts }) }),
      ),
      EntityPublicFloat: Schema.optionalKey(Schema.Struct({ units: Schema.Struct({ USD: Facts }) })),
    })),
  }),
})

/** The facts of a company that can be used, oldest date first. */
export interface CompanyFacts {
  readonly cik: string
  /** Shares outstanding on the cover page. A company with several classes of shares has no such facts. */
  readonly counts: ReadonlyArray<Fact>
  /** US dollars: the market value of the shares that are not held by affiliates. */
  readonly floats: ReadonlyArray<Fact>
}

/** Orders facts by the date of the value. The last fact for a date is the one that was filed last. */
export const byFactDate = Order.combineAll<Fact>([
  Order.mapInput(Order.String, ({ end }) => end),
  Order.mapInput(Order.String, ({ filed }) => filed),
  Order.mapInput(Order.String, ({ accn }) => accn),
])

const isUsable = ({ end, filed, val }: Fact) => val >= 1 && val <= Number.MAX_SAFE_INTEGER && end <= filed

/** Drops values below 1 or too large, dates after the filing, contradictions in one filing, and repetitions. */
const selectUsable = (facts: ReadonlyArray<Fact> = []) =>
  Array.from(Map.groupBy(facts.filter(isUsable), ({ accn, end }) => `${accn} ${end}`).values())
    .filter((repeated) => new Set(repeated.map(({ val }) => val)).size === 1)
    .flatMap((repeated) => repeated.toSorted(byFactDate).slice(0, 1))
    .toSorted(byFactDate)

const decodeDocument = makeJsonDecoder(CompanyFactsDocument)

export const decodeCompanyFacts = (text: string, url: string): Result.Result<CompanyFacts, DocumentRejected> =>
  Result.gen(function* () {
    const { cik, facts } = yield* decodeDocument(text, url)
    yield* checkCikMatchesUrl(cik, url)
    return {
      cik,
      counts: selectUsable(facts.dei?.EntityCommonStockSharesOutstanding?.units.shares)
        .filter(({ val }) => Number.isInteger(val)),
      floats: selectUsable(facts.dei?.EntityPublicFloat?.units.USD),
    }
  })
