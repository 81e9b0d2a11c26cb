/** Chooses the companies that a run visits: those with new filings, or with documents in the queue (decision 0105). */
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
import { downloadTickerList } from "../store/TickerListUpdates.ts"
import { makeFileSpellings } from "../../load/SymbolSpellings.ts"

/** Maximum number of past days whose daily indexes are read. After a longer gap, all companies are visited. */
const maxIndexDays = 30

/** Number of days before the last run whose indexes are read again, because late filings may be added to them. */
const lateIndexDays = 7

/** Finds the companies with these symbols. Reports symbols that the list lacks, and fails if it lacks all of them. */
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

/** Says which symbol the rows carry if a company was requested by another of its symbols. */
const listAnsweringSymbols = (companies: ReadonlyArray<Issuer>, tickers: ReadonlyArray<string>) =>
  tickers.flatMap((ticker) => {
    const issuer = companies.find(({ tickers }) => tickers.includes(ticker))
    return issuer === undefined || issuer.ticker === ticker
      ? []
      : [`${ticker} is a symbol of ${issuer.name}, whose rows carry ${issuer.ticker}.`]
  })

/** Says to which company a symbol is left that the list has for several. */
const listContestedSymbols = ({ contested }: SymbolAssignment, tickers: ReadonlyArray<string> | null) => {
  const describe = ({ cik, name }: ListedTicker) => `${name} (CIK ${cik})`
  return contested.filter(({ ticker }) => tickers === null || tickers.includes(ticker)).map(
    ({ others, owner, ticker }) =>
      `The SEC's ticker list has ${ticker} for several companies. Its rows are those of ${
        describe(owner)
      }, not those ` +
      `of ${others.map(describe).join(" and ")}.`,
  )
}

/** The content of daily indexes, and the state to record when all companies are visited. */
class IndexRead {
  /** The filings that the indexes name, by the CIK of each company. */
  readonly filings = new Map<string, Array<DailyIndexFiling>>()
  /** Indexes that need not be read again once all companies are visited. */
  readonly done: Array<Work.WorkKey> = []
  /**
   * By URL and datasets. Stored only after all companies were visited. If the run fails earlier, the next run reads the
   * indexes again.
   */
  readonly validators = new Map<string, CacheValidators>()
  readonly setAside: Array<Work.SetAside> = []
}

/** Returns the day of a daily index; undefined for another document. */
const findIndexDay = (url: string) => {
  const [, ...parts] = /\/master\.(\d{4})(\d\d)(\d\d)\.idx$/.exec(url) ?? []
  return parts.length === 0 ? undefined : parts.join("-")
}

/**
 * Reads the CIKs in the daily indexes of these days. Skips indexes that have not changed since a run that visited their
 * companies for the same datasets. An index that cannot be read is set aside.
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
      const answer = yield* requestDocument(url, { validators })
      // Weekends and holidays have no index. The index of the current day appears in the evening.
      if (Result.isFailure(answer) && !answer.failure.isMissing) {
        read.setAside.push(answer.failure.setAside)
        continue
      }
      if (Result.isSuccess(answer) && answer.success._tag === "Found") {
        const entries = decodeDailyIndex(answer.success.text, url)
        if (Result.isFailure(entries)) {
          read.setAside.push(setDocumentAside("rejected", entries.failure))
          continue
        }
        report.documents += 1
        for (const [cik, filings] of Map.groupBy(entries.success, ({ cik }) => cik)) {
          read.filings.set(cik, [...read.filings.get(cik) ?? [], ...filings])
        }
        read.validators.set(name, answer.success.validators)
      }
      read.done.push({ url, dataset: "" })
    }
    return read
  },
)

const listDays = (firstDay: string, lastDay: string): ReadonlyArray<string> =>
  firstDay > lastDay ? [] : [firstDay, ...listDays(subtractDays(firstDay, -1), lastDay)]

/**
 * Chooses the companies to visit. Without `tickers`, these are companies with documents in the queue, new companies,
 * and those in the daily indexes since the last run over all companies. If there was no such run, or not recently, all
 * companies are visited, and `isFirstLoad` is true. So they are if the rows are written to files.
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
    const isComplete = Predicate.isObject(options.target)
    if (isComplete || firstDay === undefined || firstDay < subtractDays(day, maxIndexDays)) {
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

const makeUnlistedRejection = (url: string) =>
  setDocumentAside(
    "absent",
    new DocumentRejected({ url, reason: "is about a company that the SEC's ticker list lacks" }),
  )

/** Listed forms of unlisted companies that one run sets aside. */
const maxUnlistedForms = 5_000

