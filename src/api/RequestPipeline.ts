/**
 * The steps of every request, in the order in which they run: find a stored response, match a route, take the steps of
 * its kind, finish, compress, store, record. Why: docs/decisions/0090-request-pipeline.md
 */
import { Cause, Context, Effect, Exit, Layer, Result, Scope } from "effect"
import type { HttpApi, HttpApiGroup } from "effect/http-api"
import { type Admission, type AdmissionRules, makeAdmit } from "../accounts/Admission.ts"
import type { EventualResponse, FinishedResponse } from "../contract/rules/Answer.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { isKnown, mapKnown } from "../contract/rules/KnownResults.ts"
import { logDefectAsInternalError } from "../contract/rules/Validation.ts"
import { makeCompress } from "./Compression.ts"
import { makeEndpointSteps } from "./EndpointSteps.ts"
import { type ApiFailure, toErrorAnswer } from "./ErrorResponses.ts"
import { type BilledAnswer, makeFinishAndRecord } from "./FinishAndRecord.ts"
import { makeMcpSteps, mcpRules } from "./McpSteps.ts"
import { makeBeginRequest, type RequestInProgress } from "./RequestInProgress.ts"
import { makeSpanRecorder } from "./RequestSpans.ts"
import { decodePath, mcpPath } from "./RequestTarget.ts"
import { canGetResponse, makeResponseCache } from "./ResponseCache.ts"
import { type Handlers, makeMatch } from "./Routes.ts"
import { makeEmptyAnswer } from "./UnroutedResponses.ts"

const toEffect = (response: EventualResponse) => Effect.isEffect(response) ? response : Exit.succeed(response)

/** Continues once an effect has ended, however it did: at once if its result is known. */
const onceEnded = <A, E>(
  effect: Effect.Effect<A, E>,
  next: (exit: Exit.Exit<A, E>) => EventualResponse,
): EventualResponse =>
  isKnown(effect) ? next(effect) : Effect.flatMap(Effect.exit(effect), (exit) => toEffect(next(exit)))

/** Begins the steps of a request. An exception becomes a defect, as it would in an effect. */
const begin = <A, E>(steps: () => Effect.Effect<A, E>): Effect.Effect<A, E> => {
  try {
    return steps()
  } catch (defect) {
    return Exit.die(defect)
  }
}

