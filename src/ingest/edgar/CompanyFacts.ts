/** Decodes share counts and public floats from XBRL (`/api/xbrl/companyfacts/CIK##########.json`). */
import { Order, Result, Schema } from "effect"
import { CalendarDate } from "../../rules/Dates.ts"
import type { DocumentRejected } from "./DocumentRejected.ts"
import { AccessionNumber, checkCikMatchesUrl, Cik, makeJsonTextDecoder, SecFormName } from "./JsonDocument.ts"

const FactElement = Schema.Struct({
  end: CalendarDate,
  val: Schema.Number,
  accn: AccessionNumber,
  form: SecFormName,
  filed: CalendarDate,
})

/** A value that one filing reports for the date `end`. */
export type CompanyFact = typeof FactElement.Type

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

/** The usable facts of a company, sorted by date, oldest first. */
export interface CompanyFacts {
  readonly cik: string
  /** Shares outstanding, from the cover pages of filings. Empty if a company has several classes of shares. */
  readonly counts: ReadonlyArray<CompanyFact>
  /** Market value of the shares that are not held by affiliates, in US dollars. */
  readonly floats: ReadonlyArray<CompanyFact>
}

/** Orders facts by the date of their value, and facts of one date by their filing date. */
export const byFactDate = Order.combineAll<CompanyFact>([
  Order.mapInput(Order.String, ({ end }) => end),
  Order.mapInput(Order.String, ({ filed }) => filed),
  Order.mapInput(Order.String, ({ accn }) => accn),
])

const isUsable = ({ end, filed, val }: CompanyFact) => val >= 1 && val <= Number.MAX_SAFE_INTEGER && end <= filed

/**
 * Drops facts that are below 1, above the largest safe integer, dated after their filing, or repeated in a filing.
 * If a filing reports different values for one date, drops all of them.
 */
const selectUsable = (facts: ReadonlyArray<CompanyFact> = []) =>
  Array.from(Map.groupBy(facts.filter(isUsable), ({ accn, end }) => `${accn} ${end}`).values())
    .filter((repeated) => new Set(repeated.map(({ val }) => val)).size === 1)
    .flatMap((repeated) => repeated.toSorted(byFactDate).slice(0, 1))
    .toSorted(byFactDate)

const decodeDocument = makeJsonTextDecoder(CompanyFactsDocument)

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
