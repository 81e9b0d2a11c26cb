/** The command line: its commands, and a run of one, which reads and writes through `Stdio` and `Console` alone. */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { type Config, Console, Data, Effect, Layer, Option } from "effect"
import { Command } from "effect/cli"
import process from "node:process"
import packageJson from "../../package.json" with { type: "json" }
import * as Accounts from "./AccountsCommand.ts"
import * as Keys from "./KeysCommand.ts"
import { Base } from "../http/BaseUrl.ts"
import { endpoints } from "../catalogue/Endpoints.ts"
import { defaultServer, documentAt } from "../catalogue/OpenApi.ts"
import * as Completions from "./Completions.ts"
import * as Connection from "../db/Connection.ts"
import * as Database from "./MigrateCommand.ts"
import * as Doctor from "./doctor/DoctorCommand.ts"
import { warnOfMisspelt, wrongSettings } from "./doctor/SettingChecks.ts"
import { explain, presenter } from "./ErrorReport.ts"
import * as Load from "./LoadCommand.ts"
import { datasets } from "../load/Datasets.ts"
import * as Mail from "./AnnounceCommand.ts"
import * as Traces from "../observability/Tracing.ts"
import * as Logs from "./Logging.ts"
import * as Query from "./query/QueryCommand.ts"
import * as Samples from "./GenerateCommand.ts"
import * as Serve from "./ServeCommand.ts"
import { report } from "./SettingErrors.ts"

class InvalidSettings extends Data.TaggedError("InvalidSettings")<{ readonly message: string }> {}

/** The service reads all settings, so it reports all that are wrong before it starts anything. */
const validate = Effect.flatMap(
  wrongSettings,
  (wrong) => wrong.length === 0 ? Effect.void : Effect.fail(new InvalidSettings({ message: report(wrong) })),
)

const serve = (begun: Effect.Effect<void>) =>
  Command.make("serve", {}, () => Serve.serve).pipe(
    Command.withDescription("Serve the API, with an embedded PostgreSQL unless DATABASE_URL names one"),
    Command.withExamples([{ command: "npm run tickerline -- serve", description: "Serve on HOST and PORT" }]),
    Command.provide(
      Layer.merge(
        Layer.provide(Connection.serving("tickerline"), Layer.effectDiscard(begun)),
        Traces.exporter,
      ),
    ),
    Command.provideEffectDiscard(validate),
  )

const openapi = Command.make(
  "openapi",
  {},
  () =>
    Effect.flatMap(
      Base,
      (base) => Console.log(JSON.stringify(documentAt(Option.getOrElse(base, () => defaultServer)), null, 2)),
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
) => Command.provideEffectDiscard(command, Effect.suspend(() => warnOfMisspelt(process.env)))

const tickerline = (begun: Effect.Effect<void>) =>
  Command.make("tickerline").pipe(
    Command.withDescription("Market-data API over PostgreSQL"),
    Command.withSubcommands([
      serve(begun).pipe(warned),
      Database.migrate.pipe(warned),
      Database.grant.pipe(warned),
      Load.load.pipe(warned),
      Load.list.pipe(warned),
      Samples.command.pipe(warned),
      Accounts.command.pipe(warned),
      Keys.command(keyed).pipe(warned),
      Doctor.command(packageJson.version),
      Query.command(Serve.base, endpoints.map(({ row }) => row.path)).pipe(warned),
      Mail.announce.pipe(warned),
      Mail.announcements.pipe(warned),
      openapi.pipe(warned),
    ]),
  )

/** The paths that `query` takes, and the datasets, as people write them. */
const completions = Completions.layer({
  dataset: datasets.map(({ table }) => table.replaceAll("_", "-")),
  path: endpoints.map(({ row }) => row.path),
})

/** A command fails at the first setting that it cannot read; whoever corrects that wants to know of the others too. */
const withOthers = (error: Config.ConfigError) =>
  Effect.flatMap(
    wrongSettings,
    (wrong) => Effect.fail(wrong.length > 1 ? new InvalidSettings({ message: report(wrong) }) : error),
  )

/** What the arguments of `Stdio` say; a failure was explained on standard error. `begun` runs when `serve` sets out. */
export const run = (begun: Effect.Effect<void> = Effect.void) =>
  tickerline(begun).pipe(
    Command.run({ version: packageJson.version }),
    Effect.provide(Layer.mergeAll(NodeCrypto.layer, Logs.layer, presenter, completions)),
    Effect.catchTag("ConfigError", withOthers),
    Effect.tapCause(explain),
  )
