/** The command `samples remove`: removes the fictional sample market, so that real data can replace it. */
import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { migratedDatabaseClientLayer } from "../db/ConnectionLayers.ts"
import { makeCommandExample } from "./CommandParts.ts"
import type { RemovedSamples } from "./FirstStart.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { formatCountWithNoun } from "./terminal/TerminalText.ts"

const formatRemoved = ({ changed, kept, removed, table }: RemovedSamples) =>
  `${table}: ${formatCountWithNoun(removed, "row")} removed, ${kept} kept` +
  (changed === 0 ? "" : `, ${changed} of them changed since the samples were loaded`)

const removeCommand = Command.make(
  "remove",
  {},
  Effect.fnUntraced(function* () {
    const { removeSampleMarket } = yield* Effect.promise(() => import("./FirstStart.ts"))
    const tables = yield* withProgressDisplay(removeSampleMarket).pipe(Effect.provide(migratedDatabaseClientLayer))
    for (const table of tables) yield* Console.log(formatRemoved(table))
  }),
).pipe(
  Command.withDescription(
    "Remove the rows of the fictional sample market that nobody has changed, from all tables or, on failure, from none",
  ),
  Command.withExamples([makeCommandExample("samples remove", "Make room for real data")]),
)

export const samplesCommand = Command.make("samples").pipe(
  Command.withDescription("Manage the fictional sample market"),
  Command.withSubcommands([removeCommand]),
)
