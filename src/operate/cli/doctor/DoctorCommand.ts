/** The `doctor` command: checks the installation without changing anything, and explains how to correct problems. */
import { Console, Duration, Effect, Option, Redacted, Result } from "effect"
import { Command } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import process from "node:process"
import packageJson from "../../../../package.json" with { type: "json" }
import { DatabaseUrlConfig, DirectDatabaseUrlConfig } from "../../../postgres/pool/ConnectionSettings.ts"
import { ReplicaUrlsConfig } from "../../../postgres/replicas/ReadRouter.ts"
import { CommandFailed, makeBooleanFlag, withPipeableExamples } from "../CommandParts.ts"
import { findSecretFile } from "../Settings.ts"
import { type OutputCapabilities, stdoutCapabilities } from "../terminal/OutputCapabilities.ts"
import { formatCountWithNoun } from "../../../contract/rules/CountWithNoun.ts"
import { escapeTerminalLine } from "../terminal/TerminalText.ts"
import * as Database from "./DatabaseChecks.ts"
import { checkEmbeddedDatabase } from "./EmbeddedDatabaseChecks.ts"
import * as Finding from "./DoctorFinding.ts"
import { checkMemory, checkOpenFileLimit, checkRuntime, checkSystemClock, checkTimeZones } from "./MachineChecks.ts"
import * as SchemaChecks from "./SchemaChecks.ts"
import { checkAddressSettings, checkPort, checkSettings, checkTrustedProxies } from "./SettingsChecks.ts"

interface Section {
  readonly section: string
  readonly findings: ReadonlyArray<Finding.DoctorFinding>
}

/** Runs a check. If the check itself fails, the failure becomes a finding with the name of the check as its label. */
const check = <E, R>(
  name: string,
  effect: Effect.Effect<Finding.CheckResult | ReadonlyArray<Finding.CheckResult>, E, R>,
) => Finding.runDoctorCheck({ name, effect })

const makeSection = <R>(
  section: string,
  checks: ReadonlyArray<Effect.Effect<ReadonlyArray<Finding.DoctorFinding>, never, R>>,
) =>
  Effect.map(
    Effect.all(checks, { concurrency: "unbounded" }),
    (findings): Section => ({ section, findings: findings.flat() }),
  )

const machine = makeSection("machine", [
  check("runtime", checkRuntime),
  check("clock", checkSystemClock),
  check("time zones", checkTimeZones),
  check("memory", checkMemory),
  check("open files", checkOpenFileLimit),
])

const service = makeSection("service", [
  check("settings", Effect.suspend(() => checkSettings(process.env))),
  check("port", checkPort),
  check("clients", checkAddressSettings),
  check("proxies", checkTrustedProxies),
])

/**
 * Runs all database checks over one connection, and returns their findings. `check` runs one of them by name, and turns
 * its failure into a finding. If the connection fails, that is the only finding. If the database does not contain this
 * release's schema, the checks that need its tables are left out.
 */
const checkDatabaseAt = (url: Redacted.Redacted, isEmbedded: boolean) =>
  Effect.gen(function* () {
    const server = yield* check("connection", Database.checkDatabaseServer(url))
    // Findings about a working connection have other labels. One with this label means that the check itself failed.
    if (server.some(({ check }) => check === "connection")) return server
    const checks = [
      check("clocks", Database.checkDatabaseClock),
      check("connections", Database.checkConnectionLimit),
      check("migrations", SchemaChecks.checkMigrations),
    ]
    const schemaChecks = (yield* Effect.orElseSucceed(SchemaChecks.isDatabaseMigrated, () => false))
      ? [
        check("role", SchemaChecks.checkRolePrivileges(isEmbedded)),
        check("schema", SchemaChecks.checkSchema),
        check("rules", SchemaChecks.checkConstraints),
        check("datasets", Database.checkDatasetRows),
        check("ingest", Database.checkIngest),
        check("erasures", Database.checkErasures),
      ]
      : []
    return [...server, ...(yield* Effect.all([...checks, ...schemaChecks])).flat()]
  }).pipe(Effect.provide(Database.doctorConnectionLayer(url)))

/**
 * Locates the database and runs the database checks. Without `DATABASE_URL`, it is the embedded database, which is
 * checked further only if it is running. For any other database, a connection pooler may be in front of PostgreSQL, so
 * the checks run over the direct connection (`DATABASE_DIRECT_URL`), if that is set. If the check of the pooler fails,
 * the service could not start, and no further checks run.
 */
