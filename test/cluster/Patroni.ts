/** Starts a member of the database cluster: an etcd member, and PostgreSQL managed by Patroni. */
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { findPostgresPrograms } from "./DebianPackages.ts"
import { ClusterHosts, type HostName } from "./Hosts.ts"

/** The hosts that run PostgreSQL, Patroni and etcd. */
export const databaseHosts = ["db1", "db2", "db3"] as const satisfies ReadonlyArray<HostName>
/** A host that runs PostgreSQL. */
export type DatabaseHost = typeof databaseHosts[number]

/** Returns whether this is the name of a host that runs PostgreSQL. */
export const isDatabaseHost = (name: string): name is DatabaseHost => databaseHosts.some((member) => member === name)

/** Ports below the kernel's ephemeral port range. They must be free, because hosts may be loopback addresses. */
export const databasePorts = { postgres: 25432, patroni: 28008, etcd: 22379, peers: 22380 } as const

/** Passwords for the roles that Patroni uses. */
export const databasePasswords = {
  postgres: "postgres-secret",
  replicator: "replicator-secret",
  rewind: "rewind-secret",
} as const

/** Patroni's timing settings, as recommended in the operations guide. */
export const patroniTiming = { ttl: 20, loop_wait: 2, retry_timeout: 4 } as const

/** Starts the etcd member on a host. */
export const startEtcdMember = Effect.fnUntraced(function* (member: DatabaseHost) {
  const { addressOf, folderOf, start } = yield* ClusterHosts
  const own = addressOf(member)
  const cluster = databaseHosts.map((name) => `${name}=http://${addressOf(name)}:${databasePorts.peers}`).join(",")
  return yield* start({
    host: member,
    name: `etcd-${member}`,
    command: "etcd",
    asPostgres: true,
    isUrgent: true,
    args: [
      `--name=${member}`,
      `--data-dir=${folderOf(member)}/etcd`,
      `--initial-cluster=${cluster}`,
      `--listen-peer-urls=http://${own}:${databasePorts.peers}`,
      `--listen-client-urls=http://${own}:${databasePorts.etcd}`,
      `--initial-advertise-peer-urls=http://${own}:${databasePorts.peers}`,
      `--advertise-client-urls=http://${own}:${databasePorts.etcd}`,
      // The interval is long enough that on a busy machine etcd does not mistake a slow leader for a dead one.
      "--heartbeat-interval=250",
      "--election-timeout=2500",
      // Prevents a returning member from forcing an election.
      "--pre-vote",
      "--enable-v2",
    ],
  })
})

/** Starts Patroni on a host. Patroni then creates PostgreSQL or makes it follow the primary. */
export const startPatroniMember = Effect.fnUntraced(function* (member: DatabaseHost) {
  const { addressOf, folderOf, start } = yield* ClusterHosts
  const [own, folder] = [addressOf(member), folderOf(member)]
  const settings = {
    scope: "tickerline",
    name: member,
    restapi: { listen: `${own}:${databasePorts.patroni}`, connect_address: `${own}:${databasePorts.patroni}` },
    // Uses etcd's API version 2. With version 3, Patroni 3.0 may read outdated state and take the leader key without a
    // check, so a returning former primary could replace its successor.
    etcd: { hosts: databaseHosts.map((name) => `${addressOf(name)}:${databasePorts.etcd}`) },
    bootstrap: {
      dcs: {
        ...patroniTiming,
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
            // The maximum time by which a query on a standby may delay WAL replay.
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
      listen: `${own}:${databasePorts.postgres}`,
      connect_address: `${own}:${databasePorts.postgres}`,
      data_dir: `${folder}/data`,
      bin_dir: findPostgresPrograms(),
      pgpass: `${folder}/pgpass`,
      authentication: {
        superuser: { username: "postgres", password: databasePasswords.postgres },
        replication: { username: "replicator", password: databasePasswords.replicator },
        rewind: { username: "rewind", password: databasePasswords.rewind },
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
  // Patroni reads YAML. Every JSON document is valid YAML.
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
