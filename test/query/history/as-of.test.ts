/** Tests `as_of` over HTTP: responses with data as of a past time (decision 0114). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Predicate } from "effect"
import { HttpApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Api } from "../../../src/contract/Api.ts"
import { getDefaultOpenApiDocument } from "../../../src/api/catalogue/OpenApiDocument.ts"
import { MaxPastRowsToSort } from "../../../src/query/history/PastTables.ts"
import { TablesReadByEndpoint } from "../../../src/contract/rules/EndpointAnnotations.ts"
import { parseAsOfTime } from "../../../src/contract/rules/AsOfParameter.ts"
import {
  documentedDatasetEndpoints,
  documentedEndpoints,
  getParameterNames,
  makeRequiredQuery,
} from "../../support/DocumentedEndpoints.ts"
import { formatContentDigest } from "../../support/ListDownloads.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { beginTransaction } from "../../support/HeldTransactions.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { waitUntilOldDataExpires } from "../../support/Pauses.ts"
import { sampleUnlessThorough, skipUnlessThorough } from "../../support/Thoroughness.ts"

const { insertRows, readDatabaseClock, valueAt } = Service
const { requestOverWire } = ServiceInstances

/** The endpoints that read datasets, each with the tables that it reads. */
const datasetEndpoints: Array<{ readonly path: string; readonly tables: ReadonlyArray<string> }> = []
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint }) => {
    const tables = Context.get(endpoint.annotations, TablesReadByEndpoint)
    if (tables.length > 0) datasetEndpoints.push({ path: endpoint.path, tables })
  },
})
const datasets = Array.from(new Set(datasetEndpoints.flatMap(({ tables }) => tables)))

/** Sends a request with the API key of the highest tier. */
const get = Effect.fnUntraced(function* (target: string, headers: Readonly<Record<string, string>> = {}) {
  const { ultimate } = yield* Service.TestKeys
  return yield* requestOverWire(yield* Service.servicePort, target, ultimate, { headers })
})

/** Adds the `as_of` parameter to a URL. */
const at = (target: string, moment: string) =>
  `${target}${target.includes("?") ? "&" : "?"}as_of=${encodeURIComponent(moment)}`

/**
 * Moves the start of the history to an earlier time, so that tests can request the time before its first transaction.
 */
const beginLedger = (earliest: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.andThen(
      sql`update history.beginning set earliest = ${earliest}::text::timestamptz`,
      // The service picks up the new start at its next poll.
      Effect.repeat(get(at("/v1/news", earliest)), { until: ({ status }) => status === 200 }),
    ))

/** Returns the parts of a response that must be identical when the same time is requested again later. */
const summarize = ({ headers, status, text, trailers }: ServiceInstances.WireResponse) => ({
  status,
  body: text.replace(/"request_id":"[^"]*"/, ""),
  etag: headers["etag"],
  digest: headers["unencoded-digest"] ?? trailers["unencoded-digest"],
  rows: headers["x-row-count"],
  lineage: headers["x-lineage"],
  link: headers["link"]?.replace(/&as_of=[^&>]*|as_of=[^&>]*&/, ""),
})

/** Requests to every dataset endpoint: pages, formats, an export, an estimate, symbols and followed lineages. */
const targets = datasetEndpoints.flatMap(({ path }) => {
  const endpoint = documentedEndpoints.find((documented) => documented.path === path)
  const names = getParameterNames(path)
  const isList = names.includes("limit")
  const needsTicker = endpoint === undefined || makeRequiredQuery(endpoint).length > 0
  return [
    `${path}?ticker=T2`,
    ...(isList ? [] : [`${path}?ticker=T1`, `${path}?ticker=O5`]),
    ...(isList ? [`${path}?ticker=T3&format=csv&limit=2`, `${path}?ticker=T2&format=ndjson&limit=all`] : []),
    ...(needsTicker ? [] : [path, `${path}?limit=4&page=3`, `${path}?format=csv&limit=all`]),
    ...(names.includes("follow_lineage") ? [`${path}?ticker=T2&follow_lineage=true`] : []),
    ...(names.includes("provenance") ? [`${path}?ticker=T3&provenance=true`] : []),
    `/estimate?endpoint=${path}&ticker=T2`,
  ]
})

