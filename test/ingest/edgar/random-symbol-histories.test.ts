/**
 * Plays random histories of ticker lists and ticker changes, and tests which symbol each ingested filing has afterwards
 * (D38).
 */
import { assert, layer } from "@effect/vitest"
import { Array, Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { getTickerOn } from "../../../src/ingest/edgar/read/Issuer.ts"
import { subtractDays } from "../../../src/ingest/edgar/store/PendingFilings.ts"
import { addSymbolPeriods, assignSymbols } from "../../../src/ingest/edgar/store/PrimarySymbols.ts"
import type { ListedTicker } from "../../../src/ingest/edgar/read/TickerList.ts"
import { resolveLineage, toCompanyLineage } from "../../../src/query/lineage/LineageRules.ts"
import { todayInChicago } from "../../../src/contract/rules/Dates.ts"
import { makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

// @module-tag waiting

const { insertRows } = Service

const [cik, otherCik] = ["0000001234", "0000005678"]

const symbols = ["AAA", "BBB", "CCC", "DDD"] as const

interface Event {
  readonly old_ticker: string
  readonly new_ticker: string
  readonly effective_date: string
  readonly cik: string | null
  readonly company_name: null
  readonly status: string
}

const readEvents = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Event>`
    select old_ticker, new_ticker, effective_date::text, cik, null as company_name, status from ticker_changes
    order by effective_date, old_ticker, new_ticker, cik
  `
})

const folder = `https://www.sec.gov/Archives/edgar/data/${Number(cik)}`

/** Loads a filing's rows into four datasets, as an ingest would. Loading the same filing again changes nothing. */
const loadFiling = Effect.fnUntraced(function* (day: string, ticker: string) {
  const sql = yield* SqlClient.SqlClient
  const last_updated = `${day} 16:00:00`
  const shared = { ticker, filed_at: day, last_updated }
  const accession_number = `${cik}-26-${day.slice(5).replace("-", "")}`
  const document_url = `${folder}/${accession_number}/a.xml`
  const rows = {
    news: { ...shared, id: `${cik}-${accession_number}`, accession_number, form_type: "8-K", created_at: last_updated },
    registrations: {
      ...shared,
      id: `${cik}-333-${day}`,
      file_no: `333-${day}`,
      form_type: "S-3",
      headline: "S-3",
      type: "shelf",
      effective_status: false,
    },
    ownership: { ...shared, accession_number, document_url, form_type: "4", owner_name: "A Person" },
    historical_float_pro: { ...shared, cik, document_url, form_type: "10-Q", reported_date: day, is_adr: false },
  }
  for (const [table, row] of Object.entries(rows)) {
    yield* sql`insert into ${sql(table)} ${sql.insert(row)} on conflict do nothing`
  }
})

/**
 * Returns a function from a day to the symbol that the company has on that day, according to the chain of events.
 * Returns undefined if the events do not form a chain for this company.
 */
const findExpectedTicker = (events: ReadonlyArray<Event>, primary: string, today: string) => {
  const eligible = events.filter(({ effective_date, status }) => status === "confirmed" && effective_date <= today)
  const reached = new Set([primary])
  for (const symbol of reached) {
    for (const { new_ticker, old_ticker } of eligible) {
      if (symbol === new_ticker || symbol === old_ticker) reached.add(new_ticker).add(old_ticker)
    }
  }
  const component = eligible.filter(({ old_ticker }) => reached.has(old_ticker))
  if (!Array.isReadonlyArrayNonEmpty(component)) return () => primary
  // From the primary symbol, a change without a CIK is followed only if the ticker list contains the new symbol.
  if (component.some((event) => event.cik !== cik)) return undefined
  const lineage = resolveLineage(component)
  if (Result.isFailure(lineage)) return undefined
  const { periods } = toCompanyLineage(lineage.success)
  return (day: string) =>
    periods.find(({ from = "", until = "9999" }) => from <= day && day < until)?.ticker ?? assert.fail()
}

const makeList = (tickers: ReadonlyArray<string>): ReadonlyArray<ListedTicker> =>
  [...tickers.map((ticker) => ({ cik, ticker })), { cik: "0000009999", ticker: "ZZZ" }].map((row) => ({
    ...row,
    name: "Company",
    exchange: null,
  }))

