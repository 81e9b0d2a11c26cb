/**
 * Tests that a client that applies `/v1/changes` has exactly the data that the endpoints return, and nothing that they
 * do not (D36).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Schedule, Schema, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { startFeedDay } from "../../../src/query/history/FeedDayStart.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { readLoadableColumns } from "../../../src/ingest/load/LoadingTable.ts"
import { type ChangeFeedDataset, changeFeedDatasets, changeKinds } from "../../../src/contract/endpoints/changes.ts"
import { ownershipHoldingColumns } from "../../../src/contract/endpoints/ownership.ts"
import { openEventStream, waitForCondition } from "../../support/EventStreams.ts"
import { fillTable } from "../../support/GeneratedRows.ts"
import { beginTransaction } from "../../support/HeldTransactions.ts"
import { type Choices, makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import { range } from "../../support/RandomTransactions.ts"
import { assertEqualRows } from "../../support/RowAssertions.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const { valueAt } = Service

type Row = Readonly<Record<string, unknown>>

// ---------------------------------------------------------------------------------------------------------------------
// What the endpoints return
// ---------------------------------------------------------------------------------------------------------------------

const request = Effect.fnUntraced(function* (path: string) {
  const { ultimate } = yield* Service.TestKeys
  return yield* Service.requestJson(path, { key: ultimate })
})

const Rows = Schema.Array(Schema.Record(Schema.String, Schema.Unknown))

/** Downloads all rows of a list. */
const download = Effect.fnUntraced(function* (path: string) {
  const { status, text } = yield* request(`${path}${path.includes("?") ? "&" : "?"}limit=all&format=ndjson`)
  assert.strictEqual(status, 200, `${path}: ${text}`)
  const lines = text.split("\n").filter((line) => line !== "")
  return Schema.decodeUnknownSync(Rows)(lines.map((line): unknown => JSON.parse(line)))
})

/** Reads the distinct values of a column, because some endpoints require symbols. */
const readDistinct = Effect.fnUntraced(function* (table: string, column: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql.unsafe<{ readonly value: string }>(`select distinct ${column} as value from ${table}`)
  return rows.map(({ value }) => value)
})

/** Returns one row for each owner in each filing, including the filing's fields. */
const downloadOwnership = Effect.gen(function* () {
  const tickers = (yield* readDistinct("ownership", "ticker")).join(",")
  if (tickers === "") return []
  const filings = yield* Effect.forEach(
    yield* readDistinct("ownership", "accession_number"),
    (accession) =>
      download(`/v1/ownership?ticker=${tickers}&accession_number=${encodeURIComponent(accession)}&provenance=true`),
  )
  return filings.flat().flatMap((result) =>
    Schema.decodeUnknownSync(Rows)(result["owners"]).map((owner) =>
      Struct.omit({ ...result, ...owner }, ["owner_count", "owners"])
    )
  )
})

/** Returns the events of all lineages. For a chain, the response shows fewer fields of an event than for a conflict. */
const downloadTickerChanges = Effect.gen(function* () {
  const found: Array<Row> = []
  const seen = new Set<unknown>()
  for (const ticker of yield* readDistinct("ticker_changes", "old_ticker")) {
    if (seen.has(ticker)) continue
    const { body, status, text } = yield* request(`/v1/ticker-changes?ticker=${ticker}`)
    assert.include([200, 409], status, text)
    const events = Schema.decodeUnknownSync(Rows)(
      status === 200 ? valueAt(body, "results", 0, "history") : valueAt(body, "error", "details", "events"),
    )
    events.forEach((event) => seen.add(event["old_ticker"]).add(event["new_ticker"]))
    found.push(...events.map((event) => Struct.omit(event, ["reasons"])))
  }
  return found
})

