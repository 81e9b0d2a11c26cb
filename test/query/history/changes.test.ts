/**
 * Tests that `/v1/changes` delivers every committed change once and in order, so a client can maintain a copy of the
 * datasets.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, FileSystem, Layer, Ref, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { CurrentAccount } from "../../../src/contract/Authentication.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import { readLoadableColumns } from "../../../src/ingest/load/LoadingTable.ts"
import { RequiredTier } from "../../../src/contract/rules/EndpointAnnotations.ts"
import { changeFeedDatasets, changeKinds, requiredEndpointsByDataset } from "../../../src/contract/endpoints/changes.ts"
import { selectReadableDatasets } from "../../../src/api/endpoints/changes.ts"
import { fillTable } from "../../support/GeneratedRows.ts"
import { getResultRows } from "../../support/ListClients.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { makeReportedShares } from "../../support/ReportedShares.ts"
import { range, writeRandomTransaction } from "../../support/RandomTransactions.ts"
import { assertEqualRows } from "../../support/RowAssertions.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { getInputCount, skipUnlessThorough } from "../../support/Thoroughness.ts"

const { valueAt } = Service

// ---------------------------------------------------------------------------------------------------------------------
// Reading the feed
// ---------------------------------------------------------------------------------------------------------------------

const Values = Schema.Record(Schema.String, Schema.Unknown)

const Page = Schema.Struct({
  count: Schema.Int,
  results: Schema.Array(Schema.Struct({
    cursor: Schema.String,
    recorded_at: Schema.String,
    dataset: Schema.Literals(changeFeedDatasets),
    kind: Schema.Literals(changeKinds),
    key: Values,
    row: Schema.NullOr(Values),
    before: Schema.NullOr(Values),
    changed: Schema.Array(Schema.String),
  })),
  cursor: Schema.String,
  has_more: Schema.Boolean,
})
type FeedPage = typeof Page.Type
type Change = FeedPage["results"][number]

/** Parses JSON without losing digits of numbers. */
const parseExactly = (text: string): unknown =>
  JSON.parse(
    text,
    (_, value: unknown, context?: { readonly source?: string }) =>
      typeof value === "number" && Number.isInteger(value) === false ? JSON.rawJSON(context?.source ?? "") : value,
  )

const request = Effect.fnUntraced(function* (query: string, key?: string) {
  const { ultimate } = yield* Service.TestKeys
  return yield* Service.requestJson(`/v1/changes?${query}`, { key: key ?? ultimate })
})

const readPage = Effect.fnUntraced(function* (query: string, key?: string) {
  const { headers, status, text } = yield* request(query, key)
  assert.strictEqual(status, 200, `${query}: ${text}`)
  assert.strictEqual(headers["cache-control"], "private, no-cache")
  return Schema.decodeUnknownSync(Page)(parseExactly(text))
})

/** Appends the cursor to a query, if there is one. */
const withAfter = (query: string, after: string | undefined) =>
  after === undefined ? query : `${query}&after=${encodeURIComponent(after)}`

/** Reads all pages. Returns their changes and the last cursor. */
const readAll = Effect.fnUntraced(function* (query: string, after?: string, key?: string) {
  const changes: Array<Change> = []
  let cursor = after
  while (true) {
    const page = yield* readPage(withAfter(query, cursor), key)
    assert.strictEqual(page.count, page.results.length)
    changes.push(...page.results)
    cursor = page.cursor
    if (!page.has_more) return { changes, cursor }
  }
})

const readCurrentCursor = Effect.map(readPage("after=now"), ({ cursor }) => cursor)

const getKinds = (changes: ReadonlyArray<Change>) => changes.map(({ kind }) => kind)

// ---------------------------------------------------------------------------------------------------------------------
// Keeping a copy
// ---------------------------------------------------------------------------------------------------------------------

const toJson = (value: unknown) => JSON.stringify(value)

/**
 * A client's copy of the datasets, indexed by row key. `apply` fails if a change was skipped, repeated or delivered out
 * of order.
 */
