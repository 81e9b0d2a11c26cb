/** The `ingest doubts` command: lists suspicious values from SEC documents, and confirms or corrects them. */
import { Console, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { LongTickerParameter } from "../../contract/rules/Tickers.ts"
import { decideDoubt, listDoubts } from "../../ingest/edgar/store/Doubts.ts"
import { type IngestedDataset, ingestedDatasets } from "../../ingest/edgar/schedule/IngestedDatasets.ts"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"
import {
  makeArgument,
  makeBooleanFlag,
  makeFlag,
  makeUsageError,
  withExamples,
  withPipeableExamples,
} from "./CommandParts.ts"
import { escapeTerminalLine, formatTabSeparated } from "./terminal/TerminalText.ts"

/** Values of SEC documents that are not published until an operator has confirmed or corrected them. */
type ListedDoubts = Effect.Success<ReturnType<typeof listDoubts>>

/**
 * Formats values in doubt as tab-separated text with a header. `read` is the value in the SEC document, and `published`
 * the value that the row has instead.
 */
const formatDoubtList = (doubts: ListedDoubts) =>
  formatTabSeparated([
    ["id", "ticker", "dataset", "column", "document states", "row has", "reason", "decision", "document"],
    ...doubts.map(({ column, dataset, decision, document, id, published, read, reason, ticker }) => [
      id,
      ticker,
      dataset,
      column,
      read,
      published,
      reason,
      decision,
      document,
    ]),
  ])

const id = makeArgument(
  "id",
  Schema.FiniteFromString.check(Schema.isInt(), Schema.isGreaterThan(0)),
  "ID of the doubt, as listed",
)

/**
 * Prints the result of a decision about a doubt: the value that `dataset.field` has from now on, the number of values
 * that were changed in rows, and the fields of the same document that were decided together with it (`others`).
 *
 * `decision` and `decided` are the earlier decision and its value; `decision` is null if there was none. If share
 * counts depend on the value (`isCount`), they are computed only by the next run of the ingest. A value of null means
 * that it is unknown.
 */
const reportDecision = (
  { changedValues, dataset, decided, decision, field, isCount, others, value }: Effect.Success<
    ReturnType<typeof decideDoubt>
  >,
) =>
  Console.log(
    [
      ...(decision === null ? [] : [`This replaces an earlier decision (${decision}): ${decided ?? "unknown"}.`]),
      `${dataset}.${field} is ${
        value ?? "unknown"
      }, whenever the document is read again. Values changed: ${changedValues}.`,
      ...(others.length === 0 ? [] : [
        `The document may state only a part of what the holder owns, so the whole holder is ${
          value === null ? "hidden" : "shown"
        }. Decided with it: ${others.join(", ")}.`,
      ]),
      ...(isCount
        ? [`The next run makes what depends on it, such as the current count: ${tickerlineCommand} ingest edgar`]
        : []),
    ].map(escapeTerminalLine).join("\n"),
  )

const confirmCommand = Command.make(
  "confirm",
  { id },
  Effect.fnUntraced(function* ({ id }) {
    yield* reportDecision(yield* decideDoubt(id))
  }),
).pipe(
  Command.withDescription("Decide that what the document states is right"),
  withExamples({ "ingest doubts confirm 7": "Believe the document" }),
)

const correctCommand = Command.make(
  "correct",
  {
    id,
    value: makeArgument("value", Schema.String, "The right value, as `load` accepts it").pipe(Argument.optional),
    isNull: makeBooleanFlag("null", "The right value is unknown"),
  },
  Effect.fnUntraced(function* ({ id, isNull, value }) {
    if (isNull === Option.isSome(value)) {
      return yield* makeUsageError("ingest doubts correct", "ingest doubts correct takes either a value or --null.")
    }
    yield* reportDecision(yield* decideDoubt(id, Option.getOrNull(value)))
  }),
).pipe(
  Command.withDescription("Decide that another value is right, or that the value is unknown"),
  withExamples({
    "ingest doubts correct 7 25123000": "Replace the value",
    "ingest doubts correct 7 --null": "Remove the value",
  }),
)

export const ingestDoubtsCommand = Command.make(
  "doubts",
  {
    ticker: makeFlag("ticker", LongTickerParameter, "Only those of the company with this symbol").pipe(Flag.optional),
    dataset: Flag.Literals<ReadonlyArray<IngestedDataset>>("dataset", ingestedDatasets).pipe(
      Flag.withDescription("Only those of this dataset"),
      Flag.optional,
    ),
    isDecided: makeBooleanFlag("decided", "List what operators have decided instead of what is open"),
    isJson: makeBooleanFlag("json", "Print a JSON array"),
  },
  Effect.fnUntraced(function* ({ dataset, isDecided, isJson, ticker }) {
    const doubts = yield* listDoubts({
      ticker: Option.getOrUndefined(ticker),
      dataset: Option.getOrUndefined(dataset),
      isDecided,
    })
    yield* Console.log(isJson ? JSON.stringify(doubts, null, 2) : formatDoubtList(doubts))
  }),
).pipe(
  Command.withDescription("List values of the SEC's documents that are not believed, with the reason (tab-separated)"),
  withPipeableExamples({
    "ingest doubts --ticker ACME": "List the doubts about one company",
    "ingest doubts --json": "List all as JSON",
  }),
  Command.withSubcommands([confirmCommand, correctCommand]),
  Command.provide(migratedDatabaseClientLayer),
)
