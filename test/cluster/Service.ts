/** The service's processes, as their operators start them: one a host, with all that they share. */
import { Effect, Schedule } from "effect"
import * as Mail from "../support/Mail.ts"
import { type Member, members, ports as databasePorts } from "./Patroni.ts"
import { type App, pgbouncer, ports, roles } from "./Surroundings.ts"
import { ask, NoAnswer } from "./Wire.ts"
import { type Program, World } from "./World.ts"

export const database = "tickerline"

/** To the primary, whoever that is, past every pooler. */
export const direct = (balancer: string, role: keyof typeof roles) =>
  `postgres://${role}:${roles[role]}@${balancer}:${ports.primary}/${database}`

/** Both ways are tried, beside each other. */
const isPooled = (app: App) => app !== "app2"

const urlOf = (address: string, name: string = database) =>
  `postgres://tickerline_service:${roles.tickerline_service}@${address}/${name}`

export const make = Effect.gen(function* () {
  const world = yield* World
  const { addressOf } = world
  const mail = yield* Mail.server(0, addressOf("clients"))
  const poolers = new Map<App, Program>()
  const running = new Map<App, Program>()

  const waysOf = (app: App): Record<string, string> => {
    const itself = direct(addressOf("lb"), "tickerline_service")
    const at = `${addressOf(app)}:${ports.pooler}`
    return isPooled(app)
      ? {
        DATABASE_URL: urlOf(at),
        DATABASE_DIRECT_URL: itself,
        DATABASE_READ_URLS: members.map((member) => urlOf(at, `${database}_${member}`)).join(" "),
      }
      : {
        DATABASE_URL: itself,
        DATABASE_READ_URLS: members.map((member) => urlOf(`${addressOf(member)}:${databasePorts.postgres}`)).join(" "),
      }
  }

  const environment = (app: App): Record<string, string> => ({
    HOST: addressOf(app),
    PORT: String(ports.service),
    BASE_URL: `http://${addressOf("lb")}:${ports.http}`,
    ...waysOf(app),
    REDIS_URL: `redis://${addressOf("redis")}:${ports.redis}`,
    TRUSTED_PROXIES: addressOf("lb"),
    RATE_LIMIT_PRO: "100000000",
    RATE_LIMIT_ULTIMATE: "100000000",
    METRICS_HOST: addressOf(app),
    METRICS_PORT: String(ports.metrics),
    SHUTDOWN_DELAY: "3 seconds",
    SMTP_URL: `smtp://${addressOf("clients")}:${mail.port}`,
    MAIL_FROM: "Tickerline <notices@tickerline.example>",
    MAIL_PER_MINUTE: "600",
    MAIL_RETRY_AFTER: "100 millis",
    NODE_OPTIONS: "--max-semi-space-size=16",
    NODE_COMPILE_CACHE: `${world.folder}/compiled`,
  })

  const startPooler = (app: App) =>
    Effect.map(Effect.provideService(pgbouncer(app), World, world), (program) => {
      poolers.set(app, program)
      return program
    })

  // As an init system does: PgBouncer 1.18 is known to end by itself where a client that cancels goes away meanwhile.
  const revive = Effect.suspend(() =>
    Effect.forEach(Array.from(poolers), ([app, { isRunning }]) => isRunning() ? Effect.void : startPooler(app))
  )
  yield* Effect.forkScoped(Effect.repeat(revive, Schedule.spaced("500 millis")))

  const get = (app: App, path: string, port: number = ports.service) =>
    ask({ host: addressOf(app), port, path, timeout: 5_000 })

  const isReady = (app: App) =>
    get(app, "/health/ready").pipe(
      Effect.filterOrFail(({ status }) => status === 200, ({ text }) => new NoAnswer({ message: `${app}: ${text}` })),
    )

  const ready = (app: App) =>
    isReady(app).pipe(
      Effect.retry({
        schedule: Schedule.spaced("100 millis"),
        times: 600,
        while: () => running.get(app)?.isRunning() === true,
      }),
    )

  /** Serves when this is done. */
  const start = Effect.fnUntraced(function* (app: App, more: Readonly<Record<string, string>> = {}) {
    if (isPooled(app) && poolers.get(app)?.isRunning() !== true) yield* startPooler(app)
    const program = yield* world.start({
      host: app,
      name: app,
      command: process.execPath,
      args: ["src/main.ts", "serve"],
      env: { ...environment(app), ...more },
    })
    running.set(app, program)
    yield* ready(app)
    return program
  })

  const measure = (app: App, name: string, labelled: (line: string) => boolean = () => true) =>
    Effect.map(
      get(app, "/metrics", ports.metrics),
      ({ text }) =>
        text.split("\n").filter((line) =>
          line.startsWith(name) && /^[{ ]/.test(line.slice(name.length)) && labelled(line)
        ).reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0),
    )

  /** How many reads all processes sent to the replica, by whichever way. */
  const readsOf = (member: Member) => {
    const [pooled, straight] = [`/${database}_${member}"`, `"${addressOf(member)}:`]
    const reads = Array.from(
      running.keys(),
      (app) =>
        measure(app, "tickerline_replica_reads_total", (line) => line.includes(pooled) || line.includes(straight)),
    )
    return Effect.map(Effect.all(reads), (all) => all.reduce((sum, count) => sum + count, 0))
  }

  /** A command of the owner's. */
  const command = (args: ReadonlyArray<string>) =>
    world.run({
      host: "app1",
      command: process.execPath,
      args: ["src/main.ts", ...args],
      env: {
        DATABASE_URL: direct(addressOf("lb"), "owner"),
        BASE_URL: `http://${addressOf("lb")}:${ports.http}`,
        NODE_COMPILE_CACHE: `${world.folder}/compiled`,
      },
    })

  return { mail, start, poolers, running, get, ready, isReady, measure, readsOf, command }
})