class Copy {
  readonly tables = new Map<string, Map<string, Readonly<Record<string, unknown>>>>()
  private lastRecordedAt = ""

  apply({ before, changed, cursor, dataset, key, kind, recorded_at, row }: Change) {
    const rows = this.tables.get(dataset) ?? new Map()
    this.tables.set(dataset, rows)
    const [keyText, description] = [toJson(key), `${dataset} ${kind} ${toJson(key)} at ${recorded_at} (${cursor})`]
    assert.isTrue(recorded_at >= this.lastRecordedAt, `${description} follows a later change`)
    this.lastRecordedAt = recorded_at
    assert.strictEqual(toJson(rows.get(keyText) ?? null), toJson(before), `${description} does not fit earlier changes`)
    for (const values of [row, before]) {
      if (values !== null) {
        assert.strictEqual(toJson(Object.keys(key).map((column) => values[column])), toJson(Object.values(key)))
      }
    }
    assert.strictEqual(row === null, kind === "removed", description)
    assert.strictEqual(before === null, kind === "added", description)
    const differing = Object.keys(row ?? {}).filter((column) =>
      before !== null && toJson(row?.[column]) !== toJson(before[column])
    )
    assert.deepStrictEqual(changed, differing, description)
    if (kind === "corrected") assert.isNotEmpty(changed, description)
    if (row === null) rows.delete(keyText)
    else rows.set(keyText, row)
  }

  /** Returns the rows as a file for `load`, without the computed column that `load` rejects. */
  toNdjson(dataset: string) {
    const rows = Array.from(this.tables.get(dataset)?.values() ?? [])
    return rows.map(({ tradable_float, ...row }) =>
      `${JSON.stringify(dataset === "historical_float_pro" ? row : { tradable_float, ...row })}\n`
    ).join("")
  }
}

/**
 * Reads the rows of a table, except the column `recorded_in`. Returns values as text that preserves all digits of
 * numbers.
 */
const readTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const columns = (yield* readLoadableColumns(table)).map(({ name }) => `"${name}"`).join(", ")
  const rows = yield* sql.unsafe<{ readonly row: Readonly<Record<string, string | null>> }>(
    `select (select jsonb_object_agg(key, value #>> '{}') from jsonb_each(to_jsonb(selected))) as row
      from (select ${columns} from ${table}) as selected order by 1`,
  )
  return rows.map(({ row }) => row)
})

/** Loads one dataset of the copy into an empty database. Returns the rows that its table then contains. */
const loadCopy = Effect.fnUntraced(function* (copy: Copy, dataset: string) {
  const fs = yield* FileSystem.FileSystem
  const content = copy.toNdjson(dataset)
  if (content === "") return []
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-feed-" })}/${dataset}.ndjson`
  yield* fs.writeFileString(file, content)
  yield* loadDatasetFile({ dataset, file, append: true }, yield* Ref.make(0))
  return yield* readTable(dataset)
})

/** Asserts that loading the copy with `load` reproduces the dataset tables. */
const assertCopies = Effect.fnUntraced(function* (copy: Copy, datasets: ReadonlyArray<string>) {
  const expected = yield* Effect.forEach(datasets, readTable)
  const loaded = yield* Effect.forEach(datasets, (dataset) => loadCopy(copy, dataset)).pipe(
    Effect.scoped,
    Effect.provide(Layer.fresh(Service.migratedDatabaseLayer)),
  )
  datasets.forEach((dataset, index) => assertEqualRows(dataset, loaded[index] ?? [], expected[index] ?? []))
})

// ---------------------------------------------------------------------------------------------------------------------
// Tests
// ---------------------------------------------------------------------------------------------------------------------

/** Datasets that cannot be loaded from a copy, because `load` requires columns that the API does not expose. */
const unloadable = new Set(["daily_prices", "intraday_runners", "ticker_changes"])

/** A row of `split_status` whose ticker is not known yet. */
const split = {
  id: "moved",
  action_type: "split_announced",
  executed: false,
  filed_at: "2026-01-01",
  form_type: "8-K",
  last_updated: "2026-01-01 00:00:00",
}