const database = Effect.gen(function* () {
  const url = yield* DatabaseUrlConfig
  if (Option.isNone(url)) {
    const { findings, url: running } = yield* checkEmbeddedDatabase
    return [...findings, ...(Option.isSome(running) ? yield* checkDatabaseAt(running.value, true) : [])]
  }
  const directUrl = yield* DirectDatabaseUrlConfig
  const setting = Option.isSome(directUrl) ? "DATABASE_DIRECT_URL" : "DATABASE_URL"
  const file = Option.match(yield* findSecretFile(setting), { onNone: () => "", onSome: (path) => ` (in ${path})` })
  const source = Finding.passed(`from ${setting}${file}`, "database")
  const pooler = yield* Effect.result(Database.checkPooler(url.value, directUrl))
  if (Result.isFailure(pooler)) {
    // Any other error means that the server is unreachable. The `connection` check reports that.
    if (pooler.failure._tag !== "DatabaseUrlError") return yield* Effect.fail(pooler.failure)
    const advice = "The service would not start. See docs/operations/poolers.md."
    return [source, Finding.failed(pooler.failure.message, advice, "pooler")]
  }
  const primary = Option.getOrElse(directUrl, () => url.value)
  const findings = yield* checkDatabaseAt(primary, false)
  const replicas = yield* check(
    "replicas",
    Effect.flatMap(ReplicaUrlsConfig, (urls) => Database.checkReplicas(primary, urls)),
  )
  return [source, pooler.success, ...findings, ...replicas]
})

const sections = Effect.all([
  machine,
  service,
  makeSection("database", [
    Finding.runDoctorCheck({
      name: "connection",
      // The limit for all database checks together. Each check also has its own shorter timeout.
      timeout: Duration.seconds(60),
      advice: "Start PostgreSQL, or correct DATABASE_URL: postgres://user:password@host:port/database",
      effect: database,
    }),
  ]),
], { concurrency: "unbounded" })

const marks = {
  ok: { unicode: "✓", ascii: "ok", style: "green" },
  warning: { unicode: "!", ascii: "!", style: "yellow" },
  failed: { unicode: "✗", ascii: "x", style: "red" },
  skipped: { unicode: "-", ascii: "-", style: "dim" },
} as const

const formatFinding = (
  { advice, check, found, state }: Finding.DoctorFinding,
  { paint, hasUnicode: unicode }: OutputCapabilities,
) => {
  const mark = unicode ? marks[state].unicode : marks[state].ascii.padEnd(2)
  return [
    `  ${paint(marks[state].style, mark)} ${check}: ${escapeTerminalLine(found)}`,
    ...(advice === undefined ? [] : [`    ${unicode ? "→" : "->"} ${escapeTerminalLine(advice)}`]),
  ]
}

const countState = (findings: ReadonlyArray<Finding.DoctorFinding>, state: Finding.DoctorFindingState) =>
  findings.filter((finding) => finding.state === state).length

/** `doctor`: checks the installation. */
export const doctorCommand = Command.make(
  "doctor",
  { json: makeBooleanFlag("json", "Print JSON for programs") },
  Effect.fnUntraced(function* ({ json }) {
    const report = yield* sections
    const all = report.flatMap(({ findings }) => findings)
    const [failures, warnings] = [countState(all, "failed"), countState(all, "warning")]
    if (json) {
      const checks = report.flatMap(({ findings, section }) => findings.map((finding) => ({ section, ...finding })))
      const { version } = packageJson
      yield* Console.log(JSON.stringify({ version, ok: failures === 0, failed: failures, warnings, checks }, null, 2))
    } else {
      const screen = yield* stdoutCapabilities
      for (const { findings, section } of report) {
        const lines = findings.flatMap((finding) => formatFinding(finding, screen))
        yield* Console.log([screen.paint("bold", section), ...lines].join("\n"))
      }
      yield* Console.log(
        failures + warnings === 0
          ? "No problems found."
          : `${failures} failed, ${formatCountWithNoun(warnings, "warning")}.`,
      )
    }
    if (failures > 0) {
      return yield* new CommandFailed({ message: `doctor: ${failures} of ${all.length} checks failed.` })
    }
  }),
).pipe(
  Command.withDescription(
    "Check settings, machine, database, privileges and clocks, explain how to correct problems, and change nothing",
  ),
  withPipeableExamples({
    "doctor": "Print a checklist, and exit with 1 if a check fails",
    "doctor --json": "Print the checklist as JSON",
  }),
  Command.provide(FetchHttpClient.layer),
)
