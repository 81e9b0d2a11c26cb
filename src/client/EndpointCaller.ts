/** Calls an endpoint: sends the request, retries it, decodes the response. Shared by the Effect and Promise clients. */
import { Clock, Duration, Effect, Redacted, Result } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest } from "effect/http"
import { makeRequestId } from "../rules/RequestIds.ts"
import { InvalidOptions, NoAnswer } from "./ClientErrors.ts"
import type { AnyQuery, QueryValue, ResultPage } from "./EndpointTypes.ts"
import type { EndpointDecoder, RawResponse } from "./ResponseDecoder.ts"
import {
  type DeprecationNotice,
  parseRetryAfterMillis,
  readResponseMetadata,
  type ResponseMetadata,
} from "./ResponseMetadata.ts"
import { makeRetryPolicy, type RetryOptions } from "./RetryPolicy.ts"

/** The version in `client/package.json`. */
export const clientVersion = "0.2.0"

export interface ClientOptions {
  /** `https://api.example.com`, optionally with a path prefix before `/v1`. */
  readonly baseUrl: string | URL
  /** Sent as `Authorization: Bearer`. Optional for endpoints that require no key. */
  readonly apiKey?: Redacted.Redacted | undefined
  readonly retries?: RetryOptions | undefined
  /** Maximum duration of one attempt, until the last byte of the response; 1 minute by default. */
  readonly timeout?: Duration.Input | undefined
  /** Identifies your program. Precedes the client's own name in `User-Agent`; browsers ignore it. */
  readonly userAgent?: string | undefined
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Called after every response, including errors, for example to add up costs. The call waits for it to finish. */
  readonly onAnswer?: ((path: string, metadata: ResponseMetadata) => Effect.Effect<void>) | undefined
  /** Called once for each deprecated endpoint (§9.4, deprecation). Logs a warning by default. */
  readonly onDeprecated?: ((path: string, deprecated: DeprecationNotice) => Effect.Effect<void>) | undefined
}

const parseBaseUrl = (address: string | URL) => {
  const url = URL.canParse(String(address)) ? new URL(address) : undefined
  return url !== undefined && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === ""
    ? Effect.succeed(url.href.replace(/\/+$/, ""))
    : Effect.fail(
      new InvalidOptions({ message: "baseUrl must be a URL such as https://api.example.com, without a query" }),
    )
}

/**
 * Printable ASCII. Line breaks could inject a header, and if a value contains other characters, the error message of
 * `fetch` quotes it, even if it is a key.
 */
const headerValue = /^[\x20-\x7e]*$/

const makeHeaders = ({ apiKey, headers = {}, userAgent }: ClientOptions) => {
  const key = apiKey === undefined ? undefined : Redacted.value(apiKey).trim()
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key)) {
    return Effect.fail(new InvalidOptions({ message: "apiKey must not be empty or contain spaces" }))
  }
  const invalid = Object.entries({ ...headers, userAgent: userAgent ?? "" }).find(([, value]) =>
    !headerValue.test(value)
  )
  if (invalid !== undefined) {
    return Effect.fail(new InvalidOptions({ message: `${invalid[0]} must contain only printable ASCII characters` }))
  }
  return Effect.succeed({
    Accept: "application/json",
    ...headers,
    "User-Agent": `${userAgent === undefined ? "" : `${userAgent} `}tickerline-client/${clientVersion}`,
    ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
  })
}

/** Encodes values without validation: the service validates them and returns `ValidationError` (D11, error body). */
const encodeQuery = (query: AnyQuery) => {
  const encode = (value: Exclude<QueryValue, undefined>) => Array.isArray(value) ? value.join(",") : String(value)
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, encode(value))
  return search.size === 0 ? "" : `?${search}`
}

class AttemptFailure {
  readonly reason: NoAnswer["reason"]
  readonly cause: unknown
  constructor(reason: NoAnswer["reason"], cause: unknown) {
    this.reason = reason
    this.cause = cause
  }
}

const causeOf = ({ reason }: HttpClientError.HttpClientError) => "cause" in reason ? reason.cause : reason.description

/**
 * Returns a function that sends a request, with retries. The query is an object, or a raw query string with its `?`.
 * Fails if the options are invalid.
 */
