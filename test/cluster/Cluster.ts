/** Starts the entire cluster, fills it with data, and checks its health. */
import { NodeCrypto } from "@effect/platform-node"
import { Context, Data, Effect, Layer, Redacted, Schedule } from "effect"
import { makeRoleSettingStatements } from "../../src/postgres/pool/ConnectionSettings.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import * as FirstStart from "../../src/operate/cli/FirstStart.ts"
import { createCustomer } from "./Customers.ts"
import * as CommitCounter from "./CommitCounter.ts"
import { databasePasswords } from "./Patroni.ts"
import * as DatabaseCluster from "./DatabaseCluster.ts"
import * as Service from "./ServiceProcesses.ts"
import { appHosts, databaseRolePasswords, servicePorts, startHaproxy } from "./ProxiesAndPoolers.ts"
import { ClusterHosts } from "./Hosts.ts"

class Unhealthy extends Data.TaggedError("Unhealthy")<{ readonly message: string }> {}

/** Retries an effect every 100 ms for the given number of seconds, then fails with its last error. */
export const retryWithin = (seconds: number) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.retry(effect, {
    schedule: Schedule.max([Schedule.spaced("100 millis"), Schedule.during(`${seconds} seconds`)]),
  })

/** Three accounts: one with a large balance, one whose balance runs out in every scenario, and one that is postpaid. */
const customers = {
  lasting: { tier: "ultimate", balance: 1_000_000_000n },
  ending: { tier: "pro", balance: 1n },
  later: { tier: "ultimate", balance: undefined },
} as const

/** Runs an effect and logs its duration. */
const logDuration = <A, E, R>(what: string, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const began = performance.now()
    const result = yield* effect
    yield* Effect.log(`${what}: ${((performance.now() - began) / 1000).toFixed(1)} s`)
    return result
  })

const make = Effect.gen(function* () {
  const hosts = yield* ClusterHosts
  const { addressOf, folder } = hosts
  const postgres = yield* DatabaseCluster.startDatabaseCluster
  yield* startHaproxy
  yield* logDuration("PostgreSQL by Patroni, a primary and two standbys", retryWithin(90)(postgres.checkHealth(true)))

  const admin = yield* postgres.leader
  yield* Effect.forEach(Object.entries(databaseRolePasswords), ([role, password]) =>
    hosts.run({
      host: admin,
      command: "psql",
      args: [
        postgres.url(admin, "postgres", databasePasswords.postgres, "postgres"),
        "-XAtqc",
        `create role ${role} login password '${password}'`,
      ],
    }), { discard: true })
  yield* hosts.run({
    host: admin,
    command: "psql",
    args: [
      postgres.url(admin, "postgres", databasePasswords.postgres, "postgres"),
      "-XAtqc",
      `create database ${Service.databaseName} owner owner`,
      "-c",
      // Sets these values for the role, because PgBouncer drops them if a client sends them when it connects.
      makeRoleSettingStatements("tickerline_service", Service.databaseName).join("; "),
    ],
  })

  const service = yield* Service.makeServiceProcesses
  const url = Service.makePrimaryUrl(addressOf("lb"), "owner")
  yield* logDuration("Tables and privileges", retryWithin(30)(service.command(["grant", "tickerline_service"])))
  const owner = yield* Layer.build(
    Layer.merge(
      databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-cluster" }),
      NodeCrypto.layer,
    ),
  )
  const asOwner = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(effect, owner)
  const keys: Readonly<Record<string, string>> = yield* logDuration(
    "Sample data and accounts",
    asOwner(Effect.gen(function* () {
      yield* FirstStart.loadSampleMarket(`${folder}/samples`)
      const names = ["lasting", "ending", "later"] as const
      return Object.fromEntries(
        yield* Effect.forEach(
          names,
          (name) =>
            Effect.map(createCustomer(name, customers[name].tier, customers[name].balance), (key) => [name, key]),
        ),
      )
    })),
  )
  yield* logDuration(
    "Three processes of the service",
    Effect.forEach(appHosts, (app) => service.start(app), { concurrency: 3 }),
  )
  const counter = yield* asOwner(CommitCounter.startCommitCounter)

  /** Checks that the standbys follow the primary, and that all service processes are running and ready. */
  const checkHealth = (synchronous = true) =>
    Effect.gen(function* () {
      yield* postgres.checkHealth(synchronous)
      for (const app of appHosts) {
        if (service.running.get(app)?.isRunning() !== true) {
          return yield* new Unhealthy({ message: `${app} does not run.` })
        }
        yield* service.checkReady(app)
      }
    })

  const address = { host: addressOf("lb"), port: servicePorts.http }
  return {
    hosts,
    postgres,
    service,
    counter,
    keys,
    checkHealth,
    address,
    asOwner,
  }
})

/** The running cluster that all scenarios use. */
export class Cluster extends Context.Service<Cluster, Effect.Success<typeof make>>()("test/cluster/Cluster") {
  static readonly layer = Layer.effect(Cluster, make)
}