const downloadHistoricalTickers = Effect.gen(function* () {
  const tickers = yield* readDistinct("historical_tickers", "ticker")
  const found = yield* Effect.forEach(
    tickers,
    Effect.fnUntraced(function* (ticker) {
      const { body, status } = yield* request(`/v1/historical-tickers?ticker=${ticker}`)
      if (status === 404) return []
      return Schema.decodeUnknownSync(Rows)(valueAt(body, "historical_tickers")).map((row) => ({
        ticker,
        former_ticker: row["ticker"],
        date: row["date"],
      }))
    }),
  )
  return found.flat()
})

const withProvenance = "?provenance=true"

/** For each dataset, downloads everything that its endpoints return. */
const downloads: Readonly<Record<ChangeFeedDataset, Effect.Effect<ReadonlyArray<Row>, unknown, Requirements>>> = {
  ticker_changes: downloadTickerChanges,
  historical_tickers: downloadHistoricalTickers,
  intraday_runners: download("/v1/intraday-runners"),
  dilution_data: download("/v1/dilution-data-advanced"),
  registrations: download(`/v1/registrations${withProvenance}`),
  pump_and_dump_tracker: download("/v1/pump-and-dump-tracker"),
  split_status: Effect.flatMap(
    readDistinct("split_status", "ticker"),
    (tickers) => tickers.length === 0 ? Effect.succeed([]) : download(`/v1/split-status?ticker=${tickers.join(",")}`),
  ),
  nasdaq_compliance: download("/v1/nasdaq-compliance"),
  news: download(`/v1/news${withProvenance}`),
  gap_stats: download("/v1/gap-stats-advanced"),
  premarket_stats: download("/v1/premarket-stats"),
  afterhours_stats: download("/v1/afterhours-stats"),
  research_reports: download("/v1/research-reports"),
  float_outstanding: download(`/v1/float-outstanding${withProvenance}`),
  historical_float_pro: download(`/v1/historical-float-pro${withProvenance}`),
  ownership: downloadOwnership,
  screener: download(`/v1/screener${withProvenance}`),
}
type Requirements = Effect.Services<ReturnType<typeof download>> | SqlClient.SqlClient

/** List fields that the feed omits because they depend on other rows (decision 0121). */
const computedFields = new Set(["market_cap of historical_float_pro"])

// ---------------------------------------------------------------------------------------------------------------------
// A client's copy of the data, kept up to date from the change feed
// ---------------------------------------------------------------------------------------------------------------------

const Values = Schema.Record(Schema.String, Schema.Unknown)
const Change = Schema.Struct({
  cursor: Schema.String,
  recorded_at: Schema.String,
  dataset: Schema.Literals(changeFeedDatasets),
  kind: Schema.Literals(changeKinds),
  key: Values,
  row: Schema.NullOr(Values),
  before: Schema.NullOr(Values),
  changed: Schema.Array(Schema.String),
})
type Change = typeof Change.Type
const Page = Schema.Struct({ results: Schema.Array(Change), cursor: Schema.String, has_more: Schema.Boolean })

const readPage = Effect.fnUntraced(function* (query: string) {
  const { status, text } = yield* request(`/v1/changes?${query}`)
  assert.strictEqual(status, 200, text)
  return Schema.decodeUnknownSync(Page)(JSON.parse(text))
})

const readAll = Effect.fnUntraced(function* (query: string, start: string) {
  const changes: Array<Change> = []
  for (let cursor = start;;) {
    const page = yield* readPage(`${query}&after=${encodeURIComponent(cursor)}`)
    changes.push(...page.results)
    cursor = page.cursor
    if (!page.has_more) return { changes, cursor }
  }
})

const readCurrentCursor = Effect.map(readPage("after=now"), ({ cursor }) => cursor)

const toJson = (value: unknown) => JSON.stringify(value)

/** A client's copy of the datasets. `apply` fails if a change does not match the row in the copy. */
class Copy {
  private readonly tables = new Map<string, Map<string, Row>>()

