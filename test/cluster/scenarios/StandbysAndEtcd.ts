/** Scenarios for standbys, etcd, and replaced datasets. */
import { Duration, Effect } from "effect"
import { Cluster, retryWithin } from "../Cluster.ts"
import { databaseHosts } from "../Patroni.ts"
import { FailedExpectation, failUnless, type Scenario } from "../Scenario.ts"
import { type AppHost, appHosts, servicePorts } from "../ProxiesAndPoolers.ts"
import { requestWithTimeout } from "../RequestWithTimeout.ts"
import { holdFault } from "../../support/Pauses.ts"

/** Returns the hosts of the standbys. */
const findStandbys = Effect.gen(function* () {
  const { postgres } = yield* Cluster
  const leader = yield* postgres.leader
  return databaseHosts.filter((member) => member !== leader)
})

/** A standby stops replaying the primary's WAL. */
export const standbyBehind: Scenario = {
  name: "standby-behind",
  promise: "A standby stops replaying. It serves no data that changed since, and is used again after it catches up",
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { postgres, service } = yield* Cluster
    const [standby = "db3"] = yield* findStandbys
    // Suspends the process that replays WAL. `pg_wal_replay_pause()` would not work, because Patroni would resume the
    // replay.
    const replay = Number(
      yield* postgres.psql(standby, "select pid from pg_stat_activity where backend_type = 'startup'"),
    )
    yield* Effect.acquireRelease(
      Effect.sync(() => process.kill(replay, "SIGSTOP")),
      () => Effect.sync(() => process.kill(replay, "SIGCONT")),
    )
    // The clients read a row that the commit counter updates ten times a second, so they would notice stale data.
    const before = yield* service.readsOf(standby)
    yield* clients.more(300)
    const reads = (yield* service.readsOf(standby)) - before
    process.kill(replay, "SIGCONT")
    yield* clients.more(300)
    const after = (yield* service.readsOf(standby)) - before - reads
    yield* failUnless(after > 0, "The standby caught up, but the service did not use it again.")
    return { standby, "reads while behind": reads, "reads afterwards": after }
  }, Effect.scoped),
}

/** Converts a duration to seconds with two decimals. */
const toSeconds = (taken: Duration.Duration) => Math.round(Duration.toMillis(taken) / 10) / 100

/** The synchronous standby dies. */
export const standbyKilled: Scenario = {
  name: "standby-killed",
  promise: "The host of the synchronous standby dies and comes back",
  maxOutageSeconds: 10,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { counter, hosts, postgres } = yield* Cluster
    const synchronous = (yield* postgres.members).find(({ role }) => role === "sync_standby")?.name
    const standby = databaseHosts.find((member) => member === synchronous) ?? "db3"
    yield* hosts.kill(standby)
    // Waits for two commits, because the first may have been acknowledged before the standby was killed.
    yield* counter.nextCommit
    const [taken] = yield* Effect.timed(counter.nextCommit)
    yield* clients.more(300)
    yield* postgres.startEtcd(standby)
    yield* postgres.startPatroni(standby)
    return { standby, "seconds without a commit": toSeconds(taken) }
  }),
}

/** Kills etcd on both standbys, so that etcd loses its majority. Returns an effect that restarts it. */
const killEtcdMajority = Effect.gen(function* () {
  const { postgres } = yield* Cluster
  const gone = yield* findStandbys
  yield* Effect.forEach(gone, (member) => postgres.etcdMembers.get(member)?.end("SIGKILL") ?? Effect.void)
  return Effect.forEach(
    gone,
    (member) => postgres.etcdMembers.get(member)?.isRunning() === true ? Effect.void : postgres.startEtcd(member),
    { discard: true },
  )
})

/** etcd fails while Patroni has the settings that the operations guide recommends. */
export const etcdLost: Scenario = {
  name: "store-lost",
  promise: "etcd loses its majority. The primary stays while all servers reach each other, and clients see no error",
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const restart = yield* killEtcdMajority
    yield* holdFault("25 seconds").pipe(Effect.andThen(clients.more(200)), Effect.ensuring(restart))
    return {}
  }),
}

