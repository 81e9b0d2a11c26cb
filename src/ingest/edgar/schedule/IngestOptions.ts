/** Options of an ingest run. If it resumes an interrupted run, some of them come from that run. */
import { Config, Data, Effect, Schema } from "effect"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { tickerPattern } from "../../../contract/rules/Tickers.ts"
import { type IngestedDataset, ingestedDatasets } from "./IngestedDatasets.ts"
import * as State from "../store/IngestState.ts"
import { subtractDays } from "../store/PendingFilings.ts"

/** The ingest cannot run as requested. The message explains the reason to an operator. */
export class IngestRefused extends Data.TaggedError("IngestRefused")<{ readonly message: string }> {}

/** Options that specify what to ingest and where to put the rows. */
export interface IngestOptions {
  /**
   * Symbols of the companies to ingest. Null means the whole ticker list. Undefined means the companies of the run that
   * is resumed.
   */
  readonly tickers: ReadonlyArray<string> | null | undefined
  readonly datasets: ReadonlyArray<IngestedDataset>
  /** First filing date to ingest, `YYYY-MM-DD`. */
  readonly since: string
  /** Whether to resume the newest run that has ended without visiting all of its companies, if there is one. */
  readonly resume: boolean
  /**
   * Destination of the rows: `load` loads them into the database, `dry-run` only counts what would be downloaded, and
   * `folder` writes the rows to files in this folder.
   */
  readonly target: "load" | "dry-run" | { readonly folder: string }
  /** Whether the schedule in the setting INGEST_EDGAR has started the run, as opposed to a person. */
  readonly scheduled: boolean
  /** Whether to request all documents that failed in earlier runs, including those that were given up. */
  readonly retryRejected?: boolean
  /** Folder with the SEC's nightly archives. Documents in the archives are not requested from the SEC. */
  readonly archives?: string | undefined
}

/** The default for `IngestOptions.since`: 365 days ago. */
export const getDefaultIngestStartDate = Effect.map(todayInNewYork, (today) => subtractDays(today, 365))

/** Parses comma-separated symbols. Writes share classes with a hyphen, as the SEC does (`BRK-B`). */
export const parseTickers = (text: string): ReadonlyArray<string> =>
  text.split(",").map((ticker) => ticker.trim().toUpperCase().replaceAll(".", "-")).filter((ticker) => ticker !== "")

/** Schema for text with comma-separated symbols of companies. */
export const TickerListText = Schema.String.check(
  Schema.makeFilter((text) => {
    const tickers = parseTickers(text)
    return tickers.length > 0 && tickers.every((ticker) => tickerPattern.test(ticker))
  }, { message: "must be symbols, separated by commas" }),
)

/**
 * `EDGAR_TICKERS`: the symbols of the companies that the scheduled ingest covers, or null for all companies if the
 * setting is `all` or absent. `ALL` in capitals also means all companies, although it is a valid symbol.
 */
export const EdgarTickersConfig = Config.schema(TickerListText, "EDGAR_TICKERS").pipe(
  Config.map((text) => text.trim().toLowerCase() === "all" ? null : parseTickers(text)),
  Config.withDefault(null),
)

/**
 * Returns the effective options of the run. With `resume`, the companies, datasets, and first filing date come from the
 * interrupted run, which is returned as `interrupted`. Fails if there is no such run and no companies are specified, or
 * if the options contradict that run.
 */
export const resolveIngestOptions = Effect.fnUntraced(function* (options: IngestOptions) {
  const found = options.resume ? yield* State.findUnfinishedIngestRun(options.scheduled) : undefined
  // `tickers` is undefined if no companies are specified, and null for all companies. Lists are compared as text.
  const coversSame = options.tickers === undefined || String(options.tickers) === String(found?.tickers)
  // If EDGAR_TICKERS has changed since the interruption, a scheduled run starts over.
  const interrupted = coversSame || !options.scheduled ? found : undefined
  if (interrupted === undefined) {
    if (options.tickers !== undefined) return { interrupted, ...options, tickers: options.tickers }
    return yield* new IngestRefused({
      message: "There is no interrupted run to resume. Start one with --tickers or --all.",
    })
  }
  const { datasets, since, tickers } = interrupted
  if (tickers !== null && options.archives !== undefined) {
    return yield* new IngestRefused({
      message: `The interrupted run covers ${tickers.join(",")}, but --archives is for all companies. Omit --archives.`,
    })
  }
  if (!coversSame) {
    return yield* new IngestRefused({
      message: `The interrupted run covers ${tickers === null ? "all companies" : tickers.join(",")}. ` +
        "To continue it, run the command again with --resume but without --tickers or --all; to start a new run, " +
        "omit --resume.",
    })
  }
  return {
    ...options,
    interrupted,
    tickers,
    since,
    datasets: ingestedDatasets.filter((name) => datasets.includes(name)),
  }
})

/** The effective options of a run. `interrupted` is the run that it resumes, if any. */
export type ResolvedIngestOptions = Effect.Success<ReturnType<typeof resolveIngestOptions>>
