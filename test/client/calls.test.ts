/** Tests the Effect client and the Promise client over HTTP against the service with sample data. */
import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Logger, Predicate, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import {
  type AmbiguousTickerLineage,
  type ClientOptions,
  makeClient,
  type ResponseMetadata,
} from "../../src/client/Client.ts"
import { createServer, type RequestListener } from "node:http"
import { toEndpointName } from "../../src/client/EndpointTypes.ts"
import { createClient, TickerlineError } from "../../src/client/PromiseClient.ts"
import { awaitRejection } from "../support/ChangeFeedStub.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import * as DocumentedEndpoints from "../support/DocumentedEndpoints.ts"
import * as ListClients from "../support/ListClients.ts"
import { readParquet } from "../support/ParquetFiles.ts"
import * as Service from "../support/Service.ts"

const serviceUrl = Effect.map(Service.servicePort, (port) => `http://127.0.0.1:${port}`)

/** Creates an Effect client for the service, with a key that may use every endpoint. */
const makeEffectClient = Effect.fnUntraced(function* (options: Partial<ClientOptions> = {}) {
  const { ultimate } = yield* Service.TestKeys
  const clientOptions = { baseUrl: yield* serviceUrl, apiKey: Redacted.make(ultimate), ...options }
  return yield* Effect.provide(makeClient(clientOptions), FetchHttpClient.layer)
})

type PromiseOptions = Parameters<typeof createClient>[0]

/** Creates a Promise client for the service, with a key that may use every endpoint. */
const makePromiseClient = Effect.fnUntraced(function* (options: Partial<PromiseOptions> = {}) {
  const { ultimate } = yield* Service.TestKeys
  return createClient({ baseUrl: yield* serviceUrl, apiKey: ultimate, ...options })
})

/** Returns a query with only the required parameters. */
const makeQuery = (endpoint: DocumentedEndpoints.DocumentedEndpoint) =>
  Object.fromEntries(DocumentedEndpoints.makeRequiredQuery(endpoint))

/** Finds a client method, such as `get`, for the endpoint with this path. */
const findMethod = (client: object, path: string, name: string) => {
  const resource: unknown = Reflect.get(client, toEndpointName(path))
  const found: unknown = Predicate.isObject(resource) ? Reflect.get(resource, name) : undefined
  return Predicate.isFunction(found) ? found : undefined
}

