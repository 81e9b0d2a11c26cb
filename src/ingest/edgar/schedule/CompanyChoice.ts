/** Selects the companies that a run visits: those with new filings and those with queued documents (decision 0105). */
import { Effect, Predicate, Result } from "effect"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { formatNameSuggestion } from "../../../contract/rules/Suggestions.ts"
import { type DailyIndexFiling, decodeDailyIndex } from "../fetch/DailyIndex.ts"
import { type DocumentDownloader, setDocumentAside } from "../fetch/DocumentDownloader.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import type { CacheValidators } from "../fetch/EdgarClient.ts"
import { buildDailyIndexUrl, buildSubmissionsUrl, tickerListUrl } from "../fetch/EdgarUrls.ts"
import { datasetsFromCompanyFilings } from "./IngestedDatasets.ts"
import { type IngestOptions, IngestRefused, type ResolvedOptions } from "./IngestOptions.ts"
import type { IngestReport } from "./IngestReport.ts"
import * as State from "../store/IngestState.ts"
import * as Work from "../store/IngestWork.ts"
import type { Issuer } from "../read/Issuer.ts"
import type { ListedTicker } from "../read/TickerList.ts"
import { subtractDays } from "../store/PendingFilings.ts"
import { addSymbolPeriods, assignSymbols, readOwnersOfSymbols, type SymbolAssignment } from "../store/PrimarySymbols.ts"
import { requeueCompaniesWithNewCloses } from "../store/StoredCounts.ts"
import { downloadTickerList } from "../store/TickerListUpdates.ts"
import { makeFileSpellings } from "../../load/SymbolSpellings.ts"

/** Maximum number of past daily indexes to read. After a longer gap, all companies are visited. */
const maxIndexDays = 30

/** Number of days before the last run whose indexes are read again, because the SEC may add late filings to them. */
const lateIndexDays = 7

/**
 * Finds the companies that have or had these symbols. Reports symbols that are not in the SEC's list, and fails if none
 * of them is.
 */
const findCompanies = Effect.fnUntraced(function* (
  issuers: ReadonlyArray<Issuer>,
  tickers: ReadonlyArray<string>,
  { scheduled }: Pick<IngestOptions, "scheduled">,
  report: IngestReport,
) {
  const byCik = new Map(issuers.map((issuer) => [issuer.cik, issuer]))
  const owners = yield* readOwnersOfSymbols(tickers)
  const byTicker = new Map([
    ...owners.flatMap(({ alias, cik }) => {
      const issuer = byCik.get(cik)
      return issuer === undefined ? [] : [[alias, issuer] as const]
    }),
    ...issuers.map((issuer) => [issuer.ticker, issuer] as const),
    ...issuers.flatMap((issuer) => issuer.tickers.map((ticker) => [ticker, issuer] as const)),
  ])
  const setting = scheduled ? "EDGAR_TICKERS: " : ""
  for (const ticker of tickers) {
    if (byTicker.has(ticker)) continue
    const message = `${setting}The SEC's ticker list has no ${ticker}.${
      formatNameSuggestion(ticker, [...byTicker.keys()])
    } It lists companies whose shares are traded now.`
    report.unlisted.push(message)
    if (scheduled) yield* Effect.logWarning(message)
  }
  const chosen = new Set(tickers.map((ticker) => byTicker.get(ticker)))
  const companies = issuers.filter((issuer) => chosen.has(issuer))
  const [message] = report.unlisted
  return companies.length === 0 && message !== undefined ? yield* new IngestRefused({ message }) : companies
})

/** For companies requested by a secondary symbol, returns notes that state which symbol the rows carry. */
const describePrimarySymbols = (companies: ReadonlyArray<Issuer>, tickers: ReadonlyArray<string>) =>
  tickers.flatMap((ticker) => {
    const issuer = companies.find(({ tickers }) => tickers.includes(ticker))
    return issuer === undefined || issuer.ticker === ticker
      ? []
      : [`${ticker} is a symbol of ${issuer.name}, whose rows carry ${issuer.ticker}.`]
  })

/**
 * For symbols that the SEC's list assigns to several companies, returns notes that state which company gets the rows.
 */
