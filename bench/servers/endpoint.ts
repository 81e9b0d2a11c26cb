/** An endpoint of the hand-written servers. */
export type Query = Readonly<Record<string, unknown>>

export interface Endpoint {
  readonly path: string
  /** JSON Schemas of the query parameters. */
  readonly query: Readonly<Record<string, object>>
  /** JSON Schema of the response. */
  readonly answer: object
  readonly handle: (query: Query) => Promise<object>
}
