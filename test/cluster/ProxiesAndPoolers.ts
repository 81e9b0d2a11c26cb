/** Starts HAProxy in front of the service and the primary, and one PgBouncer for each pooled service process. */
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { databaseHosts, databasePorts } from "./Patroni.ts"
import { ClusterHosts, type HostName } from "./Hosts.ts"

/** The hosts that run service processes. */
export const appHosts = ["app1", "app2", "app3"] as const satisfies ReadonlyArray<HostName>
/** The name of a host that runs a service process. */
export type AppHost = typeof appHosts[number]

/** Ports of the load balancer (`http` and `primary`), the service, its metrics, and PgBouncer. */
export const servicePorts = {
  http: 28000,
  primary: 25000,
  service: 28080,
  metrics: 29464,
  pooler: 26432,
} as const

/** Passwords for the role that owns the tables and the role that the service uses. */
export const databaseRolePasswords = { owner: "owner-secret", tickerline_service: "service-secret" } as const

const lines = (...all: ReadonlyArray<string>) => `${all.join("\n")}\n`

/**
 * Starts the load balancer. If the database is down, no process is ready. Requests then go to a second backend that
 * contains all live processes, so clients get the service's error responses instead of HAProxy's.
 */
export const startHaproxy = Effect.gen(function* () {
  const { addressOf, folderOf, start } = yield* ClusterHosts
  const backend = (name: string, path: string) => [
    `backend ${name}`,
    "  mode http",
    "  balance roundrobin",
    `  option httpchk GET ${path}`,
    "  option redispatch 1",
    "  retry-on conn-failure",
    "  retries 3",
    "  http-response set-header X-Served-By %s",
    "  default-server check inter 500ms fall 3 rise 1",
    ...appHosts.map((app) => `  server ${app} ${addressOf(app)}:${servicePorts.service}`),
  ]
  const file = `${folderOf("lb")}/haproxy.cfg`
  writeFileSync(
    file,
    lines(
      "global",
      "  log stdout format raw local0 notice",
      "  maxconn 4000",
      "defaults",
      "  log global",
      "  timeout connect 1s",
      // The timeout is long enough that on a busy machine HAProxy does not mistake a slow server for a dead one.
      "  timeout check 3s",
      "  timeout client 1h",
      "  timeout server 1h",
      "  timeout queue 5s",
      "frontend http",
      "  mode http",
      "  option forwardfor",
      `  bind ${addressOf("lb")}:${servicePorts.http}`,
      "  use_backend ready if { nbsrv(ready) gt 0 }",
      "  default_backend alive",
      ...backend("ready", "/health/ready"),
      ...backend("alive", "/health/live"),
      "frontend postgres",
      "  mode tcp",
      `  bind ${addressOf("lb")}:${servicePorts.primary}`,
      "  default_backend primary",
      "backend primary",
      "  mode tcp",
      "  option httpchk GET /primary",
      "  http-check expect status 200",
      "  default-server check inter 500ms fall 3 rise 1 on-marked-down shutdown-sessions",
      ...databaseHosts.map((member) =>
        `  server ${member} ${addressOf(member)}:${databasePorts.postgres} port ${databasePorts.patroni}`
      ),
    ),
  )
  return yield* start({ host: "lb", name: "haproxy", command: "haproxy", args: ["-db", "-f", file] })
})

/** Starts PgBouncer on the host of a service process. */
export const startHostPgBouncer = Effect.fnUntraced(function* (app: AppHost) {
  const { addressOf, folderOf, start } = yield* ClusterHosts
  const folder = folderOf(app)
  writeFileSync(
    `${folder}/users.txt`,
    lines(...Object.entries(databaseRolePasswords).map(([role, password]) => `"${role}" "${password}"`)),
  )
  writeFileSync(
    `${folder}/pgbouncer.ini`,
    lines(
      "[databases]",
      `tickerline = host=${addressOf("lb")} port=${servicePorts.primary} dbname=tickerline`,
      ...databaseHosts.map((member) =>
        `tickerline_${member} = host=${addressOf(member)} port=${databasePorts.postgres} dbname=tickerline`
      ),
      "[pgbouncer]",
      `listen_addr = ${addressOf(app)}`,
      `listen_port = ${servicePorts.pooler}`,
      "unix_socket_dir =",
      "auth_type = scram-sha-256",
      `auth_file = ${folder}/users.txt`,
      "pool_mode = transaction",
      "default_pool_size = 20",
      "server_login_retry = 1",
      "query_wait_timeout = 10",
      "server_connect_timeout = 3",
    ),
  )
  return yield* start({
    host: app,
    name: `pgbouncer-${app}`,
    command: "pgbouncer",
    args: [`${folder}/pgbouncer.ini`],
    asPostgres: true,
  })
})
