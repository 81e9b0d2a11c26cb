/** Values of documents that are not believed, and what operators have decided about them. */

/** A value of a document that is not believed: what the document states, and what the row has instead. */
export interface Doubt {
  /** Dataset of the row. */
  readonly table: string
  /** URL of the document with the element, as in the row's `source`. */
  readonly url: string
  /** Column of the row. */
  readonly column: string
  /** What the document states; empty if its statements contradict each other. */
  readonly read: string
  /** What the row has instead. */
  readonly published: string | null
  /** Why the value is not believed, as a clause: "is after the filing". */
  readonly reason: string
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
