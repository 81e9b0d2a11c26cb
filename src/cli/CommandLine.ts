/** The command line: its commands, and a run of one, which reads and writes through `Stdio` and `Console` alone. */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { type Config, Console, Data, Effect, Layer, Option } from "effect"
import { Command } from "effect/cli"
import process from "node:process"
import packageJson from "../../package.json" with { type: "json" }
import * as Accounts from "./AccountsCommand.ts"
import * as Keys from "./KeysCommand.ts"
import { BaseUrlConfig } from "../http/BaseUrl.ts"
import { endpoints } from "../catalogue/Endpoints.ts"
import { defaultServerUrl, openApiDocumentFor } from "../catalogue/OpenApiDocument.ts"
import * as Completions from "./Completions.ts"
import * as Connection from "../db/Connection.ts"
import * as Database from "./MigrateCommand.ts"
import * as Doctor from "./doctor/DoctorCommand.ts"
import { invalidSettings, warnOfMisspeltSettings } from "./doctor/SettingChecks.ts"
import { helpPresenterLayer, reportFailure } from "./ErrorReport.ts"
import * as Load from "./LoadCommand.ts"
import { datasets } from "../load/Datasets.ts"
import * as Mail from "./AnnounceCommand.ts"
import * as Traces from "../observability/Tracing.ts"
import * as Logs from "./Logging.ts"
import * as Query from "./query/QueryCommand.ts"
import * as Samples from "./GenerateCommand.ts"
import * as Serve from "./ServeCommand.ts"
import { formatSettingProblems } from "./SettingErrors.ts"

class InvalidSettings extends Data.TaggedError("InvalidSettings")<{ readonly message: string }> {}

/** The service reads all settings, so it reports all that are wrong before it starts anything. */
const validate = Effect.flatMap(
  invalidSettings,
  (wrong) =>
    wrong.length === 0 ? Effect.void : Effect.fail(new InvalidSettings({ message: formatSettingProblems(wrong) })),
)

const serve = (begun: Effect.Effect<void>) =>
  Command.make("serve", {}, () => Serve.serveUntilInterrupted).pipe(
    Command.withDescription("Serve the API, with an embedded PostgreSQL unless DATABASE_URL names one"),
    Command.withExamples([{ command: "npm run tickerline -- serve", description: "Serve on HOST and PORT" }]),
    Command.provide(
      Layer.merge(
        Layer.provide(Connection.serverConnectionLayer("tickerline"), Layer.effectDiscard(begun)),
        Traces.exporterLayer,
      ),
    ),
    Command.provideEffectDiscard(validate),
  )

const openapi = Command.make(
  "openapi",
  {},
  () =>
    Effect.flatMap(
      BaseUrlConfig,
      (base) =>
        Console.log(JSON.stringify(openApiDocumentFor(Option.getOrElse(base, () => defaultServerUrl)), null, 2)),
    ),
).pipe(
  Command.withDescription("Print the OpenAPI 3.1 document; its server is BASE_URL"),
  Command.withExamples([{
    command: "npm run --silent tickerline -- openapi > openapi.json",
    description: "Write it to a file",
  }]),
)

const keyed = endpoints.filter(({ row }) => row.tier !== null).map(({ row }) => row.path)

/** Warns of misspelt settings first. The doctor reports them itself. */
const warned = <const Name extends string, Input, ContextInput, E, R>(
  command: Command.Command<Name, Input, ContextInput, E, R>,
) => Command.provideEffectDiscard(command, Effect.suspend(() => warnOfMisspeltSettings(process.env)))

const tickerline = (begun: Effect.Effect<void>) =>
  Command.make("tickerline").pipe(
    Command.withDescription("Market-data API over PostgreSQL"),
    Command.withSubcommands([
      serve(begun).pipe(warned),
      Database.migrateCommand.pipe(warned),
      Database.grantCommand.pipe(warned),
      Load.loadCommand.pipe(warned),
      Load.datasetsCommand.pipe(warned),
      Samples.generateCommand.pipe(warned),
      Accounts.accountsCommand.pipe(warned),
      Keys.makeKeysCommand(keyed).pipe(warned),
      Doctor.makeDoctorCommand(packageJson.version),
      Query.makeQueryCommand(Serve.apiBaseUrl, endpoints.map(({ row }) => row.path)).pipe(warned),
      Mail.announceCommand.pipe(warned),
      Mail.announcementsCommand.pipe(warned),
      openapi.pipe(warned),
    ]),
  )

/** The paths that `query` takes, and the datasets, as people write them. */
const completions = Completions.completionsLayer({
  dataset: datasets.map(({ table }) => table.replaceAll("_", "-")),
  path: endpoints.map(({ row }) => row.path),
})

/** A command fails at the first setting that it cannot read; whoever corrects that wants to know of the others too. */
const withOthers = (error: Config.ConfigError) =>
  Effect.flatMap(
    invalidSettings,
    (wrong) => Effect.fail(wrong.length > 1 ? new InvalidSettings({ message: formatSettingProblems(wrong) }) : error),
  )

/** What the arguments of `Stdio` say; a failure was explained on standard error. `begun` runs when `serve` sets out. */
export const runCommandLine = (begun: Effect.Effect<void> = Effect.void) =>
  tickerline(begun).pipe(
    Command.run({ version: packageJson.version }),
    Effect.provide(Layer.mergeAll(NodeCrypto.layer, Logs.loggingLayer, helpPresenterLayer, completions)),
    Effect.catchTag("ConfigError", withOthers),
    Effect.tapCause(reportFailure),
  )
