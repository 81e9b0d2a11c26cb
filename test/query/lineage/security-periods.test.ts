/**
 * Tests that the SQL functions `security_periods` and `find_row_periods` link a company's symbols in the same way as
 * the lineage resolution in TypeScript (D20, D21, D32, D45).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import {
  type LineageChain,
  resolveLineageOfEvents,
  type TickerChangeEvent,
  toCompanyLineage,
} from "../../../src/query/lineage/LineageRules.ts"
import { TickerChangeIndex } from "../../../src/query/lineage/TickerChangeIndex.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

// @module-tag waiting

const today = "2026-01-01"
const symbols = ["A", "B", "C", "D", "E", "F", "G"] as const

/** A row of `security_periods`. */
interface Period {
  readonly security: string
  readonly ticker: string
  readonly starts: string
  readonly ends: string
  readonly is_linked: boolean
  readonly is_ambiguous: boolean
}

/** Creates random ticker changes. Some form a chain, and some fork, form a cycle or belong to several companies. */
const makeChanges = (seed: number) => {
  const choose = makeRandomChooser(seed)
  const count = choose([0, 1, 2, 3, 4, 6, 9, 12, 13, 300])
  // Some histories are chains on purpose, because random changes rarely form one.
  const isChain = choose([true, true, false])
  let last: string = choose(symbols)
  const changes = Array.from({ length: count }, (_, index) => {
    const next = choose(symbols)
    const event = {
      old_ticker: isChain && choose([true, true, true, true, true, false]) ? last : choose(symbols),
      new_ticker: isChain && count > 7 ? `N${index}` : next,
      effective_date: new Date(Date.UTC(2024, isChain ? index : choose([1, 2, 3, 4, 5]), 1)).toISOString().slice(0, 10),
      cik: isChain ? choose([null, "0000000001"]) : choose([null, "0000000001", "0000000002"]),
      company_name: null,
    }
    last = event.new_ticker
    return event
  })
  // The table contains each change only once.
  return Array.from(new Map(changes.map((change) => [JSON.stringify(change), change])).values())
    .filter(({ new_ticker, old_ticker }) => new_ticker !== old_ticker)
}

/** A row of `find_row_periods`. */
interface RowPeriod {
  readonly symbol: string
  readonly cik: string | null
  readonly rule: string
  readonly since: string
  readonly until: string
  readonly ticker: string
  readonly starts: string
  readonly ends: string
}

const isInfinite = (day: string) => day.includes("infinity")
const isSince = (day: string, first: string) => isInfinite(first) || day >= first
const isBefore = (day: string, end: string) => isInfinite(end) || day < end

/** A row with closing prices. `isTraded` shows whether its symbol has a closing price on a date near `day`. */
interface PricedRow {
  readonly ticker: string
  readonly company: string | null
  readonly day: string
  readonly isTraded: boolean
}

/**
 * Selects the periods that `find_row_periods` returned for a row. The closing prices in these periods belong to the
 * row's security.
 */
const selectRowPeriods = (rows: ReadonlyArray<RowPeriod>, { company, day, isTraded, ticker }: PricedRow) =>
  Array.from(
    new Set(
      rows.filter(({ cik, rule, since, symbol, until }) => {
        if (symbol !== ticker || !isSince(day, since) || !isBefore(day, until)) return false
        if (rule === "same") return cik === company
        if (rule === "other") return company !== null && cik !== company
        if (rule === "unknown") return cik === null || company === null
        if (rule === "untraded") return !isTraded && (cik === null || company === null)
        return cik === null || company === null || cik === company
      }).map((row) => [row.ticker, row.starts, row.ends].join(" ")),
    ),
  ).toSorted()

const isSameChange = (one: TickerChangeEvent, other: TickerChangeEvent) =>
  one.old_ticker === other.old_ticker && one.new_ticker === other.new_ticker &&
  one.effective_date === other.effective_date

