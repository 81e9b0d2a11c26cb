/** One request after the other, until there is an answer: what both faces do to the wire. */
import { Clock, Duration, Effect, Redacted } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest } from "effect/http"
import { makeRequestId } from "../rules/RequestIds.ts"
import type { RawResponse } from "./ResponseDecoder.ts"
import type { AnyQuery, QueryValue } from "./Contract.ts"
import { InvalidOptions, NoAnswer } from "./ClientErrors.ts"
import { makeRetryPolicy, type RetryOptions } from "./RetryPolicy.ts"
import { readResponseMetadata, type ResponseMetadata, retryAfterMillis } from "./ResponseMetadata.ts"

/** The same as in `client/package.json`. */
export const clientVersion = "0.2.0"

export interface ConnectionOptions {
  /** Where the service is: `https://api.example.com`. A path before `/v1` stays. */
  readonly baseUrl: string | URL
  /** Sent as `Authorization: Bearer`, which redirects do not carry to another host. Left out: what needs none. */
  readonly apiKey?: Redacted.Redacted | undefined
  readonly retries?: RetryOptions | undefined
  /** The longest that one attempt takes, to its last byte: a minute by default. */
  readonly timeout?: Duration.Input | undefined
  /** Whose requests these are, put before the client's own name in `User-Agent`. Browsers keep theirs. */
  readonly userAgent?: string | undefined
  /** Sent with each request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** Neither can carry anything into another header, and no message of `fetch` can tell the key. */
const sendable = /^[\x20-\x7e]*$/

const baseOf = (address: string | URL) => {
  const url = URL.canParse(String(address)) ? new URL(address) : undefined
  return url !== undefined && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === ""
    ? Effect.succeed(url.href.replace(/\/+$/, ""))
    : Effect.fail(
      new InvalidOptions({ message: "baseUrl must be an address such as https://api.example.com, without a query" }),
    )
}

const headersOf = ({ apiKey, headers = {}, userAgent }: ConnectionOptions) => {
  const key = apiKey === undefined ? undefined : Redacted.value(apiKey).trim()
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key)) {
    return Effect.fail(new InvalidOptions({ message: "apiKey must be a key: not empty, and without white space" }))
  }
  const wrong = Object.entries({ ...headers, userAgent: userAgent ?? "" }).find(([, value]) => !sendable.test(value))
  if (wrong !== undefined) {
    return Effect.fail(new InvalidOptions({ message: `${wrong[0]} must have no line breaks, and ASCII alone` }))
  }
  return Effect.succeed({
    Accept: "application/json",
    ...headers,
    "User-Agent": `${userAgent === undefined ? "" : `${userAgent} `}tickerline-client/${clientVersion}`,
    ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
  })
}

const written = (value: Exclude<QueryValue, undefined>) => Array.isArray(value) ? value.join(",") : String(value)

/** The service is the one judge of parameters: what is wrong with one comes back as a `ValidationError` (D11). */
const searchOf = (query: AnyQuery) => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, written(value))
  return search.size === 0 ? "" : `?${search}`
}

class Lost {
  readonly reason: NoAnswer["reason"]
  readonly cause: unknown
  constructor(reason: NoAnswer["reason"], cause: unknown) {
    this.reason = reason
    this.cause = cause
  }
}

const causeOf = ({ reason }: HttpClientError.HttpClientError) => "cause" in reason ? reason.cause : reason.description

/** `query` holds parameters, or is a raw query string: empty, or with its `?`. */
export type SendRequest = (path: string, query: AnyQuery | string) => Effect.Effect<RawResponse, NoAnswer>

/** Fails with `InvalidOptions` rather than with each request. */
export const makeRequestSender = Effect.fnUntraced(function* (options: ConnectionOptions) {
  const client = yield* HttpClient.HttpClient
  const base = yield* baseOf(options.baseUrl)
  const headers = yield* headersOf(options)
  const timeout = options.timeout ?? "1 minute"
  const { delayBeforeRetry: wait } = makeRetryPolicy(options.retries ?? {})

  const attempt = (url: string, id: string) =>
    client.execute(HttpClientRequest.get(url, { headers: { ...headers, "X-Request-Id": id } })).pipe(
      Effect.flatMap((response) => Effect.map(response.text, (text) => ({ response, text }))),
      Effect.mapError((error) => new Lost("connection", causeOf(error))),
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(new Lost("timeout", undefined)) }),
      Effect.result,
    )

  const noAnswer = ({ cause, reason }: Lost, path: string, request_id: string, attempts: number) => {
    const what = reason === "timeout"
      ? `took longer than ${Duration.format(Duration.fromInputUnsafe(timeout))}`
      : "was not answered: the connection failed or was lost"
    const times = attempts === 1 ? "" : ` (${attempts} attempts)`
    return new NoAnswer({ message: `${path} ${what}${times}`, reason, request_id, attempts, cause })
  }

  const send: SendRequest = Effect.fnUntraced(function* (path, query) {
    const url = `${base}${path}${typeof query === "string" ? query : searchOf(query)}`
    for (let attempts = 1;; attempts += 1) {
      const sent = makeRequestId()
      const outcome = yield* attempt(url, sent)
      const now = yield* Clock.currentTimeMillis
      const answered = outcome._tag === "Success" ? outcome.success.response : undefined
      const after = answered === undefined ? null : retryAfterMillis(answered.headers, now)
      const delay = yield* wait({ status: answered?.status, retryAfter: after }, attempts)
      if (delay !== undefined) {
        yield* Effect.sleep(delay)
        continue
      }
      if (outcome._tag === "Failure") return yield* noAnswer(outcome.failure, path, sent, attempts)
      const { response: { headers, status }, text } = outcome.success
      const seen: ResponseMetadata = readResponseMetadata({ status, headers, attempts, now, request_id: sent })
      return { text, headers, told: seen }
    }
  })
  return send
})
