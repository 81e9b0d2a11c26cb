/** The command line. Results go to standard output, everything else to standard error; a command exits with 0 or 1. */
import { NodeCrypto, NodeRuntime, NodeServices } from "@effect/platform-node"
import { Cause, Config, Console, Effect, Exit, Layer, Logger, References } from "effect"
import { Command } from "effect/cli"
import packageJson from "../package.json" with { type: "json" }
import * as Accounts from "./account/AccountsCommand.ts"
import * as Keys from "./account/KeysCommand.ts"
import { endpoints } from "./catalogue/Endpoints.ts"
import { document } from "./catalogue/OpenApi.ts"
import * as Connection from "./db/Connection.ts"
import * as Database from "./db/Command.ts"
import { explain, presenter } from "./Explain.ts"
import * as Load from "./load/Command.ts"
import * as Mail from "./mail/Command.ts"
import * as Traces from "./observability/Traces.ts"
import * as Samples from "./samples/Command.ts"
import * as Serve from "./Serve.ts"

/** A service that is told to stop has done its work; any other command has not. */
let serving = false
const Serving = Layer.effectDiscard(Effect.sync(() => {
  serving = true
}))

const serve = Command.make("serve", {}, () => Serve.serve).pipe(
  Command.withDescription("Serve the API, with an embedded PostgreSQL unless DATABASE_URL names one"),
  Command.withExamples([{ command: "npm run tickerline -- serve", description: "Serve on HOST and PORT" }]),
  Command.provide(Layer.merge(Layer.provide(Connection.layer("tickerline"), Serving), Traces.exporter)),
)

const openapi = Command.make("openapi", {}, () => Console.log(JSON.stringify(document, null, 2))).pipe(
  Command.withDescription("Print the OpenAPI 3.1 document"),
  Command.withExamples([{
    command: "npm run --silent tickerline -- openapi > openapi.json",
    description: "Write it to a file",
  }]),
)

const keyed = endpoints.filter(({ row }) => row.tier !== null).map(({ row }) => row.path)

const tickerline = Command.make("tickerline").pipe(
  Command.withDescription("Market-data API over PostgreSQL"),
  Command.withSubcommands([
    serve,
    Database.migrate,
    Database.grant,
    Load.load,
    Load.list,
    Samples.command,
    Accounts.command,
    Keys.command(keyed),
    Mail.announce,
    Mail.announcements,
    openapi,
  ]),
)

const levels = { error: "Error", warning: "Warn", info: "Info", debug: "Debug" } as const

const LogLevel = Config.Literals(["error", "warning", "info", "debug"], "LOG_LEVEL").pipe(
  Config.withDefault("info"),
  Config.map((level) => levels[level]),
)

const Logs = Layer.unwrap(Effect.map(
  Config.Literals(["pretty", "json"], "LOG_FORMAT").pipe(Config.withDefault("pretty")),
  (format) => Logger.layer([format === "json" ? Logger.withConsoleError(Logger.formatJson) : Logger.consolePretty()]),
)).pipe(
  Layer.merge(Layer.succeed(Logger.LogToStderr, true)),
  Layer.merge(Layer.effect(References.MinimumLogLevel, LogLevel)),
)

tickerline.pipe(
  Command.run({ version: packageJson.version }),
  Effect.provide(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer, Logs, presenter)),
  Effect.tapCause(explain),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      teardown: (exit, end) => end(Exit.isSuccess(exit) || (serving && Cause.hasInterruptsOnly(exit.cause)) ? 0 : 1),
    }),
)
