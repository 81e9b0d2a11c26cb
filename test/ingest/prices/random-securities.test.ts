/**
 * Compares `ingest prices` and `/v1/historical-float-pro` with a simple model of random securities over time (D44,
 * D45). The model includes renames, symbols that other companies use earlier or later, ambiguous changes, and splits
 * that are recorded twice, under another symbol or with contradicting ratios. Files and rows are stored in random
 * order.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import process from "node:process"
import * as ListClients from "../../support/ListClients.ts"
import { type Choices, makeRandomChooser, type RandomChooser, shuffle } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import { type DayBar, emptyTables, ingestBars, ingestCorrections, listDays } from "./DayBars.ts"

// @module-tag slow

const { requestRows } = ListClients.makeListClient("/v1/historical-float-pro")

const sessionCount = 26
const days = listDays("2026-04-06", sessionCount)

/** Returns the day of a session. Sessions are numbered from 0. */
const at = (session: number) => days[session] ?? assert.fail(`day ${session}`)

const last = sessionCount - 1

// ---------------------------------------------------------------------------------------------------------------------
// The model: a security, its symbols, its bars and its splits
// ---------------------------------------------------------------------------------------------------------------------

/** A symbol, and the first session in which the security uses it. */
interface Use {
  readonly from: number
  readonly ticker: string
}

/** A split. If `isContradicted` is true, another row has a different ratio for the same day. */
interface ModelSplit {
  readonly session: number
  readonly from: bigint
  readonly to: bigint
  readonly isContradicted: boolean
}

/** The trading in one session, at a single price in ten-thousandths of a dollar. */
interface ModelBar {
  readonly session: number
  readonly price: bigint
  readonly volume: bigint
}

/** The column or row that determines the day of a share count. */
type Dating = "reported_date" | "filed_at" | "filing" | "screener"

/** The number of shares outstanding. */
interface ModelCount {
  readonly shares: bigint
  /** The session to which the share count refers. */
  readonly session: number
  readonly dating: Dating
  /**
   * The number of shares per depositary receipt. It is 1 if the shares themselves are listed, and null if it is
   * unknown.
   */
  readonly perReceipt: bigint | null
}

interface Security {
  /** The symbols that the security has used, oldest first. */
  readonly uses: ReadonlyArray<Use>
  readonly splits: ReadonlyArray<ModelSplit>
  readonly bars: ReadonlyArray<ModelBar>
  readonly count: ModelCount
  readonly cik: string | null
}

type Row = Readonly<Record<string, unknown>>

/** A company, the companies that share symbols with it, and the stored rows for their ticker changes and splits. */
interface Market {
  readonly securities: ReadonlyArray<Security>
  readonly changes: ReadonlyArray<Row>
  readonly splits: ReadonlyArray<Row>
}

/** Returns the first session in which the security uses its newest symbol. */
const startOf = ({ uses }: Security) => uses.at(-1)?.from ?? 0

const tickerOn = ({ uses }: Security, session: number) =>
  uses.findLast(({ from }) => from <= session)?.ticker ?? assert.fail("no symbol")

/** Divides positive integers and rounds half up. */
const divide = (numerator: bigint, denominator: bigint) => (2n * numerator + denominator) / (2n * denominator)

/** Returns the change from `base` to `value` in percent, multiplied by 10,000. */
const percent = (value: bigint, base: bigint) => {
  const scaled = (value - base) * 1_000_000n
  return scaled < 0n ? -divide(-scaled, base) : divide(scaled, base)
}

/**
 * Formats an integer as a decimal with the given number of decimal places. The integer is in units of the last
 * decimal place.
 */
