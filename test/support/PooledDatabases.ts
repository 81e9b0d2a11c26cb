/** Databases and roles for services that connect through a pooler. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { Effect, Layer, Logger, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { inject } from "vitest"
import { databaseClientLayer } from "../../src/db/Database.ts"
import * as Roles from "../../src/db/migrations/ServiceRole.ts"
import * as PgBouncer from "./PgBouncer.ts"
import * as Service from "./Service.ts"

export const silentPlatformLayer = Layer.mergeAll(NodeServices.layer, NodeCrypto.layer, Logger.layer([]))

const own = (server: string) => {
  const { password, port, username } = new URL(server)
  return { port: Number(port), user: username, password }
}

export const startTestPooler = (settings: Readonly<Record<string, string>> = {}, fixed?: number) =>
  PgBouncer.startPgBouncer(own(inject("databaseUrl")), settings, fixed)

export const replacePort = (url: Redacted.Redacted, port: number) => {
  const way = new URL(Redacted.value(url))
  way.port = String(port)
  return way.href
}

/** A database and a service role. `limited` sets the session timeouts of the role. */
export const makeServiceRoleDatabase = Effect.fnUntraced(function* (limited = true) {
  const url = yield* Service.copyMigratedDatabase
  const admin = yield* PgConnection.make({ url })
  const name = `serving_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
  yield* Effect.acquireRelease(
    admin.query(`create role ${name} login password 'serving'`),
    () => Effect.orDie(Effect.andThen(admin.query(`drop owned by ${name} cascade`), admin.query(`drop role ${name}`))),
  )
  yield* Effect.provide(Roles.grantServiceRole(name), databaseClientLayer({ url, applicationName: "owner" }))
  if (!limited) {
    yield* admin.query(`alter role ${name} in database ${new URL(Redacted.value(url)).pathname.slice(1)} reset all`)
  }
  const way = new URL(Redacted.value(url))
  way.username = name
  way.password = "serving"
  return { url: Redacted.make(way.href), name, admin }
})

/** The URL of the same database for its owner. */
export const ownerUrl = (url: Redacted.Redacted) => {
  const way = new URL(inject("databaseUrl"))
  way.pathname = new URL(Redacted.value(url)).pathname
  return Redacted.make(way.href)
}
