/**
 * Starts the service in this process on a free port, with a separate database.
 *
 * ```ts
 * layer(Service.layer)("GET /v1/news", (it) => {
 *   it.effect("returns the symbol in upper case (D5)", () =>
 *     Effect.gen(function* () {
 *       yield* Service.insertRows("news", { id: "1", ticker: "ABC", title: "…" })
 *       const { basic } = yield* Service.TestKeys
 *       const { body, status } = yield* Service.requestJson("/v1/news?ticker=abc", { key: basic })
 *       assert.strictEqual(status, 200)
 *     }))
 * })
 * ```
 *
 * `layer` has an empty database, `sampleServiceLayer` the sample market, and `layerAt` a clock set by the test.
 */
import { assert } from "@effect/vitest"
import { NodeCrypto, NodeHttpClient, NodeHttpServer, NodeServices } from "@effect/platform-node"
import {
  Array as Arr,
  Clock,
  ConfigProvider,
  Context,
  Duration,
  Effect,
  FileSystem,
  Layer,
  Logger,
  Redacted,
} from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientRequest, HttpServer } from "effect/http"
import { PgConnection } from "@effect/sql-pg"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { createServer, type Server } from "node:http"
import { inject } from "vitest"
import * as Accounts from "../../src/accounts/Accounts.ts"
import * as ApiKeys from "../../src/accounts/keys/ApiKeyManagement.ts"
import { type Tier, tiers } from "../../src/contract/rules/EndpointAnnotations.ts"
import * as FirstStart from "../../src/operate/cli/FirstStart.ts"
import * as Service from "../../src/Server.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { keepAliveTimeout } from "../../src/api/ConnectionLimits.ts"
import { NodeListener } from "../../src/api/NodeListener.ts"
import { makePoolableClientLayer } from "./PoolerMode.ts"
import { paceWorkload } from "./Pauses.ts"

const migratedUrl = () => new URL(inject("databaseUrl"))

const makeDatabaseUrl = (database: string) => {
  const url = migratedUrl()
  url.pathname = `/${database}`
  return Redacted.make(url.href)
}

/** A connection for creating and dropping databases. */
const adminConnection = Effect.suspend(() => PgConnection.make({ url: makeDatabaseUrl("postgres") }))

const runAsAdmin = (statement: string) =>
  Effect.scoped(Effect.flatMap(adminConnection, (connection) => connection.query(statement)))