const describeContestedSymbols = ({ contested }: SymbolAssignment, tickers: ReadonlyArray<string> | null) => {
  const describe = ({ cik, name }: ListedTicker) => `${name} (CIK ${cik})`
  return contested.filter(({ ticker }) => tickers === null || tickers.includes(ticker)).map(
    ({ others, owner, ticker }) =>
      `The SEC's ticker list has ${ticker} for several companies. Its rows are those of ${
        describe(owner)
      }, not those ` +
      `of ${others.map(describe).join(" and ")}.`,
  )
}

/** The content of daily indexes, and what to store about the indexes once all companies are visited. */
class IndexRead {
  /** Filings in the indexes, by company CIK. */
  readonly filings = new Map<string, Array<DailyIndexFiling>>()
  /** Queue entries of indexes that can be deleted once all companies are visited. */
  readonly done: Array<Work.WorkKey> = []
  /**
   * Validators that make the next request for an index conditional, keyed by the index URL and the run's datasets. They
   * are stored only after all companies are visited. If the run fails before that, the next run must read the indexes
   * again.
   */
  readonly validators = new Map<string, CacheValidators>()
  readonly setAside: Array<Work.SetAside> = []
}

/** Returns the day of a daily index, or undefined if the URL is for another document. */
const findIndexDay = (url: string) => {
  const [, ...parts] = /\/master\.(\d{4})(\d\d)(\d\d)\.idx$/.exec(url) ?? []
  return parts.length === 0 ? undefined : parts.join("-")
}

/**
 * Reads the filings in the daily indexes for these days. Skips an index that has not changed since a run that visited
 * its companies for the same datasets. An index that cannot be read is queued for a later attempt.
 */
const readIndexes = Effect.fnUntraced(
  function* (
    days: ReadonlyArray<string>,
    datasets: ReadonlyArray<string>,
    { requestDocument }: DocumentDownloader,
    report: IngestReport,
  ) {
    const read = new IndexRead()
    for (const day of days) {
      const url = buildDailyIndexUrl(day)
      const name = `${url} ${datasets.toSorted().join(",")}`
      const validators = yield* State.readCacheValidators(name)
      const response = yield* requestDocument(url, { validators })
      // A missing index is not an error: there is none on weekends and holidays, and the current day's index appears in
      // the evening.
      if (Result.isFailure(response) && !response.failure.isMissing) {
        read.setAside.push(response.failure.setAside)
        continue
      }
      if (Result.isSuccess(response) && response.success._tag === "Found") {
        const entries = decodeDailyIndex(response.success.text, url)
        if (Result.isFailure(entries)) {
          read.setAside.push(setDocumentAside("rejected", entries.failure))
          continue
        }
        report.documents += 1
        for (const [cik, filings] of Map.groupBy(entries.success, ({ cik }) => cik)) {
          read.filings.set(cik, [...read.filings.get(cik) ?? [], ...filings])
        }
        read.validators.set(name, response.success.validators)
      }
      read.done.push({ url, dataset: "" })
    }
    return read
  },
)

/** Returns the days from the first through the last. The list is empty if the last day precedes the first. */
const listDays = (firstDay: string, lastDay: string): ReadonlyArray<string> =>
  firstDay > lastDay ? [] : [firstDay, ...listDays(subtractDays(firstDay, -1), lastDay)]

/**
 * Selects the companies to visit. Without `tickers`, these are companies with queued documents, new companies, and
 * companies in the daily indexes since the last run over all companies. Selects all companies and sets `isFirstLoad` if
 * there was no such run, if it is too long ago, or if the rows are written to files.
 */