  apply({ before, changed, dataset, key, kind, row }: Change) {
    const rows = this.tables.get(dataset) ?? new Map<string, Row>()
    this.tables.set(dataset, rows)
    const description = `${dataset} ${kind} ${toJson(key)}`
    assert.strictEqual(toJson(rows.get(toJson(key)) ?? null), toJson(before), `${description}: the row before`)
    assert.strictEqual(kind, row === null ? "removed" : before === null ? "added" : "corrected", description)
    const names = Object.keys(row ?? {})
    const differing = names.filter((name) => before !== null && toJson(row?.[name]) !== toJson(before[name]))
    assert.deepStrictEqual(changed, differing, description)
    if (kind === "corrected") assert.isNotEmpty(changed, description)
    if (row === null) rows.delete(toJson(key))
    else rows.set(toJson(key), row)
  }

  rowsOf(dataset: string): ReadonlyArray<Row> {
    return Array.from(this.tables.get(dataset)?.values() ?? [])
  }
}

/**
 * Returns whether a field has no value in the database and may therefore be absent from a list. For example, lists omit
 * the fields of convertibles for a warrant.
 */
const isMissing = (row: Row, name: string) => !(name in row)

/**
 * Returns the given columns of the rows, in a fixed row order. A field that is absent from a response counts as null.
 */
const selectColumns = (rows: ReadonlyArray<Row>, names: ReadonlyArray<string>) =>
  rows.map((row) => Object.fromEntries(names.map((name) => [name, isMissing(row, name) ? null : row[name]])))
    .toSorted((one, other) => toJson(one) < toJson(other) ? -1 : 1)

/** Compares the copy of a dataset with the responses of its endpoints: the rows, their fields and their values. */
const assertSame = Effect.fnUntraced(function* (copy: Copy, dataset: ChangeFeedDataset, when: string) {
  const expected = (yield* downloads[dataset]).map((row) =>
    Object.fromEntries(
      Object.entries(row).filter(([name]) => !computedFields.has(`${name} of ${dataset}`)),
    )
  )
  const rows = copy.rowsOf(dataset)
  if (dataset === "ticker_changes") {
    const names = ["old_ticker", "new_ticker", "effective_date"]
    assertEqualRows(dataset, selectColumns(rows, names), selectColumns(expected, names), when)
    const complete = new Set(rows.map((row) => toJson(row)))
    for (const event of expected.filter((event) => "cik" in event)) assert.include(complete, toJson(event), when)
    rows.forEach((row) => assert.sameMembers(Object.keys(row), [...names, "cik", "company_name"]))
    return
  }
  if (dataset === "research_reports") {
    const summaries = yield* download("/v1/research-reports-tldr")
    const names = Object.keys(summaries[0] ?? {})
    if (names.length > 0) assertEqualRows(dataset, selectColumns(rows, names), selectColumns(summaries, names), when)
    const full = Object.keys(expected[0] ?? {})
    assertEqualRows(dataset, selectColumns(rows, full), selectColumns(expected, full), when)
    rows.forEach((row) => assert.sameMembers(Object.keys(row), Array.from(new Set([...full, ...names]))))
    return
  }
  const names = Array.from(new Set([...expected, ...rows].flatMap((row) => Object.keys(row))))
  assertEqualRows(dataset, selectColumns(rows, names), selectColumns(expected, names), when)
  const shown = new Set(expected.flatMap((row) => Object.keys(row)))
  // If there are only a few rows, none of them may have the fields of a convertible.
  if (dataset !== "dilution_data" && expected.length > 0) assert.sameMembers(names, Array.from(shown), dataset)
})

// ---------------------------------------------------------------------------------------------------------------------
// Random writes
// ---------------------------------------------------------------------------------------------------------------------

/** Chooses the index of a row in its table. Low indexes are more likely. */
const choosePlace = (choose: RandomChooser) => choose([0, 1, 2, 3, 5, 8, 13])

/**
 * Returns a generator of random statements for a dataset. Deleted rows are stored in the schema `spare`, from which
 * they may be inserted again.
 */
