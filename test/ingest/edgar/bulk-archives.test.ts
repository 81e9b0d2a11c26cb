/** Tests the initial load from the SEC's nightly archives (decision 0128). */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, FileSystem } from "effect"
import { SqlClient } from "effect/sql"
import { Buffer } from "node:buffer"
import { readFileSync, truncateSync, utimesSync, writeFileSync } from "node:fs"
import { ingestedDatasets } from "../../../src/ingest/edgar/schedule/IngestedDatasets.ts"
import { subtractDays } from "../../../src/ingest/edgar/store/PendingFilings.ts"
import { setDocumentAside } from "../../../src/ingest/edgar/fetch/DocumentDownloader.ts"
import { DocumentRejected } from "../../../src/ingest/edgar/fetch/DocumentRejected.ts"
import { buildFilingXmlUrl } from "../../../src/ingest/edgar/fetch/EdgarUrls.ts"
import {
  type DeferredForm,
  listWork,
  readDeferredForms,
  updateWork,
} from "../../../src/ingest/edgar/store/IngestWork.ts"
import { openZipArchive } from "../../../src/ingest/edgar/fetch/ZipArchive.ts"
import { writeArchives, writeZip } from "../../support/EdgarArchives.ts"
import * as Stub from "../../support/EdgarStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { DatabaseUrl, withOwnDatabase } from "../../support/OwnDatabases.ts"

// @module-tag slow

const { stubCompanies } = Stub

const { apple, imunon, siemensEnergy, snowflake, zivo } = stubCompanies

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
    const paths = stub.requests.slice(before).map(({ path }) => path)
    return { ...ended, paths, lists: paths.filter((path) => /^\/(submissions|api)\//.test(path)) }
  })
  return { stub, ingest }
})

const readTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.forEach(
    [...ingestedDatasets, "edgar_progress"],
    (table) =>
      Effect.map(
        sql.unsafe<{ readonly row: string }>(
          `select (to_jsonb(t) - 'run_id')::text as row from ${table} as t order by 1`,
        ),
        (rows) => ({ table, rows: rows.map(({ row }) => row) }),
      ),
  )
})

const readWork = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly url: string; readonly reason: string }>`select url, reason from edgar_work order by url`,
)

const all = [
  "--all",
  "--since",
  "2026-02-18",
  "--only",
  "news,registrations,float_outstanding,historical_float_pro,screener",
]

/** Overwrites bytes in the middle of a zip entry's compressed data. */
const damageEntry = (file: string, name: string) => {
  const bytes = readFileSync(file)
  const header = bytes.indexOf(Buffer.from(name))
  bytes.fill(0xff, header + 2_000, header + 2_100)
  writeFileSync(file, bytes)
}

