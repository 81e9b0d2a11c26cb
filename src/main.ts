/** The command line. Results go to standard output, everything else to standard error; a command exits with 0 or 1. */
import { NodeCrypto, NodeRuntime, NodeServices } from "@effect/platform-node"
import {
  Cause,
  Config,
  Console,
  Duration,
  Effect,
  Exit,
  Layer,
  Logger,
  Option,
  Predicate,
  Ref,
  Schedule,
  Schema,
  SchemaIssue,
} from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import packageJson from "../package.json" with { type: "json" }
import * as Keys from "./account/Keys.ts"
import { document } from "./catalogue/OpenApi.ts"
import * as Connection from "./db/Connection.ts"
import * as Migrations from "./db/Migrations.ts"
import { datasets } from "./load/Datasets.ts"
import * as Load from "./load/Load.ts"
import { tiers } from "./policy/Access.ts"
import { Day } from "./policy/Dates.ts"
import * as Serve from "./Serve.ts"

/** The database, migrated; what every command but `openapi` works on. */
const database = Layer.effectDiscard(Migrations.run).pipe(Layer.provideMerge(Connection.layer("tickerline-command")))

const serve = Command.make("serve", {}, () => Serve.serve).pipe(
  Command.withDescription("Serve the API, with an embedded PostgreSQL unless DATABASE_URL names one"),
  Command.withExamples([{ command: "npm run tickerline -- serve", description: "Serve on HOST and PORT" }]),
  Command.provide(Connection.layer("tickerline")),
)

const migrate = Command.make(
  "migrate",
  {},
  Effect.fnUntraced(function* () {
    const applied = yield* Migrations.run
    yield* Console.log(applied.length === 0 ? "Up to date." : applied.map(([id, name]) => `${id}_${name}`).join("\n"))
  }),
).pipe(
  Command.withDescription("Apply the migrations that the database lacks, and print them"),
  Command.withExamples([{ command: "npm run tickerline -- migrate", description: "Bring the schema up to date" }]),
  Command.provide(Connection.layer("tickerline-command")),
)

/** On a terminal, a line that is written over; in a file it would be noise. */
const watched = <A, E, R>(work: Effect.Effect<A, E, R>, progress: Ref.Ref<number>) => {
  if (!process.stderr.isTTY) return work
  const show = Effect.flatMap(
    Ref.get(progress),
    (rows) => Effect.sync(() => process.stderr.write(`\r${rows.toLocaleString("en")} rows`)),
  )
  return Effect.raceFirst(work, Effect.flatMap(Effect.repeat(show, Schedule.spaced("200 millis")), () => Effect.never))
    .pipe(
      Effect.ensuring(Effect.sync(() => process.stderr.write("\r\u001b[K"))),
    )
}

const load = Command.make(
  "load",
  {
    dataset: Argument.String("dataset").pipe(
      Argument.withDescription(`One of ${datasets.map(({ table }) => table.replaceAll("_", "-")).join(", ")}`),
    ),
    file: Argument.String("file").pipe(Argument.withDescription("A .csv, .ndjson or .jsonl file; .gz too")),
    append: Flag.Boolean("append").pipe(
      Flag.withDescription("Add to the rows that are there instead of replacing them"),
    ),
  },
  Effect.fnUntraced(function* (options) {
    const progress = yield* Ref.make(0)
    const [taken, { dropped, rows, table }] = yield* Effect.timed(watched(Load.load(options, progress), progress))
    const repeats = dropped === 0 ? "" : `, ${dropped} repeated rows dropped`
    yield* Console.log(
      `${table}: ${rows} rows ${options.append ? "added" : "loaded"}${repeats}, in ${
        Duration.toSeconds(taken).toFixed(1)
      } s`,
    )
  }),
).pipe(
  Command.withDescription("Replace a dataset's rows with those of a file; a bad row refuses the whole file"),
  Command.withExamples([
    { command: "npm run tickerline -- load ticker-changes changes.csv", description: "Replace all symbol changes" },
    {
      command: "npm run tickerline -- load intraday-runners today.ndjson.gz --append",
      description: "Add today's sessions",
    },
  ]),
  Command.provide(database),
)

