/** The benchmark cases: endpoints and query parameters. */
import { chainsOf12, chainsOf3, chainSymbol, makeRandom, shuffle, tickerSymbol } from "./symbols.ts"

/** `miss`: a new request. `hit`: one of 1,000 popular requests. `304`: a popular request with a matching ETag. */
export type Mode = "miss" | "hit" | "304"

export type QueryParameters = Readonly<Record<string, string>>

export interface Case {
  readonly name: string
  readonly path: string
  readonly modes: ReadonlyArray<Mode>
  /** Requests of `miss`, in order. With `uniquePlaceholder` the list repeats; without it the list must be long enough. */
  readonly misses: ReadonlyArray<QueryParameters>
  /** Requests of `hit`, most popular first. */
  readonly popular: ReadonlyArray<QueryParameters>
}

/** Placeholder for ten digits that are unique to each request. */
export const uniquePlaceholder = "\x1A"

/** A lower bound that excludes no gap and is unique to each request. */
const belowAll = `-9000.${uniquePlaceholder}`

const popularCount = 1000
const missCount = 20_000
export const tickerCount = 5000

/** Randomly drawn tickers, repetitions included. */
const drawTickers = (among: number, seed: number) => {
  const chance = makeRandom(seed)
  return Array.from(
    { length: missCount },
    () => tickerSymbol(1 + Math.floor(chance() * among)),
  )
}

const integersFrom = (first: number, count: number) => Array.from({ length: count }, (_, index) => first + index)

const popularAmong = (among: number) =>
  shuffle(integersFrom(1, among), makeRandom(1)).slice(0, popularCount).map(tickerSymbol)

const popularTickers = popularAmong(tickerCount)

const runnersCase = (
  name: string,
  modes: ReadonlyArray<Mode>,
  rest: QueryParameters,
  among = tickerCount,
): Case => ({
  name,
  path: "/v1/intraday-runners",
  modes,
  misses: drawTickers(among, 2).map((ticker) => ({
    ticker,
    ...rest,
    min_gap_percentage: belowAll,
  })),
  popular: popularAmong(among).map((ticker) => ({ ticker, ...rest })),
})

const dayOf = (number: number) => new Date(Date.UTC(2017, 0, 1 + number)).toISOString().slice(0, 10)

/** Date ranges of thirty days with gap ranges of twenty percentage points. */
const dateRangeQueries = (
  seed: number,
  digits: string,
  length: number,
): ReadonlyArray<QueryParameters> => {
  const chance = makeRandom(seed)
  return Array.from({ length }, () => {
    const [from, gap] = [
      Math.floor(chance() * 3500),
      Math.floor(chance() * 100),
    ]
    return {
      date_from: dayOf(from),
      date_to: dayOf(from + 30),
      min_gap_percentage: `${gap}${digits}`,
      max_gap_percentage: String(gap + 20),
    }
  })
}

/** Popular symbols for `hit`; each remaining symbol is requested once for `miss`. */
const lineageCase = (
  name: string,
  { first, symbols }: typeof chainsOf3,
  seed: number,
): Case => {
  const mixed = shuffle(integersFrom(first, symbols), makeRandom(seed)).map((
    number,
  ) => ({ ticker: chainSymbol(number) }))
  return {
    name,
    path: "/v1/ticker-changes",
    modes: ["miss", "hit"],
    misses: mixed.slice(popularCount),
    popular: mixed.slice(0, popularCount),
  }
}

const exchanges = ["NASDAQ", "NYSE", "AMEX"]
const sectors = [
  "Healthcare",
  "Technology",
  "Energy",
  "Industrials",
  "Utilities",
]
export const screenerSorts = [
  "-gain_1_day",
  "-short_float",
  "market_cap",
  "-today_volume",
  "price",
  "fee_rate",
]

const screenerQueries = (least: string): ReadonlyArray<QueryParameters> =>
  exchanges.flatMap((exchange) =>
    sectors.flatMap((sector) =>
      screenerSorts.flatMap((sort) =>
        integersFrom(1, 12).map((price) => ({
          exchange,
          sector,
          min_price: `${price}.25`,
          max_market_cap: "3000000000",
          min_gain_30_day: least,
          sort,
        }))
      )
    )
  )

const missAndHit: ReadonlyArray<Mode> = ["miss", "hit"]

export const runners10 = runnersCase("runners-10", ["miss", "hit", "304"], {})

/** The same case for `bench_small`, which has a tenth of the rows. */
export const runners10Small = runnersCase(
  "runners-10",
  ["miss", "hit", "304"],
  {},
  500,
)
export const runners100Small = runnersCase("runners-100", ["miss"], {
  limit: "100",
}, 500)

export const cases: ReadonlyArray<Case> = [
  runners10,
  runnersCase("runners-100", missAndHit, { limit: "100" }),
  {
    name: "runners-range",
    path: "/v1/intraday-runners",
    modes: missAndHit,
    misses: dateRangeQueries(3, `.0000${uniquePlaceholder}`, missCount),
    popular: dateRangeQueries(4, "", popularCount),
  },
  lineageCase("lineage-3", chainsOf3, 5),
  lineageCase("lineage-12", chainsOf12, 6),
  {
    name: "screener",
    path: "/v1/screener",
    modes: missAndHit,
    misses: shuffle(screenerQueries(belowAll), makeRandom(7)),
    popular: shuffle(screenerQueries("-9000"), makeRandom(8)).slice(0, popularCount),
  },
  {
    name: "float",
    path: "/v1/historical-float-pro",
    modes: missAndHit,
    misses: drawTickers(tickerCount, 9).map((ticker) => ({
      ticker,
      min_float: `-${uniquePlaceholder}`,
    })),
    popular: popularTickers.map((ticker) => ({ ticker })),
  },
]

export const requestTarget = ({ path }: Pick<Case, "path">, parameters: QueryParameters) =>
  `${path}?${Object.entries(parameters).map(([name, value]) => `${name}=${value}`).join("&")}`

/** Replaces the placeholder with a number. */
export const fillPlaceholder = (text: string, count: number) => text.replaceAll(uniquePlaceholder, String(count))
