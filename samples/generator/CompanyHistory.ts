/** The simulated history of a company: its prices, capital raises, listing notices, documents and share counts. */
import type { EpochDay } from "./Calendar.ts"
import type { FictionalCompany } from "./Companies.ts"
import type { CapitalRaise, ShelfRegistration } from "./Deals.ts"
import type { PriceHistory } from "./PriceSimulation.ts"
import type { ListingDeficiency } from "./Scenarios.ts"

/** A generated SEC filing or press release, before it gets its accession number or id and its URL. */
export interface DocumentDraft {
  /** The key under which other tables find the document, such as `raise:2` or `split:effective`. */
  readonly key: string
  readonly day: EpochDay
  /** The time in seconds since midnight in New York, or null if it is unknown. */
  readonly time: number | null
  /** The SEC form type, or `news` for a press release. */
  readonly form: string
  readonly title: string | null
  readonly summary?: string
  readonly tags?: ReadonlyArray<string>
}

/** A generated SEC filing or press release with its id and its URL. */
export interface CompanyDocument extends DocumentDraft {
  readonly id: string
  /** The SEC accession number, or null for a press release. */
  readonly accession: string | null
  readonly url: string
}

/** The share counts disclosed by one filing. Counts that the filing does not disclose are null. */
export interface FloatReport {
  readonly document: CompanyDocument
  /** The day to which the share counts apply, or null if the filing does not state it. */
  readonly reportedDay: EpochDay | null
  readonly outstanding: number | null
  readonly insiders: number | null
  readonly affiliates: number | null
  readonly float: number | null
  readonly restricted: number | null
  readonly tradable: number | null
}

/** A case in which a company fails to meet a listing rule, from the first notice to the outcome. */
export interface ListingNotice {
  readonly day: EpochDay
  readonly kind: ListingDeficiency["kind"] | "bid_price"
  readonly deadline: EpochDay | null
  readonly regainedDay: EpochDay | null
  /** The day of the hearing before the exchange's hearings panel. */
  readonly hearingDay: EpochDay | null
  readonly status: "active" | "extended" | "appealed" | "resolved" | "delisted"
  /** The day on which the exchange decides to delist the company. The company then appeals. */
  readonly delistingDay: EpochDay | null
}

/** A company's simulated history. All of the company's sample rows are built from it. */
export interface CompanyHistory {
  readonly company: FictionalCompany
  readonly prices: PriceHistory
  readonly deals: ReadonlyArray<CapitalRaise>
  readonly shelf: ShelfRegistration | null
  readonly notices: ReadonlyArray<ListingNotice>
  readonly documents: ReadonlyArray<CompanyDocument>
  readonly floats: ReadonlyArray<FloatReport>
}