const createKey = Command.make(
  "create",
  {
    account: Flag.String("account").pipe(Flag.withDescription("Its name; the account is made where there is none")),
    tier: Flag.Literals("tier", tiers).pipe(Flag.withDescription("The account's tier from now on")),
    email: Flag.String("email").pipe(Flag.withDescription("Contact address of the account"), Flag.optional),
    expires: Flag.String("expires").pipe(
      Flag.withDescription("The last day on which the key works, YYYY-MM-DD"),
      Flag.withSchema(Day),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ account, email, expires, tier }) {
    const key = yield* Keys.create({
      account,
      tier,
      email: Option.getOrNull(email),
      expires: Option.getOrNull(expires),
    })
    yield* Console.log(key)
  }),
).pipe(
  Command.withDescription("Make a key and print it; it cannot be shown again"),
  Command.withExamples([{
    command: "npm run --silent tickerline -- keys create --account acme --tier pro --email ops@acme.example",
    description: "Prints the key alone on standard output",
  }]),
)

const listKeys = Command.make(
  "list",
  {},
  Effect.fnUntraced(function* () {
    const keys = yield* Keys.list
    const lines = keys.map((
      key,
    ) => [
      key.key_id,
      key.account,
      key.tier,
      key.key_hint,
      key.status,
      key.created,
      key.expires ?? "-",
      key.last_used ?? "-",
    ])
    const header = ["id", "account", "tier", "hint", "status", "created", "expires", "last used (UTC)"]
    yield* Console.log([header, ...lines].map((cells) => cells.join("\t")).join("\n"))
  }),
).pipe(
  Command.withDescription("List all keys, tab-separated"),
  Command.withExamples([{ command: "npm run --silent tickerline -- keys list", description: "Ids for revoke" }]),
)

const revokeKey = Command.make(
  "revoke",
  {
    id: Argument.Int("id").pipe(Argument.withDescription("The key's id, from keys list")),
  },
  Effect.fnUntraced(function* ({ id }) {
    yield* Keys.revoke(id)
    yield* Console.log(`Key ${id} is revoked.`)
  }),
).pipe(
  Command.withDescription("End a key; every instance notices within a second"),
  Command.withExamples([{ command: "npm run tickerline -- keys revoke 7", description: "End key 7" }]),
)

const keys = Command.make("keys").pipe(
  Command.withDescription("API keys"),
  Command.withExamples([{ command: "npm run tickerline -- keys list", description: "All keys" }]),
  Command.withSubcommands([createKey, listKeys, revokeKey]),
  Command.provide(database),
)

const openapi = Command.make("openapi", {}, () => Console.log(JSON.stringify(document, null, 2))).pipe(
  Command.withDescription("Print the OpenAPI 3.1 document"),
  Command.withExamples([{
    command: "npm run --silent tickerline -- openapi > openapi.json",
    description: "Write it to a file",
  }]),
)

const tickerline = Command.make("tickerline").pipe(
  Command.withDescription("Market-data API over PostgreSQL"),
  Command.withSubcommands([serve, migrate, load, keys, openapi]),
)

const Logs = Layer.unwrap(Effect.map(
  Config.Literals(["pretty", "json"], "LOG_FORMAT").pipe(Config.withDefault("pretty")),
  (format) => Logger.layer([format === "json" ? Logger.consoleJson : Logger.consolePretty()]),
)).pipe(Layer.merge(Layer.succeed(Logger.LogToStderr, true)))

const describe = SchemaIssue.makeFormatterStandardSchemaV1()

/** `PORT: Expected a string representing a finite number` */
const misconfigured = ({ cause, message }: Config.ConfigError) =>
  Schema.isSchemaError(cause)
    ? describe(cause.issue).issues.map((issue) => `${(issue.path ?? []).join("_")}: ${issue.message}`).join("; ")
    : message

/** One line for what a person can mend; the cause in full for what is our mistake. */
const explain = (cause: Cause.Cause<unknown>) => {
  const error = Cause.squash(cause)
  // The command line says itself what is wrong with its arguments.
  if (CliError.isCliError(error) || Cause.hasInterruptsOnly(cause)) return Effect.void
  if (error instanceof Config.ConfigError) return Console.error(`tickerline: configuration: ${misconfigured(error)}`)
  return Cause.hasDies(cause) || !Predicate.hasProperty(error, "message")
    ? Console.error(Cause.pretty(cause))
    : Console.error(`tickerline: ${error.message}`)
}

/** A service that is told to stop has done its work. */
const serving = process.argv[2] === "serve"

tickerline.pipe(
  Command.run({ version: packageJson.version }),
  Effect.provide(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer, Logs)),
  Effect.tapCause(explain),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      teardown: (exit, end) => end(Exit.isSuccess(exit) || (serving && Cause.hasInterruptsOnly(exit.cause)) ? 0 : 1),
    }),
)
