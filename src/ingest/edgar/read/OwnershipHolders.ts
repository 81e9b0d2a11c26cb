/**
 * The content of an ownership document (Form 3, 4, or 5, or Schedule 13D or 13G): form, issuer, and the owners or
 * reporting persons with their holdings.
 */
import { Record, Result } from "effect"
import type { RowCells } from "../../../contract/Datasets.ts"
import { describeStated, type Doubt } from "./Doubt.ts"
import { findDateDoubt } from "./DatePlausibility.ts"
import { readElementText, type XmlElement } from "./XmlDocument.ts"
import { readDateElement } from "./XmlValues.ts"

/** The reason why a value is unknown although a document states it, or why it is not believed. */
export interface HolderProblem extends Pick<Doubt, "read" | "reason"> {
  /**
   * The value to publish if the document turns out to be right. Absent if the document does not give one clear value.
   */
  readonly confirmable?: string | null
}

/**
 * A value read from a document. It is null if the document does not state it, or if it is unreadable or implausible.
 * `problem` then states why, unless the document simply does not state it.
 */
export interface Reading<A> {
  readonly value: A | null
  readonly problem: HolderProblem | undefined
}

/** A suspicious value in one column of a holder's row. */
export interface HolderDoubt extends HolderProblem {
  /** Index of the holder in `rows`. */
  readonly holder: number
  readonly column: string
}

/** What an ownership document says about its filing and about the holders of the issuer's securities. */
export interface OwnershipHolders {
  /** The form name that the document states, such as `4/A`, `SCHEDULE 13D`, or `SC 13G`. */
  readonly form: string | null
  readonly issuerCik: string | null
  /** The date of the reported holdings. Null if the document states none or only an implausible one. */
  readonly reportedDate: string | null
  /**
   * Name of the XML element that describes a holder. The source URL of a row contains it, as in `…#reportingOwner[1]`.
   */
  readonly element: string
  /** One row of `ownership` per holder, without the columns that describe the filing. */
  readonly rows: ReadonlyArray<RowCells>
  /** Whether the document states only part of what the holders own, as an amendment without transactions does. */
  readonly isPartial: boolean
  readonly doubts: ReadonlyArray<HolderDoubt>
}

/**
 * Default values for the columns that a document may not state. An amount is also null if the document states an
 * unclear number. The defaults ensure that all rows of a file have the same columns.
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

/** Returns a value without a problem. */
export const makeReading = <A>(value: A | null): Reading<A> => ({ value, problem: undefined })

/** Returns an unknown value, with the reason why it is unknown. */
export const makeUnknownReading = (problem: HolderProblem): Reading<never> => ({ value: null, problem })

/**
 * Reads an element's value with `read`. The value is null if the element is absent or empty. If it cannot be read, it
 * is null as well, and the result contains the reason.
 */
export const readStatedElement = <A>(
  element: XmlElement | undefined,
  read: (element: XmlElement | undefined) => Result.Result<A | null, string>,
): Reading<A> =>
  Result.match(read(element), {
    onSuccess: makeReading,
    onFailure: (reason) => makeUnknownReading({ read: describeStated([readElementText(element) ?? ""]), reason }),
  })

/**
 * Reads the value of an element that every document must have. If the value is missing or cannot be read, it is null,
 * and the result contains the reason.
 */
export const readRequiredElement: typeof readStatedElement = (element, read) => {
  const stated = readStatedElement(element, read)
  const isMissing = stated.value === null && stated.problem === undefined
  return isMissing ? makeUnknownReading({ read: "", reason: "is missing" }) : stated
}

/**
 * Reads the date in an element. If it cannot be read or is implausible, the result states why. `firstDay` is the day of
 * the first event that the filing reports, or null if the filing does not state it.
 */
export const readStatedDate = (
  element: XmlElement | undefined,
  filingDate: string,
  { firstDay = null, name = element?.name }: { readonly firstDay?: string | null; readonly name?: string } = {},
): Reading<string> => {
  const stated = readStatedElement(element, (element) => readDateElement(element, name))
  const reason = stated.value === null ? undefined : findDateDoubt(stated.value, filingDate, firstDay)
  return stated.value === null || reason === undefined
    ? stated
    : makeUnknownReading({ read: stated.value, confirmable: stated.value, reason })
}

/** Returns the values of several columns without their problems. */
export const getReadingValues = <Name extends string, A>(readings: Record.ReadonlyRecord<Name, Reading<A>>) =>
  Record.map(readings, ({ value }) => value)

interface Readings {
  readonly [column: string]: Reading<unknown>
}

/**
 * Returns the doubts about the columns of each holder. `holders` contains the readings of each holder's columns, and
 * `filing` those of the columns that all holders have in common, whose doubts apply to every holder.
 */
export const findHolderDoubts = (holders: ReadonlyArray<Readings>, filing: Readings): ReadonlyArray<HolderDoubt> =>
  holders.flatMap((readings, holder) =>
    Object.entries({ ...filing, ...readings }).flatMap(([column, { problem }]) =>
      problem === undefined ? [] : [{ holder, column, ...problem }]
    )
  )
