/**
 * Runs the steps of every request in order: looks for a cached response, matches a route, runs the steps for that kind
 * of route, builds the response, compresses it, caches it, and records it. See docs/decisions/0090-request-pipeline.md.
 */
import { Cause, Context, Effect, Exit, Layer, Result, Scope } from "effect"
import type { HttpApi, HttpApiGroup } from "effect/http-api"
import { type Admission, type AdmissionRules, makeRequestAdmitter } from "../accounts/RequestAdmission.ts"
import type { EventualResponse, FinishedResponse } from "../contract/rules/EndpointResult.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { isSettled, mapSync } from "../contract/rules/SynchronousResults.ts"
import { logDefectAsInternalError } from "../contract/rules/QueryValidation.ts"
import { makeResponseCompressor } from "./Compression.ts"
import { makeEndpointPipeline } from "./EndpointPipeline.ts"
import { type ApiFailure, toErrorResult } from "./ErrorResponses.ts"
import { type BilledResult, makeMeteredResponseBuilder } from "./MeteredResponseBuilder.ts"
import { makeMcpPipeline, mcpRules } from "./McpPipeline.ts"
import { makeRequestFactory, type RequestInProgress } from "./RequestInProgress.ts"
import { makeSpanRecorder } from "./RequestSpans.ts"
import { decodePath, mcpPath } from "./RequestTarget.ts"
import { canGetResponse, makeResponseCache } from "./ResponseCache.ts"
import { type EndpointHandlers, makeRouteMatcher } from "./Routes.ts"
import { makeEmptyResponse } from "./UnroutedResponses.ts"

/** Returns a response that may be available immediately as an effect in any case. */
const toEffect = (response: EventualResponse) => Effect.isEffect(response) ? response : Exit.succeed(response)

/**
 * Calls `next` when the effect ends, whether it succeeds or fails. If the effect is already an `Exit`, calls `next`
 * immediately.
 */
const onceEnded = <A, E>(
  effect: Effect.Effect<A, E>,
  next: (exit: Exit.Exit<A, E>) => EventualResponse,
): EventualResponse =>
  isSettled(effect) ? next(effect) : Effect.flatMap(Effect.exit(effect), (exit) => toEffect(next(exit)))

/** Starts the steps of a request. If `steps` throws an exception, it becomes a defect, as it would inside an effect. */
const begin = <A, E>(steps: () => Effect.Effect<A, E>): Effect.Effect<A, E> => {
  try {
    return steps()
  } catch (defect) {
    return Exit.die(defect)
  }
}

/**
 * Turns requests into responses. Every request passes through it, whether it was received over a socket or made within
 * this process.
 */
