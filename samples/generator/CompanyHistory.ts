/** What is simulated for one company: its prices, capital raises, notices, documents and share counts. */
import type { EpochDay } from "./Calendar.ts"
import type { FictionalCompany } from "./Companies.ts"
import type { CapitalRaise, ShelfRegistration } from "./Deals.ts"
import type { PriceHistory } from "./PriceSimulation.ts"
import type { ListingDeficiency } from "./Scenarios.ts"

/** A document before it is numbered. */
export interface DocumentDraft {
  /** How other tables find the document, such as `raise:2` or `split:effective`. */
  readonly key: string
  readonly day: EpochDay
  /** Seconds since midnight in New York; null if unknown. */
  readonly time: number | null
  /** SEC form type, or `news` for a press release. */
  readonly form: string
  readonly title: string | null
  readonly summary?: string
  readonly tags?: ReadonlyArray<string>
}

/** A document with its number and URL. */
export interface CompanyDocument extends DocumentDraft {
  readonly id: string
  /** The SEC's accession number; null for press releases. */
  readonly accession: string | null
  readonly url: string
}

/** The share counts that one filing discloses. A count is null if the filing does not disclose it. */
export interface FloatReport {
  readonly document: CompanyDocument
  /** The day for which the shares are counted; null if the filing does not say. */
  readonly reportedDay: EpochDay | null
  readonly outstanding: number | null
  readonly insiders: number | null
  readonly affiliates: number | null
  readonly float: number | null
  readonly restricted: number | null
  readonly tradable: number | null
}

/** A case of non-compliance with a listing rule: the first notice and the outcome. */
export interface ListingNotice {
  readonly day: EpochDay
  readonly kind: ListingDeficiency["kind"] | "bid_price"
  readonly deadline: EpochDay | null
  readonly regainedDay: EpochDay | null
  /** The day of the hearing before the exchange's panel. */
  readonly hearingDay: EpochDay | null
  readonly status: "active" | "extended" | "appealed" | "resolved" | "delisted"
  /** The day on which the exchange decides to delist the company, which then appeals. */
  readonly delistingDay: EpochDay | null
}

/** The simulated history of one company, from which all of its rows are built. */
export interface CompanyHistory {
  readonly company: FictionalCompany
  readonly prices: PriceHistory
  readonly deals: ReadonlyArray<CapitalRaise>
  readonly shelf: ShelfRegistration | null
  readonly notices: ReadonlyArray<ListingNotice>
  readonly documents: ReadonlyArray<CompanyDocument>
  readonly floats: ReadonlyArray<FloatReport>
}
