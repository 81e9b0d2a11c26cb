/** One member of the database's cluster: etcd, and PostgreSQL by Patroni. */
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { findPostgresPrograms } from "./DebianPackages.ts"
import { type Host, Hosts } from "./Hosts.ts"

export const databaseHosts = ["db1", "db2", "db3"] as const satisfies ReadonlyArray<Host>
export type DatabaseHost = typeof databaseHosts[number]

export const isDatabaseHost = (name: string): name is DatabaseHost => databaseHosts.some((member) => member === name)

/** Above what others on the machine use, below what the kernel gives away, for the hosts may be one. */
export const databasePorts = { postgres: 25432, patroni: 28008, etcd: 22379, peers: 22380 } as const

export const databasePasswords = {
  postgres: "postgres-secret",
  replicator: "replicator-secret",
  rewind: "rewind-secret",
} as const

/** What Patroni is told; the README of operators recommends the same. */
export const patroniTiming = { ttl: 20, loop_wait: 2, retry_timeout: 4 } as const

export const runEtcd = Effect.fnUntraced(function* (member: DatabaseHost) {
  const { addressOf, folderOf, start } = yield* Hosts
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
      // A busy machine is no dead leader.
      "--heartbeat-interval=250",
      "--election-timeout=2500",
      // A member that comes back leaves the leader of the others be.
      "--pre-vote",
      "--enable-v2",
    ],
  })
})

export const runPatroni = Effect.fnUntraced(function* (member: DatabaseHost) {
  const { addressOf, folderOf, start } = yield* Hosts
  const [own, folder] = [addressOf(member), folderOf(member)]
  const settings = {
    scope: "tickerline",
    name: member,
    restapi: { listen: `${own}:${databasePorts.patroni}`, connect_address: `${own}:${databasePorts.patroni}` },
    // By the API of version 2: by that of version 3 Patroni 3.0 reads what may be old, and takes the leader's key back by
    // a write that compares nothing, so a primary that was cut off and returns would displace the one that took over.
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
