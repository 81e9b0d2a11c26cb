/** The `samples remove` command: removes the fictional sample market, so that real data can replace it. */
import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { makeBooleanFlag, withExamples } from "./CommandParts.ts"
import type { RemovedSamples } from "./FirstStart.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"

const formatRemoved = ({ changed, kept, removed, table }: RemovedSamples) =>
  `${table}: ${formatCountWithNoun(removed, "row")} removed, ${kept} kept` +
  (changed === 0 ? "" : `, ${changed} of them changed since the samples were loaded`)

const removeCommand = Command.make(
  "remove",
  { changed: makeBooleanFlag("changed", "Also remove sample rows that were changed since they were loaded") },
  Effect.fnUntraced(function* ({ changed: includesChanged }) {
    const { removeSampleMarket } = yield* Effect.promise(() => import("./FirstStart.ts"))
    const tables = yield* withProgressDisplay(removeSampleMarket(includesChanged)).pipe(
      Effect.provide(migratedDatabaseClientLayer),
    )
    for (const table of tables) yield* Console.log(formatRemoved(table))
    const left = tables.reduce((sum, { changed }) => sum + changed, 0)
    if (left > 0) {
      yield* Console.log(
        `${formatCountWithNoun(left, "sample row")} stay, because they were changed. To remove them, too, run: ` +
          "tickerline samples remove --changed",
      )
    }
  }),
).pipe(
  Command.withDescription(
    "Remove the rows of the fictional sample market that nobody has changed, from all tables or, on failure, from none",
  ),
  withExamples({ "samples remove": "Make room for real data" }),
)

/** `samples`: manages the sample market. */
export const samplesCommand = Command.make("samples").pipe(
  Command.withDescription("Manage the fictional sample market"),
  Command.withSubcommands([removeCommand]),
)