export class RequestPipeline extends Context.Service<RequestPipeline, {
  /**
   * Answers a request, and records it. Returns a response instead of an effect if nothing has to be waited for. The
   * scope closes when the body has been sent.
   */
  readonly respond: (request: ApiRequest, scope: () => Scope.Scope) => EventualResponse
}>()("tickerline/api/RequestPipeline") {
  /** `handlers` has the handler of every endpoint of `api`. */
  static readonly layer = <Groups extends HttpApiGroup.Constraint, E, R>(
    api: HttpApi.HttpApi<string, Groups>,
    handlers: Effect.Effect<Handlers, E, R>,
  ) =>
    Layer.effect(
      RequestPipeline,
      Effect.gen(function* () {
        const responseCache = yield* makeResponseCache
        const admit = yield* makeAdmit
        const match = yield* makeMatch(api, yield* handlers)
        const { beginAtRoute, beginElsewhere } = yield* makeBeginRequest
        const takeEndpointSteps = yield* makeEndpointSteps(admit)
        const takeMcpSteps = yield* makeMcpSteps(admit)
        const { finish, recordFinished } = yield* makeFinishAndRecord
        const compress = yield* makeCompress
        const recordSpan = yield* makeSpanRecorder

        const respond = (request: ApiRequest, scope: () => Scope.Scope): EventualResponse => {
          const cached = responseCache.find(request)
          if (cached === undefined) return respondFromRoute(request, scope, undefined)
          const admitting = admit(request, cached.rules)
          // An admission that has to wait has counted nothing yet, so that the route may begin it anew.
          if (!isKnown(admitting) || Exit.isFailure(admitting)) return respondFromRoute(request, scope, undefined)
          const admission = admitting.value
          const { account, error } = admission
          // The steps of the route find out why.
          if (account === undefined || error !== undefined || !canGetResponse(account, cached)) {
            return respondFromRoute(request, scope, admission)
          }
          const progress = beginAtRoute(request, cached.route, true)
          progress.admit(admission)
          return finishAnswer(progress, cached.rules, { answer: cached })
        }

        const respondFromRoute = (
          request: ApiRequest,
          scope: () => Scope.Scope,
          admission: Admission | undefined,
        ): EventualResponse => {
          const { handler: route, searchParams } = match(request)
          switch (route._tag) {
            case "Endpoint": {
              const progress = beginAtRoute(request, route.path, route.rules !== undefined)
              const context = { route, scope, run }
              return complete(
                progress,
                route.rules,
                () => takeEndpointSteps(progress, context, searchParams, admission),
              )
            }
            case "Mcp": {
              const progress = beginAtRoute(request, mcpPath, true)
              return complete(progress, mcpRules, () => takeMcpSteps(progress, scope, run))
            }
            case "Open": {
              const progress = beginElsewhere(request, decodePath(request.target))
              return complete(progress, undefined, () => mapKnown(route.answer(request), (answer) => ({ answer })))
            }
          }
        }

        /** Answers a request that this process makes. Its response must not be a stream. */
        const run = (request: ApiRequest): Effect.Effect<FinishedResponse> =>
          Effect.acquireUseRelease(
            Scope.make(),
            (scope) => toEffect(respond(request, () => scope)),
            (scope, exit) => Scope.close(scope, exit),
          )

        /**
         * Takes the steps, then finishes and records the request, however they end. Only the steps can be interrupted,
         * so that an interrupted request also gets its response, and ends its span.
         */
        const complete = (
          progress: RequestInProgress,
          rules: AdmissionRules | undefined,
          takeSteps: () => Effect.Effect<BilledAnswer, ApiFailure>,
        ): EventualResponse => {
          const steps = begin(takeSteps)
          const response = onceEnded(
            isKnown(steps) ? steps : Effect.interruptible(steps),
            (exit) => finishExit(progress, rules, exit),
          )
          const traced = recordSpan(progress.request, progress.route, response)
          return Effect.isEffect(traced) ? Effect.uninterruptible(traced) : traced
        }

        const finishExit = (
          progress: RequestInProgress,
          rules: AdmissionRules | undefined,
          exit: Exit.Exit<BilledAnswer, ApiFailure>,
        ): EventualResponse => {
          if (Exit.isSuccess(exit)) return finishAnswer(progress, rules, exit.value)
          const failure = Cause.findError(exit.cause)
          return Result.isSuccess(failure)
            ? finishAnswer(progress, rules, { answer: toErrorAnswer(failure.success) })
            : finishCause(progress, failure.failure)
        }

        /** Finishes an answer, and records the response: that to the answer, or 500 if it cannot be finished. */
        const finishAnswer = (
          progress: RequestInProgress,
          rules: AdmissionRules | undefined,
          billed: BilledAnswer,
        ): EventualResponse =>
          onceEnded(begin(() => makeResponse(progress, rules, billed)), (exit) => {
            if (Exit.isFailure(exit)) return finishCause(progress, exit.cause)
            const unpaid = recordFinished(progress, billed, exit.value, rules?.price !== undefined)
            return unpaid === undefined ? exit.value : finishAnswer(progress, rules, { answer: toErrorAnswer(unpaid) })
          })

        const makeResponse = (
          progress: RequestInProgress,
          rules: AdmissionRules | undefined,
          billed: BilledAnswer,
        ): Effect.Effect<FinishedResponse> => {
          const { answer } = billed
          const finished = finish(progress, billed)
          // A stored response is compressed already.
          if (answer._tag === "Cached") return Exit.succeed(finished)
          const compressed = toEffect(compress(progress.request, finished))
          if (answer._tag !== "Page" || rules === undefined) return compressed
          return mapKnown(compressed, (response) => responseCache.store(progress, rules, answer, response))
        }

        /** Finishes a request that failed unexpectedly (500), whose client has gone (499), or on shutdown (503). */
        const finishCause = (progress: RequestInProgress, cause: Cause.Cause<never>): EventualResponse => {
          if (!Cause.hasInterruptsOnly(cause)) {
            return Effect.map(
              logDefectAsInternalError(Cause.squash(cause), progress.request.id),
              (error) => finishPlainly(progress, { answer: toErrorAnswer(error) }),
            )
          }
          const status = progress.request.client.hasDisconnected() ? 499 : 503
          return finishPlainly(progress, { answer: makeEmptyAnswer(status, {}) })
        }

        /** Finishes and records an answer without compression, which may be what failed. */
        const finishPlainly = (progress: RequestInProgress, billed: BilledAnswer) => {
          const response = finish(progress, billed)
          recordFinished(progress, billed, response, false)
          return response
        }

        return RequestPipeline.of({ respond })
      }),
    )
}