export class RequestPipeline extends Context.Service<RequestPipeline, {
  /**
   * Responds to a request and records it. Returns the response itself instead of an effect if the response is available
   * immediately. `scope` creates the scope of the request's resources when it is first called. The caller must close
   * that scope after the body has been sent.
   */
  readonly respond: (request: ApiRequest, scope: () => Scope.Scope) => EventualResponse
}>()("tickerline/api/RequestPipeline") {
  /** `handlers` contains the handlers of all endpoints of `api`. */
  static readonly layer = <Groups extends HttpApiGroup.Constraint, E, R>(
    api: HttpApi.HttpApi<string, Groups>,
    handlers: Effect.Effect<EndpointHandlers, E, R>,
  ) =>
    Layer.effect(
      RequestPipeline,
      Effect.gen(function* () {
        const responseCache = yield* makeResponseCache
        const admit = yield* makeRequestAdmitter
        const match = yield* makeRouteMatcher(api, yield* handlers)
        const { beginAtRoute, beginUnrouted } = yield* makeRequestFactory
        const takeEndpointSteps = yield* makeEndpointPipeline(admit)
        const takeMcpSteps = yield* makeMcpPipeline(admit)
        const { finish, recordFinished } = yield* makeMeteredResponseBuilder
        const compress = yield* makeResponseCompressor
        const recordSpan = yield* makeSpanRecorder

        /** Responds from the response cache if possible, and otherwise by running the steps of the request's route. */
        const respond = (request: ApiRequest, scope: () => Scope.Scope): EventualResponse => {
          const cached = responseCache.find(request)
          if (cached === undefined) return respondFromRoute(request, scope, undefined)
          const admitting = admit(request, cached.rules)
          // If the admission check has to wait, or fails with a defect, it has not counted the request yet. It can
          // therefore be repeated for the route.
          if (!isSettled(admitting) || Exit.isFailure(admitting)) return respondFromRoute(request, scope, undefined)
          const admission = admitting.value
          const { account, error } = admission
          // The steps of the route find out why the request is refused, and respond with that error.
          if (account === undefined || error !== undefined || !canGetResponse(account, cached)) {
            return respondFromRoute(request, scope, admission)
          }
          const progress = beginAtRoute(request, cached.route, true)
          progress.admit(admission)
          return finishResult(progress, cached.rules, { result: cached })
        }

        /**
         * Finds the route for a request and runs its steps. `admission` is set if the request has already been admitted
         * or refused.
         */
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
              const progress = beginUnrouted(request, decodePath(request.target))
              return complete(progress, undefined, () => mapSync(route.respond(request), (result) => ({ result })))
            }
          }
        }

        /**
         * Handles a request made within this process, such as by an MCP tool. The scope closes before the caller reads
         * the body, so the response must not be a stream.
         */
        const run = (request: ApiRequest): Effect.Effect<FinishedResponse> =>
          Effect.acquireUseRelease(
            Scope.make(),
            (scope) => toEffect(respond(request, () => scope)),
            (scope, exit) => Scope.close(scope, exit),
          )

        /**
         * Runs the steps of a request, and then finishes and records the request, however the steps end. Only the steps
         * can be interrupted, so that an interrupted request still gets a response, and its span ends.
         */
        const complete = (
          progress: RequestInProgress,
          rules: AdmissionRules | undefined,
          takeSteps: () => Effect.Effect<BilledResult, ApiFailure>,
        ): EventualResponse => {
          const steps = begin(takeSteps)
          const response = onceEnded(
            isSettled(steps) ? steps : Effect.interruptible(steps),
            (exit) => finishExit(progress, rules, exit),
          )
          const traced = recordSpan(progress.request, progress.route, response)
          return Effect.isEffect(traced) ? Effect.uninterruptible(traced) : traced
        }

        /** Finishes a request when its steps have ended: with a result, with an API error, or without either. */
        const finishExit = (
          progress: RequestInProgress,
          rules: AdmissionRules | undefined,
          exit: Exit.Exit<BilledResult, ApiFailure>,
        ): EventualResponse => {
          if (Exit.isSuccess(exit)) return finishResult(progress, rules, exit.value)
          const failure = Cause.findError(exit.cause)
          return Result.isSuccess(failure)
            ? finishResult(progress, rules, { result: toErrorResult(failure.success) })
            : finishCause(progress, failure.failure)
        }

        /**
         * Builds the response for a result, compresses it, and records it. If building fails, responds with 500. If the
         * account can no longer pay for the response, responds with the error returned by `recordFinished`.
         */
        const finishResult = (
          progress: RequestInProgress,
          rules: AdmissionRules | undefined,
          billed: BilledResult,
        ): EventualResponse =>
          onceEnded(begin(() => makeResponse(progress, rules, billed)), (exit) => {
            if (Exit.isFailure(exit)) return finishCause(progress, exit.cause)
            const unpaid = recordFinished(progress, billed, exit.value, rules?.price !== undefined)
            return unpaid === undefined ? exit.value : finishResult(progress, rules, { result: toErrorResult(unpaid) })
          })

        /** Builds and compresses the response for a result, and stores it in the response cache if possible. */
        const makeResponse = (
          progress: RequestInProgress,
          rules: AdmissionRules | undefined,
          billed: BilledResult,
        ): Effect.Effect<FinishedResponse> => {
          const { result } = billed
          const finished = finish(progress, billed)
          // Cached responses are already compressed.
          if (result._tag === "Cached") return Exit.succeed(finished)
          const compressed = toEffect(compress(progress.request, finished))
          if (result._tag !== "Page" || rules === undefined) return compressed
          return mapSync(compressed, (response) => responseCache.store(progress, rules, result, response))
        }

        /**
         * Finishes a request that has no result. Responds with 500 after a defect, 499 if the client has disconnected,
         * or 503 if the service is shutting down.
         */
        const finishCause = (progress: RequestInProgress, cause: Cause.Cause<never>): EventualResponse => {
          if (!Cause.hasInterruptsOnly(cause)) {
            return Effect.map(
              logDefectAsInternalError(Cause.squash(cause), progress.request.id),
              (error) => finishPlainly(progress, { result: toErrorResult(error) }),
            )
          }
          const status = progress.request.client.hasDisconnected() ? 499 : 503
          return finishPlainly(progress, { result: makeEmptyResponse(status, {}) })
        }

        /** Finishes and records a result without compressing it, because compression itself may have failed. */
        const finishPlainly = (progress: RequestInProgress, billed: BilledResult) => {
          const response = finish(progress, billed)
          recordFinished(progress, billed, response, false)
          return response
        }

        return RequestPipeline.of({ respond })
      }),
    )
}