const service = Layer.provideMerge(Service.layer, StatementRecorder.layer)

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("/v1/changes", (it) => {
  it.effect("delivers each committed change once and in order while transactions run, so that a copy can be kept (decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const start = yield* readCurrentCursor
      const copy = new Copy()
      const cursors = new Set<string>()
      /**
       * The number of changes delivered in all datasets except `ticker_changes`. That dataset shows only confirmed
       * rows, so not every write is visible.
       */
      let delivered = 0
      const choose = makeRandomChooser(11)
      const writers = yield* Effect.forkChild(Effect.forEach(
        range(4),
        (writer) => {
          const chooseNext = makeRandomChooser(writer + 1)
          return Effect.forEach(range(getInputCount(100)), () => writeRandomTransaction(chooseNext), { discard: true })
        },
        { concurrency: 4, discard: true },
      ))
      let cursor = start
      /** Reads and applies the next page. Returns whether another page may already contain changes. */
      const consume = Effect.fnUntraced(function* () {
        const { cursor: next, has_more, results } = yield* readPage(
          withAfter(`limit=${choose([1, 2, 3, 7, 50])}`, cursor),
        )
        for (const change of results) {
          copy.apply(change)
          cursors.add(change.cursor)
          if (change.dataset !== "ticker_changes") delivered += 1
        }
        // A consumer may resume from the page's cursor or from the cursor of the page's last change.
        const last = results.at(-1)?.cursor
        cursor = last === undefined || choose([true, false]) ? next : last
        return has_more || results.length > 0
      })
      while (writers.pollUnsafe() === undefined) yield* consume()
      yield* Fiber.join(writers)
      while (yield* consume());
      const [counted] = yield* sql<{ readonly number: number }>`
        select count(*)::int as number from history.changes where dataset <> 'ticker_changes'
      `
      assert.isAbove(cursors.size, getInputCount(100))
      assert.strictEqual(delivered, counted?.number, "every change of rows that are always shown is delivered")
      yield* assertCopies(copy, ["historical_float_pro", "historical_tickers"])
      const again = yield* readAll("limit=1000")
      assert.strictEqual(again.changes.length, cursors.size, "a second consumer reads the same changes")
    }))

  it.effect("lets load rebuild datasets, with the exact digits, times and lists of each column (decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`truncate historical_float_pro, historical_tickers, ticker_changes`
      const start = yield* readCurrentCursor
      const copy = new Copy()
      yield* Effect.forEach(loadableDatasets, (dataset) => fillTable(dataset, 40), { discard: true })
      for (const { table } of loadableDatasets) {
        const column = loadableDatasets.find((dataset) => dataset.table === table)?.key[0] ?? ""
        yield* sql.unsafe(`delete from ${table} where ${column} = (select min(${column}) from ${table})`)
      }
      const { changes } = yield* readAll("limit=300", start)
      changes.forEach((change) => copy.apply(change))
      const tables = loadableDatasets.map(({ table }) => table)
      assert.sameMembers([...changeFeedDatasets], tables.filter((table) => table !== "daily_prices"))
      assert.sameMembers(Array.from(copy.tables.keys()), [...changeFeedDatasets])
      yield* assertCopies(copy, tables.filter((table) => !unloadable.has(table)))
    }))

  it.effect("delivers transactions in the order of their commits, even if the last to commit began first (decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const start = yield* readCurrentCursor
      const [hasWritten, mayCommit] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const slow = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function* () {
        yield* Service.insertRows("historical_float_pro", makeReportedShares("SLOW", "2026-02-01", "1"))
        yield* Deferred.succeed(hasWritten, undefined)
        yield* Deferred.await(mayCommit)
      })))
      yield* Deferred.await(hasWritten)
      yield* Service.insertRows("historical_float_pro", makeReportedShares("FAST", "2026-02-01", "1"))
      const before = yield* readAll("limit=10", start)
      assert.deepStrictEqual(before.changes.map(({ key }) => key["ticker"]), ["FAST"])
      yield* Deferred.succeed(mayCommit, undefined)
      yield* Fiber.join(slow)
      const after = yield* readAll("limit=10", before.cursor)
      assert.deepStrictEqual(after.changes.map(({ key }) => key["ticker"]), ["SLOW"])
    }))

  it.effect("shows the net effect of a transaction, and nothing of what it rolled back or undid (decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Service.insertRows(
        "historical_float_pro",
        makeReportedShares("NET", "2026-03-01", "1"),
        makeReportedShares("NET", "2026-03-02", "2"),
      )
      const start = yield* readCurrentCursor
      yield* sql.withTransaction(Effect.gen(function* () {
        yield* sql`update historical_float_pro set outstanding_shares = 9 where ticker = 'NET' and filed_at = '2026-03-01'`
        yield* sql`update historical_float_pro set outstanding_shares = 3 where ticker = 'NET' and filed_at = '2026-03-01'`
        yield* sql`delete from historical_float_pro where ticker = 'NET' and filed_at = '2026-03-02'`
        yield* Service.insertRows(
          "historical_float_pro",
          makeReportedShares("NET", "2026-03-02", "2"),
          makeReportedShares("NET", "2026-03-03", "4"),
        )
        yield* sql`delete from historical_float_pro where ticker = 'NET' and filed_at = '2026-03-03'`
      }))
      const { changes } = yield* readAll("limit=10", start)
      const [change, ...others] = changes
      assert.deepStrictEqual(others, [])
      assert.strictEqual(change?.kind, "corrected")
      assert.deepStrictEqual(change?.changed, ["outstanding_shares"])
      assert.deepStrictEqual([change?.before?.["outstanding_shares"], change?.row?.["outstanding_shares"]], [1, 3])
    }))

  it.effect("filters by dataset, kind and ticker, including a row's former symbol and both symbols of a ticker change (decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const start = yield* readCurrentCursor
      yield* Service.insertRows(
        "historical_float_pro",
        makeReportedShares("FORM", "2026-04-01", "1"),
        makeReportedShares("OTHER", "2026-04-01", "1"),
      )
      yield* sql`update historical_float_pro set outstanding_shares = 2 where ticker = 'FORM'`
      yield* Service.insertRows("float_outstanding", {
        ticker: "FORM",
        float: "7",
        is_adr: false,
        last_updated: "2026-01-01 00:00:00",
      })
      yield* sql`update float_outstanding set "float" = 8 where ticker = 'FORM'`
      yield* Service.insertRows("ticker_changes", {
        old_ticker: "FORM",
        new_ticker: "NEXT",
        effective_date: "2026-04-02",
        status: "confirmed",
      })
      yield* sql`delete from historical_float_pro where ticker = 'FORM'`
      const read = (query: string) =>
        Effect.map(
          readAll(`limit=2&${query}`, start),
          ({ changes }) => changes.map(({ dataset, kind }) => `${dataset} ${kind}`),
        )
      const changesOfForm = [
        "historical_float_pro added",
        "historical_float_pro corrected",
        "float_outstanding added",
        "float_outstanding corrected",
        "ticker_changes added",
        "historical_float_pro removed",
      ]
      assert.deepStrictEqual(yield* read("ticker=form"), changesOfForm)
      assert.deepStrictEqual(yield* read("ticker=NEXT"), ["ticker_changes added"])
      assert.deepStrictEqual(yield* read("ticker=NEXT,FORM&dataset=ticker_changes"), ["ticker_changes added"])
      assert.deepStrictEqual(
        yield* read("ticker=FORM&dataset=historical_float_pro,ticker_changes&kind=removed,added"),
        [
          "historical_float_pro added",
          "ticker_changes added",
          "historical_float_pro removed",
        ],
      )
      assert.deepStrictEqual(yield* read("kind=corrected"), [
        "historical_float_pro corrected",
        "float_outstanding corrected",
      ])
      assert.deepStrictEqual(yield* read("dataset=screener"), [])
    }))

  it.effect("finds a corrected row by the symbol that it had before (decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Service.insertRows("split_status", { ...split, ticker: "BEFORE" })
      const start = yield* readCurrentCursor
      yield* sql`update split_status set ticker = 'AFTER' where ticker = 'BEFORE'`
      for (const ticker of ["BEFORE", "AFTER"]) {
        const { changes } = yield* readAll(`ticker=${ticker}`, start)
        assert.deepStrictEqual(changes.map(({ changed, kind }) => ({ changed, kind })), [
          { changed: ["ticker"], kind: "corrected" },
        ], ticker)
        assert.deepStrictEqual([changes[0]?.before?.["ticker"], changes[0]?.row?.["ticker"]], ["BEFORE", "AFTER"])
      }
    }))

  it.effect("omits datasets whose endpoint the account or the key may not use, and refuses requests that name them (decision 0115)", () =>
    Effect.gen(function* () {
      const start = yield* readCurrentCursor
      yield* Service.insertRows("research_reports", {
        report_id: "tier",
        ticker: "TIER",
        gain_percentage: "20",
        report_text: "Text",
        tldr_text: "Summary",
        created_at: "2026-01-01T00:00:00Z",
        last_updated: "2026-01-01T00:00:00Z",
      })
      yield* Service.insertRows("historical_float_pro", makeReportedShares("TIER", "2026-05-01", "1"))
      const { basic, pro, ultimate } = yield* Service.TestKeys
      const datasets = (key: string, query = "limit=1000") =>
        Effect.map(
          readAll(query, start, key),
          ({ changes }) => Array.from(new Set(changes.map(({ dataset }) => dataset))),
        )
      assert.deepStrictEqual(yield* datasets(ultimate), ["research_reports", "historical_float_pro"])
      for (const key of [basic, pro]) {
        assert.deepStrictEqual(yield* datasets(key), ["historical_float_pro"])
        const refused = yield* request("dataset=historical_float_pro,research_reports", key)
        const own = yield* Service.requestJson("/v1/research-reports", { key })
        assert.strictEqual(refused.status, 403)
        assert.deepStrictEqual(valueAt(refused.body, "error"), valueAt(own.body, "error"))
      }
      const narrow = yield* Service.ensureAccountWithKey("feed reader", "ultimate", {
        endpoints: ["/v1/changes", "/v1/research-reports", "/v1/research-reports-tldr"],
      })
      assert.deepStrictEqual(yield* datasets(narrow), ["research_reports"])
      // The changes also contain the summaries that the second research-reports endpoint returns.
      const withoutSummaries = yield* Service.ensureAccountWithKey("feed reader", "ultimate", {
        endpoints: ["/v1/changes", "/v1/research-reports"],
      })
      assert.deepStrictEqual(yield* datasets(withoutSummaries), [])
      const refused = yield* request("dataset=news", narrow)
      assert.strictEqual(valueAt(refused.body, "error", "code"), "endpoint_not_allowed")
      assert.strictEqual(valueAt(refused.body, "error", "details", "endpoint"), "/v1/news")
    }))

  it.effect.each(changeFeedDatasets)(
    "requires the tier of the endpoint that shows %s (decision 0115)",
    (dataset) =>
      Effect.gen(function* () {
        const account: typeof CurrentAccount.Service = {
          account_id: 1,
          tier: "basic",
          spendable_microdollars: null,
          is_limited_by_budget: false,
          key_id: 1,
          endpoints: null,
          networks: null,
        }
        for (const endpoint of requiredEndpointsByDataset[dataset]) {
          const raised = { ...endpoint, annotations: Context.add(endpoint.annotations, RequiredTier, "pro") }
          const others = requiredEndpointsByDataset[dataset].filter((other) => other !== endpoint)
          const endpoints = { ...requiredEndpointsByDataset, [dataset]: [raised, ...others] }
          assert.notInclude(yield* selectReadableDatasets(account, undefined, endpoints), dataset)
          const refused = yield* Effect.flip(selectReadableDatasets(account, [dataset], endpoints))
          assert.strictEqual(refused._tag, "InsufficientTier")
        }
      }),
  )

  it.effect("continues from a time or from now, and returns a cursor even without changes (decision 0115)", () =>
    Effect.gen(function* () {
      const start = yield* readPage("after=now")
      assert.deepStrictEqual(start.results, [])
      assert.isFalse(start.has_more)
      yield* Service.insertRows("historical_float_pro", makeReportedShares("TIME", "2026-06-01", "1"))
      yield* Service.insertRows("historical_float_pro", makeReportedShares("TIME", "2026-06-02", "1"))
      const { changes, cursor } = yield* readAll("limit=1", start.cursor)
      const [first, second] = changes
      const fromTime = yield* readAll("", first?.recorded_at)
      assert.deepStrictEqual(fromTime.changes, [second])
      assert.deepStrictEqual((yield* readAll("", second?.recorded_at)).changes, [])
      assert.deepStrictEqual((yield* readAll("", first?.cursor)).changes, [second])
      const unchanged = yield* readPage(withAfter("", cursor))
      assert.deepStrictEqual([unchanged.results, unchanged.cursor], [[], cursor])
    }))

  it.effect("refuses malformed cursors and times in the future with 422 (decision 0115)", () =>
    Effect.gen(function* () {
      const { cursor } = yield* readPage("after=now")
      const wrong = [
        "",
        "x",
        "1",
        `${cursor}0`,
        cursor.slice(1).replace(/^\d*/, ""),
        cursor.toUpperCase().replace(/[A-F]/, "g"),
        "2026-02-30T00:00:00Z",
        "2026-02-01",
        "2026-02-01T00:00:00",
        "2026-02-01T25:00:00Z",
        "9999999999999999999.1.00000000000000000000000000000000",
      ]
      for (const after of wrong) {
        const { body, status } = yield* request(`after=${encodeURIComponent(after)}`)
        assert.strictEqual(status, 422, after)
        assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), "after", after)
      }
      const future = yield* request("after=2999-01-01T00:00:00Z")
      assert.strictEqual(future.status, 422)
      assert.strictEqual(valueAt(future.body, "error", "message"), "after must not be in the future")
      for (const query of ["dataset=nws", "kind=changed", "limit=1001", "limit=0", "ticker=@@"]) {
        assert.strictEqual((yield* request(query)).status, 422, query)
      }
    }))

  it.effect("prints an empty text as null, and does not list it as changed from null (D16)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const start = yield* readCurrentCursor
      yield* Service.insertRows("split_status", {
        ...split,
        id: "empty",
        ticker: "EMPTY",
        details: "",
        document_url: null,
      })
      yield* sql`update split_status set details = null, document_url = '', form_type = '6-K' where id = 'empty'`
      const { changes } = yield* readAll("dataset=split_status", start)
      assert.deepStrictEqual(changes.map(({ changed, row }) => [row?.["details"], row?.["document_url"], changed]), [
        [null, null, []],
        [null, null, ["form_type"]],
      ])
      assert.strictEqual(changes[1]?.before?.["details"], null)
    }))
})

