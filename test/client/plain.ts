/** A sample program without Effect. The tests compile and run it outside the repository. */
import {
  createClient,
  type ErrorCode,
  type PromiseClientOptions,
  type Row,
  type TickerlineClient,
  TickerlineError,
} from "tickerline"
import * as Promises from "tickerline/promise"

declare const process: { readonly env: Readonly<Record<string, string | undefined>> }

const { API_KEY: apiKey = "", BASE_URL: baseUrl = "" } = process.env

const options: PromiseClientOptions = { baseUrl, apiKey, retries: 1, longestWaitMs: 1_000 }
const tickerline: TickerlineClient = createClient(options)

const { count, results: [chain] } = await tickerline.tickerChanges.get({ ticker: "OSTK" })
const current: string | null = chain.current_ticker

const code: ErrorCode = "ambiguous_ticker_lineage"
const refused = await tickerline.tickerChanges.get({ ticker: "META" }).then(
  () => [],
  (error: unknown) => {
    if (!TickerlineError.is(error, code)) throw error
    const names: ReadonlyArray<string | null> = error.details.candidates.map(({ company_name }) => company_name)
    return names
  },
)

const days: Array<string> = []
const formatDay = ({ date, last_updated, market_open }: Row<"gapStats">) => `${date} ${market_open} ${last_updated}`
for await (const row of tickerline.gapStats.rows({ ticker: ["GAP7"], limit: 2 })) {
  const price: string | null = row.market_open
  const time: string = row.last_updated
  days.push(price === null || time === "" ? "" : formatDay(row))
  if (days.length === 3) break
}

const tickers: Array<unknown> = []
for await (const { cursor, row } of tickerline.changes.follow({ dataset: "split_status", ticker: "GAP7" })) {
  const after: string = cursor
  tickers.push(row?.["ticker"], after.length > 32)
  break
}

const isSame = Promises.TickerlineError === TickerlineError

// @ts-expect-error unknown parameter
export const unknownParameter = () => tickerline.intradayRunners.get({ min_gap: 5 })
// @ts-expect-error unknown parameter
export const noLimit = () => tickerline.changes.follow({ limit: 5 })
// @ts-expect-error a page is JSON; `download` returns files
export const fileAsPage = () => tickerline.gapStats.get({ format: "csv" })
// @ts-expect-error a page has at most 100 rows; `download` returns complete lists
export const listAsPage = () => tickerline.gapStats.rows({ limit: "all" })
export const file = () => tickerline.gapStats.download({ format: "csv", limit: "all" })
// @ts-expect-error missing parameter
export const missingParameter = () => tickerline.tickerChanges.get()
// @ts-expect-error unknown field
export const unknownField = () => tickerline.news.get().then(({ results }) => results[0]?.mood)

console.log(JSON.stringify({ count, current, refused, days, tickers, isSame }))
