/** One primary and two standbys by Patroni, each host with a member of etcd, so that a host may go and a majority stays. */
import { Data, Effect, Schema } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { binariesOf } from "./Packages.ts"
import { ask, NoAnswer } from "./Wire.ts"
import { type Host, World } from "./World.ts"

export const members = ["db1", "db2", "db3"] as const satisfies ReadonlyArray<Host>
export type Member = typeof members[number]

export const isMember = (name: string): name is Member => members.some((member) => member === name)

/** Above what others on the machine use, below what the kernel gives away, for the hosts may be one. */
export const ports = { postgres: 25432, patroni: 28008, etcd: 22379, peers: 22380 } as const

export const passwords = {
  postgres: "postgres-secret",
  replicator: "replicator-secret",
  rewind: "rewind-secret",
} as const

/** What Patroni is told; the README of operators recommends the same. */
export const timing = { ttl: 20, loop_wait: 2, retry_timeout: 4 } as const

const Cluster = Schema.fromJsonString(Schema.Struct({
  members: Schema.Array(Schema.Struct({
    name: Schema.String,
    role: Schema.String,
    state: Schema.String,
    timeline: Schema.optionalKey(Schema.Number),
  })),
}))

export class NotWell extends Data.TaggedError("NotWell")<{ readonly message: string }> {}

const etcd = Effect.fnUntraced(function* (member: Member) {
  const { addressOf, folderOf, start } = yield* World
  const own = addressOf(member)
  const cluster = members.map((name) => `${name}=http://${addressOf(name)}:${ports.peers}`).join(",")
  return yield* start({
    host: member,
    name: `etcd-${member}`,
    command: "etcd",
    asPostgres: true,
    isUrgent: true,
    // A busy machine is no dead leader.
    args: [
      ...["--name", member, "--data-dir", `${folderOf(member)}/etcd`, "--initial-cluster", cluster],
      ...["--listen-peer-urls", `http://${own}:${ports.peers}`, "--listen-client-urls", `http://${own}:${ports.etcd}`],
      ...["--initial-advertise-peer-urls", `http://${own}:${ports.peers}`],
      ...["--advertise-client-urls", `http://${own}:${ports.etcd}`],
      ...["--heartbeat-interval", "250", "--election-timeout", "2500"],
    ],
  })
})

const patroni = Effect.fnUntraced(function* (member: Member) {
  const { addressOf, folderOf, start } = yield* World
  const [own, folder] = [addressOf(member), folderOf(member)]
  const settings = {
    scope: "tickerline",
    name: member,
    restapi: { listen: `${own}:${ports.patroni}`, connect_address: `${own}:${ports.patroni}` },
    etcd3: { hosts: members.map((name) => `${addressOf(name)}:${ports.etcd}`) },
    bootstrap: {
      dcs: {
        ...timing,
        maximum_lag_on_failover: 1_048_576,
        synchronous_mode: true,
        failsafe_mode: true,
        primary_start_timeout: 0,
        postgresql: {
          use_pg_rewind: true,
          use_slots: true,
          parameters: {
            max_connections: 200,
            shared_buffers: "64MB",
            wal_keep_size: "256MB",
            hot_standby_feedback: "on",
            // How long a query of a standby keeps the changes of the primary from it.
            max_standby_streaming_delay: "500ms",
            tcp_keepalives_idle: 5,
            tcp_keepalives_interval: 1,
            tcp_keepalives_count: 5,
            wal_sender_timeout: "5s",
            wal_receiver_timeout: "5s",
          },
        },
      },
      initdb: [{ encoding: "UTF8" }, { locale: "C.UTF-8" }, "data-checksums"],
    },
    postgresql: {
      listen: `${own}:${ports.postgres}`,
      connect_address: `${own}:${ports.postgres}`,
      data_dir: `${folder}/data`,
      bin_dir: binariesOf(),
      pgpass: `${folder}/pgpass`,
      authentication: {
        superuser: { username: "postgres", password: passwords.postgres },
        replication: { username: "replicator", password: passwords.replicator },
        rewind: { username: "rewind", password: passwords.rewind },
      },
      parameters: { unix_socket_directories: folder, log_line_prefix: "%m [%p] %a " },
      pg_hba: [
        "local all all trust",
        "host all all 0.0.0.0/0 scram-sha-256",
        "host replication replicator 0.0.0.0/0 scram-sha-256",
      ],
    },
    watchdog: { mode: "off" },
  }
  // JSON is YAML.
  writeFileSync(`${folder}/patroni.yml`, JSON.stringify(settings, null, 2))
  return yield* start({
    host: member,
    name: `patroni-${member}`,
    command: "patroni",
    args: [`${folder}/patroni.yml`],
    asPostgres: true,
    isUrgent: true,
  })
})

