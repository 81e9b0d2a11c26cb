/**
 * The `tickerline` command with all its subcommands. Input and output go only through `Stdio` and `Console`, so tests
 * can run the command in-process.
 */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { type Config, Console, Effect, Layer, Stdio } from "effect"
import { Command } from "effect/cli"
import process from "node:process"
import packageJson from "../../../package.json" with { type: "json" }
import { makeOpenApiDocument } from "../../api/catalogue/OpenApiDocument.ts"
import { adminCommand } from "./AdminCommand.ts"
import { auditCommand } from "./AuditCommand.ts"
import { serverDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { ProcessActor } from "../../postgres/SessionActor.ts"
import { traceExporterLayer } from "../../postgres/metrics/Tracing.ts"
import { accountsCommand } from "./AccountsCommand.ts"
import { announceCommand, announcementsCommand } from "./AnnouncementCommands.ts"
import { backupCommand, restoreCommand } from "./BackupCommands.ts"
import { shellCompletionsLayer } from "./ShellCompletions.ts"
import { doctorCommand } from "./doctor/DoctorCommand.ts"
import { helpPresenterLayer, reportCommandFailure } from "./ErrorReport.ts"
import { CommandFailed, withExamples, withPipeableExamples } from "./CommandParts.ts"
import { invoicesCommand } from "./InvoicesCommand.ts"
import { generateMarketCommand } from "./GenerateMarketCommand.ts"
import { keysCommand } from "./KeysCommand.ts"
import { lineageCommand } from "./LineageCommand.ts"
import { datasetsCommand, loadCommand } from "./DatasetCommands.ts"
import { ingestCommand } from "./IngestCommand.ts"
import { stderrLoggingLayer } from "./Logging.ts"
import { grantPrivilegesCommand, migrateCommand } from "./DatabaseCommands.ts"
import { mcpCommand } from "./McpCommand.ts"
import { changesCommand } from "./query/ChangesCommand.ts"
import { queryCommand } from "./query/QueryCommand.ts"
import { samplesCommand } from "./SampleMarketCommand.ts"
import { makeCommandActor } from "./CommandActor.ts"
import { secretFilesLayer } from "./SecretFiles.ts"
import { apiBaseUrl } from "./ServeSettings.ts"
import { findInvalidSettings, formatSettingProblems, secretNames, warnOfMisspelledSettings } from "./Settings.ts"
import { undoLoadCommand } from "./UndoLoadCommand.ts"
import { usageCommand } from "./UsageCommand.ts"
import { webhooksCommand } from "./WebhooksCommand.ts"

/**
 * Fails with a list of all invalid settings, before anything is started. `serve` needs this because the service uses
 * every setting.
 */
const validateSettings = Effect.flatMap(
  findInvalidSettings,
  (invalid) =>
    invalid.length === 0 ? Effect.void : Effect.fail(new CommandFailed({ message: formatSettingProblems(invalid) })),
)

/** Loads the server only for `serve`, so that other commands start faster. */
const serveModule = Effect.promise(() => import("./ServeCommand.ts"))
const serve = Effect.flatMap(serveModule, ({ serveUntilInterrupted }) => serveUntilInterrupted)

/** Fails if `serve` could not start. Runs before a database is created or started. */
const checkBeforeServe = Effect.andThen(
  validateSettings,
  Effect.flatMap(serveModule, ({ requireFreePorts }) => requireFreePorts),
)

const makeServeCommand = (onServe: Effect.Effect<void>) =>
  Command.make("serve", {}, () => serve).pipe(
    Command.withDescription("Serve the API, with an embedded PostgreSQL unless DATABASE_URL is set"),
    withExamples({ "serve": "Serve on HOST and PORT" }),
    Command.provide(
      Layer.merge(
        Layer.provide(serverDatabaseClientLayer("tickerline"), Layer.effectDiscard(onServe)),
        traceExporterLayer,
      ),
    ),
    Command.provideEffectDiscard(checkBeforeServe),
  )

const openapiCommand = Command.make(
  "openapi",
  {},
  () => Effect.flatMap(apiBaseUrl, (baseUrl) => Console.log(JSON.stringify(makeOpenApiDocument(baseUrl), null, 2))),
).pipe(
  Command.withDescription("Print the OpenAPI 3.1 document, with the address of the service as its server"),
  withPipeableExamples({ "openapi > openapi.json": "Write the document to a file" }),
)

/** Warns about misspelled settings before the command runs. */
const withWarnings = <const Name extends string, Input, ContextInput, E, R>(
  command: Command.Command<Name, Input, ContextInput, E, R>,
) => Command.provideEffectDiscard(command, Effect.suspend(() => warnOfMisspelledSettings(process.env)))

/**
 * Creates the `tickerline` command with all its subcommands, in the order in which the help lists them. `withWarnings`
 * makes a subcommand warn about misspelled settings before it runs. `onServe` runs before `serve` starts.
 */
export const makeTickerlineCommand = (onServe: Effect.Effect<void>) =>
  Command.make("tickerline").pipe(
    Command.withDescription("Market-data API over PostgreSQL"),
    Command.withSubcommands([
      makeServeCommand(onServe).pipe(withWarnings),
      migrateCommand.pipe(withWarnings),
      grantPrivilegesCommand.pipe(withWarnings),
      backupCommand.pipe(withWarnings),
      restoreCommand.pipe(withWarnings),
      loadCommand.pipe(withWarnings),
      undoLoadCommand.pipe(withWarnings),
      datasetsCommand.pipe(withWarnings),
      ingestCommand.pipe(withWarnings),
      lineageCommand.pipe(withWarnings),
      generateMarketCommand.pipe(withWarnings),
      samplesCommand.pipe(withWarnings),
      accountsCommand.pipe(withWarnings),
      keysCommand.pipe(withWarnings),
      invoicesCommand.pipe(withWarnings),
      usageCommand.pipe(withWarnings),
      adminCommand.pipe(withWarnings),
      auditCommand.pipe(withWarnings),
      webhooksCommand.pipe(withWarnings),
      // `doctor` does not print these warnings, because its findings already include misspelled settings.
      doctorCommand,
      queryCommand.pipe(withWarnings),
      changesCommand.pipe(withWarnings),
      mcpCommand.pipe(withWarnings),
      announceCommand.pipe(withWarnings),
      announcementsCommand.pipe(withWarnings),
      openapiCommand.pipe(withWarnings),
    ]),
  )

/** Reports all invalid settings together. The command itself stopped at the first invalid setting that it read. */
const reportAllInvalidSettings = (error: Config.ConfigError) =>
  Effect.flatMap(
    findInvalidSettings,
    (invalid) =>
      Effect.fail(invalid.length > 1 ? new CommandFailed({ message: formatSettingProblems(invalid) }) : error),
  )

/**
 * Joins a flag with the negative value after it, such as `-1 hours`. Otherwise the parser would treat the letters as
 * short flags, and would treat `-h` as a request for help.
 */
const joinNegativeValues = (args: ReadonlyArray<string>) => {
  const operands = args.indexOf("--")
  return args.flatMap((arg, index) => {
    if (operands !== -1 && index >= operands) return [arg]
    const isNegative = (text = "") => /^-\d/.test(text)
    const isFlag = (text = "") => /^--[^=]+$/.test(text)
    if (isNegative(arg) && isFlag(args[index - 1])) return []
    const next = args[index + 1]
    return isFlag(arg) && isNegative(next) ? [`${arg}=${next}`] : [arg]
  })
}

/** Runs the `tickerline` command with the arguments from `Stdio`. */
export const runCommandLine = (onServe: Effect.Effect<void> = Effect.void) => {
  const command = makeTickerlineCommand(onServe)
  return Command.run(command, { version: packageJson.version }).pipe(
    Effect.updateService(Stdio.Stdio, (stdio) => ({ ...stdio, args: Effect.map(stdio.args, joinNegativeValues) })),
    Effect.provideServiceEffect(ProcessActor, makeCommandActor(command)),
    Effect.provide(Layer.mergeAll(NodeCrypto.layer, stderrLoggingLayer, helpPresenterLayer, shellCompletionsLayer)),
    Effect.catchTag("ConfigError", reportAllInvalidSettings),
    Effect.tapCause(reportCommandFailure),
    Effect.provide(secretFilesLayer(secretNames)),
  )
}
