/**
 * Tests `follow_lineage` on every list, with random chains and with rows around both clock changes. The expected rows
 * come from requests without `follow_lineage`, and the expected periods come from the generator, so the expectations
 * share no code with `src`.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { documentedDatasetEndpoints, valueAt } from "../../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import { assertEqualRows, getDatasetOfPath } from "../../support/RowAssertions.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const symbols = ["SA", "SB", "SC", "SD", "SE", "SF", "SG", "SH"] as const

/** The days around the two clock changes in New York within a year. */
const days = [["2025-10-29", 9], ["2026-03-04", 9]].flatMap(([first, count]) =>
  Array.from(
    { length: Number(count) },
    (_, index) => new Date(Date.parse(String(first)) + index * 86_400_000).toISOString().slice(0, 10),
  )
)

/** The date column of each list. It is undefined if rows have no date, in which case each symbol has one row. */
const rowDates: Readonly<Record<string, "date" | "filed_at" | "created_at" | undefined>> = {
  "/v1/afterhours-stats": "date",
  "/v1/dilution-data": "filed_at",
  "/v1/dilution-data-advanced": "filed_at",
  "/v1/float-outstanding": undefined,
  "/v1/gap-stats": "date",
  "/v1/gap-stats-advanced": "date",
  "/v1/historical-float-pro": "filed_at",
  "/v1/intraday-runners": "date",
  "/v1/nasdaq-compliance": "date",
  "/v1/news": "filed_at",
  "/v1/news-basic": "filed_at",
  "/v1/ownership": "filed_at",
  "/v1/premarket-stats": "date",
  "/v1/pump-and-dump-tracker": undefined,
  "/v1/registrations": "filed_at",
  "/v1/research-reports": "created_at",
  "/v1/research-reports-tldr": "created_at",
  "/v1/screener": undefined,
  "/v1/split-status": "filed_at",
}

/** Lists that this test skips: two accept only one symbol, and `timeline.test.ts` covers the timeline. */
const otherPaths = new Set(["/v1/ticker-changes", "/v1/historical-tickers", "/v1/timeline"])

const paths = documentedDatasetEndpoints.map(({ path }) => path).filter((path) => !otherPaths.has(path))

/**
 * A SQL expression for the time of row `n` at UTC-05:00. During daylight saving time, 23:00 already falls on the next
 * day in New York.
 */
const times = "(array['00:00:00', '23:59:59.999', '12:00:00', '23:30:00', '00:30:00'])[1 + n % 5]"

/**
 * In each table whose rows have a date, gives every symbol a row on every day. In the other tables, gives every symbol
 * one row.
 */
const fillTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const dataset of loadableDatasets) {
    const { table } = dataset
    const path = `/v1/${table.replaceAll("_", "-")}`
    if (!(path in rowDates)) continue
    const column = rowDates[path]
    const rows = column === undefined ? symbols.length : symbols.length * days.length
    yield* GeneratedRows.fillTable(dataset, rows, false)
    const ticker = `(array['${symbols.join("','")}'])[1 + n % ${symbols.length}]`
    const day = `(array['${days.join("','")}'])[1 + n / ${symbols.length}]`
    const date = column === "created_at" ? `((${day} || ' ' || ${times} || '-05:00')::timestamptz)` : `(${day}::date)`
    // The datasets have no key column in common, so rows are numbered by their physical position (`ctid`).
    yield* sql.unsafe(
      `with numbered as (select ctid as place, (row_number() over () - 1)::int as n from ${table})
       update ${table} set ticker = ${ticker} ${column === undefined ? "" : `, ${column} = ${date}`}
       from numbered where ${table}.ctid = place`,
    )
  }
  yield* sql`update historical_float_pro set
    reported_date = case when extract(day from filed_at)::int % 4 = 0 then null else filed_at - 3 end`
})

const service = Layer.effectDiscard(fillTables).pipe(Layer.provideMerge(Service.layer))

// ----------------------------------------------------------------------------------------------------------------
// Companies
// ----------------------------------------------------------------------------------------------------------------

interface Period {
  readonly symbol: string
  /** The first day of the period, or an empty string for the company's first symbol. */
  readonly from: string
  /** The day after the last one. For the current symbol, this is `~`, which sorts after every date. */
  readonly until: string
}

interface Company {
  readonly cik: string
  readonly current: string
  readonly periods: ReadonlyArray<Period>
}

