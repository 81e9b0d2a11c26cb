/**
 * Downloads documents from the SEC. Requests identify the operator, respect a rate limit, and are retried (decision
 * 0104).
 */
import { Config, Context, Data, Duration, Effect, Layer, Option, Result, Schedule, Schema, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError, type HttpClientResponse } from "effect/http"
import type { SqlError } from "effect/sql"
import { Buffer } from "node:buffer"
import { describeCertificateError } from "../../../postgres/metrics/CertificateErrors.ts"
import { isEmailAddress } from "../../../contract/EmailAddress.ts"
import { DocumentRejected } from "./DocumentRejected.ts"
import { decodeDocumentText } from "./DocumentText.ts"
import { EdgarRateLimiter } from "./EdgarRateLimiter.ts"

/** Returns whether the text is a valid `User-Agent` header that contains an email address, as the SEC requires. */
export const isUserAgentWithEmail = (text: string) =>
  /^[\x20-\x7e]+$/.test(text) && text.split(/[\s<>(),;]+/).some(isEmailAddress)

/**
 * Error message for an invalid User-Agent. It completes a sentence that begins with the name of the setting
 * (EDGAR_USER_AGENT).
 */
export const edgarUserAgentRequirement =
  "must name you and contain an email address, which the SEC requires of programs"

/** A User-Agent header value that the SEC accepts. */
export const EdgarUserAgent = Schema.String.check(
  Schema.makeFilter(isUserAgentWithEmail, { message: edgarUserAgentRequirement }),
)

/** The User-Agent header that identifies the operator to the SEC; `None` if it is not set. */
export const EdgarUserAgentConfig = Config.option(Config.schema(EdgarUserAgent, "EDGAR_USER_AGENT"))

const HttpUrl = Schema.String.check(
  Schema.makeFilter((text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol), {
    message: "must be an HTTP URL",
  }),
)

/** The base URL that replaces the SEC's address in tests; `None` if it is not set. */
export const EdgarBaseUrlConfig = Config.option(Config.schema(HttpUrl, "EDGAR_BASE_URL"))

/** The SEC refuses requests from this address, and still does so after a pause of ten minutes. */
export class EdgarBlocked extends Data.TaggedError("EdgarBlocked")<{ readonly message: string }> {}

/**
 * The SEC could not send a document. Even after retries, it sent an error, a different page, or only a part of the
 * document.
 */
export class EdgarUnavailable extends Data.TaggedError("EdgarUnavailable")<{
  readonly url: string
  readonly reason: string
}> {
  override get message() {
    return `The SEC did not send ${this.url}, even after retries: ${this.reason}.`
  }
}

/**
 * The `ETag` and `Last-Modified` headers of a response, or null where absent. The next request for the same document
 * sends them back, so that the SEC need not resend an unchanged document.
 */
export interface CacheValidators {
  readonly etag: string | null
  readonly lastModified: string | null
}

/** The SEC's response to a request for a document. */
export type EdgarResponse =
  | { readonly _tag: "Found"; readonly text: string; readonly validators: CacheValidators }
  /** The SEC has no such document, or does not have it yet. */
  | { readonly _tag: "Missing" }
  /** The document has not changed since the response that supplied the request's validators. */
  | { readonly _tag: "Unchanged" }

/** The errors with which a request can fail. */
export type EdgarError = EdgarBlocked | EdgarUnavailable | DocumentRejected | SqlError.SqlError

/** A request for a document. */
export interface EdgarDocumentRequest {
  /** The document's URL at the SEC, even if `EDGAR_BASE_URL` redirects the request. */
  readonly url: string
  readonly validators?: CacheValidators | undefined
}

/** Maximum size of a document after decompression. */
export const maxDocumentMegabytes = 64

/** Timeout for one request, including reading the response body. */
const responseTimeout = Duration.minutes(2)

/** Retries five times, after 1, 2, 4, 8, and 16 seconds, with a random jitter of up to 20% each. */
export const edgarRetrySchedule = Schedule.exponential("1 second").pipe(
  Schedule.jittered,
  Schedule.upTo({ times: 5 }),
)

