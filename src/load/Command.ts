/** `load` and `datasets` on the command line. */
import { Console, Duration, Effect, Option, Ref, Schema } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import * as Connection from "../db/Connection.ts"
import { watched } from "../terminal/Watch.ts"
import { datasetNamed, datasets } from "./Datasets.ts"
import { describe } from "./Describe.ts"
import { filesIn } from "./Folder.ts"
import * as Load from "./Load.ts"

const done = (
  { dropped, rows, table }: Effect.Success<ReturnType<typeof Load.load>>,
  task: Load.Task,
  seconds: number,
) => {
  const what = task.check === true ? "are right; nothing was loaded" : task.append ? "added" : "loaded"
  const repeats = dropped === 0 ? "" : `, ${dropped} repeated rows ${task.check === true ? "would be " : ""}dropped`
  return `${table}: ${rows} rows ${what}${repeats}, in ${seconds.toFixed(1)} s`
}

const run = Effect.fnUntraced(function* (task: Load.Task) {
  const progress = yield* Ref.make(0)
  const [taken, loaded] = yield* Effect.timed(watched(Load.load(task, progress)))
  yield* Console.log(done(loaded, task, Duration.toSeconds(taken)))
})

class Unloaded extends Schema.TaggedError<Unloaded>()("Unloaded", { message: Schema.String }) {}

/** One file after the other; a bad one does not keep the others from being loaded. */
const runAll = Effect.fnUntraced(function* (folder: string, how: Pick<Load.Task, "append" | "check">) {
  const { others, tasks } = yield* filesIn(folder)
  if (others.length > 0) yield* Console.error(`Not named after a table, and left alone: ${others.join(", ")}`)
  const bad = yield* Effect.filter(tasks, (task) =>
    run({ ...task, ...how }).pipe(
      Effect.as(false),
      Effect.catchTag(["BadRows", "UnreadableFile"], ({ message }) => Effect.as(Console.error(message), true)),
    ))
  if (bad.length > 0) {
    return yield* new Unloaded({ message: `${bad.length} of ${tasks.length} files were refused; see above.` })
  }
})

const misused = new CliError.ShowHelp({
  commandPath: ["tickerline", "load"],
  errors: [new CliError.ValidationError({ message: "load takes a dataset and a file, or --all with a folder." })],
})

/** Known before a database is asked. */
const named = Argument.String("dataset").pipe(
  Argument.mapEffect((name) =>
    datasetNamed(name).pipe(
      Effect.as(name),
      Effect.mapError(({ message }) => new CliError.ValidationError({ message })),
    )
  ),
)

export const load = Command.make(
  "load",
  {
    dataset: named.pipe(
      Argument.withDescription(`One of ${datasets.map(({ table }) => table.replaceAll("_", "-")).join(", ")}`),
      Argument.optional,
    ),
    file: Argument.File("file").pipe(
      Argument.withDescription("A .csv, .ndjson or .jsonl file; .gz too"),
      Argument.optional,
    ),
    all: Flag.Directory("all").pipe(
      Flag.withDescription("Load every file of this folder that is named after a table"),
      Flag.optional,
    ),
    append: Flag.Boolean("append").pipe(
      Flag.withDescription("Add to the rows that are there instead of replacing them"),
      Flag.withDefault(false),
    ),
    check: Flag.Boolean("check").pipe(
      Flag.withDescription("Only say whether it could be loaded, and leave everything as it was"),
      Flag.withDefault(false),
    ),
  },
  Effect.fnUntraced(function* ({ all, append, check, dataset, file }) {
    if (Option.isSome(all) && Option.isNone(dataset)) return yield* runAll(all.value, { append, check })
    if (Option.isSome(all) || Option.isNone(dataset) || Option.isNone(file)) return yield* misused
    return yield* run({ dataset: dataset.value, file: file.value, append, check })
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
  Command.provide(Connection.migrated),
)

export const list = Command.make(
  "datasets",
  {
    dataset: named.pipe(Argument.withDescription("Only this one"), Argument.optional),
  },
  Effect.fnUntraced(function* ({ dataset }) {
    const shown = Option.isSome(dataset) ? [yield* datasetNamed(dataset.value)] : datasets
    yield* Console.log(shown.map(describe).join("\n"))
  }),
).pipe(
  Command.withDescription("List the tables that load fills: columns, kinds and an example row"),
  Command.withExamples([
    { command: "npm run --silent tickerline -- datasets", description: "All of them" },
    { command: "npm run --silent tickerline -- datasets news", description: "One of them" },
  ]),
)
