/** The `load` and `datasets` commands: load files into datasets, and describe the columns of datasets. */
import { Console, Duration, Effect, Option, Path, Ref, Stdio } from "effect"
import { Argument, CliError, Command, Flag, Prompt } from "effect/cli"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { describeDatasetFormat } from "../../ingest/load/DatasetDescription.ts"
import { findDataset, loadableDatasets, requireDataset } from "../../contract/Datasets.ts"
import { findDatasetFiles } from "../../ingest/load/FolderScan.ts"
import {
  formatRemoval,
  loadDatasetFile,
  type LoadResult,
  type LoadTask,
  type RowRemoval,
} from "../../ingest/load/DatasetLoad.ts"
import type { MergedRowCounts, ReplacedRowCounts } from "../../ingest/load/LoadingTable.ts"
import { CommandFailed, makeBooleanFlag, makeUsageError, withExamples, withPipeableExamples } from "./CommandParts.ts"
import { withDemoKeyRevocation } from "./DemoKey.ts"
import { formatMergedRowCounts } from "./RowCountsText.ts"
import { confirmOnTerminal } from "./terminal/Confirmation.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"

const formatOutcome = (merged: MergedRowCounts | ReplacedRowCounts, isCheck: boolean) => {
  const counts = formatMergedRowCounts(merged)
  const verb = "removed" in merged ? "loaded" : "merged"
  return isCheck ? `would be ${verb} (${counts}); nothing was loaded` : `${verb}: ${counts}`
}

/**
 * Describes in one line what a load did, or what it would do if it is only a check: the number of rows in the file and
 * their effect on the table, repeated rows, and rows with the same key as another row of the file.
 */
const formatResult = (result: LoadResult, isCheck: boolean, seconds: number) => {
  const { dropped, kept, merged, rows, superseded, table } = result
  return `${table}: ${
    [
      `${formatCountWithNoun(rows, "row")} ${formatOutcome(merged, isCheck)}`,
      ...(dropped === 0 ? [] : [`${formatCountWithNoun(dropped, "repeated row")} dropped`]),
      ...(superseded === 0
        ? []
        : [`${formatCountWithNoun(superseded, "row")} replaced by a later row with the same key`]),
      ...(kept === 0
        ? []
        : [`earlier rows kept instead of ${formatCountWithNoun(kept, "later row")} with the same key`]),
      `in ${seconds.toFixed(1)} s`,
    ].join(", ")
  }`
}

/**
 * Loads or checks one file. Prints the row counts on standard output, and warnings about the content of the file on
 * standard error.
 */
const runTask = Effect.fnUntraced(function* (task: LoadTask) {
  // The progress display shows the number of inserted rows already, so this command does not read it.
  const insertedRows = yield* Ref.make(0)
  // The demo key is for the sample data only: with the first rows of the operator's own data, it is revoked.
  const load = withDemoKeyRevocation(loadDatasetFile(task, insertedRows), task.file)
  const [duration, result] = yield* Effect.timed(withProgressDisplay(load))
  if (result.warnings.length > 0) yield* Console.error(result.warnings.join("\n"))
  if (result.ignored.length > 0) {
    yield* Console.error(
      `Columns of ${task.file} that were not loaded, because the service itself sets them: ` +
        `${result.ignored.join(", ")}. Leave them out of files.`,
    )
  }
  if (result.unknownTexts.length > 0) {
    const list = result.unknownTexts.map(({ column, count, text }) =>
      `${JSON.stringify(text)} in ${formatCountWithNoun(count, "cell")} of ${column}`
    )
    yield* Console.error(
      `${task.file} has texts that often denote a missing value, but are kept as text: ${
        list.join(", ")
      }. If they are ` +
        `missing values, load the file with --null ${result.unknownTexts[0]?.text ?? ""}.`,
    )
  }
  if (result.unconfirmed !== undefined) {
    yield* Console.error(
      `Loading the file would remove ${formatRemoval(result.unconfirmed)} of ${result.table}, so load will ask for a ` +
        "confirmation. In a script, add --yes.",
    )
  }
  yield* Console.log(formatResult(result, task.check === true, Duration.toSeconds(duration)))
})

