/** The command line: its commands, and a run of one, which reads and writes through `Stdio` and `Console` alone. */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Console, Effect, Layer, Option } from "effect"
import { Command } from "effect/cli"
import packageJson from "../package.json" with { type: "json" }
import * as Accounts from "./account/AccountsCommand.ts"
import * as Keys from "./account/KeysCommand.ts"
import { Base } from "./Base.ts"
import { endpoints } from "./catalogue/Endpoints.ts"
import { defaultServer, documentAt } from "./catalogue/OpenApi.ts"
import * as Completions from "./Completions.ts"
import * as Connection from "./db/Connection.ts"
import * as Database from "./db/Command.ts"
import * as Doctor from "./doctor/Command.ts"
import { explain, presenter } from "./Explain.ts"
import * as Load from "./load/Command.ts"
import { datasets } from "./load/Datasets.ts"
import * as Mail from "./mail/Command.ts"
import * as Traces from "./observability/Traces.ts"
import * as Logs from "./Logs.ts"
import * as Query from "./query/Command.ts"
import * as Samples from "./samples/Command.ts"
import * as Serve from "./Serve.ts"

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

const tickerline = (begun: Effect.Effect<void>) =>
  Command.make("tickerline").pipe(
    Command.withDescription("Market-data API over PostgreSQL"),
    Command.withSubcommands([
      serve(begun),
      Database.migrate,
      Database.grant,
      Load.load,
      Load.list,
      Samples.command,
      Accounts.command,
      Keys.command(keyed),
      Doctor.command(packageJson.version),
      Query.command(Serve.base, endpoints.map(({ row }) => row.path)),
      Mail.announce,
      Mail.announcements,
      openapi,
    ]),
  )

/** The paths that `query` takes, and the datasets, as people write them. */
const completions = Completions.layer({
  dataset: datasets.map(({ table }) => table.replaceAll("_", "-")),
  path: endpoints.map(({ row }) => row.path),
})

/** What the arguments of `Stdio` say; a failure was explained on standard error. `begun` runs when `serve` sets out. */
export const run = (begun: Effect.Effect<void> = Effect.void) =>
  tickerline(begun).pipe(
    Command.run({ version: packageJson.version }),
    Effect.provide(Layer.mergeAll(NodeCrypto.layer, Logs.layer, presenter, completions)),
    Effect.tapCause(explain),
  )
