/**
 * Starts several service instances on one database, the way `serve` does, and sends them requests.
 *
 * ```ts
 * layer(databaseWithKeysLayer, { excludeTestServices: true })("Two instances", (it) => {
 *   it.effect("return the same response (D17)", () =>
 *     Effect.gen(function* () {
 *       const { basic } = yield* TestKeys
 *       const [one, other] = [yield* startServiceInstance(), yield* startServiceInstance({ CACHE_MEGABYTES: "0" })]
 *       assert.strictEqual(
 *         (yield* requestOverWire(one, "/v1/news", basic)).text,
 *         (yield* requestOverWire(other, "/v1/news", basic)).text,
 *       )
 *     }).pipe(Effect.scoped))
 * })
 * ```
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { ConfigProvider, Context, Effect, Layer, Logger, Schedule } from "effect"
import { HttpServer } from "effect/http"
import { SqlClient } from "effect/sql"
import { request } from "node:http"
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib"
import { DirectConnectionConfig } from "../../src/postgres/pool/ConnectionSettings.ts"
import { pooledClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import * as ServeCommand from "../../src/operate/cli/ServeCommand.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import type { ConnectionTimeouts } from "../../src/api/ConnectionLimits.ts"
import { type Environment, startCommandProcess } from "./Processes.ts"
import { TestKeys } from "./Service.ts"
import * as Service from "./Service.ts"

/** A response as received over the wire. */
export interface WireResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The header names in the order in which they were received. */
  readonly headerNames: ReadonlyArray<string>
  /** The body as received. */
  readonly bytes: Buffer
  readonly text: string
  /** The trailers, which are headers sent after the body. */
  readonly trailers: Readonly<Record<string, string | undefined>>
}

/** Options for sending a request. */
export interface WireRequestOptions {
  readonly method?: "GET" | "HEAD" | "POST"
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Whether to send a `Host` header. */
  readonly setHost?: boolean
}

/** Decompresses a response body. */
export const decompressBody = (encoding: string | undefined, bytes: Buffer) =>
  bytes.length === 0
    ? bytes
    : encoding === "br"
    ? brotliDecompressSync(bytes)
    : encoding === "gzip"
    ? gunzipSync(bytes)
    : encoding === "zstd"
    ? zstdDecompressSync(bytes)
    : bytes

/**
 * Prevents all instances on a database from running background jobs. The statements of these jobs would be recorded
 * together with those of the requests.
 */
export const refuseJobLeases = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.andThen(
    sql`create function refuse_lease() returns trigger language plpgsql as $$ begin return null; end $$`,
    sql`create trigger refuse_lease before update on leases for each row execute function refuse_lease()`,
  ))

/** Sends a request with a bearer key. */
export const requestOverWire = (
  port: number,
  path: string,
  key: string,
  { body, headers = {}, method = "GET", setHost = true }: WireRequestOptions = {},
) =>
  Effect.callback<WireResponse, Error>((resume) => {
    const all = { Authorization: `Bearer ${key}`, ...headers }
    const outgoing = request({ port, path, method, host: "127.0.0.1", headers: all, setHost }, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("error", (error) => resume(Effect.fail(error)))
      response.on("end", () => {
        const bytes = Buffer.concat(chunks)
        const named = Object.entries(response.headers).map(([name, value]) => [name, String(value)])
        const text = decompressBody(response.headers["content-encoding"], bytes).toString("utf8")
        const { rawHeaders, statusCode: status = 0, trailers } = response
        const headerNames = rawHeaders.filter((_, index) => index % 2 === 0)
        resume(Effect.succeed({ status, headers: Object.fromEntries(named), headerNames, bytes, text, trailers }))
      })
    })
    outgoing.on("error", (error) => resume(Effect.fail(error)))
    outgoing.end(body)
    return Effect.sync(() => outgoing.destroy())
  })

/**
 * Default settings for all instances, with a small cache. `BASE_URL` is set explicitly, because Vitest sets it to a
 * path.
 */
const settings = ConfigProvider.layerAdd(
  ConfigProvider.fromUnknown({ CACHE_MEGABYTES: "16", BASE_URL: "https://instance.example" }),
  { asPrimary: true },
)

/** Starts an instance on a free port or on the given port. Returns the port. */
export const startServiceInstance = Effect.fnUntraced(function* (
  values: Readonly<Record<string, string>> = {},
  at: { readonly port: number; readonly reusePort?: boolean } = { port: 0 },
  { timeouts, watched = Logger.layer([]) }: {
    readonly timeouts?: ConnectionTimeouts
    readonly watched?: Layer.Layer<never>
  } = {},
) {
  const configured = ConfigProvider.layerAdd(ConfigProvider.fromUnknown(values), { asPrimary: true }).pipe(
    Layer.provideMerge(settings),
    Layer.provideMerge(Service.generousLimitsLayer),
  )
  const { config, pooler } = yield* DirectConnectionConfig
  // If there are pool settings, the instance opens its own connections, as a separate process would.
  const pool = Object.keys(values).some((name) => name.startsWith("DATABASE_POOL_"))
    ? Layer.fresh(pooledClientLayer(pooler?.config ?? config, pooler === undefined)).pipe(Layer.provide(configured))
    : Layer.empty
  const services = yield* ServeCommand.startServer({ host: "127.0.0.1", ...at }, timeouts).pipe(
    Effect.provideContext(yield* Layer.build(pool)),
    Effect.provide(Layer.merge(watched, configured)),
  )
  const { address } = Context.get(services, HttpServer.HttpServer)
  return "port" in address ? address.port : 0
})

/** Starts the service as a separate process and waits until it is ready. */
export const startServiceProcess = Effect.fnUntraced(function* (databaseUrl: string, more: Environment = {}) {
  const port = more["PORT"] === undefined ? yield* chooseFreePort : Number(more["PORT"])
  const running = yield* startCommandProcess(["serve"], {
    DATABASE_URL: databaseUrl,
    RATE_LIMIT_ULTIMATE: "1000000",
    ...more,
    PORT: String(port),
  })
  yield* Effect.retry(
    Effect.flatMap(
      requestOverWire(port, "/health/ready", ""),
      ({ status }) => status === 200 ? Effect.void : Effect.fail("not yet"),
    ),
    { schedule: Schedule.spaced("50 millis"), times: 400 },
  )
  return { running, port }
})

/** Provides a database with API keys, but without a running service. */
export const databaseWithKeysLayer = TestKeys.layer.pipe(
  Layer.provideMerge(Service.migratedDatabaseLayer),
  Layer.provideMerge(NodeCrypto.layer),
  Layer.provideMerge(NodeServices.layer),
)
