/** What is asked. */
import { chained, chainsOf12, chainsOf3, random, shuffled, ticker } from "./symbols.ts"

/** `miss`: never asked before. `hit`: one of 1,000 popular requests. `304`: the same by a client that has the answer. */
export type Mode = "miss" | "hit" | "304"

export type Asked = Readonly<Record<string, string>>

export interface Case {
  readonly name: string
  readonly path: string
  readonly modes: ReadonlyArray<Mode>
  /** Those of `miss`, in turn; with a `counter` in them they begin again at the end, otherwise they must suffice. */
  readonly misses: ReadonlyArray<Asked>
  /** Those of `hit`, the most popular first. */
  readonly popular: ReadonlyArray<Asked>
}

/** Stands for ten digits that no other request has. */
export const counter = "\x1A"

/** Below all gaps, and never the same. */
const belowAll = `-9000.${counter}`

const popularity = 1000
const draws = 20_000
export const tickers = 5000

/** Numbers of tickers, as chance has them. */
const drawn = (among: number, seed: number) => {
  const chance = random(seed)
  return Array.from(
    { length: draws },
    () => ticker(1 + Math.floor(chance() * among)),
  )
}

const numbers = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at)

const popularAmong = (among: number) => shuffled(numbers(1, among), random(1)).slice(0, popularity).map(ticker)

const popularTickers = popularAmong(tickers)

const runners = (
  name: string,
  modes: ReadonlyArray<Mode>,
  rest: Asked,
  among = tickers,
): Case => ({
  name,
  path: "/v1/intraday-runners",
  modes,
  misses: drawn(among, 2).map((ticker) => ({
    ticker,
    ...rest,
    min_gap_percentage: belowAll,
  })),
  popular: popularAmong(among).map((ticker) => ({ ticker, ...rest })),
})

const dayOf = (number: number) => new Date(Date.UTC(2017, 0, 1 + number)).toISOString().slice(0, 10)

/** Thirty days, and gaps within twenty points. */
const ranges = (
  seed: number,
  digits: string,
  length: number,
): ReadonlyArray<Asked> => {
  const chance = random(seed)
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
const lineage = (
  name: string,
  { first, symbols }: typeof chainsOf3,
  seed: number,
): Case => {
  const mixed = shuffled(numbers(first, symbols), random(seed)).map((
    number,
  ) => ({ ticker: chained(number) }))
  return {
    name,
    path: "/v1/ticker-changes",
    modes: ["miss", "hit"],
    misses: mixed.slice(popularity),
    popular: mixed.slice(0, popularity),
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

const screens = (least: string): ReadonlyArray<Asked> =>
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

/** The same where there are a tenth of the rows: what `bench_small` is asked. */
export const runners10Small = runners(
  "runners-10",
  ["miss", "hit", "304"],
  {},
  500,
)
export const runners100Small = runners("runners-100", ["miss"], {
  limit: "100",
}, 500)

export const cases: ReadonlyArray<Case> = [
  runners10,
  runners("runners-100", answered, { limit: "100" }),
  {
    name: "runners-range",
    path: "/v1/intraday-runners",
    modes: answered,
    misses: ranges(3, `.0000${counter}`, draws),
    popular: ranges(4, "", popularity),
  },
  lineage("lineage-3", chainsOf3, 5),
  lineage("lineage-12", chainsOf12, 6),
  {
    name: "screener",
    path: "/v1/screener",
    modes: answered,
    misses: shuffled(screens(belowAll), random(7)),
    popular: shuffled(screens("-9000"), random(8)).slice(0, popularity),
  },
  {
    name: "float",
    path: "/v1/historical-float-pro",
    modes: answered,
    misses: drawn(tickers, 9).map((ticker) => ({
      ticker,
      min_float: `-${counter}`,
    })),
    popular: popularTickers.map((ticker) => ({ ticker })),
  },
]

export const targetOf = ({ path }: Pick<Case, "path">, asked: Asked) =>
  `${path}?${Object.entries(asked).map(([name, value]) => `${name}=${value}`).join("&")}`

/** An instance of what has a counter. */
export const withCount = (text: string, count: number) => text.replaceAll(counter, String(count))
