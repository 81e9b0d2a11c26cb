/** Starts one service process per host, with the settings that an operator would use. */
import { Effect, Schedule } from "effect"
import * as MailServer from "../support/MailServer.ts"
import { type DatabaseHost, databaseHosts, databasePorts } from "./Patroni.ts"
import { type AppHost, databaseRolePasswords, servicePorts, startHostPgBouncer } from "./ProxiesAndPoolers.ts"
import { NoResponse, requestWithTimeout } from "./RequestWithTimeout.ts"
import { ClusterHosts, type HostProgram } from "./Hosts.ts"

/** The name of the service's database. */
export const databaseName = "tickerline"

/** Returns the URL of the current primary, without a pooler. */
export const makePrimaryUrl = (balancer: string, role: keyof typeof databaseRolePasswords) =>
  `postgres://${role}:${databaseRolePasswords[role]}@${balancer}:${servicePorts.primary}/${databaseName}`

/** Returns whether a process connects through a pooler. One of the processes connects directly. */
const isPooled = (app: AppHost) => app !== "app2"

const urlOf = (address: string, name: string = databaseName) =>
  `postgres://tickerline_service:${databaseRolePasswords.tickerline_service}@${address}/${name}`

/** Prepares the service processes and their poolers. Returns functions that start and observe them. */
export const makeServiceProcesses = Effect.gen(function* () {
  const hosts = yield* ClusterHosts
  const { addressOf } = hosts
  const mail = yield* MailServer.startMailServer(0, addressOf("clients"))
  const poolers = new Map<AppHost, HostProgram>()
  const running = new Map<AppHost, HostProgram>()

  const databaseSettings = (app: AppHost): Record<string, string> => {
    const primary = makePrimaryUrl(addressOf("lb"), "tickerline_service")
    const at = `${addressOf(app)}:${servicePorts.pooler}`
    return isPooled(app)
      ? {
        DATABASE_URL: urlOf(at),
        DATABASE_DIRECT_URL: primary,
        DATABASE_READ_URLS: databaseHosts.map((member) => urlOf(at, `${databaseName}_${member}`)).join(" "),
      }
      : {
        DATABASE_URL: primary,
        DATABASE_READ_URLS: databaseHosts.map((member) => urlOf(`${addressOf(member)}:${databasePorts.postgres}`)).join(
          " ",
        ),
      }
  }

  const environment = (app: AppHost): Record<string, string> => ({
    HOST: addressOf(app),
    PORT: String(servicePorts.service),
    BASE_URL: `http://${addressOf("lb")}:${servicePorts.http}`,
    ...databaseSettings(app),
    TRUSTED_PROXIES: addressOf("lb"),
    RATE_LIMIT_PRO: "100000000",
    RATE_LIMIT_ULTIMATE: "100000000",
    METRICS_HOST: addressOf(app),
    METRICS_PORT: String(servicePorts.metrics),
    SHUTDOWN_DELAY: "3 seconds",
    SMTP_URL: `smtp://${addressOf("clients")}:${mail.port}`,
    MAIL_FROM: "Tickerline <notices@tickerline.example>",
    MAIL_PER_MINUTE: "600",
    MAIL_RETRY_AFTER: "100 millis",
    NODE_OPTIONS: "--max-semi-space-size=16",
    NODE_COMPILE_CACHE: `${hosts.folder}/compiled`,
  })

  const startPooler = (app: AppHost) =>
    Effect.map(Effect.provideService(startHostPgBouncer(app), ClusterHosts, hosts), (program) => {
      poolers.set(app, program)
      return program
    })

  // Restarts PgBouncer, as an init system would. Version 1.18 may crash if a client disconnects while canceling a
  // query.
  const keepRunning = Effect.suspend(() =>
    Effect.forEach(Array.from(poolers), ([app, { isRunning }]) => isRunning() ? Effect.void : startPooler(app))
  )
  yield* Effect.forkScoped(Effect.repeat(keepRunning, Schedule.spaced("500 millis")))

  const get = (app: AppHost, path: string, port: number = servicePorts.service) =>
    requestWithTimeout({ host: addressOf(app), port, path, timeout: 5_000 })

  /** Fails if the process is not ready. */
  const checkReady = (app: AppHost) =>
    get(app, "/health/ready").pipe(
      Effect.filterOrFail(({ status }) => status === 200, ({ text }) => new NoResponse({ message: `${app}: ${text}` })),
    )

  const waitUntilReady = (app: AppHost) =>
    checkReady(app).pipe(
      Effect.retry({
        schedule: Schedule.spaced("100 millis"),
        times: 600,
        while: () => running.get(app)?.isRunning() === true,
      }),
    )

  /** Starts a process and waits until it is ready. */
  const start = Effect.fnUntraced(function* (app: AppHost, more: Readonly<Record<string, string>> = {}) {
    if (isPooled(app) && poolers.get(app)?.isRunning() !== true) yield* startPooler(app)
    const program = yield* hosts.start({
      host: app,
      name: app,
      command: process.execPath,
      args: ["src/main.ts", "serve"],
      env: { ...environment(app), ...more },
    })
    running.set(app, program)
    yield* waitUntilReady(app)
    return program
  })

  /** Returns the sum of a process's metric over all samples that `labelled` accepts. */
  const readMetric = (app: AppHost, name: string, labelled: (line: string) => boolean = () => true) =>
    Effect.map(
      get(app, "/metrics", servicePorts.metrics),
      ({ text }) =>
        text.split("\n").filter((line) =>
          line.startsWith(name) && /^[{ ]/.test(line.slice(name.length)) && labelled(line)
        ).reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0),
    )

  /** Counts the reads that all processes sent to one replica, directly or through a pooler. */
  const readsOf = (member: DatabaseHost) => {
    const [pooled, direct] = [`/${databaseName}_${member}"`, `"${addressOf(member)}:`]
    const reads = Array.from(
      running.keys(),
      (app) =>
        readMetric(app, "tickerline_replica_reads_total", (line) => line.includes(pooled) || line.includes(direct)),
    )
    return Effect.map(Effect.all(reads), (all) => all.reduce((sum, count) => sum + count, 0))
  }

  /** Runs a `tickerline` command, such as `load`, as the table owner. */
  const command = (args: ReadonlyArray<string>) =>
    hosts.run({
      host: "app1",
      command: process.execPath,
      args: ["src/main.ts", ...args],
      env: {
        DATABASE_URL: makePrimaryUrl(addressOf("lb"), "owner"),
        BASE_URL: `http://${addressOf("lb")}:${servicePorts.http}`,
        NODE_COMPILE_CACHE: `${hosts.folder}/compiled`,
      },
    })

  return { mail, start, poolers, running, get, checkReady, readMetric, readsOf, command }
})