/** Computes the same periods from the events in the symbol's component, following D32. */
const expectRowPeriods = (
  events: ReadonlyArray<TickerChangeEvent>,
  { company, day, isTraded, ticker: symbol }: PricedRow,
) => {
  const periodsOf = (chain: LineageChain) =>
    toCompanyLineage(chain).periods.map(({ from = "-infinity", ticker, until = "infinity" }) => ({
      ticker,
      from,
      until,
    }))
  const touching = events.filter(({ new_ticker, old_ticker }) => [new_ticker, old_ticker].includes(symbol))
  const cuts = ["-infinity", ...new Set(touching.map(({ effective_date }) => effective_date).toSorted())]
  const own = cuts.map((from, index) => ({ ticker: symbol, from, until: cuts[index + 1] ?? "infinity" }))
  const find = () => {
    const lineage = resolveLineageOfEvents(events)
    if (Result.isSuccess(lineage)) {
      const chain = lineage.success
      if (chain === undefined) return []
      const linkedPeriods = periodsOf(chain).filter(({ ticker }) => ticker === symbol)
      const isGivenUp = linkedPeriods.every(({ until }) => !isBefore(day, until))
      const isUsed = linkedPeriods.some(({ from, until }) => isSince(day, from) && isBefore(day, until))
      const isUnknown = chain.cik === null || company === null
      if (chain.cik === company && !isUnknown || isUnknown && !isGivenUp && (isUsed || !isTraded)) {
        return periodsOf(chain)
      }
      // Another company used the symbol before this company got it.
      if (isUnknown && !isGivenUp) return []
      const linked = new Set(linkedPeriods.map(({ from }) => from))
      return own.filter(({ from, until }) => !linked.has(from) && isSince(day, from) && isBefore(day, until))
    }
    // Each issuer's events must form a separate chain, and all events must have an issuer.
    const known = events.filter((event) =>
      event.cik !== null || !events.some((other) => other.cik !== null && isSameChange(event, other))
    )
    const chainOf = (issuer: string | null, ticker: string) =>
      resolveLineageOfEvents(
        TickerChangeIndex.of(known.filter(({ cik }) => cik === issuer)).findComponent(ticker, today, 1000),
      )
    const areChains = known.every(({ cik, old_ticker }) => cik !== null && Result.isSuccess(chainOf(cik, old_ticker)))
    const chain = areChains && company !== null ? Result.getOrUndefined(chainOf(company, symbol)) : undefined
    if (chain !== undefined) {
      const others = events.filter(({ cik }) => cik !== company)
      return periodsOf(chain).map(({ from, ticker, until }) => {
        // Another issuer used the symbol until the day on which it gave the symbol up, or from the day on which it took
        // the symbol.
        const givenUp = others.filter((event) => event.old_ticker === ticker && isBefore(event.effective_date, until))
        const taken = others.filter((event) => event.new_ticker === ticker && isSince(event.effective_date, from))
        return {
          ticker,
          from: [from, ...givenUp.map((event) => event.effective_date)].toSorted().at(-1) ?? from,
          until: [until, ...taken.map((event) => event.effective_date)].toSorted()[0] ?? until,
        }
      })
    }
    const newest = own.at(-1)
    const arrivals = events.filter((event) => event.new_ticker === symbol && event.effective_date === newest?.from)
    const ciks = new Set(arrivals.flatMap(({ cik }) => cik ?? []))
    const isOne = new Set(arrivals.map(({ old_ticker }) => old_ticker)).size === 1 && ciks.size < 2
    const isOwn = company === null || ciks.size === 0 || ciks.has(company)
    return newest !== undefined && isOne && isOwn && isSince(day, newest.from) ? [newest] : []
  }
  return find().map(({ from, ticker, until }) => [ticker, from, until].join(" ")).toSorted()
}