export const makeRequestSender = Effect.fnUntraced(function* (options: ClientOptions) {
  const client = yield* HttpClient.HttpClient
  const baseUrl = yield* parseBaseUrl(options.baseUrl)
  const headers = yield* makeHeaders(options)
  const timeout = options.timeout ?? "1 minute"
  const delayBeforeRetry = makeRetryPolicy(options.retries ?? {})

  const attempt = (url: string, requestId: string) =>
    client.execute(HttpClientRequest.get(url, { headers: { ...headers, "X-Request-Id": requestId } })).pipe(
      Effect.flatMap((response) => Effect.map(response.text, (text) => ({ response, text }))),
      Effect.mapError((error) => new AttemptFailure("connection", causeOf(error))),
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(new AttemptFailure("timeout", undefined)) }),
      Effect.result,
    )

  const noAnswer = ({ cause, reason }: AttemptFailure, path: string, request_id: string, attempts: number) => {
    const problem = reason === "timeout"
      ? `took longer than ${Duration.format(Duration.fromInputUnsafe(timeout))}`
      : "got no response: the connection failed or was lost"
    const suffix = attempts === 1 ? "" : ` (${attempts} attempts)`
    return new NoAnswer({ message: `${path} ${problem}${suffix}`, reason, request_id, attempts, cause })
  }

  return Effect.fnUntraced(function* (path: string, query: AnyQuery | string) {
    const url = `${baseUrl}${path}${typeof query === "string" ? query : encodeQuery(query)}`
    for (let attempts = 1;; attempts += 1) {
      const sentRequestId = makeRequestId()
      const result = yield* attempt(url, sentRequestId)
      const now = yield* Clock.currentTimeMillis
      const response = Result.isSuccess(result) ? result.success.response : undefined
      const retryAfterMillis = response === undefined ? null : parseRetryAfterMillis(response.headers, now)
      const delay = yield* delayBeforeRetry({ status: response?.status, retryAfterMillis }, attempts)
      if (delay !== undefined) {
        yield* Effect.sleep(delay)
        continue
      }
      if (Result.isFailure(result)) return yield* noAnswer(result.failure, path, sentRequestId, attempts)
      const { response: { headers, status }, text } = result.success
      const raw: RawResponse = {
        text,
        headers,
        metadata: readResponseMetadata({ status, headers, attempts, now, sentRequestId }),
      }
      return raw
    }
  })
})

export interface CallOutcome {
  /** The decoded body, or the decoded error. */
  readonly result: Result.Result<unknown, unknown>
  readonly metadata: ResponseMetadata
}

export type CallEndpoint = (endpoint: EndpointDecoder, query: AnyQuery) => Effect.Effect<CallOutcome, NoAnswer>

export const formatDeprecationWarning = (path: string, { documentation, successor, sunset }: DeprecationNotice) =>
  [
    `${path} is deprecated${sunset === null ? "" : ` and may stop responding after ${sunset}`}.`,
    ...(successor === null ? [] : [`Use ${successor}`]),
    ...(documentation === null ? [] : [`See ${documentation}`]),
  ].join(" ")

export const makeEndpointCaller = Effect.fnUntraced(function* (options: ClientOptions) {
  const send = yield* makeRequestSender(options)
  const {
    onAnswer = () => Effect.void,
    onDeprecated = (path, deprecated) => Effect.logWarning(formatDeprecationWarning(path, deprecated)),
  } = options
  const reported = new Set<string>()
  const reportDeprecation = (path: string, { deprecated }: ResponseMetadata) =>
    Effect.suspend(() => {
      if (deprecated === null || reported.has(path)) return Effect.void
      reported.add(path)
      return onDeprecated(path, deprecated)
    })
  const call: CallEndpoint = Effect.fnUntraced(function* ({ decode, path }, query) {
    const response = yield* send(path, query)
    yield* reportDeprecation(path, response.metadata)
    yield* onAnswer(path, response.metadata)
    return { result: yield* Effect.result(decode(response)), metadata: response.metadata }
  })
  return call
})

export const isResultPage = (body: unknown): body is ResultPage =>
  typeof body === "object" && body !== null && "has_more" in body && "page" in body

/** The query of the next page; undefined after the last one. */
export const nextPageQuery = (query: AnyQuery, body: unknown): AnyQuery | undefined =>
  isResultPage(body) && body.has_more ? { ...query, page: body.page + 1 } : undefined

export const getRowsOfBody = (body: unknown): ReadonlyArray<unknown> => isResultPage(body) ? body.results : []