/**
 * Returns whether the page is the one that the SEC sends when it refuses automated access. Its status can be 403, 429,
 * or even 200.
 */
const isRefusalPage = (html: string) =>
  /Request Rate Threshold Exceeded|Undeclared Automated Tool|comply with SEC\.gov(?:'|&#39;|’)s Privacy and Security/i
    .test(html.slice(0, 8192))

/** The SEC currently refuses automated requests from this address. */
class RequestRefused extends Data.TaggedError("RequestRefused")<{ readonly status: number }> {}

/** The request failed in a way that a retry may fix. */
class TransientFailure extends Data.TaggedError("TransientFailure")<{ readonly reason: string }> {}

/** Reads and decodes a response body. Fails without reading the rest if the body exceeds the maximum size. */
const readBody = Effect.fnUntraced(function* (url: string, response: HttpClientResponse.HttpClientResponse) {
  const chunks: Array<Uint8Array> = []
  let size = 0
  yield* Stream.runForEach(response.stream, (chunk) => {
    size += chunk.length
    if (size > maxDocumentMegabytes * 1_000_000) {
      return Effect.fail(new DocumentRejected({ url, reason: `is larger than ${maxDocumentMegabytes} MB` }))
    }
    chunks.push(chunk)
    return Effect.void
  }).pipe(
    // The HTTP client reports an empty response body as an error.
    Effect.catchIf(
      (error) => error._tag === "HttpClientError" && error.reason._tag === "EmptyBodyError",
      () => Effect.void,
    ),
  )
  return yield* Effect.fromResult(
    Result.mapError(decodeDocumentText(Buffer.concat(chunks)), (reason) => new DocumentRejected({ url, reason })),
  )
})

/** Builds the result for a complete document. */
const makeFound = (text: string, { headers }: HttpClientResponse.HttpClientResponse): EdgarResponse => ({
  _tag: "Found",
  text,
  validators: { etag: headers["etag"] ?? null, lastModified: headers["last-modified"] ?? null },
})

/**
 * Returns whether the document ends the way JSON or XML must. For other types, truncation cannot be detected, so the
 * result is true.
 */
const isComplete = (url: string, body: string) => {
  const end = body.slice(-100)
  if (url.endsWith(".json")) return /\}\s*$/.test(end)
  return url.endsWith(".xml") ? />\s*$/.test(end) : true
}

/**
 * Interprets a response. Returns the document, or the information that it is missing or unchanged. Fails with
 * `RequestRefused` if the SEC refuses automated access, with `TransientFailure` if a retry may help, and otherwise with
 * `DocumentRejected`. The SEC uses status 403 both to refuse a request (with an HTML body) and for a missing file (with
 * an XML body).
 */
const interpretResponse = Effect.fnUntraced(function* (url: string, response: HttpClientResponse.HttpClientResponse) {
  const { status } = response
  const isHtml = (response.headers["content-type"] ?? "").startsWith("text/html")
  const body = yield* readBody(url, response)
  if (status === 429 || (status === 403 && isHtml) || (status === 200 && isHtml && isRefusalPage(body))) {
    return yield* new RequestRefused({ status })
  }
  const withoutDocument: EdgarResponse = { _tag: status === 304 ? "Unchanged" : "Missing" }
  if (status === 304 || status === 404 || status === 403) return withoutDocument
  // The documents have fixed URLs, so a redirect leads to something else, and is as temporary as a server error.
  if (status >= 500 || (status >= 300 && status < 400)) {
    return yield* new TransientFailure({ reason: `status ${status}` })
  }
  if (status !== 200) return yield* new DocumentRejected({ url, reason: `returned status ${status}` })
  // During maintenance, the SEC may send an HTML page with status 200 in place of any document. Only the index page of
  // a filing, whose URL ends in `.htm`, is HTML itself.
  if ((isHtml || /^\s*(<\?xml[^>]*\?>\s*)?<(!doctype html|html)\b/i.test(body)) && !url.endsWith(".htm")) {
    return yield* new TransientFailure({ reason: "an HTML page instead of the document" })
  }
  if (!isComplete(url, body)) return yield* new TransientFailure({ reason: "a truncated document" })
  return makeFound(body, response)
})