/** Plays a random history and checks the symbols of all filings after each step. Returns the number of comparisons. */
const playHistory = Effect.fnUntraced(function* (choose: RandomChooser) {
  const sql = yield* SqlClient.SqlClient
  const today = yield* todayInChicago
  for (const table of ["edgar_companies", "company_symbols", "edgar_ticker_lists", "ticker_changes", "news"]) {
    yield* sql`delete from ${sql(table)}`
  }
  for (const table of ["registrations", "ownership", "historical_float_pro"]) yield* sql`delete from ${sql(table)}`
  let day = subtractDays(today, 60)
  const days: Array<string> = []
  let compared = 0

  const ingest = Effect.gen(function* () {
    day = subtractDays(day, -choose([1, 2, 3, 4]))
    const tickers = choose([["AAA"], ["BBB", "AAA"], ["AAA", "BBB"], ["BBB"], ["CCC", "BBB-PA"], ["BBB-PA"], []])
    yield* insertRows("edgar_ticker_lists", { day, row_count: 1, entries: "" })
    const assignment = yield* assignSymbols(makeList(tickers), day)
    const chosen = assignment.issuers.filter((issuer) => issuer.cik === cik)
    const [issuer] = yield* addSymbolPeriods(assignment, chosen, true)
    if (issuer === undefined) return
    days.push(day)
    // Loads all filings again, because some datasets are always recomputed from all filings.
    for (const filed of days) yield* loadFiling(filed, getTickerOn(issuer, filed))
  })
  const addChange = Effect.suspend(() =>
    Effect.ignore(insertRows("ticker_changes", {
      old_ticker: choose(symbols),
      new_ticker: choose(symbols),
      effective_date: subtractDays(today, choose([70, 58, 55, 50, 45, 40, 35, 20, -2])),
      cik: choose([cik, cik, cik, cik, null, otherCik]),
      status: choose(["confirmed", "estimated"]),
    }))
  )
  const changeStatus = Effect.gen(function* () {
    const events = yield* readEvents
    if (!Array.isReadonlyArrayNonEmpty(events)) return
    const event = choose(events)
    const isEvent = sql`old_ticker = ${event.old_ticker} and new_ticker = ${event.new_ticker}
      and effective_date = ${event.effective_date}::text::date`
    yield* choose([
      sql`update ticker_changes set status = 'reverted' where ${isEvent}`,
      sql`update ticker_changes set status = 'confirmed' where ${isEvent}`,
      sql`update ticker_changes set status = 'confirmed' where ${isEvent}`,
      sql`delete from ticker_changes where ${isEvent}`,
    ])
  })

  for (let step = 0; step < 18; step += 1) {
    yield* choose([ingest, ingest, addChange, changeStatus, changeStatus])
    const [company] = yield* sql<{ readonly primary_ticker: string; readonly former_tickers: ReadonlyArray<string> }>`
      select primary_ticker, former_tickers from edgar_companies where cik = ${cik}
    `
    if (company === undefined) continue
    const events = yield* readEvents
    const expected = company.former_tickers.length > 0
      ? undefined
      : findExpectedTicker(events, company.primary_ticker, today)
    const found = yield* Effect.forEach(
      ["news", "registrations", "ownership", "historical_float_pro"],
      (table) =>
        sql<{ readonly day: string; readonly ticker: string }>`
        select filed_at::text as day, ticker from ${sql(table)} order by filed_at, ticker
      `,
    )
    const history = JSON.stringify({ company, events })
    for (const rows of found) {
      assert.deepStrictEqual(rows.map(({ day }) => day), days, history)
      assert.deepStrictEqual(rows.map(({ ticker }) => ticker), found[0]?.map(({ ticker }) => ticker), history)
      if (expected === undefined) continue
      compared += rows.length
      assert.deepStrictEqual(rows.map(({ ticker }) => ticker), days.map(expected), history)
    }
  }
  return compared
})

layer(Service.migratedDatabaseLayer, { excludeTestServices: true })("Ingested filings", (it) => {
  it.effect(
    "exist once, under the symbol of their date, after any history of lists and changes (D38)",
    () =>
      Effect.gen(function* () {
        let compared = 0
        for (let seed = 1; seed <= getInputCount(25); seed += 1) {
          compared += yield* playHistory(makeRandomChooser(seed))
        }
        assert.isAbove(compared, 50)
      }),
    240_000,
  )
})
