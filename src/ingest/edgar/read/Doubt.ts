/** Values of documents that are not believed, and what operators have decided about them. */
import { hash } from "node:crypto"

/** A value of a document that is not believed: what the document states, and what the row has instead. */
export interface Doubt {
  /** Dataset of the row. */
  readonly table: string
  /** URL of the document with the element that states this one value, as in the row's `source`. */
  readonly url: string
  /** Column of the row. */
  readonly column: string
  /** What the document states, as `describeStated` describes it; empty if it states nothing. */
  readonly read: string
  /** What the row has if the document is right; null if that is not clear, so that nothing can be confirmed. */
  readonly confirmable: string | null
  /** What the row has instead. */
  readonly published: string | null
  /** Whether it is decided together with the other doubts about the element. */
  readonly isJoint?: boolean
  /** Why the value is not believed, as a clause: "is after the filing". */
  readonly reason: string
}

/** A doubt repeats numbers and dates of the document, but no other text, which may be personal data, only its hash. */
const quotable = /^([\d.,+\-/%$: ]{1,40}|text [\da-f]{12})$/

const maxDescription = 200

const formatDigest = (text: string) => `text ${hash("sha256", text).slice(0, 12)}`

/**
 * Describes what a document states, by its numbers and dates: `5000000 and 6000000`. Other text is replaced by a part
 * of its hash, so that a document that states another text later has another description.
 */
export const describeStated = (texts: ReadonlyArray<string>) => {
  const described = texts.map((text) => quotable.test(text) ? text : formatDigest(text)).join(" and ")
  return described.length <= maxDescription
    ? described
    : `${described.slice(0, maxDescription / 2)}… (${formatDigest(described)})`
}

/** What an operator has decided: the value that the row has in any case. */
export interface Decision {
  /** Whether it is what the document states. */
  readonly isConfirmed: boolean
  readonly value: string | null
}

/** Identifies a doubt. A document that states another value later is another doubt. */
export type DoubtKey = Pick<Doubt, "column" | "read" | "table" | "url">

export const formatDoubtKey = ({ column, read, table, url }: DoubtKey) => JSON.stringify([table, column, url, read])

/** The decisions by `formatDoubtKey`. */
export type Decisions = ReadonlyMap<string, Decision>
