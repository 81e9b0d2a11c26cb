/** D19, D20: the eligible events reachable from a symbol. `/v1/historical-tickers` asks for them too. */
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Database } from "../../db/Database.ts"

/**
 * More events than this are not looked at. A chain has at most twelve, so a component this large is refused whichever
 * part of it is seen; the bound keeps one symbol with a million events from being read to the end.
 */
export const maxEvents = 25_000

const Event = Schema.Struct({
  old_ticker: Schema.String,
  new_ticker: Schema.String,
  effective_date: Schema.String,
  cik: Schema.NullOr(Schema.String),
  company_name: Schema.NullOr(Schema.String),
})

/** A function from a symbol, and the day it is in Chicago, to the events of its component, in no order. */
export const makeEventFinder = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database

  // The walk goes from symbol to symbol over the two partial indexes; `limit` ends the recursion, not only its output.
  const find = SqlSchema.findAll({
    Request: Schema.Struct({ ticker: Schema.String, today: Schema.String }),
    Result: Event,
    execute: ({ ticker, today }) =>
      sql`
        with recursive symbols (ticker) as (
          select ${ticker}::text
          union
          select neighbour.ticker
          from symbols, lateral (
            select new_ticker as ticker from ticker_changes
            where old_ticker = symbols.ticker and status = 'confirmed' and effective_date <= ${today}::date
            union all
            select old_ticker from ticker_changes
            where new_ticker = symbols.ticker and status = 'confirmed' and effective_date <= ${today}::date
          ) as neighbour
        )
        select event.old_ticker, event.new_ticker, event.effective_date, event.cik, event.company_name
        from (select ticker from symbols limit ${maxEvents}) as reached, lateral (
          select old_ticker, new_ticker, effective_date, cik, company_name from ticker_changes
          where old_ticker = reached.ticker and status = 'confirmed' and effective_date <= ${today}::date
          limit ${maxEvents}
        ) as event
        limit ${maxEvents}
      `,
  })

  return (asked: { readonly ticker: string; readonly today: string }) => read(find(asked))
})