layer(NodeServices.layer, { excludeTestServices: true })("The ingest from archives", (it) => {
  it.effect("fills the tables as requests do, and requests only what the archives lack (decision 0128)", () =>
    Effect.gen(function* () {
      const requested = yield* withOwnDatabase(Effect.gen(function* () {
        const { ingest } = yield* startMarket
        const { code, err } = yield* ingest(...all)
        assert.strictEqual(code, 0, err)
        return yield* readTables
      }))
      yield* withOwnDatabase(Effect.gen(function* () {
        const { ingest, stub } = yield* startMarket
        const folder = yield* writeArchives(stub, [apple, imunon, siemensEnergy, snowflake])
        const { code, err, lists } = yield* ingest(...all, "--archives", folder)
        assert.strictEqual(code, 0, err)
        assert.deepStrictEqual(yield* readTables, requested)
        // The archives also lack company facts for these companies, so the facts are requested from the SEC.
        const withoutFacts = [imunon, siemensEnergy, snowflake, zivo].map(({ cik }) =>
          `/api/xbrl/companyfacts/CIK${cik}.json`
        )
        assert.sameMembers(lists, [`/submissions/CIK${zivo.cik}.json`, ...withoutFacts])
      }))
    }))

  it.effect("is followed by the daily indexes from the archives' day on (decision 0128)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, stub } = yield* startMarket
      const time = new Date(Date.now() - 9 * 86_400_000)
      const folder = yield* writeArchives(stub, Object.values(stubCompanies), { time })
      assert.strictEqual((yield* ingest(...all, "--archives", folder)).code, 0)
      const day = subtractDays(time.toISOString().slice(0, 10), 1)
      const sql = yield* SqlClient.SqlClient
      const [run] = yield* sql`select archive_day::text from edgar_runs`
      assert.deepStrictEqual({ ...run }, { archive_day: day })

      const { header, path } = Stub.describeDailyIndex(day)
      const date = day.replaceAll("-", "")
      const body = `${header}1640147|Snowflake Inc.|4|${date}|edgar/data/1640147/0001640147-26-000002.txt\n`
      stub.responses.set(path, { status: 200, type: "application/octet-stream", body })
      const next = yield* ingest(...all, "--archives", folder)
      assert.strictEqual(next.code, 0, next.err)
      assert.include(next.paths, Stub.describeDailyIndex(subtractDays(day, 7)).path)
      assert.deepStrictEqual(next.lists, [`/submissions/CIK${snowflake.cik}.json`])
      assert.include(next.out, "The archives were not read, because an earlier run has covered all companies")
    })))

  it.effect("writes files with the rows of all companies, even after a run has loaded them (operations/ingest-edgar)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { ingest, stub } = yield* startMarket
      const folder = yield* writeArchives(stub, Object.values(stubCompanies))
      assert.strictEqual((yield* ingest(...all, "--archives", folder)).code, 0)
      const sql = yield* SqlClient.SqlClient
      const loaded = yield* sql`select from news`
      const out = yield* fs.makeTempDirectoryScoped()
      const written = yield* ingest(...all, "--archives", folder, "--out", out)
      assert.strictEqual(written.code, 0, written.err)
      const lines = (yield* fs.readFileString(`${out}/news.ndjson`)).trimEnd().split("\n")
      assert.isAbove(loaded.length, 0)
      assert.strictEqual(lines.length, loaded.length)
    })))

  it.effect("does not replace newer data by older archives (decision 0128)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, stub } = yield* startMarket
      const folder = yield* writeArchives(stub, Object.values(stubCompanies))
      const today = new Date().toISOString().slice(0, 10)
      const filing = { accession: "0001640147-26-000009", form: "8-K", filingDate: today, items: "5.02" }
      stub.responses.set(
        `/submissions/CIK${snowflake.cik}.json`,
        Stub.makeSubmissions(snowflake, [filing, ...Stub.snowflakeFilings]),
      )
      assert.strictEqual((yield* ingest("--tickers", "SNOW", "--only", "news")).code, 0)
      const { code, err, lists } = yield* ingest(...all, "--archives", folder)
      assert.strictEqual(code, 0, err)
      assert.include(lists, `/submissions/CIK${snowflake.cik}.json`)
      assert.notInclude(lists, `/submissions/CIK${apple.cik}.json`)
    })))

  it.effect("sets a damaged entry aside and requests it in the next run (decision 0128)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const { ingest, stub } = yield* startMarket
      const folder = yield* writeArchives(stub, Object.values(stubCompanies))
      damageEntry(`${folder}/submissions.zip`, `CIK${apple.cik}.json`)
      const first = yield* ingest(...all, "--archives", folder)
      assert.strictEqual(first.code, 0, first.err)
      const url = `https://data.sec.gov/submissions/CIK${apple.cik}.json`
      const findEntry = Effect.map(readWork, (work) => work.find((entry) => entry.url === url))
      assert.match((yield* findEntry)?.reason ?? "", /^is damaged or incomplete \(.+\) in submissions\.zip$/)
      const sql = yield* SqlClient.SqlClient
      yield* sql`update edgar_work set next_try_at = now() - interval '1 hour'`
      const { lists } = yield* ingest(...all, "--archives", folder)
      assert.include(lists, `/submissions/CIK${apple.cik}.json`)
      assert.isAbove((yield* sql`select from news where ticker = 'AAPL'`).length, 0)
      assert.isUndefined(yield* findEntry)
    })))

  it.effect("refuses archives that are missing, truncated, old or of other content, and says what to do (decision 0128)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { ingest, stub } = yield* startMarket
      const refuse = Effect.fnUntraced(function* (folder: string, ...messages: ReadonlyArray<RegExp>) {
        const { code, err, lists } = yield* ingest(...all, "--archives", folder)
        assert.strictEqual(code, 1)
        for (const message of messages) assert.match(err, message)
        assert.deepStrictEqual(lists, [])
      })
      const again = /Download it again: https:\/\/www\.sec\.gov\/Archives\/edgar\/daily-index\/.*zip/
      const empty = yield* fs.makeTempDirectoryScoped()
      yield* refuse(empty, /has no submissions\.zip\. Download it from https:\/\/www\.sec\.gov\//)
      assert.deepStrictEqual(stub.requests, [])

      const folder = yield* writeArchives(stub, Object.values(stubCompanies))
      truncateSync(`${folder}/companyfacts.zip`, 10_000)
      yield* refuse(folder, /companyfacts\.zip is damaged or incomplete/, again)
      writeZip(`${folder}/companyfacts.zip`, [["readme.txt", "nothing"]])
      yield* refuse(folder, /companyfacts\.zip has no files of companies/, again)

      const old = yield* writeArchives(stub, Object.values(stubCompanies), { time: new Date("2026-01-01T08:00:00Z") })
      yield* refuse(old, /submissions\.zip is too old: its newest file is dated 2026-01-01/, again)
      // An archive is also refused if its file is older than its entries. Here the entries were dated by a wrong clock.
      const wrong = yield* writeArchives(stub, Object.values(stubCompanies), { time: new Date("2090-01-01T08:00:00Z") })
      utimesSync(`${wrong}/submissions.zip`, new Date(), new Date("2026-01-01T08:00:00Z"))
      yield* refuse(wrong, /submissions\.zip is too old/)
      const usage = yield* ingest("--tickers", "SNOW", "--archives", folder)
      assert.include(usage.err, "--archives is for --all.")
    })))
})

