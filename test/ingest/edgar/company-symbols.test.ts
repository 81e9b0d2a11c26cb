/** Tests the symbols of ingested rows before and after ticker changes are confirmed (D38, decision 0126). */
import { assert, layer } from "@effect/vitest"
import { NodeServices } from "@effect/platform-node"
import { Array as Arr, Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { subtractDays } from "../../../src/ingest/edgar/store/PendingFilings.ts"
import { todayInNewYork } from "../../../src/contract/rules/Dates.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Service from "../../support/Service.ts"
import { readRecording } from "./Recordings.ts"
import { DatabaseUrl, withOwnService } from "../../support/OwnDatabases.ts"

// @module-tag slow

const { insertRows, requestJson, valueAt } = Service

const runIngest = Effect.fnUntraced(function* (args: ReadonlyArray<string>, environment = {}) {
  const ended = yield* runCommandInProcess(args, { DATABASE_URL: yield* DatabaseUrl, ...environment })
  assert.strictEqual(ended.code, 0, ended.err)
  return ended.out
})

/** A company whose symbol changes from IAC to PPLI in the recorded lists. */
const peopleInc = { cik: "0001800227", name: "People Inc", tickers: ["IAC"] }

interface Filings {
  readonly list: ReadonlyArray<Stub.ListedFiling>
  /** The share count in the 10-Q of each day. */
  readonly counts: ReadonlyMap<string, number>
}

/** Builds a news item, a registration, a Form 4 and a 10-Q for each day, newest day first. */
const makeFilings = (days: ReadonlyArray<string>): Filings => {
  const accession = (day: string, kind: number) => `0001800227-26-${day.slice(5).replace("-", "")}0${kind}`
  return {
    list: days.flatMap((filingDate) => [
      { accession: accession(filingDate, 1), form: "8-K", filingDate, primaryDocument: "a.htm" },
      {
        accession: accession(filingDate, 2),
        form: "S-3",
        filingDate,
        primaryDocument: "s.htm",
        fileNumber: `333-${filingDate.slice(5)}`,
      },
      { accession: accession(filingDate, 3), form: "4", filingDate, primaryDocument: "xslF345X05/form4.xml" },
      { accession: accession(filingDate, 4), form: "10-Q", filingDate, primaryDocument: "q.htm" },
    ]),
    counts: new Map(days.map((day, index) => [day, 80_000_000 + index])),
  }
}

const makeFacts = (cik: string, { counts }: Filings) => ({
  status: 200,
  type: "application/json",
  body: JSON.stringify({
    cik: Number(cik),
    entityName: "People Inc",
    facts: {
      dei: {
        EntityCommonStockSharesOutstanding: {
          label: "",
          description: "",
          units: {
            shares: Array.from(counts, ([day, val]) => ({
              end: day,
              val,
              accn: `0001800227-26-${day.slice(5).replace("-", "")}04`,
              fy: 2026,
              fp: "Q1",
              form: "10-Q",
              filed: day,
            })),
          },
        },
      },
    },
  }),
})

/**
 * Starts a stub of the SEC with one company. `publish` publishes filings for the given days, and `ingest` runs the
 * command.
 */
const startCompany = Effect.gen(function* () {
  const stub = yield* Stub.startEdgarStub
  yield* Stub.removeRequestLimit
  const publish = (days: ReadonlyArray<string>) => {
    const filings = makeFilings(days)
    stub.responses.set(`/submissions/CIK${peopleInc.cik}.json`, Stub.makeSubmissions(peopleInc, filings.list))
    stub.responses.set(`/api/xbrl/companyfacts/CIK${peopleInc.cik}.json`, makeFacts(peopleInc.cik, filings))
    for (const { accession, form } of filings.list) {
      if (form !== "4") continue
      const xml = readRecording("ownership/form4-derivative-and-holdings-snow.xml").replace("0001640147", peopleInc.cik)
      stub.responses.set(Stub.getFilingDocumentPath(peopleInc, accession, "form4.xml"), Stub.makeXmlResponse(xml))
    }
  }
  const ingest = (...args: ReadonlyArray<string>) =>
    runIngest(["ingest", "edgar", "--since", "2026-01-01", ...args], {
      EDGAR_BASE_URL: stub.url,
      EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
    })
  return { stub, publish, ingest }
})

const recordedList = (day: string, lastModified: string): Stub.EdgarStubResponse => ({
  status: 200,
  type: "application/json",
  body: readRecording(`tickers/daily/company_tickers_exchange.2026-06-${day}.excerpt.json`),
  headers: { "last-modified": lastModified },
})

/** Lists the symbol and date of every ingested row, by dataset. */
const readSymbols = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = ["news", "registrations", "ownership", "historical_float_pro"]
  const found = yield* Effect.forEach(
    tables,
    (table) =>
      Effect.map(
        sql.unsafe<{ readonly row: string }>(
          `select ticker || ' ' || filed_at as row from ${table} where ticker <> 'OTHER' order by filed_at, ticker`,
        ),
        (rows) => [table, rows.map(({ row }) => row)] as const,
      ),
  )
  return Object.fromEntries(found)
})

