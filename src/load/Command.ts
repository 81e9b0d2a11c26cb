/** `load` on the command line. */
import { Console, Duration, Effect, Ref, Schedule } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as Connection from "../db/Connection.ts"
import { datasets } from "./Datasets.ts"
import * as Load from "./Load.ts"

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

export const command = Command.make(
  "load",
  {
    dataset: Argument.String("dataset").pipe(
      Argument.withDescription(`One of ${datasets.map(({ table }) => table.replaceAll("_", "-")).join(", ")}`),
    ),
    file: Argument.String("file").pipe(Argument.withDescription("A .csv, .ndjson or .jsonl file; .gz too")),
    append: Flag.Boolean("append").pipe(
      Flag.withDescription("Add to the rows that are there instead of replacing them"),
      Flag.withDefault(false),
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
  Command.provide(Connection.migrated),
)