const assertExpired = Effect.fnUntraced(function* (after: string) {
  const { body, status, text } = yield* request(`after=${encodeURIComponent(after)}`)
  assert.strictEqual(status, 410, text)
  assert.strictEqual(valueAt(body, "error", "code"), "cursor_expired")
  assert.strictEqual(valueAt(body, "error", "details", "restart"), "/v1/changes?after=now")
  return String(valueAt(body, "error", "details", "earliest"))
})

layer(Layer.fresh(service), { excludeTestServices: true, timeout: "120 seconds" })("A cursor", (it) => {
  it.effect("expires if the history is replaced, by a restored backup or after the loss of a primary (decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual((yield* readAll("")).changes, [], "a new database has no changes")
      const empty = yield* readPage("")
      assert.deepStrictEqual([empty.results, empty.has_more], [[], false])
      yield* Service.insertRows("historical_float_pro", makeReportedShares("LOST", "2026-01-01", "1"))
      assert.strictEqual((yield* readAll("", empty.cursor)).changes.length, 1)
      const { changes, cursor } = yield* readAll("")
      // Simulates a restored backup in which another transaction has the same ID.
      yield* sql`update history.transactions set mark = gen_random_uuid()`
      yield* assertExpired(cursor)
      yield* assertExpired(changes[0]?.cursor ?? "")
      const current = yield* readCurrentCursor
      yield* sql`delete from history.transactions`
      const earliest = yield* assertExpired(current)
      assert.strictEqual((yield* request(`after=${earliest}`)).status, 200)
    }))
})