interface Dataset {
  readonly dataset: string
  readonly key_columns: ReadonlyArray<string>
  readonly columns: ReadonlyArray<string>
}

/** Copies the rows of each table, so that deleted rows can be inserted again later. */
const copyTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`create schema spare`
  for (const table of [...datasets, "company_symbols"]) {
    yield* sql.unsafe(`create table spare.${table} as select * from ${table}`)
  }
  return yield* sql<Dataset>`select dataset, key_columns, columns from history.datasets order by dataset`
})

/** Returns one or more random statements that insert, delete or update rows of a table. */
const makeWrite = ({ columns, dataset, key_columns }: Dataset, choose: ReturnType<typeof makeRandomChooser>) => {
  const names = columns.map((name) => `"${name}"`).join(", ")
  const others = columns.filter((name) => !key_columns.includes(name) && name !== "source")
  const column = others[choose([0, 1, 2, 3, 5, 7, 11, 13]) % others.length]
  const seed = choose([1, 2, 3, 4, 5, 6, 7, 8, 9])
  /**
   * Selects random rows of a table in SQL. Hashing each row's physical position together with the seed makes the order
   * reproducible.
   */
  const some = (table: string, count: number) =>
    `select ctid from ${table} order by md5(ctid::text || '${seed}') limit ${count}`
  const add = `insert into ${dataset} (${names}) select ${names} from spare.${dataset} as added
    where ctid in (${some(`spare.${dataset}`, 40)}) on conflict do nothing`
  const remove = `delete from ${dataset} where ctid in (${some(dataset, 25)})`
  const change = column === undefined ? add : `update ${dataset} set "${column}" = (
      select "${column}" from spare.${dataset} order by md5(ctid::text || '${seed}') limit 1
    ) where ctid in (${some(dataset, 30)})`
  return choose([
    [add],
    [add],
    [remove],
    [change],
    [change],
    [remove, add],
    [change, change, remove],
    [
      `truncate ${dataset}`,
      `insert into ${dataset} (${names}) select ${names} from spare.${dataset} on conflict do nothing`,
    ],
  ])
}

const filled = Layer.effectDiscard(Effect.gen(function* () {
  yield* GeneratedRows.fillAllTables(60, true)
  yield* insertRows(
    "ticker_changes",
    { old_ticker: "T1", new_ticker: "T2", effective_date: "2016-05-01", status: "confirmed" },
    { old_ticker: "T2", new_ticker: "T3", effective_date: "2020-05-01", status: "confirmed" },
  )
  yield* insertRows(
    "company_symbols",
    ...[["T4", "T1"], ["T5", "T1"], ["T1", "T7"], ["T7", "T50"], ["T50", "T2"]].map(([alias, ticker]) => ({
      alias,
      cik: "0000000001",
      ticker,
    })),
  )
})).pipe(Layer.provideMerge(ServiceInstances.databaseWithKeysLayer))

