/** Reads documents from the SEC's nightly archives of all lists of filings and all company facts (decision 0128). */
import { Clock, Effect, FileSystem, Path, Result } from "effect"
import { DocumentRejected } from "./DocumentRejected.ts"
import { decodeDocumentText } from "./DocumentText.ts"
import { maxDocumentMegabytes } from "./EdgarClient.ts"
import { bulkArchiveUrls, findCik } from "./EdgarUrls.ts"
import { datasetsWithCounts, type IngestedDataset } from "../schedule/IngestedDatasets.ts"
import { IngestRefused } from "../schedule/IngestOptions.ts"
import { readCompaniesWithFilingsAfter } from "../store/IngestState.ts"
import { openZipArchive } from "./ZipArchive.ts"

/** Opened archives. Documents in them need not be requested from the SEC. */
export interface DocumentArchives {
  /** The day up to which the archives have all filings, `YYYY-MM-DD`. */
  readonly day: string
  /** Returns the text of the document with this URL at the SEC; undefined if the archives do not have it. */
  readonly read: (url: string) => Effect.Effect<string | undefined, DocumentRejected>
}

type ArchiveName = keyof typeof bulkArchiveUrls

/** Returns the archive that has documents with such a URL, if one has. */
const findArchive = (url: string): ArchiveName | undefined =>
  url.includes("/submissions/") ? "submissions.zip" : url.includes("/companyfacts/") ? "companyfacts.zip" : undefined

/**
 * Maximum age of the archives. The next run reads the daily indexes from the archives' day on. If that day is too long
 * ago (`maxIndexDays`), it has to visit all companies again.
 */
const maxAgeDays = 21

const dayMillis = 86_400_000

const toDay = (millis: number) => new Date(millis).toISOString().slice(0, 10)

/** Returns the names of the archives that the datasets need. Fails if the folder lacks one of them. */
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
 * Opens `submissions.zip` and, if a dataset needs it, `companyfacts.zip` in the folder, for the companies with these
 * CIKs. The scope closes them. Fails if a file is missing, damaged, too old, or not one of the SEC's archives.
 */
export const openBulkArchives = Effect.fnUntraced(
  function* (folder: string, ciks: ReadonlySet<string>, datasets: ReadonlyArray<IngestedDataset>) {
    const path = yield* Path.Path
    const now = yield* Clock.currentTimeMillis
    const refuse = (file: string, reason: string, name: ArchiveName) =>
      new IngestRefused({ message: `${file} ${reason}. Download it again: ${bulkArchiveUrls[name]}` })

    const needed = yield* checkArchivesExist(folder, datasets)

    /** Opens an archive, and checks its content and age. */
    const open = Effect.fnUntraced(function* (name: ArchiveName) {
      const file = path.join(folder, name)
      let hasCompanies = false
      const isWanted = (entry: string) => {
        const [, cik] = /^CIK(\d{10})(-submissions-\d+)?\.json$/.exec(entry) ?? []
        hasCompanies ||= cik !== undefined
        return cik !== undefined && ciks.has(cik)
      }
      const archive = yield* Effect.mapError(
        openZipArchive(file, isWanted),
        ({ message }) => refuse(file, message, name),
      )
      if (!hasCompanies) return yield* refuse(file, "has no files of companies", name)
      const age = Math.floor((now - archive.newest) / dayMillis)
      if (age > maxAgeDays) {
        return yield* refuse(file, `is too old: its newest file is dated ${toDay(archive.newest)}`, name)
      }
      return archive
    })

    const archives = {
      "submissions.zip": yield* open("submissions.zip"),
      "companyfacts.zip": needed.includes("companyfacts.zip") ? yield* open("companyfacts.zip") : undefined,
    }
    const newest = Object.values(archives).map((archive) => archive?.newest ?? now)
    // A day earlier than the newest entry, because entries have no time zone, and the SEC needs hours to write them
    // all.
    const day = toDay(Math.min(now, ...newest) - dayMillis)
    // The archives are out of date for companies for which an earlier run has ingested a newer filing.
    const outdated = yield* readCompaniesWithFilingsAfter(day)
    const opened: DocumentArchives = {
      day,
      read: Effect.fnUntraced(function* (url) {
        const name = outdated.has(findCik(url) ?? "") ? undefined : findArchive(url)
        const archive = name === undefined ? undefined : archives[name]
        const bytes = yield* Effect.mapError(
          archive?.read(url.slice(url.lastIndexOf("/") + 1), maxDocumentMegabytes * 1_000_000) ??
            Effect.succeed(undefined),
          ({ message }) => new DocumentRejected({ url, reason: `${message} in ${name}` }),
        )
        return bytes === undefined ? undefined : yield* Effect.fromResult(
          Result.mapError(decodeDocumentText(bytes), (reason) => new DocumentRejected({ url, reason })),
        )
      }),
    }
    return opened
  },
)