/** Starts a server on a free port, which stops at the end of the test. Returns its URL. */
const startServer = (respond: RequestListener) =>
  Effect.gen(function* () {
    const server = yield* Effect.acquireRelease(
      Effect.sync(() => createServer(respond)),
      (server) => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void))),
    )
    yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
    const address = server.address()
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`
  })

layer(Service.sampleServiceLayer, { excludeTestServices: true })("Over HTTP,", (it) => {
  it.effect("both clients have a method for every endpoint, with pages and rows for lists (§4.5)", () =>
    Effect.gen(function* () {
      const [effects, promises] = [yield* makeEffectClient(), yield* makePromiseClient({ onDeprecated: () => {} })]
      // The clients have no method for the changelog's Atom feed, because it is not JSON.
      const jsonEndpoints = DocumentedEndpoints.documentedEndpoints.filter(({ path }) => !path.endsWith(".atom"))
      const names = jsonEndpoints.map(({ path }) => toEndpointName(path)).toSorted()
      assert.deepStrictEqual(Object.keys(effects).toSorted(), names)
      assert.deepStrictEqual(Object.keys(promises).toSorted(), names)
      for (const endpoint of jsonEndpoints) {
        const hasPages = endpoint.parameters.some(({ name }) => name === "page")
        for (const client of [effects, promises]) {
          for (const name of ["get", "getWithMetadata"]) assert.isDefined(findMethod(client, endpoint.path, name))
          for (const name of ["pages", "rows", "download"]) {
            assert.strictEqual(findMethod(client, endpoint.path, name) !== undefined, hasPages, endpoint.path)
          }
        }
        const query = { ...makeQuery(endpoint), ...(hasPages ? { limit: 100 } : {}) }
        const get = findMethod(promises, endpoint.path, "get")
        const outcome: unknown = yield* Effect.promise(async () => {
          try {
            return await get?.(query)
          } catch (error) {
            return error
          }
        })
        // Endpoints that have no data about the symbol respond with `not_found`.
        if (outcome instanceof TickerlineError) {
          assert.strictEqual(outcome.code, "not_found", `${endpoint.path}: ${outcome.message}`)
        } else assert.isTrue(Predicate.isObject(outcome), endpoint.path)
      }
    }))

  it.effect("the Promise client returns lists exactly as the service sends them (§2.1, D16)", () =>
    Effect.gen(function* () {
      const promises = yield* makePromiseClient({ onDeprecated: () => {} })
      const { ultimate } = yield* Service.TestKeys
      let compared = 0
      for (const endpoint of DocumentedEndpoints.documentedDatasetEndpoints) {
        const query = { ...makeQuery(endpoint), ticker: "GAP7" }
        const response = yield* Service.requestJson(
          DocumentedEndpoints.buildUrl(endpoint.path, Object.entries(query)),
          {
            key: ultimate,
          },
        )
        const get = findMethod(promises, endpoint.path, "get")
        const outcome: unknown = yield* Effect.promise(async () => {
          try {
            return await get?.(query)
          } catch {
            return undefined
          }
        })
        if (response.status !== 200) continue
        compared += 1
        // Converts numbers to text before the comparison, because the client returns decimals as text.
        const quoteNumbers = (value: unknown): unknown =>
          Array.isArray(value)
            ? value.map(quoteNumbers)
            : Predicate.isObject(value)
            ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, quoteNumbers(inner)]))
            : typeof value === "number"
            ? String(value)
            : value
        assert.deepStrictEqual(quoteNumbers(outcome), quoteNumbers(response.body), endpoint.path)
      }
      assert.isAbove(compared, 18)
    }))

  it.effect("both clients fail with a typed error for an ambiguous lineage (§4.1, D21)", () =>
    Effect.gen(function* () {
      const call = (yield* makeEffectClient()).tickerChanges.get({ ticker: "META" })
      const refusal = yield* call.pipe(
        Effect.as<AmbiguousTickerLineage | undefined>(undefined),
        Effect.catchTag("AmbiguousTickerLineage", (error) => Effect.succeed(error)),
      )
      if (refusal === undefined) return assert.fail("The call succeeded")
      assert.strictEqual(refusal.error.details.candidates.length, 2)
      assert.strictEqual(refusal.error.details.candidate_count, 2)
      const promises = yield* makePromiseClient()
      const error = yield* awaitRejection(() => promises.tickerChanges.get({ ticker: "META" }))
      if (!TickerlineError.is(error, "ambiguous_ticker_lineage")) return assert.fail(String(error))
      assert.strictEqual(
        error.details.candidates[1]?.current_ticker,
        refusal.error.details.candidates[1]?.current_ticker,
      )
      assert.strictEqual(error.status, 409)
      assert.strictEqual(error.message, refusal.error.message)
      assert.match(error.request_id ?? "", /^[0-9a-f-]{36}$/)
    }))

  it.effect("the Promise client leaves the validation of parameters to the service (D11)", () =>
    Effect.gen(function* () {
      const promises = yield* makePromiseClient()
      const error = yield* awaitRejection(() => promises.intradayRunners.get({ ticker: [], limit: 1000 }))
      if (!TickerlineError.is(error, "validation_error")) return assert.fail(String(error))
      assert.sameMembers(error.details.fields.map(({ field }) => field), ["ticker", "limit"])
    }))

  it.effect("both clients quote the values of a list that contain a comma (D33)", () =>
    Effect.gen(function* () {
      const [effects, promises] = [yield* makeEffectClient(), yield* makePromiseClient()]
      const countByBoth = Effect.fnUntraced(function* (industry: string | ReadonlyArray<string>) {
        const { count } = yield* effects.screener.get({ industry })
        assert.strictEqual((yield* Effect.promise(() => promises.screener.get({ industry }))).count, count)
        return count
      })
      const found = yield* countByBoth("Biotechnology")
      assert.isAbove(found, 0)
      assert.strictEqual(yield* countByBoth("other, Biotechnology"), found, "text is a list already")
      assert.strictEqual(yield* countByBoth(["other, Biotechnology"]), 0)
      assert.strictEqual(yield* countByBoth([`"other", x`, "biotechnology"]), found)
    }))

  it.effect("both clients return each row of all pages once, and request only the pages that are read (D8)", () =>
    Effect.gen(function* () {
      const responses: Array<ResponseMetadata> = []
      const onResponse = (_: string, metadata: ResponseMetadata) => Effect.sync(() => void responses.push(metadata))
      const tickerline = yield* makeEffectClient({ onResponse })
      const query = { ticker: ["GAP7", "PMP1"], limit: 3 }
      const all = yield* Stream.runCollect(tickerline.gapStats.rows(query))
      const page = yield* tickerline.gapStats.get({ ...query, limit: 100 })
      assert.isAbove(page.count, 6)
      assert.deepStrictEqual(Array.from(all), Array.from(page.results))
      assert.strictEqual(responses.length, Math.ceil(page.count / 3) + 1)
      responses.length = 0
      // All pages show the data as of the time of the first page.
      yield* Stream.runDrain(tickerline.gapStats.pages({ ...query, as_of: "now" }))
      assert.strictEqual(new Set(responses.map(({ as_of }) => as_of)).size, 1)
      assert.isNotNull(responses[0]?.as_of)
      responses.length = 0
      const some = yield* Stream.runCollect(Stream.take(tickerline.gapStats.rows(query), 4))
      assert.strictEqual(Array.from(some).length, 4)
      assert.strictEqual(responses.length, 2)
      const second = yield* Stream.runHead(tickerline.gapStats.pages({ ...query, page: 2 }))
      assert.strictEqual(second._tag === "Some" ? second.value.page : 0, 2)

      const promiseResponses: Array<ResponseMetadata> = []
      const promises = yield* makePromiseClient({ onResponse: (_, metadata) => void promiseResponses.push(metadata) })
      const rows: Array<string> = []
      yield* Effect.promise(async () => {
        for await (const { date, ticker } of promises.gapStats.rows(query)) {
          rows.push(`${ticker} ${date}`)
          if (rows.length === 4) break
        }
      })
      assert.deepStrictEqual(rows, Array.from(all).slice(0, 4).map(({ date, ticker }) => `${ticker} ${date}`))
      assert.strictEqual(promiseResponses.length, 2)
      assert.isAbove(promiseResponses[0]?.cost_microdollars ?? 0, 0)
    }))

  it.effect("both clients return each row of usage once, although reading it adds rows (D8, D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* CustomerUsage.createCustomer("reads its usage", { tier: "ultimate" })
      for (let sent = 0; sent < 3; sent++) yield* Service.requestJson("/v1/news", { key })
      let sent = 3
      const countRequests = Effect.suspend(() => CustomerUsage.waitForRecordedRequests(account_id, sent))
      const list = Effect.fnUntraced(function* () {
        yield* countRequests
        const { body } = yield* Service.requestJson("/v1/usage?limit=100", { key })
        sent += 1
        return ListClients.getResultRows(body).map((row) => Service.valueAt(row, "request_id"))
      })
      const onResponse = () =>
        Effect.suspend(() => {
          sent += 1
          return Effect.orDie(countRequests)
        })
      const context = yield* Effect.context<SqlClient.SqlClient>()
      const effects = yield* makeEffectClient({
        apiKey: Redacted.make(key),
        onResponse: () => Effect.provideContext(onResponse(), context),
      })
      const existing = yield* list()
      yield* countRequests
      const read = yield* Stream.runCollect(Stream.take(effects.usage.rows({ limit: 1 }), 20))
      // The first row of the second read is the request that read `existing`, which `existing` itself cannot contain.
      assert.deepStrictEqual(Array.from(read).map(({ request_id }) => request_id).slice(1), existing)

      const promises = yield* makePromiseClient({ apiKey: key })
      const later = yield* list()
      yield* countRequests
      const rows: Array<string> = []
      yield* Effect.promise(async () => {
        for await (const { results } of promises.usage.pages({ limit: 1 })) {
          rows.push(...results.map(({ request_id }) => request_id))
          if (rows.length === 20) break
          await Effect.runPromiseWith(context)(onResponse())
        }
      })
      assert.deepStrictEqual(rows.slice(1), later)
    }))

  it.effect("both clients download complete lists as files (guides/client)", () =>
    Effect.gen(function* () {
      const [effects, promises] = [yield* makeEffectClient(), yield* makePromiseClient()]
      const { bytes, rows, metadata } = yield* effects.gapStats.download({ ticker: "GAP7" })
      const file = Buffer.concat(yield* Stream.runCollect(bytes))
      const parquet = yield* Effect.promise(() => readParquet(file))
      assert.strictEqual(parquet.rows.length, rows)
      assert.strictEqual(metadata.status, 200)
      assert.strictEqual(parquet.metadata["tickerline.query"], "ticker=GAP7&format=parquet&limit=all")
      const csv = yield* Effect.promise(async () => {
        const { bytes, rows } = await promises.gapStats.download({ ticker: "GAP7", format: "csv" })
        const chunks: Array<Uint8Array> = []
        for await (const chunk of bytes) chunks.push(chunk)
        return { text: Buffer.concat(chunks).toString(), rows }
      })
      assert.strictEqual(csv.rows, rows)
      assert.strictEqual(csv.text.trimEnd().split("\r\n").length, parquet.rows.length + 1)
      const refused = yield* awaitRejection(() => promises.gapStats.download({ ticker: "GAP7", page: 2 }))
      assert.isTrue(TickerlineError.is(refused, "validation_error"))
      const failed = yield* Effect.flip(effects.gapStats.download({ ticker: "GAP7", page: 2 }))
      assert.strictEqual(failed._tag, "ValidationError")
    }))

  it.effect("both clients fail if a downloaded file is cut off (guides/client)", () =>
    Effect.gen(function* () {
      const baseUrl = yield* startServer((_, response) => {
        response.writeHead(200, { "Content-Type": "application/vnd.apache.parquet", "X-Row-Count": "9" }).end(
          "PAR1 half",
        )
      })
      const file = yield* Effect.flatMap(makeEffectClient({ baseUrl }), (client) => client.gapStats.download())
      assert.strictEqual((yield* Effect.flip(Stream.runDrain(file.bytes)))._tag, "NoAnswer")
      const promises = yield* makePromiseClient({ baseUrl })
      const refused = yield* awaitRejection(async () => {
        const { bytes, rows } = await promises.gapStats.download()
        assert.strictEqual(rows, 9)
        for await (const chunk of bytes) assert.strictEqual(chunk.length, 9)
      })
      assert.isTrue(TickerlineError.is(refused, "no_answer"))
      const other = yield* awaitRejection(() => promises.gapStats.download({ format: "csv" }))
      assert.isTrue(TickerlineError.is(other, "unreadable_answer"))
    }).pipe(Effect.scoped))

  it.effect("a downloaded CSV or NDJSON file has all rows, even if a proxy hides that it was cut off (guides/client)", () =>
    Effect.gen(function* () {
      const files = {
        csv: { type: "text/csv; charset=utf-8", body: `a,b\r\n1,"x ""\n"\r\n2,é\r\n` },
        ndjson: { type: "application/x-ndjson", body: `{"a":1,"b":"x \\""}\n{"a":2,"b":"é"}\n` },
      } as const
      for (const format of ["csv", "ndjson"] as const) {
        const bytes = Buffer.from(files[format].body)
        let length = bytes.length
        const baseUrl = yield* startServer((_, response) => {
          response.writeHead(200, { "Content-Type": files[format].type, "X-Row-Count": "2" }).end(
            bytes.subarray(0, length),
          )
        })
        const client = yield* makeEffectClient({ baseUrl })
        for (; length >= 0; length -= 1) {
          const file = yield* client.gapStats.download({ format })
          const read = yield* Effect.result(Stream.runDrain(file.bytes))
          assert.strictEqual(read._tag, length === bytes.length ? "Success" : "Failure", `${format}: ${length} bytes`)
        }
      }
    }).pipe(Effect.scoped))

  it.effect("the Effect client returns times as DateTime, the Promise client as text (§2.1, D16)", () =>
    Effect.gen(function* () {
      const [effects, promises] = [yield* makeEffectClient(), yield* makePromiseClient()]
      const query = { ticker: "GAP7", limit: 1 }
      const [row] = (yield* effects.intradayRunners.get(query)).results
      const { results: [plain] } = yield* Effect.promise(() => promises.intradayRunners.get(query))
      if (row === undefined || plain === undefined || plain.high_time === null || row.high_time === null) {
        return assert.fail("The sample data have no session of GAP7 with a time")
      }
      assert.isTrue(DateTime.isDateTime(row.high_time))
      assert.match(plain.high_time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?-05:00$/)
      assert.strictEqual(Date.parse(plain.high_time), DateTime.toEpochMillis(row.high_time))
      assert.strictEqual(plain.market_open, row.market_open)
    }))

  it.effect("the Promise client keeps every digit of decimals that a double cannot hold (D16)", () =>
    Effect.gen(function* () {
      yield* Service.insertRows("intraday_runners", {
        ticker: "ZZEXACT",
        date: "2025-07-01",
        gap_percentage: "99999999999999.9998",
        market_open: "9999998.1234",
        previous_day_close: "1",
        percentage_gain: "12345678901234.5678",
        open_to_high_pct: "0.0001",
        high_price: "100.00",
        low_price: "1.10",
        daily_volume_ratio: "12.5",
        market_close: "1.2",
        volume: "9007199254740991",
        market_cap: "999999999999999999.99",
        close_under_50pct_of_range: true,
        last_updated: "2025-07-01 20:05:00",
        anomaly_flagged: true,
      })
      const promises = yield* makePromiseClient()
      const { results: [row] } = yield* Effect.promise(() => promises.intradayRunners.get({ ticker: "ZZEXACT" }))
      assert.deepInclude(row, {
        gap_percentage: "99999999999999.9998",
        market_open: "9999998.1234",
        percentage_gain: "12345678901234.5678",
        open_to_high_pct: "0.0001",
        high_price: "100",
        low_price: "1.1",
        volume: 9007199254740991,
        market_cap: "999999999999999999.99",
        dollar_volume: null,
      })
      // A bound passed as text keeps all its digits.
      const query = { ticker: "ZZEXACT", min_gap_percentage: "99999999999999.9999" }
      assert.strictEqual((yield* Effect.promise(() => promises.intradayRunners.get(query))).count, 0)
    }))

  it.effect("the Effect client returns the metadata of a response (D5, D12, D27)", () =>
    Effect.gen(function* () {
      const { metadata } = yield* (yield* makeEffectClient()).gapStats.getWithMetadata({ ticker: "GAP7,@@,a,b" })
      assert.deepStrictEqual(metadata.dropped_tickers, ["@@"])
      assert.isAbove(metadata.cost_microdollars ?? 0, 0)
      assert.isAbove(metadata.rate_limit?.remaining ?? 0, 0)
      assert.strictEqual(metadata.api_version, "v1")
      assert.strictEqual(metadata.deprecated, null)
    }))

  it.effect("the clients follow a lineage, and return it in the metadata (D35)", () =>
    Effect.gen(function* () {
      const client = yield* makeEffectClient()
      const query = { ticker: ["OSTK", "GAP7"], follow_lineage: true, limit: 100 } as const
      const { body, metadata } = yield* client.gapStats.getWithMetadata(query)
      assert.deepStrictEqual(metadata.lineages, [
        {
          periods: [
            { ticker: "OSTK", until: "2023-11-06" },
            { ticker: "BYON", until: "2025-08-29" },
            { ticker: "BBBY", until: "2026-08-17" },
            { ticker: "NXH", until: null },
          ],
          omitted_rows: 0,
        },
        { periods: [{ ticker: "GAP7", until: "2026-07-30" }, { ticker: "GPW8", until: null }], omitted_rows: 0 },
      ])
      assert.deepStrictEqual(
        Array.from(new Set(body.results.map(({ lineage_ticker }) => lineage_ticker))),
        ["GPW8"],
      )
      const ambiguous = yield* Effect.flip(client.gapStats.get({ ticker: "META", follow_lineage: true }))
      assert.strictEqual(ambiguous._tag, "AmbiguousTickerLineage")
      const selected = yield* client.gapStats.getWithMetadata({
        ticker: "META",
        follow_lineage: true,
        cik: ["0001326801"],
      })
      assert.strictEqual(selected.metadata.lineages[0]?.periods.at(-1)?.ticker, "META")
    }))

  it.effect("the clients return the sources of rows (D8)", () =>
    Effect.gen(function* () {
      const client = yield* makeEffectClient()
      const floats = yield* client.historicalFloatPro.get({ ticker: "GAP7", latest: true, provenance: true })
      assert.deepStrictEqual(floats.results.map(({ source }) => source), [
        ["https://example.com/filings/9990001000/9990001000-26-000025.htm#dei:EntityCommonStockSharesOutstanding"],
      ])
      const [plain] = (yield* client.historicalFloatPro.get({ ticker: "GAP7", latest: true })).results
      assert.isFalse(Object.hasOwn(plain ?? {}, "source"))
      const filings = yield* client.ownership.get({ ticker: "GAP7", provenance: true })
      for (const { source } of filings.results.flatMap(({ owners }) => owners)) {
        assert.match(source?.[0] ?? "", /#reportingOwner\[\d\]$/)
      }
    }))

  it.effect("the Effect client logs one warning for a deprecated endpoint, with its successor (§9.4)", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))
      const tickerline = yield* makeEffectClient()
      const twice = Effect.andThen(
        tickerline.historicalTickers.get({ ticker: "NXH" }),
        tickerline.historicalTickers.get({ ticker: "OSTK" }),
      )
      yield* Effect.provide(twice, Logger.layer([logger]))
      assert.strictEqual(lines.length, 1)
      assert.match(lines[0] ?? "", /^Warn .*\/v1\/historical-tickers is deprecated\. Use .*\/v1\/ticker-changes/)
    }))

  it.effect("the Promise client works without a key for endpoints that require none (D2)", () =>
    Effect.gen(function* () {
      const promises = createClient({ baseUrl: yield* serviceUrl })
      assert.isAbove((yield* Effect.promise(() => promises.endpoints.get())).count, 20)
      const error = yield* awaitRejection(() => promises.news.get())
      assert.isTrue(TickerlineError.is(error, "missing_api_key"))
    }))

  it.effect("the Promise client rejects an aborted call with the reason of its signal (guides/client)", () =>
    Effect.gen(function* () {
      const controller = new AbortController()
      const promises = yield* makePromiseClient({
        fetch: (_, init) =>
          new Promise((_, reject) => {
            init?.signal?.addEventListener("abort", () => reject(new Error("aborted")))
            controller.abort(new Error("enough"))
          }),
      })
      const during = yield* awaitRejection(() => promises.news.get({}, { signal: controller.signal }))
      assert.strictEqual(String(during), "Error: enough")
      const before = yield* awaitRejection(() => promises.news.get({}, { signal: AbortSignal.abort("no") }))
      assert.strictEqual(before, "no")
    }))

  it.effect("the Promise client fails with no_answer if no service runs, and throws on invalid options (guides/client)", () =>
    Effect.gen(function* () {
      const promises = createClient({ baseUrl: "http://127.0.0.1:1", retries: 0 })
      const error = yield* awaitRejection(() => promises.healthLive.get())
      if (!TickerlineError.is(error, "no_answer")) return assert.fail(String(error))
      assert.deepStrictEqual([error.status, error.retry_after_seconds], [null, null])
      assert.isDefined(error.cause)
      assert.throws(() => createClient({ baseUrl: "nowhere" }), TickerlineError, "baseUrl")
    }))

  it.effect("the Promise client retries after a truncated response (§7.2)", () =>
    Effect.gen(function* () {
      let requests = 0
      const body = JSON.stringify({ status: "ok" })
      const baseUrl = yield* startServer((_, response) => {
        requests += 1
        response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length })
        if (requests % 2 === 0) return void response.end(body)
        response.write(body.slice(0, 5), () => response.destroy())
      })
      const response = yield* Effect.promise(() => createClient({ baseUrl }).healthLive.getWithMetadata())
      assert.deepStrictEqual([response.body, response.metadata.attempts], [{ status: "ok" }, 2])
      const error = yield* awaitRejection(() => createClient({ baseUrl, retries: 0 }).healthLive.get())
      assert.isTrue(TickerlineError.is(error, "no_answer"))
    }))
})