layer(filled, { excludeTestServices: true, timeout: "180 seconds" })("The parameter as_of of every endpoint", (it) => {
  it.effect("returns, byte for byte, the response of that time, with few rows and with many (decision 0114)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const startInstance = ServiceInstances.startServiceInstance({ CACHE_MEGABYTES: "0" })
      const withFewRows = yield* startInstance
      // This instance treats a list of more than twelve rows as too large to sort.
      const withManyRows = yield* Effect.provideService(startInstance, MaxPastRowsToSort, 12)
      const tables = yield* copyTables
      const choose = makeRandomChooser(1)
      const requested = sampleUnlessThorough(targets, 5, 1)
      const moments: Array<readonly [string, ReadonlyMap<string, ReturnType<typeof summarize>>]> = []
      const record = Effect.gen(function* () {
        const moment = yield* readDatabaseClock
        const responses = yield* Effect.forEach(
          requested,
          (target) =>
            Effect.map(
              requestOverWire(withFewRows, target, ultimate),
              (response) => [target, summarize(response)] as const,
            ),
        )
        moments.push([moment, new Map(responses)])
      })
      yield* record
      for (let round = 0; round < 2; round += 1) {
        for (const table of tables) {
          if (choose([true, false, false])) continue
          const statements = makeWrite(table, choose)
          yield* sql.withTransaction(Effect.forEach(statements, (statement) => sql.unsafe(statement)))
        }
        yield* record
      }
      let differences = 0
      for (const [index, [moment, responses]] of moments.entries()) {
        for (const [number, [target, recorded]] of Array.from(responses).entries()) {
          // Each request goes to both instances, but for different times.
          const port = (index + number) % 2 === 0 ? withFewRows : withManyRows
          const past = yield* requestOverWire(port, at(target, moment), ultimate)
          assert.deepStrictEqual(
            summarize(past),
            recorded,
            `${at(target, moment)} differs from the response at that time`,
          )
          if (past.status < 400 && !target.startsWith("/estimate")) assert.strictEqual(past.headers["x-as-of"], moment)
          if (index > 0 && recorded.body !== moments[index - 1]?.[1].get(target)?.body) differences += 1
        }
      }
      // If only a few responses differ between times, there were too few writes for this test to be meaningful.
      const comparisons = requested.length * (moments.length - 1)
      assert.isAbove(differences, comparisons / 6)
    }).pipe(Effect.scoped))
})

/** The lists that do not require a ticker. */
const lists = documentedDatasetEndpoints.filter((endpoint) =>
  getParameterNames(endpoint.path).includes("page") && makeRequiredQuery(endpoint).length === 0
).map(({ path }) => ({ path }))

/** Returns the nodes of a query plan that scan earlier row versions. */
const findVersionScans = (plan: unknown): ReadonlyArray<object> => {
  if (Array.isArray(plan)) return plan.flatMap(findVersionScans)
  if (!Predicate.isObject(plan)) return []
  const isVersionScan = /_\d{4}_\d\d$/.test(String(valueAt(plan, "Relation Name")))
  return [...(isVersionScan ? [plan] : []), ...Object.values(plan).flatMap(findVersionScans)]
}

/** Replaces every dataset row, which turns each current row into an earlier version. */
const replaceAllRows = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tracked = yield* sql<Dataset>`select dataset, key_columns, columns from history.datasets order by dataset`
  for (const { columns, dataset } of tracked.filter(({ dataset }) => datasets.includes(dataset))) {
    const names = columns.map((name) => `"${name}"`).join(", ")
    yield* sql.unsafe(`create table replaced as select ${names} from ${dataset}`)
    yield* sql.unsafe(`delete from ${dataset}`)
    yield* sql.unsafe(`insert into ${dataset} (${names}) select ${names} from replaced`)
    yield* sql.unsafe("drop table replaced")
  }
})

describe("The parameter as_of", () => {
  it("is a date, which means the end of that day in New York, or a timestamp with an offset and at most six decimals (decision 0114)", () => {
    const moments = {
      "2026-01-15": "2026-01-15T23:59:59.999999-05:00",
      // The days on which daylight saving time starts and ends.
      "2026-03-08": "2026-03-08T22:59:59.999999-05:00",
      "2026-11-01": "2026-11-01T23:59:59.999999-05:00",
      "2026-07-31": "2026-07-31T22:59:59.999999-05:00",
      "2026-03-02T09:30:00-05:00": "2026-03-02T09:30:00.000000-05:00",
      "2026-03-02T09:30-05:00": "2026-03-02T09:30:00.000000-05:00",
      "2026-03-02T00:00:00.123456Z": "2026-03-01T19:00:00.123456-05:00",
      "2026-03-02T00:00:00.5+05:30": "2026-03-01T13:30:00.500000-05:00",
      // In a query string, `+` decodes to a space.
      "2026-03-02T00:00:00 05:30": "2026-03-01T13:30:00.000000-05:00",
    }
    for (const [text, moment] of Object.entries(moments)) assert.strictEqual(parseAsOfTime(text), moment, text)
    const others = [
      "",
      "now",
      "2026-02-30",
      "2026-3-2",
      "2026-03-02T09:30:00",
      "2026-03-02T24:00:00Z",
      "2026-03-02T09:30:60Z",
      "2026-03-02T09:30:00.1234567Z",
      "2026-03-02T09:30:00+24:00",
      "2026-02-29T00:00:00Z",
      "9999-12-31T23:00:00-06:00",
      "0001-01-01T00:00:00Z",
      "0001-01-01T00:00:00.5+25:00",
      "1772461800",
    ]
    for (const text of others) assert.isUndefined(parseAsOfTime(text), text)
  })

  it("belongs to every endpoint that reads datasets, and to no other (decision 0114)", () => {
    assertFoundMoreThan(20, "endpoints", datasetEndpoints)
    const withParameter = Object.keys(getDefaultOpenApiDocument().paths)
      .filter((path) => getParameterNames(path).includes("as_of"))
    assert.sameMembers(withParameter, datasetEndpoints.map(({ path }) => path))
  })
})

