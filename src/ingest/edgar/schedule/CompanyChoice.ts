/**
 * Selects the companies that a run visits, that is, whose filing lists it downloads: companies with new filings
 * according to the SEC's daily indexes, and companies with documents in the retry queue (decision 0105).
 */
import { Effect, Predicate, Result } from "effect"
import { todayInNewYork } from "../../../contract/rules/Dates.ts"
import { formatNameSuggestion } from "../../../contract/rules/NameSuggestions.ts"
import { type DailyIndexFiling, decodeDailyIndex } from "../fetch/DailyIndex.ts"
import { type DocumentDownloader, setDocumentAside } from "../fetch/DocumentDownloader.ts"
import { DocumentRejected } from "../fetch/DocumentRejected.ts"
import type { CacheValidators } from "../fetch/EdgarClient.ts"
import { buildDailyIndexUrl, buildSubmissionsUrl, tickerListUrl } from "../fetch/EdgarUrls.ts"
import { datasetsFromCompanyFilings } from "./IngestedDatasets.ts"
import { type IngestOptions, IngestRefused, type ResolvedIngestOptions } from "./IngestOptions.ts"
import type { IngestReport } from "./IngestReport.ts"
import * as State from "../store/IngestState.ts"
import * as Work from "../store/IngestWork.ts"
import type { Issuer } from "../read/Issuer.ts"
import type { ListedTicker } from "../read/TickerList.ts"
import { subtractDays } from "../store/PendingFilings.ts"
import { addSymbolPeriods, assignSymbols, readOwnersOfSymbols, type SymbolAssignment } from "../store/PrimarySymbols.ts"
import { requeueOutdatedAssessments } from "../store/StoredCounts.ts"
import { downloadTickerList } from "../store/TickerListUpdates.ts"
import { makeFileSpellings } from "../../load/SymbolSpellings.ts"

/**
 * Maximum number of past daily indexes that a run reads to find companies with new filings. After a longer gap, it
 * visits all companies instead.
 */
const maxIndexDays = 30

/**
 * Number of days before the last run whose daily indexes are read again, because the SEC may add late filings to them.
 */
const lateIndexDays = 7

/**
 * Finds the companies that have or had these symbols. Adds a message to the report for each symbol that does not belong
 * to a company in the SEC's ticker list. Fails if this is true of all symbols.
 */
