/**
 * The `undo-load` command: restores a dataset's rows to their state at an earlier timestamp, after showing what would
 * change.
 */
import { Console, Effect, Option, Schema, Stdio } from "effect"
import { Command, Flag, type Prompt } from "effect/cli"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { listRecentChanges, undoLoad, type UndoPreview } from "../../ingest/load/UndoLoad.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { CommandFailed, makeBooleanFlag, makeFlag, withExamples } from "./CommandParts.ts"
import { datasetFlag } from "./DatasetCommands.ts"
import { confirmOnTerminal } from "./terminal/Confirmation.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { escapeTerminalLine } from "./terminal/TerminalText.ts"

const formatChange = (verb: string, count: number, keys: ReadonlyArray<string>) =>
  `  ${formatCountWithNoun(count, "row")} ${verb}` +
  (count === 0 ? "" : `: ${keys.map(escapeTerminalLine).join(", ")}${count > keys.length ? ", …" : ""}`)

const formatPreview = ({ counts, examples, moment, table }: UndoPreview) =>
  [
    `${table}, to its rows at ${moment}:`,
    formatChange("added again", counts.added, examples.added),
    formatChange("changed back", counts.updated, examples.updated),
    formatChange("removed", counts.removed, examples.removed),
    `  ${formatCountWithNoun(counts.unchanged, "row")} unchanged`,
  ].join("\n")

const maxListedChanges = 10

/** Lists recent changes. Each is shown with the value of `--to` that undoes it. */
const printRecentChanges = Effect.fnUntraced(function* (dataset: string) {
  const changes = yield* listRecentChanges(dataset, maxListedChanges)
  if (changes.length === 0) return yield* Console.log(`The history has no change of ${dataset}.`)
  yield* Console.log(`The last changes of ${dataset}, each with the moment before it:`)
  for (const { added, before, corrected, removed } of changes) {
    yield* Console.log(`  --to ${before}  ${added} added, ${corrected} corrected, ${removed} removed`)
  }
})

/** `undo-load`: restores a dataset to an earlier state. */
export const undoLoadCommand = Command.make(
  "undo-load",
  {
    dataset: datasetFlag,
    to: makeFlag(
      "to",
      Schema.String,
      "A timestamp with an offset, or a date, which means its end in New York. Without it, lists the last changes",
    ).pipe(Flag.optional),
    yes: makeBooleanFlag("yes", "Change the dataset without asking; needed in scripts"),
  },
  Effect.fnUntraced(function* ({ dataset, to, yes }) {
    if (Option.isNone(to)) return yield* printRecentChanges(dataset).pipe(Effect.provide(migratedDatabaseClientLayer))
    const terminal = yield* Effect.context<Prompt.Environment | Stdio.Stdio>()
    const confirm = (preview: UndoPreview) =>
      Effect.andThen(
        Console.log(formatPreview(preview)),
        yes ? Effect.succeed(true) : confirmOnTerminal(`Change ${preview.table}?`),
      ).pipe(Effect.provideContext(terminal))
    let isCommitted = false
    const onCommit = Effect.sync(() => {
      isCommitted = true
    })
    const undo = undoLoad({ dataset, to: to.value, confirm, onCommit })
    const { isChanged, preview } = yield* withProgressDisplay(undo).pipe(
      Effect.provide(migratedDatabaseClientLayer),
      Effect.onInterrupt(() =>
        Console.error(isCommitted ? `Interrupted, but ${dataset} was changed.` : "Interrupted. Nothing was changed.")
      ),
    )
    const { counts, moment, table } = preview
    if (isChanged) return yield* Console.log(`${table} has its rows at ${moment} again.`)
    if (counts.added + counts.updated + counts.removed === 0) {
      return yield* Console.log(`${table} already has its rows at ${moment}. Nothing was changed.`)
    }
    return yield* new CommandFailed({ message: `Nothing was changed. To change ${table}, add --yes.` })
  }),
).pipe(
  Command.withDescription("Give a dataset the rows that it had at an earlier moment, from the history"),
  withExamples({
    "undo-load --dataset news": "List the last changes and the moments before them",
    "undo-load --dataset news --to 2026-11-27T09:30:00-05:00": "Show what would change, and ask",
  }),
)