const newsItem = (id: string, ticker: string, title: string) => ({
  id,
  ticker,
  tickers: [ticker],
  form_type: "news",
  title,
  tags: [],
  filed_at: "2026-02-02",
  created_at: "2026-02-02 10:00:00",
  last_updated: "2026-02-02 10:00:00",
})

const addNews = (id: string, ticker: string, title = id) => insertRows("news", newsItem(id, ticker, title))

/** Returns the titles of the news items in a response, in order. */
const titlesOf = ({ text }: { readonly text: string }) => {
  const results = valueAt(JSON.parse(text), "results")
  return Array.isArray(results) ? results.map((row) => valueAt(row, "title")) : []
}

layer(Service.layer, { excludeTestServices: true, timeout: "120 seconds" })("as_of", (it) => {
  /** Asserts that a request is rejected with 422. Returns the error. */
  const requestRefused = Effect.fnUntraced(function* (target: string) {
    const { headers, status, text } = yield* get(target)
    assert.strictEqual(status, 422, `${target} ${text}`)
    assert.isUndefined(headers["x-as-of"])
    return valueAt(JSON.parse(text), "error")
  })

  it.effect("refuses a time before the history, and names the earliest one (decision 0114)", () =>
    Effect.gen(function* () {
      const error = yield* requestRefused("/v1/news?as_of=2020-01-01")
      assert.strictEqual(valueAt(error, "code"), "as_of_too_early")
      const earliest = String(valueAt(error, "details", "earliest"))
      assert.match(earliest, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}-05:00$/)
      assert.include(String(valueAt(error, "message")), earliest)
      const { headers, status } = yield* get(`/v1/news?as_of=${earliest}`)
      assert.deepStrictEqual([status, headers["x-as-of"]], [200, earliest])
      const estimate = yield* requestRefused("/estimate?endpoint=/v1/news&as_of=2020-01-01")
      assert.deepStrictEqual(estimate, error)
    }))

  it.effect("refuses the future, today's date, a time without an offset, and free endpoints (decision 0114)", () =>
    Effect.gen(function* () {
      const requestReason = Effect.fnUntraced(function* (target: string) {
        const error = yield* requestRefused(target)
        assert.strictEqual(valueAt(error, "code"), "validation_error")
        assert.strictEqual(valueAt(error, "details", "fields", 0, "field"), "as_of")
        return String(valueAt(error, "details", "fields", 0, "reason"))
      })
      const today = new Intl.DateTimeFormat("en-CA", { timeZone: "America/New_York" }).format(new Date())
      for (const moment of ["2999-01-01", "2999-01-01T00:00:00Z", today]) {
        assert.match(
          yield* requestReason(`/v1/news?as_of=${moment}`),
          /^is in the future.*use an earlier date or a timestamp$/,
        )
      }
      for (const text of ["2026-03-02T09:30:00", "yesterday", ""]) {
        assert.match(
          yield* requestReason(`/v1/news?as_of=${text}`),
          /^must be now, a date, or a timestamp with an offset/,
        )
      }
      assert.match(yield* requestReason("/v1/news?as_of=2026-03-01&as_of=2026-03-02"), /^is sent more than once/)
      for (const path of ["/v1/datasets", "/v1/usage", "/v1/account"]) {
        assert.match(yield* requestReason(`${path}?as_of=2026-03-01`), /^is not a parameter of this endpoint/)
      }
    }))

  it.effect("does not show a transaction that began earlier but committed later (decision 0114)", () =>
    Effect.gen(function* () {
      yield* addNews("before", "ORD")
      const slow = yield* beginTransaction(
        Effect.andThen(
          addNews("slow", "ORD"),
          SqlClient.SqlClient.use((sql) => sql`delete from news where id = 'before'`),
        ),
      )
      yield* addNews("fast", "ORD")
      const between = yield* readDatabaseClock
      const current = yield* get("/v1/news?ticker=ORD")
      // Resolves and caches this time while the slow transaction is still running.
      const early = yield* get(at("/v1/news?ticker=ORD", between))
      yield* slow.commit
      const late = yield* get(at("/v1/news?ticker=ORD", between))
      assert.sameMembers(titlesOf(current), ["before", "fast"])
      assert.deepStrictEqual([early.text, late.text], [current.text, current.text])
      assert.sameMembers(titlesOf(yield* get("/v1/news?ticker=ORD")), ["slow", "fast"])
    }))

  it.effect("waits for a commit in progress, which a later request for the same time would show (decision 0114)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const committing = yield* beginTransaction(
        // Writes the transaction record early. A commit otherwise does this just before it completes.
        Effect.andThen(addNews("committing", "WAIT"), sql`set constraints all immediate`),
      )
      const moment = yield* readDatabaseClock
      const pending = yield* Effect.forkChild(get(at("/v1/news?ticker=WAIT", moment)))
      yield* Effect.repeat(get("/v1/news?ticker=WAIT"), { times: 50 })
      assert.isUndefined(pending.pollUnsafe())
      yield* committing.commit
      assert.deepStrictEqual(titlesOf(yield* Fiber.join(pending)), ["committing"])
    }))

  it.effect("shows neither rows that their own transaction replaced nor writes that were rolled back (decision 0114)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const empty = yield* readDatabaseClock
      yield* sql.withTransaction(Effect.gen(function* () {
        yield* addNews("twice", "SELF", "first")
        yield* sql`update news set title = 'second' where id = 'twice'`
      }))
      const added = yield* readDatabaseClock
      yield* Effect.ignore(sql.withTransaction(Effect.andThen(sql`delete from news`, Effect.fail("rolled back"))))
      yield* sql`update news set title = title where ticker = 'SELF'`
      const moments = [empty, added, yield* readDatabaseClock]
      const titles = yield* Effect.forEach(
        moments,
        (moment) => Effect.map(get(at("/v1/news?ticker=SELF", moment)), titlesOf),
      )
      assert.deepStrictEqual(titles, [[], ["second"], ["second"]])
    }))

  it.effect("finds rows whose earlier versions are in an old month's partitions, because no service had started the new month (decision 0114)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`select create_month_partition(('history.' || dataset)::regclass, '2020-01-01') from history.datasets`
      yield* sql`select create_month_partition('history.changes', '2020-01-01')`
      yield* sql`update history.current_month set month = '2020-01-01'`
      yield* addNews("lag-replaced", "LAG", "first")
      yield* addNews("lag-ended", "LAG", "ended")
      const slow = yield* beginTransaction(sql`update news set title = 'second' where id = 'lag-replaced'`)
      yield* sql`select history.start_month()`
      yield* addNews("lag-later", "LAG", "later")
      const between = yield* readDatabaseClock
      const current = yield* get("/v1/news?ticker=LAG")
      yield* slow.commit
      yield* sql`delete from news where id = 'lag-ended'`
      assert.sameMembers(titlesOf(current), ["first", "ended", "later"])
      assert.strictEqual((yield* get(at("/v1/news?ticker=LAG", between))).text, current.text)
    }))

  it.effect("exports the rows of that time, with their digest (decision 0114)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* addNews("export", "EXP")
      const target = "/v1/news?ticker=EXP&format=csv&limit=all"
      const before = yield* get(target)
      const moment = yield* readDatabaseClock
      yield* sql`delete from news where ticker = 'EXP'`
      const past = yield* get(at(target, moment))
      assert.strictEqual(past.text, before.text)
      assert.strictEqual(past.trailers["unencoded-digest"], formatContentDigest(before.bytes))
      assert.strictEqual(past.headers["x-as-of"], moment)
      assert.notStrictEqual((yield* get(target)).text, before.text)
    }))

  it.effect("follows the lineage known at that time, and ignores a change that was recorded later (decision 0114)", () =>
    Effect.gen(function* () {
      yield* addNews("old", "LNA")
      yield* addNews("new", "LNB")
      const target = "/v1/news?ticker=LNB&follow_lineage=true"
      const chain = "/v1/ticker-changes?ticker=LNA"
      const [list, changes] = [yield* get(target), yield* get(chain)]
      const moment = yield* readDatabaseClock
      const change = { old_ticker: "LNA", new_ticker: "LNB", effective_date: "2026-02-10", status: "confirmed" }
      yield* insertRows("ticker_changes", change)
      const followed = yield* get(target)
      assert.sameMembers(titlesOf(followed), ["old"])
      const [past, pastChanges] = [yield* get(at(target, moment)), yield* get(at(chain, moment))]
      assert.deepStrictEqual([past.text, past.headers["x-lineage"]], [list.text, "LNB"])
      assert.strictEqual(pastChanges.text, changes.text)
      assert.strictEqual((yield* get(target)).text, followed.text, "the past lineage must not stay in memory")
    }))

  it.effect("sets the current date for date filters and for announced ticker changes (decision 0114)", () =>
    Effect.gen(function* () {
      yield* beginLedger("2019-01-01T00:00:00Z")
      const sql = yield* SqlClient.SqlClient
      yield* insertRows(
        "ticker_changes",
        { old_ticker: "ANA", new_ticker: "ANB", effective_date: "2020-07-01", status: "confirmed" },
      )
      yield* sql`alter table ticker_changes disable trigger user`
      yield* sql`update ticker_changes set recorded_in = null where old_ticker = 'ANA'`
      yield* sql`alter table ticker_changes enable trigger user`
      const changesAt = Effect.fnUntraced(function* (moment: string) {
        const { headers, text } = yield* get(at("/v1/ticker-changes?ticker=ANA", moment))
        return [headers["x-as-of"], valueAt(JSON.parse(text), "results", 0, "current_ticker")]
      })
      assert.deepStrictEqual(yield* changesAt("2020-06-29"), ["2020-06-29T22:59:59.999999-05:00", null])
      assert.deepStrictEqual(yield* changesAt("2020-07-01T04:59:59Z"), ["2020-06-30T23:59:59.000000-05:00", null])
      // The announced change takes effect at midnight at UTC-05:00.
      assert.deepStrictEqual(yield* changesAt("2020-07-01T05:00:00Z"), ["2020-07-01T00:00:00.000000-05:00", "ANB"])
      assert.deepStrictEqual(yield* changesAt("2020-07-01"), ["2020-07-01T22:59:59.999999-05:00", "ANB"])
      const filtered = yield* get("/v1/news?date_to=2020-06-30&as_of=2020-06-30")
      assert.strictEqual(filtered.status, 200, filtered.text)
      const error = yield* requestRefused("/v1/news?date_to=2020-07-01&as_of=2020-06-30")
      assert.include(String(valueAt(error, "message")), "2020-07-01 is after today, 2020-06-30, in New York")
    }))

  it.effect("lets clients keep the response forever, and returns 304 for its ETag (decision 0114)", () =>
    Effect.gen(function* () {
      yield* addNews("kept", "KEEP")
      const current = yield* get("/v1/news?ticker=KEEP")
      const target = at("/v1/news?ticker=KEEP", yield* readDatabaseClock)
      yield* addNews("later", "KEEP")
      const past = yield* get(target)
      assert.strictEqual(past.headers["cache-control"], "private, max-age=31536000, immutable")
      assert.strictEqual(past.headers["etag"], current.headers["etag"])
      const unchanged = yield* get(target, { "If-None-Match": past.headers["etag"] ?? "" })
      assert.deepStrictEqual([unchanged.status, unchanged.headers["x-as-of"]], [304, past.headers["x-as-of"]])
      assert.strictEqual(unchanged.headers["cache-control"], "private, max-age=31536000, immutable")
    }))

  it.effect("returns the current response with as_of=now, and the moment with which it can be requested again (guides/as-of)", () =>
    Effect.gen(function* () {
      yield* addNews("now 1", "NOW")
      yield* addNews("now 2", "NOW")
      yield* waitUntilOldDataExpires
      for (const target of ["/v1/news?ticker=NOW&limit=1", "/v1/news?ticker=NOW&limit=all&format=parquet"]) {
        const plain = yield* get(target)
        const first = yield* get(`${target}&as_of=now`)
        const [moment = ""] = [first.headers["x-as-of"]]
        // A Parquet file contains its query, so the two files differ.
        if (!target.includes("parquet")) assert.deepStrictEqual(summarize(first), summarize(plain))
        assert.strictEqual(first.headers["cache-control"], plain.headers["cache-control"])
        const clock = yield* readDatabaseClock
        assert.isTrue(moment < clock, `${moment} ${clock}`)
        yield* addNews(`after ${target}`, "NOW")
        yield* waitUntilOldDataExpires
        const later = yield* get(`${target}&as_of=now`)
        assert.isTrue(String(later.headers["x-as-of"]) > moment)
        assert.notStrictEqual(later.text, first.text)
        assert.deepStrictEqual(summarize(yield* get(at(target, moment))), summarize(first))
      }
      const { headers: { link = "", "x-as-of": moment } } = yield* get("/v1/news?ticker=NOW&limit=1&as_of=now")
      const [, next = ""] = /<[^>]*(\/v1[^>]*)>; rel="next"/.exec(link) ?? []
      assert.strictEqual((yield* get(next)).headers["x-as-of"], moment)
      assert.include((yield* get(next)).headers["cache-control"], "immutable")
      const { status, text } = yield* get("/v1/news?ticker=NOW&as_of=NOW")
      assert.strictEqual(status, 422, text)
    }))
})