const makeStatementChooser = Effect.fnUntraced(function* (dataset: ChangeFeedDataset, days: Choices<string>) {
  const sql = yield* SqlClient.SqlClient
  const columns = (yield* readLoadableColumns(dataset)).map(({ name }) => `"${name}"`)
  const key = loadableDatasets.find(({ table }) => table === dataset)?.key.join(", ") ?? ""
  const list = columns.join(", ")
  yield* sql.unsafe(`create table spare.${dataset} as select ${list} from ${dataset} where false`)
  const [firstColumn = "", ...otherColumns] = dataset === "ownership"
    ? [...ownershipHoldingColumns, "last_updated", "source"].map((name) => `"${name}"`)
    : columns
  const rowAt = (table: string, place: number) =>
    `(select ctid from ${table} order by ${key} offset ${place} % greatest(1, (select count(*) from ${table})) limit 1)`
  const set = (choose: RandomChooser, assignments: string) =>
    `update ${dataset} set ${assignments} where ctid = ${rowAt(dataset, choosePlace(choose))}`
  /** Statements that change whether endpoints show a row, and which of its values they show. */
  const special: (choose: RandomChooser) => Choices<string> = (choose) => {
    switch (dataset) {
      case "intraday_runners":
        return [
          set(choose, "anomaly_flagged = not anomaly_flagged"),
          set(choose, `daily_volume_ratio = ${choose(["8.9999", "9", "9.0001", "10"])}`),
          set(choose, `anomaly_flagged = true, daily_volume_ratio = 9.5, volume = ${choose(["1", "2"])}`),
        ]
      case "ownership":
        return [
          set(choose, ownershipHoldingColumns.map((name) => `${name} = null`).join(", ")),
          set(choose, `owner_name = 'Owner ${choosePlace(choose)}'`),
        ]
      case "ticker_changes":
        return [
          set(choose, `status = '${choose(["confirmed", "estimated", "backfill", "reverted", "blocked"])}'`),
          set(choose, `effective_date = '${choose(days)}', status = 'confirmed'`),
          set(choose, `source = 'Source ${choosePlace(choose)}'`),
          set(choose, `company_name = 'Company ${choosePlace(choose)}', status = 'confirmed'`),
        ]
      case "historical_tickers":
        return [set(choose, `date = ${choose(["null", ...days.map((day) => `'${day}'`)])}`)]
      default:
        return [set(choose, `${firstColumn} = ${firstColumn}`)]
    }
  }
  return (choose: RandomChooser) => {
    const column = choose([firstColumn, ...otherColumns])
    return choose([
      set(
        choose,
        `${column} = (select ${column} from ${dataset} as other order by ${key} offset ${choosePlace(choose)} limit 1)`,
      ),
      ...special(choose),
      ...special(choose),
      `with gone as (delete from ${dataset} where ctid = ${rowAt(dataset, choosePlace(choose))} returning ${list})
        insert into spare.${dataset} select ${list} from gone`,
      `with back as (delete from spare.${dataset} where ctid = ${rowAt(`spare.${dataset}`, choosePlace(choose))}
          returning ${list})
        insert into ${dataset} (${list}) select ${list} from back on conflict do nothing`,
    ])
  }
})

/** Fills all datasets. Some filings have several owners. */
const fillDatasets = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const dataset of loadableDatasets) yield* fillTable(dataset, 24)
  yield* sql`
    update ownership set (ticker, accession_number, reported_date, filed_at, form_type, document_url) = (
      select ticker, accession_number, reported_date, filed_at, form_type, document_url from ownership as filing
      where filing.accession_number = 'key ' || (1 + length(ownership.owner_name || ownership.owner_cik) % 3
        + substr(ownership.accession_number, 5)::int % 6)
    )
  `
  yield* sql`create schema spare`
})

/**
 * Runs a random transaction without the statements that violate a constraint. Returns the datasets that the transaction
 * changed.
 */
