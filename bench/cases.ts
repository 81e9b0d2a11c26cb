/** What is asked. */
import { chainSymbol, chainsOf12, chainsOf3, makeRandom, shuffle, tickerSymbol } from "./symbols.ts"

/** `miss`: never asked before. `hit`: one of 1,000 popular requests. `304`: the same by a client that has the answer. */
export type Mode = "miss" | "hit" | "304"

export type QueryParameters = Readonly<Record<string, string>>

export interface Case {
  readonly name: string
  readonly path: string
  readonly modes: ReadonlyArray<Mode>
  /** Those of `miss`, in turn; with a `counter` in them they begin again at the end, otherwise they must suffice. */
  readonly misses: ReadonlyArray<QueryParameters>
  /** Those of `hit`, the most popular first. */
  readonly popular: ReadonlyArray<QueryParameters>
}

/** Stands for ten digits that no other request has. */
export const uniquePlaceholder = "\x1A"

/** Below all gaps, and never the same. */
const belowAll = `-9000.${uniquePlaceholder}`

const popularCount = 1000
const missCount = 20_000
export const tickerCount = 5000

/** Numbers of tickers, as chance has them. */
const drawTickers = (among: number, seed: number) => {
  const chance = makeRandom(seed)
  return Array.from(
    { length: missCount },
    () => tickerSymbol(1 + Math.floor(chance() * among)),
  )
}

const integersFrom = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at)

const popularAmong = (among: number) => shuffle(integersFrom(1, among), makeRandom(1)).slice(0, popularCount).map(tickerSymbol)

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

/** Thirty days, and gaps within twenty points. */
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

/** A tenth of the symbols is popular, the others are asked for once. */
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

/** The same where there are a tenth of the rows: what `bench_small` is asked. */
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

export const requestTarget = ({ path }: Pick<Case, "path">, asked: QueryParameters) =>
  `${path}?${Object.entries(asked).map(([name, value]) => `${name}=${value}`).join("&")}`

/** An instance of what has a counter. */
export const fillPlaceholder = (text: string, count: number) => text.replaceAll(uniquePlaceholder, String(count))