const readCurrentSymbols = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly ticker: string }>`
    select 'screener ' || ticker as ticker from screener union all select 'float_outstanding ' || ticker
    from float_outstanding order by 1
  `
  return rows.map(({ ticker }) => ticker)
})

/** Counts each dataset's results for a symbol with `follow_lineage`. */
const followCounts = Effect.fnUntraced(function* (ticker: string) {
  const { ultimate: key } = yield* Service.TestKeys
  return yield* Effect.forEach(
    ["news", "registrations", "historical-float-pro", "ownership"],
    (name) =>
      Effect.gen(function* () {
        const path = `/v1/${name}?ticker=${ticker}&follow_lineage=true&limit=100`
        const { body, text } = yield* requestJson(path, { key })
        const results = valueAt(body, "results")
        if (!Array.isArray(results)) return assert.fail(text)
        return `${name} ${results.length}`
      }),
  )
})

const setStatus = Effect.fnUntraced(function* (status: string, effectiveDate: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`update ticker_changes set status = ${status} where effective_date = ${effectiveDate}::text::date`
})

const change = (old_ticker: string, new_ticker: string, effective_date: string, status: string) => ({
  old_ticker,
  new_ticker,
  effective_date,
  cik: peopleInc.cik,
  status,
})

layer(NodeServices.layer, { excludeTestServices: true })("Rows of a company that changes its symbol", (it) => {
  it.effect(
    "are found once by the new symbol before and after the change is confirmed, and move back (D38)",
    () =>
      withOwnService(Effect.gen(function* () {
        const { ingest, publish, stub } = yield* startCompany
        const today = yield* todayInNewYork
        const [first = "", second = "", changed = "", third = "", fourth = ""] = [40, 30, 25, 20, 10].map((age) =>
          subtractDays(today, age)
        )
        stub.responses.set(Stub.tickerListPath, recordedList("07", "Sun, 07 Jun 2026 10:00:00 GMT"))
        publish([second, first])
        yield* ingest("--tickers", "IAC")
        stub.responses.set(Stub.tickerListPath, recordedList("17", "Wed, 17 Jun 2026 10:00:00 GMT"))
        publish([third, second, first])
        const out = yield* ingest("--tickers", "PPLI")
        assert.include(out, "PPLI is a symbol of People Inc, whose rows carry IAC.")

        const ownership = (yield* readSymbols)["ownership"] ?? []
        assert.isAbove(ownership.length, 0)
        const before = yield* readSymbols
        assert.deepStrictEqual(before["news"]?.length, 12)
        assert.isTrue(Object.values(before).flat().every((row) => row.startsWith("IAC ")))
        const all = ["news 12", "registrations 3", "historical-float-pro 3", "ownership 1"]
        assert.deepStrictEqual(yield* followCounts("PPLI"), all)
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding IAC", "screener IAC"])

        yield* insertRows("ticker_changes", change("IAC", "PPLI", changed, "estimated"))
        assert.deepStrictEqual(yield* readSymbols, before)
        yield* runIngest(["lineage", "confirm", "IAC", "PPLI", changed])
        const after = yield* readSymbols
        for (const [table, rows] of Object.entries(before)) {
          const expected = rows.map((row) => row.slice(4) >= changed ? row.replace("IAC", "PPLI") : row)
          assert.deepStrictEqual(after[table], expected, table)
        }
        // The ownership list returns the newest filing for each symbol.
        const followed = [...all.slice(0, 3), "ownership 2"]
        assert.deepStrictEqual(yield* followCounts("PPLI"), followed)
        assert.deepStrictEqual(yield* followCounts("IAC"), followed)
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding PPLI", "screener PPLI"])

        publish([fourth, third, second, first])
        yield* ingest("--tickers", "PPLI")
        const later = yield* readSymbols
        assert.deepStrictEqual(later["news"]?.slice(0, 12), after["news"])
        assert.deepStrictEqual(later["news"]?.slice(12), Arr.replicate(`PPLI ${fourth}`, 4))
        assert.deepStrictEqual(later["registrations"]?.length, 4)
        assert.deepStrictEqual(later["historical_float_pro"]?.length, 4)
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding PPLI", "screener PPLI"])

        yield* setStatus("reverted", changed)
        const reverted = yield* readSymbols
        for (const [table, rows] of Object.entries(later)) {
          assert.deepStrictEqual(reverted[table], rows.map((row) => row.replace("PPLI", "IAC")), table)
        }
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding IAC", "screener IAC"])
      })),
    60_000,
  )

  it.effect("never carry a symbol on a day on which it still was that of another company (D38)", () =>
    withOwnService(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const listPeriods = (former_tickers: ReadonlyArray<string>) => {
        const company = { cik: peopleInc.cik, tickers: ["META"], primary_ticker: "META", former_tickers }
        return Effect.map(
          sql<{ readonly periods: unknown }>`
            select edgar_list_periods(company, '2026-06-01') as periods
            from jsonb_populate_record(null::edgar_companies, ${JSON.stringify(company)}::text::jsonb) as company
          `,
          ([row]) => row?.periods,
        )
      }
      const freed = { ...change("META", "METV", "2022-01-31", "confirmed"), cik: "0001976322" }
      yield* insertRows("ticker_changes", freed)
      assert.deepStrictEqual(yield* listPeriods(["FB"]), [
        { ticker: "FB", until: "2022-01-31" },
        { ticker: "META", from: "2022-01-31" },
      ])
      assert.deepStrictEqual(yield* listPeriods([]), [{ ticker: "META" }], "no other symbol is known")
      yield* insertRows("ticker_changes", change("FB", "META", "2022-06-09", "confirmed"))
      assert.deepStrictEqual(yield* listPeriods(["FB"]), [
        { ticker: "FB", until: "2022-06-09" },
        { ticker: "META", from: "2022-06-09" },
      ])
    })))

  it.effect(
    "follow it back and forth, in advance and when it is removed (D38, D19)",
    () =>
      withOwnService(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ingest, publish, stub } = yield* startCompany
        const today = yield* todayInNewYork
        const [first = "", toNew = "", second = "", toOld = "", third = ""] = [40, 35, 30, 25, 20].map((age) =>
          subtractDays(today, age)
        )
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([peopleInc]))
        publish([third, second, first])
        yield* ingest("--tickers", "IAC")
        const original = yield* readSymbols
        yield* insertRows(
          "ticker_changes",
          change("IAC", "PPLI", toNew, "confirmed"),
          change("PPLI", "IAC", toOld, "confirmed"),
        )
        const there = (yield* readSymbols)["registrations"]
        assert.deepStrictEqual(there, [`IAC ${first}`, `PPLI ${second}`, `IAC ${third}`])
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding IAC", "screener IAC"])
        yield* sql`truncate ticker_changes`
        assert.deepStrictEqual(yield* readSymbols, original)

        const tomorrow = subtractDays(today, -1)
        yield* insertRows("ticker_changes", change("IAC", "PPLI", tomorrow, "confirmed"))
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding IAC", "screener IAC"])
        yield* sql`select edgar_place_due_companies(${tomorrow}::text::date)`
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding PPLI", "screener PPLI"])
        assert.deepStrictEqual(yield* readSymbols, original)
        yield* sql`delete from ticker_changes`
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding IAC", "screener IAC"])
      })),
    60_000,
  )

  it.effect(
    "move when a file of changes is loaded; other sources' rows stay, and no row is doubled (D38)",
    () =>
      withOwnService(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ingest, publish, stub } = yield* startCompany
        const today = yield* todayInNewYork
        const [first = "", changed = "", second = ""] = [40, 35, 30].map((age) => subtractDays(today, age))
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([peopleInc]))
        publish([second, first])
        yield* ingest("--tickers", "IAC")
        // Copies two ingested rows to the new symbol, as if they came from another source's file.
        for (const table of ["ownership", "historical_float_pro"]) {
          yield* sql.unsafe(`create table copy as select * from ${table} where filed_at = '${second}'`)
          yield* sql`update copy set ticker = 'PPLI', recorded_in = null`
          yield* sql.unsafe(`insert into ${table} select * from copy`)
          yield* sql`drop table copy`
        }
        yield* insertRows("screener", {
          ticker: "PPLI",
          is_adr: false,
          num_gaps: 7,
          pending_s1: false,
          price: "12.5",
          last_updated: "2026-01-01 00:00:00",
          outstanding: 7_000_000,
        })
        yield* sql`
          update screener set num_runners = 3, price = 99, website = 'https://example.com' where ticker = 'IAC'
        `
        yield* insertRows("news", {
          id: "vendor-1",
          ticker: "IAC",
          form_type: "news",
          filed_at: second,
          created_at: `${second} 10:00:00`,
          last_updated: `${second} 10:00:00`,
        })
        const before = yield* readSymbols
        const file = `${today}.csv`
        const rows = `old_ticker,new_ticker,effective_date,cik,company_name,status,source\n` +
          `IAC,PPLI,${changed},${peopleInc.cik},People Inc,confirmed,test\n`
        yield* Effect.acquireUseRelease(
          Effect.promise(() => import("node:fs/promises")),
          (fs) => {
            const path = `/tmp/tickerline-${process.pid}-${file}`
            return Effect.andThen(
              Effect.promise(() => fs.writeFile(path, rows)),
              runIngest(["load", "ticker-changes", path]),
            ).pipe(Effect.ensuring(Effect.promise(() => fs.rm(path))))
          },
          () => Effect.void,
        )
        const after = yield* readSymbols
        for (const table of ["ownership", "historical_float_pro", "registrations"]) {
          const expected = Array.from(
            new Set((before[table] ?? []).map((row) => row.endsWith(second) ? `PPLI ${second}` : row)),
          )
          assert.deepStrictEqual(Array.from(new Set(after[table])), expected)
        }
        const [holders] = yield* sql<{ readonly count: number; readonly filings: number }>`
        select count(*)::int as count, count(distinct (filed_at))::int as filings from ownership
      `
        assert.strictEqual((before["ownership"]?.length ?? 0) / 3 * 2, holders?.count)
        assert.strictEqual(after["historical_float_pro"]?.length, 2)
        const vendor = yield* sql<{ readonly ticker: string }>`select ticker from news where id = 'vendor-1'`
        assert.strictEqual(vendor[0]?.ticker, "IAC")
        const [screened] = yield* sql`
        select ticker, cik, num_gaps::int, num_runners::int, price::float8, website from screener
      `
        assert.deepStrictEqual({ ...screened }, {
          ticker: "PPLI",
          cik: peopleInc.cik,
          num_gaps: 7,
          num_runners: 3,
          price: 12.5,
          website: "https://example.com",
        })
        const history = yield* sql`select from history.news where ticker = 'IAC' and replaced_in is not null`
        assert.isAbove(history.length, 0)
        // The next run replaces the older count of the other source's row, although there is no new filing.
        const readCount = sql`select outstanding::int, num_gaps::int from screener`.values
        assert.deepStrictEqual(yield* readCount, [[7_000_000, 7]])
        yield* ingest("--tickers", "PPLI")
        assert.deepStrictEqual(yield* readCount, [[80_000_000, 7]])
      })),
    60_000,
  )
})

