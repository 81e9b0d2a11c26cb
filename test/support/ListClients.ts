/**
 * Clients for one list of a dataset, or for two lists of the same dataset. The test provides `Service.layer`.
 *
 * ```ts
 * const { requestColumn, requestInvalid } = makeListClient("/v1/news")
 * assert.deepStrictEqual(yield* requestColumn("ticker", "ticker=ABC"), ["ABC"])
 * yield* requestInvalid("ticker=")
 * ```
 */
import { assert } from "@effect/vitest"
import { Effect, FileSystem, Predicate, Ref } from "effect"
import { loadDatasetFile } from "../../src/ingest/load/DatasetLoad.ts"
import type { Tier } from "../../src/contract/rules/EndpointAnnotations.ts"
import * as Service from "./Service.ts"

const { requestJson, valueAt } = Service

type RequestEffect = ReturnType<typeof requestJson>
type TestResponse = Effect.Success<RequestEffect>
type TestRequest<A> = Effect.Effect<A, Effect.Error<RequestEffect>, Effect.Services<RequestEffect>>

/** Returns the rows in a list response. */
export const getResultRows = (body: unknown): ReadonlyArray<unknown> => {
  const results = valueAt(body, "results")
  return Array.isArray(results) ? results : []
}

/** Returns the names of the null fields in a row. */
export const getNullFieldNames = (row: unknown) =>
  Object.entries(Predicate.isObject(row) ? row : {}).flatMap(([name, cell]) => cell === null ? [name] : [])

/** Returns the names and values of a row's fields that are null or lists. */
export const getNullAndListFields = (row: unknown) =>
  Object.entries(Predicate.isObject(row) ? row : {}).flatMap(([name, cell]) =>
    cell === null || Array.isArray(cell) ? [[name, cell]] : []
  )

/** Identifies a trading session by its ticker and date, formatted as `TICKER date`. */
export const formatTickerAndDate = (row: unknown) => `${String(valueAt(row, "ticker"))} ${String(valueAt(row, "date"))}`

const getRows = ({ body, status, text }: TestResponse, query: string) => {
  assert.strictEqual(status, 200, `${query}: ${text}`)
  return getResultRows(body)
}

/** Checks a 422 response and returns its content. `field` and `reason` describe the first invalid field. */
const getValidationError = ({ body, headers, status, text }: TestResponse, query: string) => {
  assert.strictEqual(status, 422, `${query}: ${text}`)
  assert.strictEqual(valueAt(body, "error", "code"), "validation_error")
  assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
  const fields = valueAt(body, "error", "details", "fields")
  return {
    message: String(valueAt(body, "error", "message")),
    fields,
    field: valueAt(fields, 0, "field"),
    reason: String(valueAt(fields, 0, "reason")),
  }
}

/** The content of a 422 response, as returned by `requestInvalid`. */
export type ReceivedValidationError = ReturnType<typeof getValidationError>

const getJsonText = ({ headers, status, text }: TestResponse) => {
  assert.strictEqual(status, 200, text)
  assert.match(String(headers["content-type"]), /^application\/json/)
  return text
}

/** Returns the URL of the next page from the `Link` header. */
export const getNextPageUrl = (headers: Readonly<Record<string, string | undefined>>) =>
  /^<([^>]*)>; rel="next"$/.exec(headers["link"] ?? "")?.[1]

/**
 * Follows the `Link` headers and returns the rows of all pages. Asserts that no page is empty and that all pages except
 * the last are full.
 */
const readAllPages = Effect.fnUntraced(function* (first: string, limit: number, options: Service.TestRequestOptions) {
  const seen: Array<unknown> = []
  let path: string | undefined = `${first}&limit=${limit}`
  for (let page = 1; path !== undefined; page++) {
    const { body, headers, status, text }: TestResponse = yield* requestJson(path, options)
    assert.strictEqual(status, 200, text)
    assert.strictEqual(valueAt(body, "page"), page)
    assert.strictEqual(valueAt(body, "limit"), limit)
    const rows = getResultRows(body)
    assert.strictEqual(valueAt(body, "count"), rows.length)
    seen.push(...rows)
    path = getNextPageUrl(headers)
    assert.strictEqual(valueAt(body, "has_more"), path !== undefined)
    if (path !== undefined) assert.strictEqual(rows.length, limit)
    assert.isAbove(rows.length, 0)
  }
  return seen
})

