/**
 * Tests that no log, trace, error or response repeats an API key, wherever the client puts it (D2, API keys; D11,
 * errors).
 */
import { assert, layer } from "@effect/vitest"
import { Array, Cause, Duration, Effect, Exit, Layer, Logger, Redacted, References, Tracer } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import { generateApiKey } from "../../../src/accounts/keys/ApiKeyFormat.ts"
import * as ApiKeys from "../../../src/accounts/keys/ApiKeyManagement.ts"
import * as Server from "../../../src/Server.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as Service from "../../support/Service.ts"
import { databaseWithKeysLayer } from "../../support/ServiceInstances.ts"

const { requestJson, insertRows, TestKeys } = Service
const { createCustomer, findAccountAndKeyIds, retryUntil } = CustomerUsage

/** Captured logs and traces as text. */
const captured: Array<string> = []

/** Captures logs at every level, in every format that the service supports. */
const logger = Logger.make((options) => {
  for (const { log } of [Logger.formatJson, Logger.formatLogFmt, Logger.formatSimple]) {
    captured.push(`log: ${log(options)}`)
  }
})

/** Formats a value as JSON, with each `bigint` as text. */
const json = (value: unknown) =>
  JSON.stringify(value, (_, part: unknown) => typeof part === "bigint" ? String(part) : part)

/** Captures the parts of a span that an exporter would send: name, attributes, events and failure. */
class WatchedSpan extends Tracer.NativeSpan {
  override end(time: bigint, exit: Exit.Exit<unknown, unknown>) {
    super.end(time, exit)
    const failure = Exit.isFailure(exit) ? Cause.pretty(exit.cause) : ""
    captured.push(`span: ${json([this.name, Array.fromIterable(this.attributes), this.events, failure])}`)
  }
}

const captureLayer = Layer.mergeAll(
  Logger.layer([logger]),
  Layer.succeed(Tracer.Tracer, Tracer.make({ span: (options) => new WatchedSpan(options) })),
  Layer.succeed(References.MinimumLogLevel, "All"),
)

/** The service with all logs and traces captured. Only the `pro` tier has a rate limit that tests can reach. */
const capturedService = Service.listenerLayer.pipe(
  Layer.provideMerge(Server.layer),
  Layer.provide(captureLayer),
  Layer.provide(CustomerUsage.settingsLayer({
    RATE_LIMIT_BASIC: "1000000",
    RATE_LIMIT_PRO: "1",
    RATE_LIMIT_ULTIMATE: "1000000",
    WRONG_KEYS_LIMIT: "1000000",
  })),
  Layer.provideMerge(Service.httpServerLayer),
  Layer.provideMerge(databaseWithKeysLayer),
)

/** Decodes percent-encoded ASCII, and leaves everything else unchanged. */
const decodePercent = (text: string) =>
  text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))

/** The length of the key substrings that the tests search for. It is long enough that no match occurs by chance. */
const partLength = 10

/** Returns all substrings of length `partLength` after the key's public hint, in lower case. */
const getKeyParts = (key: string) => {
  const hidden = key.slice(12).toLowerCase()
  return Array.range(0, hidden.length - partLength).map((start) => hidden.slice(start, start + partLength))
}

/** Returns the texts that contain a part of the key, in upper or lower case, percent-encoded or not. */
const findLeaks = (key: string, texts: ReadonlyArray<string>) => {
  const parts = getKeyParts(key)
  return texts.filter((text) => {
    const plain = `${text} ${decodePercent(text)}`.toLowerCase()
    return parts.some((part) => plain.includes(part))
  })
}

/** Percent-encodes every character of a text. */
const percentEncoded = (text: string) =>
  Array.fromIterable(text).map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join("")

/** Waits for the logs and spans of earlier requests, which are written after their responses. */
const waitForLogs = Effect.gen(function* () {
  const before = captured.length
  yield* requestJson("/health/live", { key: null })
  yield* retryUntil(
    Effect.sync(() => captured.slice(before)),
    (later) => later.some((text) => text.includes("/health/live")),
  )
})

/** Makes `fetch` return redirect responses instead of following them, so that the tests can search their headers. */
const withoutRedirects = Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual", keepalive: false })