const recordedDatabase = Layer.provideMerge(ServiceInstances.databaseWithKeysLayer, StatementRecorder.layer)

// The service's clock advances only when the test advances it, so it lags behind the database's clock.
layer(Service.layer)("as_of while the database's clock is ahead", (it) => {
  it.effect("is accepted, even if it was still in the future at the last poll (decision 0114)", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 millis")
      const moment = yield* readDatabaseClock
      const request = yield* Effect.forkChild(Service.requestJson(`/v1/news?as_of=${moment}`))
      const step = Effect.andThen(TestClock.adjust("50 millis"), TestClock.withLive(Effect.sleep("10 millis")))
      yield* Effect.repeat(step, { until: () => request.pollUnsafe() !== undefined })
      const { status, text } = yield* Fiber.join(request)
      assert.strictEqual(status, 200, text)
    }))
})

layer(recordedDatabase, { excludeTestServices: true, timeout: "120 seconds" })("The caches", (it) => {
  it.effect("keep responses about the past while the tables change, separately for each moment (decision 0114)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const port = yield* ServiceInstances.startServiceInstance()
      const request = (target: string) => requestOverWire(port, target, ultimate)
      yield* addNews("one", "MEM")
      const first = at("/v1/news?ticker=MEM", yield* readDatabaseClock)
      yield* addNews("two", "MEM")
      const second = at("/v1/news?ticker=MEM", yield* readDatabaseClock)
      for (const target of [first, second, first, second]) yield* request(target)
      yield* addNews("three", "MEM")
      // Once a request for current data returns the row, the service has noticed the change.
      yield* Effect.repeat(request("/v1/news?ticker=MEM"), { until: ({ text }) => text.includes("three") })
      const { result, sent } = yield* StatementRecorder.recordStatements(Effect.forEach([first, second], request))
      assert.deepStrictEqual(result.map(titlesOf), [["one"], ["one", "two"]])
      assert.deepStrictEqual(sent.filter(({ text }) => /\bnews\b/.test(text)), [])
    }).pipe(Effect.scoped))
})

