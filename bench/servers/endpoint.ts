/** Declares an endpoint of the hand-written servers with which Tickerline is compared. */

/** The parameters of a request. */
export type Query = Readonly<Record<string, unknown>>

/** An endpoint, which Fastify and Express serve. */
export interface Endpoint {
  readonly path: string
  /** JSON Schemas of the query parameters. */
  readonly query: Readonly<Record<string, object>>
  /** JSON Schema of the response. */
  readonly response: object
  readonly handle: (query: Query) => Promise<object>
}