/** Returns up to `count` of the items in random order. */
const pickSome = <A>(choose: RandomChooser, items: ReadonlyArray<A>, count: number) =>
  items.map((item, index) => ({ item, key: choose([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) * 100 + index }))
    .toSorted((left, right) => left.key - right.key).slice(0, count).map(({ item }) => item)

/** Creates a company with up to five symbols. The last symbol may be the first one again. */
const makeCompany = (choose: RandomChooser, cik: string, available: ReadonlyArray<string>): Company => {
  const chosen = pickSome(choose, available, choose([1, 2, 3, 3, 4, 5]))
  const [former = ""] = chosen
  const used = chosen.length > 2 && choose([true, false, false]) ? [...chosen.slice(0, -1), former] : chosen
  const starts = ["", ...pickSome(choose, days, used.length - 1).toSorted()]
  const periods = used.map((symbol, index) => ({ symbol, from: starts[index] ?? "", until: starts[index + 1] ?? "~" }))
  return { cik, current: used.at(-1) ?? "", periods }
}

/** Replaces all ticker changes with those of the given companies. */
const storeCompanies = Effect.fnUntraced(function* (companies: ReadonlyArray<Company>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`truncate ticker_changes`
  const [first, ...others] = companies.flatMap(({ cik, periods }) =>
    periods.slice(1).map(({ from, symbol }, index) => ({
      old_ticker: periods[index]?.symbol ?? "",
      new_ticker: symbol,
      effective_date: from,
      cik,
      status: "confirmed",
    }))
  )
  if (first !== undefined) yield* sql`insert into ticker_changes ${sql.insert([first, ...others])}`
})

interface Row {
  readonly [name: string]: unknown
}

/**
 * Finds the company that used the symbol on the day, and the matching period. If there are several periods, the one
 * that began last takes precedence. Among periods that began on the same day, the one that ends first takes precedence.
 */
const findUser = (companies: ReadonlyArray<Company>, ticker: string, day: string) =>
  companies.flatMap((company) =>
    company.periods.filter(({ from, symbol, until }) => symbol === ticker && from <= day && day < until)
      .map((period) => ({ company, period }))
  ).toSorted((left, right) =>
    left.period.from === right.period.from
      ? (left.period.until < right.period.until ? -1 : 1)
      : (left.period.from < right.period.from ? 1 : -1)
  )[0]

/**
 * Finds the first of `days` that falls into the same period of the symbol as `day`. The result identifies the period.
 */
const findFirstDay = (companies: ReadonlyArray<Company>, ticker: string, day: string) => {
  const period = findUser(companies, ticker, day)?.period
  const others = days.filter((other) => other < day && findUser(companies, ticker, other)?.period !== period)
  return days.find((other) => other > (others.at(-1) ?? ""))
}

/** Formats the periods in the syntax of the X-Lineage header, for example `SA..2025-11-02, SB`. */
const formatCompany = ({ periods }: Company) =>
  periods.map(({ symbol, until }) => until === "~" ? symbol : `${symbol}..${until}`).join(", ")

// ----------------------------------------------------------------------------------------------------------------
// Requests
// ----------------------------------------------------------------------------------------------------------------

const request = Effect.fnUntraced(function* (target: string, method: "GET" | "HEAD" = "GET") {
  const { ultimate } = yield* Service.TestKeys
  const response = yield* Service.requestJson(target, { key: ultimate, method })
  assert.strictEqual(response.status, 200, `${target} ${response.text}`)
  return response
})

const rowsOf = (body: unknown): ReadonlyArray<Row> => {
  const results = valueAt(body, "results")
  return Array.isArray(results) ? results : []
}

/** Reads all pages of a list. Returns the rows of all pages and the headers of the first page. */
const readPages = Effect.fnUntraced(function* (target: string, limit: number) {
  const first = yield* request(`${target}&limit=${limit}`)
  const rows = [...rowsOf(first.body)]
  for (let page = 2, body = first.body; valueAt(body, "has_more") === true; page += 1) {
    const next = yield* request(`${target}&limit=${limit}&page=${page}`)
    assert.strictEqual(next.headers["x-lineage"], first.headers["x-lineage"])
    body = next.body
    rows.push(...rowsOf(body))
  }
  return { rows, headers: first.headers }
})

const dayOf = (path: string, row: Row) => String(row[rowDates[path] ?? ""]).slice(0, 10)

/**
 * The rows that each list returns for all symbols without `follow_lineage`, by URL. They remain valid because the tests
 * change only `ticker_changes`.
 */
const plainLists = new Map<string, ReadonlyArray<Row>>()

const readPlainList = Effect.fnUntraced(function* (path: string, filters: string) {
  const target = `${path}?ticker=${symbols.join(",")}${filters}`
  const rows = plainLists.get(target) ?? (yield* readPages(target, 100)).rows
  plainLists.set(target, rows)
  return rows
})

/**
 * Returns the expected rows, which fall within the companies' periods. Also returns how many rows are omitted for each
 * company: those that have one of its symbols but fall outside all periods.
 */
const expectRows = Effect.fnUntraced(function* (path: string, filters: string, companies: ReadonlyArray<Company>) {
  const rows = yield* readPlainList(path, filters)
  if (rowDates[path] === undefined) {
    const current = new Set(companies.map((company) => company.current))
    const expected = rows.filter(({ ticker }) => current.has(String(ticker)))
      .map((row) => ({ ...row, lineage_ticker: row["ticker"] }))
    return { expected, omitted: companies.map(() => 0) }
  }
  const rowsWithUsers = rows.map((row) => ({
    row,
    user: findUser(companies, String(row["ticker"]), dayOf(path, row)),
  }))
  const expected = rowsWithUsers.flatMap(({ row, user }) =>
    user === undefined ? [] : [{ ...row, lineage_ticker: user.company.current }]
  )
  const omitted = companies.map(({ periods }) =>
    periods.length === 1
      ? 0
      : rowsWithUsers.filter(({ row, user }) =>
        user === undefined && periods.some(({ symbol }) => symbol === row["ticker"])
      ).length
  )
  return { expected, omitted }
})

/** Creates a random case: companies, the symbols used to request them, and a filter. */
const makeCase = (seed: number, path: string) => {
  const choose = makeRandomChooser(seed)
  const first = makeCompany(choose, "0000000001", symbols)
  // The second company either may reuse symbols of the first company, so that a symbol can match both, or uses only
  // other symbols.
  const isRecycled = choose([true, false]) && first.periods.length > 1
  const firstSymbols = new Set(first.periods.map(({ symbol }) => symbol))
  const others = isRecycled ? symbols : symbols.filter((symbol) => !firstSymbols.has(symbol))
  const second = makeCompany(choose, "0000000002", others)
  const isConnected = second.periods.length > 1 && second.periods.some(({ symbol }) => firstSymbols.has(symbol))
  // If the second company has only one symbol, it has no row in `ticker_changes`. If the first company also used that
  // symbol, the service resolves the symbol to the first company, so the case then contains only that company.
  const companies = second.periods.length === 1 && firstSymbols.has(second.current) ? [first] : [first, second]
  const requested = choose([true, true, false]) ? companies : companies.slice(0, 1)
  const entries = requested.map(({ cik, periods: [head, ...tail] }) => {
    const { symbol } = choose([head ?? { symbol: "" }, ...tail])
    return isConnected ? `${symbol}:${Number(cik)}` : symbol
  })
  const date = rowDates[path]
  const day = choose([days[0] ?? "", ...days])
  const filter = date === undefined || path === "/v1/ownership" ? "" : `&${date}_from=${day}`
  const filters = choose([true, false]) ? "" : path.startsWith("/v1/news") ? `&date_from=${day}` : filter
  return { companies, requested, entries, filters, limit: choose([1, 3, 10, 100]) }
}

/** Formats the number of omitted rows in the syntax of the X-Lineage header. */
const describeOutside = (count: number) => count === 0 ? "" : `;outside=${count > 100 ? "100+" : count}`

layer(service, { excludeTestServices: true, timeout: "180 seconds" })("A list that follows lineages", (it) => {
  it.effect("is tested for every path (D35)", () =>
    Effect.sync(() => {
      assert.sameMembers(paths, Object.keys(rowDates))
    }))

  it.effect.each(paths.filter((path) => path !== "/v1/ownership").map((path, index) => ({ path, index })))(
    "returns the rows of each symbol within its periods, in order, on all pages: $path (D35)",
    ({ index, path }) =>
      Effect.gen(function* () {
        let compared = 0
        const count = getInputCount(8)
        for (let seed = 1; seed <= count; seed += 1) {
          const { companies, entries, filters, limit, requested } = makeCase(seed * 1000 + index, path)
          yield* storeCompanies(companies)
          const { expected, omitted } = yield* expectRows(path, filters, requested)
          const target = `${path}?follow_lineage=true&ticker=${entries.join(",")}${filters}`
          const mostPages = 6
          const { headers, rows } = yield* readPages(target, Math.max(limit, Math.ceil(expected.length / mostPages)))
          assertEqualRows(getDatasetOfPath(path), rows, expected, target)
          const lineage = requested.map((company, number) =>
            formatCompany(company) + describeOutside(omitted[number] ?? 0)
          )
          assert.strictEqual(headers["x-lineage"], lineage.join(", "), target)
          compared += expected.length
        }
        assert.isAbove(compared, count)
      }),
  )

  it.effect("has the same page, export, estimate and X-Lineage header for every symbol of a chain (D35)", () =>
    Effect.gen(function* () {
      for (let seed = 1; seed <= getInputCount(4); seed += 1) {
        const company = makeCompany(makeRandomChooser(seed), "0000000001", symbols)
        yield* storeCompanies([company])
        const chains = 4
        // Each chain is tested with a quarter of the lists.
        for (const path of paths.filter((_, index) => index % chains === seed % chains)) {
          const responses = yield* Effect.forEach(
            new Set(company.periods.map(({ symbol }) => symbol)),
            (symbol) =>
              Effect.gen(function* () {
                const query = `ticker=${symbol}&follow_lineage=true`
                const page = yield* request(`${path}?${query}&limit=100`)
                const csv = yield* request(`${path}?${query}&format=csv&limit=all`)
                const estimate = yield* request(`/estimate?endpoint=${path}&${query}&limit=100`)
                const { headers } = yield* request(`${path}?${query}&format=ndjson&limit=all`, "HEAD")
                const total = valueAt(estimate.body, "results", 0, "records_total")
                if (valueAt(page.body, "has_more") === false) assert.strictEqual(total, rowsOf(page.body).length)
                const [header = ""] = csv.text.split("\r\n")
                assert.isTrue(header.endsWith(",lineage_ticker"), header)
                const lineages = [page.headers, csv.headers, headers].map((some) => some["x-lineage"])
                assert.deepStrictEqual(lineages, lineages.map(() => page.headers["x-lineage"]))
                return { page: page.text, csv: csv.text, total, lineages }
              }),
          )
          responses.forEach((response) => assert.deepStrictEqual(response, responses[0], path))
        }
      }
    }))

  it.effect("returns the newest filing of each period from /v1/ownership (D35)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const filings = yield* sql<{ readonly ticker: string; readonly filed_at: string }>`
        select ticker, filed_at::text from ownership order by ticker, filed_at desc
      `
      for (let seed = 1; seed <= getInputCount(25); seed += 1) {
        const { companies, entries, limit, requested } = makeCase(seed, "/v1/ownership")
        yield* storeCompanies(companies)
        const seen = new Set<string>()
        const expected = filings.flatMap(({ filed_at, ticker }) => {
          const user = findUser(requested, ticker, filed_at)
          const key = `${ticker} ${findFirstDay(requested, ticker, filed_at)}`
          if (user === undefined || seen.has(key)) return []
          seen.add(key)
          return [{ ticker, filed_at, lineage_ticker: user.company.current, owner_count: 1 }]
        })
        const { rows } = yield* readPages(`/v1/ownership?follow_lineage=true&ticker=${entries.join(",")}`, limit)
        assert.deepStrictEqual(
          rows.map(({ filed_at, lineage_ticker, owner_count, ticker }) => ({
            ticker,
            filed_at,
            lineage_ticker,
            owner_count,
          })),
          expected,
          entries.join(","),
        )
      }
    }))

  it.effect("returns the newest row of each period from /v1/historical-float-pro?latest=true (D33, D35)", () =>
    Effect.gen(function* () {
      const path = "/v1/historical-float-pro"
      for (let seed = 1; seed <= getInputCount(25); seed += 1) {
        const { companies, entries, filters, limit, requested } = makeCase(seed, path)
        yield* storeCompanies(companies)
        const all = yield* expectRows(path, filters, requested)
        const seen = new Set<string>()
        const expected = all.expected.filter((row: Row) => {
          const ticker = String(row["ticker"])
          const key = `${ticker} ${findFirstDay(requested, ticker, dayOf(path, row))}`
          return seen.has(key) ? false : Boolean(seen.add(key))
        })
        const target = `${path}?follow_lineage=true&latest=true&ticker=${entries.join(",")}${filters}`
        assertEqualRows(getDatasetOfPath(path), (yield* readPages(target, limit)).rows, expected, target)
      }
    }))
})
