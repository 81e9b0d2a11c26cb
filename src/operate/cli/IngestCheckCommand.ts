/** The `ingest check` command: compares ten reference values from real filings with the database. */
import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { compareReferenceValues } from "../../ingest/edgar/schedule/ReferenceValues.ts"
import { CommandFailed, withPipeableExamples } from "./CommandParts.ts"
import { escapeTerminalLines } from "./terminal/TerminalText.ts"

const formatValue = (
  { company, expected, field, found, isSame, url }: Effect.Success<typeof compareReferenceValues>[number],
) =>
  [
    isSame
      ? `same     ${company} ${field}: ${found}`
      : `${found === null ? "missing " : "differs "} ${company} ${field}: ${found ?? "nothing"}, expected ${expected}`,
    `         ${url}`,
  ].join("\n")

/** `ingest check`: checks that the ingested values match what the SEC published. */
export const ingestCheckCommand = Command.make(
  "check",
  {},
  Effect.fnUntraced(function* () {
    const values = yield* compareReferenceValues
    yield* Console.log(escapeTerminalLines(values.map(formatValue).join("\n")))
    const wrong = values.filter(({ isSame }) => !isSame).length
    if (wrong === 0) return
    return yield* new CommandFailed({
      message:
        `${wrong} of ${values.length} values ${wrong === 1 ? "is" : "are"} different or missing. The SEC's pages ` +
        "show what is right. The values are of AAPL and IMNN since 2025-07-01. To load them, run: " +
        'tickerline ingest edgar --tickers AAPL,IMNN --since 2025-07-01 --user-agent "Acme Inc ops@acme.example"',
    })
  }),
).pipe(
  Command.withDescription("Compare ten known values of Apple and Imunon with what was loaded, with the SEC's pages"),
  withPipeableExamples({ "ingest check": "Check the first run" }),
  Command.provide(migratedDatabaseClientLayer),
)