/** Enough rows to reach deep pages (`DeepPages.ts`). */
const deepRows = 1_150

const deeplyFilled = Layer.effectDiscard(GeneratedRows.fillAllTables(deepRows, true)).pipe(
  Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
)

layer(deeplyFilled, { excludeTestServices: true, timeout: "180 seconds" })("A deep page of every list", (it) => {
  it.effect("is, byte for byte, what it was at that time, from current rows, earlier versions or both (D8, decision 0114)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const startInstance = ServiceInstances.startServiceInstance({ CACHE_MEGABYTES: "0" })
      const withFewRows = yield* startInstance
      const withManyRows = yield* Effect.provideService(startInstance, MaxPastRowsToSort, 0)
      const targets = lists.flatMap(({ path }) => [`${path}?limit=100&page=11`, `${path}?limit=70&page=16`])
      const record = Effect.gen(function* () {
        const moment = yield* readDatabaseClock
        const responses = yield* Effect.forEach(targets, (target) => requestOverWire(withFewRows, target, ultimate))
        return { moment, responses: responses.map(summarize) }
      })
      const moments = [yield* record]
      for (const table of datasets) {
        yield* sql.unsafe(
          `delete from ${table} where ctid in (select ctid from ${table} order by md5(ctid::text) limit 20)`,
        )
      }
      moments.push(yield* record)
      yield* replaceAllRows
      for (const { moment, responses } of moments) {
        for (const [index, target] of targets.entries()) {
          for (const port of [withFewRows, withManyRows]) {
            const past = yield* requestOverWire(port, at(target, moment), ultimate)
            assert.deepStrictEqual(summarize(past), responses[index], at(target, moment))
          }
        }
      }
      const [first, second] = moments.map(({ responses }) => responses.map(({ body }) => body))
      assert.notDeepEqual(first, second)
    }).pipe(Effect.scoped))
})

