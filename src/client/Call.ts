/** A question and what came of it, for both faces. */
import { Effect, Result } from "effect"
import type { EndpointDecoder } from "./ResponseDecoder.ts"
import type { AnyQuery, ResultPage } from "./Contract.ts"
import type { NoAnswer } from "./ClientErrors.ts"
import { type ConnectionOptions as Connection, makeRequestSender } from "./HttpSender.ts"
import type { DeprecationNotice, ResponseMetadata } from "./ResponseMetadata.ts"

export interface ClientOptions extends Connection {
  /** Is told of each answer, an error's too: for meters of cost and limits. What it does is part of the request. */
  readonly onAnswer?: ((path: string, told: ResponseMetadata) => Effect.Effect<void>) | undefined
  /** Is told once of each endpoint that is deprecated (§9.4). By default it is logged, as a warning. */
  readonly onDeprecated?: ((path: string, deprecated: DeprecationNotice) => Effect.Effect<void>) | undefined
}

export interface CallOutcome {
  /** The answer, or the error that was answered. */
  readonly result: Result.Result<unknown, unknown>
  readonly told: ResponseMetadata
}

export type CallEndpoint = (plan: EndpointDecoder, query: AnyQuery) => Effect.Effect<CallOutcome, NoAnswer>

/** What is deprecated, until when, and what replaces it. */
export const formatDeprecationWarning = (path: string, { documentation, successor, sunset }: DeprecationNotice) =>
  `${path} is deprecated${sunset === null ? "" : ` and may stop responding after ${sunset}`}.` +
  (successor === null ? "" : ` Use ${successor}`) + (documentation === null ? "" : ` See ${documentation}`)

export const makeEndpointCaller = Effect.fnUntraced(function* (options: ClientOptions) {
  const send = yield* makeRequestSender(options)
  const {
    onAnswer = () => Effect.void,
    onDeprecated = (path, deprecated) => Effect.logWarning(formatDeprecationWarning(path, deprecated)),
  } = options
  const warned = new Set<string>()
  const once = (path: string, { deprecated }: ResponseMetadata) =>
    Effect.suspend(() => {
      if (deprecated === null || warned.has(path)) return Effect.void
      warned.add(path)
      return onDeprecated(path, deprecated)
    })
  const ask: CallEndpoint = Effect.fnUntraced(function* (plan, query) {
    const reply = yield* send(plan.path, query)
    yield* once(plan.path, reply.told)
    yield* onAnswer(plan.path, reply.told)
    return { result: yield* Effect.result(plan.read(reply)), told: reply.told }
  })
  return ask
})

export const isResultPage = (answer: unknown): answer is ResultPage =>
  typeof answer === "object" && answer !== null && "has_more" in answer && "page" in answer

/** The query of the page that follows this answer. */
export const nextPageQuery = (query: AnyQuery, answer: unknown): AnyQuery | undefined =>
  isResultPage(answer) && answer.has_more ? { ...query, page: answer.page + 1 } : undefined

export const rowsOfPage = (answer: unknown): ReadonlyArray<unknown> => isResultPage(answer) ? answer.results : []