layer(NodeServices.layer, { excludeTestServices: true })("Listed forms", (it) => {
  it.effect("are read newest first over all companies, and once (decision 0128)", () =>
    withOwnDatabase(Effect.gen(function* () {
      const forms = [["0000000001", "2026-06-01"], ["0000000002", "2026-06-03"], ["0000000001", "2026-06-05"]].map(
        ([cik = "", filingDate = ""], index): DeferredForm => {
          const accession = `0000000001-26-00000${index}`
          const filing = {
            filingDate,
            accession,
            form: "4",
            acceptedAt: index === 0 ? null : DateTime.makeUnsafe(`${filingDate}T12:00:00Z`),
            fileNumber: index === 1 ? "333-1" : null,
            primaryDocument: "form4.xml",
          }
          return { cik, url: buildFilingXmlUrl(cik, accession, "form4.xml"), filing }
        },
      )
      yield* updateWork([], [], forms)
      yield* updateWork([], [], forms)
      const read = readDeferredForms(["0000000001", "0000000002"], ["ownership"], 10)
      assert.deepStrictEqual(yield* read, forms.toReversed())
      yield* updateWork(forms.slice(2).map(({ url }) => ({ url, dataset: "" })), [])
      assert.deepStrictEqual(yield* read, forms.slice(0, 2).toReversed())
      const rejection = new DocumentRejected({ url: forms[1]?.url ?? "", reason: "is not there" })
      yield* updateWork([], [setDocumentAside("absent", rejection)])
      yield* updateWork([], [], forms.slice(0, 2))
      assert.deepStrictEqual(yield* read, forms.slice(0, 1), "without the form that is requested again in an hour")
      assert.deepStrictEqual((yield* listWork).map(({ attempts, url }) => ({ attempts, url })), [
        { attempts: 1, url: rejection.url },
      ])
      assert.deepStrictEqual(yield* readDeferredForms(["0000000003"], ["ownership"], 10), [])
      assert.deepStrictEqual(yield* readDeferredForms(["0000000001"], ["news", "registrations"], 10), [])
    })))
})

layer(NodeServices.layer, { excludeTestServices: true })("An archive", (it) => {
  it.effect("may have more entries and larger numbers than fit into the first ZIP format (decision 0128)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const file = `${yield* fs.makeTempDirectoryScoped()}/large.zip`
      const time = new Date("2026-06-01T03:00:00Z")
      writeZip(file, [["CIK0000000001.json", '{"a":1}']], { forceZip64: true, fillers: 70_000, time })
      const archive = yield* openZipArchive(file, (name) => name.startsWith("CIK0"))
      assert.strictEqual(archive.newest, time.getTime())
      const bytes = yield* archive.read("CIK0000000001.json", 100)
      assert.strictEqual(Buffer.from(bytes ?? []).toString(), '{"a":1}')
      assert.strictEqual(yield* archive.read("CIK9000000001.json", 100), undefined)
    }))

  it.effect("is not read where an entry is larger than allowed, or than its list of entries says (decision 0128)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const file = `${yield* fs.makeTempDirectoryScoped()}/bomb.zip`
      writeZip(file, [["bomb.json", " ".repeat(5_000_000)], ["good.json", "{}"]])
      const open = openZipArchive(file, () => true)
      const large = yield* Effect.flip(Effect.flatMap(open, (archive) => archive.read("bomb.json", 1_000_000)))
      assert.strictEqual(large.message, "is larger than 1 MB")
      const bytes = readFileSync(file)
      // Overwrites the uncompressed size in the zip central directory.
      bytes.writeUInt32LE(1_000, bytes.lastIndexOf(Buffer.from("bomb.json")) - 46 + 24)
      writeFileSync(file, bytes)
      const archive = yield* open
      const lie = yield* Effect.flip(archive.read("bomb.json", 1_000_000))
      assert.match(lie.message, /^is damaged or incomplete/)
      assert.strictEqual(Buffer.from((yield* archive.read("good.json", 100)) ?? []).toString(), "{}")
      // Overwrites the compressed size in the zip central directory.
      bytes.writeUInt32LE(4_000_000_000, bytes.lastIndexOf(Buffer.from("bomb.json")) - 46 + 20)
      writeFileSync(file, bytes)
      const compressed = yield* Effect.flip(Effect.flatMap(open, (archive) => archive.read("bomb.json", 1_000_000)))
      assert.strictEqual(compressed.message, "is larger than 1 MB")
    }))
})