const alphabet = { cik: "0001652044", name: "Alphabet Inc.", tickers: ["GOOGL", "GOOG", "GOOGM-PA"] }
const berkshire = { cik: "0001067983", name: "BERKSHIRE HATHAWAY INC", tickers: ["BRK-B", "BRK-A"] }

/** Starts a stub that publishes a ticker list of the given companies, and one 8-K per company and day. */
const startList = Effect.gen(function* () {
  const stub = yield* Stub.startEdgarStub
  yield* Stub.removeRequestLimit
  let version = 0
  const list = (companies: ReadonlyArray<Stub.ListedCompany>) => {
    version += 1
    const lastModified = new Date(Date.UTC(2026, 5, version)).toUTCString()
    stub.responses.set(Stub.tickerListPath, Stub.makeTickerList(companies, lastModified))
  }
  const publish = (company: Stub.ListedCompany, ...days: ReadonlyArray<string>) =>
    stub.responses.set(
      `/submissions/CIK${company.cik}.json`,
      Stub.makeSubmissions(
        company,
        days.map((filingDate) => ({
          accession: `${company.cik}-26-${filingDate.slice(5).replace("-", "")}01`,
          form: "8-K",
          filingDate,
        })),
      ),
    )
  const ingest = (...args: ReadonlyArray<string>) =>
    runIngest(["ingest", "edgar", "--since", "2026-01-01", ...args], {
      EDGAR_BASE_URL: stub.url,
      EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
    })
  /** Backdates the stored copies of the ticker list, and what the ingest concluded from them. */
  const age = Effect.fnUntraced(function* (days: number) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`update edgar_ticker_lists set day = day - ${days}::int`
    yield* sql`
      update edgar_companies set listed_on = listed_on - ${days}::int,
        primary_listed_on = primary_listed_on - ${days}::int
    `
  })
  return { stub, list, publish, ingest, age }
})

