/**
 * Serves the admin API over a socket, with the PostgreSQL role that `grant --admin` creates.
 *
 * ```ts
 * layer(makeAdminLayer(), { excludeTestServices: true })("The admin API", (it) => {
 *   it.effect("lists accounts (operations/admin-api)", () =>
 *     Effect.gen(function* () {
 *       const { send, tokens } = yield* Admin
 *       assert.strictEqual((yield* send("/accounts", { token: tokens.read })).status, 200)
 *     }))
 * })
 * ```
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { ConfigProvider, Context, Effect, Layer, Logger, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { adminServerLayer } from "../../src/operate/console/AdminServer.ts"
import { createAdminToken } from "../../src/operate/admin/AdminTokens.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { grantRolePrivileges } from "../../src/postgres/migrations/ServiceRole.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { copyMigratedDatabase } from "./Service.ts"

interface AdminRequest {
  readonly method?: "GET" | "PATCH" | "POST" | "PUT"
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** The token to send. The default is a token with the scope `admin`. */
  readonly token?: string
}

/** Sends requests to the admin API. */
export class Admin extends Context.Service<Admin, {
  readonly port: number
  readonly role: string
  readonly tokens: Readonly<Record<"admin" | "read" | "support", string>>
  readonly send: (path: string, request?: AdminRequest) => Effect.Effect<{
    readonly status: number
    readonly headers: Headers
    readonly body: unknown
  }>
}>()("test/support/Admin") {}

/** Creates an admin token. */
export const createToken = (name: string, scope: "admin" | "read" | "support", expires: string | null = null) =>
  createAdminToken({ name, scope, expires, created_by: "test" })

/**
 * Creates a PostgreSQL role for the admin API, starts the API on a free port with this role, and creates a token of
 * each scope. `makeSettings` returns further settings of the API, which may depend on the port.
 */
const adminLayer = (makeSettings: (port: number) => Readonly<Record<string, string>>) =>
  Layer.effect(
    Admin,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const url = new URL(yield* DatabaseUrl)
      const role = `admin ${SecureRandom.uuidV7Unsafe()}`
      yield* Effect.acquireRelease(
        sql.unsafe(`create role "${role}" login password 'admin'`),
        () =>
          Effect.orDie(
            Effect.andThen(sql.unsafe(`drop owned by "${role}" cascade`), sql.unsafe(`drop role "${role}"`)),
          ),
      )
      yield* grantRolePrivileges(role, "admin")
      url.username = encodeURIComponent(role)
      url.password = "admin"
      const port = yield* chooseFreePort
      const settings = ConfigProvider.fromUnknown({
        ADMIN_PORT: String(port),
        ADMIN_DATABASE_URL: url.href,
        ...makeSettings(port),
      })
      yield* Layer.build(adminServerLayer(false).pipe(Layer.provide(ConfigProvider.layer(settings))))
      const tokens = {
        admin: yield* createToken("alice", "admin"),
        support: yield* createToken("sam", "support"),
        read: yield* createToken("rita", "read"),
      }
      return Admin.of({
        port,
        role,
        tokens,
        send: (path, { body, headers, method = "GET", token = tokens.admin } = {}) =>
          Effect.promise(async () => {
            const response = await fetch(`http://127.0.0.1:${port}/v1${path}`, {
              method,
              headers: {
                ...(token !== "" && { authorization: `Bearer ${token}` }),
                ...(body !== undefined && { "content-type": "application/json" }),
                ...headers,
              },
              ...(body !== undefined && { body: JSON.stringify(body) }),
            })
            const text = await response.text()
            const parsed: unknown = text === "" ? null : JSON.parse(text)
            return { status: response.status, headers: response.headers, body: parsed }
          }),
      })
    }),
  )

class DatabaseUrl extends Context.Service<DatabaseUrl, string>()("test/support/AdminDatabaseUrl") {}

/** The messages that admin servers in this process have logged. */
export const adminLog: Array<string> = []
const collectingLogger = Logger.make(({ message }) => adminLog.push(String(message)))

/** Provides an admin server with a separate database and with additional settings, which may depend on its port. */
export const makeAdminLayer = (
  settings: (port: number) => Readonly<Record<string, string>> = () => ({}),
  database: typeof copyMigratedDatabase = copyMigratedDatabase,
) =>
  adminLayer(settings).pipe(
    Layer.provideMerge(Layer.unwrap(Effect.map(
      DatabaseUrl,
      (url) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
    ))),
    Layer.provideMerge(Layer.effect(DatabaseUrl, Effect.map(database, Redacted.value))),
    Layer.provideMerge(Layer.mergeAll(NodeCrypto.layer, NodeServices.layer, Logger.layer([collectingLogger]))),
  )
