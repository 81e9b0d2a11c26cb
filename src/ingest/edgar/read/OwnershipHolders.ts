/** What one ownership document reports: its filing, issuer, and owners or reporting persons. */
import { Record, Result } from "effect"
import type { RowCells } from "../../../contract/Datasets.ts"
import { describeStated, type Doubt } from "./Doubt.ts"
import { findDateDoubt } from "./StatedDates.ts"
import { readElementText, type XmlElement } from "./XmlDocument.ts"
import { readDateElement } from "./XmlValues.ts"

/** Why a value is not believed. */
export interface Problem extends Pick<Doubt, "read" | "reason"> {
  /** The value if the document is right, as the column has it. Absent if that is not clear. */
  readonly confirmable?: string | null
}

/** A value of a document. It is null if the document does not state it, or if it is not believed. */
export interface Reading<A> {
  readonly value: A | null
  readonly problem: Problem | undefined
}

/** A doubt about a column of a holder. */
export interface HolderDoubt extends Problem {
  /** Index of the holder. */
  readonly holder: number
  readonly column: string
}

export interface OwnershipHolders {
  /** The form as the document names it, such as `4/A`, `SCHEDULE 13D` or `SC 13G`. */
  readonly form: string | null
  readonly issuerCik: string | null
  /** Null if the document states no day for the holdings, or none that is believed. */
  readonly reportedDate: string | null
  /** Name of the element that describes a holder. */
  readonly element: string
  /** One row of `ownership` per holder, without the columns that describe the filing. */
  readonly rows: ReadonlyArray<RowCells>
  /** Whether the document states only a part of what the holders own. */
  readonly isPartial: boolean
  readonly doubts: ReadonlyArray<HolderDoubt>
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

export const makeReading = <A>(value: A | null): Reading<A> => ({ value, problem: undefined })

export const makeUnknown = (problem: Problem): Reading<never> => ({ value: null, problem })

/** Returns the value of an element, or why it has none. */
export const readStated = <A>(
  element: XmlElement | undefined,
  read: (element: XmlElement | undefined) => Result.Result<A | null, string>,
): Reading<A> =>
  Result.match(read(element), {
    onSuccess: makeReading,
    onFailure: (reason) => makeUnknown({ read: describeStated([readElementText(element) ?? ""]), reason }),
  })

/** Returns the value of an element that every document has, or why it has none. */
export const readRequired: typeof readStated = (element, read) => {
  const stated = readStated(element, read)
  const isMissing = stated.value === null && stated.problem === undefined
  return isMissing ? makeUnknown({ read: "", reason: "is missing" }) : stated
}

/**
 * Returns the date in an element, or why it has none, or none that is believed. `firstDay` is the day of the first
 * event that the filing reports, if it states one.
 */
export const readStatedDate = (
  element: XmlElement | undefined,
  filingDate: string,
  { firstDay = null, name = element?.name }: { readonly firstDay?: string | null; readonly name?: string } = {},
): Reading<string> => {
  const stated = readStated(element, (element) => readDateElement(element, name))
  const reason = stated.value === null ? undefined : findDateDoubt(stated.value, filingDate, firstDay)
  return stated.value === null || reason === undefined
    ? stated
    : makeUnknown({ read: stated.value, confirmable: stated.value, reason })
}

/** Returns the values without their problems. */
export const getValues = <Name extends string, A>(readings: Record.ReadonlyRecord<Name, Reading<A>>) =>
  Record.map(readings, ({ value }) => value)

interface Readings {
  readonly [column: string]: Reading<unknown>
}

/** Returns the doubts about the columns of each holder. Those of `filing` are equal in all rows. */
export const findDoubts = (holders: ReadonlyArray<Readings>, filing: Readings): ReadonlyArray<HolderDoubt> =>
  holders.flatMap((readings, holder) =>
    Object.entries({ ...filing, ...readings }).flatMap(([column, { problem }]) =>
      problem === undefined ? [] : [{ holder, column, ...problem }]
    )
  )
