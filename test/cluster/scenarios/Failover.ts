/** Scenarios in which the primary is killed, isolated or replaced. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Cluster, retryWithin } from "../Cluster.ts"
import { counterTicker, forbiddenCounterValue } from "../CommitCounter.ts"
import { type DatabaseHost, databaseHosts } from "../Patroni.ts"
import { FailedExpectation, failUnless, type Scenario, type ScenarioControls } from "../Scenario.ts"
import { holdFault } from "../../support/Pauses.ts"

/** The maximum outage in seconds: Patroni's ttl plus the time for election, promotion and health checks. */
const maxFailoverSeconds = 35

/** Waits until a host other than `old` is the primary. Returns the new primary. */
const waitForNewPrimary = (old: DatabaseHost) =>
  Effect.gen(function* () {
    const { postgres } = yield* Cluster
    return yield* retryWithin(60)(
      Effect.filterOrFail(postgres.leader, (leader) =>
        leader !== old, () =>
        new FailedExpectation({ message: `${old} is still the primary.` })),
    )
  })

/** PostgreSQL is killed on the primary, but its host stays up. */
export const primaryKilled: Scenario = {
  name: "primary-killed",
  promise: "PostgreSQL is killed on the primary, and a standby takes over",
  isInShortRun: true,
  maxOutageSeconds: maxFailoverSeconds,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { counter, postgres } = yield* Cluster
    const old = yield* postgres.leader
    process.kill(yield* postgres.readPostmasterId(old), "SIGKILL")
    yield* counter.nextCommit
    yield* clients.more(200)
    const now = yield* postgres.leader
    return { primary: `${old} → ${now}` }
  }),
}

/** Commits on an isolated server without waiting for a standby. Returns the outcome for the report. */
const commitOnIsolatedServer = Effect.fnUntraced(function* (member: DatabaseHost) {
  const { hosts, postgres } = yield* Cluster
  if (!hosts.isolated) return "not tried: the host is stopped"
  yield* postgres.psql(
    member,
    `set synchronous_commit = local; update screener set outstanding = ${forbiddenCounterValue} where ticker = '${counterTicker}'`,
  )
  return "accepted, and never served"
})

/** With synchronous replication, the primary's host is isolated. */
export const primaryLost: Scenario = {
  name: "primary-lost",
  promise: "The host of the primary is isolated. Commits on it are never served, and it returns as a standby",
  maxOutageSeconds: maxFailoverSeconds,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { checkHealth, counter, hosts, postgres } = yield* Cluster
    const old = yield* postgres.leader
    yield* hosts.cut(old)
    const isolatedWrite = yield* commitOnIsolatedServer(old)
    const now = yield* waitForNewPrimary(old)
    yield* counter.nextCommit
    yield* clients.more(300)
    yield* hosts.reconnect(old)
    yield* retryWithin(90)(checkHealth())
    const found = Number(
      yield* postgres.psql(old, `select outstanding from screener where ticker = '${counterTicker}'`),
    )
    yield* failUnless(found < forbiddenCounterValue, `${old} kept the commit that it made while isolated: ${found}.`)
    return { primary: `${old} → ${now}`, "a write to the old one": isolatedWrite }
  }),
}

/** An operator switches over to a standby. */
export const switchover: Scenario = {
  name: "switchover",
  promise: "Patroni switches over to a standby in an orderly way",
  maxOutageSeconds: 15,
  run: Effect.fnUntraced(function* ({ clients }) {
    const { counter, postgres } = yield* Cluster
    const old = yield* postgres.leader
    const standby = (yield* postgres.members).find(({ role }) => role === "sync_standby")?.name
    const response = yield* postgres.requestPatroni(
      old,
      "/switchover",
      "POST",
      JSON.stringify({ leader: old, candidate: standby }),
    )
    yield* failUnless(response.status === 200, `Patroni refused the switchover: ${response.text}`)
    yield* counter.nextCommit
    yield* clients.more(200)
    return { primary: `${old} → ${standby}` }
  }),
}

/** Makes the primary commit transactions that no standby receives, then kills it so that a standby takes over. */
const loseCommits = Effect.fnUntraced(function* ({ clients, allowCommitLoss }: ScenarioControls) {
  const { asOwner, counter, hosts, postgres } = yield* Cluster
  const old = yield* postgres.leader
  const standbys = databaseHosts.filter((member) => member !== old)
  allowCommitLoss()
  yield* counter.allowLoss
  yield* Effect.forEach(standbys, hosts.cut)
  // No standby receives the commits made in the next 1.5 seconds.
  yield* holdFault("1500 millis")
  const last = counter.getLast()
  yield* hosts.cut(old)
  yield* hosts.kill(old)
  yield* Effect.forEach(standbys, hosts.reconnect)
  const now = yield* waitForNewPrimary(old)
  const kept = yield* retryWithin(60)(
    asOwner(Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql<{ readonly n: number }>`select outstanding::int as n from screener where ticker = ${counterTicker}`,
    )),
  )
  yield* counter.resumeCheck
  yield* clients.more(300)
  yield* hosts.reconnect(old)
  yield* postgres.startEtcd(old)
  yield* postgres.startPatroni(old)
  const first = kept[0]?.n ?? 0
  return { primary: `${old} → ${now}`, "last commit before": last, "first read after": first }
})

/** With asynchronous replication, the primary's host dies. */
export const primaryLostAsynchronously: Scenario = {
  name: "primary-lost-asynchronous",
  promise:
    "Without synchronous replication, the last commits may be lost, but they are never served and never charged twice",
  maxOutageSeconds: maxFailoverSeconds,
  run: Effect.fnUntraced(function* (controls) {
    const { checkHealth, postgres } = yield* Cluster
    yield* postgres.configure({ synchronous_mode: false })
    yield* retryWithin(60)(checkHealth(false))
    const findings = yield* loseCommits(controls).pipe(
      Effect.tap(() => retryWithin(90)(checkHealth(false))),
      Effect.ensuring(Effect.ignore(postgres.configure({ synchronous_mode: true }))),
    )
    return findings
  }),
}
