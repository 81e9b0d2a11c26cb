/** Tests that a dot and a hyphen in a symbol are equivalent wherever symbols are read or written (D41). */
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { createAccount } from "../../../src/accounts/Accounts.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { queueDatasetEvents } from "../../../src/outbox/webhooks/DatasetEvents.ts"
import { createWebhookEndpoint } from "../../../src/outbox/webhooks/WebhookEndpoints.ts"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { ChangeFeedReader } from "../../../src/query/history/ChangeFeed.ts"
import { findEstimatedTickerChange } from "../../../src/query/lineage/LineageReview.ts"
import { documentedTickerEndpoints, getParameterNames } from "../../support/DocumentedEndpoints.ts"
import { openEventStream, waitForCondition } from "../../support/EventStreams.ts"
import { fillAllTables } from "../../support/GeneratedRows.ts"
import * as McpClients from "../../support/McpClients.ts"
import * as Service from "../../support/Service.ts"

const { insertRows, readDatabaseClock, requestJson, valueAt } = Service

const request = Effect.fnUntraced(function* (path: string) {
  const { ultimate: key } = yield* Service.TestKeys
  return yield* requestJson(path, { key })
})

const services = ChangeFeedReader.layer.pipe(Layer.provide(DatabaseReader.layer), Layer.provideMerge(Service.layer))

// ---------------------------------------------------------------------------------------------------------------------
// Everything in the service that reads symbols
// ---------------------------------------------------------------------------------------------------------------------

const storedSpelling = "T-7.X"
const requestedSpellings = ["T-7-X", "T.7.X", "T.7-X", "t.7-x"] as const

/** Fills each dataset with rows that contain the stored spelling in every symbol column. */
const fillDatasets = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* fillAllTables(40, true)
  for (const { row, table } of loadableDatasets) {
    if ("ticker" in row.fields) yield* sql`update ${sql(table)} set ticker = ${storedSpelling} where ticker = 'T7'`
  }
  yield* sql`update ticker_changes set new_ticker = ${storedSpelling}, effective_date = '1990-01-02' where new_ticker = 'N7'`
})

/** Removes the parts of a response that differ between spellings: the requested symbol and the request ID. */
const withoutRequest = (text: string) => text.replace(/"query_ticker":"[^"]*"/, "").replace(/"request_id":"[^"]*"/, "")

layer(Layer.fresh(services), { excludeTestServices: true, timeout: "120 seconds" })("A requested symbol", (it) => {
  it.effect.each(documentedTickerEndpoints.map(({ path }) => ({ path })))(
    "finds the same rows in each spelling: $path (D41)",
    ({ path }) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [filled] = yield* sql`select from screener where ticker = ${storedSpelling}`
        if (filled === undefined) yield* fillDatasets
        const now = yield* readDatabaseClock
        const names = getParameterNames(path)
        const variants = [
          "",
          ...(names.includes("as_of") ? [`&as_of=${encodeURIComponent(now)}`] : []),
          ...(names.includes("follow_lineage") ? ["&follow_lineage=true"] : []),
          ...(names.includes("format") ? ["&limit=all&format=ndjson", "&format=csv"] : []),
          ...(names.includes("latest") ? ["&latest=true"] : []),
          ...(names.includes("per_holder") ? ["&per_holder=true"] : []),
        ]
        for (const variant of variants) {
          const expected = yield* request(`${path}?ticker=${storedSpelling}${variant}`)
          assert.strictEqual(expected.status, 200, expected.text)
          // These responses need not contain the symbol, so they are compared with the empty string, which every text
          // contains.
          const needsNoSymbol = variant.includes("lineage") || path.includes("tickers")
          assert.include(expected.text, needsNoSymbol ? "" : storedSpelling)
          assert.notInclude(expected.text, `"count":0`)
          const linesOfEmptyCsv = ["header", "end"].length
          assert.isAbove(expected.text.split("\n").length, variant.includes("csv") ? linesOfEmptyCsv : 0)
          for (const symbol of requestedSpellings) {
            const found = yield* request(`${path}?ticker=${symbol}${variant}`)
            assert.strictEqual(withoutRequest(found.text), withoutRequest(expected.text), `${symbol}${variant}`)
            if (found.text.includes("query_ticker")) {
              assert.include(found.text, `"query_ticker":"${symbol.toUpperCase()}"`)
            }
          }
        }
      }),
  )
})

