/** The options of an ingest, and those of the interrupted run that it continues. */
import { Config, Data, Effect, Schema } from "effect"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { tickerPattern } from "../../../contract/rules/Tickers.ts"
import { type IngestedDataset, ingestedDatasets } from "./IngestedDatasets.ts"
import * as State from "../store/IngestState.ts"
import { subtractDays } from "../store/PendingFilings.ts"

export class IngestRefused extends Data.TaggedError("IngestRefused")<{ readonly message: string }> {}

export interface IngestOptions {
  /** Symbols of the companies; null for the whole ticker list; undefined for the companies of the interrupted run. */
  readonly tickers: ReadonlyArray<string> | null | undefined
  readonly datasets: ReadonlyArray<IngestedDataset>
  /** Filings of this day and later are ingested, `YYYY-MM-DD`. */
  readonly since: string
  /** Continues the newest run if it did not succeed. */
  readonly resume: boolean
  /** `load` loads rows into the tables; `dry-run` only reads lists of filings; `folder` receives the rows as files. */
  readonly target: "load" | "dry-run" | { readonly folder: string }
  readonly scheduled: boolean
  /** Requests all documents that earlier runs set aside, including those that were rejected for good. */
  readonly retryRejected?: boolean
  /** The folder with the SEC's nightly archives, which are read instead of requesting their documents. */
  readonly archives?: string | undefined
}

/** The default for `IngestOptions.since`: a year ago. */
export const getDefaultIngestStartDate = Effect.map(todayInNewYork, (today) => subtractDays(today, 365))

/** Parses symbols separated by commas, and writes share classes with a hyphen, as the SEC does: `BRK-B`. */
export const parseTickers = (text: string): ReadonlyArray<string> =>
  text.split(",").map((ticker) => ticker.trim().toUpperCase().replaceAll(".", "-")).filter((ticker) => ticker !== "")

/** Symbols of companies, separated by commas. */
export const Companies = Schema.String.check(
  Schema.makeFilter((text) => {
    const tickers = parseTickers(text)
    return tickers.length > 0 && tickers.every((ticker) => tickerPattern.test(ticker))
  }, { message: "must be symbols, separated by commas" }),
)

/**
 * Symbols of the companies that the scheduled ingest covers; null for all companies, as for the value `all`, even in
 * capitals, although `ALL` is also a symbol.
 */
export const EdgarTickersConfig = Config.schema(Companies, "EDGAR_TICKERS").pipe(
  Config.map((text) => text.trim().toLowerCase() === "all" ? null : parseTickers(text)),
  Config.withDefault(null),
)

/** Returns the options of the interrupted run if it is continued, and otherwise the given options. */
export const resolveOptions = Effect.fnUntraced(function* (options: IngestOptions) {
  const found = options.resume ? yield* State.findUnfinishedIngestRun(options.scheduled) : undefined
  const isSame = options.tickers === undefined || String(options.tickers) === String(found?.tickers)
  // If EDGAR_TICKERS has changed since the interruption, a scheduled run starts from the beginning.
  const interrupted = isSame || !options.scheduled ? found : undefined
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
  if (!isSame) {
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

export type ResolvedOptions = Effect.Success<ReturnType<typeof resolveOptions>>
