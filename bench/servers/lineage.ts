/**
 * The lineage endpoint of the handwritten servers. It rejects ambiguous lineages, but unlike Tickerline, without giving
 * reasons.
 */
import { runNamedStatement } from "./database.ts"
import type { Endpoint } from "./endpoint.ts"

const text = { type: "string" }

const statement = `
  with recursive symbols (ticker) as (
    select $1::text
    union
    select neighbour.ticker from symbols, lateral (
      select new_ticker as ticker from ticker_changes
      where old_ticker = symbols.ticker and status = 'confirmed' and effective_date <= current_date
      union all
      select old_ticker from ticker_changes
      where new_ticker = symbols.ticker and status = 'confirmed' and effective_date <= current_date
    ) as neighbour
  )
  select old_ticker, new_ticker, effective_date from ticker_changes join symbols on old_ticker = symbols.ticker
  where status = 'confirmed' and effective_date <= current_date
  order by effective_date limit 13`

/** The ticker changes of a symbol do not form a single chain. Reported as 409. */
export class AmbiguousLineage extends Error {}

/** The endpoint `/v1/ticker-changes`. */
export const lineage: Endpoint = {
  path: "/v1/ticker-changes",
  query: { ticker: { type: "string", pattern: "^[A-Z0-9.^-]{1,6}$" } },
  response: {
    type: "object",
    properties: {
      count: { type: "integer" },
      results: {
        type: "array",
        items: {
          type: "object",
          properties: {
            query_ticker: text,
            has_changes: { type: "boolean" },
            current_ticker: { ...text, nullable: true },
            history: {
              type: "array",
              items: {
                type: "object",
                properties: {
                  old_ticker: text,
                  new_ticker: text,
                  effective_date: text,
                },
              },
            },
          },
        },
      },
    },
  },
  handle: async ({ ticker: query_ticker }) => {
    const history = await runNamedStatement("lineage", statement, [query_ticker])
    const isChain = history.every((event, at) => at === 0 || history[at - 1]?.["new_ticker"] === event["old_ticker"])
    if (!isChain || history.length > 12) {
      throw new AmbiguousLineage(`The history of ${String(query_ticker)} is ambiguous.`)
    }
    const current_ticker = history.at(-1)?.["new_ticker"] ?? null
    return {
      count: history.length,
      results: [{
        query_ticker,
        has_changes: history.length > 0,
        current_ticker,
        history,
      }],
    }
  },
}