/** A request that contains a key. */
interface SentRequest extends Service.TestRequestOptions {
  readonly path: string
  /** The name of a header that is not searched, because the specification requires it to repeat part of the request. */
  readonly excludedHeader?: string
}

/** Sends a request, then searches the response, logs and traces for the key. */
const sendAndSearch = Effect.fnUntraced(function* (key: string, { excludedHeader, path, ...options }: SentRequest) {
  captured.length = 0
  const { headers, status, text } = yield* withoutRedirects(requestJson(path, options))
  yield* waitForLogs
  const headerLines = Object.entries(headers).filter(([name]) => name !== excludedHeader).map((header) =>
    `header: ${header.join(": ")}`
  )
  const leaked = findLeaks(key, [`body: ${text}`, ...headerLines, ...captured])
  return {
    status,
    leaked: leaked.map((where) => `${options.method ?? "GET"} ${path} (${status}) ${where.slice(0, 400)}`),
  }
})

/** Asserts that none of the requests leaks the key. Returns the distinct statuses, sorted. */
const assertNoLeaks = Effect.fnUntraced(function* (key: string, requests: ReadonlyArray<SentRequest>) {
  const found = yield* Effect.forEach(requests, (sent) => sendAndSearch(key, sent))
  assert.deepStrictEqual(found.flatMap(({ leaked }) => leaked), [])
  return Array.dedupe(found.map(({ status }) => status)).toSorted((a, b) => a - b)
})

const generateKey = Effect.map(generateApiKey, Redacted.value)

/** Changes the last character of a key. */
const mistypeKey = (key: string) => `${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`

