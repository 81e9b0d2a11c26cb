/** Tests values that depend on what earlier runs stored, against a server that replays the SEC's responses. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Buffer } from "node:buffer"
import { subtractDays } from "../../../src/ingest/edgar/store/PendingFilings.ts"
import { todayInNewYork } from "../../../src/contract/rules/Dates.ts"
import * as Service from "../../support/Service.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { DatabaseUrl, withOwnDatabase } from "../../support/OwnDatabases.ts"

// @module-tag slow

const acme: Stub.ListedCompany = { cik: "0000000042", name: "Acme Corp.", tickers: ["ACME"] }
const holding: Stub.ListedCompany = { cik: "0000000043", name: "Acme Holdings Corp.", tickers: ["ACME"] }

/** Builds an accession number from a sequence number. */
const accessionOf = (number: number) => `0000000042-26-${String(number).padStart(6, "0")}`

interface MadeFact {
  readonly end: string
  readonly val: number
  readonly accn: string
  readonly filed: string
  readonly form: string
}

const makeFacts = ({ cik }: Stub.ListedCompany, counts: ReadonlyArray<MadeFact>): Stub.EdgarStubResponse => ({
  status: 200,
  type: "application/json",
  body: JSON.stringify({
    cik: Number(cik),
    facts: { dei: { EntityCommonStockSharesOutstanding: { units: { shares: counts } } } },
  }),
})

/** Starts a stub of the SEC without companies. `ingest` runs the command for a symbol and asserts success. */
const startMarket = Effect.gen(function* () {
  const stub = yield* Stub.startEdgarStub
  yield* Stub.removeRequestLimit
  const environment = {
    DATABASE_URL: yield* DatabaseUrl,
    EDGAR_BASE_URL: stub.url,
    EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
  }
  let lists = 0

  /** Makes the SEC stub serve one company, with its filings (newest first) and, if given, its XBRL facts. */
  const publish = (
    company: Stub.ListedCompany,
    filings: ReadonlyArray<Stub.ListedFiling>,
    facts?: Stub.EdgarStubResponse,
  ) => {
    lists += 1
    stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([company], `Fri, 12 Jun 2026 10:00:0${lists} GMT`))
    stub.responses.set(`/submissions/CIK${company.cik}.json`, Stub.makeSubmissions(company, filings))
    stub.responses.set(`/api/xbrl/companyfacts/CIK${company.cik}.json`, facts ?? Stub.missingSubmissionsResponse)
  }

  const ingest = Effect.fnUntraced(function* (since = "2020-01-01", ticker = "ACME", ...more: ReadonlyArray<string>) {
    const before = stub.requests.length
    const options = ["ingest", "edgar", "--tickers", ticker, "--since", since, ...more]
    const { code, err, out } = yield* runCommandInProcess(options, environment)
    assert.strictEqual(code, 0, err)
    return { paths: stub.requests.slice(before).map(({ path }) => path), output: out + err }
  })
  return { stub, publish, ingest }
})

const quarter = (number: number, filed: string, val: number, end = filed) => {
  const filing: Stub.ListedFiling = { accession: accessionOf(number), form: "10-Q", filingDate: filed }
  const fact: MadeFact = { accn: accessionOf(number), form: "10-Q", filed, end, val }
  return { filing, fact }
}

/** Starts with Acme, whose share count was filed three months ago and is stored. */
const startWithAcme = Effect.gen(function* () {
  const market = yield* startMarket
  const today = yield* todayInNewYork
  const report = quarter(1, subtractDays(today, 90), 50_000_000)
  market.publish(acme, [report.filing], makeFacts(acme, [report.fact]))
  yield* market.ingest()
  return { ...market, sql: yield* SqlClient.SqlClient, today }
})

/** Stores an executed reverse split of ten shares into one. */
const storeSplit = (ticker: string, effective_date: string) =>
  Service.insertRows("split_status", {
    id: "split",
    ticker,
    action_type: "split_effective",
    split_from: "10",
    split_to: "1",
    effective_date,
    executed: true,
    filed_at: effective_date,
    form_type: "8-K",
    last_updated: `${effective_date} 10:00:00`,
  })

const readCounts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly counts: ReadonlyArray<string | null> }>`
    select array[company, outstanding::text, reported_date::text, filed_at::text,
      (select outstanding::text from screener where ticker = 'ACME')] as counts
    from float_outstanding where ticker = 'ACME'
  `
  return row?.counts
})

const readSources = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly source: ReadonlyArray<string> }>`
    select source from float_outstanding where ticker = 'ACME'
  `
})

