/**
 * Tests that every response of every endpoint has the status and headers that the OpenAPI document declares, and that
 * the document declares no header or status that cannot occur (§9.4, D14, D17, D18, D27).
 */
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Option, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { inject } from "vitest"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { ApiVersionDeprecation } from "../../../src/contract/rules/Deprecation.ts"
import { defaultConnectionTimeouts } from "../../../src/api/ConnectionLimits.ts"
import * as DocumentedEndpoints from "../../support/DocumentedEndpoints.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { assertPrintedTimes } from "../../support/PrintedTimes.ts"
import * as RawSockets from "../../support/RawSockets.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const { valueAt } = DocumentedEndpoints

/** Headers for the connection and content encoding, which the OpenAPI document does not list. */
const transport = new Set([
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "date",
  "keep-alive",
  "transfer-encoding",
])

interface ReceivedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/**
 * Requests that find rows, by path. Without rows, one of these paths would return 404, and the other would have no next
 * page.
 */
const targets = new Map([
  ["/v1/historical-tickers", "/v1/historical-tickers?ticker=NEW1"],
  ["/v1/timeline", "/v1/timeline?ticker=CLASS"],
])

/** The names of all observed headers, by path and status. */
const observedHeaders = new Map<string, Set<string>>()

/** Public responses, which change at most once a minute or only with a release. */
const publicCacheControl = new Map([
  ["/endpoints", "public, max-age=300"],
  ["/v1/openapi.json", "public, max-age=300"],
  ["/v1/changelog", "public, max-age=300"],
  ["/v1/changelog.atom", "public, max-age=300"],
  ["/v1/corrections", "public, max-age=60"],
])

/** Returns the expected `Cache-Control` of a response, which depends on who may store the response. */
const expectCacheControl = (path: string, { headers, status }: ReceivedResponse) => {
  if (status !== 200 && status !== 304) return "x-ratelimit-limit" in headers ? "private, no-store" : "no-store"
  if (path.startsWith("/health/") || headers["content-type"] === "text/event-stream") return "no-store"
  const declared = publicCacheControl.get(path)
  if (declared !== undefined) return declared
  if (headers["etag"] === undefined) return "private, no-store"
  return "x-as-of" in headers ? "private, max-age=31536000, immutable" : "private, no-cache"
}

/** Compares a response with the declaration for its path and status. */
const check = (path: string, what: string, response: ReceivedResponse) => {
  const { headers, status, text } = response
  assert.strictEqual(headers["cache-control"], expectCacheControl(path, response), `${what} (${status})`)
  if (headers["cache-control"]?.includes("private, max-age") === true) {
    assert.match(headers["vary"] ?? "", /\bAuthorization, X-API-Key\b/, `${what} (${status})`)
  }
  assertPrintedTimes(what, headers, text)
  const documented = DocumentedEndpoints.getDocumentedResponses(path).get(String(status))
  assert.isDefined(documented, `${what} returned ${status}, which is not declared: ${text}`)
  const declared = new Map(
    Object.entries(Object(valueAt(documented, "headers"))).map(([name, header]) =>
      [name.toLowerCase(), valueAt(DocumentedEndpoints.resolveReference(header), "required") === true] as const
    ),
  )
  const names = Object.keys(headers).filter((name) => !transport.has(name))
  assert.deepStrictEqual(
    names.filter((name) => !declared.has(name)),
    [],
    `${what} (${status}) has more than is declared`,
  )
  const required = Array.from(declared).filter(([, isRequired]) => isRequired).map(([name]) => name)
  assert.deepStrictEqual(required.filter((name) => !(name in headers)), [], `${what} (${status}) lacks headers`)
  const key = `${path} ${status}`
  observedHeaders.set(key, new Set([...observedHeaders.get(key) ?? [], ...names]))
  return status
}

const operations = DocumentedEndpoints.documentedEndpoints.map(({ path, parameters }) => {
  const names = new Set(parameters.map(({ name }) => name))
  return {
    path,
    target: targets.get(path) ??
      DocumentedEndpoints.buildUrl(path, DocumentedEndpoints.makeRequiredQuery({ path, parameters })),
    keyed: DocumentedEndpoints.getDocumentedResponses(path).has("401"),
    priced: DocumentedEndpoints.getDocumentedResponses(path).has("402"),
    list: names.has("page"),
    supportsAsOf: DocumentedEndpoints.getParameterNames(path).includes("as_of"),
    hasCursor: names.has("after") && !names.has("page"),
    tickers: parameters.some(({ kind }) => kind === "tickers"),
    follows: names.has("follow_lineage"),
  }
})
type Operation = typeof operations[number]

const keyed = operations.filter((operation) => operation.keyed)

const addQuery = (target: string, query: string) => `${target}${target.includes("?") ? "&" : "?"}${query}`

