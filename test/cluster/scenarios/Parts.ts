/** What else the service stands on: standbys, the store of the cluster's state, data that are replaced. */
import { Duration, Effect } from "effect"
import { Cluster, within } from "../Cluster.ts"
import * as Features from "../Features.ts"
import { type Member, members } from "../Patroni.ts"
import { hold, type Scenario, Wrong } from "../Scenario.ts"

const standbysOf = Effect.gen(function* () {
  const { postgres } = yield* Cluster
  const leader = yield* postgres.leader
  return members.filter((member) => member !== leader)
})

const readsOf = Effect.fnUntraced(function* (member: Member) {
  const { postgres } = yield* Cluster
  return Number(yield* postgres.psql(member, "select sum(seq_scan + idx_scan) from pg_stat_user_tables"))
})

export const behind: Scenario = {
  name: "standby-behind",
  promise: "A standby falls behind, and is not asked until it has caught up",
  outage: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { postgres } = yield* Cluster
    const [standby = "db3"] = yield* standbysOf
    yield* postgres.psql(standby, "select pg_wal_replay_pause()")
    // The rest of what it was asked for, and of its statistics.
    yield* Effect.sleep("3 seconds")
    const before = yield* readsOf(standby)
    yield* clients.more(300)
    const reads = (yield* readsOf(standby)) - before
    yield* postgres.psql(standby, "select pg_wal_replay_resume()")
    yield* clients.more(300)
    yield* Effect.sleep("1500 millis")
    const after = (yield* readsOf(standby)) - before - reads
    // The looks at its versions are no reads of tables of data, but of the count of changes.
    if (Features.has("replicas")) yield* hold(after > reads, `It was read ${reads} times while behind, ${after} after.`)
    return { standby, "reads while behind": reads, "reads afterwards": after }
  }),
}

const seconds = (taken: Duration.Duration) => Math.round(Duration.toMillis(taken) / 10) / 100

export const killed: Scenario = {
  name: "standby-killed",
  promise: "The host of the standby that commits wait for dies, and comes back",
  outage: 10,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { numbers, postgres, world } = yield* Cluster
    const synchronous = (yield* postgres.seen).find(({ role }) => role === "sync_standby")?.name
    const standby = members.find((member) => member === synchronous) ?? "db3"
    yield* world.kill(standby)
    const [taken] = yield* Effect.timed(numbers.next)
    yield* clients.more(300)
    yield* postgres.startEtcd(standby)
    yield* postgres.startPatroni(standby)
    return { standby, "seconds without a commit": seconds(taken) }
  }),
}

const lose = Effect.gen(function* () {
  const { postgres } = yield* Cluster
  const gone = yield* standbysOf
  yield* Effect.forEach(gone, (member) => postgres.stores.get(member)?.end("SIGKILL") ?? Effect.void)
  const restart = Effect.forEach(
    gone,
    (member) => Effect.map(postgres.startEtcd(member), (program) => postgres.stores.set(member, program)),
  )
  return restart
})

export const store: Scenario = {
  name: "store-lost",
  promise: "etcd loses its majority; while all servers reach each other the primary stays, and nobody notices",
  outage: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const restart = yield* lose
    yield* Effect.sleep("25 seconds")
    yield* clients.more(200)
    yield* restart
    return {}
  }),
}

export const demoted: Scenario = {
  name: "store-lost-no-failsafe",
  promise:
    "The same without Patroni's failsafe mode: the primary steps down; refusals until etcd is back, and some seconds",
  outage: 60,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { numbers, postgres } = yield* Cluster
    yield* postgres.configure({ failsafe_mode: false })
    yield* Effect.sleep("4 seconds")
    const leader = yield* postgres.leader
    const restart = yield* lose
    yield* within(40)(
      Effect.filterOrFail(
        postgres.rest(leader, "/primary"),
        ({ status }) => status !== 200,
        () => new Wrong({ message: "The primary stays without etcd." }),
      ),
    )
    yield* restart
    const [taken] = yield* Effect.timed(Effect.andThen(numbers.next, clients.more(50)))
    yield* postgres.configure({ failsafe_mode: true })
    return { "seconds after etcd was back": seconds(taken) }
  }),
}

export const loaded: Scenario = {
  name: "dataset-loaded",
  promise: "A dataset is replaced while clients ask for it",
  outage: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { service, world } = yield* Cluster
    for (const table of ["gap_stats", "news", "gap_stats"]) {
      yield* service.command(["load", table.replace("_", "-"), `${world.folder}/samples/${table}.csv`])
      yield* clients.more(100)
    }
    return {}
  }),
}