layer(NodeServices.layer, { excludeTestServices: true })("The current share count", (it) => {
  it.effect("is also in the screener, and a late amendment of an older report does not move it back (D38)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish } = yield* startMarket
      const [may, august] = [quarter(1, "2026-05-15", 50_000_000), quarter(2, "2026-08-14", 80_000_000)]
      publish(acme, [august.filing, may.filing], makeFacts(acme, [may.fact, august.fact]))
      yield* ingest()
      const expected = ["Acme Corp.", "80000000", "2026-08-14", "2026-08-14", "80000000"]
      assert.deepStrictEqual(yield* readCounts, expected)
      const late = quarter(3, "2026-09-01", 50_000_000, "2026-05-15")
      const amendment = { ...late.filing, form: "10-Q/A" }
      const facts = [may.fact, august.fact, { ...late.fact, form: "10-Q/A" }]
      publish(acme, [amendment, august.filing, may.filing], makeFacts(acme, facts))
      yield* ingest()
      assert.deepStrictEqual(yield* readCounts, expected)
    })))

  it.effect("stays, with its date and source, if the facts have none any longer (D38)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish } = yield* startMarket
      const may = quarter(1, "2026-05-15", 50_000_000)
      publish(acme, [may.filing], makeFacts(acme, [may.fact]))
      yield* ingest()
      const [counts, sources] = [yield* readCounts, yield* readSources]
      assert.deepStrictEqual(counts, ["Acme Corp.", "50000000", "2026-05-15", "2026-05-15", "50000000"])
      const august = quarter(2, "2026-08-14", 0)
      for (const [since, facts] of [["2019-01-01", makeFacts(acme, [])], ["2018-01-01", undefined]] as const) {
        publish(acme, [august.filing, may.filing], facts)
        assert.include((yield* ingest(since)).paths, `/api/xbrl/companyfacts/CIK${acme.cik}.json`)
        assert.deepStrictEqual([yield* readCounts, yield* readSources], [counts, sources])
      }
    })))

  it.effect("stays if a holding company without facts takes over the symbol (D38)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql, today } = yield* startWithAcme
      const [, ...known] = (yield* readCounts) ?? []
      for (const facts of [undefined, makeFacts(holding, [])]) {
        publish(holding, [{ accession: accessionOf(9), form: "8-K12B", filingDate: subtractDays(today, 5) }], facts)
        yield* ingest()
        const [, ...counts] = (yield* readCounts) ?? []
        assert.deepStrictEqual(counts, known)
      }
      const news = yield* sql`select id, ticker from news where id like '0000000043-%'`
      assert.deepStrictEqual(news, [{ id: `0000000043-${accessionOf(9)}`, ticker: "ACME" }])
    })))

  it.effect("is that of the balance sheet for Alphabet, whose facts have no count from the cover page (pitfall 6)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish } = yield* startMarket
      const alphabet = { cik: "0001652044", name: "Alphabet Inc.", tickers: ["ACME"] }
      const facts = { ...makeFacts(alphabet, []), body: Stub.readRecording("companyfacts/CIK0001652044.trimmed.json") }
      publish(alphabet, [quarter(1, "2026-04-30", 0).filing], facts)
      yield* ingest()
      assert.deepStrictEqual(yield* readCounts, [
        "Alphabet Inc.",
        "12116000000",
        "2026-03-31",
        "2026-04-30",
        "12116000000",
      ])
      assert.include(
        JSON.stringify(yield* readSources),
        "#us-gaap/CommonStockSharesOutstanding/shares/0001652044-26-000048/2026-03-31",
      )
    })))

  it.effect("is not that of an unrelated company that had the symbol before (D38)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish } = yield* startMarket
      for (const [since, filed, form] of [["2019-01-01", "2021-05-14", "8-K12B"], ["2018-01-01", "", "S-1"]] as const) {
        const old = quarter(1, filed === "" ? subtractDays(yield* todayInNewYork, 90) : filed, 50_000_000)
        publish(acme, [old.filing], makeFacts(acme, [old.fact]))
        yield* ingest(since)
        publish(holding, [{ ...quarter(2, "2026-05-15", 0).filing, form }], makeFacts(holding, []))
        yield* ingest(since)
        assert.deepStrictEqual(yield* readCounts, ["Acme Holdings Corp.", null, null, null, null], form)
      }
    })))

  it.effect("is not that of the company before, if the new one has no facts or no counts yet (D38, D45)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish } = yield* startMarket
      const sql = yield* SqlClient.SqlClient
      const may = quarter(1, subtractDays(yield* todayInNewYork, 90), 50_000_000)
      const readRows = Effect.gen(function* () {
        const floats = yield* sql`select company, outstanding, "float" from float_outstanding`
        const screener = yield* sql`select company, outstanding, market_cap from screener`
        return { floats, screener }
      })
      for (const [since, facts] of [["2019-01-01", undefined], ["2018-01-01", makeFacts(holding, [])]] as const) {
        publish(acme, [may.filing], makeFacts(acme, [may.fact]))
        yield* ingest(since)
        yield* sql`update float_outstanding set "float" = 40000000, market_cap = 500000000`
        yield* sql`update screener set market_cap = 500000000`
        // An old notice of a succession says nothing about this symbol.
        publish(holding, [
          { ...quarter(2, "2026-05-15", 0).filing, form: "S-1" },
          { ...quarter(3, "2012-05-15", 0).filing, form: "8-K12G3" },
        ], facts)
        yield* ingest(since)
        const { floats, screener } = yield* readRows
        const company = "Acme Holdings Corp."
        assert.deepStrictEqual(floats, facts === undefined ? [] : [{ company, outstanding: null, float: null }])
        assert.deepStrictEqual(screener, [{ company, outstanding: null, market_cap: null }])
      }
    })))

  it.effect("is not that of the company before, if only its CIK in the screener tells whose it was (D32)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql } = yield* startWithAcme
      yield* sql`update float_outstanding set source = array['https://vendor.example/acme'], "float" = 40000000`
      yield* sql`update screener set source = array['https://vendor.example/acme']`
      publish(holding, [{ ...quarter(2, "2026-05-15", 0).filing, form: "S-1" }], undefined)
      const { output } = yield* ingest()
      const row = `Deleted the row of ACME in screener and float_outstanding: it was that of CIK ${acme.cik}, `
      assert.include(output, row)
      assert.isUndefined(yield* readCounts)
      const rows = yield* sql`select company, outstanding from screener`
      assert.deepStrictEqual(rows, [{ company: "Acme Holdings Corp.", outstanding: null }])
    })))

  it.effect.each(["41", "0", "0000000000"])(
    "leaves the vendor's values if the vendor states a CIK that is unknown to the SEC's list: %s (D38)",
    (cik) =>
      withOwnDatabase(Effect.gen(function* () {
        const { ingest, publish } = yield* startMarket
        const sql = yield* SqlClient.SqlClient
        const loaded = { ticker: "ACME", is_adr: false, outstanding: "30000000", last_updated: "2026-05-01 10:00:00" }
        yield* Service.insertRows("screener", {
          ...loaded,
          cik,
          sector: "Energy",
          num_gaps: 3,
          num_runners: 4,
          pending_s1: false,
        })
        yield* Service.insertRows("float_outstanding", { ...loaded, float: "20000000" })
        const may = quarter(1, "2026-05-15", 50_000_000)
        publish(acme, [may.filing], makeFacts(acme, [may.fact]))
        yield* ingest()
        assert.strictEqual((yield* readCounts)?.[1], "50000000")
        const rows = yield* sql`
          select screener.sector, num_gaps::int, float_outstanding."float"::int from screener join float_outstanding using (ticker)
        `
        assert.deepStrictEqual(rows, [{ sector: "Energy", num_gaps: 3, float: 20_000_000 }])
      })),
  )

  it.effect("of a former company is deleted only in the datasets of the run (operations/ingest-edgar)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql } = yield* startWithAcme
      publish(holding, [{ ...quarter(2, "2026-05-15", 0).filing, form: "S-1" }], makeFacts(holding, []))
      const readProgress = sql`
        select dataset from edgar_progress where cik = ${acme.cik} and dataset in ('screener', 'float_outstanding')
      `.values
      yield* ingest("2020-01-01", "ACME", "--only", "float_outstanding")
      assert.deepStrictEqual(yield* readProgress, [["screener"]])
      const companies = yield* sql`
        select float_outstanding.company, screener.company as listed
        from float_outstanding join screener using (ticker)
      `
      assert.deepStrictEqual(companies, [{ company: holding.name, listed: acme.name }])
      yield* ingest()
      assert.deepStrictEqual(yield* sql`select company, outstanding from screener`, [
        { company: holding.name, outstanding: null },
      ])
    })))

  it.effect("is not that of a company whose filing is newer than the company's own use of the symbol (D32)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql, today } = yield* startWithAcme
      // Years ago, NEXT had the symbol that the SEC's list has now dropped with Acme.
      yield* sql`update edgar_companies set listed_on = listed_on - 1, primary_listed_on = primary_listed_on - 1`
      const change = { old_ticker: "ACME", new_ticker: "NEXT", effective_date: "2022-03-01", status: "confirmed" }
      yield* Service.insertRows("ticker_changes", { ...change, cik: holding.cik })
      const next = { ...holding, tickers: ["NEXT"] }
      publish(next, [{ ...quarter(2, subtractDays(today, 40), 0).filing, form: "8-K" }], makeFacts(holding, []))
      yield* ingest("2020-01-01", "NEXT")
      const counts = yield* sql`select outstanding from screener where ticker = 'NEXT'`
      assert.deepStrictEqual(counts, [{ outstanding: null }])
    })))

  it.effect("gives a successor its market cap across a split, if it has inherited the count (D38, D44)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql, today } = yield* startWithAcme
      yield* sql`
        update edgar_companies set listed_on = listed_on - 7, primary_listed_on = primary_listed_on - 7
      `
      publish(holding, [{ accession: accessionOf(9), form: "8-K12B", filingDate: subtractDays(today, 10) }])
      yield* storeSplit("ACME", subtractDays(today, 9))
      yield* Service.insertRows("daily_prices", { ticker: "ACME", date: subtractDays(today, 1), close: "100" })
      yield* ingest()
      const caps = yield* sql`
        select market_cap::int, reason from find_market_caps('{ACME}', ${today}::text::date) where dataset = 'float_outstanding'
      `.values
      assert.deepStrictEqual(caps, [[500_000_000, null]])
    })))

  it.effect("gives no market cap from closes and splits of the company that had the symbol before (D32, D45)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql } = yield* startWithAcme
      yield* sql`update edgar_companies set listed_on = '2026-06-11', primary_listed_on = '2026-06-11'`
      const may = quarter(2, "2026-05-10", 12_000_000, "2026-05-06")
      publish(holding, [may.filing], makeFacts(holding, [may.fact]))
      yield* Service.insertRows("daily_prices", { ticker: "ACME", date: "2026-06-10", close: "100" })
      yield* ingest()
      const readCaps = sql`
        select market_cap::int, reason from find_market_caps('{ACME}', '2026-06-20') order by dataset
      `.values
      const reason = "another company that had the symbol until 2026-06-11"
      assert.deepStrictEqual(yield* readCaps, [[null, reason], [null, reason]])
      assert.deepStrictEqual(yield* sql`select market_cap from screener`.values, [[null]])
      yield* Service.insertRows("daily_prices", { ticker: "ACME", date: "2026-06-15", close: "5" })
      assert.deepStrictEqual(yield* readCaps, [[60_000_000, null], [60_000_000, null]])
      yield* storeSplit("ACME", "2026-05-20")
      assert.deepStrictEqual(yield* readCaps, [[null, reason], [null, reason]])
      // Lineage knows since when the company has had the symbol.
      const change = { old_ticker: "OLD", new_ticker: "ACME", effective_date: "2026-06-12", status: "confirmed" }
      yield* Service.insertRows("ticker_changes", { ...change, cik: holding.cik })
      assert.deepStrictEqual(yield* readCaps, [[60_000_000, null], [60_000_000, null]])
    })))

  it.effect("gives no market cap across a split before a ticker change that is not confirmed (D19, D45)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { sql, today } = yield* startWithAcme
      const split = subtractDays(today, 60)
      yield* Service.insertRows("daily_prices", { ticker: "ACME", date: subtractDays(today, 20), close: "10" })
      yield* storeSplit("OLD", split)
      const readCaps = sql`
        select market_cap::int, reason from find_market_caps('{ACME}', ${today}::text::date) where dataset = 'screener'
      `.values
      assert.deepStrictEqual(yield* readCaps, [[500_000_000, null]])
      const change = { old_ticker: "OLD", new_ticker: "ACME", effective_date: subtractDays(today, 30), cik: acme.cik }
      yield* Service.insertRows("ticker_changes", { ...change, status: "estimated" })
      const unknown = [[null, `a split on ${split} before an unconfirmed ticker change`]]
      assert.deepStrictEqual(yield* readCaps, unknown)
      // A change from another source may lack the CIK.
      yield* sql`update ticker_changes set cik = null`
      assert.deepStrictEqual(yield* readCaps, unknown)
      yield* sql`update ticker_changes set status = 'confirmed'`
      assert.deepStrictEqual(yield* readCaps, [[50_000_000, null]])
      // The split is recorded under the symbol before the previous one.
      const former = { ...change, old_ticker: "OLDER", new_ticker: "OLD", effective_date: subtractDays(today, 45) }
      yield* Service.insertRows("ticker_changes", { ...former, status: "confirmed" })
      yield* sql`update split_status set ticker = 'OLDER'`
      assert.deepStrictEqual(yield* readCaps, [[50_000_000, null]])
      yield* sql`update ticker_changes set status = 'estimated' where new_ticker = 'ACME'`
      assert.deepStrictEqual(yield* readCaps, unknown)
      // Lineage connects the symbols, so an estimated change between them adds nothing.
      yield* sql`update ticker_changes set status = 'confirmed', cik = ${acme.cik}`
      yield* Service.insertRows("ticker_changes", { ...change, old_ticker: "OLDER", status: "estimated" })
      assert.deepStrictEqual(yield* readCaps, [[50_000_000, null]])
      // Only the SEC's list has shown the former symbol.
      yield* sql`truncate ticker_changes`
      assert.deepStrictEqual(yield* readCaps, [[500_000_000, null]])
      yield* sql`update edgar_companies set former_tickers = '{OLDER}'`
      assert.deepStrictEqual(yield* readCaps, unknown)
      yield* sql`update edgar_companies set primary_since = ${split}::text::date - 6`
      assert.deepStrictEqual(yield* readCaps, [[500_000_000, null]], "the company had given up the symbol by then")
      yield* sql`update edgar_companies set primary_since = ${split}::text::date - 5`
      assert.deepStrictEqual(yield* readCaps, unknown)
      // A source lists the split under both symbols.
      yield* sql`insert into split_status select (jsonb_populate_record(split_status, '{"id":"own","ticker":"ACME"}')).* from split_status`
      assert.deepStrictEqual(yield* readCaps, [[50_000_000, null]])
      yield* sql`delete from split_status where id = 'own'`
      // An unconfirmed change comes before a confirmed one.
      yield* sql`update edgar_companies set former_tickers = '{}'`
      yield* Service.insertRows("ticker_changes", { ...former, status: "estimated" }, {
        ...change,
        status: "confirmed",
      })
      assert.deepStrictEqual(yield* readCaps, unknown)
    })))

  it.effect("gives no market cap while the newest list gives the symbol to another company (D32)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { sql, today } = yield* startWithAcme
      yield* Service.insertRows("daily_prices", { ticker: "ACME", date: subtractDays(today, 1), close: "10" })
      const readCaps = sql`
        select market_cap::int, reason from find_market_caps('{ACME}', ${today}::text::date) order by dataset
      `.values
      const known = [500_000_000, null]
      assert.deepStrictEqual(yield* readCaps, [known, known])
      const other = { cik: holding.cik, tickers: "{ACME}", primary_ticker: "OTHER", primary_listed_on: "2026-01-05" }
      yield* Service.insertRows("edgar_companies", { ...other, listed_on: "2026-01-05" })
      assert.deepStrictEqual(yield* readCaps, [known, known], "it had the symbol in January")
      yield* sql`update edgar_companies set listed_on = '2099-01-01' where cik = ${holding.cik}`
      const unknown = [null, "another company that may have the symbol now"]
      assert.deepStrictEqual(yield* readCaps, [unknown, unknown])
      // The list gives the company another symbol, and the old one to nobody that has been ingested.
      yield* sql`delete from edgar_companies where cik = ${holding.cik}`
      yield* sql`update edgar_companies set tickers = '{NEXT}', primary_listed_on = ${
        subtractDays(today, 1)
      }::text::date`
      assert.deepStrictEqual(yield* readCaps, [known, known], "the newest close is of the last day with the old symbol")
      yield* sql`update edgar_companies set primary_listed_on = primary_listed_on - 1`
      assert.deepStrictEqual(yield* readCaps, [unknown, unknown])
    })))

  it.effect("is not withheld because a former user of the symbol had several classes (D44)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish } = yield* startMarket
      const sql = yield* SqlClient.SqlClient
      const may = quarter(1, "2026-05-10", 30_000_000)
      publish({ ...acme, tickers: ["ACME", "ACME-B"] }, [may.filing], makeFacts(acme, [may.fact]))
      yield* ingest()
      yield* sql`update edgar_companies set listed_on = '2026-06-01', primary_listed_on = '2026-06-01'`
      const ofHolding = quarter(2, "2026-05-10", 12_000_000)
      // A shorter list than the one before would be refused.
      const next = { ...holding, tickers: ["ACME", "NEXT"] }
      publish(next, [ofHolding.filing], makeFacts(holding, [ofHolding.fact]))
      yield* Service.insertRows("daily_prices", { ticker: "ACME", date: "2026-06-15", close: "5" })
      yield* ingest()
      const caps = yield* sql`
        select float_outstanding.market_cap::int as cap, screener.market_cap::int as listed
        from float_outstanding join screener using (ticker)
      `
      assert.deepStrictEqual(caps, [{ cap: 60_000_000, listed: 60_000_000 }])
    })))

  it.effect("is not that of a company that now has the former symbol (D32)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, stub, today } = yield* startWithAcme
      const sql = yield* SqlClient.SqlClient
      // Acme has got the symbol from a company that is now NEXT and has not stated a count.
      const renamed = { ...holding, tickers: ["NEXT"] }
      publish(renamed, [{ ...quarter(2, subtractDays(today, 40), 0).filing, form: "8-K" }], makeFacts(holding, []))
      const list = Stub.makeTickerList([acme, renamed], "Fri, 12 Jun 2026 11:00:00 GMT")
      stub.responses.set(Stub.tickerListPath, list)
      const change = { old_ticker: "ACME", new_ticker: "NEXT", effective_date: subtractDays(today, 50) }
      yield* Service.insertRows("ticker_changes", { ...change, status: "confirmed", cik: holding.cik })
      yield* ingest("2020-01-01", "NEXT")
      const rows = yield* sql`
        select ticker, screener.outstanding::int as listed, float_outstanding.outstanding::int
        from screener full join float_outstanding using (ticker) order by ticker
      `
      assert.deepStrictEqual(rows, [
        { ticker: "ACME", listed: 50_000_000, outstanding: 50_000_000 },
        { ticker: "NEXT", listed: null, outstanding: null },
      ])
    })))

  it.effect("is written again if a company gets its symbol back, without a new filing (D32)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, today } = yield* startWithAcme
      const counts = yield* readCounts
      const ofHolding = quarter(2, subtractDays(today, 30), 12_000_000)
      publish(holding, [ofHolding.filing], makeFacts(holding, [ofHolding.fact]))
      yield* ingest()
      assert.strictEqual((yield* readCounts)?.[1], "12000000")
      const report = quarter(1, subtractDays(today, 90), 50_000_000)
      publish(acme, [report.filing], makeFacts(acme, [report.fact]))
      yield* ingest()
      assert.deepStrictEqual(yield* readCounts, counts)
    })))

  it.effect("leaves the other values of the row to a successor if the count is unknown (D38)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql, today } = yield* startWithAcme
      yield* sql`update float_outstanding set outstanding = null, "float" = 40000000`
      publish(holding, [{ accession: accessionOf(9), form: "8-K12B", filingDate: subtractDays(today, 5) }])
      yield* ingest()
      const rows = yield* sql`select outstanding, "float"::int from float_outstanding`
      assert.deepStrictEqual(rows, [{ outstanding: null, float: 40_000_000 }])
    })))

  it.effect("is not inherited if the former company stayed in the list long after the notice of succession (D38)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql, today } = yield* startWithAcme
      yield* sql`update edgar_companies set listed_on = ${subtractDays(today, 1)}::text::date`
      publish(holding, [{ accession: accessionOf(9), form: "8-K12B", filingDate: subtractDays(today, 100) }])
      yield* ingest()
      assert.isUndefined(yield* readCounts)
    })))

  it.effect("keeps no market cap of another count when a row moves to a symbol with a loaded row (D44)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { sql } = yield* startWithAcme
      yield* Service.insertRows("float_outstanding", {
        ticker: "NEXT",
        outstanding: "29000000",
        is_adr: false,
        last_updated: "2026-05-01 10:00:00",
      })
      yield* sql`update float_outstanding set market_cap = 12000000 where ticker = 'ACME'`
      const change = { old_ticker: "ACME", new_ticker: "NEXT", effective_date: "2026-06-12", status: "confirmed" }
      yield* Service.insertRows("ticker_changes", { ...change, cik: acme.cik })
      const rows = yield* sql`select ticker, outstanding::int, market_cap from float_outstanding`
      assert.deepStrictEqual(rows, [{ ticker: "NEXT", outstanding: 29_000_000, market_cap: null }])
    })))

  it.effect("moves to the symbol of a company that is no longer in the list (D38, D45)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql } = yield* startWithAcme
      yield* sql`update edgar_companies set listed_on = listed_on - 1, primary_listed_on = primary_listed_on - 1`
      const june = quarter(3, "2026-06-01", 12_000_000)
      publish({ ...holding, tickers: ["OLD"] }, [june.filing], makeFacts(holding, [june.fact]))
      yield* ingest("2020-01-01", "OLD")
      const change = { old_ticker: "OLD", new_ticker: "ACME", effective_date: "2026-06-12", status: "confirmed" }
      yield* Service.insertRows("ticker_changes", { ...change, cik: holding.cik })
      assert.deepStrictEqual(yield* readCounts, [
        "Acme Holdings Corp.",
        "12000000",
        "2026-06-01",
        "2026-06-01",
        "12000000",
      ])
    })))

  it.effect("is written again if a ticker change came before the list gave up the symbol's former company (D32)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, sql, stub } = yield* startWithAcme
      const june = quarter(3, "2026-06-01", 12_000_000)
      const renamed = { ...holding, tickers: ["OLD"] }
      publish(renamed, [june.filing], makeFacts(holding, [june.fact]))
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([acme, renamed], "Fri, 12 Jun 2026 11:00:00 GMT"))
      yield* ingest("2020-01-01", "OLD")
      const before = yield* readCounts
      const change = { old_ticker: "OLD", new_ticker: "ACME", effective_date: "2026-06-12", status: "confirmed" }
      yield* Service.insertRows("ticker_changes", { ...change, cik: holding.cik })
      assert.deepStrictEqual(yield* readCounts, before)
      assert.isEmpty(yield* sql`select from float_outstanding where ticker = 'OLD'`)
      // The next list gives the symbol to the company, which has not filed anything since.
      yield* sql`update edgar_companies set listed_on = listed_on - 1, primary_listed_on = primary_listed_on - 1`
      const list = Stub.makeTickerList([holding, { ...acme, tickers: ["NEXT"] }], "Sat, 13 Jun 2026 11:00:00 GMT")
      stub.responses.set(Stub.tickerListPath, list)
      yield* ingest()
      const counts = ["Acme Holdings Corp.", "12000000", "2026-06-01", "2026-06-01", "12000000"]
      assert.deepStrictEqual(yield* readCounts, counts)
    })))

  it.effect("stays under a symbol that the newest list gives to another company (D32)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, stub } = yield* startMarket
      const sql = yield* SqlClient.SqlClient
      const [may, june] = [quarter(1, "2026-05-15", 50_000_000), quarter(2, "2026-06-15", 51_000_000)]
      publish(acme, [may.filing], makeFacts(acme, [may.fact]))
      yield* ingest()
      const ofHolding = quarter(3, "2026-06-01", 12_000_000)
      publish(holding, [ofHolding.filing], makeFacts(holding, [ofHolding.fact]))
      yield* ingest()
      const counts = ["Acme Holdings Corp.", "12000000", "2026-06-01", "2026-06-01", "12000000"]
      assert.deepStrictEqual(yield* readCounts, counts)
      // The stored symbol of the first company changes only when several lists have confirmed it.
      const renamed = { ...acme, tickers: ["NEXT"] }
      publish(renamed, [june.filing, may.filing], makeFacts(acme, [may.fact, june.fact]))
      const list = Stub.makeTickerList([holding, renamed], "Fri, 12 Jun 2026 11:00:00 GMT")
      stub.responses.set(Stub.tickerListPath, list)
      yield* ingest("2020-01-01", "NEXT")
      assert.deepStrictEqual(yield* readCounts, counts)
      const history =
        yield* sql`select outstanding_shares::int as count from historical_float_pro where cik = ${acme.cik}`
      assert.includeDeepMembers(Array.from(history), [{ count: 51_000_000 }])
      // The next run tries again.
      const done = yield* sql<{ readonly dataset: string }>`select dataset from edgar_progress where cik = ${acme.cik}`
      const names = done.map(({ dataset }) => dataset)
      assert.include(names, "historical_float_pro")
      assert.notInclude(names, "screener")
      assert.notInclude(names, "float_outstanding")
    })))
})