/** Runs all tasks. If one file is refused, the remaining files are still loaded. */
const runTasks = Effect.fnUntraced(function* (tasks: ReadonlyArray<LoadTask>) {
  const refused = yield* Effect.filter(tasks, (task) =>
    runTask(task).pipe(
      Effect.as(false),
      Effect.catchTag(
        ["InvalidRows", "EmptyLoadFile", "RemovalRefused", "UnreadableLoadFile", "RowNotMerged"],
        ({ message }) => Effect.as(Console.error(message), true),
      ),
    ))
  if (refused.length > 0) {
    return yield* new CommandFailed({ message: `${refused.length} of ${tasks.length} files were refused; see above.` })
  }
})

interface LoadFlags extends Required<Pick<LoadTask, "allowEmpty" | "append" | "check" | "keepOmitted" | "nulls">> {
  /** Whether the load may remove any number of rows without asking for confirmation. */
  readonly isRemovalConfirmed: boolean
}

const askToRemove = (removal: RowRemoval) =>
  confirmOnTerminal(`Loading the file would remove ${formatRemoval(removal)} of ${removal.table}. Continue?`)

const getTable = ({ dataset }: LoadTask) => findDataset(dataset)?.table ?? dataset

/**
 * Describes which datasets were loaded before the interruption. A load is atomic, so a dataset has either all of its
 * new rows or none of them.
 */
const formatInterruption = (
  tasks: ReadonlyArray<LoadTask>,
  committed: ReadonlySet<LoadTask>,
  { append, check }: Pick<LoadFlags, "append" | "check">,
) => {
  if (check) return "Interrupted. Nothing was loaded."
  const formatTables = (label: string, tasks: ReadonlyArray<LoadTask>) =>
    tasks.length === 0 ? [] : [`${label}: ${tasks.map(getTable).join(", ")}.`]
  return [
    "Interrupted.",
    ...formatTables(append ? "Merged" : "Replaced", tasks.filter((task) => committed.has(task))),
    ...formatTables("Unchanged", tasks.filter((task) => !committed.has(task))),
  ].join(" ")
}

/**
 * Creates a load task for each file, with the flags of the command, connects to the database, and passes the tasks to
 * `run`. If interrupted, reports which of the files were loaded: those whose transaction was committed.
 *
 * `run` gets the database, but the confirmation of a removal needs the terminal, so the terminal is passed to it here.
 */
const loadWithInterruptionReport = <A, E, R>(
  files: ReadonlyArray<Pick<LoadTask, "dataset" | "file">>,
  { isRemovalConfirmed, ...flags }: LoadFlags,
  run: (tasks: ReadonlyArray<LoadTask>) => Effect.Effect<A, E, R>,
) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const committed = new Set<LoadTask>()
    const terminal = yield* Effect.context<Prompt.Environment | Stdio.Stdio>()
    const confirmRemoval = (removal: RowRemoval) => Effect.provideContext(askToRemove(removal), terminal)
    const tasks = files.map((file) => {
      const task: LoadTask = {
        ...file,
        ...flags,
        auditedFile: path.basename(file.file),
        ...(!isRemovalConfirmed && { confirmRemoval }),
        onCommit: Effect.sync(() => committed.add(task)),
      }
      return task
    })
    return yield* run(tasks).pipe(
      Effect.provide(migratedDatabaseClientLayer),
      Effect.onInterrupt(() => Console.error(formatInterruption(tasks, committed, flags))),
    )
  })

/** Checks that the dataset exists, before the command connects to the database. */
const validateDataset = (name: string) =>
  requireDataset(name).pipe(
    Effect.as(name),
    Effect.mapError(({ message }) => new CliError.ValidationError({ message })),
  )