/** Converts a connection error or a timeout to `TransientFailure`. */
const toTransientFailure = (error: { readonly _tag: string }) =>
  new TransientFailure({
    reason: HttpClientError.isHttpClientError(error)
      ? describeCertificateError(error) ?? "no connection, or it was closed"
      : `no response within ${Duration.format(responseTimeout)}`,
  })

/** Downloads documents from the SEC within its rate limit. */
export class EdgarClient extends Context.Service<EdgarClient, {
  /** Requests a document, retrying after transient failures. */
  readonly request: (document: EdgarDocumentRequest) => Effect.Effect<EdgarResponse, EdgarError>
}>()("tickerline/ingest/EdgarClient") {
  /** Provides the client. `userAgent` identifies the operator; `baseUrl` replaces the SEC's address in tests. */
  static readonly layer = (userAgent: string, baseUrl: Option.Option<string>) =>
    Layer.effect(
      EdgarClient,
      Effect.gen(function* () {
        const client = yield* HttpClient.HttpClient
        const { acquire, pause } = yield* EdgarRateLimiter

        /** Replaces the SEC's address in a URL with the base URL, if one is set. */
        const locate = (url: string) =>
          Option.match(baseUrl, {
            onNone: () => url,
            onSome: (base) => url.replace(/^https:\/\/[^/]+/, base.replace(/\/+$/, "")),
          })

        /** Sends one request as soon as the rate limit allows it. */
        const attempt = Effect.fnUntraced(function* ({ url, validators }: EdgarDocumentRequest) {
          yield* acquire
          const headers = {
            "user-agent": userAgent,
            // `!= null` covers both a missing validator (null) and a request without validators (undefined).
            ...(validators?.etag != null && { "if-none-match": validators.etag }),
            ...(validators?.lastModified != null && { "if-modified-since": validators.lastModified }),
          }
          return yield* client.get(locate(url), { headers }).pipe(
            Effect.flatMap((response) => interpretResponse(url, response)),
            Effect.timeout(responseTimeout),
            Effect.provideService(HttpClient.TracerPropagationEnabled, false),
            Effect.catchTag(["HttpClientError", "TimeoutError"], (error) => Effect.fail(toTransientFailure(error))),
          )
        })

        /**
         * Retries the request after transient failures, and fails with `EdgarUnavailable` when the retries are
         * exhausted.
         */
        const attemptWithRetries = (request: EdgarDocumentRequest) =>
          attempt(request).pipe(
            Effect.retry({ schedule: edgarRetrySchedule, while: ({ _tag }) => _tag === "TransientFailure" }),
            Effect.catchTag(
              "TransientFailure",
              ({ reason }) => Effect.fail(new EdgarUnavailable({ url: request.url, reason })),
            ),
          )

        /**
         * Requests a document. If the SEC refuses the request, pauses the requests of all processes for ten minutes,
         * and then tries again once.
         */
        const request = (document: EdgarDocumentRequest) =>
          attemptWithRetries(document).pipe(
            Effect.tapErrorTag("RequestRefused", () => pause),
            Effect.retry({ times: 1, while: ({ _tag }) => _tag === "RequestRefused" }),
            Effect.catchTag("RequestRefused", ({ status }) =>
              Effect.fail(
                new EdgarBlocked({
                  message: `The SEC still refuses requests after a pause of ten minutes (status ${status}). ` +
                    "Check that the User-Agent names you and that no other program on this network sends the SEC " +
                    "requests. Continue later with --resume.",
                }),
              )),
          )
        return { request }
      }),
    ).pipe(
      Layer.provide(FetchHttpClient.layer),
      Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, { redirect: "manual" })),
    )

  /** Provides the client together with the rate limiter that all processes on the same database share. */
  static readonly limitedLayer = (userAgent: string, baseUrl: Option.Option<string>) =>
    Layer.provide(EdgarClient.layer(userAgent, baseUrl), EdgarRateLimiter.layer)
}
