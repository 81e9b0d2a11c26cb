/** A sample program that uses the Effect client. The tests compile and run it outside the repository. */
import { DateTime, Effect, Redacted, Stream } from "effect"
import { type ClientOptions, Tickerline } from "tickerline/client"
import { createClient, TickerlineError } from "tickerline/promise"

declare const process: { readonly env: Readonly<Record<string, string | undefined>> }

const { API_KEY: apiKey = "", BASE_URL: baseUrl = "" } = process.env

const plain = createClient({ baseUrl, apiKey })

const { count, results: [chain] } = await plain.tickerChanges.get({ ticker: "OSTK" })
const current: string | null = chain.current_ticker

const refused = await plain.tickerChanges.get({ ticker: "META" }).then(
  () => [],
  (error: unknown) => {
    if (!TickerlineError.is(error, "ambiguous_ticker_lineage")) throw error
    const names: ReadonlyArray<string | null> = error.details.candidates.map(({ company_name }) => company_name)
    return names
  },
)

const days: Array<string> = []
for await (const { date, market_open } of plain.gapStats.rows({ ticker: ["GAP7"], limit: 2, min_gap_percentage: 1 })) {
  const price: string | null = market_open
  days.push(`${date} ${price}`)
  if (days.length === 3) break
}

const program = Effect.gen(function* () {
  const tickerline = yield* Tickerline
  const rows = yield* Stream.runCollect(Stream.take(tickerline.gapStats.rows({ ticker: "GAP7", limit: 2 }), 3))
  const times: ReadonlyArray<DateTime.Utc> = Array.from(rows, ({ last_updated }) => last_updated)
  const reason = yield* tickerline.tickerChanges.get({ ticker: "META" }).pipe(
    Effect.as(""),
    Effect.catchTag("AmbiguousTickerLineage", ({ error }) => Effect.succeed<string>(error.details.reason)),
  )
  const changes = tickerline.changes.follow({ dataset: "split_status", ticker: "GAP7" }, { interval: "1 second" })
  const [first] = yield* Stream.runCollect(Stream.take(changes, 1))
  return { times: times.map(DateTime.formatIso), reason, ticker: first?.row?.["ticker"] }
})

const options: ClientOptions = { baseUrl, apiKey: Redacted.make(apiKey) }

const inEffect = await Effect.runPromise(
  Effect.provide(program, Tickerline.layerFetch(options)),
)

// @ts-expect-error unknown parameter
export const unknownParameter = () => plain.intradayRunners.get({ min_gap: 5 })
// @ts-expect-error missing parameter
export const missingParameter = () => plain.tickerChanges.get()
// @ts-expect-error unknown field
export const unknownField = () => plain.news.get().then(({ results }) => results[0]?.mood)

console.log(JSON.stringify({ count, current, refused, days, inEffect }))