const findCompanies = Effect.fnUntraced(function* (
  issuers: ReadonlyArray<Issuer>,
  tickers: ReadonlyArray<string>,
  { scheduled }: Pick<IngestOptions, "scheduled">,
  report: IngestReport,
) {
  const byCik = new Map(issuers.map((issuer) => [issuer.cik, issuer]))
  const owners = yield* readOwnersOfSymbols(tickers)
  // Later entries replace earlier ones: current symbols take precedence over symbols that a company had in the past.
  const byTicker = new Map([
    ...owners.flatMap(({ alias, cik }) => {
      const issuer = byCik.get(cik)
      return issuer === undefined ? [] : [[alias, issuer] as const]
    }),
    ...issuers.map((issuer) => [issuer.ticker, issuer] as const),
    ...issuers.flatMap((issuer) => issuer.tickers.map((ticker) => [ticker, issuer] as const)),
  ])
  // A scheduled run takes its symbols from this setting, and nobody watches it, so the messages go to the log as well.
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

/**
 * For each company that was requested by a symbol of another of its securities, such as a preferred share, returns a
 * note that states which symbol the company's rows carry.
 */
const describePrimarySymbols = (companies: ReadonlyArray<Issuer>, tickers: ReadonlyArray<string>) =>
  tickers.flatMap((ticker) => {
    const issuer = companies.find(({ tickers }) => tickers.includes(ticker))
    return issuer === undefined || issuer.ticker === ticker
      ? []
      : [`${ticker} is a symbol of ${issuer.name}, whose rows carry ${issuer.ticker}.`]
  })

/**
 * For symbols that the SEC's list assigns to several companies, returns notes that state which company gets the rows.
 * `tickers` are the symbols that the run is restricted to, or null.
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

/**
 * The content of the daily indexes that a run has read, and the changes to make to the stored validators and the queue
 * once all companies are visited.
 */
class IndexRead {
  /** Filings in the indexes, by company CIK. */
  readonly filings = new Map<string, Array<DailyIndexFiling>>()
  /** Queue entries of the indexes that were read. They can be deleted once all companies are visited. */
  readonly done: Array<Work.WorkKey> = []
  /**
   * Validators that make the next request for an index conditional, keyed by the index URL and the run's datasets. They
   * are stored only after all companies are visited. If the run fails before that, the next run must read the indexes
   * again.
   */
  readonly validators = new Map<string, CacheValidators>()
  /** Indexes that could not be read. They are queued for a later attempt. */
  readonly setAside: Array<Work.SetAside> = []
}

/** Returns the day of a daily index, or undefined if the URL is for another document. */
const findIndexDay = (url: string) => {
  const [, ...parts] = /\/master\.(\d{4})(\d\d)(\d\d)\.idx$/.exec(url) ?? []
  return parts.length === 0 ? undefined : parts.join("-")
}

/**
 * Reads the daily indexes for these days and collects the filings in them by company. Skips an index that has not
 * changed since a run for the same datasets that visited all companies in it. An index that cannot be read is queued
 * for a later attempt.
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
      // The datasets are part of the key, because a run for other datasets has to visit the companies again.
      const validatorKey = `${url} ${datasets.toSorted().join(",")}`
      const validators = yield* State.readCacheValidators(validatorKey)
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
        read.validators.set(validatorKey, response.success.validators)
      }
      // The index was read, is unchanged, or does not exist. In none of these cases is another attempt needed.
      read.done.push({ url, dataset: "" })
    }
    return read
  },
)

/**
 * Returns the days from the first through the last, in the form `YYYY-MM-DD`. The list is empty if the last day
 * precedes the first.
 */
const listDays = (firstDay: string, lastDay: string): ReadonlyArray<string> =>
  firstDay > lastDay ? [] : [firstDay, ...listDays(subtractDays(firstDay, -1), lastDay)]

/**
 * Selects the companies to visit from the `issuers` in the ticker list. If the run is restricted to symbols
 * (`options.tickers`), these are the companies with these symbols. Otherwise, they are the companies with queued
 * documents, the companies that no run has visited for these datasets, and the companies in the daily indexes since the
 * last run over all companies. `day` is today's date in New York.
 *
 * Selects all companies and sets `isFirstLoad` if there was no such run, if it is too long ago, or if the rows are
 * written to files. `indexes` contains the content of the daily indexes, if any were read.
 */
const chooseCompanies = Effect.fnUntraced(
  function* (
    issuers: ReadonlyArray<Issuer>,
    options: Pick<ResolvedIngestOptions, "datasets" | "scheduled" | "since" | "target" | "tickers">,
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
      // A run over all companies makes the queued indexes unnecessary.
      const done = queued.map((day) => ({ url: buildDailyIndexUrl(day), dataset: "" }))
      return { companies: issuers, isFirstLoad: true, indexes: { ...new IndexRead(), done } }
    }
    const days = new Set([...queued, ...listDays(firstDay, day)])
    const indexes = yield* readIndexes(Array.from(days).toSorted(), datasets, downloader, report)
    const due = yield* Work.readCompaniesWithDueWork("decided", "absent", "rejected")
    const known = yield* State.readIngestedCompanies(datasets, options.since)
    // Companies with queued documents come first, so that even a run that is soon interrupted has retried these.
    const [withQueuedDocuments, others] = [
      issuers.filter(({ cik }) => due.has(cik)),
      issuers.filter(({ cik }) => !due.has(cik) && (!known.has(cik) || indexes.filings.has(cik))),
    ]
    return { companies: [...withQueuedDocuments, ...others], isFirstLoad: false, indexes }
  },
)

/** Builds the retry queue entry for a document that cannot be read because its company is not in the ticker list. */
const setUnlistedAside = (url: string) =>
  setDocumentAside(
    "absent",
    new DocumentRejected({ url, reason: "is about a company that the SEC's ticker list lacks" }),
  )

/**
 * Maximum number of queued forms of companies outside the ticker list that one run postpones. The others remain queued
 * unchanged.
 */
const maxUnlistedForms = 5_000

/**
 * Returns the due queue entries of companies that are no longer in the ticker list, as failed attempts. This postpones
 * them: such a company cannot be visited, because a visit requires its entry in the list.
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
 * Returns the filings in the daily indexes whose company is stored but missing from the ticker list, as failed
 * attempts. Companies are often missing from the list for only a day, so their filings stay queued until the company is
 * in the list again.
 */
const findFilingsOfUnlistedCompanies = ({ issuers, stored }: SymbolAssignment, { filings }: IndexRead) => {
  const ciksInList = new Set(issuers.map(({ cik }) => cik))
  return Array.from(filings).flatMap(([cik, ofCompany]) =>
    ciksInList.has(cik) || !stored.has(cik)
      ? []
      : ofCompany.map(({ accession }) => setUnlistedAside(`${buildSubmissionsUrl(cik)}#${accession}`))
  )
}

/**
 * Downloads the ticker list and compares it with the stored companies. Adds notes for the operator to the report.
 * Returns the result of the comparison. If an older copy of the list had to be used, `rejections` contains the reasons.
 */
const readTickerList = Effect.fnUntraced(
  function* (
    { scheduled, target }: ResolvedIngestOptions,
    day: string,
    tickers: ReadonlyArray<string> | null,
    report: IngestReport,
  ) {
    const storesList = target === "load"
    const { day: listDay, list, rejections, unreadable } = yield* downloadTickerList(day, storesList)
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
 * Finds the ownership forms and registration statements that earlier runs have queued to be read later. Returns the
 * companies with such forms that are not among those chosen for this run, and the queued forms of companies that are
 * not in the ticker list.
 */
const findQueuedForms = Effect.fnUntraced(
  function* (
    issuers: ReadonlyArray<Issuer>,
    chosen: ReadonlyArray<Issuer>,
    datasets: ResolvedIngestOptions["datasets"],
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
 * Returns the queue entries that this run has completed by reading the ticker list: the entry of the list itself,
 * unless the list has been rejected again (`isRejected`), and the entries of symbol changes that could not be loaded,
 * because every run infers all changes again.
 */
const findTickerListWork = Effect.fnUntraced(
  function* (datasets: ResolvedIngestOptions["datasets"], isRejected: boolean) {
    const list: ReadonlyArray<Work.WorkKey> = isRejected ? [] : [{ url: tickerListUrl, dataset: "" }]
    if (!datasets.includes("ticker_changes")) return list
    const urls = (yield* Work.readDueWorkWithoutCompany).filter((url) => url.startsWith(`${tickerListUrl}#`))
    return [...list, ...urls.map((url) => ({ url, dataset: "ticker_changes" }))]
  },
)

/**
 * Reads the ticker list and selects the companies to visit. If the run loads rows, also stores the companies' symbols
 * and makes queue entries due. For the result, see the comments on its fields.
 */
export const planCompanyVisits = Effect.fnUntraced(
  function* (options: ResolvedIngestOptions, runId: number, downloader: DocumentDownloader, report: IngestReport) {
    const { datasets, interrupted, target } = options
    // Convert the requested symbols to the spelling used in the tables.
    const { learn, spell } = yield* makeFileSpellings()
    yield* learn(options.tickers ?? [])
    const tickers = options.tickers?.map(spell) ?? null
    const day = yield* todayInNewYork
    const { assignment, rejections } = yield* readTickerList(options, day, tickers, report)
    const { issuers } = assignment

    if (target === "load") yield* Effect.andThen(Work.requeueWorkOfOlderParsers, requeueOutdatedAssessments)
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
    // `known` contains the chosen companies first, in the same order.
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