const chooseCompanies = Effect.fnUntraced(
  function* (
    issuers: ReadonlyArray<Issuer>,
    options: Pick<ResolvedOptions, "datasets" | "scheduled" | "since" | "target" | "tickers">,
    day: string,
    downloader: DocumentDownloader,
    report: IngestReport,
  ) {
    if (options.tickers !== null) {
      return {
        companies: yield* findCompanies(issuers, options.tickers, options, report),
        isFirstLoad: false,
        indexes: new IndexRead(),
      }
    }
    const datasets = options.datasets.filter((name) => datasetsFromCompanyFilings.some((one) => one === name))
    const lastDay = yield* State.findLastRunDayOfAllCompanies(datasets)
    const firstDay = lastDay === undefined ? undefined : subtractDays(lastDay, lateIndexDays)
    const queued = (yield* Work.readDueWorkWithoutCompany).flatMap((url) => findIndexDay(url) ?? [])
    const writesFiles = Predicate.isObject(options.target)
    if (writesFiles || firstDay === undefined || firstDay < subtractDays(day, maxIndexDays)) {
      const done = queued.map((day) => ({ url: buildDailyIndexUrl(day), dataset: "" }))
      return { companies: issuers, isFirstLoad: true, indexes: { ...new IndexRead(), done } }
    }
    const days = new Set([...queued, ...listDays(firstDay, day)])
    const indexes = yield* readIndexes(Array.from(days).toSorted(), datasets, downloader, report)
    const due = yield* Work.readCompaniesWithDueWork("decided", "absent", "rejected")
    const known = yield* State.readIngestedCompanies(datasets, options.since)
    const [queuedFirst, others] = [
      issuers.filter(({ cik }) => due.has(cik)),
      issuers.filter(({ cik }) => !due.has(cik) && (!known.has(cik) || indexes.filings.has(cik))),
    ]
    return { companies: [...queuedFirst, ...others], isFirstLoad: false, indexes }
  },
)

/** Builds the retry queue entry for a document that cannot be read because its company is not in the ticker list. */
const setUnlistedAside = (url: string) =>
  setDocumentAside(
    "absent",
    new DocumentRejected({ url, reason: "is about a company that the SEC's ticker list lacks" }),
  )

/** Maximum number of queued forms of unlisted companies that one run postpones. */
const maxUnlistedForms = 5_000

/**
 * Postpones the due queue entries of companies that are no longer in the ticker list. Visiting a company requires its
 * entry in the list.
 */
const findWorkOfUnlistedCompanies = Effect.fnUntraced(
  function* (issuers: ReadonlyArray<Issuer>) {
    const due = yield* Work.readCompaniesWithDueWork("instance", "decided", "absent", "rejected")
    const unlisted = due.difference(new Set(issuers.map(({ cik }) => cik)))
    const work = yield* Effect.forEach(unlisted, (cik) => Work.readCompanyWork(cik, false))
    return work.flat().filter(({ isDue }) => isDue)
      .map(({ dataset, url }): Work.SetAside => ({ ...setUnlistedAside(url), dataset }))
  },
)

/**
 * Postpones indexed filings of stored companies that are missing from the ticker list. Companies are often missing for
 * only a day, so the filings stay queued until the company is listed again.
 */
const findFilingsOfUnlistedCompanies = ({ issuers, stored }: SymbolAssignment, { filings }: IndexRead) => {
  const listed = new Set(issuers.map(({ cik }) => cik))
  return Array.from(filings).flatMap(([cik, named]) =>
    listed.has(cik) || !stored.has(cik)
      ? []
      : named.map(({ accession }) => setUnlistedAside(`${buildSubmissionsUrl(cik)}#${accession}`))
  )
}

/**
 * Downloads the ticker list and compares it with the stored companies. Adds notes for the operator to the report. If an
 * older copy of the list had to be used, `rejections` contains the reasons.
 */
const readTickerList = Effect.fnUntraced(
  function* (
    { scheduled, target }: ResolvedOptions,
    day: string,
    tickers: ReadonlyArray<string> | null,
    report: IngestReport,
  ) {
    const { day: listDay, list, rejections, unreadable } = yield* downloadTickerList(day, target === "load")
    if (unreadable > 0) {
      report.notes.push(`Unreadable rows of the SEC's ticker list, which were left out: ${unreadable}.`)
    }
    const assignment = yield* assignSymbols(list, listDay)
    const contested = describeContestedSymbols(assignment, tickers)
    report.notes.push(...contested)
    if (scheduled) { for (const message of contested) yield* Effect.logWarning(message) }
    return { assignment, rejections }
  },
)

/**
 * Finds the forms that earlier runs have queued. Returns the companies with such forms that would otherwise not be
 * visited, and the queued forms of companies that are not in the ticker list.
 */
