/**
 * Creates databases and roles for services that connect through a pooler.
 *
 * ```ts
 * const { url } = yield* makeServiceRoleDatabase()
 * const { port } = yield* startTestPooler({ pool_mode: "transaction" })
 * const service = yield* startServiceInstance({ DATABASE_URL: replaceUrlPort(url, port) })
 * ```
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { Effect, Layer, Logger, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { inject } from "vitest"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import * as ServiceRole from "../../src/postgres/migrations/ServiceRole.ts"
import * as PgBouncer from "./PgBouncer.ts"
import * as Service from "./Service.ts"

/** Provides the Node services with logging disabled, for tests that do not use the layer of a running service. */
export const silentPlatformLayer = Layer.mergeAll(NodeServices.layer, NodeCrypto.layer, Logger.layer([]))

const parseServerUrl = (server: string) => {
  const { password, port, username } = new URL(server)
  return { port: Number(port), user: username, password }
}

/** Starts a pooler in front of the test server. */
export const startTestPooler = (settings: Readonly<Record<string, string>> = {}, fixed?: number) =>
  PgBouncer.startPgBouncer(parseServerUrl(inject("databaseUrl")), settings, fixed)

/** Returns the URL with a different port. */
export const replaceUrlPort = (url: Redacted.Redacted, port: number) => {
  const target = new URL(Redacted.value(url))
  target.port = String(port)
  return target.href
}

/**
 * Creates a migrated database and the role with which a service connects to it. Both are dropped when the scope closes.
 * The role has session timeouts unless `limited` is false. Returns the URL of the role, its name, and a connection of
 * the database's owner.
 */
export const makeServiceRoleDatabase = Effect.fnUntraced(function* (limited = true) {
  const url = yield* Service.copyMigratedDatabase
  const admin = yield* PgConnection.make({ url })
  const name = `serving_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
  yield* Effect.acquireRelease(
    admin.query(`create role ${name} login password 'serving'`),
    () => Effect.orDie(Effect.andThen(admin.query(`drop owned by ${name} cascade`), admin.query(`drop role ${name}`))),
  )
  yield* Effect.provide(
    ServiceRole.grantRolePrivileges(name),
    databaseClientLayer({ url, applicationName: "owner" }),
  )
  if (!limited) {
    yield* admin.query(`alter role ${name} in database ${new URL(Redacted.value(url)).pathname.slice(1)} reset all`)
  }
  const target = new URL(Redacted.value(url))
  target.username = name
  target.password = "serving"
  return { url: Redacted.make(target.href), name, admin }
})

/** Returns the URL with which the owner connects to the same database. */
export const getOwnerUrl = (url: Redacted.Redacted) => {
  const target = new URL(inject("databaseUrl"))
  target.pathname = new URL(Redacted.value(url)).pathname
  return Redacted.make(target.href)
}
