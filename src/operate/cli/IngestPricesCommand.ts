/** The `ingest prices` command: fills datasets from files that contain price bars. */
import { Console, Duration, Effect, Number, Path, Record, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { ingestPriceFile, type PriceFileResult, type PriceIngestOptions } from "../../ingest/prices/PriceIngest.ts"
import { type PriceDataset, priceDatasets } from "../../ingest/prices/PriceRows.ts"
import type { ReplacedRowCounts } from "../../ingest/load/LoadingTable.ts"
import { CommandFailed, makeBooleanFlag, makeDatasetListParser, makeFlag, withExamples } from "./CommandParts.ts"
import { withDemoKeyRevocation } from "./DemoKey.ts"
import { formatMergedRowCounts } from "./RowCountsText.ts"
import { allowSampleDataFlag, confirmMixingWithSamples } from "./SampleMarket.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { formatElapsedTime } from "./terminal/TerminalText.ts"

const maxExamples = 5

const formatExamples = (names: Iterable<string>) => {
  const all = [...names]
  return `${all.slice(0, maxExamples).join(", ")}${all.length > maxExamples ? ", …" : ""}`
}

/**
 * Describes which contents of a file were ignored and why (`skipped`), which of its bars look suspicious, and for how
 * many symbols the trading sessions were recomputed (`corrected`). Returns one line per note. Of the skipped contents,
 * `outside` is a number of bars, and the others are the affected symbols, days, and columns.
 */
const formatNotes = (file: string, { barWarnings, corrected, skipped }: PriceFileResult) => {
  const { closedDays, ignoredColumns, outside, symbols, testSymbols, volumeless } = skipped
  /** Describes bars that were left out for a reason, with examples. Returns an empty list if there are none. */
  const formatLeftOut = (names: Iterable<string>, count: number, noun: string, reason: string) =>
    count === 0 ? [] : [`${file}: left out ${formatCountWithNoun(count, noun)} ${reason}: ${formatExamples(names)}`]
  return [
    ...(ignoredColumns.length === 0 ? [] : [`Columns of ${file} that are not used: ${ignoredColumns.join(", ")}`]),
    ...formatLeftOut(symbols.keys(), symbols.size, "symbol", "that the tables cannot contain"),
    ...formatLeftOut(testSymbols, testSymbols.size, "symbol", "with which the exchanges test their systems"),
    ...formatLeftOut(volumeless, volumeless.size, "symbol", "without volume, as indexes are"),
    ...formatLeftOut(closedDays, closedDays.size, "day", "on which the exchanges are closed"),
    ...(outside === 0 ? [] : [
      `${file}: left out ${
        formatCountWithNoun(outside, "bar")
      } outside of the sessions from 04:00 to 20:00 in New York`,
    ]),
    ...barWarnings.map((warning) => `${file}: ${warning}`),
    ...(corrected === 0 ? [] : [
      `${file}: computed sessions of ${formatCountWithNoun(corrected, "symbol")} again, whose ticker changes, splits ` +
      "or closes have changed",
    ]),
  ]
}

/**
 * Describes which ticker changes are recorded for the wrong day, and which symbols have null values, and why. These
 * facts concern all files around a day, so those in `told` are left out, and the described ones are added to it.
 */
const formatRepeatedNotes = (file: string, { incompleteSymbols, misdated }: PriceFileResult, told: Set<string>) => {
  const isNew = (fact: string) => {
    const wasTold = told.has(fact)
    told.add(fact)
    return !wasTold
  }
  const newSymbols = incompleteSymbols.filter(({ reason, ticker }) => isNew(`${ticker}: ${reason}`))
  return [
    ...misdated.filter(isNew).map((change) => `${file}: ${change}`),
    ...Array.from(Map.groupBy(newSymbols, ({ reason }) => reason), ([reason, rows]) => {
      const symbols = new Set(rows.map(({ ticker }) => ticker))
      return `${file}: values of ${formatCountWithNoun(symbols.size, "symbol")} are null, because of ${reason}: ` +
        formatExamples(symbols)
    }),
  ]
}

type Totals = Map<PriceDataset, ReplacedRowCounts>

const addCounts = (totals: Totals, { merged }: PriceFileResult) => {
  for (const [dataset, counts] of merged) {
    const before = totals.get(dataset)
    totals.set(dataset, before === undefined ? counts : Record.union(before, counts, Number.sum))
  }
}

const formatTotals = (totals: Totals) =>
  Array.from(totals, ([dataset, counts]) => `${dataset}: ${formatMergedRowCounts(counts)}`)

/**
 * Ingests the files one after the other. Without files, only recomputes the trading sessions whose ticker changes,
 * splits, or closes have changed. If a file is rejected, the remaining files are still ingested. Returns the number of
 * bars, the row counts of each dataset, and the number of rejected files. Adds each ingested file to `done` as soon as
 * it is committed, so that the caller can list them even after an interruption.
 */
const ingestFiles = Effect.fnUntraced(
  function* (files: ReadonlyArray<string>, options: PriceIngestOptions, done: Array<string>) {
    const totals: Totals = new Map()
    // Facts that were printed for an earlier file, and are not repeated.
    const told = new Set<string>()
    let [bars, refused] = [0, 0]
    // `undefined` stands for an ingest without a file, which only recomputes.
    for (const file of files.length === 0 ? [undefined] : files) {
      // The demo key is for the sample data only: with the first rows of the operator's own data, it is revoked.
      const result = yield* withProgressDisplay(withDemoKeyRevocation(ingestPriceFile(file, options))).pipe(
        Effect.catchTag(
          ["BarFileRefused", "PartialDayRefused", "UnreadableLoadFile"],
          ({ message }) => Effect.as(Console.error(message), undefined),
        ),
      )
      if (result === undefined) {
        refused += 1
        continue
      }
      if (file !== undefined) done.push(file)
      bars += result.bars
      addCounts(totals, result)
      const label = file ?? "Corrections"
      const notes = [...formatNotes(label, result), ...formatRepeatedNotes(label, result, told)]
      if (notes.length > 0) yield* Console.error(notes.join("\n"))
    }
    return { totals, bars, refused }
  },
)

/** `ingest prices`: ingests price bar files. */
export const ingestPricesCommand = Command.make(
  "prices",
  {
    files: Argument.Path("file").pipe(
      Argument.withDescription(
        "Files with minute or day bars: .csv, .csv.gz, .csv.zst or .parquet. Without a file, only the sessions are " +
          "computed again whose ticker changes, splits or closes have changed",
      ),
      Argument.variadic({ min: 0 }),
    ),
    datasets: makeFlag("only", Schema.String, "Datasets to fill, separated by commas (default: all that prices fill)")
      .pipe(Flag.mapEffect(makeDatasetListParser("Prices", priceDatasets)), Flag.withDefault(priceDatasets)),
    check: makeBooleanFlag("check", "Only check whether the files can be ingested, and change nothing"),
    allowEmpty: makeBooleanFlag("allow-empty", "Accept files without bars to ingest"),
    yes: allowSampleDataFlag,
  },
  Effect.fnUntraced(function* ({ allowEmpty, check, datasets, files, yes }) {
    const path = yield* Path.Path
    // Vendors include the day in file names, so files sorted by name are in chronological order, and the previous close
    // is always loaded first.
    const sorted = files.toSorted((one, other) => path.basename(one).localeCompare(path.basename(other), "en"))
    const done: Array<string> = []
    const run = Effect.timed(ingestFiles(sorted, { allowEmpty, check, datasets }, done))
    const [duration, { bars, refused, totals }] = yield* Effect.andThen(confirmMixingWithSamples(yes || check), run)
      .pipe(
        Effect.onInterrupt(() =>
          Console.error(
            check
              ? "Interrupted. Nothing was changed."
              : `Interrupted. Ingested: ${done.length} of ${formatCountWithNoun(files.length, "file")}` +
                `${done.length === 0 ? "" : ` (${done.join(", ")})`}. To continue, repeat the command.`,
          )
        ),
        Effect.provide(migratedDatabaseClientLayer),
      )
    const time = formatElapsedTime(Duration.toSeconds(duration))
    yield* Console.log(
      [
        ...formatTotals(totals),
        files.length === 0
          ? `No file was given, so only ticker changes, splits, closes and counts were applied, in ${time}`
          : `${formatCountWithNoun(done.length, "file")}, ${formatCountWithNoun(bars, "bar")}, in ${time}`,
        ...(check ? ["Nothing was changed."] : []),
      ].join("\n"),
    )
    if (refused > 0) {
      const message = `Refused ${refused} of ${formatCountWithNoun(files.length, "file")}; see above.`
      return yield* new CommandFailed({ message })
    }
  }),
).pipe(
  Command.withDescription("Compute prices, gaps, session statistics and runners from minute or day bars"),
  withExamples({
    "ingest prices 2026-06-01.csv.gz": "Ingest a day of minute bars",
    "ingest prices flatfiles/*.csv.gz --only gap-stats,screener": "Fill two datasets",
    "ingest prices bars.parquet --check": "Check a file",
    "ingest prices": "Apply ticker changes, splits, closes and counts that were loaded after the prices",
  }),
)
