/** `generate` on the command line. */
import { Console, Duration, Effect, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { namedCompanies } from "../../samples/generator/Companies.ts"
import { writeMarketFiles } from "../../samples/generator/MarketFiles.ts"

const Positive = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 }))

export const generateCommand = Command.make(
  "generate",
  {
    folder: Argument.Directory("folder").pipe(
      Argument.withDescription("Where the files go; it is made where there is none"),
    ),
    scale: Flag.Int("scale").pipe(
      Flag.withSchema(Positive),
      Flag.withDescription(`How many times the ${namedCompanies.length} companies of the small market`),
      Flag.withDefault(1),
    ),
    seed: Flag.Int("seed").pipe(
      Flag.withDescription("Another number gives another market; the same one the same files"),
      Flag.withDefault(1),
    ),
  },
  Effect.fnUntraced(function* (options) {
    const [taken, counts] = yield* Effect.timed(withProgressDisplay(writeMarketFiles(options)))
    const total = Object.values(counts).reduce((sum, rows) => sum + rows, 0)
    for (const [table, rows] of Object.entries(counts)) yield* Console.log(`${table}.csv: ${rows} rows`)
    yield* Console.error(`${total} rows in ${Duration.toSeconds(taken).toFixed(1)} s`)
  }),
).pipe(
  Command.withDescription("Write sample data of a fictional market, one CSV file a table, for load"),
  Command.withExamples([
    { command: "npm run tickerline -- generate market", description: "The small market: 18 files, less than 3 MB" },
    {
      command: "npm run tickerline -- generate large --scale 40",
      description: "A market of two thousand companies, more than a million rows",
    },
  ]),
)