export const make = Effect.gen(function* () {
  const world = yield* World
  const startEtcd = (member: Member) => Effect.provideService(etcd(member), World, world)
  const startPatroni = (member: Member) => Effect.provideService(patroni(member), World, world)
  const stores = new Map(
    yield* Effect.forEach(members, (name) => Effect.map(startEtcd(name), (it) => [name, it] as const)),
  )
  const agents = new Map(
    yield* Effect.forEach(members, (name) => Effect.map(startPatroni(name), (it) => [name, it] as const)),
  )

  const rest = (member: Member, path: string, method: "GET" | "POST" | "PATCH" = "GET", body?: string) =>
    ask({
      host: world.addressOf(member),
      port: ports.patroni,
      path,
      method,
      timeout: 10_000,
      ...(body === undefined ? {} : { body, headers: { "Content-Type": "application/json" } }),
    })

  /** What one of them says of all; one that does not answer is passed over. */
  const seen = Effect.gen(function* () {
    for (const member of members) {
      const answer = yield* Effect.option(Effect.timeout(rest(member, "/cluster"), "2 seconds"))
      if (answer._tag === "None" || answer.value.status !== 200) continue
      const { members: found } = yield* Schema.decodeEffect(Cluster)(answer.value.text)
      return found
    }
    return yield* new NotWell({ message: "No member of the database's cluster answers." })
  })

  /** Whether PostgreSQL itself says that it takes writes; Patroni's word may be some seconds old. */
  const leader = Effect.gen(function* () {
    for (const member of members) {
      const answer = yield* Effect.option(Effect.timeout(rest(member, "/primary"), "1 second"))
      if (answer._tag === "Some" && answer.value.status === 200) return member
    }
    return yield* new NotWell({ message: "There is no primary." })
  })

  /** One leader, and two that follow it on its timeline; where commits wait, for one of them. */
  const well = (synchronous: boolean) =>
    Effect.gen(function* () {
      const found = yield* seen
      const leaders = found.filter(({ role, state }) => role === "leader" && state === "running")
      const following = found.filter(({ role, state, timeline }) =>
        role !== "leader" && ["running", "streaming"].includes(state) && timeline === leaders[0]?.timeline
      )
      const waiting = found.filter(({ role }) => role === "sync_standby").length
      if (leaders.length === 1 && following.length === 2 && waiting === (synchronous ? 1 : 0)) return
      return yield* new NotWell({ message: `The database's cluster is not whole: ${JSON.stringify(found)}` })
    })

  const configure = (changes: object) => rest("db1", "/config", "PATCH", JSON.stringify(changes))

  /** SQL in the host itself, past all that stands before it. */
  const psql = (member: Member, statement: string) =>
    world.run({
      host: member,
      command: `${binariesOf()}/psql`,
      asPostgres: true,
      args: [
        "-h",
        world.folderOf(member),
        "-p",
        String(ports.postgres),
        "-U",
        "postgres",
        "-d",
        "tickerline",
        "-XAtc",
        statement,
      ],
    })

  const postmaster = (member: Member) =>
    Effect.try({
      try: () => Number(readFileSync(`${world.folderOf(member)}/data/postmaster.pid`, "utf8").split("\n")[0]),
      catch: () => new NotWell({ message: `PostgreSQL does not run on ${member}.` }),
    })

  const url = (member: Member, user: string, password: string, database = "tickerline") =>
    `postgres://${user}:${password}@${world.addressOf(member)}:${ports.postgres}/${database}`

  return { stores, agents, startEtcd, startPatroni, rest, seen, leader, well, configure, psql, postmaster, url }
})

export type Postgres = Effect.Success<typeof make>
export { NoAnswer }
