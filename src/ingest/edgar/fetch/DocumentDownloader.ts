/** Downloads the documents that a run of the ingest needs, and ends the run if the SEC appears to be down. */
import { Effect, Result } from "effect"
import { OperationProgress } from "../../../postgres/metrics/OperationProgress.ts"
import type { DocumentArchives } from "./BulkArchives.ts"
import { DocumentRejected } from "./DocumentRejected.ts"
import { type CacheValidators, EdgarClient, type EdgarResponse } from "./EdgarClient.ts"
import type { SetAside } from "../store/IngestWork.ts"

/** The run ends after this many consecutive failed downloads, because the SEC is probably down. */
const maxConsecutiveFailures = 3

/**
 * The weight of a failed download if an earlier run could not download the document either. The weight of any other
 * failure is 1. This one is low, because a few documents that always fail must not end the run.
 */
const repeatedFailureWeight = 0.1

/** Options for downloading a document. */
export interface DownloadOptions {
  /** Whether an earlier run also failed to download the document. */
  readonly isRepeated?: boolean
  /** Validators (`ETag` and the like) from an earlier response. They make the request conditional. */
  readonly validators?: CacheValidators | undefined
}

/** A failed download. */
export interface FailedDownload {
  /** Whether the SEC has no such document. */
  readonly isMissing: boolean
  /** The entry to add to the retry queue. */
  readonly setAside: SetAside
}

/** The result of downloading a document. */
type DownloadResult = Result.Result<DownloadedDocument, FailedDownload>

/** Returns the result of a failed download. */
const makeFailedDownload = (
  url: string,
  kind: SetAside["kind"],
  reason: string,
  isMissing = false,
): DownloadResult => Result.fail({ isMissing, setAside: setDocumentAside(kind, new DocumentRejected({ url, reason })) })

/** The document or, for a conditional request, the information that it has not changed. */
type DownloadedDocument = Exclude<EdgarResponse, { readonly _tag: "Missing" }>

const noValidators: CacheValidators = { etag: null, lastModified: null }

/**
 * Builds the retry queue entry for a whole document. (If only a single row built from a document fails, only that row
 * is queued.)
 */
export const setDocumentAside = (kind: SetAside["kind"], rejection: DocumentRejected): SetAside => ({
  rejection,
  dataset: "",
  kind,
})

/**
 * Creates the downloader for a run. It reads documents from the archives where possible, and requests the rest from the
 * SEC. Its two functions return a failed download as a `Result`. Their effects fail only if the run cannot continue:
 * with `EdgarBlocked`, or with `EdgarUnavailable` after several failures in succession.
 */
export const makeDocumentDownloader = Effect.fnUntraced(function* (archives?: DocumentArchives) {
  const { request } = yield* EdgarClient
  const progress = yield* OperationProgress
  /** Sum of the weights of the failed downloads since the last response. */
  let consecutiveFailures = 0
  let hasResponse = false

  /** Requests a document from the SEC. Any response shows that the SEC is up, and resets the failure count. */
  const requestFromSec = (url: string, validators: CacheValidators | undefined) =>
    Effect.tap(request({ url, validators }), () =>
      Effect.sync(() => {
        consecutiveFailures = 0
        hasResponse = true
      }))

  /**
   * Counts a failed download. A repeated failure has a low weight, unless the SEC has not yet responded to this run: it
   * may then be down, and repeated failures must be able to end the run.
   */
  const countFailure = (isRepeated: boolean) => {
    consecutiveFailures += isRepeated && hasResponse ? repeatedFailureWeight : 1
  }

  /** Reads the document from the archives or, if they do not contain it, requests it from the SEC. */
  const readOrRequest = (url: string, isRepeated: boolean, validators: CacheValidators | undefined) => {
    // Skip the archives for a document that failed in an earlier run: the SEC may have a newer or corrected version.
    const archived = isRepeated || archives === undefined ? Effect.succeed(undefined) : archives.read(url)
    return Effect.flatMap(
      archived,
      (text) =>
        text === undefined
          ? requestFromSec(url, validators)
          : Effect.succeed<EdgarResponse>({ _tag: "Found", text, validators: noValidators }),
    )
  }

  /**
   * Reads a document from the archives, or requests it from the SEC. Returns failures as a `Result`. With validators,
   * the response may be `Unchanged`. A failure has the kind `absent` if the SEC did not send the document, and
   * `rejected` if it sent something unusable.
   */
  const requestDocument = (url: string, { isRepeated = false, validators }: DownloadOptions = {}) =>
    readOrRequest(url, isRepeated, validators).pipe(
      Effect.map((response): DownloadResult => {
        progress.count += 1
        return response._tag === "Missing"
          ? makeFailedDownload(url, "absent", "is not there", true)
          : Result.succeed(response)
      }),
      Effect.catchTag("DocumentRejected", ({ reason }) => Effect.succeed(makeFailedDownload(url, "rejected", reason))),
      Effect.catchTag("EdgarUnavailable", (error) => {
        countFailure(isRepeated)
        return consecutiveFailures < maxConsecutiveFailures
          ? Effect.succeed(makeFailedDownload(url, "absent", `could not be downloaded: ${error.reason}`))
          : Effect.fail(error)
      }),
    )

  /** Downloads a document and returns its text. Do not pass validators, because an `Unchanged` response has no text. */
  const download = (url: string, options: DownloadOptions = {}) =>
    Effect.map(
      requestDocument(url, options),
      Result.map((response) => response._tag === "Found" ? response.text : ""),
    )

  return { requestDocument, download }
})

/** Downloads the documents that a run needs. */
export type DocumentDownloader = Effect.Success<ReturnType<typeof makeDocumentDownloader>>
