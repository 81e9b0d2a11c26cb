/** What is simulated of one company: its prices, capital raises, notices, documents and share counts. */
import type { EpochDay } from "./Calendar.ts"
import type { FictionalCompany } from "./Companies.ts"
import type { CapitalRaise, ShelfRegistration } from "./Deals.ts"
import type { PriceHistory } from "./PriceSimulation.ts"
import type { ListingDeficiency } from "./Scenarios.ts"

/** A document before it is numbered. */
export interface DocumentDraft {
  /** Key for references from other tables, such as `raise:2` or `split:effective`. */
  readonly key: string
  readonly day: EpochDay
  /** Seconds since midnight; null if unknown. */
  readonly time: number | null
  /** SEC form type, or `news` for a press release. */
  readonly form: string
  readonly title: string | null
  readonly summary?: string
  readonly tags?: ReadonlyArray<string>
}

export interface CompanyDocument extends DocumentDraft {
  readonly id: string
  /** SEC accession number; null for press releases. */
  readonly accession: string | null
  readonly url: string
}

/** Share counts that one filing discloses; null if it does not disclose a count. */
export interface FloatReport {
  readonly document: CompanyDocument
  /** Day for which the shares are counted. */
  readonly reportedDay: EpochDay | null
  readonly outstanding: number | null
  readonly insiders: number | null
  readonly affiliates: number | null
  readonly float: number | null
  readonly restricted: number | null
  readonly tradable: number | null
}

/** A compliance case: the first notice and its outcome. */
export interface ListingNotice {
  readonly day: EpochDay
  readonly kind: ListingDeficiency["kind"] | "bid_price"
  readonly deadline: EpochDay | null
  readonly regainedDay: EpochDay | null
  /** Day of the hearing before the exchange's panel. */
  readonly hearingDay: EpochDay | null
  readonly status: "active" | "extended" | "appealed" | "resolved" | "delisted"
  /** Day of the exchange's delisting decision; the company appeals. */
  readonly delistingDay: EpochDay | null
}

/** Simulated history of one company, from which all its rows are built. */
export interface CompanyHistory {
  readonly company: FictionalCompany
  readonly prices: PriceHistory
  readonly deals: ReadonlyArray<CapitalRaise>
  readonly shelf: ShelfRegistration | null
  readonly notices: ReadonlyArray<ListingNotice>
  readonly documents: ReadonlyArray<CompanyDocument>
  readonly floats: ReadonlyArray<FloatReport>
}
