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