/** Moves everything recorded after a month into that month, and makes the history start one month earlier. */
const moveToMonth = Effect.fnUntraced(function* (month: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`select create_month_partition(('history.' || whole)::regclass, ${month}::text::date)
      from (select 'changes' as whole union all select dataset from history.datasets) as tables`
    yield* sql`update history.beginning set earliest = ${month}::text::date - interval '1 month'`
    yield* sql`update history.transactions set recorded_at = recorded_at - (now() - ${month}::text::date) + interval '1 day',
      month = ${month}::text::date where month > ${month}::text::date`
    yield* sql`update history.changes set month = ${month}::text::date where month > ${month}::text::date`
    for (const { table } of loadableDatasets) {
      yield* sql.unsafe(`update history.${table} set replaced_month = '${month}' where replaced_month > '${month}'`)
    }
  }))
})

/**
 * Drops the oldest month if it ended before `moment`, after simulating a five-minute wait. Returns the dropped month.
 */
const dropBefore = Effect.fnUntraced(function* (moment: string) {
  const sql = yield* SqlClient.SqlClient
  const call = sql<{ readonly month: string }>`
    select month::text as month from history.drop_before(${moment}::text::timestamptz) as month
  `
  assert.deepStrictEqual(yield* call, [], "requests that began before may still read the month")
  yield* sql`update history.beginning set moved_at = moved_at - interval '5 minutes'`
  return (yield* call).map(({ month }) => month)
})

