/** Ingests price bar files, each in one transaction (decision 0127). */
import { Data, Effect, Ref, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { retryLostConnection } from "../../postgres/DatabaseReconnection.ts"
import { BeforeLoadCommit, loadComputedRows } from "../load/DatasetLoad.ts"
import type { IncompleteSymbol } from "../load/MarketCaps.ts"
import { acquireTableLoadLocks, type ReplacedRowCounts } from "../load/LoadingTable.ts"
import { type FileSpellings, makeFileSpellings } from "../load/SymbolSpellings.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { BarFileRefused, makeSkippedBars, readBars, type SkippedBars } from "./BarFile.ts"
import {
  addDependentSessions,
  type ConflictingCloses,
  type ContradictedDay,
  createBarTables,
  findBarLength,
  findConflictingCloses,
  findContradictedDays,
  findShortenedDays,
  findUnfinishedDays,
  hasEndTimestamps,
  mergePeriods,
  minReportedSymbols,
  removeMidnightBars,
  type ShortenedDay,
  storeBars,
  storeBarSpellings,
  sumBars,
  type UnfinishedDay,
} from "./PricePeriodSql.ts"
import {
  computedRows,
  computeVolumes,
  findMissingDays,
  findPreviousCloses,
  markSessionsWithChangedCloses,
  type PriceDataset,
  priceDatasets,
} from "./PriceRows.ts"
import {
  addCorrectedSessions,
  addSessionsOfDisprovedSplits,
  findContradictedSplits,
  findCorrections,
  findMarketCaps,
  findMisdatedTickerChanges,
  findNewestCloses,
  findPeriodsBefore,
  findSecurities,
  type MisdatedChange,
  storeMarketCaps,
} from "./SecurityPeriods.ts"

/** What to compute from the files, and how. */
export interface PriceIngestOptions {
  /** The datasets to fill. All other datasets stay unchanged. */
  readonly datasets: ReadonlyArray<PriceDataset>
  /** Validates the file and computes all rows, but changes nothing. */
  readonly check: boolean
  /** Accepts a file that contains no bars to ingest. */
  readonly allowEmpty: boolean
}

/** The result of ingesting one file. With `check`, this is what the ingest would have done. */
export interface PriceFileResult {
  /** The number of bars that were not skipped, including repeated bars. */
  readonly bars: number
  readonly skipped: SkippedBars
  /** Warnings about what the file's bars leave uncertain, as sentences. */
  readonly barWarnings: ReadonlyArray<string>
  /** Warnings about ticker changes that are recorded for the wrong day, as sentences. */
  readonly misdated: ReadonlyArray<string>
  /** The number of rows added, updated and so on, by dataset. */
  readonly merged: ReadonlyMap<PriceDataset, ReplacedRowCounts>
  /** Symbols for which some values are null, with the reason. */
  readonly incompleteSymbols: ReadonlyArray<IncompleteSymbol>
  /** The number of symbols whose sessions were recomputed because ticker changes, splits or closes have changed. */
  readonly corrected: number
}

/** The file covers less of a day than the previously ingested bars, so none of its bars were ingested. */
export class PartialDayRefused extends Data.TaggedError("PartialDayRefused")<{ readonly message: string }> {}

/** The error that aborts the transaction of a file that is only checked, so that everything is rolled back. */
class CheckPassed extends Data.TaggedError("CheckPassed")<{ readonly result: PriceFileResult }> {}

/** Formats minutes after midnight as a time, such as `09:30`. */
const formatMinute = (minute: number) =>
  `${String(Math.floor(minute / 60)).padStart(2, "0")}:${String(minute % 60).padStart(2, "0")}`

const refusePartialDay = (file: string, day: ShortenedDay) =>
  new PartialDayRefused({
    message: `${file} was refused, so none of its bars was ingested: its bars of ${day.date} start from ` +
      `${formatMinute(day.first_minute)} to ${formatMinute(day.last_minute)} in New York, but bars from ` +
      `${formatMinute(day.known_first_minute)} to ${formatMinute(day.known_last_minute)} were ingested before. The ` +
      "results of a day are computed from all of its bars, so a file must have the whole day. Join the files that " +
      "have parts of it and ingest the result. If the shorter day is correct, see docs/operations/ingest-prices.md.",
  })

/** The maximum number of symbols or days that a message lists. */
const maxListed = 20

/** Lists symbols or days, separated by commas. The rest of a long list is replaced by an ellipsis. */
const formatExamples = (texts: ReadonlyArray<string>) =>
  texts.slice(0, maxListed).join(", ") + (texts.length > maxListed ? ", …" : "")

const refuseEmptyFile = (file: string, { closedDays, outside, symbols, testSymbols, volumeless }: SkippedBars) => {
  /** Formats the number of symbols or days, and names them. */
  const list = (names: Iterable<string>) => {
    const all = [...names]
    return all.length === 0 ? "0" : `${all.length} (${formatExamples(all)})`
  }
  return new BarFileRefused({
    message:
      `${file} was refused, because it has no bars to ingest. Bars outside of the sessions from 04:00 to 20:00 ` +
      `in New York: ${outside}; symbols that the tables cannot contain: ${list(symbols.keys())}; test symbols: ` +
      `${list(testSymbols)}; symbols without volume: ${list(volumeless)}; days on which the exchanges are closed: ` +
      `${list(closedDays)}. If that is intended, add --allow-empty.`,
  })
}

/**
 * Returns a warning about a day on which the bars contradict the early closes known in advance, and what was assumed:
 *
 * - `is_half_day`: an early close was scheduled. The cases below are those without one.
 * - `is_known`: bars ingested before have shown an early close.
 * - `closed_early`: the close is taken at 13:00, because enough symbols show that trading nearly stopped then.
 */
const describeDoubtfulDay = ({ closed_early, date, is_half_day, is_known }: ContradictedDay) => {
  if (is_half_day) {
    return `An early close was scheduled for ${date}, but bars show trading after it. The close is taken at 13:00.`
  }
  if (is_known) {
    return `No early close was scheduled for ${date}, but the bars that were ingested before show one. The close is ` +
      "taken at 13:00."
  }
  return `The bars of ${date} show little trading after 13:00, but no early close was scheduled. ${
    closed_early
      ? "Because so many symbols show it, the close is taken at 13:00."
      : "Because they are of few symbols, the close is taken at 16:00. Ingest a file with more symbols, or day bars."
  }`
}

/** Returns a warning about the days whose bars end before the close. */
const describeUnfinishedDays = (days: ReadonlyArray<UnfinishedDay>) =>
  `The bars of these days end before the close, so there is no close of their symbols: ${
    formatExamples(days.map(({ date, last_minute }) => `${date} (${formatMinute(last_minute)})`))
  }. Ingest the whole day once it is over, or its day bars.`

/** Returns a warning about trading days without prices. */
const describeMissingDays = (days: ReadonlyArray<string>) =>
  `There are no prices of these days, on which the exchanges were open: ${formatExamples(days)}. So the previous ` +
  "closes of the days after them are those of earlier days. Ingest the missing days."

/**
 * Returns a warning about symbols that the file lacks. Either they have no close, because an earlier file ended before
 * it, or an earlier file took their close at another time.
 */
const describeMixedCloses = ({ closed_early, date, is_unfinished, symbols }: ConflictingCloses) => {
  const again = `Ingest the bars of ${date} of these symbols again: ${formatExamples(symbols)}`
  if (is_unfinished) {
    return `There is no close of ${date} for ${formatCountWithNoun(symbols.length, "symbol")} that the file lacks, ` +
      `because the bars that were ingested before end earlier. ${again}`
  }
  const [fileClose, earlierClose] = closed_early ? ["13:00", "16:00"] : ["16:00", "13:00"]
  const count = formatCountWithNoun(symbols.length, "symbol")
  return `The close of ${date} is taken at ${fileClose}, but that of ${count} that the file lacks was taken at ` +
    `${earlierClose}. ${again}`
}

const describeMisdatedChange = ({ first_new, last_old, new_ticker, old_ticker, recorded }: MisdatedChange) =>
  `ticker_changes has the change from ${old_ticker} to ${new_ticker} on ${recorded}, but bars show ${old_ticker} ` +
  `until ${last_old} and ${new_ticker} from ${first_new}. The prices follow the bars. Correct the day of the change.`

const endStampsDoubt =
  "Hardly anything was traded in the bars at 09:30 in New York, but there is one at 16:00, so the times seem to be " +
  "the ends of the bars. They must be their starts."

const describeLongBars = (minutes: number) =>
  `All bars start at multiples of ${minutes} minutes, so they seem to be bars of ${minutes} minutes or more. They ` +
  "must be bars of one minute. Otherwise, the first and the last prices of the sessions are wrong."

/** Shows the command's current step in the progress display. */
const startStep = Effect.fnUntraced(function* (label: string) {
  Object.assign(yield* OperationProgress, { label, done: 0, total: undefined, count: 0, unit: "bars" })
})

/** Stores the bars of a file in the table `bars`, and returns how many there were. */
const storeFileBars = Effect.fnUntraced(function* (file: string, spellings: FileSpellings, skipped: SkippedBars) {
  const count = yield* Ref.make(0)
  yield* readBars(file, skipped).pipe(
    // The next batch is read and validated while PostgreSQL stores this one.
    Stream.buffer({ capacity: 1 }),
    Stream.runForEach((batch) =>
      batch.length === 0
        ? Effect.void
        : Effect.andThen(storeBars(batch, spellings), Ref.update(count, (total) => total + batch.length))
    ),
  )
  return yield* Ref.get(count)
})

/**
 * Returns warnings about what the file's bars leave uncertain, as sentences: when the market closed on a day, whether
 * the bars' times are their starts, and whether the bars are of one minute. With `check`, this includes patterns that
 * only a few symbols show.
 */
const listBarWarnings = Effect.fnUntraced(function* ({ check }: PriceIngestOptions) {
  const unfinished = yield* findUnfinishedDays
  const barLength = yield* findBarLength
  return [
    ...(unfinished.length > 0 ? [describeUnfinishedDays(unfinished)] : []),
    ...(yield* findContradictedDays).map(describeDoubtfulDay),
    ...(yield* findConflictingCloses).map(describeMixedCloses),
    ...((yield* hasEndTimestamps(check ? 1 : minReportedSymbols)) ? [endStampsDoubt] : []),
    ...(barLength === undefined ? [] : [describeLongBars(barLength)]),
  ]
})

/**
 * Merges the file's totals into `price_periods`, and finds the sessions whose rows must be computed (the table
 * `touched`) and the securities to which they belong. Returns the number of symbols whose sessions are computed again
 * because other programs have changed ticker changes, splits or closes. The steps run in this order, because each reads
 * what the previous ones have added to `changed` and `touched`.
 */
const mergeSums = Effect.fnUntraced(function* ({ datasets }: PriceIngestOptions) {
  // If this ingest leaves out some datasets, a later ingest must find the corrections again, because those datasets
  // need them too.
  const corrected = yield* findCorrections({ keep: datasets.length < priceDatasets.length })
  yield* findPeriodsBefore
  yield* mergePeriods
  yield* addCorrectedSessions
  yield* addSessionsOfDisprovedSplits
  if (datasets.includes("daily_prices")) yield* markSessionsWithChangedCloses
  yield* findSecurities
  yield* addDependentSessions
  return corrected
})

/**
 * Computes the rows of the sessions in `touched`, and merges them into the datasets to fill. Returns how many rows were
 * added, updated, left unchanged and removed, by dataset.
 */
const computeDatasets = Effect.fnUntraced(function* ({ datasets }: PriceIngestOptions) {
  yield* computeVolumes
  const merged = new Map<PriceDataset, ReplacedRowCounts>()
  for (const dataset of priceDatasets) {
    // `premarket_stats` is the first dataset that reads previous closes. They are known now, because `daily_prices`
    // comes before it, and must be found even if `premarket_stats` itself is not filled.
    if (dataset === "premarket_stats") yield* findPreviousCloses
    if (!datasets.includes(dataset)) continue
    if (dataset === "screener") yield* Effect.andThen(findNewestCloses, findMarketCaps)
    merged.set(dataset, yield* loadComputedRows(dataset, computedRows[dataset]))
  }
  return merged
})

/**
 * Runs all steps of an ingest: stores the bars of the file, sums them, refuses a file that is empty or has only a part
 * of a day, merges the sums, and computes the rows of the datasets. Without a file, there are no bars, and only
 * sessions that other programs' changes affect are computed. Must run in a transaction, which it aborts with
 * `CheckPassed` if the file is only checked.
 */
const ingestInTransaction = Effect.fnUntraced(function* (file: string | undefined, options: PriceIngestOptions) {
  const { allowEmpty, check, datasets } = options
  const label = file ?? "Corrections"
  const skipped = makeSkippedBars()
  const spellings = yield* makeFileSpellings()
  // Prevents concurrent ingests from overwriting each other's totals.
  yield* acquireTableLoadLocks(["price_periods"])
  yield* createBarTables
  yield* startStep(label)
  const stored = file === undefined ? 0 : yield* storeFileBars(file, spellings, skipped)
  // Filling `screener` also updates the market capitalizations in `float_outstanding`.
  yield* acquireTableLoadLocks([...datasets, ...(datasets.includes("screener") ? ["float_outstanding"] : [])])
  yield* storeBarSpellings(spellings)

  yield* startStep(`${label}: summing`)
  // If the file contains minute bars, its bars at midnight are minute bars outside of the sessions.
  const removed = skipped.hasMinutesAtMidnight ? yield* removeMidnightBars : 0
  skipped.outside += removed
  const hasPeriods = yield* sumBars
  if (!hasPeriods && !allowEmpty && file !== undefined) return yield* refuseEmptyFile(file, skipped)
  const barWarnings = yield* listBarWarnings(options)
  const [shortenedDay] = yield* findShortenedDays
  if (shortenedDay !== undefined) return yield* refusePartialDay(label, shortenedDay)
  const corrected = yield* mergeSums(options)
  const missingDays = yield* findMissingDays
  const misdated = (yield* findMisdatedTickerChanges).map(describeMisdatedChange)

  yield* startStep(`${label}: merging`)
  const merged = yield* computeDatasets(options)
  const incompleteSymbols = [
    ...yield* findContradictedSplits,
    ...(datasets.includes("screener") ? yield* storeMarketCaps : []),
  ]
  const result: PriceFileResult = {
    bars: stored - removed,
    skipped,
    barWarnings: missingDays.length === 0 ? barWarnings : [...barWarnings, describeMissingDays(missingDays)],
    misdated,
    merged,
    incompleteSymbols,
    corrected,
  }
  if (check) return yield* new CheckPassed({ result })
  yield* yield* BeforeLoadCommit
  return result
})

/**
 * Ingests a file, either completely or not at all. Fails with `BarFileRefused` if a row is bad or there are no bars to
 * ingest, and with `PartialDayRefused` if the file covers less of a day than the previously ingested bars. Without a
 * file, only recomputes the sessions of securities whose ticker changes, splits or closes have changed since the last
 * ingest.
 */
export const ingestPriceFile = Effect.fnUntraced(function* (file: string | undefined, options: PriceIngestOptions) {
  const sql = yield* SqlClient.SqlClient
  return yield* ingestInTransaction(file, options).pipe(
    sql.withTransaction,
    retryLostConnection,
    Effect.catchTag("CheckPassed", ({ result }) => Effect.succeed(result)),
  )
})
