/** Runs `ingest edgar` against a server that replays the SEC's responses (decision 0105). */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { EdgarClient, EdgarUnavailable } from "../../../src/ingest/edgar/fetch/EdgarClient.ts"
import { runIngest } from "../../../src/ingest/edgar/schedule/EdgarIngest.ts"
import { IngestReport } from "../../../src/ingest/edgar/schedule/IngestReport.ts"
import { ingestedDatasets } from "../../../src/ingest/edgar/schedule/IngestedDatasets.ts"
import { subtractDays } from "../../../src/ingest/edgar/store/PendingFilings.ts"
import { todayInNewYork } from "../../../src/contract/rules/Dates.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { DatabaseUrl, withOwnDatabase } from "../../support/OwnDatabases.ts"

// @module-tag slow

const { stubCompanies } = Stub

/** Starts a stub of the SEC with several companies. `ingest` runs the command and also returns the requested paths. */
const startMarket = Effect.gen(function* () {
  const stub = yield* Stub.startEdgarStub
  yield* Stub.removeRequestLimit
  Stub.addCompaniesAndFilings(stub)
  const environment = {
    DATABASE_URL: yield* DatabaseUrl,
    EDGAR_BASE_URL: stub.url,
    EDGAR_USER_AGENT: "Acme Inc ops@acme.example",
  }
  const ingest = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
    const before = stub.requests.length
    const ended = yield* runCommandInProcess(["ingest", "edgar", ...args], environment)
    return { ...ended, paths: stub.requests.slice(before).map(({ path }) => path) }
  })
  return { stub, environment, ingest }
})

/** Asserts that the command succeeded. */
const assertSuccess = <Ended extends { readonly code: number | null; readonly err: string }>(ended: Ended) => {
  assert.strictEqual(ended.code, 0, ended.err)
  return ended
}

/** Reads all rows of all ingested tables. */
const readTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* Effect.forEach(ingestedDatasets, (table) =>
    Effect.map(
      sql.unsafe<{ readonly row: object }>(`select to_jsonb(t) as row from ${table} as t order by to_jsonb(t)::text`),
      (rows) => [table, rows.map(({ row }) => row)] as const,
    ))
  return Object.fromEntries(tables)
})

const readRuns = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{
    readonly status: string
    readonly error: string | null
    readonly documents: number
    readonly rows: number
    readonly rejections: number
  }>`
    select status, error, documents::float8, rows::float8, rejections::float8 from edgar_runs order by run_id
  `
})

const five = ["--tickers", "AAPL,IMNN,SMEGF,SNOW,ZIVO", "--since", "2026-02-18"]

