/** `load` and `datasets` on the command line. */
import { Console, Duration, Effect, Option, Ref, Schema } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import * as Connection from "../db/Connection.ts"
import { formatCount } from "./terminal/Text.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { datasets, findDataset, getDataset } from "../load/Datasets.ts"
import { describeDataset } from "../load/DatasetDescription.ts"
import { findDatasetFiles } from "../load/FolderScan.ts"
import type { MergeCounts } from "../load/RowInserter.ts"
import * as Load from "../load/Load.ts"

const merged = ({ added, unchanged, updated }: MergeCounts, isCheck: boolean) =>
  isCheck
    ? `would be merged (${added} added, ${updated} updated, ${unchanged} unchanged); nothing was loaded`
    : `merged: ${added} added, ${updated} updated, ${unchanged} unchanged`

/** The line on standard output: rows of the file, and what became of them. */
const summary = (
  { dropped, merged: known, rows, superseded, table }: Load.LoadResult,
  check: boolean,
  seconds: number,
) => {
  const what = known !== undefined ? merged(known, check) : check ? "are right; nothing was loaded" : "loaded"
  const repeats = dropped === 0 ? [] : [`${formatCount(dropped, "repeated row")} dropped`]
  const corrected = superseded === 0
    ? []
    : [`${formatCount(superseded, "row")} replaced by a later row with the same key`]
  return `${table}: ${
    [`${formatCount(rows, "row")} ${what}`, ...repeats, ...corrected, `in ${seconds.toFixed(1)} s`].join(", ")
  }`
}

const run = Effect.fnUntraced(function* (task: Load.LoadTask) {
  const progress = yield* Ref.make(0)
  const [taken, loaded] = yield* Effect.timed(withProgressDisplay(Load.loadFile(task, progress)))
  if (loaded.warning !== undefined) yield* Console.error(loaded.warning)
  yield* Console.log(summary(loaded, task.check === true, Duration.toSeconds(taken)))
})

class Unloaded extends Schema.TaggedError<Unloaded>()("Unloaded", { message: Schema.String }) {}

/** A bad file does not keep the others from being loaded. */
const runAll = Effect.fnUntraced(function* (tasks: ReadonlyArray<Load.LoadTask>) {
  const bad = yield* Effect.filter(tasks, (task) =>
    run(task).pipe(
      Effect.as(false),
      Effect.catchTag(
        ["BadRows", "NoRows", "UnreadableFile"],
        ({ message }) => Effect.as(Console.error(message), true),
      ),
    ))
  if (bad.length > 0) {
    return yield* new Unloaded({ message: `${bad.length} of ${tasks.length} files were refused; see above.` })
  }
})

type How = Required<Pick<Load.LoadTask, "allowEmpty" | "append" | "check">>

const tableOf = ({ dataset }: Load.LoadTask) => findDataset(dataset)?.table ?? dataset

/** What an interruption leaves: a dataset has either all its new rows or none of them. */
const interrupted = (
  tasks: ReadonlyArray<Load.LoadTask>,
  committed: ReadonlySet<Load.LoadTask>,
  { append, check }: How,
) => {
  if (check) return "Interrupted. Nothing was loaded."
  const changed = tasks.filter((task) => committed.has(task))
  const unchanged = tasks.filter((task) => !committed.has(task))
  const named = (label: string, some: ReadonlyArray<Load.LoadTask>) =>
    some.length === 0 ? [] : [`${label}: ${some.map(tableOf).join(", ")}.`]
  return ["Interrupted.", ...named(append ? "Merged" : "Replaced", changed), ...named("Unchanged", unchanged)].join(" ")
}

/** Connects and works; an interruption is reported, whenever it comes. */
const work = <A, E, R>(
  tasks: ReadonlyArray<Pick<Load.LoadTask, "dataset" | "file">>,
  how: How,
  each: (tasks: ReadonlyArray<Load.LoadTask>) => Effect.Effect<A, E, R>,
) =>
  Effect.suspend(() => {
    const committed = new Set<Load.LoadTask>()
    const noted = tasks.map((task) => {
      const one: Load.LoadTask = { ...task, ...how, onCommit: Effect.sync(() => committed.add(one)) }
      return one
    })
    return each(noted).pipe(
      Effect.provide(Connection.migratedConnectionLayer),
      Effect.onInterrupt(() => Console.error(interrupted(noted, committed, how))),
    )
  })

const misused = new CliError.ShowHelp({
  commandPath: ["tickerline", "load"],
  errors: [new CliError.ValidationError({ message: "load takes a dataset and a file, or --all with a folder." })],
})

/** Known before a database is asked. */
const named = Argument.String("dataset").pipe(
  Argument.mapEffect((name) =>
    getDataset(name).pipe(
      Effect.as(name),
      Effect.mapError(({ message }) => new CliError.ValidationError({ message })),
    )
  ),
)

export const loadCommand = Command.make(
  "load",
  {
    dataset: named.pipe(
      Argument.withDescription(`One of ${datasets.map(({ table }) => table.replaceAll("_", "-")).join(", ")}`),
      Argument.optional,
    ),
    // Any path, so that a folder is refused in the words of `Rows.ts`.
    file: Argument.Path("file").pipe(
      Argument.withDescription("A .csv, .ndjson or .jsonl file; .gz too"),
      Argument.optional,
    ),
    all: Flag.Path("all").pipe(
      Flag.withDescription("Load every file of this folder that is named after a table"),
      Flag.optional,
    ),
    append: Flag.Boolean("append").pipe(
      Flag.withDescription("Keep the table's rows: add new rows, and update those whose key the file has too"),
      Flag.withDefault(false),
    ),
    check: Flag.Boolean("check").pipe(
      Flag.withDescription("Only say whether it could be loaded, and leave everything as it was"),
      Flag.withDefault(false),
    ),
    allowEmpty: Flag.Boolean("allow-empty").pipe(
      Flag.withDescription("Accept a file without rows, which empties the table"),
      Flag.withDefault(false),
    ),
  },
  Effect.fnUntraced(function* ({ all, allowEmpty, append, check, dataset, file }) {
    const how = { allowEmpty, append, check }
    if (Option.isSome(all) && Option.isNone(dataset)) {
      const { others, tasks } = yield* findDatasetFiles(all.value)
      if (others.length > 0) yield* Console.error(`Not named after a table, and left alone: ${others.join(", ")}`)
      return yield* work(tasks, how, runAll)
    }
    if (Option.isSome(all) || Option.isNone(dataset) || Option.isNone(file)) return yield* misused
    return yield* work(
      [{ dataset: dataset.value, file: file.value }],
      how,
      (tasks) => Effect.forEach(tasks, run, { discard: true }),
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
    { command: "npm run tickerline -- load --all exports --check", description: "See whether a whole folder is right" },
  ]),
)

export const datasetsCommand = Command.make(
  "datasets",
  {
    dataset: named.pipe(Argument.withDescription("Only this one"), Argument.optional),
  },
  Effect.fnUntraced(function* ({ dataset }) {
    const shown = Option.isSome(dataset) ? [yield* getDataset(dataset.value)] : datasets
    yield* Console.log(shown.map(describeDataset).join("\n"))
  }),
).pipe(
  Command.withDescription("List the tables that load fills: columns, kinds and an example row"),
  Command.withExamples([
    { command: "npm run --silent tickerline -- datasets", description: "All of them" },
    { command: "npm run --silent tickerline -- datasets news", description: "One of them" },
  ]),
)
