/** The options of an ingest. If it continues an interrupted run, some of them come from that run. */
import { Config, Data, Effect, Schema } from "effect"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { tickerPattern } from "../../../contract/rules/Tickers.ts"
import { type IngestedDataset, ingestedDatasets } from "./IngestedDatasets.ts"
import * as State from "../store/IngestState.ts"
import { subtractDays } from "../store/PendingFilings.ts"

/** The ingest cannot run as requested. The message tells an operator why. */
export class IngestRefused extends Data.TaggedError("IngestRefused")<{ readonly message: string }> {}

/** What to ingest, and where the rows go. */
export interface IngestOptions {
  /** Symbols of the companies; null for the whole ticker list; undefined for the companies of the interrupted run. */
  readonly tickers: ReadonlyArray<string> | null | undefined
  readonly datasets: ReadonlyArray<IngestedDataset>
  /** Filings of this day and later are ingested, `YYYY-MM-DD`. */
  readonly since: string
  /** Whether to continue the newest run that has not visited all of its companies, if there is one. */
  readonly resume: boolean
  /** `load` loads the rows; `dry-run` only reads lists of filings, and counts; `folder` receives the rows as files. */
  readonly target: "load" | "dry-run" | { readonly folder: string }
  /** Whether INGEST_EDGAR starts the run, and not a person. */
  readonly scheduled: boolean
  /** Whether to request all documents that earlier runs set aside, even those that were given up. */
  readonly retryRejected?: boolean
  /** The folder with the SEC's nightly archives, which are read instead of requesting their documents. */
  readonly archives?: string | undefined
}

/** The default for `IngestOptions.since`: a year ago. */
export const getDefaultIngestStartDate = Effect.map(todayInNewYork, (today) => subtractDays(today, 365))

/** Parses symbols separated by commas, and writes share classes with a hyphen, as the SEC does: `BRK-B`. */
export const parseTickers = (text: string): ReadonlyArray<string> =>
  text.split(",").map((ticker) => ticker.trim().toUpperCase().replaceAll(".", "-")).filter((ticker) => ticker !== "")

/** A text with symbols of companies, separated by commas. */
export const Companies = Schema.String.check(
  Schema.makeFilter((text) => {
    const tickers = parseTickers(text)
    return tickers.length > 0 && tickers.every((ticker) => tickerPattern.test(ticker))
  }, { message: "must be symbols, separated by commas" }),
)

/**
 * `EDGAR_TICKERS`, the symbols of the companies that the scheduled ingest covers; null for all companies, if it is
 * `all` or not set. `ALL` in capitals also means all companies, although it is a symbol.
 */
export const EdgarTickersConfig = Config.schema(Companies, "EDGAR_TICKERS").pipe(
  Config.map((text) => text.trim().toLowerCase() === "all" ? null : parseTickers(text)),
  Config.withDefault(null),
)

/**
 * Returns the options with which to run: with `resume`, the companies, datasets and first day come from the
 * interrupted run. Fails if there is no such run and no companies are given, or if the options contradict that run.
 */
export const resolveOptions = Effect.fnUntraced(function* (options: IngestOptions) {
  const found = options.resume ? yield* State.findUnfinishedIngestRun(options.scheduled) : undefined
  const coversSame = options.tickers === undefined || String(options.tickers) === String(found?.tickers)
  // If EDGAR_TICKERS has changed since the interruption, a scheduled run starts from the beginning.
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

/** The options of a run, and in `interrupted` the run that it continues. */
export type ResolvedOptions = Effect.Success<ReturnType<typeof resolveOptions>>