const format = (value: bigint, decimals = 4) => {
  const digits = String(value < 0n ? -value : value).padStart(decimals + 1, "0")
  return `${value < 0n ? "-" : ""}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/**
 * Returns the product of all split ratios after session `after`, up to and including session `until`: `from` old shares
 * become `to` new ones. Returns undefined if any of the splits is contradicted.
 */
const factorBetween = ({ splits }: Security, after: number, until: number) => {
  const between = splits.filter(({ session }) => session > after && session <= until)
  if (between.some(({ isContradicted }) => isContradicted)) return undefined
  return {
    from: between.reduce((product, { from }) => product * from, 1n),
    to: between.reduce((product, { to }) => product * to, 1n),
  }
}

const dayNumber = (session: number) => Date.parse(at(session)) / 86_400_000

/** Returns the last close on the given day or less than 30 days before it, adjusted for splits up to a session. */
const closeBefore = (security: Security, day: number, session: number) => {
  const bar = security.bars.findLast((other) => dayNumber(other.session) <= day)
  if (bar === undefined || dayNumber(bar.session) <= day - 30) return undefined
  const factor = factorBetween(security, bar.session, session)
  return factor === undefined ? undefined : divide(bar.price * factor.from, factor.to)
}

/**
 * Returns the expected rows of `gap_stats`, which are the sessions that open at least 3% above or below the previous
 * close.
 */
const gapsOf = (security: Security) =>
  security.bars.flatMap(({ price, session }) => {
    const previous = closeBefore(security, dayNumber(session) - 1, session)
    if (previous === undefined || previous === 0n) return []
    const gap = percent(price, previous)
    return gap < 30_000n && gap > -30_000n
      ? []
      : [`${tickerOn(security, session)} ${at(session)} ${format(previous)} ${format(gap)}`]
  })

/**
 * Returns the index of the session to which the number of shares per receipt refers, or -1 if its date precedes all
 * sessions.
 */
const ratioSession = ({ dating, session }: ModelCount) =>
  dating === "filing" ? -1 : dating === "screener" ? last : session

/**
 * Returns the expected market capitalization at a bar's close: the price times the share count, adjusted for splits
 * between the two days. Returns null if it is unknown.
 */
const capOf = (security: Security, { price, session }: ModelBar) => {
  const { count } = security
  const { perReceipt, shares } = count
  if (perReceipt === null) return null
  if (perReceipt > 1n) {
    const sessions = [session, count.session, ratioSession(count)]
    const [first, end] = [Math.min(...sessions), Math.max(...sessions)]
    if (security.splits.some((split) => split.session > first && split.session <= end)) return null
    return format(divide(price * shares, 100n * perReceipt), 2)
  }
  const isNewer = count.session > session
  const factor = isNewer
    ? factorBetween(security, session, count.session)
    : factorBetween(security, count.session, session)
  if (factor === undefined) return null
  const [times, per] = isNewer ? [factor.from, factor.to] : [factor.to, factor.from]
  return format(divide(price * shares * times, 100n * per), 2)
}

const gainDays = [1, 3, 7, 14] as const

/** Returns the expected row of `screener`, or undefined if the security has no bars. */
const listingOf = (security: Security) => {
  const newest = security.bars.at(-1)
  if (newest === undefined) return undefined
  const { price, session } = newest
  const gain = (count: number) => {
    const base = closeBefore(security, dayNumber(session) - count, session)
    return base === undefined || base === 0n ? null : format(percent(price, base))
  }
  const before = security.bars.filter((bar) =>
    bar.session < session && dayNumber(bar.session) >= dayNumber(session) - 60
  )
  const volumes = before.map((bar) => {
    const factor = factorBetween(security, bar.session, session)
    return factor === undefined ? undefined : divide(bar.volume * factor.to, factor.from)
  })
  const known = volumes.filter((volume) => volume !== undefined)
  const mean = known.length < 10 || known.length < volumes.length
    ? null
    : String(divide(known.reduce((sum, volume) => sum + volume, 0n), BigInt(known.length)))
  return [
    tickerOn(security, last),
    format(price),
    capOf(security, newest),
    mean,
    ...gainDays.map(gain),
    String(gapsOf(security).filter((gap) => !gap.includes(" -")).length),
  ].map(String).join(" | ")
}

// ---------------------------------------------------------------------------------------------------------------------
// Random markets
// ---------------------------------------------------------------------------------------------------------------------

/** Split ratios: `from` old shares become `to` new ones. */
const ratios: Choices<readonly [bigint, bigint]> = [[10n, 1n], [1n, 2n], [30n, 1n], [3n, 1n], [1n, 4n]]

/** Returns a random integer from `least` to `most`, inclusive. The two bounds must be less than 17 apart. */
const chooseBetween = (choose: RandomChooser, least: number, most: number) =>
  least + choose([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]) % (most - least + 1)

/**
 * Generates the bars from session `first` to session `end`. The price changes by a few percent in each session, and
 * with each split.
 */
const makeBars = (choose: RandomChooser, splits: ReadonlyArray<ModelSplit>, first: number, end: number) => {
  let price = BigInt(choose([120_000, 1_000_000, 7_654_300]))
  const bars: Array<ModelBar> = []
  for (let session = first; session <= end; session += 1) {
    price = price * BigInt(choose([100, 101, 99, 102, 100, 97, 104, 112])) / 100n
    for (const { from, to } of splits.filter((split) => split.session === session)) price = price * from / to
    // Every session near a split has a bar. If the split is recorded for several days, only bars show which day is
    // right.
    const isNeeded = splits.some((split) => Math.abs(split.session - session) <= 4)
    if (!isNeeded && choose([false, false, false, false, false, true])) continue
    bars.push({ session, price, volume: BigInt(choose([100, 200, 1000, 60_000])) })
  }
  return bars
}

/**
 * Generates a security that uses the given symbols until session `end`. With `hasSplit`, the security has a split if
 * there are enough sessions.
 */
const makeSecurity = (
  choose: RandomChooser,
  uses: ReadonlyArray<Use>,
  end: number,
  hasSplit: boolean,
  cik: string | null,
): Security => {
  const first = uses[0]?.from ?? 0
  const splits = hasSplit && end - first > 12
    ? [chooseBetween(choose, first + 5, end - 5)].map((session): ModelSplit => {
      const [from, to] = choose(ratios)
      return { session, from, to, isContradicted: choose([false, false, false, true]) }
    })
    : []
  const bars = makeBars(choose, splits, first, end)
  // Trading may be halted before a split.
  const isHalted = choose([false, false, false, true])
  const session = chooseBetween(choose, 0, last)
  return {
    uses,
    splits,
    bars: isHalted ? bars.filter((bar) => splits.every((split) => bar.session < split.session)) : bars,
    count: {
      shares: BigInt(choose([1_000_000, 30_000_000, 800_000_000])),
      session,
      dating: choose(
        session < first ? ["reported_date", "filed_at"] : ["reported_date", "filed_at", "filing", "screener"],
      ),
      perReceipt: choose([1n, 1n, 1n, 8n, null]),
    },
    cik,
  }
}

let splitNumber = 0

/**
 * Generates the `split_status` rows for a security's splits. Some rows are repeated, contradict another row, or have
 * another symbol.
 */
const recordSplits = (choose: RandomChooser, security: Security, otherTicker: string | undefined) =>
  security.splits.flatMap(({ from, isContradicted, session, to }) => {
    const record = (ticker: string, day: string, [old, fresh]: readonly [bigint, bigint], filed: string): Row => ({
      id: String(splitNumber++),
      ticker,
      action_type: "split_effective",
      split_from: String(old),
      split_to: String(fresh),
      effective_date: day,
      executed: true,
      filed_at: filed,
      form_type: "8-K",
      last_updated: "2026-03-01 10:00:00",
    })
    const ticker = choose([tickerOn(security, session), otherTicker ?? tickerOn(security, session)])
    const rows = [record(ticker, at(session), [from, to], at(session))]
    if (isContradicted) return [...rows, record(ticker, at(session), [from + 2n, to], at(session))]
    const moved = session + choose([-2, -1, 1, 2])
    // If a split is recorded for several days, only bars show which day is right.
    return security.bars.some((bar) => bar.session >= session) && choose([false, false, true])
      ? [...rows, record(tickerOn(security, moved), at(moved), [from * 2n, to * 2n], at(choose([0, last])))]
      : rows
  })

const makeChange = (old_ticker: string, new_ticker: string, session: number, more: Row = {}): Row => ({
  old_ticker,
  new_ticker,
  effective_date: at(session),
  status: "confirmed",
  cik: null,
  ...more,
})

/** The parts from which every kind of market is built. */
interface MarketParts {
  readonly choose: RandomChooser
  /** Symbols that no other market uses. */
  readonly symbols: readonly [A: string, B: string, C: string]
  readonly cik: string
  readonly otherCik: string
  /** The session in which the symbol changes. */
  readonly moved: number
}

/** Builds a market with a company that never changes its symbol. */
const makePlainMarket = ({ choose, cik, symbols: [A] }: MarketParts): Market => {
  const security = makeSecurity(choose, [{ ticker: A, from: 0 }], last, true, cik)
  return { securities: [security], changes: [], splits: recordSplits(choose, security, undefined) }
}

/**
 * Builds a market with a company that changes its symbol once or twice. The second change may return to the first
 * symbol.
 */
const makeRenamedMarket = ({ choose, cik, moved, symbols: [A, B, C] }: MarketParts, returns: boolean): Market => {
  const again = moved + 4
  const third = returns ? A : choose([B, C])
  const uses = [{ ticker: A, from: 0 }, { ticker: B, from: moved }, { ticker: third, from: again }]
  const security = makeSecurity(choose, third === B ? uses.slice(0, 2) : uses, last, true, cik)
  const known = choose([{ cik }, {}])
  const changes = [makeChange(A, B, moved, known), ...(third === B ? [] : [makeChange(B, third, again, known)])]
  // Vendors list splits under the company's current symbol.
  return { securities: [security], changes, splits: recordSplits(choose, security, third) }
}

/**
 * Builds a market with a company that changes its symbol. Another company takes over the old symbol, or had the new
 * symbol before.
 */
const makeReusedMarket = (
  { choose, cik, moved, otherCik, symbols: [A, B] }: MarketParts,
  isOldSymbolReused: boolean,
): Market => {
  const security = makeSecurity(choose, [{ ticker: A, from: 0 }, { ticker: B, from: moved }], last, false, cik)
  const other = isOldSymbolReused
    ? makeSecurity(choose, [{ ticker: A, from: moved + 1 }], last, true, otherCik)
    : makeSecurity(choose, [{ ticker: B, from: 0 }], moved - 1, true, otherCik)
  return {
    securities: [security, other],
    changes: [makeChange(A, B, moved, { cik })],
    splits: recordSplits(choose, other, undefined),
  }
}

/** Builds a market with a symbol change that is not confirmed, so the two symbols belong to two securities. */
const makeEstimatedMarket = ({ choose, cik, moved, symbols: [A, B] }: MarketParts): Market => {
  const securities = [
    makeSecurity(choose, [{ ticker: A, from: 0 }], moved - 1, true, cik),
    makeSecurity(choose, [{ ticker: B, from: moved }], last, true, cik),
  ]
  const status = choose(["estimated", "reverted", "blocked"])
  return {
    securities,
    changes: [makeChange(A, B, moved, { status })],
    splits: securities.flatMap((security) => recordSplits(choose, security, undefined)),
  }
}

/**
 * Builds a market in which one company gives up symbol B and another company changes to it. The lineage is ambiguous,
 * so each symbol counts as a separate security.
 */
const makeAmbiguousMarket = ({ choose, cik, moved, otherCik, symbols: [A, B, C] }: MarketParts): Market => {
  const givenUp = moved - 3
  const securities = [
    makeSecurity(choose, [{ ticker: B, from: 0 }], givenUp - 1, false, otherCik),
    makeSecurity(choose, [{ ticker: C, from: givenUp }], last, true, otherCik),
    makeSecurity(choose, [{ ticker: A, from: 0 }], moved - 1, false, cik),
    makeSecurity(choose, [{ ticker: B, from: moved }], last, true, cik),
  ]
  return {
    securities,
    changes: [makeChange(B, C, givenUp, { cik: otherCik }), makeChange(A, B, moved, { cik })],
    splits: securities.flatMap((security) => recordSplits(choose, security, undefined)),
  }
}

/** Generates a market of a random kind. `number` is unique, so no two markets share symbols or CIKs. */
const makeMarket = (choose: RandomChooser, number: number): Market => {
  const formatCik = (value: number) => String(value).padStart(10, "0")
  const parts: MarketParts = {
    choose,
    symbols: [`S${number}A`, `S${number}B`, `S${number}C`],
    cik: formatCik(number * 2),
    otherCik: formatCik(number * 2 + 1),
    moved: chooseBetween(choose, 9, 17),
  }
  const kind = choose(["plain", "renamed", "renamed", "returned", "reused", "used before", "ambiguous", "estimated"])
  if (kind === "plain") return makePlainMarket(parts)
  if (kind === "renamed" || kind === "returned") return makeRenamedMarket(parts, kind === "returned")
  if (kind === "reused" || kind === "used before") return makeReusedMarket(parts, kind === "reused")
  return kind === "estimated" ? makeEstimatedMarket(parts) : makeAmbiguousMarket(parts)
}

// ---------------------------------------------------------------------------------------------------------------------
// Comparison of the stored rows with the model
// ---------------------------------------------------------------------------------------------------------------------

/** Inserts rows in batches, which keeps each statement below the limit on parameters. */
const insertMany = (table: string, rows: ReadonlyArray<Row>) => {
  const batchSize = 500
  const starts = Array.from({ length: Math.ceil(rows.length / batchSize) }, (_, index) => index * batchSize)
  return Effect.forEach(starts, (start) => Service.insertRows(table, ...rows.slice(start, start + batchSize)), {
    discard: true,
  })
}

/** Returns the securities that use a symbol in the last session. Rows about the present belong to these securities. */
const findPresent = (securities: ReadonlyArray<Security>, changes: ReadonlyArray<Row>) =>
  securities.filter((security) => {
    const ticker = tickerOn(security, last)
    // A symbol that was given up and never used again belongs to no security.
    const wasGivenUp = changes.some(({ old_ticker, status }) => old_ticker === ticker && status === "confirmed") &&
      security.uses.length === 1 && (security.bars.at(-1)?.session ?? 0) < last - 6
    return !wasGivenUp &&
      !securities.some((other) => tickerOn(other, last) === ticker && startOf(other) > startOf(security))
  })

/** Compares two sets of unique rows. A failure shows only the rows that differ. */
const assertSame = (found: ReadonlyArray<string>, expected: ReadonlyArray<string>, seed: number) => {
  const [all, wanted] = [new Set(found), new Set(expected)]
  assert.deepStrictEqual(
    { added: found.filter((row) => !wanted.has(row)), missing: expected.filter((row) => !all.has(row)) },
    { added: [], missing: [] },
    `seed ${seed}`,
  )
}

/** A time before the first session. */
const longAgo = "2025-01-01 10:00:00"

/** Generates markets until they contain at least `size` securities. */
const makeMarkets = (choose: RandomChooser, size: number): ReadonlyArray<Market> => {
  const markets: Array<Market> = []
  let securityCount = 0
  while (securityCount < size) {
    const market = makeMarket(choose, markets.length + 1)
    markets.push(market)
    securityCount += market.securities.length
  }
  return markets
}

/** A filing with a share count for the day of one of a security's bars. The endpoint computes a market cap from it. */
interface CapFiling {
  readonly security: Security
  readonly bar: ModelBar
}

const chooseCapFilings = (choose: RandomChooser, present: ReadonlyArray<Security>): ReadonlyArray<CapFiling> =>
  present.filter(({ bars }) => bars.length > 0).map((security) => {
    const { bars } = security
    const bar = choose([bars[0], bars.at(-1), bars[Math.floor(bars.length / 2)]])
    return { security, bar: bar ?? assert.fail() }
  })

/** The share count in every `CapFiling`. No other row has this count, so requests use it to select these filings. */
const capFilingShares = 1000

/** Returns effects that insert the listings, share counts and filings of the present securities. */
const insertPresentRows = (present: ReadonlyArray<Security>, capFilings: ReadonlyArray<CapFiling>) => {
  const listings = present.map((security) => ({
    ticker: tickerOn(security, last),
    is_adr: security.count.perReceipt !== 1n,
    outstanding: String(security.count.shares),
    last_updated: security.count.dating === "screener" ? `${at(security.count.session)} 10:00:00` : longAgo,
  }))
  const counts = present.map(({ count: { dating, perReceipt, session } }, index) => ({
    ...listings[index],
    reported_date: dating === "reported_date" ? at(session) : null,
    filed_at: dating === "filed_at" ? at(session) : null,
    ads_ratio: perReceipt === null ? null : String(perReceipt),
    last_updated: dating === "screener" ? `${at(last)} 10:00:00` : longAgo,
  }))
  const countFilings = present.filter(({ count }) => count.dating === "filing").map((security) => ({
    ticker: tickerOn(security, security.count.session),
    cik: security.cik,
    filed_at: at(security.count.session),
    outstanding_shares: String(security.count.shares),
    is_adr: false,
    last_updated: "2026-06-01 10:00:00",
  }))
  const capFilingRows = capFilings.map(({ bar, security }) => ({
    ticker: tickerOn(security, last),
    cik: security.cik,
    filed_at: at(last),
    reported_date: at(bar.session),
    outstanding_shares: String(capFilingShares),
    is_adr: false,
    last_updated: "2026-06-01 10:00:00",
  }))
  return [
    insertMany("screener", listings.map((row) => ({ ...row, num_gaps: 0, num_runners: 0, pending_s1: false }))),
    insertMany("float_outstanding", counts),
    insertMany("historical_float_pro", capFilingRows),
    insertMany("historical_float_pro", countFilings),
  ]
}

/** Returns the bars of each day on which at least one security traded. */
const listDayBars = (markets: ReadonlyArray<Market>): ReadonlyArray<ReadonlyArray<DayBar>> => {
  const securities = markets.flatMap((market) => market.securities)
  return days.map((date, session) =>
    securities.flatMap((security) =>
      security.bars.filter((bar) => bar.session === session).map((
        { price, volume },
      ): DayBar => [tickerOn(security, session), date, Number(price) / 10_000, Number(volume)])
    )
  ).filter((bars) => bars.length > 0)
}

/** Compares the stored gaps with the model. Returns the number of expected gaps. */
const compareGaps = Effect.fnUntraced(function* (markets: ReadonlyArray<Market>, seed: number) {
  const sql = yield* SqlClient.SqlClient
  const stored = yield* sql<{ readonly gap: string }>`
    select concat_ws(' ', ticker, date, previous_day_close, gap_percentage) as gap from gap_stats`
  const expected = markets.flatMap(({ securities }) => securities.flatMap(gapsOf))
  assertSame(stored.map(({ gap }) => gap), expected, seed)
  return expected.length
})

/**
 * Compares the rows of `screener` with the model, and checks that `float_outstanding` has the same market
 * capitalizations.
 */
const compareListings = Effect.fnUntraced(function* (present: ReadonlyArray<Security>, seed: number) {
  const sql = yield* SqlClient.SqlClient
  const listed = yield* sql<{ readonly row: string }>`
    select array_to_string(array[ticker, price::text, market_cap::text, average_volume::text, gain_1_day::text,
      gain_3_day::text, gain_7_day::text, gain_14_day::text, num_gaps::text], ' | ', 'null') as row
    from screener where price is not null`
  assertSame(listed.map(({ row }) => row), present.flatMap((security) => listingOf(security) ?? []), seed)
  const differing = yield* sql`
    select ticker from screener join float_outstanding as current using (ticker)
    where price is not null and screener.market_cap is distinct from current.market_cap`
  assert.deepStrictEqual(differing, [], `seed ${seed}`)
})

/** Compares the market capitalizations of filings in `/v1/historical-float-pro` with the model. */
const compareFilings = Effect.fnUntraced(function* (capFilings: ReadonlyArray<CapFiling>, seed: number) {
  const maxTickers = 100
  const tickers = Array.from(new Set(capFilings.map(({ security }) => tickerOn(security, last))))
  for (let first = 0; first < tickers.length; first += maxTickers) {
    const some = tickers.slice(first, first + maxTickers)
    const query = `ticker=${some.join(",")}&max_outstanding_shares=${capFilingShares}&limit=${maxTickers}`
    const rows = yield* requestRows(query)
    const caps = rows.map((row) => [Service.valueAt(row, "ticker"), Service.valueAt(row, "market_cap")].join(" "))
    const expected = capFilings.filter(({ security }) => some.includes(tickerOn(security, last))).map(
      ({ bar, security }) => `${tickerOn(security, last)} ${Number(bar.price) * capFilingShares / 10_000}`,
    )
    assert.deepStrictEqual(caps.toSorted(), expected.toSorted(), `seed ${seed}`)
  }
})

/**
 * Stores and ingests random markets in random order, and compares the results with the model. Returns the number of
 * gaps.
 */
const playMarkets = Effect.fnUntraced(function* (seed: number, size: number) {
  const choose = makeRandomChooser(seed)
  const markets = makeMarkets(choose, size)
  yield* emptyTables
  const present = markets.flatMap(({ changes, securities }) => findPresent(securities, changes))
  const capFilings = chooseCapFilings(choose, present)
  const corrections = shuffle(choose, [
    insertMany("ticker_changes", markets.flatMap(({ changes }) => changes)),
    insertMany("split_status", markets.flatMap(({ splits }) => splits)),
  ])
  const loads = shuffle(choose, insertPresentRows(present, capFilings))
  const files = shuffle(choose, listDayBars(markets))
  // The first ingest after the changes and splits applies them to the earlier prices. It may be an ingest without a
  // file.
  const before = choose([0, Math.floor(files.length / 2), files.length])
  for (const load of loads) yield* load
  for (const bars of files.slice(0, before)) yield* ingestBars(...bars)
  for (const load of corrections) yield* load
  for (const bars of files.slice(before)) yield* ingestBars(...bars)
  if (before === files.length) yield* ingestCorrections

  const gapCount = yield* compareGaps(markets, seed)
  yield* compareListings(present, seed)
  yield* compareFilings(capFilings, seed)
  return gapCount
})

const TestLayer = Layer.merge(Service.layer, NodeServices.layer)

layer(TestLayer, { excludeTestServices: true, timeout: "7200 seconds" })("Random securities", (it) => {
  it.effect(
    "have their own prices, market caps and splits, whichever symbols they used (D32, D44, D45)",
    () =>
      Effect.gen(function* () {
        const maxSize = 500
        const total = Number(process.env["SECURITIES"] ?? getInputCount(maxSize))
        const size = Math.min(total, maxSize)
        let gaps = 0
        for (let seed = 1; seed <= Math.ceil(total / size); seed += 1) gaps += yield* playMarkets(seed, size)
        assert.isAbove(gaps, 0)
      }),
    7_200_000,
  )
})