layer(NodeServices.layer, { excludeTestServices: true })("The ingest", (it) => {
  it.effect("loads filings, holders and share counts with their sources, and sets damaged documents aside (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ingest } = yield* startMarket
      const { code, err, out } = yield* ingest(...five)
      const tables = yield* readTables
      const counts = Object.fromEntries(Object.entries(tables).map(([table, rows]) => [table, rows.length]))
      for (const table of ["news", "registrations", "float_outstanding", "historical_float_pro", "ownership"]) {
        assert.isAbove(counts[table] ?? 0, 0, table)
        assert.include(out, `${table}: ${counts[table]} row`)
      }
      assert.strictEqual(counts["screener"], 5)
      for (const [table, rows] of Object.entries(tables)) {
        for (const row of rows) {
          assert.match(JSON.stringify(row), /"source(_links)?": ?\["https:\/\/(www|data)\.sec\.gov\//, table)
        }
      }
      const holders = yield* sql`select distinct accession_number from ownership where ticker = 'SNOW'`
      assert.strictEqual(holders.length, 2)
      const [rejection] = yield* sql<{ readonly url: string; readonly reason: string }>`
        select url, reason from edgar_work where url like '%/1101026/%'
      `
      assert.strictEqual(
        rejection?.url,
        "https://www.sec.gov/Archives/edgar/data/1101026/000110102626000001/primary_doc.xml",
      )
      assert.include(err, `${rejection?.url}: ${rejection?.reason}`)
      const [run] = yield* readRuns
      const loaded = Object.values(counts).reduce((sum, count) => sum + count, 0)
      // The server lacks most of Apple's forms.
      assert.strictEqual(code, 1)
      assert.match(err, /The data is incomplete, because \d+ of \d+ documents were set aside\./)
      assert.deepInclude(run, { status: "incomplete", rows: loaded })
      assert.match(run?.error ?? "", /^\d+ of \d+ documents were set aside$/)
      assert.match(out, new RegExp(`5 companies, ${run?.documents} documents, ${run?.rejections} set aside, in`))
    })))

  it.effect("adds nothing if it is repeated, and then requests only lists and rejected documents (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest } = yield* startMarket
      assertSuccess(yield* ingest("--tickers", "SMEGF,SNOW,ZIVO", "--since", "2026-01-01"))
      const before = yield* readTables
      const { out, paths } = assertSuccess(yield* ingest("--tickers", "SMEGF,SNOW,ZIVO", "--since", "2026-01-01"))
      assert.deepStrictEqual(yield* readTables, before)
      assert.sameMembers(paths, [
        Stub.tickerListPath,
        Stub.getFilingDocumentPath(stubCompanies.zivo, "0001101026-26-000001", "primary_doc.xml"),
        ...["siemensEnergy", "snowflake", "zivo"].map((name) =>
          `/submissions/CIK${Object.entries(stubCompanies).find(([key]) => key === name)?.[1].cik}.json`
        ),
      ])
      assert.notMatch(out, /[1-9]\d* added/)
    })))

  it.effect("requests older filings if a later run has an earlier --since (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest } = yield* startMarket
      assertSuccess(yield* ingest("--tickers", "SNOW", "--since", "2026-06-01", "--only", "ownership"))
      const { paths } = assertSuccess(
        yield* ingest("--tickers", "SNOW", "--since", "2026-05-01", "--only", "ownership"),
      )
      assert.include(paths, Stub.getFilingDocumentPath(stubCompanies.snowflake, "0001640147-26-000001", "form3.xml"))
    })))

  it.effect("downloads a filing that appears late in the list, and no other filing (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, stub } = yield* startMarket
      const options = ["--tickers", "SNOW", "--since", "2026-01-01", "--only", "news,ownership"]
      assertSuccess(yield* ingest(...options))
      const [first, ...others] = Stub.snowflakeFilings
      if (first === undefined) return assert.fail()
      const late: Stub.ListedFiling = {
        accession: "0009999999-26-000009",
        form: "5",
        filingDate: "2026-06-05",
        primaryDocument: "xslF345X05/form5.xml",
      }
      stub.responses.set(
        `/submissions/CIK${stubCompanies.snowflake.cik}.json`,
        Stub.makeSubmissions(stubCompanies.snowflake, [first, late, ...others]),
      )
      const path = Stub.getFilingDocumentPath(stubCompanies.snowflake, late.accession, "form5.xml")
      stub.responses.set(path, Stub.makeXmlResponse(Stub.readRecording("ownership/form5-snow.xml")))
      const { out, paths } = assertSuccess(yield* ingest(...options))
      assert.deepStrictEqual(paths.filter((path) => path.startsWith("/Archives/")), [path])
      assert.match(out, /news: 1 row merged: 1 added/)
      assert.match(out, /ownership: \d rows? merged: [1-9]/)
    })))

  it.effect("requests a missing document again until it is available (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { environment, ingest, stub } = yield* startMarket
      const path = Stub.getFilingDocumentPath(stubCompanies.snowflake, "0001640147-26-000001", "form3.xml")
      const response = stub.responses.get(path)
      if (response === undefined) return assert.fail()
      stub.responses.delete(path)
      const options = ["--tickers", "SNOW", "--since", "2026-01-01", "--only", "ownership"]
      const { err } = assertSuccess(yield* ingest(...options))
      assert.include(err, "form3.xml: is not there")
      const list = assertSuccess(yield* runCommandInProcess(["ingest", "rejections"], environment)).out.split("\n")
      assert.match(
        list[1] ?? "",
        /^https:\/\/www\.sec\.gov\/Arch.*form3\.xml\t\t0001640147\t1\t20\S+Z\t20\S+Z\tis not there$/,
      )
      const json = assertSuccess(yield* runCommandInProcess(["ingest", "rejections", "--json"], environment)).out
      assert.match(json, /"datasets": \[\],\s+"cik": "0001640147",\s+"reason": "is not there",\s+"attempts": 1,/)
      const doctor = yield* runCommandInProcess(["doctor"], environment)
      assert.match(doctor.out, /ingest: last succeeded 0 hours ago; 1 document will be requested again/)
      stub.responses.set(path, response)
      const { out, paths } = assertSuccess(yield* ingest(...options))
      assert.deepStrictEqual(paths.filter((path) => path.startsWith("/Archives/")), [path])
      assert.match(out, /ownership: \d rows? merged: [1-9]/)
      assert.notInclude((yield* ingest(...options)).paths, path)
    })))

  it.effect("visits only new companies and those in the daily indexes if all companies are ingested again (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, stub } = yield* startMarket
      const options = ["--all", "--since", "2026-06-01", "--only", "news"]
      assertSuccess(yield* ingest(...options))
      const newcomer = { cik: "0000000042", name: "New Inc.", tickers: ["NEW"] }
      const list = Stub.makeTickerList([...Object.values(stubCompanies), newcomer], "Mon, 15 Jun 2026 10:00:00 GMT")
      stub.responses.set(Stub.tickerListPath, list)
      stub.responses.set("/submissions/CIK0000000042.json", Stub.makeSubmissions(newcomer, []))
      const day = subtractDays(yield* todayInNewYork, 3)
      const { header, path: indexPath } = Stub.describeDailyIndex(day)
      stub.responses.set(indexPath, {
        status: 200,
        type: "application/octet-stream",
        body: `${header}1640147|Snowflake Inc.|4|${
          day.replaceAll("-", "")
        }|edgar/data/1640147/0001640147-26-000002.txt\n`,
        headers: { "last-modified": "Sat, 13 Jun 2026 07:04:08 GMT" },
      })
      const second = assertSuccess(yield* ingest(...options))
      assert.sameMembers(second.paths.filter((path) => path.startsWith("/submissions/")), [
        `/submissions/CIK${stubCompanies.snowflake.cik}.json`,
        "/submissions/CIK0000000042.json",
      ])
      // The index has not changed since the second run, so the run requests no company's submissions.
      const third = assertSuccess(yield* ingest(...options))
      assert.deepStrictEqual(third.paths.filter((path) => path.startsWith("/submissions/")), [])
    })))

  it.effect("refuses a ticker list that shrank by more than 1%, and uses the previous one (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ingest, stub } = yield* startMarket
      const others = Array.from({ length: 195 }, (_, index) => ({
        cik: String(index + 1).padStart(10, "0"),
        name: `Company ${index + 1}`,
        tickers: [`T${String.fromCharCode(65 + index % 26)}${String.fromCharCode(65 + Math.floor(index / 26))}`],
      }))
      const all = [...Object.values(stubCompanies), ...others]
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList(all, "Mon, 15 Jun 2026 10:00:00 GMT"))
      const options = ["--tickers", "SNOW", "--since", "2026-06-01", "--only", "news"]
      assertSuccess(yield* ingest(...options))
      const shrunk = all.slice(5)
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList(shrunk, "Tue, 16 Jun 2026 10:00:00 GMT"))
      const { err } = assertSuccess(yield* ingest(...options))
      assert.match(err, /company_tickers_exchange\.json: has 195 rows after 200, so it is incomplete/)
      const lists = yield* sql<{ readonly row_count: number }>`select row_count from edgar_ticker_lists`
      assert.deepStrictEqual(lists.map(({ row_count }) => row_count), [200])
      stub.responses.set(Stub.tickerListPath, Stub.makeTickerList(all.slice(0, 198), "Wed, 17 Jun 2026 10:00:00 GMT"))
      assert.strictEqual(assertSuccess(yield* ingest(...options)).err, "")
    })))

  it.effect("proposes a symbol change if the copies of a week agree on it, and does not propose it again (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ingest, stub } = yield* startMarket
      const today = yield* todayInNewYork
      const before = Stub.makeTickerList([{ ...stubCompanies.snowflake, tickers: ["FLKE"] }, stubCompanies.zivo])
      const now = Stub.makeTickerList([stubCompanies.snowflake, stubCompanies.zivo])
      for (let age = 12; age > 0; age -= 1) {
        yield* sql`
          insert into edgar_ticker_lists (day, row_count, entries)
          values (${subtractDays(today, age)}::text::date, 2, ${(age > 8 ? before : now).body})
        `
      }
      stub.responses.set(Stub.tickerListPath, now)
      assertSuccess(yield* ingest("--all", "--only", "ticker_changes"))
      const changes = yield* sql`
        select old_ticker, new_ticker, effective_date::text, status from ticker_changes where cik like '%1640147'
      `
      assert.deepStrictEqual(changes.map((row) => ({ ...row })), [
        { old_ticker: "FLKE", new_ticker: "SNOW", effective_date: subtractDays(today, 8), status: "estimated" },
      ])
      yield* sql`update ticker_changes set effective_date = effective_date + 1, status = 'confirmed'`
      const { out } = assertSuccess(yield* ingest("--all", "--only", "ticker_changes"))
      assert.notInclude(out, "ticker_changes")
    })))

  it.effect("writes only files if --out is given, and load accepts these files (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { environment, ingest } = yield* startMarket
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-out-" })
      const empty = yield* readTables
      const options = ["--tickers", "SNOW,SMEGF", "--since", "2026-01-01"]
      const { out } = assertSuccess(yield* ingest(...options, "--out", folder))
      assert.match(out, /news: \d+ rows written/)
      assert.deepStrictEqual(yield* readTables, empty)
      assert.deepStrictEqual(yield* readRuns, [])
      for (const file of yield* fs.readDirectory(folder)) {
        const table = file.replace(".ndjson", "")
        const load = yield* runCommandInProcess(
          ["load", table, `${folder}/${file}`, "--append", "--keep-omitted"],
          environment,
        )
        assert.strictEqual(load.code, 0, load.err)
      }
      const loaded = yield* readTables
      assert.isAbove(loaded["ownership"]?.length ?? 0, 0)
      assertSuccess(yield* ingest(...options))
      assert.deepStrictEqual(yield* readTables, loaded)
      // Another run with the same output folder replaces the files of the previous run.
      const size = (yield* fs.stat(`${folder}/news.ndjson`)).size
      assertSuccess(yield* ingest(...options, "--out", folder))
      assert.strictEqual((yield* fs.stat(`${folder}/news.ndjson`)).size, size)
    })))

  it.effect("requests only lists if --dry-run is given, and changes nothing (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest } = yield* startMarket
      const empty = yield* readTables
      const { out, paths } = assertSuccess(yield* ingest("--tickers", "SNOW", "--since", "2026-01-01", "--dry-run"))
      assert.deepStrictEqual(paths, [Stub.tickerListPath, `/submissions/CIK${stubCompanies.snowflake.cik}.json`])
      assert.match(out, /news: 3 rows would be loaded/)
      assert.match(out, /1 company, 4 documents to download, 0 set aside/)
      assert.match(out, /Nothing was loaded\./)
      assert.deepStrictEqual(yield* readTables, empty)
      assert.deepStrictEqual(yield* readRuns, [])
    })))

  it.effect("explains mistakes in its options before it requests documents of companies (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { environment, ingest, stub } = yield* startMarket
      const refused = yield* ingest("--tickers", "AAPX")
      assert.strictEqual(refused.code, 1)
      assert.match(refused.err, /^tickerline: The SEC's ticker list has no AAPX\. Did you mean AAPL\?/)
      assert.deepStrictEqual(refused.paths, [Stub.tickerListPath])
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
        [[], /takes --tickers with symbols such as NVDA,IMNN, or --all/],
        [["--tickers", "SNOW", "--all"], /takes either --tickers/],
        [["--tickers", ","], /must be symbols, separated by commas/],
        [["--tickers", "ONE;TWO"], /must be symbols, separated by commas/],
        [["--all", "--only", "nws"], /do not fill nws\. Did you mean news\?/],
        [["--all", "--since", "2026-02-30"], /must be a date that exists/],
        [["--all", "--since", "2999-01-01"], /must be in the past/],
        [["--all", "--user-agent", "curl/8.5.0"], /contain an email address, which the SEC requires/],
        [["--all", "--dry-run", "--out", "x"], /excludes --out/],
        [["--resume", "--dry-run"], /excludes --out and --dry-run/],
        [["--resume", "--since", "2026-01-01"], /excludes --since, --only and --retry-rejected/],
        [["--all", "--retry-rejected", "--dry-run"], /is for a run that loads/],
      ]
      for (const [args, message] of cases) {
        const { code, err, paths } = yield* ingest(...args)
        assert.strictEqual(code, 2, err)
        assert.match(err, message)
        assert.deepStrictEqual(paths, [])
      }
      const { DATABASE_URL, EDGAR_BASE_URL } = environment
      const anonymous = yield* runCommandInProcess(["ingest", "edgar", "--all"], { DATABASE_URL, EDGAR_BASE_URL })
      assert.strictEqual(anonymous.code, 2)
      assert.match(anonymous.err, /--user-agent "Acme Inc ops@acme\.example", or EDGAR_USER_AGENT/)
      yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql`delete from edgar_runs`)
      const nothing = yield* ingest("--resume")
      assert.strictEqual(nothing.code, 1)
      assert.match(nothing.err, /no interrupted run to resume/)
      assert.strictEqual(stub.requests.length, 1)
    })))

  it.effect("ends after three consecutive downloads fail, and doctor reports the failure (decision 0105)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { environment, stub } = yield* startMarket
      const list = stub.responses.get(Stub.tickerListPath)?.body ?? ""
      const urls: Array<string> = []
      const client = Layer.succeed(EdgarClient, {
        request: ({ url }) => {
          urls.push(url)
          return url.includes("company_tickers")
            ? Effect.succeed({ _tag: "Found" as const, text: list, validators: { etag: null, lastModified: null } })
            : Effect.fail(new EdgarUnavailable({ url, reason: "status 503" }))
        },
      })
      const options = {
        tickers: null,
        datasets: ingestedDatasets,
        since: "2026-01-01",
        resume: false,
        target: "load" as const,
        scheduled: false,
      }
      const error = yield* Effect.flip(Effect.provide(runIngest(options, new IngestReport()), client))
      assert.strictEqual(error._tag, "EdgarUnavailable")
      // At most, all five companies are requested concurrently before the run fails.
      assert.isAtMost(urls.length, 6)
      const [run] = yield* readRuns
      assert.deepInclude(run, { status: "failed", error: error.message })
      const { out } = yield* runCommandInProcess(["doctor"], environment)
      assert.match(out, /! +ingest: never succeeded; the newest run failed: The SEC did not send https:/)
      assert.match(out, /tickerline -- ingest edgar --resume/)
    })))

  it.effect("is reported by doctor with the age of its last success (operations/ingest-edgar)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const check = Effect.map(
        runCommandInProcess(["doctor"], environment),
        ({ out }) => /(ok|!) +ingest: .*/.exec(out)?.[0],
      )
      assert.strictEqual(yield* check, "ok ingest: the SEC's documents were never ingested")
      yield* sql`
        insert into edgar_runs (scheduled, datasets, since, started_at, finished_at, status)
        values (true, '{news}', '2026-01-01', now() - interval '3 hours', now() - interval '2 hours', 'succeeded')
      `
      assert.strictEqual(yield* check, "ok ingest: last succeeded 2 hours ago")
      yield* sql`update edgar_runs set finished_at = now() - interval '60 hours'`
      assert.strictEqual(yield* check, "!  ingest: last succeeded 60 hours ago")
      yield* sql`
        insert into edgar_runs (scheduled, datasets, since, started_at) values (true, '{news}', '2026-01-01', now())
      `
      assert.match((yield* check) ?? "", /ok ingest: last succeeded 60 hours ago; a run is in progress/)
      yield* sql`
        insert into edgar_runs (scheduled, datasets, since, started_at, finished_at, status)
        values (false, '{news}', '2026-01-01', now(), now(), 'succeeded')
      `
      assert.strictEqual(yield* check, "ok ingest: last succeeded 0 hours ago")
      // If the ingest is scheduled, a successful manual run does not hide that the scheduled runs fail.
      const { out } = yield* runCommandInProcess(["doctor"], { ...environment, INGEST_EDGAR: "daily 22:15 UTC" })
      assert.match(out, /ok ingest: last succeeded 60 hours ago; a run is in progress/)
    })))
})
