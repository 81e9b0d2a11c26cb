/** The benchmark cases: the requests that are sent to every server. */
import { chainsOf12, chainsOf3, makeChainSymbol, makeRandomGenerator, makeTickerSymbol, shuffle } from "./symbols.ts"

/**
 * `miss`: requests that were not sent before. `hit`: 1,000 popular requests. `304`: popular requests from a client that
 * has the response already.
 */
export type Mode = "miss" | "hit" | "304"

export type QueryParameters = Readonly<Record<string, string>>

/** Requests of one kind, which are sent to every server. */
export interface BenchmarkCase {
  readonly name: string
  readonly path: string
  readonly modes: ReadonlyArray<Mode>
  /**
   * The requests of the mode `miss`, in order. Those that contain `counterPlaceholder` differ each time they are sent.
   */
  readonly misses: ReadonlyArray<QueryParameters>
  /** The requests of the modes `hit` and `304`, the most popular first. */
  readonly popular: ReadonlyArray<QueryParameters>
  /** Whether the client accepts gzip, and the servers compress. */
  readonly isCompressed: boolean
  /** Whether only Tickerline is measured, because the other servers lack the feature. */
  readonly isOwn?: true
}

/** Stands for ten digits that differ in every request. */
export const counterPlaceholder = "\x1A"

/** A filter value below all gaps, so that the filter excludes no row. It differs in every request. */
const belowAll = `-9000.${counterPlaceholder}`

const popularCount = 1000
const missCount = 20_000
/** How many tickers have runners in the database `bench`. */
export const tickers = 5000

/** Returns random tickers whose numbers are `first` or greater. */
const drawTickers = (among: number, seed: number, first = 1) => {
  const chance = makeRandomGenerator(seed)
  return Array.from(
    { length: missCount },
    () => makeTickerSymbol(first + Math.floor(chance() * among)),
  )
}

const countFrom = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at)

/** Returns a thousand of the tickers, in random order. */
const choosePopularTickers = (among: number) =>
  shuffle(countFrom(1, among), makeRandomGenerator(1)).slice(0, popularCount).map(makeTickerSymbol)

const runners = (
  name: string,
  modes: ReadonlyArray<Mode>,
  rest: QueryParameters,
  among = tickers,
): BenchmarkCase => ({
  name,
  path: "/v1/intraday-runners",
  modes,
  misses: drawTickers(among, 2).map((ticker) => ({
    ticker,
    ...rest,
    min_gap_percentage: belowAll,
  })),
  popular: choosePopularTickers(among).map((ticker) => ({ ticker, ...rest })),
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

/** Builds a case of shuffled symbols: the first 1,000 are the popular ones, and the others are the misses. */
const lineage = (
  name: string,
  { first, symbols }: typeof chainsOf3,
  seed: number,
): BenchmarkCase => {
  const requests = shuffle(countFrom(first, symbols), makeRandomGenerator(seed)).map((
    number,
  ) => ({ ticker: makeChainSymbol(number) }))
  return {
    name,
    path: "/v1/ticker-changes",
    modes: ["miss", "hit"],
    misses: requests.slice(popularCount),
    popular: requests.slice(0, popularCount),
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
/** Values of the parameter `sort`. */
export const sorts = [
  "-gain_1_day",
  "-short_float",
  "market_cap",
  "-today_volume",
  "price",
  "fee_rate",
]

/** Returns every combination of the screener's filters. `least` is the lower bound of the gain. */
const combineScreens = (least: string): ReadonlyArray<QueryParameters> =>
  exchanges.flatMap((exchange) =>
    sectors.flatMap((sector) =>
      sorts.flatMap((sort) =>
        countFrom(1, 12).map((price) => ({
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

/** Ten runners of one ticker. */
export const runners10 = runners("runners-10", ["miss", "hit", "304"], {})

/** The same case for the database `bench_small`, which has a tenth of the rows. */
export const runners10Small = runners(
  "runners-10",
  ["miss", "hit", "304"],
  {},
  500,
)
/** A hundred runners of one ticker, for `bench_small`. */
export const runners100Small = runners("runners-100", ["miss"], {
  limit: "100",
}, 500)

/**
 * `data.sql` has chains of twelve ticker changes whose thirteen symbols, consecutive tickers of the first half, have
 * runners. The tickers of the second half have no changes.
 */
const symbolsOfFollowed = 13
const half = tickers / 2
const followedTickers = Math.floor(half / symbolsOfFollowed) * symbolsOfFollowed

/** The runners of a company with thirteen symbols, to compare with `runners-10`. */
const followedRunners: BenchmarkCase = {
  ...runners("runners-followed", ["miss"], { follow_lineage: "true" }, followedTickers),
  popular: countFrom(1, popularCount).map((number) => ({ ticker: makeTickerSymbol(number), follow_lineage: "true" })),
  isOwn: true,
}

/** Tickers without runners. */
const runners0: BenchmarkCase = {
  ...runners10,
  name: "runners-0",
  modes: ["miss"],
  misses: drawTickers(tickers, 2, 1 + tickers).map((ticker) => ({ ticker, min_gap_percentage: belowAll })),
  popular: countFrom(1 + tickers, popularCount).map((number) => ({ ticker: makeTickerSymbol(number) })),
}

/** The cases of `npm run bench`. */
export const cases: ReadonlyArray<BenchmarkCase> = [
  runners0,
  runners10,
  { ...runners10, name: "runners-10-gzip", modes: ["miss"], isCompressed: true },
  runners("runners-100", missAndHit, { limit: "100" }),
  {
    name: "runners-range",
    path: "/v1/intraday-runners",
    modes: missAndHit,
    misses: ranges(3, `.0000${counterPlaceholder}`, missCount),
    popular: ranges(4, "", popularCount),
    isCompressed: false,
  },
  followedRunners,
  lineage("lineage-3", chainsOf3, 5),
  lineage("lineage-12", chainsOf12, 6),
  {
    name: "screener",
    path: "/v1/screener",
    modes: missAndHit,
    misses: shuffle(combineScreens(belowAll), makeRandomGenerator(7)),
    popular: shuffle(combineScreens("-9000"), makeRandomGenerator(8)).slice(0, popularCount),
    isCompressed: false,
  },
  {
    name: "float",
    path: "/v1/historical-float-pro",
    modes: missAndHit,
    // Companies without ticker changes. The hand-written servers read the closes of no other symbol.
    misses: drawTickers(half, 9, 1 + half).map((ticker) => ({ ticker, min_float: `-${counterPlaceholder}` })),
    popular: countFrom(1 + half, popularCount).map((number) => ({ ticker: makeTickerSymbol(number) })),
    isCompressed: false,
  },
]

/** Returns the path and the query of a request. */
export const requestTarget = ({ path }: Pick<BenchmarkCase, "path">, parameters: QueryParameters) =>
  `${path}?${Object.entries(parameters).map(([name, value]) => `${name}=${value}`).join("&")}`

/** Replaces the counter placeholder with a number. */
export const fillCounter = (text: string, count: number) => text.replaceAll(counterPlaceholder, String(count))