layer(NodeServices.layer, { excludeTestServices: true })("An ownership form", (it) => {
  it.effect("in ISO-8859-1 gives correct names, and no sum without a security that may belong to it (decision 0100)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ingest, publish, stub } = yield* startMarket
      const line = (title: string, held: number) =>
        `<nonDerivativeHolding><securityTitle><value>${title}</value></securityTitle><postTransactionAmounts>` +
        `<sharesOwnedFollowingTransaction><value>${held}</value></sharesOwnedFollowingTransaction>` +
        `</postTransactionAmounts></nonDerivativeHolding>`
      const forms = ["Class C Capital Stock", "Series C Stock"].map((title) =>
        `<?xml version="1.0" encoding="ISO-8859-1"?><ownershipDocument><documentType>4</documentType>` +
        `<periodOfReport>2026-02-03</periodOfReport><issuer><issuerCik>${acme.cik}</issuerCik></issuer>` +
        `<reportingOwner><reportingOwnerId><rptOwnerCik>7</rptOwnerCik><rptOwnerName>Müller José</rptOwnerName>` +
        `</reportingOwnerId></reportingOwner><nonDerivativeTable>${line("Common Stock", 100)}${line(title, 50_000)}` +
        `</nonDerivativeTable></ownershipDocument>`
      )
      publish(
        acme,
        forms.map((xml, index) => {
          const accession = accessionOf(9 - index)
          const response = { ...Stub.makeXmlResponse(xml), bytes: Buffer.from(xml, "latin1") }
          stub.responses.set(Stub.getFilingDocumentPath(acme, accession, "form4.xml"), response)
          return { accession, form: "4", filingDate: "2026-02-03", primaryDocument: "xslF345X05/form4.xml" }
        }),
      )
      yield* ingest()
      const rows = yield* sql`
        select owner_name, common_shares_amount::text as amount from ownership order by accession_number desc
      `
      assert.deepStrictEqual(rows, [
        { owner_name: "Müller José", amount: "50100" },
        { owner_name: "Müller José", amount: null },
      ])
    })))
})