/** Sends a raw HTTP request and checks the response. */
const checkRawRequest = Effect.fnUntraced(function* (port: number, { path }: Operation, request: string) {
  const [response] = yield* RawSockets.exchangeBytes(port, request)
  if (response === undefined) return assert.fail(`${path}: no response to ${request.slice(0, 200)}`)
  return check(path, request.slice(0, 200), response)
})

const line = (target: string, more = "", method = "GET") =>
  `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${more}\r\n`

const symbols = Array.from({ length: 15 }, (_, index) => `T${index + 1}`).join(",")

/** Variations of the plain request. */
const variants: ReadonlyArray<ServiceInstances.WireRequestOptions> = [
  { headers: { "Accept-Encoding": "gzip" } },
  { headers: { Accept: "text/csv" } },
  { method: "HEAD" },
]

/** Checks the 200 and 304 responses of an endpoint. */
const checkSuccesses = Effect.fnUntraced(function* (port: number, operation: Operation, key: string) {
  const { supportsAsOf, follows, list, path, target, tickers } = operation
  const wire = Effect.fnUntraced(function* (target: string, options: ServiceInstances.WireRequestOptions = {}) {
    const response = yield* ServiceInstances.requestOverWire(port, target, key, options)
    check(path, `${options.method ?? "GET"} ${target}`, response)
    return response
  })
  const files = ["format=csv", "format=ndjson", "format=csv&limit=all", "format=ndjson&limit=all"]
  const all = [
    target,
    ...(list ? ["limit=1", "page=999&explain=true", ...files].map((query) => addQuery(target, query)) : []),
    ...(tickers ? [`${path}?ticker=${symbols},CLASS,@@&limit=1`] : []),
    ...(tickers && follows ? [`${path}?ticker=T1&follow_lineage=true`] : []),
    ...(supportsAsOf ? [addQuery(target, `as_of=${new Date().toISOString()}`)] : []),
    ...(path === "/estimate"
      ? [addQuery(target.replace(/endpoint=[^&]*/, "endpoint=/v1/screener"), "ticker=T1,@@")]
      : []),
  ]
  for (const [index, each] of all.entries()) {
    // Sends the first target in every variation, and every other target plainly and in one variation. The choice
    // depends on the endpoint, so that across all endpoints each format is combined with each variation.
    const place = index + operations.findIndex((one) => one.path === path)
    for (const options of index === 0 ? [{}, ...variants] : [{}, ...variants.slice(place % 3, place % 3 + 1)]) {
      const { headers: { etag }, status } = yield* wire(each, options)
      if (etag === undefined || status !== 200) continue
      const again = yield* wire(each, { ...options, headers: { ...options.headers, "If-None-Match": etag } })
      assert.strictEqual(again.status, 304, each)
    }
  }
})

/** Returns the declared statuses of a path that no response has had so far. */
const listUnobservedStatuses = ({ path }: Operation) =>
  Array.from(DocumentedEndpoints.getDocumentedResponses(path).keys()).filter((status) =>
    !observedHeaders.has(`${path} ${status}`)
  )

const retired = { announced: "2020-01-01", sunset: "2021-01-01", successor: "/v2/", note: "Fields have other names." }

const asAdmin = (...statements: ReadonlyArray<string>) => {
  const url = new URL(inject("databaseUrl"))
  url.pathname = "/postgres"
  return Effect.scoped(
    Effect.flatMap(
      PgConnection.make({ url: Redacted.make(url.href) }),
      (connection) => Effect.forEach(statements, (statement) => connection.query(statement), { discard: true }),
    ),
  )
}