const request = Effect.fnUntraced(function* (path: string) {
  const { ultimate: key } = yield* Service.TestKeys
  const { body, headers, text } = yield* requestJson(path, { key })
  const results = valueAt(body, "results")
  if (!Array.isArray(results)) return assert.fail(text)
  return {
    tickers: results.map((row) => valueAt(row, "ticker")),
    ids: results.map((row) => valueAt(row, "id")),
    primary: headers["x-primary-tickers"],
  }
})

layer(NodeServices.layer, { excludeTestServices: true })("Symbols of a company", (it) => {
  it.effect(
    "are all answered with its rows, in either spelling, however the list is sorted (D38, D41, pitfall 6)",
    () =>
      withOwnService(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ingest, list, publish } = yield* startList
        const today = yield* todayInNewYork
        const [first, second] = [subtractDays(today, 20), subtractDays(today, 10)]
        list([alphabet, berkshire])
        publish(alphabet, first)
        publish(berkshire, first)
        const out = yield* ingest("--tickers", "GOOG,BRK.B")
        assert.include(out, "GOOG is a symbol of Alphabet Inc., whose rows carry GOOGL.")
        assert.notInclude(out, "BRK")
        list([{ ...alphabet, tickers: ["GOOG", "GOOGL"] }, { ...berkshire, tickers: ["BRK-A", "BRK-B"] }])
        publish(alphabet, second, first)
        publish(berkshire, second, first)
        yield* ingest("--tickers", "GOOGL,BRK-A")
        for (const path of ["/v1/news?limit=100", "/v1/screener?limit=100"]) {
          const primary = yield* request(`${path}&ticker=GOOGL,BRK-B`)
          assert.strictEqual(primary.primary, undefined)
          assert.sameMembers(Array.from(new Set(primary.tickers)), ["GOOGL", "BRK-B"])
          const classes = yield* request(`${path}&ticker=GOOG,BRK.B`)
          assert.strictEqual(classes.primary, "GOOG=GOOGL, BRK.B=BRK-B")
          assert.deepStrictEqual(classes.tickers, primary.tickers)
          assert.deepStrictEqual(
            (yield* request(`${path}&ticker=GOOG,BRK.A&follow_lineage=true`)).tickers,
            primary.tickers,
          )
        }
        assert.strictEqual((yield* request("/v1/news?ticker=GOOG")).tickers.length, 2)
        assert.deepStrictEqual((yield* request("/v1/gap-stats?ticker=GOOG")).primary, undefined)

        // A symbol keeps the rows that another source has loaded for it. Rows ingested from EDGAR for the symbol may
        // describe a share class.
        yield* insertRows("float_outstanding", {
          ticker: "GOOG",
          outstanding: "5",
          is_adr: false,
          last_updated: `${first} 00:00:00`,
          source: [`https://data.sec.gov/submissions/CIK${alphabet.cik}.json`],
        })
        yield* insertRows("ticker_changes", {
          old_ticker: "GOOGX",
          new_ticker: "GOOGL",
          effective_date: second,
          cik: alphabet.cik,
          status: "confirmed",
        })
        assert.deepStrictEqual((yield* request("/v1/float-outstanding?ticker=GOOG")).tickers, ["GOOG", "GOOGL"])
        const dated = yield* sql<{ readonly ticker: string }>`
        select ticker from news where id like '0001652044%' order by filed_at
      `
        assert.deepStrictEqual(dated.map(({ ticker }) => ticker), ["GOOGX", "GOOGL"])
        const { ultimate: key } = yield* Service.TestKeys
        const file = yield* requestJson("/v1/news?ticker=GOOG&follow_lineage=true&limit=all&format=ndjson", { key })
        assert.strictEqual(file.text.trim().split("\n").length, 2)
      })),
    60_000,
  )

  it.effect(
    "keep the spelling that the database has, whatever the list and the options have (D41)",
    () =>
      withOwnService(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { age, ingest, list, publish } = yield* startList
        const day = subtractDays(yield* todayInNewYork, 20)
        yield* insertRows(
          "daily_prices",
          { ticker: "BRK.B", date: day, close: "400" },
          { ticker: "BRK.A", date: day, close: "600000" },
        )
        list([alphabet, berkshire])
        publish(berkshire, day)
        for (const symbol of ["BRK-B", "BRK.B", "BRK-A"]) {
          yield* ingest("--tickers", symbol)
          // Ages the data enough for the ingest to conclude that the list has dropped a symbol.
          yield* age(4)
        }
        yield* ingest("--tickers", "BRK.B")
        const [company] = yield* sql`select tickers, primary_ticker, former_tickers from edgar_companies`
        assert.deepStrictEqual(company, { tickers: ["BRK.B", "BRK.A"], primary_ticker: "BRK.B", former_tickers: [] })
        for (const path of ["/v1/news?limit=100", "/v1/screener?limit=100"]) {
          for (const symbol of ["BRK.B", "BRK-B", "BRK.A", "BRK-A"]) {
            const { primary, tickers } = yield* request(`${path}&ticker=${symbol}`)
            assert.deepStrictEqual(tickers, ["BRK.B"])
            if (symbol !== "BRK.B") assert.include(primary, `${symbol}=BRK.B`)
          }
        }
        assert.deepStrictEqual(yield* sql`select from ticker_changes`, [])
      })),
    60_000,
  )

  it.effect(
    "stay until a new one has lasted, and their rows leave current datasets once no security trades (pitfall 2)",
    () =>
      withOwnService(Effect.gen(function* () {
        const { age, ingest, list, publish } = yield* startList
        const today = yield* todayInNewYork
        const day = subtractDays(today, 20)
        const renamed = { ...alphabet, tickers: ["GGL", "GGLWW"] }
        list([alphabet, berkshire])
        publish(alphabet, day)
        publish(berkshire, day)
        yield* ingest("--tickers", "GOOGL,BRK-B")
        // For a week, the list has another symbol for Alphabet and does not contain Berkshire.
        const seven = { cik: "0000000007", name: "Seven", tickers: ["SEVN", "SEVNW", "SEVNU"] }
        list([renamed, seven])
        for (const days of [1, 4]) {
          yield* age(days)
          yield* ingest("--tickers", "GGL")
          assert.deepStrictEqual((yield* request("/v1/screener?limit=100")).tickers, ["BRK-B", "GOOGL"])
          assert.deepStrictEqual((yield* request("/v1/screener?ticker=GGL")).tickers, ["GOOGL"])
        }
        yield* age(3)
        yield* ingest("--tickers", "GGL")
        yield* age(1)
        yield* ingest("--tickers", "GGL")
        assert.deepStrictEqual((yield* request("/v1/screener?limit=100")).tickers, ["GGL"])
        assert.deepStrictEqual((yield* request("/v1/news?ticker=GOOGL")).tickers, ["GGL"])
        assert.deepStrictEqual((yield* request("/v1/news?ticker=BRK-B")).tickers, ["BRK-B"])

        list([renamed, berkshire, seven])
        yield* age(1)
        yield* ingest("--tickers", "GGL,BRK-B")
        assert.deepStrictEqual((yield* request("/v1/screener?limit=100")).tickers, ["BRK-B", "GGL"])
      })),
    60_000,
  )

  it.effect(
    "are never taken from a single copy of the list (pitfall 2)",
    () =>
      withOwnService(Effect.gen(function* () {
        const { age, ingest, list, publish } = yield* startList
        const day = subtractDays(yield* todayInNewYork, 20)
        const [first, second] = [{ ...alphabet, tickers: ["GOOGL"] }, { ...berkshire, tickers: ["BRK-B"] }]
        list([first, second])
        publish(first, day)
        publish(second, day)
        yield* ingest("--tickers", "GOOGL,BRK-B", "--only", "screener")
        const rename = (one: string, other: string) =>
          list([{ ...first, tickers: [one] }, { ...second, tickers: [other] }])
        // Both companies have new symbols, but the copy that proves it, which is read twice, confuses the two.
        for (const [one, other] of [["AAA", "BBB"], ["AAA", "BBB"], ["AAA", "BBB"], ["BBB", "AAA"]] as const) {
          rename(one, other)
          yield* age(3)
          for (const again of [1, 2]) {
            yield* ingest("--tickers", "AAA,BBB", "--only", "screener")
            assert.deepStrictEqual(
              (yield* request("/v1/screener?limit=100")).tickers,
              ["BRK-B", "GOOGL"],
              `run ${again}`,
            )
          }
        }
        for (const expected of [["BRK-B", "GOOGL"], ["AAA", "BBB"]]) {
          rename("AAA", "BBB")
          yield* age(1)
          yield* ingest("--tickers", "AAA,BBB", "--only", "screener")
          assert.deepStrictEqual((yield* request("/v1/screener?limit=100")).tickers, expected)
        }
        const { body } = yield* requestJson("/v1/screener?ticker=AAA", { key: (yield* Service.TestKeys).ultimate })
        assert.strictEqual(valueAt(body, "results", 0, "company"), alphabet.name)
      })),
    60_000,
  )

  it.effect(
    "leave current datasets at once if a Form 25 explains why the list lacks the company (D38)",
    () =>
      withOwnService(Effect.gen(function* () {
        const { age, ingest, list, stub } = yield* startList
        const today = yield* todayInNewYork
        const filed = (company: Stub.ListedCompany, form: string, day: string) =>
          stub.responses.set(
            `/submissions/CIK${company.cik}.json`,
            Stub.makeSubmissions(company, [
              { accession: `0001354457-26-${company.cik.slice(4)}`, form, filingDate: day, fileNumber: "001-39244" },
            ]),
          )
        // A Form 25 may be about other securities, such as Apple's notes, so an old notice does not explain why the
        // list lacks the company.
        const other = { cik: "0000000007", name: "Seven", tickers: ["SEVN"] }
        const silent = { cik: "0000000008", name: "Eight", tickers: ["EIGH"] }
        list([alphabet, berkshire, other, silent])
        filed(alphabet, "8-K", subtractDays(today, 5))
        filed(berkshire, "25-NSE", subtractDays(today, 5))
        filed(other, "25-NSE", subtractDays(today, 60))
        filed(silent, "8-K", subtractDays(today, 5))
        yield* ingest("--tickers", "GOOGL,BRK-B,SEVN,EIGH", "--only", "news,screener")
        assert.deepStrictEqual((yield* request("/v1/screener?limit=100")).tickers, ["BRK-B", "EIGH", "GOOGL", "SEVN"])
        // The list needs as many rows as before, because a shorter list is refused.
        const others = { cik: "0000000009", name: "Nine", tickers: ["NINE", "NINEW", "NINEU", "NINER"] }
        list([alphabet, others])
        yield* age(1)
        yield* ingest("--tickers", "GOOGL", "--only", "news,screener")
        assert.deepStrictEqual((yield* request("/v1/screener?limit=100")).tickers, ["EIGH", "GOOGL", "SEVN"])
        assert.deepStrictEqual((yield* request("/v1/news?ticker=BRK-B")).tickers, ["BRK-B"])

        list([alphabet, berkshire, others])
        yield* age(1)
        yield* ingest("--tickers", "GOOGL,BRK-B", "--only", "news,screener")
        assert.deepStrictEqual((yield* request("/v1/screener?ticker=BRK-B")).tickers, ["BRK-B"])
      })),
    60_000,
  )

  it.effect(
    "pass to a new holding company, which keeps the known count (D38)",
    () =>
      withOwnService(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ingest, publish, stub } = yield* startCompany
        const today = yield* todayInNewYork
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([peopleInc]))
        publish([subtractDays(today, 40)])
        yield* ingest("--tickers", "IAC")
        const holding = { cik: "0009999999", name: "People Holding", tickers: ["IAC"] }
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([holding], "Thu, 18 Jun 2026 10:00:00 GMT"))
        stub.responses.set(
          `/submissions/CIK${holding.cik}.json`,
          Stub.makeSubmissions(holding, [
            { accession: "0009999999-26-000001", form: "8-K12B", filingDate: subtractDays(today, 5) },
          ]),
        )
        stub.responses.set(`/api/xbrl/companyfacts/CIK${holding.cik}.json`, {
          status: 200,
          type: "application/json",
          body: JSON.stringify({ cik: 9999999, entityName: "People Holding", facts: { dei: {} } }),
        })
        yield* ingest("--tickers", "IAC")
        for (let age = 1; age < 12; age += 1) {
          yield* sql`
          insert into edgar_ticker_lists (day, row_count, entries)
          select ${subtractDays(today, age)}::text::date, row_count, entries from edgar_ticker_lists limit 1
        `
        }
        yield* sql`update edgar_companies set listed_on = listed_on - 20 where cik = ${peopleInc.cik}`
        yield* ingest("--tickers", "IAC")
        const counts = yield* sql`select ticker, company, outstanding::int from float_outstanding`
        assert.deepStrictEqual(counts.map((row) => ({ ...row })), [
          { ticker: "IAC", company: "People Holding", outstanding: 80_000_000 },
        ])
        assert.deepStrictEqual(yield* readCurrentSymbols, ["float_outstanding IAC", "screener IAC"])
        assert.includeMembers((yield* request("/v1/news?ticker=IAC&limit=100")).ids, [
          "0009999999-0009999999-26-000001",
          `${peopleInc.cik}-0001800227-26-${subtractDays(today, 40).slice(5).replace("-", "")}01`,
        ])
      })),
    60_000,
  )

  it.effect.each(["before", "after"])(
    "pass their count to a holding company with another symbol, confirmed %s its first filings are loaded (D38)",
    (moment) =>
      withOwnService(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ingest, publish, stub } = yield* startCompany
        const today = yield* todayInNewYork
        const [first, changed, second] = [subtractDays(today, 40), subtractDays(today, 10), subtractDays(today, 5)]
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([peopleInc]))
        publish([first])
        yield* ingest("--tickers", "IAC")
        // The next list is that of the next day.
        yield* sql`update edgar_companies set listed_on = listed_on - 1, primary_listed_on = primary_listed_on - 1`
        const holding = { cik: "0009999999", name: "People Holding", tickers: ["IACH"] }
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([holding], "Thu, 18 Jun 2026 10:00:00 GMT"))
        stub.responses.set(
          `/submissions/CIK${holding.cik}.json`,
          Stub.makeSubmissions(holding, [{ accession: "0009999999-26-000001", form: "8-K", filingDate: second }]),
        )
        const confirm = insertRows("ticker_changes", {
          ...change("IAC", "IACH", changed, "confirmed"),
          cik: holding.cik,
        })
        if (moment === "before") yield* confirm
        yield* ingest("--tickers", "IACH")
        if (moment === "after") {
          yield* confirm
          yield* sql`select edgar_remove_delisted(${[peopleInc.cik]}::text[])`
        }
        const counts = yield* sql`
          select screener.company, screener.outstanding::int as screened, counted.outstanding::int, filed_at::text
          from screener join float_outstanding as counted using (ticker) where ticker = 'IACH'
        `
        assert.deepStrictEqual(counts.map((row) => ({ ...row })), [
          { company: "People Holding", screened: 80_000_000, outstanding: 80_000_000, filed_at: first },
        ])
      })),
    60_000,
  )

  it.effect.each(["years before", "a day before", "before a report", "before a list with both"])(
    "pass no count to a company that gave up the symbol %s (D38)",
    (moment) =>
      withOwnService(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ingest, publish, stub } = yield* startCompany
        const today = yield* todayInNewYork
        const earlier = { cik: "0009999999", name: "Earlier Inc", tickers: ["NNN"] }
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([peopleInc, earlier]))
        publish([subtractDays(today, 40)])
        stub.responses.set(
          `/submissions/CIK${earlier.cik}.json`,
          Stub.makeSubmissions(earlier, [{ accession: "0009999999-26-000001", form: "8-K", filingDate: today }]),
        )
        const givenUp = moment === "years before"
          ? "2022-03-01"
          : subtractDays(today, moment === "before a report" ? 45 : 31)
        yield* insertRows("ticker_changes", { ...change("IAC", "NNN", givenUp, "confirmed"), cik: earlier.cik })
        if (moment === "a day before") {
          yield* insertRows("ticker_changes", change("OLD", "IAC", subtractDays(today, 30), "confirmed"))
        }
        yield* ingest("--tickers", "IAC,NNN")
        yield* sql`select edgar_remove_delisted(${[peopleInc.cik]}::text[])`
        const counts = yield* sql`
        select ticker, counted.company, counted.outstanding, screener.outstanding as listed
        from screener full join float_outstanding as counted using (ticker)
      `
        assert.deepStrictEqual(counts.map((row) => ({ ...row })), [
          { ticker: "NNN", company: null, outstanding: null, listed: null },
        ])
      })),
  )

  it.effect.each(["screener,float_outstanding", "float_outstanding"])(
    "keep an exchange and an industry that the SEC no longer names: %s (D38)",
    (datasets) =>
      withOwnService(Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ingest, publish, stub } = yield* startCompany
        const today = yield* todayInNewYork
        const [first, second] = [subtractDays(today, 40), subtractDays(today, 10)]
        const replaceIn = (path: string, from: string, to: string) => {
          const response = stub.responses.get(path)
          if (response?.body.includes(from) !== true) return assert.fail(path)
          stub.responses.set(path, { ...response, body: response.body.replace(from, to) })
        }
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([peopleInc]))
        publish([first])
        yield* ingest("--tickers", "IAC", "--only", datasets)
        stub.responses.set(Stub.tickerListPath, Stub.makeTickerList([peopleInc], "Thu, 18 Jun 2026 10:00:00 GMT"))
        publish([second, first])
        replaceIn(Stub.tickerListPath, '"Nasdaq"', "null")
        replaceIn(`/submissions/CIK${peopleInc.cik}.json`, "Services-Prepackaged Software", "")
        yield* ingest("--tickers", "IAC", "--only", datasets)
        for (const table of datasets.split(",")) {
          const [row] = yield* sql`select exchange, industry, last_updated::date::text as day from ${sql(table)}`
          assert.deepStrictEqual(
            { ...row },
            { exchange: "Nasdaq", industry: "Services-Prepackaged Software", day: second },
            table,
          )
        }
      })),
    60_000,
  )

  it.effect(
    "answer for the company although the list has dropped or renamed them, also in the timeline (pitfall 6)",
    () =>
      withOwnService(Effect.gen(function* () {
        const { ultimate: key } = yield* Service.TestKeys
        const { age, ingest, list, publish } = yield* startList
        const day = subtractDays(yield* todayInNewYork, 20)
        const assertSymbolsLeadToRows = Effect.fnUntraced(function* (...aliases: ReadonlyArray<string>) {
          for (const alias of aliases) {
            for (const name of ["news", "screener"]) {
              // A request sees a change within a second (D17).
              const { primary, tickers } = yield* Effect.repeat(request(`/v1/${name}?ticker=${alias}`), {
                until: (response) => response.primary !== undefined,
                schedule: Schedule.spaced("100 millis"),
                times: 600,
              })
              assert.deepStrictEqual([tickers, primary], [["GOOGL"], `${alias}=GOOGL`], `${name} of ${alias}`)
            }
            const events = yield* requestJson(`/v1/timeline?ticker=${alias}`, { key })
            assert.strictEqual(events.headers["x-primary-tickers"], `${alias}=GOOGL`)
            const primary = yield* requestJson("/v1/timeline?ticker=GOOGL", { key })
            assert.isNotEmpty(valueAt(primary.body, "results"), primary.text)
            assert.deepStrictEqual(valueAt(events.body, "results"), valueAt(primary.body, "results"))
          }
        })
        // Each list has the same number of rows, because a shorter list is refused.
        const classes = [["GOOGL", "GOOG"], ["GOOGL", "GGLC"], ["GOOGL"]]
        for (const [index, tickers] of classes.entries()) {
          const others = ["BRK-B", "BRK-A"].slice(0, 3 - tickers.length)
          list([{ ...alphabet, tickers }, { ...berkshire, tickers: others }])
          if (index === 0) publish(alphabet, day)
          else yield* age(1)
          yield* ingest("--tickers", "GOOGL")
          yield* assertSymbolsLeadToRows("GOOG", ...(index === 0 ? [] : ["GGLC"]))
        }
      })),
    60_000,
  )

  it.effect(
    "choose the company for an ingest although the list has dropped them (D38)",
    () =>
      withOwnService(Effect.gen(function* () {
        const { age, ingest, list, publish } = yield* startList
        const today = yield* todayInNewYork
        const [changed, first, second] = [subtractDays(today, 30), subtractDays(today, 20), subtractDays(today, 10)]
        list([alphabet])
        publish(alphabet, first)
        yield* ingest("--tickers", "GOOGL")
        list([{ ...alphabet, tickers: ["GGL", "GGLWW", "GGLWS"] }])
        yield* insertRows("ticker_changes", { ...change("GOOGL", "GGL", changed, "confirmed"), cik: alphabet.cik })
        // At first, GOOGL is the primary symbol although the list lacks it. Later, it is a former symbol.
        for (const days of [1, 4, 3, 1]) {
          yield* age(days)
          yield* ingest("--tickers", "GOOGL")
          yield* ingest("--tickers", "GOOG")
        }
        publish(alphabet, second, first)
        yield* ingest("--tickers", "GOOGL")
        assert.deepStrictEqual((yield* request("/v1/news?ticker=GGL")).tickers, ["GGL", "GGL"])
      })),
    60_000,
  )

  it.effect("change no version of a dataset once their rows have left it (D17)", () =>
    withOwnService(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { age, ingest, list, publish, stub } = yield* startList
      const day = subtractDays(yield* todayInNewYork, 5)
      list([alphabet, berkshire])
      publish(alphabet, day)
      stub.responses.set(
        `/submissions/CIK${berkshire.cik}.json`,
        Stub.makeSubmissions(berkshire, [{ accession: "0001354457-26-000001", form: "25-NSE", filingDate: day }]),
      )
      yield* ingest("--tickers", "GOOGL,BRK-B", "--only", "news,screener")
      list([alphabet, { cik: "0000000009", name: "Nine", tickers: ["NINE", "NINEW"] }])
      const ingestLater = Effect.andThen(age(1), ingest("--tickers", "GOOGL", "--only", "news,screener"))
      yield* ingestLater
      assert.deepStrictEqual((yield* request("/v1/screener?limit=100")).tickers, ["GOOGL"])
      const readVersions = sql`select * from dataset_versions order by 1`
      const versions = yield* readVersions
      yield* ingestLater
      assert.deepStrictEqual(yield* readVersions, versions)
    })))
})