const writeTransaction = Effect.fnUntraced(function* (
  choose: RandomChooser,
  choosers: ReadonlyMap<ChangeFeedDataset, (choose: RandomChooser) => string>,
) {
  const sql = yield* SqlClient.SqlClient
  const special = ["ticker_changes", "historical_tickers", "intraday_runners", "ownership"] as const
  const [first = "news", ...rest] = changeFeedDatasets
  const datasets = Array.from({ length: choose([1, 2, 3, 5]) }, () => choose([choose([first, ...rest]), ...special]))
  const statements = datasets.map((dataset) => choosers.get(dataset)?.(choose) ?? "")
  yield* sql.withTransaction(
    Effect.forEach(statements, (statement) => Effect.ignore(sql.withTransaction(sql.unsafe(statement))), {
      discard: true,
    }),
  )
  return new Set(datasets)
})

const insertChange = (old_ticker: string, new_ticker: string, effective_date: string, status = "confirmed") =>
  Service.insertRows("ticker_changes", { old_ticker, new_ticker, effective_date, status })

/** Ten seconds before midnight at the end of 2026-03-04 in Chicago. */
const beforeMidnight = Date.parse("2026-03-05T05:59:50Z")
const days: Choices<string> = ["2026-03-03", "2026-03-04", "2026-03-05", "2026-03-06", "2026-03-08"]

const makeStatementChoosers = Effect.forEach(
  changeFeedDatasets,
  (dataset) => Effect.map(makeStatementChooser(dataset, days), (chooser) => [dataset, chooser] as const),
)

layer(Service.layerAt(beforeMidnight), { timeout: "180 seconds" })("A client that applies the feed", (it) => {
  it.effect("has what the endpoints return after each of many random changes, even when a day begins (D36)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const copy = new Copy()
      let cursor = yield* readCurrentCursor
      const choose = makeRandomChooser(36)
      const update = Effect.fnUntraced(function* (when: string, datasets: Iterable<ChangeFeedDataset>) {
        const { changes, cursor: next } = yield* readAll(`limit=${choose([1, 3, 10, 1000])}`, cursor)
        changes.forEach((change) => copy.apply(change))
        cursor = next
        for (const dataset of datasets) yield* assertSame(copy, dataset, when)
        return changes
      })
      // The database uses the real date, which is later than the service's date.
      yield* sql`update history.days set day = '2026-03-04'`
      yield* fillDatasets
      const choosers = new Map(yield* makeStatementChoosers)
      yield* update("at first", changeFeedDatasets)
      const writeSteps = Effect.fnUntraced(function* (when: string) {
        for (const step of range(getInputCount(40))) {
          yield* update(`${step} ${when}`, yield* writeTransaction(choose, choosers))
        }
      })
      yield* writeSteps("before midnight")
      yield* insertChange("MIDA", "MIDB", "2026-03-05")
      yield* insertChange("MIDA", "MIDC", "2026-03-05", "estimated")
      yield* Service.insertRows("historical_tickers", { ticker: "MIDH", former_ticker: "MIDG", date: "2026-03-05" })
      assert.deepStrictEqual(yield* update("just before midnight", ["ticker_changes", "historical_tickers"]), [])
      yield* TestClock.setTime(beforeMidnight + 15_000)
      yield* startFeedDay
      const begun = yield* update("after midnight", changeFeedDatasets)
      assert.isTrue(begun.every(({ kind }) => kind === "added"))
      assert.includeMembers(begun.map(({ key }) => toJson(Object.values(key))), [
        `["MIDA","MIDB","2026-03-05",null]`,
        `["MIDH","MIDG","2026-03-05"]`,
      ])
      yield* writeSteps("after midnight")
      yield* update("at the end", changeFeedDatasets)
    }))
})

/** Holds the job's lease as if for another process, so only the tests start a new day. */
const holdLease = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`insert into leases (name, holder, until) values ('feed-day', gen_random_uuid(), 'infinity')`,
)