const withEarlierVersions = Layer.effectDiscard(
  Effect.andThen(GeneratedRows.fillAllTables(40, true), replaceAllRows),
).pipe(
  Layer.provideMerge(Service.layer.pipe(Layer.provide(Layer.succeed(MaxPastRowsToSort, 0)))),
  Layer.provideMerge(StatementRecorder.layer),
)

layer(withEarlierVersions, { excludeTestServices: true, timeout: "120 seconds" })("A page of the past", (it) => {
  it.effect.each(lists)(
    "of $path skips the versions that were not visible, in an index with its order (decision 0114)",
    ({ path }) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const moment = yield* readDatabaseClock
        yield* replaceAllRows
        const { sent } = yield* StatementRecorder.recordStatements(get(at(`${path}?limit=5&page=3`, moment)))
        const statement = sent.find(({ text }) => text.includes(" from history.") && text.includes("offset"))
        if (statement === undefined) return assert.fail("The list was not read")
        const plan = yield* sql.withTransaction(Effect.gen(function* () {
          // For tables this small, PostgreSQL would otherwise prefer to sort.
          for (const method of ["seqscan", "bitmapscan", "sort"]) yield* sql.unsafe(`set local enable_${method} = off`)
          return yield* StatementRecorder.explainStatement(statement)
        }))
        const [orderScan] = findVersionScans(plan)
        const condition = String(valueAt(orderScan, "Index Cond"))
        assert.include(condition, "recorded_in <=", JSON.stringify(plan))
        assert.include(condition, "replaced_in >", JSON.stringify(plan))
      }),
  )
})
