/**
 * Random securities over time (D44, D45): renames, symbols that other companies use before or afterwards, ambiguous
 * changes, and splits that are recorded twice, under another symbol or with contradicting ratios. A plain model of each
 * security says what `ingest prices` and the endpoint must return, in whichever order files and rows come.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import process from "node:process"
import * as ListClients from "../../support/ListClients.ts"
import { type Choices, makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import { type DayBar, emptyTables, ingestBars, ingestCorrections, listDays } from "./DayBars.ts"

// @module-tag slow

const { requestRows } = ListClients.makeListClient("/v1/historical-float-pro")

const days = listDays("2026-04-06", 26)
const at = (index: number) => days[index] ?? assert.fail(`day ${index}`)
const last = days.length - 1

// ---------------------------------------------------------------------------------------------------------------------
// The model: a security, its symbols, its bars and its splits
// ---------------------------------------------------------------------------------------------------------------------

/** The symbol from a session on. */
interface Use {
  readonly from: number
  readonly ticker: string
}

interface ModelSplit {
  readonly session: number
  readonly from: bigint
  readonly to: bigint
  readonly isContradicted: boolean
}

/** Prices are in ten-thousandths of a dollar. */
interface ModelBar {
  readonly session: number
  readonly price: bigint
  readonly volume: bigint
}

/** Which row has the date of a count. */
type Dating = "reported_date" | "filed_at" | "filing" | "screener"

interface ModelCount {
  readonly shares: bigint
  readonly session: number
  readonly dating: Dating
  /** 1 if the shares themselves are listed. */
  readonly perReceipt: bigint | null
}

interface Security {
  /** Oldest first. */
  readonly uses: ReadonlyArray<Use>
  readonly splits: ReadonlyArray<ModelSplit>
  readonly bars: ReadonlyArray<ModelBar>
  readonly count: ModelCount
  readonly cik: string | null
}

type Row = Readonly<Record<string, unknown>>

/** What one company, and those that share symbols with it, store. */
interface Market {
  readonly securities: ReadonlyArray<Security>
  readonly changes: ReadonlyArray<Row>
  readonly splits: ReadonlyArray<Row>
}

/** The session from which on the security has had its newest symbol. */
const startOf = ({ uses }: Security) => uses.at(-1)?.from ?? 0

const tickerOn = ({ uses }: Security, session: number) =>
  uses.findLast(({ from }) => from <= session)?.ticker ?? assert.fail("no symbol")

const divide = (numerator: bigint, denominator: bigint) => (2n * numerator + denominator) / (2n * denominator)

const percent = (value: bigint, base: bigint) => {
  const scaled = (value - base) * 1_000_000n
  return scaled < 0n ? -divide(-scaled, base) : divide(scaled, base)
}

