/** What the share counts of a company are checked against. */
import type { CompanyFacts } from "./CompanyFacts.ts"
import type { KnownSplit } from "./CountSplits.ts"
import type { OperatorDecisions } from "./Doubt.ts"
import type { EdgarFiling } from "./Submissions.ts"

/** The fields of a filing in the company's filing list that are compared with the XBRL facts. */
export type FilingListEntry = Pick<EdgarFiling, "accession" | "filingDate" | "form" | "reportDate">

/** Everything that a company's share counts and public floats are checked against. */
export interface CountEvidence {
  readonly facts: CompanyFacts
  readonly filings: ReadonlyArray<FilingListEntry>
  /** Closing prices in US dollars, by the dates of public floats. */
  readonly closes?: ReadonlyMap<string, number> | undefined
  readonly splits?: ReadonlyArray<KnownSplit> | undefined
  /** The current symbols of the company. */
  readonly tickers?: ReadonlyArray<string> | undefined
  readonly decisions?: OperatorDecisions | undefined
}