layer(Layer.fresh(service), { excludeTestServices: true, timeout: "120 seconds" })("The retention", (it) => {
  it.effect("drops whole months, and expires older cursors, except one after which nothing was dropped (decision 0115)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* Service.insertRows("historical_float_pro", makeReportedShares("OLD", "2020-01-01", "1"))
      yield* sql`update historical_float_pro set outstanding_shares = 2`
      yield* moveToMonth("2020-03-01")
      const old = yield* readAll("limit=1")
      assert.deepStrictEqual(getKinds(old.changes), ["added", "corrected"])
      const oldEnd = yield* readCurrentCursor
      yield* sql`update historical_float_pro set outstanding_shares = 3`
      yield* moveToMonth("2020-04-01")
      const newer = yield* readAll("limit=1", oldEnd)
      assert.deepStrictEqual(getKinds(newer.changes), ["corrected"])
      assert.strictEqual((yield* readAll("limit=10")).changes.length, 3, "a page continues with the next month")

      assert.deepStrictEqual(yield* dropBefore("2020-03-31"), [], "the month has not ended")
      assert.deepStrictEqual(yield* dropBefore("2020-04-15"), ["2020-03-01"])
      assert.deepStrictEqual(yield* dropBefore("2020-04-15"), [])
      const earliest = yield* assertExpired(old.changes[0]?.cursor ?? "")
      assert.strictEqual(earliest, "2020-03-31T19:00:00.000000-05:00")
      yield* assertExpired("2020-03-31T00:00:00Z")
      assert.deepStrictEqual((yield* readAll("")).changes, newer.changes, "without after, the earliest known changes")
      assert.deepStrictEqual((yield* readAll("", earliest)).changes, newer.changes)
      assert.deepStrictEqual(
        (yield* readAll("", oldEnd)).changes,
        newer.changes,
        "nothing after this cursor was dropped",
      )
      const [before] = newer.changes
      assert.deepStrictEqual([before?.before?.["outstanding_shares"], before?.row?.["outstanding_shares"]], [2, 3])
      assert.deepStrictEqual(yield* dropBefore("2020-05-15"), ["2020-04-01"])
      assert.deepStrictEqual(yield* dropBefore("2020-05-15"), [], "the current month is never dropped")
      yield* assertExpired(oldEnd)
      const [remaining] = yield* sql<{ readonly transactions: number }>`
        select count(*)::int as transactions from history.transactions
      `
      assert.strictEqual(remaining?.transactions, 1, "the newest transaction before the earliest time")
    }))
})

