/** Downloads documents for a run, and decides when the SEC is down. */
import { Effect, Result } from "effect"
import { OperationProgress } from "../../../postgres/metrics/Progress.ts"
import type { DocumentArchives } from "./BulkArchives.ts"
import { DocumentRejected } from "./DocumentRejected.ts"
import { type CacheValidators, EdgarClient, type EdgarResponse } from "./EdgarClient.ts"
import type { SetAside } from "../store/IngestWork.ts"

/** Number of consecutive failed downloads that end the run, because the SEC is probably down. */
const maxConsecutiveFailures = 3

/** Weight of a document that an earlier run could not download either: a few such documents must not end a run. */
const repeatedFailureWeight = 0.1

export interface DownloadOptions {
  /** Whether an earlier run could not download the document either. */
  readonly isRepeated?: boolean
  readonly validators?: CacheValidators | undefined
}

/** A failed download, and whether the SEC answered that there is no such document. */
export interface FailedDownload {
  readonly isMissing: boolean
  readonly setAside: SetAside
}

type DownloadedDocument = Exclude<EdgarResponse, { readonly _tag: "Missing" }>

const noValidators: CacheValidators = { etag: null, lastModified: null }

export const setDocumentAside = (kind: SetAside["kind"], rejection: DocumentRejected): SetAside => ({
  rejection,
  dataset: "",
  kind,
})

/**
 * Reads documents from the archives, if these have them, and downloads the others. Fails with `EdgarUnavailable` or
 * `EdgarBlocked` if the run cannot continue. Other failures are results.
 */
export const makeDocumentDownloader = Effect.fnUntraced(function* (archives?: DocumentArchives) {
  const { request } = yield* EdgarClient
  const progress = yield* OperationProgress
  let consecutiveFailures = 0
  let hasAnswer = false

  const requestDocument = (url: string, { isRepeated = false, validators }: DownloadOptions = {}) => {
    const fail = (
      kind: SetAside["kind"],
      reason: string,
      isMissing = false,
    ): Result.Result<DownloadedDocument, FailedDownload> =>
      Result.fail({ isMissing, setAside: setDocumentAside(kind, new DocumentRejected({ url, reason })) })
    const requestFromSec = Effect.tap(request({ url, validators }), () =>
      Effect.sync(() => {
        consecutiveFailures = 0
        hasAnswer = true
      }))
    // The SEC may have a newer or better document than one that an earlier run has set aside.
    const archived = isRepeated || archives === undefined ? Effect.succeed(undefined) : archives.read(url)
    return Effect.flatMap(archived, (text) =>
      text === undefined ? requestFromSec : Effect.succeed<EdgarResponse>({
        _tag: "Found",
        text,
        validators: noValidators,
      })).pipe(
        Effect.map((answer): Result.Result<DownloadedDocument, FailedDownload> => {
          progress.count += 1
          return answer._tag === "Missing" ? fail("absent", "is not there", true) : Result.succeed(answer)
        }),
        Effect.catchTag("DocumentRejected", ({ reason }) => Effect.succeed(fail("rejected", reason))),
        Effect.catchTag("EdgarUnavailable", (error) => {
          consecutiveFailures += isRepeated && hasAnswer ? repeatedFailureWeight : 1
          return consecutiveFailures < maxConsecutiveFailures
            ? Effect.succeed(fail("absent", `could not be downloaded: ${error.reason}`))
            : Effect.fail(error)
        }),
      )
  }

  /** Downloads the text of a document. */
  const download = (url: string, options: DownloadOptions = {}) =>
    Effect.map(
      requestDocument(url, options),
      Result.map((answer) => answer._tag === "Found" ? answer.text : ""),
    )

  return { requestDocument, download }
})

export type DocumentDownloader = Effect.Success<ReturnType<typeof makeDocumentDownloader>>