const findQueuedForms = Effect.fnUntraced(
  function* (
    issuers: ReadonlyArray<Issuer>,
    chosen: ReadonlyArray<Issuer>,
    datasets: ResolvedOptions["datasets"],
  ) {
    const counts = yield* Work.countDeferredForms(datasets)
    const unlisted = Array.from(new Set(counts.keys()).difference(new Set(issuers.map(({ cik }) => cik))))
    return {
      issuers: issuers.filter((issuer) => counts.has(issuer.cik) && !chosen.includes(issuer)),
      unlistedForms: unlisted.length === 0 ? [] : yield* Work.readDeferredForms(unlisted, datasets, maxUnlistedForms),
    }
  },
)

/**
 * Returns the completed queue entries for the ticker list and for the symbol changes inferred from it. Every run reads
 * the list and infers the changes again, so these entries are completed unless the list has been rejected again.
 */
const findTickerListWork = Effect.fnUntraced(
  function* (datasets: ResolvedOptions["datasets"], isRejected: boolean) {
    const list: ReadonlyArray<Work.WorkKey> = isRejected ? [] : [{ url: tickerListUrl, dataset: "" }]
    if (!datasets.includes("ticker_changes")) return list
    const urls = (yield* Work.readDueWorkWithoutCompany).filter((url) => url.startsWith(`${tickerListUrl}#`))
    return [...list, ...urls.map((url) => ({ url, dataset: "ticker_changes" }))]
  },
)

/** Reads the ticker list and selects the companies to visit. */
export const prepareVisits = Effect.fnUntraced(
  function* (options: ResolvedOptions, runId: number, downloader: DocumentDownloader, report: IngestReport) {
    const { datasets, interrupted, target } = options
    const { learn, spell } = yield* makeFileSpellings()
    yield* learn(options.tickers ?? [])
    const tickers = options.tickers?.map(spell) ?? null
    const day = yield* todayInNewYork
    const { assignment, rejections } = yield* readTickerList(options, day, tickers, report)
    const { issuers } = assignment

    if (target === "load") yield* Effect.andThen(Work.requeueWorkOfOlderParsers, requeueCompaniesWithNewCloses)
    const retries = target === "load" && options.retryRejected === true
    // Without `tickers`, the due entries determine which companies are selected, so entries must become due before the
    // selection. With `tickers`, only the selected companies' entries become due, so the selection comes first.
    if (retries && tickers === null) yield* Work.requeueAllWork(null)
    const { companies: chosen, indexes, isFirstLoad } = yield* chooseCompanies(
      issuers,
      { ...options, tickers },
      day,
      downloader,
      report,
    )
    if (retries && tickers !== null) yield* Work.requeueAllWork(chosen.map(({ cik }) => cik))

    const queuedForms = target === "load" && tickers === null
      ? yield* findQueuedForms(issuers, chosen, datasets)
      : { issuers: [], unlistedForms: [] }
    const known = yield* addSymbolPeriods(assignment, [...chosen, ...queuedForms.issuers], target === "load")
    const companies = known.slice(0, chosen.length)
    report.notes.push(...describePrimarySymbols(companies, tickers ?? []))
    const completed = interrupted === undefined ? new Set() : yield* State.readCompaniesCompletedByRun(runId)
    const due = yield* Work.readCompaniesWithDueWork("decided", "absent", "rejected")
    return {
      /** The companies to visit. A resumed run skips completed companies unless they have due entries. */
      companies: companies.filter(({ cik }) => !completed.has(cik) || due.has(cik)),
      /** Companies whose queued forms are downloaded after the visits, by CIK. */
      formIssuers: new Map(known.map((issuer) => [issuer.cik, issuer])),
      indexes,
      isFirstLoad,
      /** Queue entries that are already completed. */
      done: yield* findTickerListWork(datasets, rejections.length > 0),
      setAside: [...rejections.map((rejection) => setDocumentAside("absent", rejection)), ...indexes.setAside],
      /** Queued documents of companies that are not in the ticker list. They are postponed without being requested. */
      unlistedWork: [
        ...(tickers === null && !isFirstLoad ? yield* findWorkOfUnlistedCompanies(issuers) : []),
        ...findFilingsOfUnlistedCompanies(assignment, indexes),
        ...queuedForms.unlistedForms.map(({ url }) => setUnlistedAside(url)),
      ],
    }
  },
)
