/** The benchmark cases. Each case defines requests that are sent to all servers. */
import { chainsOf12, chainsOf3, makeChainSymbol, makeRandomGenerator, makeTickerSymbol, shuffle } from "./symbols.ts"

/**
 * The kind of requests to send. `miss`: requests that have not been sent before. `hit`: 1,000 popular requests. `304`:
 * popular requests from a client that already has the response.
 */
export type Mode = "miss" | "hit" | "304"

export type QueryParameters = Readonly<Record<string, string>>

/** A set of similar requests. */
export interface BenchmarkCase {
  readonly name: string
  readonly path: string
  readonly modes: ReadonlyArray<Mode>
  /**
   * The requests for the `miss` mode, in order. A request that contains `counterPlaceholder` is different each time it
   * is sent.
   */
  readonly misses: ReadonlyArray<QueryParameters>
  /** The requests for the `hit` and `304` modes, most popular first. */
  readonly popular: ReadonlyArray<QueryParameters>
  /** Whether the client accepts gzip and the servers compress their responses. */
  readonly isCompressed: boolean
  /** Set if only Tickerline is measured, because the other servers do not have the feature. */
  readonly isOwn?: true
}

/** A placeholder for ten digits that differ in every request. */
export const counterPlaceholder = "\x1A"

/**
 * A filter value that is lower than every gap, so the filter excludes no rows. The value is different in every request.
 */
const belowAll = `-9000.${counterPlaceholder}`

const popularCount = 1000
const missCount = 20_000
/** The number of tickers that have runners in the `bench` database. */
export const tickers = 5000

/** Returns random tickers, drawn from the `among` tickers whose numbers start at `first`. */
const drawTickers = (among: number, seed: number, first = 1) => {
  const chance = makeRandomGenerator(seed)
  return Array.from(
    { length: missCount },
    () => makeTickerSymbol(first + Math.floor(chance() * among)),
  )
}

const countFrom = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at)

/** Returns a thousand of the first `among` tickers, in random order. */
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

/** Returns random filters: each covers thirty days, and gaps within twenty percentage points. */
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

/**
 * Builds a case from shuffled symbols. The first 1,000 symbols are the popular requests, and the remaining symbols are
 * the misses.
 */
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
/** The values of the `sort` parameter. */
export const sorts = [
  "-gain_1_day",
  "-short_float",
  "market_cap",
  "-today_volume",
  "price",
  "fee_rate",
]

/** Returns every combination of the screener filters. `least` is the lower limit for the gain. */
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

/** Requests for ten runners of one ticker. */
export const runners10 = runners("runners-10", ["miss", "hit", "304"], {})

/** The `runners-10` case for the `bench_small` database, which has a tenth of the rows. */
export const runners10Small = runners(
  "runners-10",
  ["miss", "hit", "304"],
  {},
  500,
)
/** Requests for a hundred runners of one ticker, for the `bench_small` database. */
export const runners100Small = runners("runners-100", ["miss"], {
  limit: "100",
}, 500)

/**
 * The number of symbols per company in `followedRunners`. In `data.sql`, each chain of twelve ticker changes links
 * thirteen consecutive tickers from the first half of the tickers that have runners. The tickers in the second half
 * have no ticker changes.
 */
const symbolsOfFollowed = 13
const half = tickers / 2
const followedTickers = Math.floor(half / symbolsOfFollowed) * symbolsOfFollowed

/** Requests for the runners of a company that has had thirteen symbols, for comparison with `runners-10`. */
const followedRunners: BenchmarkCase = {
  ...runners("runners-followed", ["miss"], { follow_lineage: "true" }, followedTickers),
  popular: countFrom(1, popularCount).map((number) => ({ ticker: makeTickerSymbol(number), follow_lineage: "true" })),
  isOwn: true,
}

/** Requests for tickers that have no runners. */
const runners0: BenchmarkCase = {
  ...runners10,
  name: "runners-0",
  modes: ["miss"],
  misses: drawTickers(tickers, 2, 1 + tickers).map((ticker) => ({ ticker, min_gap_percentage: belowAll })),
  popular: countFrom(1 + tickers, popularCount).map((number) => ({ ticker: makeTickerSymbol(number) })),
}

/** The cases that `npm run bench` measures. */
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
    // The tickers belong to companies without ticker changes, because the handwritten servers read the closes of only
    // one symbol.
    misses: drawTickers(half, 9, 1 + half).map((ticker) => ({ ticker, min_float: `-${counterPlaceholder}` })),
    popular: countFrom(1 + half, popularCount).map((number) => ({ ticker: makeTickerSymbol(number) })),
    isCompressed: false,
  },
]

/** Returns the path and query of a request. */
export const requestTarget = ({ path }: Pick<BenchmarkCase, "path">, parameters: QueryParameters) =>
  `${path}?${Object.entries(parameters).map(([name, value]) => `${name}=${value}`).join("&")}`

/** Replaces the counter placeholder with a number. */
export const fillCounter = (text: string, count: number) => text.replaceAll(counterPlaceholder, String(count))
