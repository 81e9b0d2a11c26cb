/**
 * Tests every list in every format. The lists are read from the OpenAPI document, so new lists are covered
 * automatically.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Predicate } from "effect"
import { SqlClient } from "effect/sql"
import { isDeepStrictEqual } from "node:util"
import { getDefaultOpenApiDocument } from "../../../src/api/catalogue/OpenApiDocument.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { documentedEndpoints, valueAt } from "../../support/DocumentedEndpoints.ts"
import * as ListDownloads from "../../support/ListDownloads.ts"
import { parseWithDigits, readParquet } from "../../support/ParquetFiles.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import { assertEqualRows, getDatasetOfPath } from "../../support/RowAssertions.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { TestKeys } from "../../support/Service.ts"

const { startServiceInstance, requestOverWire } = ServiceInstances

/** The number of rows per table, which fills three pages of the maximum size (100). */
const rows = 230

/** Stores text that is difficult to encode in some rows of `news` and `ownership`. */
const storeHostileText = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const text = `=cmd|' /C calc'!A0, "quoted"\r\nsecond line – ü 😀`
  yield* sql`update news set title = ${text}, summary = '-1', body = E'\\t=1', author = null where id like '%7'`
  yield* sql`update ownership set owner_name = ${text} where owner_name like '%a'`
})

/** Stores empty texts in one fifth of the rows, as other programs do (D16). */
const storeEmptyTexts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const { table } of loadableDatasets) {
    // Builds one assignment for each column that may contain empty texts: lists, and nullable texts without a
    // constraint.
    const [values] = yield* sql<{ readonly assignments: string | null }>`
      select string_agg(
        format('%I = ', attname) || case atttypid when 'text'::regtype then '''''' else '''{"",first,""}''' end,
        ', '
      ) as assignments
      from pg_attribute
      where attrelid = ${`public.${table}`}::regclass and attnum > 0 and not attisdropped and (
        atttypid = 'text[]'::regtype
        or (atttypid = 'text'::regtype and not attnotnull and not exists (
          select from pg_constraint where conrelid = attrelid and contype = 'c' and conkey = array[attnum]
        ))
      )
    `
    if (typeof values?.assignments !== "string") continue
    yield* sql.unsafe(`update ${table} set ${values.assignments} where ctid in (
      select ctid from (select ctid, row_number() over () as place from ${table}) as rows where place % 5 = 3
    )`)
  }
})

class Instance extends Context.Service<Instance, { readonly port: number }>()("test/contract/rows/Instance") {
  static readonly layer = Layer.effect(Instance, Effect.map(startServiceInstance(), (port) => ({ port })))
}

const filled = Instance.layer.pipe(
  Layer.provideMerge(Layer.effectDiscard(
    Effect.andThen(GeneratedRows.fillAllTables(rows), Effect.andThen(storeHostileText, storeEmptyTexts)),
  )),
  Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
)

const lists = documentedEndpoints.filter(({ parameters }) => parameters.some(({ name }) => name === "page"))

const tickers = Array.from({ length: 100 }, (_, at) => `T${at + 1}`).join(",")

/** Returns the URL of a list. If the list requires a ticker, the URL contains one that has rows. */
const pathOf = ({ parameters, path }: typeof lists[number]) => {
  const ticker = parameters.find(({ name, required }) => name === "ticker" && required)
  return ticker === undefined ? `${path}?` : `${path}?ticker=${ticker.kind === "ticker" ? "T7" : tickers}&`
}

const listOf = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

/** Returns the JSON text of each object in `results`, without parsing numbers. */
const resultsIn = (text: string): ReadonlyArray<string> => {
  const found: Array<string> = []
  let [depth, start, inText] = [0, 0, false]
  const opening = `"results":[`
  const from = text.indexOf(opening) + opening.length
  for (let at = from; at < text.length; at++) {
    const letter = text[at]
    if (inText) {
      if (letter === "\\") at += 1
      else if (letter === `"`) inText = false
    } else if (letter === `"`) inText = true
    else if (letter === "{" || letter === "[") {
      if (depth === 0) start = at
      depth += 1
    } else if (letter === "}" || letter === "]") {
      depth -= 1
      if (depth < 0) break
      if (depth === 0) found.push(text.slice(start, at + 1))
    }
  }
  return found
}