layer(NodeServices.layer, { excludeTestServices: true })("A registration", (it) => {
  it.effect("ends after three years although its company has nothing new (Rule 415(a)(5))", () =>
    withOwnDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ingest, publish } = yield* startMarket
      const shelf = { accession: accessionOf(1), form: "S-3ASR", filingDate: "2021-06-01", fileNumber: "333-1" }
      publish(acme, [shelf])
      yield* ingest()
      const read = sql<{ readonly [column: string]: string | boolean | null }>`
        select effective_status, expiration_date::text, headline, details, last_updated::text from registrations
      `
      const ended = yield* read
      assert.deepInclude(ended[0], {
        effective_status: false,
        expiration_date: "2024-06-01",
        headline: "S-3ASR of Acme Corp.: expired on 2024-06-01",
        last_updated: "2024-06-02 00:00:00",
      })
      // Restores the row to its state before the registration expired.
      yield* sql`
        update registrations set effective_status = true, last_updated = '2021-06-01 08:05:00',
          headline = 'S-3ASR of Acme Corp.: effective since 2021-06-01'
      `
      yield* sql`
        insert into registrations (id, ticker, headline, type, form_type, file_no, filed_at, effective_status,
          expiration_date, is_atm, last_updated)
        values ('other', 'ACME', 'Loaded by hand', 'shelf', 'S-3', '333-2', '2021-06-01', true, '2024-06-01', false,
          '2021-06-01')
      `
      yield* ingest()
      assert.deepStrictEqual((yield* read).filter(({ last_updated }) => String(last_updated) > "2022"), ended)
      assert.strictEqual((yield* read).length, 2)
    })))
})

