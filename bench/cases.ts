/** The benchmark cases: the requests that are sent to every server. */
import { chainsOf12, chainsOf3, makeChainSymbol, makeRandomGenerator, makeTickerSymbol, shuffle } from "./symbols.ts"

/** `miss`: new requests. `hit`: 1,000 popular requests. `304`: popular requests by a client that has the response. */
export type Mode = "miss" | "hit" | "304"

export type QueryParameters = Readonly<Record<string, string>>

export interface BenchmarkCase {
  readonly name: string
  readonly path: string
  readonly modes: ReadonlyArray<Mode>
  /** Requests of `miss`, in order. With a `counter`, each is different even if it is repeated. */
  readonly misses: ReadonlyArray<QueryParameters>
  /** Requests of `hit` and `304`, the most popular first. */
  readonly popular: ReadonlyArray<QueryParameters>
  /** Whether the client accepts gzip, and the servers compress. */
  readonly isCompressed: boolean
  /** Only Tickerline is measured, because the other servers do not have the feature. */
  readonly isOwn?: true
}

/** Placeholder for ten digits that are different in every request. */
export const counterPlaceholder = "\x1A"

/** A filter value below all gaps, so that the filter excludes no row. It is different in every request. */
const belowAll = `-9000.${counterPlaceholder}`

const popularity = 1000
const draws = 20_000
export const tickers = 5000

/** Returns random tickers whose numbers are `first` or greater. */
const randomTickers = (among: number, seed: number, first = 1) => {
  const chance = makeRandomGenerator(seed)
  return Array.from(
    { length: draws },
    () => makeTickerSymbol(first + Math.floor(chance() * among)),
  )
}

const numbers = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at)

const popularAmong = (among: number) =>
  shuffle(numbers(1, among), makeRandomGenerator(1)).slice(0, popularity).map(makeTickerSymbol)

const popularTickers = popularAmong(tickers)

const runners = (
  name: string,
  modes: ReadonlyArray<Mode>,
  rest: QueryParameters,
  among = tickers,
): BenchmarkCase => ({
  name,
  path: "/v1/intraday-runners",
  modes,
  misses: randomTickers(among, 2).map((ticker) => ({
    ticker,
    ...rest,
    min_gap_percentage: belowAll,
  })),
  popular: popularAmong(among).map((ticker) => ({ ticker, ...rest })),
  isCompressed: false,
})

const dayOf = (number: number) => new Date(Date.UTC(2017, 0, 1 + number)).toISOString().slice(0, 10)

/** Returns filters for a range of thirty days, and for gaps in a range of twenty percentage points. */
const ranges = (
  seed: number,
  digits: string,
  length: number,
): ReadonlyArray<QueryParameters> => {
  const chance = makeRandomGenerator(seed)
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

/** Makes a case whose first 1,000 shuffled symbols are the popular ones. The others are the misses. */
const lineage = (
  name: string,
  { first, symbols }: typeof chainsOf3,
  seed: number,
): BenchmarkCase => {
  const mixed = shuffle(numbers(first, symbols), makeRandomGenerator(seed)).map((
    number,
  ) => ({ ticker: makeChainSymbol(number) }))
  return {
    name,
    path: "/v1/ticker-changes",
    modes: ["miss", "hit"],
    misses: mixed.slice(popularity),
    popular: mixed.slice(0, popularity),
    isCompressed: false,
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
export const sorts = [
  "-gain_1_day",
  "-short_float",
  "market_cap",
  "-today_volume",
  "price",
  "fee_rate",
]

const screens = (least: string): ReadonlyArray<QueryParameters> =>
  exchanges.flatMap((exchange) =>
    sectors.flatMap((sector) =>
      sorts.flatMap((sort) =>
        numbers(1, 12).map((price) => ({
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

const answered: ReadonlyArray<Mode> = ["miss", "hit"]

export const runners10 = runners("runners-10", ["miss", "hit", "304"], {})

/** The same case for the database `bench_small`, which has a tenth of the rows. */
export const runners10Small = runners(
  "runners-10",
  ["miss", "hit", "304"],
  {},
  500,
)
export const runners100Small = runners("runners-100", ["miss"], {
  limit: "100",
}, 500)

/** `data.sql` has chains of twelve links whose symbols have runners: each has thirteen consecutive tickers. */
const symbolsOfFollowed = 13
const followedTickers = Math.floor(tickers / symbolsOfFollowed) * symbolsOfFollowed

/** The runners of a company with thirteen symbols, to compare with `runners-10`. */
const followedRunners: BenchmarkCase = {
  ...runners("runners-followed", ["miss"], { follow_lineage: "true" }, followedTickers),
  popular: numbers(1, popularity).map((number) => ({ ticker: makeTickerSymbol(number), follow_lineage: "true" })),
  isOwn: true,
}

/** Tickers without runners. */
const runners0: BenchmarkCase = {
  ...runners10,
  name: "runners-0",
  modes: ["miss"],
  misses: randomTickers(tickers, 2, 1 + tickers).map((ticker) => ({ ticker, min_gap_percentage: belowAll })),
  popular: numbers(1 + tickers, popularity).map((number) => ({ ticker: makeTickerSymbol(number) })),
}

export const cases: ReadonlyArray<BenchmarkCase> = [
  runners0,
  runners10,
  { ...runners10, name: "runners-10-gzip", modes: ["miss"], isCompressed: true },
  runners("runners-100", answered, { limit: "100" }),
  {
    name: "runners-range",
    path: "/v1/intraday-runners",
    modes: answered,
    misses: ranges(3, `.0000${counterPlaceholder}`, draws),
    popular: ranges(4, "", popularity),
    isCompressed: false,
  },
  followedRunners,
  lineage("lineage-3", chainsOf3, 5),
  lineage("lineage-12", chainsOf12, 6),
  {
    name: "screener",
    path: "/v1/screener",
    modes: answered,
    misses: shuffle(screens(belowAll), makeRandomGenerator(7)),
    popular: shuffle(screens("-9000"), makeRandomGenerator(8)).slice(0, popularity),
    isCompressed: false,
  },
  {
    name: "float",
    path: "/v1/historical-float-pro",
    modes: answered,
    misses: randomTickers(tickers, 9).map((ticker) => ({
      ticker,
      min_float: `-${counterPlaceholder}`,
    })),
    popular: popularTickers.map((ticker) => ({ ticker })),
    isCompressed: false,
  },
]

export const requestTarget = ({ path }: Pick<BenchmarkCase, "path">, parameters: QueryParameters) =>
  `${path}?${Object.entries(parameters).map(([name, value]) => `${name}=${value}`).join("&")}`

/** Replaces the counter placeholder with a number. */
export const fillCounter = (text: string, count: number) => text.replaceAll(counterPlaceholder, String(count))
