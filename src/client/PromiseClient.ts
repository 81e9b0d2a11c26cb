/**
 * `tickerline`, also as `tickerline/promise`: the API for programs without Effect. Its types name nothing of Effect, so
 * the published package works without it (see `client/build.ts`).
 *
 * ```ts
 * const tickerline = createClient({ baseUrl: "https://api.example.com", apiKey })
 * const { results: [chain] } = await tickerline.tickerChanges.get({ ticker: "OSTK" })
 * for await (const row of tickerline.intradayRunners.rows({ limit: 100 })) console.log(row.ticker, row.high_time)
 * ```
 */
import { Cause, DateTime, Effect, Exit, Redacted, Result, Schema } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { UtcInstant } from "../rows/Timestamps.ts"
import { type EndpointDecoder, endpointDecoders } from "./ResponseDecoder.ts"
import { type CallOutcome, formatDeprecationWarning, isResultPage, makeEndpointCaller, nextPageQuery } from "./Call.ts"
import { type AnyQuery, endpointNameOf } from "./Contract.ts"
import type { TickerlineClient } from "./PromiseContract.ts"
import { toTickerlineError } from "./TickerlineError.ts"
import type { NoAnswer } from "./ClientErrors.ts"
import type { CallOptions, ResultPage } from "./Resource.ts"
import type { DeprecationNotice, ResponseMetadata } from "./ResponseMetadata.ts"

export type { TickerlineClient } from "./PromiseContract.ts"
export { type DetailsOf, type ErrorCode, TickerlineError } from "./TickerlineError.ts"
export type { CallOptions, List, Resource } from "./Resource.ts"
export type { DeprecationNotice, ResponseMetadata } from "./ResponseMetadata.ts"

export interface PromiseClientOptions {
  /** Where the service is: `https://api.example.com`. */
  readonly baseUrl: string | URL
  /** Left out: only what needs none is answered. */
  readonly apiKey?: string | undefined
  /** How often a request is sent again after 429, 503 and lost connections, 3 by default; 0: never. */
  readonly retries?: number | undefined
  /** The longest wait before sending again, 30,000 by default; who is told to wait longer gets the error at once. */
  readonly longestWaitMs?: number | undefined
  /** The longest that one attempt takes, 60,000 by default. */
  readonly timeoutMs?: number | undefined
  readonly userAgent?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Instead of the global one: for proxies, tests, and what a platform adds. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Is told of each answer, an error's too: for meters of cost and limits. */
  readonly onAnswer?: ((path: string, told: ResponseMetadata) => void) | undefined
  /** Is told once of each endpoint that is deprecated. By default it is a warning on the console. */
  readonly onDeprecated?: ((path: string, deprecated: DeprecationNotice) => void) | undefined
}

const print = Schema.encodeSync(UtcInstant.schemas.json)

const plain = (value: unknown): unknown =>
  DateTime.isDateTime(value)
    ? print(DateTime.toUtc(value))
    : Array.isArray(value)
    ? value.map(plain)
    : typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]))
    : value

type Run = (
  plan: EndpointDecoder,
  query: AnyQuery,
  signal: AbortSignal | undefined,
) => Promise<Exit.Exit<CallOutcome, NoAnswer>>

/** Before it is known which endpoint it is. */
interface Unnamed {
  readonly get: (query: never, options?: CallOptions) => Promise<unknown>
  readonly getWithHeaders: (
    query: never,
    options?: CallOptions,
  ) => Promise<{ readonly answer: unknown; readonly told: ResponseMetadata }>
  readonly pages?: (query: never, options?: CallOptions) => AsyncIterable<ResultPage>
  readonly rows?: (query: never, options?: CallOptions) => AsyncIterable<unknown>
}

const resource = (plan: EndpointDecoder, run: Run): Unnamed => {
  const getWithHeaders = async (query: AnyQuery = {}, { signal }: CallOptions = {}) => {
    signal?.throwIfAborted()
    const exit = await run(plan, query, signal)
    if (Exit.isFailure(exit)) {
      signal?.throwIfAborted()
      throw toTickerlineError(Cause.squash(exit.cause), null)
    }
    const { result, told } = exit.value
    if (Result.isFailure(result)) throw toTickerlineError(result.failure, told)
    return { answer: plain(result.success), told }
  }
  const get = async (query?: AnyQuery, options?: CallOptions) => (await getWithHeaders(query, options)).answer
  async function* pages(query: AnyQuery = {}, options?: CallOptions) {
    for (let next: AnyQuery | undefined = query; next !== undefined;) {
      const answer: unknown = await get(next, options)
      if (isResultPage(answer)) yield answer
      next = nextPageQuery(next, answer)
    }
  }
  async function* rows(query?: AnyQuery, options?: CallOptions) {
    for await (const answer of pages(query, options)) yield* answer.results
  }
  return plan.paged ? { get, getWithHeaders, pages, rows } : { get, getWithHeaders }
}

const hook = <Value>(listener: (path: string, value: Value) => void) => (path: string, value: Value) =>
  Effect.sync(() => listener(path, value))

/** Throws a `TickerlineError` with the code `invalid_options` where no request can be sent with these options. */
export const createClient = (options: PromiseClientOptions): TickerlineClient => {
  const { apiKey, longestWaitMs, onAnswer, onDeprecated, retries, timeoutMs } = options
  const made = Effect.runSync(
    makeEndpointCaller({
      baseUrl: options.baseUrl,
      apiKey: apiKey === undefined ? undefined : Redacted.make(apiKey),
      retries: { times: retries, longestWait: longestWaitMs },
      timeout: timeoutMs,
      userAgent: options.userAgent,
      headers: options.headers,
      onAnswer: onAnswer === undefined ? undefined : hook(onAnswer),
      onDeprecated: hook(
        onDeprecated ?? ((path, deprecated) => console.warn(formatDeprecationWarning(path, deprecated))),
      ),
    }).pipe(Effect.result, Effect.provide(FetchHttpClient.layer)),
  )
  if (Result.isFailure(made)) throw toTickerlineError(made.failure, null)
  const ask = made.success
  const run: Run = (plan, query, signal) =>
    ask(plan, query).pipe(
      // Headers that no preflight of a browser expects.
      Effect.provideService(HttpClient.TracerPropagationEnabled, false),
      Effect.provideService(FetchHttpClient.Fetch, options.fetch ?? globalThis.fetch),
      (call) => Effect.runPromiseExit(call, signal === undefined ? {} : { signal }),
    )
  // The types are read from the contract as the values are; here alone the compiler takes our word that they agree.
  return Object.fromEntries(
    endpointDecoders.map((plan) => [endpointNameOf(plan.path), resource(plan, run)]),
  ) as TickerlineClient
}
