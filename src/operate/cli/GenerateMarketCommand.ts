/** The `generate` command: writes dataset files for a fictional market. */
import { Console, Duration, Effect, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { namedCompanies } from "../../../samples/generator/Companies.ts"
import { withExamples } from "./CommandParts.ts"
import { makeFolderError } from "../../ingest/load/FileErrors.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"

const Scale = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 }))

/** `generate`: writes the files of a fictional market to a folder. */
export const generateMarketCommand = Command.make(
  "generate",
  {
    // `Path`, unlike `Directory`, also accepts a file. Writing then fails with a more helpful message.
    folder: Argument.Path("folder").pipe(
      Argument.withDescription("Folder for the files, created if it does not exist"),
    ),
    scale: Flag.Int("scale").pipe(
      Flag.withSchema(Scale),
      Flag.withDescription(`Size of the market, as a multiple of ${namedCompanies.length} companies`),
      Flag.withDefault(1),
    ),
    seed: Flag.Int("seed").pipe(
      Flag.withDescription("Seed of the generator; the same seed writes the same files"),
      Flag.withDefault(1),
    ),
  },
  Effect.fnUntraced(function* (options) {
    const { writeMarketFiles } = yield* Effect.promise(() => import("../../../samples/generator/MarketFiles.ts"))
    const [duration, rowsByTable] = yield* Effect.timed(
      writeMarketFiles(options).pipe(
        Effect.mapError(makeFolderError(options.folder)),
        withProgressDisplay,
      ),
    )
    const total = Object.values(rowsByTable).reduce((sum, rows) => sum + rows, 0)
    for (const [table, rows] of Object.entries(rowsByTable)) yield* Console.log(`${table}.csv: ${rows} rows`)
    yield* Console.error(`${total} rows in ${Duration.toSeconds(duration).toFixed(1)} s`)
  }),
).pipe(
  Command.withDescription("Write sample data of a fictional market for load, one CSV file per table"),
  withExamples({
    "generate market": "Write the small market: 18 files, less than 3 MB",
    "generate large --scale 40": "Write two thousand companies, more than a million rows",
  }),
)
