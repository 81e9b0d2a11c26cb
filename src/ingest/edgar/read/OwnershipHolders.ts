/** What one ownership document reports: its filing, issuer, and owners or reporting persons. */
import type { RowCells } from "../../../contract/Datasets.ts"

export interface OwnershipHolders {
  /** The form as the document names it, such as `4/A`, `SCHEDULE 13D` or `SC 13G`. */
  readonly form: string | null
  readonly issuerCik: string | null
  /** Null if the document states no day for the holdings. */
  readonly reportedDate: string | null
  /** Name of the element that describes a holder. */
  readonly element: string
  /** One row of `ownership` per holder, without the columns that describe the filing. */
  readonly rows: ReadonlyArray<RowCells>
}

/**
 * The columns of a holder about which a document may say nothing. An amount is also null if the document has an unclear
 * number. All rows of a file must have the same columns.
 */
export const unknownHolding = {
  title: null,
  common_shares_amount: null,
  preferred_shares_amount: null,
  options_amount: null,
  warrants_amount: null,
  shares_underlying_convertibles: null,
  percent_of_class: null,
  sole_voting_shares: null,
  shared_voting_shares: null,
  event_date: null,
}
