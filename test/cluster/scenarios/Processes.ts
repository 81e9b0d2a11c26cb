/** Processes of the service come and go. */
import { Effect } from "effect"
import { Cluster } from "../Cluster.ts"
import { databaseHosts } from "../Patroni.ts"
import { expectTrue, type Scenario } from "../Scenario.ts"
import { measureThroughput } from "../Throughput.ts"

const readsOf = Effect.gen(function* () {
  const { service } = yield* Cluster
  return yield* Effect.forEach(
    databaseHosts,
    (member) => Effect.map(service.readsOf(member), (count) => [member, count] as const),
  )
})

/** Replay lags in milliseconds, as the primary sees them. */
const lagsDuring = Effect.fnUntraced(function* <A, E, R>(load: Effect.Effect<A, E, R>) {
  const { postgres } = yield* Cluster
  const leader = yield* postgres.leader
  const lags: Array<number> = []
  const look = Effect.map(
    postgres.psql(
      leader,
      "select extract(epoch from replay_lag) * 1000 from pg_stat_replication where replay_lag > '0'",
    ),
    (text) => void lags.push(...text.split("\n").filter((line) => line !== "").map(Number)),
  )
  yield* Effect.raceFirst(load, Effect.forever(Effect.delay(look, "50 millis")))
  return lags
})

export const normalOperation: Scenario = {
  name: "calm",
  promise: "While nothing is wrong nobody is refused, and reads are shared by the servers that may answer them",
  isInShortRun: true,
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { postgres } = yield* Cluster
    const before = new Map(yield* readsOf)
    const lags = yield* lagsDuring(clients.more(500))
    const reads = (yield* readsOf).map(([member, count]) => [member, count - (before.get(member) ?? 0)] as const)
    const leader = yield* postgres.leader
    const standbys = reads.filter(([member]) => member !== leader)
    yield* expectTrue(standbys.every(([, count]) => count > 0), `A standby was never asked: ${JSON.stringify(reads)}`)
    yield* expectTrue(
      reads.some(([member, count]) => member === leader && count === 0),
      "The primary was taken for a replica.",
    )
    yield* expectTrue(lags.length > 10, "No lag was seen.")
    const atMost = Math.ceil(Math.max(...lags))
    return {
      ...Object.fromEntries(reads.map(([member, count]) => [`reads of ${member}`, count])),
      [`replay lag at most (ms, of ${lags.length})`]: atMost,
    }
  }),
}

export const twoProcessScaling: Scenario = {
  name: "scaling",
  promise: "Two processes answer more than one, as far as the cores of this machine allow",
  maxOutageSeconds: 0,
  run: () => measureThroughput,
}

export const processKilled: Scenario = {
  name: "process-killed",
  promise: "A process that is killed takes nothing with it but the requests that it had",
  isInShortRun: true,
  maxBrokenRequests: 16,
  maxOutageSeconds: 3,
  run: Effect.fnUntraced(function* ({ clients, recordKill: killed }) {
    const { service } = yield* Cluster
    killed("app2")
    yield* service.running.get("app2")?.end("SIGKILL") ?? Effect.void
    killed("app2")
    yield* clients.more(200)
    yield* service.start("app2")
    yield* clients.more(200)
    return {}
  }),
}

export const processStopped: Scenario = {
  name: "process-stopped",
  promise: "A process that is told to end is replaced, and nobody notices",
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { service, world } = yield* Cluster
    yield* service.running.get("app1")?.end("SIGTERM") ?? Effect.void
    yield* clients.more(200)
    yield* service.start("app1")
    yield* clients.more(200)
    yield* expectTrue(!/ERROR/.test(world.logOf("app1")), "app1 says in its log that something went wrong.")
    return {}
  }),
}

export const poolersRestarted: Scenario = {
  name: "poolers-restarted",
  promise: "PgBouncer dies and is started again, beside each process that goes through it",
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
