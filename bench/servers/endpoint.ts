/** The type of the endpoints of the handwritten servers that Tickerline is compared with. */

/** The query parameters of a request. */
export type Query = Readonly<Record<string, unknown>>

/** An endpoint that the Fastify and Express servers provide. */
export interface Endpoint {
  readonly path: string
  /** The JSON Schemas of the query parameters. */
  readonly query: Readonly<Record<string, object>>
  /** The JSON Schema of the response. */
  readonly response: object
  readonly handle: (query: Query) => Promise<object>
}