/** Creates a database, either empty or as a copy of `template`. Drops it when the scope closes. */
export const createTestDatabase = Effect.fnUntraced(function* (template?: string) {
  const name = `test_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
  yield* Effect.acquireRelease(
    runAsAdmin(`create database ${name}${template === undefined ? "" : ` template ${template} strategy file_copy`}`),
    () => Effect.orDie(runAsAdmin(`drop database ${name} with (force)`)),
  )
  return makeDatabaseUrl(name)
})

const migratedDatabase = () => migratedUrl().pathname.slice(1)

/** Copies the migrated database, which takes milliseconds. */
export const copyMigratedDatabase = Effect.suspend(() => createTestDatabase(migratedDatabase()))

/** Loads the sample market into the current database. */
export const loadSampleMarket = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  yield* FirstStart.loadSampleMarket(yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-samples-" }))
}).pipe(Effect.scoped, Effect.provide(Logger.layer([])))

/**
 * Returns the name of the template database with the sample market. The first test that needs it creates it, while the
 * tests of other workers wait for the advisory lock, which is released with the connection. The database is created
 * under another name and renamed at the end, so that a database that was left incomplete is never used.
 */
const sampleTemplate = Effect.gen(function* () {
  const [name, unfinished] = ["sample_market", "sample_market_unfinished"]
  const admin = yield* adminConnection
  yield* admin.query("select pg_advisory_lock(1)")
  const { rows } = yield* admin.query(`select 1 from pg_database where datname = '${name}'`)
  if (rows.length > 0) return name
  yield* admin.query(`drop database if exists ${unfinished} with (force)`)
  yield* admin.query(`create database ${unfinished} template ${migratedDatabase()} strategy file_copy`)
  // Connects directly, because PgBouncer would keep a connection open, and a database with open connections cannot be
  // renamed.
  yield* Effect.provide(
    loadSampleMarket,
    databaseClientLayer({ url: makeDatabaseUrl(unfinished), applicationName: "tickerline-test" }),
  )
  yield* admin.query(`alter database ${unfinished} rename to ${name}`)
  return name
}).pipe(Effect.scoped)

/** Copies the sample market database, which takes milliseconds once the database exists. */
export const copySampleDatabase = Effect.flatMap(sampleTemplate, createTestDatabase)

/** Creates an API key, and its account if that does not exist yet. */
export const ensureAccountWithKey = Effect.fnUntraced(
  function* (account: string, tier: Tier, more: Partial<ApiKeys.NewApiKey> = {}) {
    yield* Accounts.ensureAccount({ name: account, tier, email: null, prepaid: false })
    const { key } = yield* ApiKeys.createApiKey({
      account,
      name: "test",
      expires: null,
      endpoints: null,
      networks: null,
      ...more,
    })
    return key
  },
)

/** Provides one API key per tier. */
export class TestKeys extends Context.Service<TestKeys, Readonly<Record<Tier, string>>>()("test/support/TestKeys") {
  static readonly layer = Layer.effect(
    TestKeys,
    Effect.gen(function* () {
      const made = yield* Effect.forEach(
        tiers,
        (tier) =>
          Effect.map(
            ensureAccountWithKey(`test ${tier}`, tier),
            (key) => [tier, key] as const,
          ),
      )
      const [[, basic], [, pro], [, ultimate]] = [made[0] ?? ["", ""], made[1] ?? ["", ""], made[2] ?? ["", ""]]
      return { basic, pro, ultimate }
    }),
  )
}

/** Sets high limits, because tests send many requests per minute from one address, and disables the cache. */
export const generousLimitsLayer = ConfigProvider.layerAdd(ConfigProvider.fromUnknown({
  RATE_LIMIT_BASIC: "1000000",
  RATE_LIMIT_PRO: "1000000",
  RATE_LIMIT_ULTIMATE: "1000000",
  CACHE_MEGABYTES: "0",
  WRONG_KEYS_LIMIT: "1000000",
}))

// With Node's default keep-alive timeout of five seconds, the server might close a connection just as a stalled client
// sends its next request.
const makeServer = () => createServer({ keepAliveTimeout: Duration.toMillis(keepAliveTimeout) })

/** Provides the Node HTTP server of the service. */
class NodeServer extends Context.Service<NodeServer, Server>()("test/support/NodeServer") {
  static readonly layer = Layer.sync(NodeServer, makeServer)
}

/**
 * Provides a server on a free port, and a client for it. Unlike `fetch`, the client does not request compression, which
 * would double the time.
 */
export const httpServerLayer = HttpServer.layerTestClient.pipe(
  Layer.provide(NodeHttpClient.layerUndici),
  Layer.provideMerge(
    Layer.effect(
      HttpServer.HttpServer,
      Effect.flatMap(NodeServer, (server) => NodeHttpServer.make(() => server, { port: 0 })),
    ),
  ),
  Layer.provideMerge(NodeHttpServer.layerHttpServices),
  Layer.provideMerge(NodeServer.layer),
)

/** Makes the service handle the server's requests. */
export const listenerLayer = Layer.effectDiscard(Effect.gen(function* () {
  const server = yield* NodeServer
  const { handle } = yield* NodeListener
  server.on("request", handle)
  yield* Effect.addFinalizer(() => Effect.sync(() => server.off("request", handle)))
}))

/** Provides the service on a given database, with an API key for each tier. */
export const serviceLayerOver = <More, E, R>(database: Layer.Layer<SqlClient.SqlClient | More, E, R>) =>
  serviceLayerWithKeys(TestKeys.layer, database)

/** Provides the service with existing API keys, for a database role that cannot create any. */
export const serviceLayerWithKeys = <E1, R1, More, E, R>(
  keys: Layer.Layer<TestKeys, E1, R1>,
  database: Layer.Layer<SqlClient.SqlClient | More, E, R>,
) =>
  Layer.merge(listenerLayer, Service.backgroundJobsLayer).pipe(
    Layer.provideMerge(Service.layer),
    // Logs are discarded, because tests cause failures deliberately.
    Layer.provide(Logger.layer([])),
    Layer.provide(generousLimitsLayer),
    Layer.provideMerge(keys),
    Layer.provideMerge(database),
    Layer.provideMerge(httpServerLayer),
    Layer.provideMerge(NodeCrypto.layer),
    Layer.provideMerge(NodeServices.layer),
  )

const makeClientLayer = <E, R>(database: Effect.Effect<Redacted.Redacted, E, R>) =>
  Layer.unwrap(Effect.map(database, (url) => makePoolableClientLayer({ url, applicationName: "tickerline-test" })))

/** Provides a client for a new copy of the migrated database. */
export const migratedDatabaseLayer = makeClientLayer(copyMigratedDatabase)

/** Provides the service with a migrated, empty database. */
export const layer = serviceLayerOver(migratedDatabaseLayer)

/** Provides the service with a clock set to `instant`. Tests may advance the clock, but only by seconds. */
export const layerAt = (instant: number) => Layer.provide(layer, Layer.effectDiscard(TestClock.setTime(instant)))

/** Provides a client for a new database with the sample market. */
export const sampleDatabaseLayer = makeClientLayer(copySampleDatabase)

/** The URL of the client's database. */
export const databaseUrl = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly name: string }>`select current_database() as name`
  return Redacted.value(makeDatabaseUrl(row?.name ?? ""))
})

/** Provides the service with the sample market and the current time. */
export const sampleServiceLayer = serviceLayerOver(sampleDatabaseLayer)

/** Options for sending a request. */
export interface TestRequestOptions {
  readonly method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS"
  readonly headers?: Readonly<Record<string, string>>
  /** The API key. By default, the key of the `basic` tier. If null, the request has no key. */
  readonly key?: string | null
}

/** Sends a request. Returns the status, headers, text and parsed JSON. */
export const requestJson = Effect.fnUntraced(
  function* (path: string, { headers = {}, key, method = "GET" }: TestRequestOptions = {}) {
    const keys = yield* TestKeys
    const credentials = key === null ? {} : { "X-API-Key": key ?? keys.basic }
    const response = yield* HttpClient.execute(
      HttpClientRequest.make(method)(path).pipe(HttpClientRequest.setHeaders({ ...credentials, ...headers })),
    )
    const text = yield* response.text
    const json = response.headers["content-type"]?.startsWith("application/json") === true && text !== ""
    const body: unknown = json ? JSON.parse(text) : text
    return { status: response.status, headers: response.headers, text, body }
  },
)

/** The time within which a change to a key or account must affect all requests (D2). */
const maxKeyDelayMillis = 1_000

/**
 * Repeats a request until it gets the given status. Asserts that this takes less than the documented second (D2, D18),
 * counted from `validMillis` after the call. Until then, the previous status is correct. Because responses may be slow
 * on a busy machine, the check uses the time at which the last request with a different status was sent.
 */
export const waitForResponseStatus = Effect.fnUntraced(
  function* (path: string, key: string, status: number, validMillis = 0) {
    const start = yield* Clock.currentTimeMillis
    let lastOther = 0
    for (;;) {
      const sentAfter = (yield* Clock.currentTimeMillis) - start
      const { status: found } = yield* requestJson(path, { key })
      if (found === status) return assert.isBelow(lastOther, validMillis + maxKeyDelayMillis)
      lastOther = sentAfter
      yield* paceWorkload("20 millis")
    }
  },
)

export { valueAt } from "./DocumentedEndpoints.ts"

/** The port of the service, for tests that open sockets themselves. */
export const servicePort = Effect.map(HttpServer.HttpServer, ({ address }) => "port" in address ? address.port : 0)

const haveSameColumns = (a: object, b: object) => Object.keys(a).join() === Object.keys(b).join()

/** Inserts rows in order. Consecutive rows with the same columns are inserted with one statement. */
export const insertRows = Effect.fnUntraced(
  function* (table: string, ...rows: ReadonlyArray<Readonly<Record<string, unknown>>>) {
    const sql = yield* SqlClient.SqlClient
    // Splits the rows, because a statement can have at most 65,535 parameters.
    const groups = Arr.chunksOf(rows, 500).flatMap((chunk) => Arr.groupWith(chunk, haveSameColumns))
    yield* Effect.forEach(groups, (group) => sql`insert into ${sql(table)} ${sql.insert(group)}`, { discard: true })
  },
)

/** Reads the database's clock. Returns the time in UTC with microseconds. */
export const readDatabaseClock = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly now: string }>`
    select to_char(clock_timestamp() at time zone 'Etc/GMT+5', 'YYYY-MM-DD"T"HH24:MI:SS.US"-05:00"') as now`
  return row?.now ?? ""
})
