/** A question and what came of it, for both faces. */
import { Effect, Result } from "effect"
import type { Plan } from "./ResponseDecoder.ts"
import type { AnyQuery, Paged } from "./Contract.ts"
import type { NoAnswer } from "./Failures.ts"
import { type Options as Connection, sender } from "./HttpSender.ts"
import type { Deprecated, Told } from "./ResponseMetadata.ts"

export interface Options extends Connection {
  /** Is told of each answer, an error's too: for meters of cost and limits. What it does is part of the request. */
  readonly onAnswer?: ((path: string, told: Told) => Effect.Effect<void>) | undefined
  /** Is told once of each endpoint that is deprecated (§9.4). By default it is logged, as a warning. */
  readonly onDeprecated?: ((path: string, deprecated: Deprecated) => Effect.Effect<void>) | undefined
}

export interface Outcome {
  /** The answer, or the error that was answered. */
  readonly result: Result.Result<unknown, unknown>
  readonly told: Told
}

export type Ask = (plan: Plan, query: AnyQuery) => Effect.Effect<Outcome, NoAnswer>

/** What is deprecated, until when, and what replaces it. */
export const warning = (path: string, { documentation, successor, sunset }: Deprecated) =>
  `${path} is deprecated${sunset === null ? "" : ` and may stop responding after ${sunset}`}.` +
  (successor === null ? "" : ` Use ${successor}`) + (documentation === null ? "" : ` See ${documentation}`)

export const asker = Effect.fnUntraced(function* (options: Options) {
  const send = yield* sender(options)
  const {
    onAnswer = () => Effect.void,
    onDeprecated = (path, deprecated) => Effect.logWarning(warning(path, deprecated)),
  } = options
  const warned = new Set<string>()
  const once = (path: string, { deprecated }: Told) =>
    Effect.suspend(() => {
      if (deprecated === null || warned.has(path)) return Effect.void
      warned.add(path)
      return onDeprecated(path, deprecated)
    })
  const ask: Ask = Effect.fnUntraced(function* (plan, query) {
    const reply = yield* send(plan.path, query)
    yield* once(plan.path, reply.told)
    yield* onAnswer(plan.path, reply.told)
    return { result: yield* Effect.result(plan.read(reply)), told: reply.told }
  })
  return ask
})

export const isPaged = (answer: unknown): answer is Paged =>
  typeof answer === "object" && answer !== null && "has_more" in answer && "page" in answer

/** The query of the page that follows this answer. */
export const following = (query: AnyQuery, answer: unknown): AnyQuery | undefined =>
  isPaged(answer) && answer.has_more ? { ...query, page: answer.page + 1 } : undefined

export const rowsIn = (answer: unknown): ReadonlyArray<unknown> => isPaged(answer) ? answer.results : []
