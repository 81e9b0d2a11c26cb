/**
 * Starts a primary and two standbys managed by Patroni. Each host also runs an etcd member, so any one host may fail.
 */
import { Data, Effect, Schema } from "effect"
import { readFileSync } from "node:fs"
import { findPostgresPrograms } from "./DebianPackages.ts"
import { type DatabaseHost, databaseHosts, databasePorts, startEtcdMember, startPatroniMember } from "./Patroni.ts"
import { requestWithTimeout } from "./RequestWithTimeout.ts"
import { ClusterHosts, type HostProgram } from "./Hosts.ts"

const Cluster = Schema.fromJsonString(Schema.Struct({
  members: Schema.Array(Schema.Struct({
    name: Schema.String,
    role: Schema.String,
    state: Schema.String,
    timeline: Schema.optionalKey(Schema.Number),
  })),
}))

/** PostgreSQL or a member of the database cluster is not in the expected state. */
export class UnhealthyDatabase extends Data.TaggedError("UnhealthyDatabase")<{ readonly message: string }> {}

/** Starts the database cluster. Returns functions with which scenarios can break and inspect it. */
export const startDatabaseCluster = Effect.gen(function* () {
  const hosts = yield* ClusterHosts
  const etcdMembers = new Map<DatabaseHost, HostProgram>()
  const startEtcd = (member: DatabaseHost) =>
    Effect.map(
      Effect.provideService(startEtcdMember(member), ClusterHosts, hosts),
      (program) => void etcdMembers.set(member, program),
    )
  const startPatroni = (member: DatabaseHost) =>
    Effect.asVoid(Effect.provideService(startPatroniMember(member), ClusterHosts, hosts))
  yield* Effect.forEach(databaseHosts, startEtcd)
  yield* Effect.forEach(databaseHosts, startPatroni)

  /** Sends a request to Patroni's REST API on a host. */
  const requestPatroni = (
    member: DatabaseHost,
    path: string,
    method: "GET" | "POST" | "PATCH" = "GET",
    body?: string,
  ) =>
    requestWithTimeout({
      host: hosts.addressOf(member),
      port: databasePorts.patroni,
      path,
      method,
      timeout: 10_000,
      ...(body === undefined ? {} : { body, headers: { "Content-Type": "application/json" } }),
    })

  /** Finds the primary's host, according to Patroni's health check. */
  const leader = Effect.gen(function* () {
    for (const member of databaseHosts) {
      const response = yield* Effect.option(Effect.timeout(requestPatroni(member, "/primary"), "1 second"))
      if (response._tag === "Some" && response.value.status === 200) return member
    }
    return yield* new UnhealthyDatabase({ message: "There is no primary." })
  })

  /** Reads the cluster members from the current primary, because an isolated former primary may report an old state. */
  const members = Effect.gen(function* () {
    const { text } = yield* requestPatroni(yield* leader, "/cluster")
    return (yield* Schema.decodeEffect(Cluster)(text)).members
  })

  /** Runs SQL directly on a host, bypassing proxies. */
  const psql = (member: DatabaseHost, statement: string, database = "tickerline") =>
    hosts.run({
      host: member,
      command: `${findPostgresPrograms()}/psql`,
      asPostgres: true,
      args: [
        "-h",
        hosts.folderOf(member),
        "-p",
        String(databasePorts.postgres),
        "-U",
        "postgres",
        "-d",
        database,
        "-XAtc",
        statement,
      ],
    })

  /**
   * Checks that there is one leader with two standbys on its timeline. If requested, also checks that one standby is
   * synchronous.
   */
  const checkHealth = (synchronous: boolean) =>
    Effect.gen(function* () {
      const found = yield* members
      const leaders = found.filter(({ role, state }) => role === "leader" && state === "running")
      const following = found.filter(({ role, state, timeline }) =>
        role !== "leader" && ["running", "streaming"].includes(state) && timeline === leaders[0]?.timeline
      )
      const synchronousCount = found.filter(({ role }) => role === "sync_standby").length
      if (leaders.length === 1 && following.length === 2 && synchronousCount === (synchronous ? 1 : 0)) {
        const streaming = "select count(*) from pg_stat_replication where state = 'streaming'"
        if (Number(yield* psql(yield* leader, streaming, "postgres")) === 2) return
      }
      return yield* new UnhealthyDatabase({ message: `The database cluster is incomplete: ${JSON.stringify(found)}` })
    })

  /** Changes the settings that Patroni stores for the whole cluster. */
  const configure = (changes: object) => requestPatroni("db1", "/config", "PATCH", JSON.stringify(changes))

  /** Returns the process id of the PostgreSQL postmaster on a host. */
  const readPostmasterId = (member: DatabaseHost) =>
    Effect.try({
      try: () => Number(readFileSync(`${hosts.folderOf(member)}/data/postmaster.pid`, "utf8").split("\n")[0]),
      catch: () => new UnhealthyDatabase({ message: `PostgreSQL does not run on ${member}.` }),
    })

  const url = (member: DatabaseHost, user: string, password: string, database = "tickerline") =>
    `postgres://${user}:${password}@${hosts.addressOf(member)}:${databasePorts.postgres}/${database}`

  return {
    etcdMembers,
    startEtcd,
    startPatroni,
    requestPatroni,
    members,
    leader,
    checkHealth,
    configure,
    psql,
    readPostmasterId,
    url,
  }
})