layer(Service.migratedDatabaseLayer, { excludeTestServices: true })("security_periods", (it) => {
  it.effect(
    "links the symbols of a company exactly where its lineage is a chain, and divides all others (D21, D45)",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        let [chainCount, conflictCount] = [0, 0]
        for (let seed = 1; seed <= getInputCount(1000); seed += 1) {
          const changes = makeChanges(seed)
          yield* sql`delete from ticker_changes`
          const stored = changes.map((change) => ({ ...change, status: "confirmed" }))
          yield* Service.insertRows("ticker_changes", ...stored)
          const rows = yield* sql<Period>`
            select security, ticker, starts::text, ends::text, is_linked, is_ambiguous
            from security_periods(${symbols}::text[], ${today})
          `
          const index = TickerChangeIndex.of(changes)
          for (const ticker of symbols) {
            const message = `seed ${seed}, ${ticker}`
            const events = index.findComponent(ticker, today, 1000)
            const own = rows.filter((row) => row.ticker === ticker).toSorted((a, b) => a.ends.localeCompare(b.ends))
            const days = new Set(
              events.flatMap(({ effective_date, new_ticker, old_ticker }) =>
                [new_ticker, old_ticker].includes(ticker) ? [effective_date] : []
              ),
            )
            const cuts = ["-infinity", ...Array.from(days).toSorted()]
            assert.deepStrictEqual(own.map(({ starts }) => starts), cuts, message)
            assert.deepStrictEqual(own.map(({ ends }) => ends), [...cuts.slice(1), "infinity"], message)
            const lineage = resolveLineageOfEvents(events)
            assert.strictEqual(own.every((row) => row.is_ambiguous), Result.isFailure(lineage), message)
            const chain = Result.isSuccess(lineage) ? lineage.success : undefined
            const linked = rows.filter((row) => row.is_linked && own.some((period) => period.security === row.security))
            if (chain === undefined) {
              conflictCount += Result.isFailure(lineage) ? 1 : 0
              assert.lengthOf(linked, 0, message)
              assert.strictEqual(new Set(own.map(({ security }) => security)).size, own.length, message)
              continue
            }
            chainCount += 1
            const expected = toCompanyLineage(chain).periods.map(({ from = "-infinity", ticker, until = "infinity" }) =>
              [ticker, from, until].join(" ")
            )
            assert.sameMembers(
              linked.map(({ ends, starts, ticker }) => [ticker, starts, ends].join(" ")),
              expected,
              message,
            )
            assert.strictEqual(new Set(linked.map(({ security }) => security)).size, 1, message)
          }
          const unlinked = rows.filter((row) => !row.is_linked).map(({ security }) => security)
          assert.strictEqual(new Set(unlinked).size, unlinked.length, `seed ${seed}`)
        }
        assert.isAbove(chainCount, 5, "few chains, so this test would prove little")
        assert.isAbove(conflictCount, 5, "few conflicts, so this test would prove little")
      }),
    240_000,
  )

  it.effect(
    "finds only the closing prices of a row's own company, as far as its lineage is known (D32, D35)",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        let foundPeriods = 0
        for (let seed = 1; seed <= getInputCount(1000); seed += 1) {
          const changes = makeChanges(seed).filter((change) => change.effective_date <= today)
          const rows = yield* sql<RowPeriod>`
            select symbol, cik, rule, since::text, until::text, ticker, starts::text, ends::text
            from (
              select array_agg(old_ticker) as old_tickers, array_agg(new_ticker) as new_tickers,
                array_agg(effective_date) as days, array_agg(cik) as ciks
              from jsonb_to_recordset(${JSON.stringify(changes)}::text::jsonb) as change (
                old_ticker text, new_ticker text, effective_date date, cik text
              )
            ) as changes cross join lateral find_row_periods(old_tickers, new_tickers, days, ciks)
          `
          const index = TickerChangeIndex.of(changes)
          for (const ticker of symbols) {
            const events = index.findComponent(ticker, today, 1000)
            for (const company of [null, "0000000001", "0000000002", "0000000003"]) {
              for (const day of ["2023-12-31", "2024-03-01", "2024-05-15", "2025-06-30"]) {
                for (const isTraded of [false, true]) {
                  const row = { company, day, isTraded, ticker }
                  const periods = selectRowPeriods(rows, row)
                  assert.deepStrictEqual(
                    periods,
                    expectRowPeriods(events, row),
                    `seed ${seed}, ${JSON.stringify(row)}`,
                  )
                  foundPeriods += periods.length
                }
              }
            }
          }
        }
        assert.isAbove(foundPeriods, 5, "few periods, so this test would prove little")
      }),
    240_000,
  )
})
