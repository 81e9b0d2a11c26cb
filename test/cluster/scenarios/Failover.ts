/** Scenarios in which the primary is killed, isolated or replaced. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Cluster, retryWithin } from "../Cluster.ts"
import { counterTicker, forbiddenCounterValue } from "../CommitCounter.ts"
import { type DatabaseHost, databaseHosts } from "../Patroni.ts"
import { FailedExpectation, failUnless, type Scenario, type ScenarioControls } from "../Scenario.ts"
import { holdFault } from "../../support/Pauses.ts"

/** Maximum outage, seconds: Patroni's ttl plus election, promotion and health checks. */
const maxFailoverSeconds = 35

const waitForNewPrimary = (old: DatabaseHost) =>
  Effect.gen(function* () {
    const { postgres } = yield* Cluster
    return yield* retryWithin(60)(
      Effect.filterOrFail(postgres.leader, (leader) =>
        leader !== old, () =>
        new FailedExpectation({ message: `${old} is still the primary.` })),
    )
  })

export const primaryKilled: Scenario = {
  name: "primary-killed",
  promise: "PostgreSQL is killed on the primary, and a standby takes over",
  isInShortRun: true,
  maxOutageSeconds: maxFailoverSeconds,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { numbers, postgres } = yield* Cluster
    const old = yield* postgres.leader
    process.kill(yield* postgres.postmaster(old), "SIGKILL")
    yield* numbers.next
    yield* clients.more(200)
    const now = yield* postgres.leader
    return { primary: `${old} → ${now}` }
  }),
}

/** Commits on the isolated server without waiting for a standby. Returns the outcome for the report. */
const commitOnIsolatedServer = Effect.fnUntraced(function* (member: DatabaseHost) {
  const { postgres, world } = yield* Cluster
  if (!world.isolated) return "not tried: the host is stopped"
  yield* postgres.psql(
    member,
    `set synchronous_commit = local; update screener set outstanding = ${forbiddenCounterValue} where ticker = '${counterTicker}'`,
  )
  return "accepted, and never served"
})

export const primaryLost: Scenario = {
  name: "primary-lost",
  promise: "The host of the primary is isolated. Commits on it are never served, and it returns as a standby",
  maxOutageSeconds: maxFailoverSeconds,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { numbers, postgres, well, world } = yield* Cluster
    const old = yield* postgres.leader
    yield* world.cut(old)
    const alone = yield* commitOnIsolatedServer(old)
    const now = yield* waitForNewPrimary(old)
    yield* numbers.next
    yield* clients.more(300)
    yield* world.reconnect(old)
    yield* retryWithin(90)(well())
    const found = Number(
      yield* postgres.psql(old, `select outstanding from screener where ticker = '${counterTicker}'`),
    )
    yield* failUnless(found < forbiddenCounterValue, `${old} kept the commit that it made while isolated: ${found}.`)
    return { primary: `${old} → ${now}`, "a write to the old one": alone }
  }),
}

export const switchover: Scenario = {
  name: "switchover",
  promise: "Patroni switches over to a standby in an orderly way",
  maxOutageSeconds: 15,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { numbers, postgres } = yield* Cluster
    const old = yield* postgres.leader
    const standby = (yield* postgres.seen).find(({ role }) => role === "sync_standby")?.name
    const response = yield* postgres.rest(
      old,
      "/switchover",
      "POST",
      JSON.stringify({ leader: old, candidate: standby }),
    )
    yield* failUnless(response.status === 200, `Patroni refused the switchover: ${response.text}`)
    yield* numbers.next
    yield* clients.more(200)
    return { primary: `${old} → ${standby}` }
  }),
}

const loseCommits = Effect.fnUntraced(function* ({ clients, allowCommitLoss: mayLose }: ScenarioControls) {
  const { asOwner, numbers, postgres, world } = yield* Cluster
  const old = yield* postgres.leader
  const standbys = databaseHosts.filter((member) => member !== old)
  mayLose()
  yield* numbers.mayLose
  yield* Effect.forEach(standbys, world.cut)
  // No standby receives the commits of the next 1.5 seconds.
  yield* holdFault("1500 millis")
  const last = numbers.last()
  yield* world.cut(old)
  yield* world.kill(old)
  yield* Effect.forEach(standbys, world.reconnect)
  const now = yield* waitForNewPrimary(old)
  const kept = yield* retryWithin(60)(
    asOwner(Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql<{ readonly n: number }>`select outstanding::int as n from screener where ticker = ${counterTicker}`,
    )),
  )
  yield* numbers.settled
  yield* clients.more(300)
  yield* world.reconnect(old)
  yield* postgres.startEtcd(old)
  yield* postgres.startPatroni(old)
  const first = kept[0]?.n ?? 0
  return { primary: `${old} → ${now}`, "last commit before": last, "first read after": first }
})

export const primaryLostAsynchronously: Scenario = {
  name: "primary-lost-asynchronous",
  promise: "Without synchronous replication the last commits may be lost, but are never served nor charged twice",
  maxOutageSeconds: maxFailoverSeconds,
  run: Effect.fnUntraced(function* (acting) {
    const { postgres, well } = yield* Cluster
    yield* postgres.configure({ synchronous_mode: false })
    yield* retryWithin(60)(well(false))
    const findings = yield* loseCommits(acting).pipe(
      Effect.tap(() => retryWithin(90)(well(false))),
      Effect.ensuring(Effect.ignore(postgres.configure({ synchronous_mode: true }))),
    )
    return findings
  }),
}