const datasetArgument = Argument.String("dataset").pipe(Argument.mapEffect(validateDataset))

/** The flag that specifies the dataset to change, by table name or endpoint name. */
export const datasetFlag = Flag.String("dataset").pipe(
  Flag.withDescription("The dataset, such as news"),
  Flag.mapEffect(validateDataset),
)

/** `load`: loads files into datasets. */
export const loadCommand = Command.make(
  "load",
  {
    dataset: datasetArgument.pipe(
      Argument.withDescription(`One of ${loadableDatasets.map(({ table }) => table.replaceAll("_", "-")).join(", ")}`),
      Argument.optional,
    ),
    // `Path`, unlike `File`, also accepts a folder. The load then rejects the folder with a more helpful message.
    file: Argument.Path("file").pipe(
      Argument.withDescription("A .csv, .ndjson or .jsonl file, optionally compressed (.gz or .zst)"),
      Argument.optional,
    ),
    all: Flag.Path("all").pipe(
      Flag.withDescription("Load every file in this folder that is named after a table"),
      Flag.optional,
    ),
    append: makeBooleanFlag("append", "Do not replace the table: add new rows, and update rows with the same key"),
    keepOmitted: makeBooleanFlag(
      "keep-omitted",
      "With --append: existing rows keep their values in columns that the file omits",
    ),
    check: makeBooleanFlag("check", "Only check whether the file can be loaded, and change nothing"),
    allowEmpty: makeBooleanFlag("allow-empty", "Accept a file without rows, which empties the table"),
    nulls: Flag.String("null").pipe(
      Flag.withDescription("Text of cells without a value, such as NULL; repeat the option for several texts"),
      Flag.withMetavar("TEXT"),
      Flag.atLeast(0),
    ),
    yes: makeBooleanFlag("yes", "Remove more than a tenth of a table's rows without asking; needed in scripts"),
  },
  Effect.fnUntraced(function* ({ all, allowEmpty, append, check, dataset, file, keepOmitted, nulls, yes }) {
    const flags = { allowEmpty, append, check, keepOmitted, nulls, isRemovalConfirmed: yes }
    if (keepOmitted && !append) return yield* makeUsageError("load", "--keep-omitted needs --append.")
    if (Option.isSome(all) && Option.isNone(dataset)) {
      const { others, tasks } = yield* findDatasetFiles(all.value)
      if (others.length > 0) yield* Console.error(`Skipped, because not named after a table: ${others.join(", ")}`)
      return yield* loadWithInterruptionReport(tasks, flags, runTasks)
    }
    if (Option.isSome(all) || Option.isNone(dataset) || Option.isNone(file)) {
      return yield* makeUsageError("load", "load takes a dataset and a file, or --all with a folder.")
    }
    return yield* loadWithInterruptionReport(
      [{ dataset: dataset.value, file: file.value }],
      flags,
      (tasks) => Effect.forEach(tasks, runTask, { discard: true }),
    )
  }),
).pipe(
  Command.withDescription("Replace the rows of a dataset with those of a file; a file with an invalid row is refused"),
  withExamples({
    "load ticker-changes changes.csv": "Replace all symbol changes",
    "load intraday-runners today.ndjson.gz --append": "Add today's sessions",
    "load --all exports --check": "Check all files in a folder",
  }),
)

/** `datasets`: describes the columns of a dataset. */
export const datasetsCommand = Command.make(
  "datasets",
  {
    dataset: datasetArgument.pipe(Argument.withDescription("Describe only this dataset"), Argument.optional),
  },
  Effect.fnUntraced(function* ({ dataset }) {
    const described = Option.isSome(dataset) ? [yield* requireDataset(dataset.value)] : loadableDatasets
    yield* Console.log(described.map(describeDatasetFormat).join("\n"))
  }),
).pipe(
  Command.withDescription("Describe the tables that load fills: columns, types and an example row"),
  withPipeableExamples({
    "datasets": "Describe all datasets",
    "datasets news": "Describe one dataset",
  }),
)