const service = (prepare: Effect.Effect<unknown, unknown, SqlClient.SqlClient>) =>
  Layer.fresh(
    Service.serviceLayerOver(
      Layer.effectDiscard(prepare).pipe(Layer.provideMerge(Service.migratedDatabaseLayer)),
    ).pipe(Layer.provideMerge(StatementRecorder.layer)),
  )

const makeRunner = (ticker: string, fields: Row) => ({
  ticker,
  date: "2026-01-05",
  gap_percentage: "1",
  market_open: "1",
  previous_day_close: "1",
  percentage_gain: "1",
  open_to_high_pct: "1",
  high_price: "1",
  low_price: "1",
  daily_volume_ratio: "10",
  market_close: "1",
  close_under_50pct_of_range: false,
  last_updated: "2026-01-05 10:00:00",
  anomaly_flagged: true,
  ...fields,
})

/** Moves the feed's current day back by three days, as if no service had run since then. */
const resetDays = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    Effect.andThen(
      sql`delete from history.days where recorded_at <> '-infinity'`,
      sql`update history.days set day = (now() at time zone 'America/Chicago')::date - 3`,
    ),
)

/** Summarizes a change: its dataset and kind, and whether it has a previous and a new row. */
const summarize = ({ before, dataset, kind, row }: Change) => [dataset, kind, before !== null, row !== null]