layer(Layer.fresh(service), { excludeTestServices: true, timeout: "180 seconds" })("A large transaction", (it) => {
  /** Counts the blocks that PostgreSQL accesses for the request's statement that contains `part`. */
  const countBlocks = Effect.fnUntraced(function* (query: string, part: string) {
    const plan = yield* StatementRecorder.explainRequest(readPage(query), part, "analyze, buffers, format json")
    return Number(valueAt(plan, "QUERY PLAN", 0, "Plan", "Shared Hit Blocks")) +
      Number(valueAt(plan, "QUERY PLAN", 0, "Plan", "Shared Read Blocks"))
  })

  /** Returns the distinct cursors of all changes after a cursor, without parsing the large number of rows. */
  const readCursors = Effect.fnUntraced(function* (start: string) {
    const cursors = new Set<unknown>()
    let [after, hasMore] = [start, true]
    while (hasMore) {
      const { body } = yield* request(withAfter("limit=1000", after))
      for (const change of getResultRows(body)) cursors.add(valueAt(change, "cursor"))
      after = String(valueAt(body, "cursor"))
      hasMore = valueAt(body, "has_more") === true
    }
    return Array.from(cursors)
  })

  it.effect("is read in pages that cost the same at its start as at its end (decision 0115)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      const start = yield* readCurrentCursor
      const insertSessions = (sessions: string) =>
        sql.unsafe(`
          insert into premarket_stats (ticker, date, reference_close, high_price, low_price, percentage_gain,
            change_percentage, volume, dollar_volume, last_updated)
          select ticker, date, 1, 1, 1, 0, 0, 1, 1, '2026-01-01' from (${sessions}) as session (ticker, date)
        `)
      const smallTransactions = 20
      yield* Effect.forEach(
        range(smallTransactions),
        (day) => insertSessions(`values ('SMALL', date '2025-01-01' + ${day})`),
      )
      const size = 10_000
      yield* insertSessions(
        `select 'T' || number % 10, date '1990-01-01' + number / 10 from generate_series(1, ${size}) as number`,
      )
      yield* sql`update premarket_stats set volume = 2 where ticker <> 'SMALL'`
      yield* sql`analyze`
      const [{ id, mark }] = yield* sql<{ readonly id: string; readonly mark: string }>`
        select id::text, replace(mark::text, '-', '') as mark from history.transactions order by recorded_at desc limit 1
      `.pipe(Effect.map(([row]) => [row ?? { id: "", mark: "" }] as const))
      for (
        const filter of [
          "",
          "&ticker=T9",
          "&ticker=T8,T9&kind=corrected",
          "&dataset=premarket_stats&kind=corrected",
        ]
      ) {
        // A page requires two statements: one lists the changes, and the other reads their rows.
        const blockCounts = yield* Effect.forEach(
          [1, size / 2, size - 200],
          (position) =>
            Effect.forEach(
              ["history.changes\n", "with ordinality"],
              (part) => countBlocks(`limit=10${filter}&after=${id}.${position}.${mark}`, part),
            ),
        )
        const totals = blockCounts.map(([listing = 0, reading = 0]) => listing + reading)
        const [first = 0] = totals
        // Reading the transaction from its start would access thousands of blocks.
        const mostBlocks = 250
        totals.forEach((total) => {
          assert.isBelow(total, mostBlocks, `${filter} ${totals.join(" ")}`)
          assert.isBelow(total, first * 2 + 50, `${filter} ${totals.join(" ")}`)
        })
      }
      const addedAndCorrected = 2 * size
      assert.lengthOf(yield* readCursors(start), smallTransactions + addedAndCorrected)
    }))
})
