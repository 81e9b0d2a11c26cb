/** The `lineage` command: lists estimated ticker changes with their evidence, and confirms or rejects them. */
import { Console, Effect, Layer, Option, Result } from "effect"
import { Command, Flag } from "effect/cli"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import type { LineageConflict, TickerChangeEvent } from "../../query/lineage/LineageRules.ts"
import * as Review from "../../query/lineage/LineageReview.ts"
import { CalendarDate } from "../../contract/rules/Dates.ts"
import { CikParameter, LongTickerParameter } from "../../contract/rules/Tickers.ts"
import {
  CommandFailed,
  makeArgument,
  makeBooleanFlag,
  makeFlag,
  withExamples,
  withPipeableExamples,
} from "./CommandParts.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { escapeTerminalLines } from "./terminal/TerminalText.ts"

const formatCik = ({ cik }: TickerChangeEvent) => cik === null ? "no CIK" : `CIK ${cik}`

const formatEvent = (event: TickerChangeEvent) =>
  [Review.formatTickerChange(event), formatCik(event), ...(event.company_name === null ? [] : [event.company_name])]
    .join(", ")

/**
 * Describes how responses would change if the ticker change were confirmed. The text is the second half of a sentence.
 */
const formatEffect = (preview: Review.LineagePreview) =>
  Result.match(preview, {
    onSuccess: ({ history: [first, ...later] }) =>
      `the chain is ${[first.old_ticker, ...[first, ...later].map(({ new_ticker }) => new_ticker)].join(" to ")}.`,
    onFailure: ({ reasons, tickers }) => `requests for ${tickers.join(", ")} get 409: ${reasons.join(", ")}.`,
  })

const formatConflict = ({ candidates, event_count, events }: LineageConflict) => [
  ...events.map((event) => `  ${[formatEvent(event), ...event.reasons].join(", ")}`),
  ...(event_count > events.length ? [`  and ${formatCountWithNoun(event_count - events.length, "other change")}`] : []),
  ...(candidates.length === 0
    ? []
    : [`Clients can choose a company with cik=${candidates.map(({ cik }) => cik).join(" or cik=")}.`]),
]

const printText = (lines: ReadonlyArray<string>) => Console.log(escapeTerminalLines(lines.join("\n")))

/**
 * Previews the effect of confirming a ticker change. If the database cannot be read, fails with the API error's
 * message, which tells the user to retry.
 */
const previewConfirmation = (change: TickerChangeEvent) =>
  Effect.catchTag(
    Review.previewConfirmedLineage(change),
    ["DataRefreshing", "DatabasePoolTimeout"],
    ({ error: { message } }) => new CommandFailed({ message }),
  )

const reviewCommand = Command.make(
  "review",
  {},
  Effect.fnUntraced(function* () {
    const changes = yield* Review.listEstimatedTickerChanges
    if (changes.length === 0) return yield* Console.log("There are no estimated ticker changes.")
    for (const change of changes) {
      const { cik, effective_date, new_ticker, old_ticker, recorded_on, source, source_links } = change
      const evidence = [...(source === null ? [] : [source]), ...source_links ?? []]
      yield* printText([
        formatEvent(change),
        ...evidence.map((line) => `  ${line}`),
        `  Recorded on ${recorded_on}. If confirmed, ${formatEffect(yield* previewConfirmation(change))}`,
        `  tickerline lineage confirm ${old_ticker} ${new_ticker} ${effective_date}${
          cik === null ? "" : ` --cik ${cik}`
        }`,
        "",
      ])
    }
    yield* Console.error(`${formatCountWithNoun(changes.length, "estimated change")} to confirm or reject`)
  }),
).pipe(
  Command.withDescription("List the estimated ticker changes with their evidence and their effect"),
  withPipeableExamples({ "lineage review": "Find the changes that the other commands take" }),
)

const key = {
  old_ticker: makeArgument("old", LongTickerParameter, "The old symbol"),
  new_ticker: makeArgument("new", LongTickerParameter, "The new symbol"),
  effective_date: makeArgument("date", CalendarDate, "First day of the new symbol, YYYY-MM-DD"),
  cik: Flag.optional(
    makeFlag("cik", CikParameter, "CIK of the issuer, if several estimated changes have these symbols and this date"),
  ),
}

const confirmCommand = Command.make(
  "confirm",
  { ...key, force: makeBooleanFlag("force", "Confirm the change even if its symbols become ambiguous") },
  Effect.fnUntraced(function* ({ cik, force, ...symbols }) {
    const change = yield* Review.findEstimatedTickerChange({ ...symbols, cik: Option.getOrUndefined(cik) })
    const preview = yield* previewConfirmation(change)
    if (Result.isFailure(preview) && !force) {
      return yield* new CommandFailed({
        message: [
          `The change from ${formatEvent(change)} was not confirmed. If confirmed, ${formatEffect(preview)}`,
          ...formatConflict(preview.failure),
          "Correct the other changes first, or add --force if all of them are right.",
        ].join("\n"),
      })
    }
    yield* Review.reviewTickerChange(change, "confirmed")
    yield* printText([
      `The change from ${formatEvent(change)} is confirmed.`,
      `From ${change.effective_date} on, ${formatEffect(preview)}`,
      ...(Result.isFailure(preview) ? formatConflict(preview.failure) : []),
    ])
  }),
).pipe(
  Command.withDescription("Confirm an estimated change, so that clients get it; refused if it makes symbols ambiguous"),
  withExamples({ "lineage confirm FB META 2022-06-09": "META is the new symbol of FB" }),
)

const rejectCommand = Command.make(
  "reject",
  key,
  Effect.fnUntraced(function* ({ cik, ...symbols }) {
    const change = yield* Review.findEstimatedTickerChange({ ...symbols, cik: Option.getOrUndefined(cik) })
    yield* Review.reviewTickerChange(change, "blocked")
    yield* printText([`The change from ${formatEvent(change)} is rejected. Imports do not propose it again.`])
  }),
).pipe(
  Command.withDescription("Reject an estimated change: it gets the status blocked, and no import proposes it again"),
  withExamples({ "lineage reject FB META 2022-06-09": "META is not the new symbol of FB" }),
)

/** `lineage`: reviews estimated ticker changes. */
export const lineageCommand = Command.make("lineage").pipe(
  Command.withDescription("Review estimated ticker changes"),
  withExamples({ "lineage review": "List the changes to confirm or reject" }),
  Command.withSubcommands([reviewCommand, confirmCommand, rejectCommand]),
  Command.provide(Layer.provideMerge(DatabaseReader.layer, migratedDatabaseClientLayer)),
)