/** Returns the expected CSV cell content for a JSON value. */
const cellFor = (value: unknown): string => {
  if (value === null || value === undefined) return ""
  if (typeof value !== "string") {
    return Predicate.isObject(value) || Array.isArray(value) ? JSON.stringify(value) : `${value}`
  }
  return /^\s*[=+\-@]/.test(value) ? `'${value}` : value
}

/** Returns the CSV rows for a result. An ownership filing has one row per owner. */
const toCsvRows = (result: unknown) => {
  const owners = listOf(valueAt(result, "owners"))
  return owners.length === 0 ? [result] : owners.map((owner) => ({ ...Object(result), ...Object(owner) }))
}

const decimal = /^-?[\d.]+$/

/** Asserts that the lines are equal byte for byte. The failure message lists the cells that differ. */
const assertEqualLines = (
  path: string,
  actual: ReadonlyArray<string>,
  expected: ReadonlyArray<string>,
  about: string,
) => {
  if (isDeepStrictEqual(actual, expected)) return
  const parse = (lines: ReadonlyArray<string>) => lines.map((line) => ({ ...Object(parseWithDigits(line)) }))
  assertEqualRows(getDatasetOfPath(path), parse(actual), parse(expected), `${about} of ${path}`)
  const index = expected.findIndex((line, at) => line !== actual[at])
  assert.strictEqual(actual[index], expected[index], `${about} of ${path}, line ${index + 1}: equal values`)
}

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("Every list", (it) => {
  it.effect("has the parameter format, and documents the media type of each format (D8)", () =>
    Effect.sync(() => {
      assertFoundMoreThan(20, "lists", lists)
      for (const { path } of lists) {
        const parameters = listOf(valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "parameters"))
        assert.include(parameters.map((parameter) => valueAt(parameter, "name")), "format")
        const content = Object.keys(
          Object(valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "responses", "200", "content")),
        )
        assert.deepStrictEqual(content, [
          "application/json",
          "text/csv; charset=utf-8; header=present",
          "application/x-ndjson",
          "application/vnd.apache.parquet",
        ])
      }
    }))

  it.effect.each(lists)(
    "returns the same values in JSON, NDJSON, CSV and Parquet, as pages and as an export: $path (D8, D16)",
    (list) =>
      Effect.gen(function* () {
        const { ultimate } = yield* TestKeys
        const { port } = yield* Instance
        const path = pathOf(list)
        const dataset = getDatasetOfPath(list.path)
        const pages: Array<string> = []
        const lines: Array<string> = []
        let [page, more] = [1, true]
        while (more && page <= 4) {
          const json = yield* requestOverWire(port, `${path}limit=100&page=${page}`, ultimate)
          assert.strictEqual(json.status, 200, json.text)
          assert.notMatch(json.text, /[:,[]""/, "an empty text")
          const results = resultsIn(json.text)
          const ndjson = yield* ListDownloads.download(port, `${path}limit=100&page=${page}&format=ndjson`, ultimate)
          if (!list.path.startsWith("/v1/usage")) {
            assertEqualLines(list.path, ListDownloads.splitLines(ndjson.text), results, `NDJSON, page ${page}`)
            assert.strictEqual(ndjson.headers["link"]?.replace("&format=ndjson", ""), json.headers["link"])
          }
          assert.strictEqual(ndjson.headers["content-type"], "application/x-ndjson")
          assert.strictEqual(ndjson.headers["x-row-count"], String(ListDownloads.splitLines(ndjson.text).length))
          assert.strictEqual(ndjson.headers["unencoded-digest"], ListDownloads.formatContentDigest(ndjson.bytes))
          pages.push(...results)
          lines.push(...ListDownloads.splitLines(ndjson.text))
          more = valueAt(JSON.parse(json.text), "has_more") === true
          page += 1
        }
        const page1 = yield* ListDownloads.download(port, `${path}limit=7&format=csv`, ultimate)
        const firstJson = yield* requestOverWire(port, `${path}limit=7`, ultimate)
        const first = yield* ListDownloads.parseCsv(page1.text)
        assert.match(page1.headers["content-disposition"] ?? "", /^attachment; filename="[a-z-]+\.csv"$/)
        assert.strictEqual(page1.headers["x-row-count"], String(first.records.length))
        assert.strictEqual(page1.headers["content-type"], "text/csv; charset=utf-8; header=present")
        assert.strictEqual(page1.headers["unencoded-digest"], ListDownloads.formatContentDigest(page1.bytes))
        // Each request adds a row to /v1/usage, so pages and exports of that list differ.
        if (list.path.startsWith("/v1/usage")) return
        assert.strictEqual(
          first.records.length,
          resultsIn(firstJson.text).flatMap((text) => toCsvRows(JSON.parse(text))).length,
        )

        const ndjson = yield* ListDownloads.download(port, `${path}limit=all&format=ndjson`, ultimate)
        assert.strictEqual(ndjson.status, 200, ndjson.text.slice(0, 300))
        assertEqualLines(list.path, ListDownloads.splitLines(ndjson.text), pages, "NDJSON export and JSON pages")
        assertEqualLines(list.path, ListDownloads.splitLines(ndjson.text), lines, "NDJSON export and NDJSON pages")
        const csv = yield* ListDownloads.download(port, `${path}limit=all&format=csv`, ultimate)
        const { header, records } = yield* ListDownloads.parseCsv(csv.text)
        const values = pages.map((text): unknown => JSON.parse(text)).flatMap(toCsvRows)
        const expectedCells = values.map((row) =>
          Object.fromEntries(header.map((name) => [name, cellFor(Reflect.get(Object(row), name))]))
        )
        const cells = records.map((record, index) => {
          assert.strictEqual(record.length, header.length, `${list.path}, CSV record ${index + 1}`)
          // Compares numbers as floats, because JSON.parse has dropped any additional digits of the expected values.
          return Object.fromEntries(header.map((name, at) => {
            const [text = "", expected = ""] = [record[at], expectedCells[index]?.[name]]
            return [name, decimal.test(text) && decimal.test(expected) ? String(Number(text)) : text]
          }))
        })
        assertEqualRows(dataset, cells, expectedCells, `CSV of ${list.path}`)
        const parquet = yield* ListDownloads.download(port, `${path}limit=all&format=parquet`, ultimate)
        const file = yield* Effect.promise(() => readParquet(parquet.bytes))
        assert.deepStrictEqual(Object.keys(file.types), header)
        const expectedValues = pages.map(parseWithDigits).flatMap(toCsvRows).map((row) =>
          Object.fromEntries(header.map((name) => [name, Reflect.get(Object(row), name) ?? null]))
        )
        assertEqualRows(dataset, file.rows, expectedValues, `Parquet of ${list.path}`)
        assert.strictEqual(file.metadata["tickerline.endpoint"], list.path)
        assert.strictEqual(file.metadata["tickerline.query"], `${path}limit=all&format=parquet`.split("?")[1])
        assert.strictEqual(file.metadata["tickerline.row_count"], String(records.length))
        assert.match(file.metadata["tickerline.dataset_version"] ?? "", /^([\w-]{43})?$/)
        assert.strictEqual(parquet.headers["content-type"], "application/vnd.apache.parquet")
        assert.match(parquet.headers["content-disposition"] ?? "", /^attachment; filename="[a-z-]+\.parquet"$/)
        assert.strictEqual(parquet.headers["x-row-count"], String(records.length))
        for (const { bytes, headers, isComplete, trailers } of [csv, ndjson, parquet]) {
          assert.isTrue(isComplete)
          assert.strictEqual(headers["trailer"], "Unencoded-Digest, X-Cost-Microdollars")
          assert.strictEqual(headers["cache-control"], "private, no-store")
          assert.isUndefined(headers["etag"])
          assert.strictEqual(trailers["unencoded-digest"], ListDownloads.formatContentDigest(bytes))
          assert.match(trailers["x-cost-microdollars"] ?? "", /^\d+$/)
        }
        assert.strictEqual(csv.headers["x-row-count"], String(records.length))
        assert.strictEqual(ndjson.headers["x-row-count"], String(pages.length))
      }),
  )

  it.effect.each(lists)(
    "refuses an invalid format or limit with a JSON error that names the valid ones: $path (D4, D11)",
    (list) =>
      Effect.gen(function* () {
        const { ultimate } = yield* TestKeys
        const { port } = yield* Instance
        const path = pathOf(list)
        const wrong = [
          ["limit=all", "limit", /format=csv, format=ndjson or format=parquet/],
          ["limit=all&format=json", "limit", /format=csv, format=ndjson or format=parquet/],
          ["format=parquet", "format", /only with limit=all/],
          ["limit=100&format=parquet", "format", /only with limit=all/],
          ["limit=all&format=csv&page=2", "page", /limit=all/],
          ["limit=0&format=csv", "limit", /whole number from 1 to 100, or all/],
          ["limit=ALL&format=csv", "limit", /whole number from 1 to 100, or all/],
          ["format=xml", "format", /json, csv, ndjson, parquet/],
          ["format=CSV", "format", /json, csv, ndjson, parquet/],
          ["format=csv&format=csv", "format", /more than once/],
        ] as const
        for (const [query, field, reason] of wrong) {
          for (const headers of [{}, { Accept: "application/json" }] as const) {
            const { headers: { "content-type": type }, status, text } = yield* requestOverWire(
              port,
              path + query,
              ultimate,
              {
                headers,
              },
            )
            assert.strictEqual(status, 422, `${query} ${text}`)
            assert.strictEqual(type, "application/json")
            const [found, ...more] = listOf(valueAt(JSON.parse(text), "error", "details", "fields"))
            assert.deepStrictEqual(more, [])
            assert.strictEqual(valueAt(found, "field"), field)
            assert.match(String(valueAt(found, "reason")), reason)
          }
        }
        const refused = yield* requestOverWire(port, `${path}zzz=1`, ultimate, { headers: { Accept: "text/csv" } })
        assert.strictEqual(refused.headers["content-type"], "application/json")
      }),
  )

  it.effect("caches each format separately, with its own ETag (D17)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* TestKeys
      const { port } = yield* Instance
      const path = "/v1/intraday-runners?ticker=T1,T2&limit=20"
      /** Requests that each consist of a path and an Accept header, with the expected media type of the response. */
      const ways: ReadonlyArray<readonly [string, string | undefined, RegExp]> = [
        [path, undefined, /json/],
        [path, "text/csv", /csv/],
        [path, "application/x-ndjson", /ndjson/],
        [`${path}&format=csv`, "application/json", /csv/],
        [`${path}&format=ndjson`, "text/csv", /ndjson/],
        [`${path}&format=json`, "text/csv", /^application\/json/],
      ]
      const bodies = new Map<string, string>()
      for (const encoding of ["identity", "gzip"]) {
        for (let round = 0; round < 5; round++) {
          for (const [target, accept, type] of ways) {
            const headers = { "Accept-Encoding": encoding, ...(accept === undefined ? {} : { Accept: accept }) }
            const response = yield* requestOverWire(port, target, ultimate, { headers })
            assert.match(response.headers["content-type"] ?? "", type)
            const name = `${encoding} ${target} ${accept}`
            assert.strictEqual(bodies.get(name) ?? response.text, response.text)
            bodies.set(name, response.text)
            assert.strictEqual(response.headers["vary"]?.includes("Accept,") === true, target === path, target)
            const conditional = { ...headers, "If-None-Match": response.headers["etag"] ?? "" }
            const again = yield* requestOverWire(port, target, ultimate, { headers: conditional })
            assert.strictEqual(again.status, 304)
            assert.isUndefined(again.headers["x-row-count"])
            const other = yield* requestOverWire(port, target, ultimate, {
              headers: { ...conditional, Accept: accept === "text/csv" ? "application/x-ndjson" : "text/csv" },
            })
            assert.strictEqual(other.status, target === path ? 200 : 304, target)
          }
        }
      }
      assert.strictEqual(new Set(Array.from(bodies.values())).size, ["json", "csv", "ndjson"].length)
    }))

  it.effect("returns the same headers for HEAD as for GET, for pages and exports (D10)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* TestKeys
      const { port } = yield* Instance
      const queries = [
        "limit=3&format=csv",
        "limit=all&format=csv",
        "limit=all&format=ndjson",
        "limit=all&format=parquet",
      ]
      for (const query of queries) {
        const get = yield* ListDownloads.download(port, `/v1/news?${query}`, ultimate)
        const head = yield* requestOverWire(port, `/v1/news?${query}`, ultimate, { method: "HEAD" })
        assert.strictEqual(head.status, 200)
        assert.strictEqual(head.bytes.length, 0)
        const changing = new Set(["connection", "date", "keep-alive", "x-cost-microdollars", "x-request-id"])
        const isChanging = (name: string) => changing.has(name) || name.startsWith("x-ratelimit-")
        const getComparable = (headers: Readonly<Record<string, string>>) =>
          Object.entries(headers).filter(([name]) => !isChanging(name)).toSorted()
        assert.deepStrictEqual(getComparable(head.headers), getComparable(get.headers), query)
        // The cost of an export is sent in a trailer, and a HEAD response has no trailers.
        assert.strictEqual(head.headers["x-cost-microdollars"], query.includes("all") ? undefined : "0")
      }
    }))
})
