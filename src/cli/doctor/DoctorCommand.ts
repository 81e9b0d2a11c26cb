/** `doctor` on the command line: what keeps the service from working well, and what to do about it. */
import { Console, Duration, Effect, Option, Redacted, Result, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import process from "node:process"
import { ReplicaUrls } from "../../db/replicas/ReadRouter.ts"
import { DatabaseUrl, DirectUrl } from "../../db/pool/Session.ts"
import { type Screen, stdoutScreen } from "../terminal/Screen.ts"
import { escapeLine } from "../terminal/Text.ts"
import * as Database from "./DatabaseChecks.ts"
import { type DoctorCheck, failed, type Finding, type FindingState, passed, runCheck } from "./Finding.ts"
import { checkEmbeddedDatabase } from "./EmbeddedChecks.ts"
import { checkPort } from "./PortCheck.ts"
import { checkClock, checkFiles, checkMemory, checkRuntime, checkZones } from "./MachineChecks.ts"
import { checkReplicas } from "./ReplicaChecks.ts"
import * as DatabaseSchema from "./SchemaChecks.ts"
import { checkClientAddress, checkSettings } from "./SettingChecks.ts"

interface Section {
  readonly section: string
  readonly findings: ReadonlyArray<Finding>
}

const check = <E, R>(name: string, look: DoctorCheck<E, R>["effect"]) => runCheck({ name, effect: look })

const together = <R>(section: string, checks: ReadonlyArray<Effect.Effect<ReadonlyArray<Finding>, never, R>>) =>
  Effect.map(
    Effect.all(checks, { concurrency: "unbounded" }),
    (found): Section => ({ section, findings: found.flat() }),
  )

const machine = together("machine", [
  check("runtime", checkRuntime),
  check("clock", checkClock),
  check("time zones", checkZones),
  check("memory", checkMemory),
  check("open files", checkFiles),
])

const service = together("service", [
  check("settings", Effect.suspend(() => checkSettings(process.env))),
  check("port", checkPort),
  check("clients", checkClientAddress),
])

/** All over one connection; without it, that is what there is to say. */
const asked = (url: Redacted.Redacted, embedded: boolean) =>
  Effect.gen(function* () {
    const first = yield* check("connection", Database.checkServer(url))
    if (first.some(({ check }) => check === "connection")) return first
    const others = [
      check("clocks", Database.checkClocks),
      check("connections", Database.checkConnections),
      check("migrations", DatabaseSchema.checkMigrations),
    ]
    const inside = (yield* Effect.orElseSucceed(DatabaseSchema.isMigrated, () => false))
      ? [
        check("role", DatabaseSchema.checkRole(embedded)),
        check("triggers", DatabaseSchema.checkTriggers),
        check("indexes", DatabaseSchema.checkIndexes),
        check("rules", DatabaseSchema.checkConstraints),
        check("datasets", DatabaseSchema.checkDatasetRows),
      ]
      : []
    return [...first, ...(yield* Effect.all([...others, ...inside])).flat()]
  }).pipe(Effect.provide(Database.readOnlyConnection(url)))

const database = Effect.gen(function* () {
  const url = yield* DatabaseUrl
  if (Option.isSome(url)) {
    const direct = yield* DirectUrl
    const way = yield* Effect.result(Database.checkPooler(url.value, direct))
    const named = passed("database", Option.isSome(direct) ? "that of DATABASE_DIRECT_URL" : "that of DATABASE_URL")
    if (Result.isSuccess(way)) {
      const itself = Option.getOrElse(direct, () => url.value)
      const found = yield* asked(itself, false)
      const replicas = yield* check("replicas", Effect.flatMap(ReplicaUrls, (named) => checkReplicas(itself, named)))
      return [named, way.success, ...found, ...replicas]
    }
    // Who cannot be reached at all is told by the check that asks for that.
    if (way.failure._tag !== "DatabaseUrlError") return yield* Effect.fail(way.failure)
    return [named, failed("pooler", way.failure.message, "The service would not start; README, poolers, tells more.")]
  }
  const { findings, url: running } = yield* checkEmbeddedDatabase
  return [...findings, ...(Option.isSome(running) ? yield* asked(running.value, true) : [])]
})

/** Each check is a line here; they neither start, change nor wait for anything. */
const sections = Effect.all([
  machine,
  service,
  together("database", [
    runCheck({
      name: "connection",
      // Each of its own checks is bounded too.
      timeout: Duration.seconds(60),
      advice: "Start PostgreSQL, or set DATABASE_URL right: postgres://user:password@host:port/database.",
      effect: database,
    }),
  ]),
], { concurrency: "unbounded" })

const marks = {
  ok: { sign: "✓", ascii: "ok", style: "green" },
  warning: { sign: "!", ascii: "!", style: "yellow" },
  failed: { sign: "✗", ascii: "x", style: "red" },
  skipped: { sign: "-", ascii: "-", style: "dim" },
} as const

const lines = ({ advice, check, found, state }: Finding, { paint, unicode }: Screen) => {
  const { ascii, sign, style } = marks[state]
  const mark = unicode ? sign : ascii.padEnd(2)
  return [
    `  ${paint(style, mark)} ${check}: ${escapeLine(found)}`,
    ...(advice === undefined ? [] : [`    ${unicode ? "→" : "->"} ${escapeLine(advice)}`]),
  ]
}

const counted = (found: ReadonlyArray<Finding>, state: FindingState) =>
  found.filter((one) => one.state === state).length

class Unwell extends Schema.TaggedError<Unwell>()("Unwell", { message: Schema.String }) {}

export const makeDoctorCommand = (version: string) =>
  Command.make(
    "doctor",
    { json: Flag.Boolean("json").pipe(Flag.withDescription("For programs"), Flag.withDefault(false)) },
    Effect.fnUntraced(function* ({ json }) {
      const found = yield* sections
      const all = found.flatMap(({ findings }) => findings)
      const [bad, doubtful] = [counted(all, "failed"), counted(all, "warning")]
      if (json) {
        const checks = found.flatMap(({ findings, section }) => findings.map((one) => ({ section, ...one })))
        yield* Console.log(JSON.stringify({ version, ok: bad === 0, failed: bad, warnings: doubtful, checks }, null, 2))
      } else {
        const screen = yield* stdoutScreen
        for (const { findings, section } of found) {
          yield* Console.log(
            [screen.paint("bold", section), ...findings.flatMap((one) => lines(one, screen))].join("\n"),
          )
        }
        yield* Console.log(bad + doubtful === 0 ? "All is well." : `${bad} failed, ${doubtful} to look at.`)
      }
      if (bad > 0) return yield* new Unwell({ message: `doctor: ${bad} of ${all.length} checks failed.` })
    }),
  ).pipe(
    Command.withDescription(
      "Check settings, machine, database, rights and clocks, and say what to do; changes nothing",
    ),
    Command.withExamples([
      {
        command: "npm run --silent tickerline -- doctor",
        description: "A checklist; exits with 1 where a check failed",
      },
      { command: "npm run --silent tickerline -- doctor --json", description: "The same for programs" },
    ]),
    Command.provide(FetchHttpClient.layer),
  )
