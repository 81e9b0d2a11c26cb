/**
 * Doubts: suspicious values in SEC documents, which the published rows do not contain until an operator has decided
 * about them.
 */
import { hash } from "node:crypto"

/** A suspicious value in a document: what the document states, and what the row contains in its place. */
export interface Doubt {
  /** Dataset of the affected row. */
  readonly table: string
  /**
   * URL of the document, with a fragment that identifies the element containing the value, as in the row's `source`.
   */
  readonly url: string
  /** Affected column of the row. */
  readonly column: string
  /** The value that the document states, formatted by `describeStated`. Empty if it states none. */
  readonly read: string
  /**
   * The value to publish if the document turns out to be right. Null if the document does not give one clear value, so
   * that an operator cannot confirm it.
   */
  readonly confirmable: string | null
  /** The value that the row contains instead. */
  readonly published: string | null
  /** Whether one decision settles this doubt together with all other joint doubts about the same element. */
  readonly isJoint?: boolean
  /** The reason why the value is suspicious, as a clause such as "is after the filing". */
  readonly reason: string
}

/**
 * Matches text that a doubt may quote: numbers and dates. Any other text may be personal data, so only its hash is
 * quoted.
 */
const quotable = /^([\d.,+\-/%$: ]{1,40}|text [\da-f]{12})$/

const maxDescription = 200

const formatDigest = (text: string) => `text ${hash("sha256", text).slice(0, 12)}`

/**
 * Describes the texts that a document states, as in `5000000 and 6000000`. Quotes only numbers and dates; any other
 * text may be personal data and is replaced with part of its hash. The description therefore changes if the document
 * later states a different text.
 */
export const describeStated = (texts: ReadonlyArray<string>) => {
  const described = texts.map((text) => quotable.test(text) ? text : formatDigest(text)).join(" and ")
  return described.length <= maxDescription
    ? described
    : `${described.slice(0, maxDescription / 2)}… (${formatDigest(described)})`
}

/** An operator's decision about a suspicious value. It determines what the row contains. */
export interface OperatorDecision {
  /** Whether the operator confirmed the value that the document states. */
  readonly isConfirmed: boolean
  readonly value: string | null
}

/** Identifies a doubt. If the document later states a different value, that is a new doubt. */
export type DoubtKey = Pick<Doubt, "column" | "read" | "table" | "url">

/** Formats the key under which decisions about a doubt are found. */
export const formatDoubtKey = ({ column, read, table, url }: DoubtKey) => JSON.stringify([table, column, url, read])

/** Operators' decisions by doubt key (see `formatDoubtKey`). */
export type OperatorDecisions = ReadonlyMap<string, OperatorDecision>