layer(NodeServices.layer, { excludeTestServices: true })("Acceptance times", (it) => {
  const undecided = (number: number, day: string, time = "16:05:00"): Stub.ListedFiling => ({
    accession: accessionOf(number),
    form: "8-K",
    filingDate: day,
    stamp: `${day}T${time}.000Z`,
  })
  const readTimes = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly times: ReadonlyArray<string | null> }>`
      select array[accession_number, filed_at_time::text, created_at::text] as times from news order by accession_number
    `
    return rows.map(({ times }) => times)
  })
  const indexPath = (number: number) =>
    Stub.getFilingDocumentPath(acme, accessionOf(number), `${accessionOf(number)}-index.htm`)

  it.effect("of a company follow from one index page if the hours show nothing, and it is requested once (decision 0102)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, stub } = yield* startMarket
      const filings = [undecided(2, "2026-02-10"), undecided(1, "2026-02-03")]
      publish(acme, filings)
      assert.include((yield* ingest()).paths, indexPath(2))
      // The index page does not exist yet, so the times remain unknown.
      assert.deepStrictEqual(yield* readTimes, [
        [accessionOf(1), null, "2026-02-03 00:00:00"],
        [accessionOf(2), null, "2026-02-10 00:00:00"],
      ])
      stub.responses.set(indexPath(2), Stub.makeIndexPage("2026-02-10 11:05:00"))
      assert.include((yield* ingest()).paths, indexPath(2))
      const known = [
        [accessionOf(1), "2026-02-03 11:05:00", "2026-02-03 11:05:00"],
        [accessionOf(2), "2026-02-10 11:05:00", "2026-02-10 11:05:00"],
      ]
      assert.deepStrictEqual(yield* readTimes, known)
      publish(acme, [undecided(3, "2026-07-07"), ...filings])
      assert.notInclude((yield* ingest()).paths.join(), "-index.htm")
      const added = [accessionOf(3), "2026-07-07 12:05:00", "2026-07-07 11:05:00"]
      assert.deepStrictEqual(yield* readTimes, [...known, added])
    })))

  it.effect("are filled in as soon as the hours of a new filing show the time zone (decision 0102)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish } = yield* startMarket
      const first = undecided(1, "2026-02-03")
      publish(acme, [first])
      yield* ingest()
      publish(acme, [undecided(2, "2026-02-10", "08:30:00"), first])
      assert.notInclude((yield* ingest()).paths.join(), "-index.htm")
      assert.deepStrictEqual(yield* readTimes, [
        [accessionOf(1), "2026-02-03 16:05:00", "2026-02-03 16:05:00"],
        [accessionOf(2), "2026-02-10 08:30:00", "2026-02-10 08:30:00"],
      ])
    })))

  it.effect("are decided by all pages of the company together (decision 0102)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, publish, stub } = yield* startMarket
      publish(acme, [undecided(3, "2026-02-10"), undecided(2, "2026-02-03", "07:00:00")])
      const path = `/submissions/CIK${acme.cik}.json`
      const list = JSON.parse(stub.responses.get(path)?.body ?? "")
      const name = `CIK${acme.cik}-submissions-001.json`
      list.filings.files = [{ name, filingCount: 2, filingFrom: "2025-02-03", filingTo: "2025-02-04" }]
      stub.responses.set(path, { status: 200, type: "application/json", body: JSON.stringify(list) })
      const older = [undecided(1, "2025-02-04", "23:05:00"), undecided(0, "2025-02-03", "01:05:00")]
      stub.responses.set(`/submissions/${name}`, Stub.makeSubmissionsPage(older))
      assert.notInclude((yield* ingest()).paths.join(), "-index.htm")
      assert.deepStrictEqual((yield* readTimes).map(([, time]) => time), [
        "2025-02-02 20:05:00",
        "2025-02-04 18:05:00",
        null,
        "2026-02-10 11:05:00",
      ])
    })))
})