const format = (value: bigint, decimals = 4) => {
  const digits = String(value < 0n ? -value : value).padStart(decimals + 1, "0")
  return `${value < 0n ? "-" : ""}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** Multiplies by the ratios of the splits after a session. Undefined across a contradicted one. */
const factorBetween = ({ splits }: Security, after: number, until: number) => {
  const between = splits.filter(({ session }) => session > after && session <= until)
  if (between.some(({ isContradicted }) => isContradicted)) return undefined
  return {
    from: between.reduce((product, { from }) => product * from, 1n),
    to: between.reduce((product, { to }) => product * to, 1n),
  }
}

const dayNumber = (session: number) => Date.parse(at(session)) / 86_400_000

/** The last close at most 30 days before a day, in shares of a session. */
const closeBefore = (security: Security, day: number, session: number) => {
  const bar = security.bars.findLast((other) => dayNumber(other.session) <= day)
  if (bar === undefined || dayNumber(bar.session) <= day - 30) return undefined
  const factor = factorBetween(security, bar.session, session)
  return factor === undefined ? undefined : divide(bar.price * factor.from, factor.to)
}

const gapsOf = (security: Security) =>
  security.bars.flatMap(({ price, session }) => {
    const previous = closeBefore(security, dayNumber(session) - 1, session)
    if (previous === undefined || previous === 0n) return []
    const gap = percent(price, previous)
    return gap < 30_000n && gap > -30_000n
      ? []
      : [`${tickerOn(security, session)} ${at(session)} ${format(previous)} ${format(gap)}`]
  })

/** The session of the row that has the number of shares per receipt. -1: a day before all sessions. */
const ratioSession = ({ dating, session }: ModelCount) =>
  dating === "filing" ? -1 : dating === "screener" ? last : session

/** The newest close, in ten-thousandths of a dollar, times the count on its day. Null if that is unknown. */
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

/** The expected row of `screener`; undefined if the security has no bars. */
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

const ratios: Choices<readonly [bigint, bigint]> = [[10n, 1n], [1n, 2n], [30n, 1n], [3n, 1n], [1n, 4n]]

const chooseBetween = (choose: RandomChooser, least: number, most: number) =>
  least + choose([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]) % (most - least + 1)

const makeBars = (choose: RandomChooser, splits: ReadonlyArray<ModelSplit>, first: number, end: number) => {
  let price = BigInt(choose([120_000, 1_000_000, 7_654_300]))
  const bars: Array<ModelBar> = []
  for (let session = first; session <= end; session += 1) {
    price = price * BigInt(choose([100, 101, 99, 102, 100, 97, 104, 112])) / 100n
    for (const { from, to } of splits.filter((split) => split.session === session)) price = price * from / to
    // Sessions around splits have bars, which show the day of the split.
    const isNeeded = splits.some((split) => Math.abs(split.session - session) <= 4)
    if (!isNeeded && choose([false, false, false, false, false, true])) continue
    bars.push({ session, price, volume: BigInt(choose([100, 200, 1000, 60_000])) })
  }
  return bars
}

/** Makes a security with the symbols that it used. `splitSessions` are those in which it may have a split. */
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

/** The rows of `split_status` for a split: also repetitions, contradictions, and other symbols of the security. */
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
    // Only bars show which one of several days is right.
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

const makeMarket = (choose: RandomChooser, number: number): Market => {
  const [A, B, C] = ["A", "B", "C"].map((letter) => `S${number}${letter}`)
  if (A === undefined || B === undefined || C === undefined) return assert.fail()
  const [cik, otherCik] = [number * 2, number * 2 + 1].map((value) => String(value).padStart(10, "0"))
  if (cik === undefined || otherCik === undefined) return assert.fail()
  const moved = chooseBetween(choose, 9, 17)
  const kind = choose(["plain", "renamed", "renamed", "returned", "reused", "used before", "ambiguous", "estimated"])
  const withSplits = (security: Security, otherTicker?: string) => recordSplits(choose, security, otherTicker)
  if (kind === "plain") {
    const security = makeSecurity(choose, [{ ticker: A, from: 0 }], last, true, cik)
    return { securities: [security], changes: [], splits: withSplits(security) }
  }
  if (kind === "renamed" || kind === "returned") {
    const again = moved + 4
    const third = kind === "returned" ? A : choose([B, C])
    const uses = [{ ticker: A, from: 0 }, { ticker: B, from: moved }, { ticker: third, from: again }]
    const security = makeSecurity(choose, third === B ? uses.slice(0, 2) : uses, last, true, cik)
    const known = choose([{ cik }, {}])
    const changes = [makeChange(A, B, moved, known), ...(third === B ? [] : [makeChange(B, third, again, known)])]
    // Vendors list splits under the symbol of today.
    return { securities: [security], changes, splits: withSplits(security, third) }
  }
  if (kind === "reused" || kind === "used before") {
    const security = makeSecurity(choose, [{ ticker: A, from: 0 }, { ticker: B, from: moved }], last, false, cik)
    const other = kind === "reused"
      ? makeSecurity(choose, [{ ticker: A, from: moved + 1 }], last, true, otherCik)
      : makeSecurity(choose, [{ ticker: B, from: 0 }], moved - 1, true, otherCik)
    return {
      securities: [security, other],
      changes: [makeChange(A, B, moved, { cik })],
      splits: withSplits(other),
    }
  }
  if (kind === "estimated") {
    const securities = [
      makeSecurity(choose, [{ ticker: A, from: 0 }], moved - 1, true, cik),
      makeSecurity(choose, [{ ticker: B, from: moved }], last, true, cik),
    ]
    const status = choose(["estimated", "reverted", "blocked"])
    return {
      securities,
      changes: [makeChange(A, B, moved, { status })],
      splits: securities.flatMap((security) => withSplits(security)),
    }
  }
  // One company gives up B, and another one begins to use it: nothing is known to continue.
  const given = moved - 3
  const securities = [
    makeSecurity(choose, [{ ticker: B, from: 0 }], given - 1, false, otherCik),
    makeSecurity(choose, [{ ticker: C, from: given }], last, true, otherCik),
    makeSecurity(choose, [{ ticker: A, from: 0 }], moved - 1, false, cik),
    makeSecurity(choose, [{ ticker: B, from: moved }], last, true, cik),
  ]
  return {
    securities,
    changes: [makeChange(B, C, given, { cik: otherCik }), makeChange(A, B, moved, { cik })],
    splits: securities.flatMap((security) => withSplits(security)),
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The comparison
// ---------------------------------------------------------------------------------------------------------------------

const shuffle = <A>(choose: RandomChooser, values: ReadonlyArray<A>) =>
  values.map((value) => ({ value, key: choose([1, 2, 3, 4, 5, 6, 7, 8, 9]) * 10 + choose([1, 2, 3, 4, 5, 6, 7]) }))
    .toSorted((one, other) => one.key - other.key).map(({ value }) => value)

const insertMany = (table: string, rows: ReadonlyArray<Row>) =>
  Effect.forEach(
    Array.from({ length: Math.ceil(rows.length / 500) }, (_, index) => rows.slice(index * 500, index * 500 + 500)),
    (some) => Service.insertRows(table, ...some),
    { discard: true },
  )

/** Securities that use a symbol now, so that rows of the present are about them. */
const findPresent = (securities: ReadonlyArray<Security>, changes: ReadonlyArray<Row>) =>
  securities.filter((security) => {
    const ticker = tickerOn(security, last)
    // A symbol that was given up, and that nobody used afterwards, belongs to nobody.
    const wasGivenUp = changes.some(({ old_ticker, status }) => old_ticker === ticker && status === "confirmed") &&
      security.uses.length === 1 && (security.bars.at(-1)?.session ?? 0) < last - 6
    return !wasGivenUp &&
      !securities.some((other) => tickerOn(other, last) === ticker && startOf(other) > startOf(security))
  })

/** Names only the rows that differ. Each row is unique. */
const assertSame = (found: ReadonlyArray<string>, expected: ReadonlyArray<string>, seed: number) => {
  const [all, wanted] = [new Set(found), new Set(expected)]
  assert.deepStrictEqual(
    { added: found.filter((row) => !wanted.has(row)), missing: expected.filter((row) => !all.has(row)) },
    { added: [], missing: [] },
    `seed ${seed}`,
  )
}

/** Before all sessions. */
const longAgo = "2025-01-01 10:00:00"

const playMarkets = Effect.fnUntraced(function* (seed: number, size: number) {
  const sql = yield* SqlClient.SqlClient
  const choose = makeRandomChooser(seed)
  const markets: Array<Market> = []
  let count = 0
  while (count < size) {
    const market = makeMarket(choose, markets.length + 1)
    markets.push(market)
    count += market.securities.length
  }
  yield* emptyTables
  const present = markets.flatMap(({ changes, securities }) => findPresent(securities, changes))
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
  const filings = present.filter(({ bars }) => bars.length > 0).map((security) => {
    const bar = choose([security.bars[0], security.bars.at(-1), security.bars[Math.floor(security.bars.length / 2)]])
    return { security, bar: bar ?? assert.fail() }
  })
  const corrections = shuffle(choose, [
    insertMany("ticker_changes", markets.flatMap(({ changes }) => changes)),
    insertMany("split_status", markets.flatMap(({ splits }) => splits)),
  ])
  const loads = shuffle(choose, [
    insertMany("screener", listings.map((row) => ({ ...row, num_gaps: 0, num_runners: 0, pending_s1: false }))),
    insertMany("float_outstanding", counts),
    insertMany(
      "historical_float_pro",
      filings.map(({ bar, security }) => ({
        ticker: tickerOn(security, last),
        cik: security.cik,
        filed_at: at(last),
        reported_date: at(bar.session),
        outstanding_shares: "1000",
        is_adr: false,
        last_updated: "2026-06-01 10:00:00",
      })),
    ),
    insertMany("historical_float_pro", countFilings),
  ])
  const files = days.map((date, session) =>
    markets.flatMap(({ securities }) =>
      securities.flatMap((security) =>
        security.bars.filter((bar) => bar.session === session).map((
          { price, volume },
        ): DayBar => [tickerOn(security, session), date, Number(price) / 10_000, Number(volume)])
      )
    )
  ).filter((bars) => bars.length > 0)
  const shuffled = shuffle(choose, files)
  // Changes and splits count for the prices before them from the next ingest on, which may be one without a file.
  const before = choose([0, Math.floor(files.length / 2), files.length])
  for (const load of loads) yield* load
  for (const bars of shuffled.slice(0, before)) yield* ingestBars(...bars)
  for (const load of corrections) yield* load
  for (const bars of shuffled.slice(before)) yield* ingestBars(...bars)
  if (before === files.length) yield* ingestCorrections

  const stored = yield* sql<{ readonly gap: string }>`
    select concat_ws(' ', ticker, date, previous_day_close, gap_percentage) as gap from gap_stats`
  const expectedGaps = markets.flatMap(({ securities }) => securities.flatMap(gapsOf))
  assertSame(stored.map(({ gap }) => gap), expectedGaps, seed)

  const listed = yield* sql<{ readonly row: string }>`
    select array_to_string(array[ticker, price::text, market_cap::text, average_volume::text, gain_1_day::text,
      gain_3_day::text, gain_7_day::text, gain_14_day::text, num_gaps::text], ' | ', 'null') as row
    from screener where price is not null`
  const expectedRows = present.flatMap((security) => listingOf(security) ?? [])
  assertSame(listed.map(({ row }) => row), expectedRows, seed)

  const differing = yield* sql`
    select ticker from screener join float_outstanding as current using (ticker)
    where price is not null and screener.market_cap is distinct from current.market_cap`
  assert.deepStrictEqual(differing, [], `seed ${seed}`)

  const tickers = Array.from(new Set(filings.map(({ security }) => tickerOn(security, last))))
  for (let first = 0; first < tickers.length; first += 100) {
    const some = tickers.slice(first, first + 100)
    const rows = yield* requestRows(`ticker=${some.join(",")}&max_outstanding_shares=1000&limit=100`)
    const caps = rows.map((row) => [Service.valueAt(row, "ticker"), Service.valueAt(row, "market_cap")].join(" "))
    const expected = filings.filter(({ security }) => some.includes(tickerOn(security, last))).map(
      ({ bar, security }) => `${tickerOn(security, last)} ${Number(bar.price) / 10}`,
    )
    assert.deepStrictEqual(caps.toSorted(), expected.toSorted(), `seed ${seed}`)
  }
  return expectedGaps.length
})

const TestLayer = Layer.merge(Service.layer, NodeServices.layer)

layer(TestLayer, { excludeTestServices: true, timeout: "7200 seconds" })("Random securities", (it) => {
  it.effect(
    "have the prices, market caps and splits of their own, whatever symbols they used (D32, D44, D45)",
    () =>
      Effect.gen(function* () {
        const total = Number(process.env["SECURITIES"] ?? getInputCount(500))
        const size = Math.min(total, 500)
        let gaps = 0
        for (let seed = 1; seed <= Math.ceil(total / size); seed += 1) gaps += yield* playMarkets(seed, size)
        assert.isAbove(gaps, 0)
      }),
    7_200_000,
  )
})
