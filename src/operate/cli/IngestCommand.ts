/** The `ingest edgar` command: fills datasets from the SEC's public documents. */
import { Console, Duration, Effect, Layer, Option, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import {
  EdgarBaseUrlConfig,
  EdgarClient,
  EdgarUserAgent,
  EdgarUserAgentConfig,
} from "../../ingest/edgar/fetch/EdgarClient.ts"
import { runIngest } from "../../ingest/edgar/schedule/EdgarIngest.ts"
import { ingestedDatasets } from "../../ingest/edgar/schedule/IngestedDatasets.ts"
import {
  EdgarTickersConfig,
  getDefaultIngestStartDate,
  type IngestOptions,
  parseTickers,
  TickerListText,
} from "../../ingest/edgar/schedule/IngestOptions.ts"
import { scheduledRunFlag, untilServiceEnds } from "../../ingest/edgar/schedule/IngestProcess.ts"
import { IngestReport, maxExamples } from "../../ingest/edgar/schedule/IngestReport.ts"
import { listWork } from "../../ingest/edgar/store/IngestWork.ts"
import { PastDate } from "../../contract/rules/Dates.ts"
import {
  CommandFailed,
  makeBooleanFlag,
  makeDatasetListParser,
  makeFlag,
  makeUsageError,
  withExamples,
  withPipeableExamples,
} from "./CommandParts.ts"
import { withDemoKeyRevocation } from "./DemoKey.ts"
import { ingestDoubtsCommand } from "./IngestDoubtsCommand.ts"
import { ingestCheckCommand } from "./IngestCheckCommand.ts"
import { allowSampleDataFlag, confirmMixingWithSamples } from "./SampleMarket.ts"
import { makeFolderError } from "../../ingest/load/FileErrors.ts"
import { ingestPricesCommand } from "./IngestPricesCommand.ts"
import { formatMergedRowCounts } from "./RowCountsText.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { escapeTerminalLines, formatElapsedTime, formatTabSeparated } from "./terminal/TerminalText.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"

const formatTables = ({ merged, rows }: IngestReport, target: IngestOptions["target"]) =>
  ingestedDatasets.flatMap((table) => {
    const count = rows.get(table)
    if (count === undefined) return []
    const counts = merged.get(table)
    if (counts !== undefined) {
      return [`${table}: ${formatCountWithNoun(count, "row")} merged: ${formatMergedRowCounts(counts)}`]
    }
    return [`${table}: ${formatCountWithNoun(count, "row")} ${target === "dry-run" ? "would be loaded" : "written"}`]
  })

const formatRejections = ({ examples, rejections }: IngestReport, isStored: boolean) =>
  rejections === 0 ? [] : [
    `Set aside, because they are missing or damaged (${formatCountWithNoun(rejections, "document")}):`,
    ...examples.map(({ message }) => `  ${message}`),
    ...(rejections > examples.length ? [`  … only the first ${examples.length} are shown`] : []),
    ...(isStored ? ["To list all of them, and when they are requested again, run: tickerline ingest rejections"] : []),
  ]

/** Describes the values of SEC filings that look wrong, or that an operator must confirm before they are published. */
const formatDoubts = ({ doubts }: IngestReport, isStored: boolean) =>
  doubts.size === 0 ? [] : [
    `Not believed, or not without confirmation (${formatCountWithNoun(doubts.size, "value")}):`,
    ...Array.from(doubts.values()).slice(0, maxExamples).map(({ column, published, read, reason, table, url }) =>
      `  ${url}: ${table}.${column} ${[read, reason].filter((text) => text !== "").join(" ")}; the row has ${
        published ?? "no value"
      }`
    ),
    ...(doubts.size > maxExamples ? [`  … only the first ${maxExamples} are shown`] : []),
    ...(isStored ? ["To list all of them, and to confirm or correct them, run: tickerline ingest doubts"] : []),
  ]

const formatSummary = (report: IngestReport, target: IngestOptions["target"], seconds: number) => {
  const companies = formatCountWithNoun(report.visited, "company", "companies")
  const documents = `${formatCountWithNoun(report.documents, "document")}${target === "dry-run" ? " to download" : ""}`
  const unlisted = report.unlisted.length
  return [
    ...report.notes,
    ...formatTables(report, target),
    `${companies}, ${documents}, ${report.rejections} set aside, in ${formatElapsedTime(seconds)}`,
    ...(report.doubts.size === 0 ? [] : [`${formatCountWithNoun(report.doubts.size, "value")} in doubt`]),
    ...(unlisted === 0 ? [] : [`${formatCountWithNoun(unlisted, "symbol")} not found`]),
    ...(target === "dry-run" ? ["Nothing was loaded."] : []),
  ].join("\n")
}

const formatInterruption = ({ companies, saved }: IngestReport, { archives, target }: IngestOptions) => {
  const count = `${saved} of ${formatCountWithNoun(companies ?? 0, "company", "companies")}`
  if (target === "dry-run") return "Interrupted. Nothing was loaded."
  if (target !== "load") return `Interrupted. The files have the rows of ${count}.`
  const loaded = companies === undefined ? "Nothing was loaded." : `Loaded: ${count}.`
  const command = `${tickerlineCommand} ingest edgar --resume${archives === undefined ? "" : ` --archives ${archives}`}`
  return `Interrupted. ${loaded} To continue, run ${command}.`
}

/**
 * Runs the scheduled ingest of a service, which starts this command as a separate process. Takes all options from the
 * service's settings instead of flags, and continues an earlier run that has not finished. Logs its result, and fails
 * if documents are missing. Ends when the service ends.
 */
const runScheduledIngest = Effect.gen(function* () {
  const agent = yield* EdgarUserAgentConfig
  if (Option.isNone(agent)) return yield* makeUsageError("ingest edgar", "EDGAR_USER_AGENT is not set.")
  const options: IngestOptions = {
    tickers: yield* EdgarTickersConfig,
    datasets: ingestedDatasets,
    since: yield* getDefaultIngestStartDate,
    resume: true,
    target: "load",
    scheduled: true,
  }
  const report = new IngestReport()
  const incompleteness = yield* untilServiceEnds(runIngest(options, report)).pipe(
    Effect.provide(Layer.provideMerge(
      EdgarClient.limitedLayer(agent.value, yield* EdgarBaseUrlConfig),
      migratedDatabaseClientLayer,
    )),
  )
  yield* Effect.logInfo(
    `Ingested SEC filings of ${report.visited} companies: ${report.documents} documents, ` +
      `${report.rejections} set aside, ${formatCountWithNoun(report.doubts.size, "value")} in doubt.`,
  )
  if (incompleteness === null) return
  return yield* new CommandFailed({
    message: `The ingest is incomplete, because ${incompleteness}. The next run requests them again.`,
  })
})

const flags = {
  userAgent: Flag.optional(
    makeFlag(
      "user-agent",
      EdgarUserAgent,
      "Your name and email address, which the SEC requires (default: EDGAR_USER_AGENT)",
    ),
  ),
  tickers: makeFlag("tickers", TickerListText, "Symbols of companies, separated by commas").pipe(
    Flag.map(parseTickers),
    Flag.optional,
  ),
  all: makeBooleanFlag("all", "All companies of the SEC's ticker list"),
  since: Flag.optional(makeFlag("since", PastDate, "First filing date, YYYY-MM-DD (default: a year ago)")),
  only: makeFlag("only", Schema.String, "Datasets to fill, separated by commas (default: all that the SEC fills)").pipe(
    Flag.mapEffect(makeDatasetListParser("The SEC's documents", ingestedDatasets)),
    Flag.optional,
  ),
  out: Flag.Path("out").pipe(
    Flag.withDescription("Write NDJSON files to this folder, and load nothing"),
    Flag.optional,
  ),
  archives: Flag.Path("archives").pipe(
    Flag.withDescription("Folder with the SEC's submissions.zip and companyfacts.zip, to load all companies quickly"),
    Flag.optional,
  ),
  resume: makeBooleanFlag("resume", "Continue the last run with its options, if it was interrupted or failed"),
  retryRejected: makeBooleanFlag(
    "retry-rejected",
    "Request all documents again that were set aside, even those that were rejected for good",
  ),
  yes: allowSampleDataFlag,
  scheduled: makeBooleanFlag(scheduledRunFlag, "Run as the service does on its schedule, until standard input ends")
    .pipe(
      Flag.withHidden,
    ),
  isDryRun: makeBooleanFlag("dry-run", "Read only the lists of filings, print what would be loaded, and load nothing"),
}

type Flags = Command.Command.Config.Infer<typeof flags>

/** Explains why the flags of `ingest edgar` that were specified cannot be combined. Returns undefined if they can. */
const findConflict = (
  { all, archives, isDryRun, only, out, resume, retryRejected, since, tickers }: Omit<
    Flags,
    "scheduled" | "userAgent" | "yes"
  >,
) => {
  const [hasOut, hasTickers] = [Option.isSome(out), Option.isSome(tickers)]
  const conflicts: ReadonlyArray<readonly [boolean, string]> = [
    [
      Option.exists(tickers, (symbols) => all || symbols.length === 0),
      "ingest edgar takes either --tickers with at least one symbol, or --all.",
    ],
    [!hasTickers && !all && !resume, "ingest edgar takes --tickers with symbols such as NVDA,IMNN, or --all."],
    [resume && (isDryRun || hasOut), "--resume continues a run that loads, so it excludes --out and --dry-run."],
    [
      resume && (Option.isSome(since) || Option.isSome(only) || retryRejected),
      "--resume takes the options of the run that it continues, so it excludes --since, --only and --retry-rejected.",
    ],
    [
      retryRejected && (isDryRun || hasOut),
      "--retry-rejected is for a run that loads, so it excludes --out and --dry-run.",
    ],
    [
      Option.isSome(archives) && hasTickers,
      "--archives is for --all. A few companies are requested from the SEC.",
    ],
    [isDryRun && hasOut, "--dry-run writes no files, so it excludes --out."],
  ]
  return conflicts.find(([isConflict]) => isConflict)?.[1]
}

const edgarCommand = Command.make(
  "edgar",
  flags,
  Effect.fnUntraced(
    function* (
      { all, archives, isDryRun, only, out, resume, retryRejected, scheduled, since, tickers, userAgent, yes },
    ) {
      if (scheduled) return yield* runScheduledIngest
      const conflict = findConflict({ all, archives, isDryRun, only, out, resume, retryRejected, since, tickers })
      if (conflict !== undefined) return yield* makeUsageError("ingest edgar", conflict)
      if (Option.isSome(tickers) && tickers.value.join() === "ALL") {
        yield* Console.error("ALL is the symbol of Allstate. For all companies, use --all.")
      }
      const agent = Option.isSome(userAgent) ? userAgent : yield* EdgarUserAgentConfig
      if (Option.isNone(agent)) {
        return yield* makeUsageError(
          "ingest edgar",
          `The SEC requires programs to name a contact: --user-agent "Acme Inc ops@acme.example", or EDGAR_USER_AGENT.`,
        )
      }
      const options: IngestOptions = {
        tickers: Option.getOrElse(tickers, () => all ? null : undefined),
        datasets: Option.getOrElse(only, () => ingestedDatasets),
        since: Option.isSome(since) ? since.value : yield* getDefaultIngestStartDate,
        resume,
        target: isDryRun ? "dry-run" : Option.match(out, { onNone: () => "load", onSome: (folder) => ({ folder }) }),
        scheduled: false,
        retryRejected,
        archives: Option.getOrUndefined(archives),
      }
      const report = new IngestReport()
      const run = withDemoKeyRevocation(runIngest(options, report)).pipe(
        Effect.catchTag(
          "PlatformError",
          (error) => Effect.fail(Option.isSome(out) ? makeFolderError(out.value)(error) : error),
        ),
        withProgressDisplay,
        Effect.timed,
      )
      const confirmation = confirmMixingWithSamples(yes || options.target !== "load")
      const [duration, incompleteness] = yield* Effect.andThen(confirmation, run).pipe(
        Effect.onInterrupt(() => Console.error(formatInterruption(report, options))),
        Effect.provide(Layer.provideMerge(
          EdgarClient.limitedLayer(agent.value, yield* EdgarBaseUrlConfig),
          migratedDatabaseClientLayer,
        )),
      )
      const rejections = formatRejections(report, options.target === "load")
      if (rejections.length > 0) yield* Console.error(rejections.join("\n"))
      const doubts = formatDoubts(report, options.target === "load")
      if (doubts.length > 0) yield* Console.error(escapeTerminalLines(doubts.join("\n")))
      for (const message of report.unlisted) yield* Console.error(message)
      yield* Console.log(formatSummary(report, options.target, Duration.toSeconds(duration)))
      if (incompleteness === null) return
      return yield* new CommandFailed({
        message: `The data is incomplete, because ${incompleteness}. The next run requests them again.`,
      })
    },
  ),
).pipe(
  Command.withDescription("Load real filings, holders and share counts from the SEC's public documents"),
  withExamples({
    'ingest edgar --user-agent "Acme Inc ops@acme.example" --tickers NVDA,IMNN': "Load the last year of two companies",
    "ingest edgar --all --since 2026-01-01 --only news,ownership": "Load two datasets of all companies",
    "ingest edgar --all --archives downloads": "Load all companies from the SEC's nightly archives",
    "ingest edgar --resume": "Continue an interrupted run",
  }),
)

const formatWork = (work: Effect.Success<typeof listWork>) =>
  formatTabSeparated([
    ["document", "datasets", "company", "attempts", "next try", "first failed", "reason"],
    ...work.map((entry) => [
      entry.url,
      entry.datasets.join(","),
      entry.cik ?? "",
      entry.attempts,
      entry.next_try_at ?? "never",
      entry.first_failed_at,
      entry.reason,
    ]),
  ])

const rejectionsCommand = Command.make(
  "rejections",
  { isJson: makeBooleanFlag("json", "Print a JSON array") },
  Effect.fnUntraced(function* ({ isJson }) {
    const work = yield* listWork
    yield* Console.log(isJson ? JSON.stringify(work, null, 2) : formatWork(work))
  }),
).pipe(
  Command.withDescription("List the documents that were set aside, with the time of the next request (tab-separated)"),
  withPipeableExamples({ "ingest rejections --json": "List them as JSON" }),
  Command.provide(migratedDatabaseClientLayer),
)

/** `ingest`: fills datasets from other sources. */
export const ingestCommand = Command.make("ingest").pipe(
  Command.withDescription("Fill datasets from public sources, or from files with prices"),
  Command.withSubcommands([
    edgarCommand,
    ingestPricesCommand,
    rejectionsCommand,
    ingestDoubtsCommand,
    ingestCheckCommand,
  ]),
)
