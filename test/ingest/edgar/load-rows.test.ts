/** Tests that ingested rows are loaded into the tables, and that repeating an ingest changes nothing (D22). */
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { makeFloatRows } from "../../../src/ingest/edgar/read/FloatRows.ts"
import { makeNewsRows } from "../../../src/ingest/edgar/read/NewsRows.ts"
import { makeRegistrationRows } from "../../../src/ingest/edgar/read/RegistrationRows.ts"
import { makeScreenerRows } from "../../../src/ingest/edgar/read/ScreenerRows.ts"
import { inferTickerChanges } from "../../../src/ingest/edgar/read/TickerList.ts"
import type { RowCells } from "../../../src/contract/Datasets.ts"
import { makeRowCollector } from "../../../src/ingest/edgar/store/RowCollector.ts"
import { loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import * as Service from "../../support/Service.ts"
import { ciks, factsOf, filingsOf, issuerOf, submissionsOf, tickerListCopies, today } from "./Recordings.ts"

const load = Effect.fnUntraced(function* (dataset: string, rows: ReadonlyArray<object>) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-ingested-" })}/${dataset}.ndjson`
  yield* fs.writeFileString(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
  const { merged } = yield* loadDatasetFile({ dataset, file, append: true, keepOmitted: true }, yield* Ref.make(0))
  return merged
})

const companies = [ciks.apple, ciks.imunon, ciks.twoHarbors]

const makeRows = () => {
  const copies = tickerListCopies()
  const { rows = [] } = copies.at(-1) ?? {}
  const later = ["2026-06-20", "2026-06-24"].map((day) => ({ day, rows }))
  return {
    news: companies.flatMap((cik) => makeNewsRows(issuerOf(cik), filingsOf(cik))),
    registrations: companies.flatMap((cik) => makeRegistrationRows(issuerOf(cik), filingsOf(cik), today)),
    screener: companies.flatMap((cik) => makeScreenerRows(issuerOf(cik), submissionsOf(cik))),
    ...makeFloatRows(issuerOf(ciks.apple), factsOf(ciks.apple), submissionsOf(ciks.apple)),
    ticker_changes: inferTickerChanges([...copies, ...later]),
  }
}

layer(Service.layer, { excludeTestServices: true, timeout: "120 seconds" })("The rows of an ingest", (it) => {
  it.effect("are added once, and then found unchanged (D22)", () =>
    Effect.gen(function* () {
      for (const [dataset, rows] of Object.entries(makeRows())) {
        assert.isAbove(rows.length, 0)
        assert.deepStrictEqual(
          yield* load(dataset, rows),
          { added: rows.length, updated: 0, unchanged: 0, kept: 0 },
          dataset,
        )
        assert.deepStrictEqual(
          yield* load(dataset, rows),
          { added: 0, updated: 0, unchanged: rows.length, kept: 0 },
          dataset,
        )
      }
    }))

  it.effect("get defaults for required columns that the SEC does not publish, and do not overwrite such columns later", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { registrations, screener } = makeRows()
      yield* load("screener", screener)
      yield* load("registrations", registrations)
      const read = sql`
        select num_gaps, num_runners, website, is_atm from screener join registrations using (ticker)
        where file_no = '333-279425'
      `
      assert.deepStrictEqual(yield* read, [{ num_gaps: 0n, num_runners: 0n, website: null, is_atm: false }])
      yield* sql`update screener set num_gaps = 4, website = 'https://example.com' where ticker = 'IMNN'`
      yield* sql`update registrations set is_atm = true where file_no = '333-279425'`
      yield* load("screener", screener.map((row) => ({ ...row, company: "Changed" })))
      yield* load("registrations", registrations.map((row) => ({ ...row, details: null })))
      assert.deepStrictEqual(yield* read, [
        { num_gaps: 4n, num_runners: 0n, website: "https://example.com", is_atm: true },
      ])
    }))

  it.effect("are set aside one by one if a value is outside of the bounds of its column (D42)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const folder = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped({ prefix: "tickerline-bounds-" })
      const row = { ticker: "BNDS", is_adr: "false", filed_at: "2026-06-01", last_updated: "2026-06-01 20:05:00" }
      const rows: ReadonlyArray<RowCells> = [
        { ...row, outstanding_shares: "1000", reported_date: "2026-05-01" },
        { ...row, outstanding_shares: "-1000", reported_date: "2026-05-02" },
        { ...row, outstanding_shares: "1000", reported_date: "0022-05-01" },
        { ...row, outstanding_shares: "1000", reported_date: "2035-05-01" },
      ]
      for (const collector of [yield* makeRowCollector(), yield* makeRowCollector(folder)]) {
        const invalid = yield* collector.add(new Map([["historical_float_pro", rows]]))
        const reasons = invalid.map(({ rejection }) => rejection.reason.replace(/, but is .*/, ""))
        assert.deepStrictEqual(reasons.slice(0, 2), [
          "historical_float_pro.outstanding_shares must be from 0 to 9007199254740991",
          "historical_float_pro.reported_date must be from 1900-01-01 to 2199-12-31",
        ])
        assert.match(reasons[2] ?? "", /^historical_float_pro\.reported_date must not be after tomorrow, /)
        yield* collector.load
      }
      assert.deepStrictEqual(
        yield* sql`select reported_date::text from historical_float_pro where ticker = 'BNDS'`,
        [{ reported_date: "2026-05-01" }],
      )
    }))
})