/** Sets aside again what the queue has of companies that the SEC no longer lists, because they cannot be visited. */
const findWorkOfUnlistedCompanies = Effect.fnUntraced(
  function* (issuers: ReadonlyArray<Issuer>) {
    const due = yield* Work.readCompaniesWithDueWork("instance", "decided", "absent", "rejected")
    const unlisted = due.difference(new Set(issuers.map(({ cik }) => cik)))
    const work = yield* Effect.forEach(unlisted, (cik) => Work.readCompanyWork(cik, false))
    return work.flat().filter(({ isDue }) => isDue)
      .map(({ dataset, url }): Work.SetAside => ({ ...makeUnlistedRejection(url), dataset }))
  },
)

/** Keeps what the indexes name of known companies that the list lacks, often only for a day, until it has them. */
const findFilingsOfUnlistedCompanies = ({ issuers, stored }: SymbolAssignment, { filings }: IndexRead) => {
  const listed = new Set(issuers.map(({ cik }) => cik))
  return Array.from(filings).flatMap(([cik, named]) =>
    listed.has(cik) || !stored.has(cik)
      ? []
      : named.map(({ accession }) => makeUnlistedRejection(`${buildSubmissionsUrl(cik)}#${accession}`))
  )
}

/** Reads the ticker list, and chooses the companies to visit. */
export const prepareVisits = Effect.fnUntraced(
  function* (options: ResolvedOptions, runId: number, downloader: DocumentDownloader, report: IngestReport) {
    const { datasets, interrupted, target } = options
    const { learn, spell } = yield* makeFileSpellings()
    yield* learn(options.tickers ?? [])
    const tickers = options.tickers?.map(spell) ?? null
    const day = yield* todayInNewYork
    const { day: listDay, list, rejections, unreadable } = yield* downloadTickerList(day, target === "load")
    if (unreadable > 0) {
      report.notes.push(`Unreadable rows of the SEC's ticker list, which were left out: ${unreadable}.`)
    }
    const assignment = yield* assignSymbols(list, listDay)
    const { issuers } = assignment
    const contested = listContestedSymbols(assignment, tickers)
    report.notes.push(...contested)
    if (options.scheduled) { for (const message of contested) yield* Effect.logWarning(message) }
    if (target === "load") yield* Work.requeueWorkOfOlderParsers
    const retries = target === "load" && options.retryRejected === true
    if (retries && tickers === null) yield* Work.requeueAllWork(null)
    const { companies: chosen, indexes, isFirstLoad } = yield* chooseCompanies(
      issuers,
      { ...options, tickers },
      day,
      downloader,
      report,
    )
    if (retries && tickers !== null) yield* Work.requeueAllWork(chosen.map(({ cik }) => cik))
    const waiting = target === "load" ? yield* Work.countListedForms(datasets) : new Map<string, number>()
    const alsoWaiting = tickers === null
      ? issuers.filter((issuer) => waiting.has(issuer.cik) && !chosen.includes(issuer))
      : []
    const unlisted = tickers === null
      ? Array.from(new Set(waiting.keys()).difference(new Set(issuers.map(({ cik }) => cik))))
      : []
    const unlistedForms = unlisted.length === 0 ? [] : yield* Work.readListedForms(unlisted, datasets, maxUnlistedForms)
    const known = yield* addSymbolPeriods(assignment, [...chosen, ...alsoWaiting], target === "load")
    const companies = known.slice(0, chosen.length)
    report.notes.push(...listAnsweringSymbols(companies, tickers ?? []))
    const completed = interrupted === undefined ? new Set() : yield* State.readCompaniesCompletedByRun(runId)
    const due = yield* Work.readCompaniesWithDueWork("decided", "absent", "rejected")
    // The list is read by every run, and the changes of symbols are found again.
    const listWork = [
      ...(rejections.length === 0 ? [{ url: tickerListUrl, dataset: "" }] : []),
      ...(datasets.includes("ticker_changes")
        ? (yield* Work.readDueWorkWithoutCompany).filter((url) => url.startsWith(`${tickerListUrl}#`))
          .map((url) => ({ url, dataset: "ticker_changes" }))
        : []),
    ]
    return {
      companies: companies.filter(({ cik }) => !completed.has(cik) || due.has(cik)),
      /** The companies whose deferred forms are downloaded, by CIK. */
      formIssuers: new Map(known.map((issuer) => [issuer.cik, issuer])),
      indexes,
      isFirstLoad,
      served: listWork,
      setAside: [...rejections.map((rejection) => setDocumentAside("absent", rejection)), ...indexes.setAside],
      /** The queue's documents of companies that the SEC no longer lists. They are set aside, but not requested. */
      unlistedWork: [
        ...(tickers === null && !isFirstLoad ? yield* findWorkOfUnlistedCompanies(issuers) : []),
        ...findFilingsOfUnlistedCompanies(assignment, indexes),
        ...unlistedForms.map(({ url }) => makeUnlistedRejection(url)),
      ],
    }
  },
)