layer(service(holdLease), { excludeTestServices: true, timeout: "180 seconds" })("The feed", (it) => {
  it.effect("adds a session that becomes a runner, and removes one that no longer is, even in filters by kind (§4.3)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const start = yield* readCurrentCursor
      yield* Service.insertRows("intraday_runners", makeRunner("RUN", { anomaly_flagged: false }))
      yield* sql`update intraday_runners set volume = 7`
      yield* sql`update intraday_runners set anomaly_flagged = true`
      yield* sql`update intraday_runners set daily_volume_ratio = 9.0001`
      yield* sql`update intraday_runners set daily_volume_ratio = 9`
      yield* sql`update intraday_runners set daily_volume_ratio = 9.5, anomaly_flagged = false`
      yield* sql`delete from intraday_runners`
      const { changes } = yield* readAll("limit=2", start)
      assert.deepStrictEqual(changes.map(summarize), [
        ["intraday_runners", "added", false, true],
        ["intraday_runners", "corrected", true, true],
        ["intraday_runners", "removed", true, false],
      ])
      assert.deepStrictEqual(changes[1]?.changed, ["daily_volume_ratio"])
      assert.isFalse(changes.some(({ before, row }) => "anomaly_flagged" in { ...before, ...row }))
      for (const kind of changeKinds) {
        const filtered = yield* readAll(`kind=${kind}&ticker=RUN&limit=1`, start)
        assert.deepStrictEqual(filtered.changes, changes.filter((change) => change.kind === kind), kind)
      }
      assert.deepStrictEqual((yield* readAll("kind=added,removed", start)).changes, [changes[0], changes[2]])
    }))

  it.effect("lists a ticker change while it is eligible, and never its status and source (D19)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      let cursor = yield* readCurrentCursor
      const read = Effect.fnUntraced(function* (write: Effect.Effect<unknown, unknown, SqlClient.SqlClient>) {
        yield* write
        const page = yield* readAll("", cursor)
        cursor = page.cursor
        for (const { before, row } of page.changes) {
          assert.hasAllKeys(row ?? before, ["old_ticker", "new_ticker", "effective_date", "cik", "company_name"])
        }
        return page.changes.map(({ changed, kind }) => [kind, ...changed].join(" "))
      })
      const set = (status: string) => read(sql`update ticker_changes set status = ${status}`)
      assert.deepStrictEqual(yield* read(insertChange("STA", "STB", "2026-01-05", "estimated")), [])
      assert.deepStrictEqual(yield* set("confirmed"), ["added"])
      assert.deepStrictEqual(yield* read(sql`update ticker_changes set source = 'A', source_links = '{B}'`), [])
      assert.deepStrictEqual(yield* read(sql`update ticker_changes set company_name = 'C', source = 'D'`), [
        "corrected company_name",
      ])
      assert.deepStrictEqual(yield* set("reverted"), ["removed"])
      assert.deepStrictEqual(yield* set("blocked"), [])
      assert.deepStrictEqual(yield* read(sql`delete from ticker_changes`), [])
    }))

  it.effect("has no closing prices, and neither do the counts of corrections (§2.6)", () =>
    Effect.gen(function* () {
      const start = yield* readCurrentCursor
      yield* Service.insertRows("daily_prices", { ticker: "CLOSE", date: "2026-01-05", close: "123.4567" })
      assert.deepStrictEqual((yield* readAll("", start)).changes, [])
      const { body, status } = yield* request("/v1/changes?dataset=daily_prices")
      assert.strictEqual(status, 422)
      assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), "dataset")
      for (const path of ["/v1/corrections", "/v1/docs/corrections"]) {
        const { text } = yield* request(path)
        assert.notInclude(text, "daily_prices")
      }
    }))

  it.effect("examines up to 5,000 rows that are not shown for a page, so that few pages are empty (D36)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const start = yield* readCurrentCursor
      yield* Service.insertRows("intraday_runners", makeRunner("MANY", { date: "1980-01-01", anomaly_flagged: false }))
      const copied = Object.keys(makeRunner("", {})).filter((name) => !["date", "anomaly_flagged"].includes(name)).join(
        ", ",
      )
      const insert = (year: number, shown: string) =>
        sql.unsafe(`
          insert into intraday_runners (date, anomaly_flagged, ${copied})
          select date '${year}-01-01' + day, date '${year}-01-01' + day = '${shown}', ${copied}
          from intraday_runners, generate_series(0, 3999) as day where ticker = 'MANY' and date = '1980-01-01'
        `)
      yield* insert(1990, "2000-12-13")
      yield* insert(2002, "2012-12-13")
      const query = "dataset=intraday_runners&limit=10"
      const first = yield* readPage(`${query}&after=${start}`)
      assert.deepStrictEqual(first.results.map(({ key }) => key["date"]), ["2000-12-13"])
      assert.isTrue(first.has_more)
      const second = yield* readPage(`${query}&after=${first.cursor}`)
      assert.deepStrictEqual(second.results.map(({ key }) => key["date"]), ["2012-12-13"])
      assert.isFalse(second.has_more)
      const one = yield* readPage(`dataset=intraday_runners&limit=1&after=${start}`)
      assert.deepStrictEqual(one.results, first.results)
      assert.strictEqual(one.cursor, one.results[0]?.cursor, "the page ends with its last change")
    }))

  it.effect("reads no more rows of other datasets than the page has, because they may be large (D36)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const start = yield* readCurrentCursor
      yield* Service.insertRows("intraday_runners", makeRunner("SMALL", { anomaly_flagged: false }))
      yield* sql`
        insert into research_reports (report_id, ticker, gain_percentage, report_text, tldr_text, created_at, last_updated)
        select number, 'LARGE', 20, repeat('x', 1000), 'Summary', '2026-01-01', '2026-01-01'
        from generate_series(1, 100) as number
      `
      const { result, sent } = yield* StatementRecorder.recordStatements(readPage(`limit=3&after=${start}`))
      assert.deepStrictEqual(result.results.map(({ dataset }) => dataset), range(3).map(() => "research_reports"))
      assert.strictEqual(result.cursor, result.results[2]?.cursor)
      const counts = yield* Effect.forEach(
        sent.filter(({ text }) => text.includes("research_reports") && text.includes("with ordinality")),
        ({ parameters }) =>
          Effect.map(
            sql.unsafe<{ readonly number: number }>(`select cardinality($1::text[]) as number`, [parameters[0]]),
            ([row]) => row?.number ?? 0,
          ),
      )
      // The first three changes are a hidden intraday runner and two reports. To fill the page, one more change is
      // read.
      assert.deepStrictEqual(counts, [2, 1])
    }))

  it.effect("sends each account the changes that it may read, on streams that share them (D3, D36)", () =>
    Effect.gen(function* () {
      const { basic, ultimate } = yield* Service.TestKeys
      const start = yield* readCurrentCursor
      const port = yield* Service.servicePort
      const streams = yield* Effect.forEach(
        [ultimate, basic],
        (key) => openEventStream(port, `after=${start}`, { key }),
      )
      yield* fillDatasets
      const choosers = new Map(yield* makeStatementChoosers)
      const choose = makeRandomChooser(37)
      for (const _ of range(getInputCount(40))) yield* writeTransaction(choose, choosers)
      const { changes } = yield* readAll("limit=1000", start)
      for (const [index, stream] of streams.entries()) {
        const expected = changes.filter(({ dataset }) => index === 0 || dataset !== "research_reports")
        yield* waitForCondition("all changes", () => stream.lastId === expected.at(-1)?.cursor)
        assert.deepStrictEqual(stream.changes.map(({ data }): unknown => JSON.parse(data)), expected)
      }
      assert.isTrue(changes.some(({ dataset }) => dataset === "research_reports"))
    }).pipe(Effect.scoped))

  it.effect("begins all days since the last one at once, and lists each row once even if others are being written (D36)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const day = Effect.fnUntraced(function* (offset: number) {
        const [row] = yield* sql<{ readonly day: string }>`
          select ((now() at time zone 'America/Chicago')::date + ${offset}::int)::text as day`
        return row?.day ?? ""
      })
      yield* resetDays
      const start = yield* readCurrentCursor
      for (const [index, offset] of [-3, -2, -1, 0, 1].entries()) {
        yield* insertChange(`D${index}`, `E${index}`, yield* day(offset))
      }
      const held = yield* beginTransaction(Effect.flatMap(day(0), (today) => insertChange("HELD", "E9", today)))
      const today = yield* day(0)
      const writer = yield* Effect.forkChild(
        Effect.forEach(range(30), (index) => insertChange(`W${index}`, `V${index}`, today), { concurrency: 3 }),
      )
      // Several processes start the day at the same time. The database rejects a day that is later than its own date.
      const begin = sql`select history.start_day(${yield* day(2)}::text::date)`
      yield* Effect.all(range(4).map(() => begin), { concurrency: 4 })
      yield* Fiber.join(writer)
      yield* held.commit
      const { changes } = yield* readAll("dataset=ticker_changes&limit=7", start)
      const symbols = changes.map(({ key }) => String(key["old_ticker"]))
      assert.sameMembers(symbols, ["D0", "D1", "D2", "D3", "HELD", ...range(30).map((index) => `W${index}`)])
      assert.isTrue(changes.every(({ kind }) => kind === "added"))
      const moments = changes.filter(({ key }) => /^D[123]$/.test(String(key["old_ticker"])))
      assert.strictEqual(new Set(moments.map(({ recorded_at }) => recorded_at)).size, 1, "in one transaction")
      const days = yield* sql`select from history.days`
      assert.lengthOf(days, ["the first day", "today"].length)
      yield* sql`delete from ticker_changes where old_ticker in ('D1', 'D4')`
      const after = yield* readAll("dataset=ticker_changes", changes.at(-1)?.cursor ?? "")
      assert.deepStrictEqual(after.changes.map(({ key, kind }) => [key["old_ticker"], kind]), [["D1", "removed"]])
    }).pipe(Effect.scoped))
})

layer(service(resetDays), { excludeTestServices: true, timeout: "60 seconds" })(
  "A service that has just started",
  (it) => {
    it.effect("begins the day if it began while no service ran (D36)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const isBegun = sql`
        select from history.days where day = (now() at time zone 'America/Chicago')::date and recorded_at > '-infinity'
      `
        yield* Effect.repeat(isBegun, { until: (rows) => rows.length > 0, schedule: Schedule.spaced("20 millis") })
      }))
  },
)
