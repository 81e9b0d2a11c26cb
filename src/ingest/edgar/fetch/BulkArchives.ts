/**
 * Reads documents from the SEC's nightly bulk archives, which contain every company's filing list and XBRL facts,
 * instead of requesting each document (decision 0128).
 */
import { Clock, Effect, FileSystem, Path, Result } from "effect"
import { DocumentRejected } from "./DocumentRejected.ts"
import { decodeDocumentText } from "./DocumentText.ts"
import { maxDocumentMegabytes } from "./EdgarClient.ts"
import { bulkArchiveUrls, findCikInUrl } from "./EdgarUrls.ts"
import { datasetsWithCounts, type IngestedDataset } from "../schedule/IngestedDatasets.ts"
import { IngestRefused } from "../schedule/IngestOptions.ts"
import { readCompaniesWithFilingsAfter } from "../store/IngestState.ts"
import { openZipArchive } from "./ZipArchive.ts"

/** The bulk archives, opened for reading. A document that is found in them is not requested from the SEC. */
export interface DocumentArchives {
  /** The last day (`YYYY-MM-DD`) for which the archives contain all filings. */
  readonly day: string
  /**
   * Returns the text of the document that the SEC serves at this URL, or undefined if the archives do not contain it.
   */
  readonly read: (url: string) => Effect.Effect<string | undefined, DocumentRejected>
}

type ArchiveName = keyof typeof bulkArchiveUrls

/** Returns the name of the archive that covers documents with this kind of URL, or undefined if none does. */
const findArchive = (url: string): ArchiveName | undefined => {
  if (url.includes("/submissions/")) return "submissions.zip"
  return url.includes("/companyfacts/") ? "companyfacts.zip" : undefined
}

/**
 * Maximum age of the archives, in days. The run after this one reads the daily indexes starting at the archives' day.
 * If that day is more than 30 days ago (`maxIndexDays`), it has to read all companies' filing lists again.
 */
const maxAgeDays = 21

const dayMillis = 86_400_000

const toDay = (millis: number) => new Date(millis).toISOString().slice(0, 10)

/** Returns the names of the archives that these datasets need. Fails if one of them is missing from the folder. */
export const checkArchivesExist = Effect.fnUntraced(
  function* (folder: string, datasets: ReadonlyArray<IngestedDataset>) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const needsFacts = datasetsWithCounts.some((name) => datasets.includes(name))
    const names: ReadonlyArray<ArchiveName> = needsFacts ? ["submissions.zip", "companyfacts.zip"] : ["submissions.zip"]
    for (const name of names) {
      if (yield* Effect.orElseSucceed(fs.exists(path.join(folder, name)), () => false)) continue
      return yield* new IngestRefused({
        message: `${folder} has no ${name}. Download it from ${bulkArchiveUrls[name]}, or omit --archives.`,
      })
    }
    return names
  },
)

/**
 * Opens one archive in the folder and checks its content and age. Only the documents of the companies with these CIKs
 * can then be read from it.
 */
const openArchive = Effect.fnUntraced(function* (folder: string, name: ArchiveName, ciks: ReadonlySet<string>) {
  const path = yield* Path.Path
  const now = yield* Clock.currentTimeMillis
  const file = path.join(folder, name)
  const refuse = (reason: string) =>
    new IngestRefused({ message: `${file} ${reason}. Download it again: ${bulkArchiveUrls[name]}` })
  let hasCompanies = false
  // Because this function is called for the name of each entry, it also finds out whether the archive is from the SEC.
  const isWanted = (entry: string) => {
    const [, cik] = /^CIK(\d{10})(-submissions-\d+)?\.json$/.exec(entry) ?? []
    hasCompanies ||= cik !== undefined
    return cik !== undefined && ciks.has(cik)
  }
  const archive = yield* Effect.mapError(openZipArchive(file, isWanted), ({ message }) => refuse(message))
  if (!hasCompanies) return yield* refuse("has no files of companies")
  const age = Math.floor((now - archive.newest) / dayMillis)
  if (age > maxAgeDays) return yield* refuse(`is too old: its newest file is dated ${toDay(archive.newest)}`)
  return archive
})

/**
 * Opens `submissions.zip` and, if a dataset needs it, `companyfacts.zip` in the folder, and indexes the entries for the
 * companies with these CIKs. Closing the scope closes the archives. Fails if a file is missing, damaged, too old, or
 * not an SEC archive.
 */
export const openBulkArchives = Effect.fnUntraced(
  function* (folder: string, ciks: ReadonlySet<string>, datasets: ReadonlyArray<IngestedDataset>) {
    const now = yield* Clock.currentTimeMillis
    const needed = yield* checkArchivesExist(folder, datasets)
    const archives = {
      "submissions.zip": yield* openArchive(folder, "submissions.zip", ciks),
      "companyfacts.zip": needed.includes("companyfacts.zip")
        ? yield* openArchive(folder, "companyfacts.zip", ciks)
        : undefined,
    }
    const newestTimes = Object.values(archives).map((archive) => archive?.newest ?? now)
    // The archives count as complete only through the day before their newest entry, because entry times have no time
    // zone, and because the SEC takes hours to write an archive.
    const day = toDay(Math.min(now, ...newestTimes) - dayMillis)
    // For these companies the archives are out of date, because an earlier run has already ingested a newer filing.
    const outdated = yield* readCompaniesWithFilingsAfter(day)
    const opened: DocumentArchives = {
      day,
      read: Effect.fnUntraced(function* (url) {
        // No company has an empty CIK.
        const name = outdated.has(findCikInUrl(url) ?? "") ? undefined : findArchive(url)
        const archive = name === undefined ? undefined : archives[name]
        if (archive === undefined) return undefined
        const entry = url.slice(url.lastIndexOf("/") + 1)
        const bytes = yield* Effect.mapError(
          archive.read(entry, maxDocumentMegabytes * 1_000_000),
          ({ message }) => new DocumentRejected({ url, reason: `${message} in ${name}` }),
        )
        if (bytes === undefined) return undefined
        const text = decodeDocumentText(bytes)
        return Result.isSuccess(text) ? text.success : yield* new DocumentRejected({ url, reason: text.failure })
      }),
    }
    return opened
  },
)