layer(capturedService, { excludeTestServices: true })("With all logs and traces captured,", (it) => {
  it.effect("a failed request has a span, and a log entry with its request id (D12)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      captured.length = 0
      yield* sql`alter table afterhours_stats rename to gone`
      const { headers, status } = yield* requestJson("/v1/afterhours-stats?ticker=META")
      yield* sql`alter table gone rename to afterhours_stats`
      assert.strictEqual(status, 500)
      yield* waitForLogs
      const id = String(headers["x-request-id"])
      for (const kind of ["log: ", "span: "]) assert.isTrue(captured.some((text) => text.startsWith(kind)), kind)
      assert.isTrue(captured.some((text) => text.startsWith("log: {") && text.includes(id)), "the failure, by its id")
      assert.isTrue(captured.some((text) => text.includes("ticker=META")), "the address, in a span")
      assert.isTrue(
        captured.some((text) => text.includes("afterhours_stats")),
        "the statement, or what is wrong with it",
      )
    }))

  it.effect("a key sent as a credential in either header leaks nowhere, whether it is valid or not (D2, D11)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { key: right } = yield* createCustomer("right", { tier: "ultimate" })
      const { key: ended, key_id } = yield* createCustomer("ended")
      yield* sql`update api_keys set disabled_at = now() where key_id = ${key_id}`
      const { key: broke } = yield* createCustomer("broke", { balance: 0 })
      const { key: hurried } = yield* createCustomer("hurried", { tier: "pro" })
      yield* sql`alter table gap_stats rename to gone`
      const paths = [
        "/v1/news",
        "/v1/gap-stats",
        "/v1/research-reports",
        "/v1/historical-tickers?ticker=NONE",
        "/v1/news?limit=0&nonsense=1",
        "/v1/account",
        "/v1/account/api-keys",
        "/v1/overview",
        "/v1/usage",
        "/estimate?endpoint=/v1/gap-stats",
        "/v1/nowhere",
        "/enterprise/v1/news",
        "/v1/news?%ZZ",
        "/endpoints",
      ]
      const statuses = new Set<number>()
      for (const key of [right, yield* generateKey, mistypeKey(right), ended, broke, hurried, right.toUpperCase()]) {
        const ways: ReadonlyArray<Service.TestRequestOptions> = [
          { key },
          { key: null, headers: { Authorization: `Bearer ${key}` } },
          { key: "nonsense", headers: { Authorization: `Bearer ${key}` } },
          // Headers in which clients send keys by mistake.
          { key: null, headers: { Authorization: key, Cookie: `key=${key}`, "Api-Key": key } },
        ]
        const requests = paths.flatMap((path) => ways.map((options) => ({ path, ...options })))
        const others = (["HEAD", "POST", "OPTIONS"] as const).flatMap((method) =>
          ["/v1/news", "/v1/gap-stats"].map((path) => ({ path, key, method }))
        )
        for (const status of yield* assertNoLeaks(key, [...requests, ...others])) statuses.add(status)
      }
      yield* sql`alter table gone rename to gap_stats`
      assert.includeMembers(Array.fromIterable(statuses), [200, 204, 400, 401, 402, 403, 404, 405, 422, 429, 500])
    }))

  /** Returns variants of a key for use in a URL: unchanged, percent-encoded, in upper case, and mistyped. */
  const listSpellings = (key: string) => [key, percentEncoded(key), key.toUpperCase(), mistypeKey(key)]

  it.effect("a key sent as the name or value of a query parameter leaks nowhere (D2, D4, D11)", () =>
    Effect.gen(function* () {
      const { basic: key } = yield* TestKeys
      const requests = listSpellings(key).flatMap((form) =>
        [
          `/v1/news?api_key=${form}`,
          `/v1/news?${form}=1`,
          `/v1/news?${form}`,
          `/v1/news?${form}=1&${form}=2`,
          `/v1/news?x${form}=1`,
          `/v1/news?date=${form}`,
          `/v1/news?page=${form}`,
          `/v1/news?hide_news=${form}`,
          `/v1/news?query=${form}`,
          `/v1/screener?sort=${form}&min_price=${form}`,
          `/v1/split-status?ticker=META&action_type=${form}`,
          `/v1/account?${form}=1`,
          `/v1/usage?endpoint=${form}`,
          `/v1/usage?status_code=${form}&requested_at_from=${form}`,
          `/estimate?endpoint=${form}`,
          `/estimate?endpoint=/v1/news&${form}=1`,
          `/estimate?endpoint=/v1/news&date=${form}`,
          `/endpoints?${form}=1`,
          `/v1/docs?key=${form}`,
          `/health/ready?${form}`,
          `/v1/news?${form}=%ZZ`,
        ].flatMap((path) => form === key ? [{ path }, { path, key: null }] : [{ path }])
      )
      const statuses = yield* assertNoLeaks(key, requests)
      assert.includeMembers(statuses, [200, 400, 401, 422])
    }))

  it.effect("a key sent in the path leaks only into the Location of a redirect (D2, D11)", () =>
    Effect.gen(function* () {
      const { basic: key } = yield* TestKeys
      const requests = listSpellings(key).flatMap((form) =>
        [
          `/${form}`,
          `/v1/${form}`,
          `/v1/account/${form}`,
          `/v1/news/${form}?page=1`,
          `/v1/news;${form}`,
          `/v1/${form}%ZZ`,
        ]
          .flatMap((path) => [{ path }, { path, key: null }, { path, method: "POST" } as const])
      )
      // §9.1.3 (redirects): the `Location` header repeats the path and query.
      const moved = listSpellings(key).flatMap((form) =>
        [`/enterprise/v1/${form}`, `/enterprise/v1/news?api_key=${form}`].map((path) => (
          { path, key: null, excludedHeader: "location" }
        ))
      )
      const statuses = yield* assertNoLeaks(key, [...requests, ...moved])
      assert.deepStrictEqual(statuses, [301, 400, 404])
    }))

  it.effect("a key sent as a ticker leaks neither into errors nor into the list of dropped tickers (D5, D11)", () =>
    Effect.gen(function* () {
      const { basic: key } = yield* TestKeys
      const requests = [...listSpellings(key), `%20${key.slice(0, 20)} ${key.slice(20)}`].flatMap((form) =>
        [
          `/v1/news?ticker=${form}`,
          `/v1/news?ticker=META,${form}`,
          `/v1/news?ticker=META,x${form},BYON`,
          `/v1/ticker-changes?ticker=${form}`,
          `/v1/historical-tickers?ticker=${form}`,
          `/estimate?endpoint=/v1/news&ticker=META,${form}`,
        ].map((path) => ({ path }))
      )
      const statuses = yield* assertNoLeaks(key, requests)
      assert.deepStrictEqual(statuses, [200, 422])
    }))

  it.effect("the link to the next page does not repeat a key (D8, D11)", () =>
    Effect.gen(function* () {
      const { basic: key } = yield* TestKeys
      const days = ["2025-01-02", "2025-01-03", "2025-01-06"]
      yield* insertRows(
        "research_reports",
        ...days.map((day) => ({
          report_id: day,
          ticker: "SECN",
          gain_percentage: "1",
          report_text: "text",
          tldr_text: "text",
          created_at: `${day}T12:00:00Z`,
          last_updated: `${day}T12:00:00Z`,
        })),
      )
      for (const form of listSpellings(key)) {
        const path = `/v1/research-reports-tldr?ticker=SECN,${form}&limit=1`
        const { headers } = yield* requestJson(path)
        const link = headers["link"] ?? ""
        assert.include(link, `rel="next"`)
        assert.deepStrictEqual(findLeaks(key, [link]), [])
        // The link works although it does not contain the key.
        const next = yield* requestJson(/^<([^>]*)>/.exec(link)?.[1] ?? "")
        assert.include(next.text, "2025-01-03")
      }
    }))

  it.effect("a key leaks nowhere when the database fails to look it up or to record usage (D11)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createCustomer("unlucky")
      const unknown = yield* generateKey
      yield* sql`alter table api_keys rename to gone`
      const found: Array<string> = []
      for (const sent of [key, unknown]) {
        for (
          const options of [{ key: sent }, { key: null, headers: { Authorization: `Bearer ${sent}` } }] as const
        ) {
          const { status, leaked } = yield* sendAndSearch(sent, { path: "/v1/news", ...options })
          assert.strictEqual(status, 500)
          assert.isTrue(captured.some((text) => text.startsWith("log: ") && text.includes("api_keys")))
          found.push(...leaked)
        }
      }
      yield* sql`alter table gone rename to api_keys`

      yield* sql`alter table usage_batches rename to gone`
      captured.length = 0
      assert.strictEqual((yield* requestJson("/v1/news", { key })).status, 200)
      const warned = yield* retryUntil(
        Effect.sync(() => captured.some((text) => text.startsWith("log: ") && text.includes("was not recorded"))),
        (found) => found,
      )
      yield* sql`alter table gone rename to usage_batches`
      assert.isTrue(warned)
      yield* CustomerUsage.waitForRecordedRequests(account_id, 1)
      found.push(...findLeaks(key, captured))
      assert.deepStrictEqual(found, [])
    }))

  it.effect("no log or trace contains the database password (D11)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { password } = new URL(inject("databaseUrl"))
      assert.isAbove(password.length, 10)
      captured.length = 0
      yield* sql`alter table registrations rename to gone`
      assert.strictEqual((yield* requestJson("/v1/registrations")).status, 500)
      yield* sql`alter table gone rename to registrations`
      assert.strictEqual((yield* requestJson("/v1/registrations")).status, 200)
      yield* waitForLogs
      assert.isTrue(captured.some((text) => text.startsWith("span: ") && text.includes("db.")), "spans of the database")
      assert.deepStrictEqual(captured.filter((text) => `${text} ${decodePercent(text)}`.includes(password)), [])
    }))

  it.effect("a key sent as X-Request-Id is replaced, so that usage does not store it (D12)", () =>
    Effect.gen(function* () {
      const { basic: key } = yield* TestKeys
      for (const sent of [key, `mine-${key}`]) {
        const { headers } = yield* requestJson("/v1/overview", { headers: { "X-Request-Id": sent } })
        assert.notInclude(String(headers["x-request-id"]), "tl_live_")
      }
    }))

  it.effect("a key that is created or rotated is in no log or trace (D2)", () =>
    Effect.gen(function* () {
      yield* createCustomer("maker")
      captured.length = 0
      const [made, rotated] = yield* Effect.gen(function* () {
        const { key: made } = yield* ApiKeys.createApiKey({
          account: "maker",
          name: "made",
          expires: null,
          endpoints: null,
          networks: null,
        })
        const { key_id } = yield* findAccountAndKeyIds(made)
        return [made, (yield* ApiKeys.rotateApiKey(key_id, Duration.hours(1))).key]
      }).pipe(Effect.withSpan("keys"), Effect.provide(captureLayer))
      assert.isTrue(captured.some((text) => text.startsWith("span: ") && text.includes("insert into api_keys")))
      for (const key of [made ?? "", rotated ?? ""]) {
        assert.lengthOf(key, 46)
        assert.deepStrictEqual(findLeaks(key, captured), [])
      }
    }))
})