/** Kills etcd, waits until the primary has stepped down, then restarts etcd. */
const waitUntilPrimaryStepsDown = Effect.gen(function* () {
  const { postgres } = yield* Cluster
  const leader = yield* postgres.leader
  const restart = yield* killEtcdMajority
  yield* postgres.requestPatroni(leader, "/primary").pipe(
    Effect.filterOrFail(
      ({ status }) => status !== 200,
      () => new FailedExpectation({ message: "The primary did not step down without etcd." }),
    ),
    retryWithin(40),
    Effect.ensuring(restart),
  )
})

/** etcd fails while Patroni has a setting that the operations guide advises against. */
export const etcdLostWithoutFailsafe: Scenario = {
  name: "store-lost-no-failsafe",
  promise: "etcd loses its majority without Patroni's failsafe mode. The primary steps down until etcd is back",
  maxOutageSeconds: 60,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { counter, postgres } = yield* Cluster
    yield* postgres.configure({ failsafe_mode: false })
    yield* holdFault("4 seconds")
    const failsafe = Effect.ignore(postgres.configure({ failsafe_mode: true }))
    const [taken] = yield* waitUntilPrimaryStepsDown.pipe(
      Effect.andThen(Effect.timed(Effect.andThen(counter.nextCommit, clients.more(50)))),
      Effect.ensuring(failsafe),
    )
    return { "seconds after etcd was back": toSeconds(taken) }
  }),
}

/** Counts the queries that WAL replay has canceled on the standbys. */
const countConflicts = Effect.gen(function* () {
  const { postgres } = yield* Cluster
  const counts = yield* Effect.forEach(
    yield* findStandbys,
    (member) =>
      Effect.map(
        postgres.psql(member, "select sum(confl_lock + confl_snapshot) from pg_stat_database_conflicts"),
        Number,
      ),
  )
  return counts.reduce((sum, count) => sum + count, 0)
})

/** Exports a list through the given process. Returns whether the export is complete. */
const exportList = Effect.fnUntraced(function* (app: AppHost) {
  const { hosts, keys } = yield* Cluster
  const response = yield* requestWithTimeout({
    host: hosts.addressOf(app),
    port: servicePorts.service,
    path: "/v1/gap-stats?limit=all&format=ndjson",
    headers: { Authorization: `Bearer ${keys["later"]}` },
  })
  const lines = response.text.split("\n").length - 1
  const isComplete = response.status === 200 && lines === Number(response.headers["x-row-count"])
  yield* failUnless(
    isComplete || (response.status === 503 && response.headers["retry-after"] === "5"),
    `An export: ${response.status}, ${lines} of ${String(response.headers["x-row-count"])} lines`,
  )
  return isComplete
})

/** WAL replay cancels queries on standbys. */
export const standbyConflicts: Scenario = {
  name: "standby-conflict",
  promise:
    "A lock on a table cancels queries on standbys. The service repeats them on the primary, and clients see no error",
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { hosts, postgres, service } = yield* Cluster
    yield* postgres.configure({ postgresql: { parameters: { max_standby_streaming_delay: "0" } } })
    yield* holdFault("4 seconds")
    const before = yield* countConflicts
    let completeLists = 0
    const readers = Effect.forEach(
      appHosts,
      (app) => Effect.forever(Effect.map(exportList(app), (isComplete) => void (completeLists += isComplete ? 1 : 0))),
      { concurrency: "unbounded", discard: true },
    )
    // Replacing the table does not always conflict with a query, so the load runs repeatedly.
    const loads = service.command(["load", "gap-stats", `${hosts.folder}/samples/gap_stats.csv`]).pipe(
      Effect.andThen(countConflicts),
      Effect.repeat({ until: (count) => count > before, times: 20 }),
    )
    yield* Effect.raceFirst(loads, readers)
    yield* clients.more(100)
    const cancelled = (yield* countConflicts) - before
    yield* postgres.configure({ postgresql: { parameters: { max_standby_streaming_delay: "500ms" } } })
    yield* failUnless(cancelled > 0, "No query was cancelled.")
    return { "queries cancelled": cancelled, "complete lists": completeLists }
  }),
}

/** The `load` command replaces entire datasets. */
export const datasetReplaced: Scenario = {
  name: "dataset-loaded",
  promise: "A dataset is replaced while clients read it, and they see no error",
  maxOutageSeconds: 0,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { hosts, service } = yield* Cluster
    for (const table of ["gap_stats", "news", "gap_stats"]) {
      yield* service.command(["load", table.replace("_", "-"), `${hosts.folder}/samples/${table}.csv`])
      yield* clients.more(100)
    }
    return {}
  }),
}
