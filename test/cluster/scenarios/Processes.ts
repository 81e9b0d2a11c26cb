/** Scenarios in which service processes start and stop. */
import { Effect, Schedule } from "effect"
import { Cluster } from "../Cluster.ts"
import { databaseHosts } from "../Patroni.ts"
import { failUnless, type Scenario } from "../Scenario.ts"
import { measureThroughput } from "../Throughput.ts"

/** Returns the number of reads that each database host has served. */
const countReads = Effect.gen(function* () {
  const { service } = yield* Cluster
  return yield* Effect.forEach(
    databaseHosts,
    (member) => Effect.map(service.readsOf(member), (count) => [member, count] as const),
  )
})

/** Samples the replay lag in milliseconds, as the primary reports it, while an effect runs. */
const measureLagsDuring = Effect.fnUntraced(function* <A, E, R>(load: Effect.Effect<A, E, R>) {
  const { postgres } = yield* Cluster
  const leader = yield* postgres.leader
  const lags: Array<number> = []
  const measure = Effect.map(
    postgres.psql(
      leader,
      "select extract(epoch from replay_lag) * 1000 from pg_stat_replication where replay_lag > '0'",
    ),
    (text) => void lags.push(...text.split("\n").filter((line) => line !== "").map(Number)),
  )
  yield* Effect.raceFirst(load, Effect.repeat(measure, Schedule.spaced("50 millis")))
  return lags
})

/** Nothing fails. This run is the baseline for the other scenarios. */
export const normalOperation: Scenario = {
  name: "calm",
  promise: "In normal operation, no client is refused, and the standbys share the reads",
  isInShortRun: true,
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { postgres } = yield* Cluster
    const before = new Map(yield* countReads)
    const lags = yield* measureLagsDuring(clients.more(500))
    const reads = (yield* countReads).map(([member, count]) => [member, count - (before.get(member) ?? 0)] as const)
    const leader = yield* postgres.leader
    const standbys = reads.filter(([member]) => member !== leader)
    yield* failUnless(standbys.every(([, count]) => count > 0), `A standby received no reads: ${JSON.stringify(reads)}`)
    yield* failUnless(
      reads.some(([member, count]) => member === leader && count === 0),
      "The service used the primary as a replica.",
    )
    yield* failUnless(lags.length > 10, "No lag was seen.")
    const atMost = Math.ceil(Math.max(...lags))
    return {
      ...Object.fromEntries(reads.map(([member, count]) => [`reads of ${member}`, count])),
      [`replay lag at most (ms, of ${lags.length})`]: atMost,
    }
  }),
}

/** Compares the throughput of one process and two processes. */
export const twoProcessScaling: Scenario = {
  name: "scaling",
  promise: "Two processes serve more requests than one, as far as the cores of this machine allow",
  maxOutageSeconds: 0,
  run: () => measureThroughput,
}

/** A service process is killed and cannot finish its requests. */
export const processKilled: Scenario = {
  name: "process-killed",
  promise: "A killed process loses only the requests in progress",
  isInShortRun: true,
  maxBrokenRequests: 16,
  maxOutageSeconds: 3,
  run: Effect.fnUntraced(function* ({ clients, recordKill }) {
    const { service } = yield* Cluster
    recordKill("app2")
    yield* service.running.get("app2")?.end("SIGKILL") ?? Effect.void
    recordKill("app2")
    yield* clients.more(200)
    yield* service.start("app2")
    yield* clients.more(200)
    return {}
  }),
}

/** A service process is asked to stop, as in a deployment. */
export const processStopped: Scenario = {
  name: "process-stopped",
  promise: "A process is stopped and replaced, and clients see no error",
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { hosts, service } = yield* Cluster
    yield* service.running.get("app1")?.end("SIGTERM") ?? Effect.void
    yield* clients.more(200)
    yield* service.start("app1")
    yield* clients.more(200)
    yield* failUnless(!/ERROR/.test(hosts.logOf("app1")), "The log of app1 has an error.")
    return {}
  }),
}

/** Kills the poolers one after another. */
export const poolersRestarted: Scenario = {
  name: "poolers-restarted",
  promise: "Each PgBouncer is killed and restarted, and clients are served again within ten seconds",
  maxOutageSeconds: 10,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { service } = yield* Cluster
    for (const pooler of Array.from(service.poolers.values())) {
      yield* pooler.end("SIGKILL")
      yield* clients.more(100)
    }
    return { poolers: service.poolers.size }
  }),
}
