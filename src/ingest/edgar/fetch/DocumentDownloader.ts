/** Downloads documents for a run, and ends the run if the SEC is down. */
import { Effect, Result } from "effect"
import { OperationProgress } from "../../../postgres/metrics/Progress.ts"
import type { DocumentArchives } from "./BulkArchives.ts"
import { DocumentRejected } from "./DocumentRejected.ts"
import { type CacheValidators, EdgarClient, type EdgarResponse } from "./EdgarClient.ts"
import type { SetAside } from "../store/IngestWork.ts"

/** After this many consecutive failed downloads, the run ends, because the SEC is probably down. */
const maxConsecutiveFailures = 3

/** How much a failure counts if an earlier run could not download the document either: a few must not end the run. */
const repeatedFailureWeight = 0.1

/** How to download a document. */
export interface DownloadOptions {
  /** Whether an earlier run could not download the document either. */
  readonly isRepeated?: boolean
  /** Validators of an earlier response, which make the request conditional. */
  readonly validators?: CacheValidators | undefined
}

/** A failed download. `isMissing`: the SEC has no such document. `setAside` is what to put into the queue. */
export interface FailedDownload {
  readonly isMissing: boolean
  readonly setAside: SetAside
}

/** The document, or that it is unchanged. */
type DownloadedDocument = Exclude<EdgarResponse, { readonly _tag: "Missing" }>

const noValidators: CacheValidators = { etag: null, lastModified: null }

/** Sets a whole document aside, and not only a row made from it. */
export const setDocumentAside = (kind: SetAside["kind"], rejection: DocumentRejected): SetAside => ({
  rejection,
  dataset: "",
  kind,
})

/**
 * Creates the downloader of a run. It reads documents from the archives, if they have them, and requests the others
 * from the SEC. It fails with `EdgarUnavailable` or `EdgarBlocked` if the run cannot continue. Other failures are
 * results.
 */
export const makeDocumentDownloader = Effect.fnUntraced(function* (archives?: DocumentArchives) {
  const { request } = yield* EdgarClient
  const progress = yield* OperationProgress
  let consecutiveFailures = 0
  let hasResponse = false

  /** Requests a document from the SEC. Any response shows that the SEC is not down. */
  const requestFromSec = (url: string, validators: CacheValidators | undefined) =>
    Effect.tap(request({ url, validators }), () =>
      Effect.sync(() => {
        consecutiveFailures = 0
        hasResponse = true
      }))

  /** Counts a failed download. Repeated failures count little, unless the SEC has not responded to this run at all. */
  const countFailure = (isRepeated: boolean) => {
    consecutiveFailures += isRepeated && hasResponse ? repeatedFailureWeight : 1
  }

  /** Reads the document from the archives or requests it. The response may be that it is unchanged. */
  const requestDocument = (url: string, { isRepeated = false, validators }: DownloadOptions = {}) => {
    const fail = (
      kind: SetAside["kind"],
      reason: string,
      isMissing = false,
    ): Result.Result<DownloadedDocument, FailedDownload> =>
      Result.fail({ isMissing, setAside: setDocumentAside(kind, new DocumentRejected({ url, reason })) })
    // The SEC may have a newer or better document than one that an earlier run has set aside.
    const archived = isRepeated || archives === undefined ? Effect.succeed(undefined) : archives.read(url)
    return Effect.flatMap(
      archived,
      (text) =>
        text === undefined ? requestFromSec(url, validators) : Effect.succeed<EdgarResponse>({
          _tag: "Found",
          text,
          validators: noValidators,
        }),
    ).pipe(
      Effect.map((response): Result.Result<DownloadedDocument, FailedDownload> => {
        progress.count += 1
        return response._tag === "Missing" ? fail("absent", "is not there", true) : Result.succeed(response)
      }),
      Effect.catchTag("DocumentRejected", ({ reason }) => Effect.succeed(fail("rejected", reason))),
      Effect.catchTag("EdgarUnavailable", (error) => {
        countFailure(isRepeated)
        return consecutiveFailures < maxConsecutiveFailures
          ? Effect.succeed(fail("absent", `could not be downloaded: ${error.reason}`))
          : Effect.fail(error)
      }),
    )
  }

  /** Downloads the text of a document. Without validators, no response says that it is unchanged. */
  const download = (url: string, options: DownloadOptions = {}) =>
    Effect.map(
      requestDocument(url, options),
      Result.map((response) => response._tag === "Found" ? response.text : ""),
    )

  return { requestDocument, download }
})

/** What a run downloads documents with. */
export type DocumentDownloader = Effect.Success<ReturnType<typeof makeDocumentDownloader>>
