/** Reads every list in the contract page by page while the account's own requests are being recorded (D8, D29). */
import { assert, layer } from "@effect/vitest"
import { Effect, Predicate } from "effect"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as DocumentedEndpoints from "../../support/DocumentedEndpoints.ts"
import { recordInvoicedUsage } from "../../support/InvoicedUsage.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt } = Service

const lists = DocumentedEndpoints.documentedEndpoints.filter(({ parameters }) =>
  parameters.some(({ name }) => name === "page")
)

type Response = Effect.Success<ReturnType<typeof requestJson>>

/** All lists, plus the change feed, which uses cursors instead of pages. */
const listsAndFeeds = DocumentedEndpoints.documentedEndpoints.filter(({ parameters }) =>
  parameters.some(({ name }) => name === "page" || name === "after")
)

/** Fields that the account's own requests change in rows that already exist. */
const changingFields = new Set(["requests", "errors", "bytes", "cost_microdollars", "last_used_at"])

/** Returns the part of a row that does not change while the account sends requests. */
const identify = (row: unknown) =>
  JSON.stringify(
    Predicate.isObject(row) ? Object.entries(row).filter(([name]) => !changingFields.has(name)) : row,
  )

layer(Service.sampleServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })("Every list", (it) => {
  const assertPagesFit = Effect.fnUntraced(function* (endpoint: DocumentedEndpoints.DocumentedEndpoint) {
    const { account_id, key } = yield* CustomerUsage.createCustomer(`reads ${endpoint.path}`, { tier: "ultimate" })
    for (let keys = 0; keys < 3; keys++) yield* Service.ensureAccountWithKey(`reads ${endpoint.path}`, "ultimate")
    const paths = ["/v1/gap-stats", "/v1/news", "/v1/screener"]
    for (const path of paths) yield* requestJson(`${path}?limit=1`, { key })
    yield* CustomerUsage.waitForRecordedRequests(account_id, paths.length)
    const target = DocumentedEndpoints.buildUrl(endpoint.path, DocumentedEndpoints.makeRequiredQuery(endpoint))
    const listed = yield* requestJson(`${target}${target.includes("?") ? "&" : "?"}limit=100`, { key })
    assert.strictEqual(listed.status, 200, listed.text)
    const existing = ListClients.getResultRows(listed.body).map(identify)
    const seen: Array<string> = []
    let path: string | undefined = `${target}${target.includes("?") ? "&" : "?"}limit=1`
    for (let page = 1; path !== undefined && page <= 4; page++) {
      // Waits until all earlier requests are recorded, including the last one: for the previous page or for the
      // complete list.
      yield* CustomerUsage.waitForRecordedRequests(account_id, paths.length + page)
      const { body, headers, status, text }: Effect.Success<ReturnType<typeof requestJson>> = yield* requestJson(
        path,
        { key },
      )
      assert.strictEqual(status, 200, text)
      assert.strictEqual(valueAt(body, "page"), page)
      seen.push(...ListClients.getResultRows(body).map(identify))
      path = ListClients.getNextPageUrl(headers)
    }
    // The pages may also contain newer rows for the requests that were sent after `existing` was read.
    const seenBefore = seen.filter((row) => existing.includes(row))
    assert.deepStrictEqual(seenBefore, existing.slice(0, seenBefore.length), endpoint.path)
    assert.isAtLeast(seenBefore.length, Math.min(existing.length, 3), endpoint.path)
  })

  it.effect("has each row once and in order on its pages, although the requests for them are recorded (D8, D29)", () =>
    Effect.forEach(lists, assertPagesFit, { concurrency: "unbounded" }))

  /**
   * Returns the page sizes up to 100 that divide the number of rows exactly into at most 30 pages. The largest size
   * comes first.
   */
  const listExactSizes = (rows: number) =>
    Array.from({ length: 100 }, (_, index) => 100 - index).filter((size) => rows % size === 0 && rows / size <= 30)

  /**
   * Finds a query whose row count is an exact multiple of some page sizes. Returns the query, its row count and these
   * sizes.
   */
  const findExactQuery = Effect.fnUntraced(
    function* (
      { parameters, path }: DocumentedEndpoints.DocumentedEndpoint,
      key: string,
      symbols: ReadonlyArray<string>,
    ) {
      const end = parameters.find(({ kind, name }) => kind === "date" && /^(requested_at|usage_date)_to$/.test(name))
      const tickers = parameters.some(({ name }) => name === "ticker")
        ? [...symbols, ...symbols.map((_, index) => symbols.slice(0, index + 2).join())]
        : []
      const whole = end === undefined ? [] : [[end.name, "2026-11-02"]] as const
      const queries = [whole, ...tickers.map((ticker) => [["ticker", ticker]] as const)]
      for (const query of queries) {
        const { body } = yield* requestJson(DocumentedEndpoints.buildUrl("/estimate", [["endpoint", path], ...query]), {
          key,
        })
        const rows = Number(valueAt(body, "results", 0, "records_total"))
        const sizes = rows > 0 ? listExactSizes(rows) : []
        if (sizes.some((size) => size < rows) || (queries.length === 1 && sizes.length > 0)) {
          return { query, rows, sizes }
        }
      }
      return assert.fail(`${path} has no query with a few exact pages`)
    },
  )

  it.effect("ends with a full page if its rows fill all pages exactly, without a link to an empty one (D8)", () =>
    Effect.gen(function* () {
      const { key } = yield* CustomerUsage.createCustomer("fills pages", { tier: "ultimate" })
      yield* recordInvoicedUsage(key)
      const screener = yield* requestJson("/v1/screener?limit=100", { key })
      const symbols = ListClients.getResultRows(screener.body).map((row) => String(valueAt(row, "ticker")))
      for (const endpoint of listsAndFeeds) {
        const { query, rows, sizes } = yield* findExactQuery(endpoint, key, symbols)
        const read = Effect.fnUntraced(function* (path: string) {
          const response = yield* requestJson(path, { key })
          assert.strictEqual(response.status, 200, response.text)
          return response
        })
        const allRows = lists.includes(endpoint)
          ? (yield* read(
            DocumentedEndpoints.buildUrl(endpoint.path, [...query, ["limit", "all"], ["format", "ndjson"]]),
          ))
            .text.trimEnd().split("\n").map((line): unknown => JSON.parse(line))
          : ListClients.getResultRows(
            (yield* read(DocumentedEndpoints.buildUrl(endpoint.path, [...query, ["limit", "1000"]]))).body,
          )
        assert.lengthOf(allRows, rows, endpoint.path)
        for (const size of sizes.slice(0, 2)) {
          const first = DocumentedEndpoints.buildUrl(endpoint.path, [...query, ["limit", String(size)]])
          const seen: Array<unknown> = []
          let path: string | undefined = first
          for (let page = 1; path !== undefined; page++) {
            const { body, headers }: Response = yield* read(path)
            const hasMore = page < rows / size
            assert.lengthOf(ListClients.getResultRows(body), size, path)
            assert.strictEqual(valueAt(body, "has_more"), hasMore, path)
            const link = ListClients.getNextPageUrl(headers)
            assert.strictEqual(link !== undefined, hasMore && lists.includes(endpoint), path)
            seen.push(...ListClients.getResultRows(body))
            path = hasMore ? link ?? `${first}&after=${String(valueAt(body, "cursor"))}` : undefined
          }
          assert.deepStrictEqual(seen, allRows, first)
        }
      }
    }))

  it.effect("refuses an invalid cursor, and names the parameter (D4, D8)", () =>
    Effect.gen(function* () {
      const { key } = yield* CustomerUsage.createCustomer("sends invalid cursors", { tier: "ultimate" })
      const paths = [
        ...DocumentedEndpoints.documentedEndpoints.map(({ path }) => path),
        ...DocumentedEndpoints.streamPaths,
      ].filter((path) => DocumentedEndpoints.getParameterNames(path).includes("after"))
      assert.includeMembers(paths, ["/v1/usage", "/v1/usage/daily", "/v1/changes", "/v1/changes/stream"])
      for (const path of paths) {
        for (const after of ["", "x", "0", "-1.1.1.1.1", "eyJ9", "9".repeat(500)]) {
          const { body, status, text } = yield* requestJson(`${path}?after=${after}`, { key })
          const field = valueAt(body, "error", "details", "fields", 0, "field")
          assert.deepStrictEqual(
            [status, valueAt(body, "error", "code"), field],
            [422, "validation_error", "after"],
            text,
          )
        }
      }
    }))
})