/**
 * Creates a client for one list that uses the key of the `basic` tier. All methods except `request` check the status.
 */
export const makeListClient = (path: string) => {
  const request = (query: string): TestRequest<TestResponse> => requestJson(`${path}?${query}`)
  const requestRows = (query: string) => Effect.map(request(query), (response) => getRows(response, query))
  return {
    /** Returns the response, regardless of its status. */
    request,
    /** Expects the status 200. Returns the rows. */
    requestRows,
    /** Expects the status 200. Returns one field of each row. */
    requestColumn: (name: string, query: string) =>
      Effect.map(requestRows(query), (rows) => rows.map((row) => valueAt(row, name))),
    /** Expects the status 200. Returns the exact body text. */
    requestText: (query: string) => Effect.map(request(query), getJsonText),
    /** Expects the status 422. Returns the response content. */
    requestInvalid: (query: string) => Effect.map(request(query), (response) => getValidationError(response, query)),
    /** Returns the rows of all pages. */
    readAllPages: (query: string, limit: number): TestRequest<ReadonlyArray<unknown>> =>
      readAllPages(`${path}?${query}`, limit, {}),
  }
}

/** Creates a client for two lists of the same dataset, which must reject the same queries. Uses the key of `tier`. */
export const makePairedListClient = (paths: readonly [full: string, brief: string], tier: Tier = "basic") => {
  const each = Effect.fnUntraced(function* <A, E, R>(run: (path: string, key: string) => Effect.Effect<A, E, R>) {
    const { [tier]: key } = yield* Service.TestKeys
    return [yield* run(paths[0], key), yield* run(paths[1], key)] as const
  })
  const request = (query: string): TestRequest<readonly [TestResponse, TestResponse]> =>
    each((path, key) => requestJson(`${path}?${query}`, { key }))
  return {
    request,
    requestRows: (query: string) =>
      Effect.map(request(query), ([full, brief]) => [getRows(full, query), getRows(brief, query)] as const),
    requestText: (query: string) =>
      Effect.map(request(query), ([full, brief]) => [getJsonText(full), getJsonText(brief)] as const),
    requestInvalid: (query: string) =>
      Effect.map(request(query), ([full, brief]) => {
        assert.deepStrictEqual(valueAt(brief.body, "error"), valueAt(full.body, "error"))
        getValidationError(brief, query)
        return getValidationError(full, query)
      }),
    readAllPages: (query: string, limit: number) =>
      each((path, key) => readAllPages(`${path}?${query}`, limit, { key })),
  }
}

/** Sends the request with the key of each tier. All responses must have the status 200. */
export const requestOnAllTiers = Effect.fnUntraced(function* (path: string) {
  const keys = yield* Service.TestKeys
  const responses = yield* Effect.forEach(Object.values(keys), (key) => requestJson(path, { key }))
  assert.deepStrictEqual(responses.map(({ status }) => status), [200, 200, 200], path)
  return responses
})

/** Loads CSV text into a dataset, either appending the rows or replacing the existing ones. */
export const loadCsv = Effect.fnUntraced(function* (dataset: string, csv: string, how: "append" | "replace") {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: `tickerline-${dataset}-` })}/rows.csv`
  yield* fs.writeFileString(file, csv)
  const { dropped, rows, table } = yield* loadDatasetFile(
    { dataset, file, append: how === "append" },
    yield* Ref.make(0),
  )
  return { table, rows, dropped }
})

/**
 * Stored New York timestamps, each with its printed form. During daylight saving time, the printed time is one hour
 * earlier.
 */
export const newYorkTimestampSamples = [
  ["2025-01-15 16:00:00", "2025-01-15T16:00:00-05:00"],
  ["2025-07-15 16:00:00.250", "2025-07-15T15:00:00.250-05:00"],
  ["2025-07-16 00:30:00", "2025-07-15T23:30:00-05:00"],
  ["2025-03-09 02:30:00", "2025-03-09T02:30:00-05:00"],
  ["2025-11-02 01:30:00", "2025-11-02T01:30:00-05:00"],
] as const
