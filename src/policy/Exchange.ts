/** What a request has to say in the headers of its answer, whoever learns it: gathered here, printed by `Edge.ts`. */
import { Context, Effect } from "effect"

export interface Exchange {
  /** `X-Request-Id` of the answer and `request_id` of an error (D12). */
  readonly id: string
  /** The request's path and query, as sent. */
  readonly target: string
  /** `Link` header: next page (D8), successor and documentation of what is deprecated (§9.4); paths from the root. */
  readonly links: Array<{ readonly path: string; readonly attributes: string }>
  /** Any other header. */
  readonly headers: Record<string, string>
}

export const make = (id: string, target: string): Exchange => ({ id, target, links: [], headers: {} })

/** The exchange being served; outside a request nobody listens. */
export const Exchange = Context.Reference<Exchange>("tickerline/policy/Exchange", { defaultValue: () => make("", "/") })

export const setHeaders = (headers: Readonly<Record<string, string>>) =>
  Effect.map(Exchange, (exchange) => {
    Object.assign(exchange.headers, headers)
  })

export const addLink = (path: string, attributes: string) =>
  Effect.map(Exchange, (exchange) => {
    exchange.links.push({ path, attributes })
  })