layer(Layer.fresh(services), { excludeTestServices: true, timeout: "120 seconds" })("Spellings of a symbol", (it) => {
  /** Returns a `research_reports` row. */
  const report = (report_id: string, ticker: string) => ({
    report_id,
    ticker,
    gain_percentage: "1",
    report_text: "text",
    tldr_text: "text",
    created_at: "2026-03-02T08:00:00Z",
    last_updated: "2026-03-02T08:00:00Z",
  })

  it.effect("are the same symbol for a stream of changes that began before it was stored (D41)", () =>
    Effect.gen(function* () {
      const { ultimate: key } = yield* Service.TestKeys
      const open = (ticker: string) =>
        Effect.flatMap(
          Service.servicePort,
          (port) => openEventStream(port, `after=now&dataset=research_reports&ticker=${ticker}`, { key }),
        )
      const streams = yield* Effect.forEach(["STR-A", "STR.A", "STRA"], open)
      yield* insertRows("research_reports", report("str", "STR.A"), report("other", "STRA"))
      for (const stream of streams) yield* waitForCondition("change", () => stream.changes.length > 0)
      const found = streams.map(({ changes }) =>
        changes.map(({ data }) => valueAt(JSON.parse(data), "key", "report_id"))
      )
      assert.deepStrictEqual(found, [["str"], ["str"], ["other"]])
      yield* insertRows("research_reports", report("later", "STR-A"))
      const later = yield* open("STR-A")
      yield* insertRows("research_reports", report("last", "STR-A"))
      for (const stream of [...streams.slice(0, 2), later]) {
        yield* waitForCondition("last change", () => stream.changes.at(-1)?.data.includes(`"last"`) === true)
      }
    }).pipe(Effect.scoped))

  it.effect("are the same symbol for a webhook, which names it as it is stored (D41)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* createAccount({ name: "spelled", tier: "ultimate", email: null, prepaid: false })
      const { endpoint_id } = yield* createWebhookEndpoint({
        account: "spelled",
        url: "https://example.com/",
        events: null,
        datasets: null,
        tickers: ["HOO.K", "HOOX"],
      })
      yield* insertRows("research_reports", report("hook", "HOO-K"), report("unasked", "HOOK"))
      yield* queueDatasetEvents("https://example.com")
      const messages = yield* sql<{ readonly body: string }>`
        select body from webhook_messages where endpoint_id = ${String(endpoint_id)}
      `
      const [data, ...others] = messages.map(({ body }) => valueAt(JSON.parse(body), "data"))
      assert.isEmpty(others)
      assert.deepStrictEqual(valueAt(data, "tickers"), ["HOO-K"])
      assert.include(String(valueAt(data, "url")), "ticker=HOO.K%2CHOOX")
    }))

  it.effect("are the same symbol for the tools of the MCP server (D41)", () =>
    Effect.gen(function* () {
      const { ultimate: key } = yield* Service.TestKeys
      const client = yield* McpClients.connectOverHttp(yield* Service.servicePort, key)
      yield* insertRows("research_reports", report("mcp", "MC.P"))
      yield* insertRows("ticker_changes", {
        old_ticker: "MC-O",
        new_ticker: "MC-P",
        effective_date: "2026-01-02",
        status: "confirmed",
      })
      for (const ticker of ["MC.P", "mc-p"]) {
        const list = yield* McpClients.callTool(client, "query", {
          endpoint: "/v1/research-reports",
          parameters: { ticker },
        })
        assert.include(String(valueAt(list.value, "csv")), "mcp", list.text)
        const lineage = yield* McpClients.callTool(client, "lineage", { ticker })
        assert.deepStrictEqual(valueAt(lineage.value, "current_ticker"), "MC.P", lineage.text)
      }
    }).pipe(Effect.scoped))

  it.effect("are the same symbol in `cik` and in errors about lineage, which use the requested one (D41, D35)", () =>
    Effect.gen(function* () {
      const change = (old_ticker: string, new_ticker: string, effective_date: string, cik: string) => ({
        old_ticker,
        new_ticker,
        effective_date,
        cik,
        status: "confirmed",
      })
      yield* insertRows(
        "ticker_changes",
        change("AMB.A", "AMX", "2020-01-01", "0000000001"),
        change("AMY", "AMB-A", "2021-01-01", "0000000002"),
      )
      for (const symbol of ["AMB.A", "AMB-A"]) {
        const one = yield* request(`/v1/ticker-changes?ticker=${symbol}`)
        assert.deepStrictEqual([one.status, valueAt(one.body, "error", "details", "query_ticker")], [409, symbol])
        const list = yield* request(`/v1/news?ticker=${symbol}&follow_lineage=true`)
        assert.deepStrictEqual([list.status, valueAt(list.body, "error", "details", "query_ticker")], [409, symbol])
        assert.include(list.text, `The history of ${symbol} cannot`)
        const chosen = yield* request(`/v1/ticker-changes?ticker=${symbol}&cik=2`)
        assert.deepStrictEqual(valueAt(chosen.body, "results", 0, "query_ticker"), symbol)
        assert.deepStrictEqual(valueAt(chosen.body, "results", 0, "current_ticker"), "AMB.A")
        const unknown = yield* request(`/v1/news?ticker=${symbol}&cik=3&follow_lineage=true`)
        assert.include(unknown.text, `in the history of ${symbol}:`)
        const chosenInLists = [
          `ticker=AMX,${symbol}&cik=AMB-A:2,AMX:1`,
          `ticker=${symbol}:2`,
          `ticker=${symbol}&cik=2`,
        ]
        for (const query of chosenInLists) {
          const { headers, status, text } = yield* request(`/v1/news?${query}&follow_lineage=true`)
          assert.strictEqual(status, 200, text)
          assert.include(headers["x-lineage"], "AMY..2021-01-01, AMB.A")
        }
      }
      const twice = yield* request("/v1/news?ticker=AMB.A,AMX&cik=AMB-A:1,AMB.A:2&follow_lineage=true")
      assert.include(twice.text, "names AMB.A twice")
    }))

  it.effect("are the same symbol for the review of ticker changes, and no change leads from one to another (D41, D19)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* insertRows("ticker_changes", {
        old_ticker: "REV-A",
        new_ticker: "REV.B",
        effective_date: "2026-01-02",
        status: "estimated",
      })
      const key = { old_ticker: "REV.A", new_ticker: "REV-B", effective_date: "2026-01-02", cik: undefined }
      const { new_ticker, old_ticker } = yield* findEstimatedTickerChange(key)
      assert.deepStrictEqual([old_ticker, new_ticker], ["REV-A", "REV.B"])
      const refused = yield* Effect.exit(sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
        values ('SAM.E', 'SAM-E', '2026-01-02', 'confirmed')
      `)
      assert.isTrue(Exit.isFailure(refused))
    }))

  it.effect("are the same symbol for a request right after it was stored, and for cached responses (D41, D17)", () =>
    Effect.gen(function* () {
      const path = "/v1/research-reports?ticker=CAC-H"
      for (const _ of [1, 2, 3]) assert.include((yield* request(path)).text, `"count":0`)
      yield* insertRows("research_reports", report("cache", "CAC.H"))
      const found = yield* Effect.repeat(request(path), { until: ({ text }) => text.includes(`"cache"`) })
      assert.include(found.text, `"ticker":"CAC.H"`)
      yield* insertRows("research_reports", report("fresh", "FRE.H"))
      assert.include((yield* request("/v1/research-reports?ticker=FRE-H")).text, `"fresh"`)
    }))
})