/** Inserts two invoices for an account, the first with two lines. */
const insertInvoices = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.withTransaction(Effect.andThen(
    sql`
      insert into invoice_lines
      select account_id, '2026-01', line, '2026-01-02', '/v1/news', 'free', 1, 1, 0, 0
      from accounts, generate_series(1, 2) as line where name = ${name}
    `,
    sql`
      insert into invoices (account_id, month, lines, requests, bytes, cost_microdollars, digest)
      select account_id, month, 0, 0, 0, 0, '' from accounts, unnest(array['2026-01', '2026-02']) as month
      where name = ${name}
    `,
  ))
})

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true, timeout: "180 seconds" })(
  "Compared with the OpenAPI document,",
  (it) => {
    it.effect("a 200 or 304, as JSON or a file, has its declared headers (D14, D17, D18, D27, §9.4)", () =>
      Effect.gen(function* () {
        const port = yield* ServiceInstances.startServiceInstance()
        const { ultimate } = yield* Service.TestKeys
        yield* GeneratedRows.fillAllTables(15)
        yield* Service.insertRows("ticker_changes", {
          old_ticker: "OLD1",
          new_ticker: "NEW1",
          effective_date: "2024-01-02",
          status: "confirmed",
        })
        yield* Service.insertRows("company_symbols", { alias: "CLASS", cik: "0000000001", ticker: "T1" })
        yield* insertInvoices("test ultimate")
        const narrow = yield* Service.ensureAccountWithKey("test ultimate", "ultimate", { endpoints: ["/v1/timeline"] })
        yield* Effect.forEach(operations, (operation) => checkSuccesses(port, operation, ultimate), { discard: true })
        for (const operation of operations.filter(({ path }) => path === "/v1/timeline")) {
          yield* checkSuccesses(
            port,
            { ...operation, target: addQuery(operation.target, "follow_lineage=true") },
            narrow,
          )
        }
        // A request is recorded about one second after its response.
        for (const path of ["/v1/usage", "/v1/usage/daily"]) {
          yield* ServiceInstances.requestOverWire(port, `${path}?limit=1`, ultimate).pipe(
            Effect.map((response) => check(path, path, response) === 200 && response.headers["link"] !== undefined),
            Effect.repeat({ until: (isThere) => isThere, schedule: Schedule.spaced("100 millis") }),
          )
        }
        for (const { path } of operations) {
          for (const status of ["200", "304"]) {
            const declared = Object.keys(
              Object(valueAt(DocumentedEndpoints.getDocumentedResponses(path).get(status), "headers")),
            )
            const found = observedHeaders.get(`${path} ${status}`) ?? new Set()
            // Short responses are not compressed and therefore have no `Vary` header.
            const unobserved = declared.filter((name) => name !== "Vary" && !found.has(name.toLowerCase()))
            assert.deepStrictEqual(unobserved, [], `${path} ${status}`)
          }
        }
      }))

    it.effect("an error has its declared headers (D11, D14, D18)", () =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const narrow = yield* Service.ensureAccountWithKey("narrow", "ultimate", { endpoints: ["/v1/nowhere"] })
        yield* Accounts.ensureAccount({ name: "empty", tier: "ultimate", email: null, prepaid: true })
        const empty = yield* Service.ensureAccountWithKey("empty", "ultimate")
        const change = { old_ticker: "AMB1", effective_date: "2024-01-02", status: "confirmed" }
        yield* Service.insertRows("ticker_changes", { ...change, new_ticker: "AMB2" }, {
          ...change,
          new_ticker: "AMB3",
        })
        // This instance starts after the data changes. An instance that is already running may notice them up to a
        // second later.
        const port = yield* ServiceInstances.startServiceInstance()
        for (const operation of operations) {
          const { keyed, path, priced, target } = operation
          const key = `X-API-Key: ${ultimate}\r\n`
          const refused = Effect.fnUntraced(function* (status: number, ...request: Parameters<typeof line>) {
            assert.strictEqual(yield* checkRawRequest(port, operation, line(...request)), status)
          })
          yield* refused(400, addQuery(target, "x=%ZZ"), key)
          yield* refused(405, target, key, "POST")
          if (!path.startsWith("/health/")) yield* refused(422, addQuery(target, "zzzzzzzz=1"), key)
          if (!keyed) continue
          yield* refused(401, target)
          yield* refused(401, target, "X-API-Key: nonsense\r\n")
          yield* refused(403, target, `X-API-Key: ${narrow}\r\n`)
          if (priced) yield* refused(402, target, `X-API-Key: ${empty}\r\n`)
          if (path === "/v1/historical-tickers") yield* refused(404, `${path}?ticker=NOBODY`, key)
          if (operation.follows) {
            yield* refused(409, `${path}?ticker=AMB2&follow_lineage=true`, key)
          }
          if (operation.hasCursor) yield* refused(410, addQuery(target, "after=2020-01-01T00:00:00Z"), key)
          if (path === "/v1/ticker-changes") yield* refused(409, `${path}?ticker=AMB2`, key)
          if (path !== "/estimate") continue
          yield* refused(404, `${path}?endpoint=/v1/historical-tickers&ticker=NOBODY`, key)
          yield* refused(409, `${path}?endpoint=/v1/ticker-changes&ticker=AMB2`, key)
          yield* refused(410, `${path}?endpoint=/v1/changes&after=2020-01-01T00:00:00Z`, key)
        }
      }))

    it.effect("a 429 for an account or an address has its declared headers (D18)", () =>
      Effect.gen(function* () {
        const port = yield* ServiceInstances.startServiceInstance({ RATE_LIMIT_BASIC: "1", WRONG_KEYS_LIMIT: "1" })
        const { basic } = yield* Service.TestKeys
        yield* ServiceInstances.requestOverWire(port, "/v1/overview", basic)
        for (const operation of keyed) {
          const limited = check(
            operation.path,
            "limited",
            yield* ServiceInstances.requestOverWire(port, operation.target, basic),
          )
          assert.strictEqual(limited, 429)
        }
        yield* ServiceInstances.requestOverWire(port, "/v1/overview", "nonsense")
        for (const operation of keyed) {
          const limited = check(
            operation.path,
            "guessed",
            yield* ServiceInstances.requestOverWire(port, operation.target, "nonsense"),
          )
          assert.strictEqual(limited, 429)
        }
      }))

    it.effect("a malformed request gets the declared response, regardless of its path (D13, D14)", () =>
      Effect.gen(function* () {
        const shortTimeouts = {
          ...defaultConnectionTimeouts,
          headers: Duration.millis(100),
          request: Duration.millis(200),
        }
        const port = yield* ServiceInstances.startServiceInstance()
        const shortTimeoutPort = yield* ServiceInstances.startServiceInstance({}, undefined, {
          timeouts: shortTimeouts,
        })
        for (const operation of operations) {
          const { target } = operation
          const body = "x".repeat(70_000)
          assert.strictEqual(yield* checkRawRequest(port, operation, line(target, `X-Long: ${body}\r\n`)), 431)
          assert.strictEqual(
            yield* checkRawRequest(port, operation, line(target, `Content-Length: ${body.length}\r\n`) + body),
            413,
          )
        }
        yield* Effect.forEach(
          operations,
          (operation) =>
            Effect.map(
              checkRawRequest(shortTimeoutPort, operation, `GET ${operation.target} HTTP/1.1\r\nHost: x\r\n`),
              (status) => assert.strictEqual(status, 408),
            ),
          { concurrency: 8 },
        )
      }))

    it.effect("a 410 has its declared headers (§3, D24, D26)", () =>
      Effect.gen(function* () {
        const port = yield* Effect.provideService(
          ServiceInstances.startServiceInstance(),
          ApiVersionDeprecation,
          Option.some(retired),
        )
        for (const operation of operations) {
          if (!operation.path.startsWith("/v1/")) continue
          assert.strictEqual(yield* checkRawRequest(port, operation, line(operation.target)), 410)
        }
      }))

    it.effect("a 500 or 503 has its declared headers (§7.2)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const port = yield* ServiceInstances.startServiceInstance({ CACHE_MEGABYTES: "0" })
        const { ultimate } = yield* Service.TestKeys
        const unused = yield* Service.ensureAccountWithKey("unused", "ultimate")
        const statuses = (key: string) =>
          Effect.forEach(keyed, ({ path, target }) =>
            Effect.map(ServiceInstances.requestOverWire(port, target, key), (response) =>
              check(path, target, response)), {
            concurrency: 4,
          })
        const [row] = yield* sql<{ readonly name: string }>`select current_database() as name`
        const name = row?.name ?? ""
        yield* ServiceInstances.requestOverWire(port, "/v1/overview", ultimate)

        const tables = yield* sql<{ readonly name: string }>`
        select relname as name from pg_class
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition
          and relname not in ('api_keys', 'accounts', 'balance_reservations', 'usage_writers')
      `
        for (const { name } of tables) {
          yield* sql`alter table ${sql(name)} rename to ${sql(`${name}_gone`)}`
        }
        assert.include(yield* statuses(ultimate), 500)
        for (const { name } of tables) {
          yield* sql`alter table ${sql(`${name}_gone`)} rename to ${sql(name)}`
        }

        const disconnect = `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`
        yield* asAdmin(`alter database ${name} with allow_connections false`, disconnect)
        yield* Effect.gen(function* () {
          assert.deepStrictEqual(Array.from(new Set(yield* statuses(ultimate))), [503])
          assert.deepStrictEqual(Array.from(new Set(yield* statuses(unused))), [503])
          for (const path of ["/health/ready", "/v1/corrections"]) {
            assert.strictEqual(check(path, path, yield* ServiceInstances.requestOverWire(port, path, ultimate)), 503)
          }
          const page = yield* ServiceInstances.requestOverWire(port, "/v1/docs/corrections", "")
          assert.strictEqual(page.status, 200)
          assert.include(page.text, "cannot be read at the moment")
        }).pipe(Effect.ensuring(Effect.orDie(asAdmin(`alter database ${name} with allow_connections true`))))
      }))

    it.effect("every declared status occurs, except those that only a bug can cause (§7.2, D13)", () =>
      Effect.sync(() => {
        for (const operation of operations) {
          // Some statuses cannot occur here: 410 outside /v1/ (except for /estimate), and 500 on endpoints where only a
          // bug can cause it.
          const isRead = operation.keyed && !["/v1/account", "/v1/account/api-keys"].includes(operation.path)
          const isRemovable = operation.path.startsWith("/v1/") || operation.path === "/estimate"
          const never = [...(isRemovable ? [] : ["410"]), ...(isRead ? [] : ["500"])]
          assert.deepStrictEqual(listUnobservedStatuses(operation), never, operation.path)
        }
      }))
  },
)
