/** A program without Effect, as a user of the package writes it. It is compiled and run outside of the repository. */
import { type Code, createClient, type PromiseClientOptions, type TickerlineClient, TickerlineError } from "tickerline"
import * as Promises from "tickerline/promise"

declare const process: { readonly env: Readonly<Record<string, string | undefined>> }

const { API_KEY: apiKey = "", BASE_URL: baseUrl = "" } = process.env

const options: PromiseClientOptions = { baseUrl, apiKey, retries: 1, longestWaitMs: 1_000 }
const tickerline: TickerlineClient = createClient(options)

const { count, results: [chain] } = await tickerline.tickerChanges.get({ ticker: "OSTK" })
const current: string | null = chain.current_ticker

const code: Code = "ambiguous_ticker_lineage"
const refused = await tickerline.tickerChanges.get({ ticker: "META" }).then(
  () => [],
  (error: unknown) => {
    if (!TickerlineError.is(error, code)) throw error
    const names: ReadonlyArray<string | null> = error.details.candidates.map(({ company_name }) => company_name)
    return names
  },
)

const days: Array<string> = []
for await (const { date, last_updated, market_open } of tickerline.gapStats.rows({ ticker: ["GAP7"], limit: 2 })) {
  const price: string | null = market_open
  const time: string = last_updated
  days.push(`${date} ${price} ${time}`)
  if (days.length === 3) break
}

const isSame = Promises.TickerlineError === TickerlineError

// @ts-expect-error there is no such parameter
export const misspelt = () => tickerline.intradayRunners.get({ min_gap: 5 })
// @ts-expect-error the parameter ticker is missing
export const missing = () => tickerline.tickerChanges.get()
// @ts-expect-error there is no such field
export const strange = () => tickerline.news.get().then(({ results }) => results[0]?.mood)

console.log(JSON.stringify({ count, current, refused, days, isSame }))
