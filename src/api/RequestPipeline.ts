/**
 * The steps of every request, in the order in which they run: response cache, match, admit, decode, answer, finish,
 * record. Each takes values and returns values. Why: docs/decisions/0090-request-pipeline.md
 */
import { Cause, Context, Effect, Exit, Layer, Option, Result, Scope, Stream } from "effect"
import { FindMyWay } from "effect/http"
import { HttpApi, type HttpApiEndpoint, type HttpApiGroup } from "effect/http-api"
import { type Admission, type AdmissionRules, makeAdmit, makeCreditCheck } from "../accounts/Admission.ts"
import { BillingMiddleware } from "../contract/Authorization.ts"
import { type BilledExport, makeExportBilling } from "../accounts/billing/ExportBilling.ts"
import { computeDataCost, PriceLookup } from "../accounts/billing/Pricing.ts"
import type { AdmittedRequest, KeyedHandler, PublicHandler, ReceivedRequest } from "../query/EndpointHandler.ts"
import { AuthenticationMiddleware } from "../contract/Authentication.ts"
import { PastReader } from "../query/history/PastReader.ts"
import { formatDigestHeader } from "../contract/rows/ListFormats.ts"
import { type Answer, type ExportAnswer, type FinishedResponse, noCache } from "../contract/rules/Answer.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { presentMoment, readAsOfParameter, replacePresentMoment } from "../contract/rules/AsOfParameter.ts"
import {
  ApiVersionDeprecation,
  type Deprecation,
  findSunsetError,
  getEndpointDeprecation,
  validateDeprecation,
} from "../contract/rules/Deprecation.ts"
import { flatMapKnown, isKnown, mapKnown } from "../contract/rules/KnownResults.ts"
import { RequiredTier, TablesReadByEndpoint } from "../contract/rules/EndpointAnnotations.ts"
import { findDroppedTickers } from "../contract/rules/Tickers.ts"
import {
  logDefectAsInternalError,
  makeQueryValidationError,
  type RawSearchParameters,
} from "../contract/rules/Validation.ts"
import type { PastSource } from "../postgres/Reader.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { AnsweredRequest } from "./AnsweredRequest.ts"
import { makeCompress } from "./Compression.ts"
import { type ApiFailure, encodeError, type ErrorAnswer, toErrorAnswer } from "./ErrorResponses.ts"
import { costHeader, makeFinish } from "./Finish.ts"
import { DocumentationPages, McpEndpoint } from "./OtherRoutes.ts"
import { makeRecorder, type RecordOptions } from "./Record.ts"
import { makeSpanRecorder } from "./RequestSpans.ts"
import { decodePath, legacyPathPrefix, maxParamLength, mcpPath } from "./RequestTarget.ts"
import { type CachedResponse, canGetResponse, finishCached, makeResponseCache } from "./ResponseCache.ts"
import {
  announceDeprecations,
  answerBeforeRouting,
  answerLegacyPath,
  answerUnknownPath,
  EndpointDirectory,
  isMcpRequest,
  isVersionedPath,
  listDeprecations,
  makeEmptyAnswer,
} from "./UnroutedResponses.ts"

export type EndpointHandler = KeyedHandler<ApiFailure> | PublicHandler<ApiFailure>

/** The handlers of a contract's endpoints, by group and endpoint. */
export type Handlers = Readonly<Record<string, Readonly<Record<string, EndpointHandler>>>>

/** An endpoint that needs a key may have any handler; any other must have one that needs no account. */
type HandlerOf<Endpoint extends HttpApiEndpoint.Top> = AuthenticationMiddleware extends
  HttpApiEndpoint.Middleware<Endpoint> ? EndpointHandler : PublicHandler<ApiFailure>

/** The handlers that the groups of a contract need. */
export type HandlersOf<Groups> = {
  readonly [Group in keyof Groups]: Groups[Group] extends { readonly endpoints: infer Endpoints } ? {
      readonly [Name in keyof Endpoints]: Endpoints[Name] extends HttpApiEndpoint.Top ? HandlerOf<Endpoints[Name]>
        : never
    }
    : never
}

interface EndpointRoute {
  readonly _tag: "Endpoint"
  readonly path: string
  /** Undefined if the endpoint needs no key. */
  readonly rules: AdmissionRules | undefined
  readonly deprecation: Deprecation | undefined
  readonly tables: ReadonlyArray<string>
  readonly handler: EndpointHandler
}

interface PageRoute {
  readonly _tag: "Page"
  readonly answer: (request: ApiRequest) => Effect.Effect<Answer | ErrorAnswer>
}

const routerConfig = {
  maxParamLength,
  caseSensitive: true,
  ignoreDuplicateSlashes: false,
}

/** A response, or the effect that makes it if something has to be waited for. */
type Response = Effect.Effect<FinishedResponse> | FinishedResponse

const toEffect = (response: Response) => Effect.isEffect(response) ? response : Exit.succeed(response)

/** Begins the steps of a request. An exception becomes a defect, as it would in an effect. */
const begin = <A, E>(steps: () => Effect.Effect<A, E>): Effect.Effect<A, E> => {
  try {
    return steps()
  } catch (defect) {
    return Exit.die(defect)
  }
}

/** The result of the steps before `finish`. */
interface Settled {
  readonly answer: Answer | ErrorAnswer | CachedResponse
  /** Set for an export. */
  readonly billed?: BilledExport
  readonly recording?: RecordOptions
}

type AdmittedPart = Omit<AdmittedRequest, keyof ReceivedRequest>

type Respond = (received: ReceivedRequest, admitted: AdmittedPart | undefined) => Effect.Effect<Answer, ApiFailure>

/** Decodes the query of a request. The result answers the request. */
const decode = (handler: EndpointHandler, parameters: RawSearchParameters, now: number) =>
  handler.needsKey
    ? Exit.map(
      handler.decode(parameters, now),
      (answer): Respond => (received, admitted) =>
        admitted === undefined
          ? Effect.die(new Error("An endpoint that needs a key was requested without one"))
          : answer({ ...received, ...admitted }),
    )
    : Exit.map(handler.decode(parameters, now), (answer): Respond => answer)

/** Lists the endpoints of the contract with their handlers. */
const listEndpointRoutes = <Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<string, Groups>,
  handlers: Handlers,
  getPrice: (path: string) => number,
) => {
  const routes: Array<EndpointRoute> = []
  HttpApi.reflect(api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group, mergedAnnotations, middleware }) => {
      const handler = handlers[group.identifier]?.[endpoint.identifier]
      if (handler === undefined) throw new Error(`Nothing handles the endpoint ${endpoint.path}`)
      const keys = new Set(Array.from(middleware, ({ key }) => key))
      const access = { path: endpoint.path, required_tier: Context.get(mergedAnnotations, RequiredTier) }
      const needsKey = keys.has(AuthenticationMiddleware.key)
      if (handler.needsKey && !needsKey) throw new Error(`The handler of ${endpoint.path} needs a key`)
      routes.push({
        _tag: "Endpoint",
        path: endpoint.path,
        rules: needsKey
          ? { access, price: keys.has(BillingMiddleware.key) ? getPrice(endpoint.path) : undefined }
          : undefined,
        deprecation: Option.getOrUndefined(getEndpointDeprecation(endpoint.annotations)),
        tables: Context.get(mergedAnnotations, TablesReadByEndpoint),
        handler,
      })
    },
  })
  return routes
}

export class RequestPipeline extends Context.Service<RequestPipeline, {
  /**
   * Answers a request, and records it. Returns a response instead of an effect if nothing has to be waited for. The
   * scope closes when the body has been sent.
   */
  readonly respond: (
    request: ApiRequest,
    scope: () => Scope.Scope,
  ) => Response
}>()("tickerline/http/RequestPipeline") {
  /** `handlers` has the handler of every endpoint of `api`. */
  static readonly layer = <Groups extends HttpApiGroup.Constraint, E, R>(
    api: HttpApi.HttpApi<string, Groups>,
    handlers: Effect.Effect<Handlers, E, R>,
  ) =>
    Layer.effect(
      RequestPipeline,
      Effect.gen(function* () {
        const admit = yield* makeAdmit
        const beginExport = yield* makeExportBilling
        const findCreditError = yield* makeCreditCheck
        const { getPricePerGigabyte } = yield* PriceLookup
        const pastReader = yield* PastReader
        const { finishPage, finishPlain } = yield* makeFinish
        const { makeStreamUsageRecorder, record, recordMetrics } = yield* makeRecorder
        const compress = yield* makeCompress
        const responseCache = yield* makeResponseCache
        const recordSpan = yield* makeSpanRecorder
        const directory = yield* EndpointDirectory
        const documentation = yield* DocumentationPages
        const mcp = yield* McpEndpoint
        const base = yield* BaseUrl
        const versionDeprecation = Option.map(yield* ApiVersionDeprecation, validateDeprecation)
        const routes = FindMyWay.make<EndpointRoute | PageRoute>(routerConfig)

        // -------------------------------------------------------------------------------------------------------------
        // Finish and record
        // -------------------------------------------------------------------------------------------------------------

        const finishError = (answered: AnsweredRequest, { error, headers }: ErrorAnswer) => {
          const { body, status } = encodeError(error, answered.request.id)
          return finishPlain(answered, { status, headers, body, contentType: "application/json" })
        }

        /** Finishes an export, which is recorded when its body ends. */
        const finishExport = (
          answered: AnsweredRequest,
          { contentType, headers, makeBody }: ExportAnswer,
          { checkChunk, reservation_id }: BilledExport,
        ) => {
          const trailers: Record<string, string> = {}
          const body = makeBody({
            checkChunk,
            onEnd: (status, { bytes, records }, digest) => {
              const cost = status < 500 ? computeDataCost(bytes, answered.price) : 0
              if (digest !== undefined) trailers["unencoded-digest"] = formatDigestHeader(digest)
              trailers[costHeader] = String(cost)
              record(answered, { status, bytes, records, cost, isCached: false }, { reservation_id })
            },
          })
          // Trailers need a body in chunked encoding, which HTTP/1.0 lacks.
          const sent = answered.request.httpVersion === "1.0" ? undefined : trailers
          return finishPlain(answered, { status: 200, headers, body, contentType }, {
            trailers: sent,
            isEndless: false,
          })
        }

        /** Finishes HEAD of an export, whose headers are those of the export. It sends nothing, and is free. */
        const finishExportHead = (answered: AnsweredRequest, { contentType, headers }: ExportAnswer) => {
          // A body, so that the response has the headers of a compressed one.
          const head = { status: 200, headers, body: Stream.empty, contentType }
          const trailers = answered.request.httpVersion === "1.0" ? undefined : {}
          return finishPlain(answered, head, { trailers, isEndless: false })
        }

        /** Returns the error if other requests have spent what would pay for the response. */
        const findUnpaidError = ({ account, request }: AnsweredRequest, isPriced: boolean, status: number) => {
          const error = isPriced && status === 200 && request.purpose === "answer" && request.method !== "HEAD" &&
              account !== undefined
            ? findCreditError(account)
            : undefined
          return error === undefined ? undefined : toErrorAnswer(error)
        }

        /** Makes the response and records it. An export is recorded when it ends, a stream in installments. */
        const finishAndRecord = (
          answered: AnsweredRequest,
          { answer, billed, recording }: Settled,
          isPriced: boolean,
        ): FinishedResponse => {
          const finishRecorded = (response: FinishedResponse) => {
            record(answered, response, recording)
            return response
          }
          switch (answer._tag) {
            case "Page": {
              const response = finishPage(answered, answer)
              const refusal = findUnpaidError(answered, isPriced, response.status)
              return finishRecorded(refusal === undefined ? response : finishError(answered, refusal))
            }
            case "Cached":
              return finishRecorded(finishCached(answered, answer))
            case "Error":
              return finishRecorded(finishError(answered, answer))
            case "Plain":
              return finishRecorded(finishPlain(answered, answer))
            case "Measurement": {
              const { bytes, records } = answer
              const total = { records, isPartial: false }
              const response = finishPlain(answered, makeEmptyAnswer(200, {}))
              return finishRecorded({ ...response, bytes, records, total })
            }
            case "Export":
              if (answered.request.method === "HEAD") return finishRecorded(finishExportHead(answered, answer))
              if (billed !== undefined) return finishExport(answered, answer, billed)
              throw new Error("An export began without an account to bill")
            case "EventStream": {
              const { body, contentType, headers } = answer
              const stream = { trailers: undefined, isEndless: true }
              const response = finishPlain(answered, { status: 200, headers, body, contentType }, stream)
              recordMetrics(answered, response)
              return response
            }
          }
        }

        /**
         * Finishes a request that failed unexpectedly (500), or was interrupted because the client has gone (499) or
         * the process ends (503).
         */
        const finishCause = (answered: AnsweredRequest, cause: Cause.Cause<never>): Response => {
          if (!Cause.hasInterruptsOnly(cause)) {
            return Effect.map(
              logDefectAsInternalError(Cause.squash(cause), answered.request.id),
              (error) => finishAndRecord(answered, { answer: toErrorAnswer(error) }, false),
            )
          }
          const status = answered.request.client.hasDisconnected() ? 499 : 503
          return finishAndRecord(answered, { answer: makeEmptyAnswer(status, {}) }, false)
        }

        const finishSettled = (
          answered: AnsweredRequest,
          settled: Settled,
          rules: AdmissionRules | undefined,
        ): Response => {
          const response = finishAndRecord(answered, settled, rules?.price !== undefined)
          const compressed = compress(answered.request, response)
          const { answer } = settled
          if (answer._tag !== "Page" || rules === undefined) return compressed
          return Effect.isEffect(compressed)
            ? Effect.map(compressed, (stored) => responseCache.store(answered, rules, answer, stored))
            : responseCache.store(answered, rules, answer, compressed)
        }

        const finishExit = (
          answered: AnsweredRequest,
          exit: Exit.Exit<Settled, ApiFailure>,
          rules: AdmissionRules | undefined,
        ): Response => {
          if (Exit.isSuccess(exit)) return finishSettled(answered, exit.value, rules)
          const failure = Cause.findError(exit.cause)
          return Result.isSuccess(failure)
            ? finishSettled(answered, { answer: toErrorAnswer(failure.success) }, rules)
            : finishCause(answered, failure.failure)
        }

        /** Runs the steps of a request, then finishes and records it, however they end. */
        const complete = (
          answered: AnsweredRequest,
          rules: AdmissionRules | undefined,
          beginSteps: () => Effect.Effect<Settled, ApiFailure>,
        ): Response => {
          const steps = begin(beginSteps)
          const response = isKnown(steps)
            ? finishExit(answered, steps, rules)
            : Effect.uninterruptibleMask((restore) =>
              Effect.flatMap(Effect.exit(restore(steps)), (exit) => toEffect(finishExit(answered, exit, rules)))
            )
          return recordSpan(answered.request, answered.route, response)
        }

        // -------------------------------------------------------------------------------------------------------------
        // Endpoints
        // -------------------------------------------------------------------------------------------------------------

        const announcements = new Map<string, ReturnType<typeof announceDeprecations>>()
        const announce = (path: string) => announceDeprecations(listDeprecations(directory, path, versionDeprecation))

        const beginAnswer = (request: ApiRequest, path: string, route: string | undefined, needsKey: boolean) =>
          new AnsweredRequest(request, route, needsKey, announcements.get(path) ?? announce(path))

        const admitOnce = (
          answered: AnsweredRequest,
          rules: AdmissionRules,
          admitted: Admission | undefined,
        ): Effect.Effect<void, ApiFailure> =>
          flatMapKnown(
            admitted === undefined ? admit(answered.request, rules) : Exit.succeed(admitted),
            (admission) => {
              answered.admit(admission)
              return admission.error === undefined ? Exit.void : Exit.fail(admission.error)
            },
          )

        /** Replaces `as_of=now` with the newest moment. */
        const replaceNow = (
          answered: AnsweredRequest,
          { handler }: EndpointRoute,
          parameters: RawSearchParameters,
        ): Effect.Effect<RawSearchParameters, ApiFailure> =>
          handler.hasMoment && parameters["as_of"] === presentMoment
            ? Effect.map(pastReader.findNewest, (as_of) => {
              const { request } = answered
              answered.request = { ...request, target: replacePresentMoment(request.target, as_of) }
              return { ...parameters, as_of }
            })
            : Exit.succeed(parameters)

        const openPast = (
          answered: AnsweredRequest,
          moment: string | undefined,
          tables: ReadonlyArray<string>,
        ): Effect.Effect<PastSource | undefined, ApiFailure> =>
          moment === undefined ? Exit.succeed(undefined) : Effect.map(pastReader.open(moment, tables), (past) => {
            answered.addHeader("x-as-of", past.moment)
            return past
          })

        const answerParameters = (
          answered: AnsweredRequest,
          { handler, path, tables }: EndpointRoute,
          parameters: RawSearchParameters,
          scope: () => Scope.Scope,
        ): Effect.Effect<Answer, ApiFailure> => {
          const moment = handler.hasMoment ? readAsOfParameter(parameters) : undefined
          const now = moment === undefined ? answered.request.startedAt : Date.parse(moment)
          const decoded = decode(handler, parameters, now)
          const { ticker } = parameters
          const dropped = handler.hasTickerList && typeof ticker === "string" ? findDroppedTickers(ticker) : undefined
          if (dropped !== undefined) answered.addHeader("x-dropped-tickers", dropped)
          const valid = Exit.mapError(decoded, (error) => makeQueryValidationError(error, parameters, handler.query))
          return flatMapKnown(valid, (answer) =>
            flatMapKnown(openPast(answered, moment, tables), (past) => {
              const { account, request } = answered
              return answer(
                { request, now },
                account === undefined ? undefined : {
                  account,
                  route: path,
                  past,
                  scope,
                  makeStreamUsageRecorder: () => makeStreamUsageRecorder(answered),
                  run,
                },
              )
            }))
        }

        /** Reserves the cost of an export. */
        const settle = (
          { account, price, request }: AnsweredRequest,
          { rules }: EndpointRoute,
          answer: Answer,
          scope: () => Scope.Scope,
        ): Effect.Effect<Settled, ApiFailure> => {
          const isBilled = answer._tag === "Export" && request.method !== "HEAD"
          if (!isBilled || account === undefined || rules?.access === undefined) return Exit.succeed({ answer })
          const exporting = beginExport(answer, account, request.address, rules.access, price)
          return Effect.map(Scope.provide(exporting, scope()), (billed) => ({ answer, billed }))
        }

        const respondFromEndpoint = (
          request: ApiRequest,
          route: EndpointRoute,
          sentParameters: RawSearchParameters,
          scope: () => Scope.Scope,
          admitted?: Admission,
        ): Response => {
          const { deprecation, path, rules } = route
          const answered = beginAnswer(request, path, path, rules !== undefined)
          return complete(answered, rules, () => {
            const removed = deprecation === undefined
              ? undefined
              : findSunsetError(deprecation, path, request.startedAt)
            if (removed !== undefined) return Exit.fail(removed)
            const admitting = rules === undefined ? Exit.void : admitOnce(answered, rules, admitted)
            return flatMapKnown(admitting, () =>
              flatMapKnown(replaceNow(answered, route, sentParameters), (parameters) =>
                flatMapKnown(answerParameters(answered, route, parameters, scope), (answer) => {
                  // The same request has another response a moment later, so this one is not stored.
                  if (parameters !== sentParameters && answer._tag === "Page") {
                    answered.addHeader("cache-control", noCache)
                  }
                  return settle(answered, route, answer, scope)
                })))
          })
        }

        /** Answers a request that this process makes. Its response must not be a stream. */
        const run = (request: ApiRequest): Effect.Effect<FinishedResponse> =>
          Effect.acquireUseRelease(
            Scope.make(),
            (scope) => toEffect(respond(request, () => scope)),
            (scope, exit) => Scope.close(scope, exit),
          )

        // -------------------------------------------------------------------------------------------------------------
        // Everything else
        // -------------------------------------------------------------------------------------------------------------

        const respondWith = (
          request: ApiRequest,
          path: string,
          route: string | undefined,
          answer: Effect.Effect<Answer | ErrorAnswer, ApiFailure>,
        ) =>
          complete(
            beginAnswer(request, path, route, false),
            undefined,
            () => mapKnown(answer, (answer) => ({ answer })),
          )

        const mcpRules: AdmissionRules = { access: undefined, price: undefined }

        const answerMcp = Effect.fnUntraced(function* (
          answered: AnsweredRequest,
          scope: () => Scope.Scope,
          run: AdmittedRequest["run"],
        ) {
          const { request } = answered
          const other = mcp.answerOther(request)
          if (other !== undefined) return { answer: other }
          const admission = yield* admit(request, mcpRules)
          answered.admit(admission)
          const { account, error, headers } = admission
          const refusal = error?._tag === "RateLimitExceeded" ? error : undefined
          if (error !== undefined && error !== refusal) return yield* Exit.fail(error)
          if (account === undefined) return yield* Effect.die(new Error("A request without an account was admitted"))
          const { answer, recordedStatus } = yield* mcp.answer({ request, account, headers, refusal, scope, run })
          return { answer, recording: { recordedStatus } }
        })

        const respondFromMcp = (request: ApiRequest, scope: () => Scope.Scope) => {
          /** Usage lists the requests of a tool, or else the message. If the client disconnects, the first to end. */
          let listed: "tool" | "message" | undefined
          const claimUsage = (owner: "tool" | "message") => {
            listed ??= owner
            return listed === owner
          }
          const answered = beginAnswer({ ...request, claimUsage: () => claimUsage("message") }, mcpPath, mcpPath, true)
          const runTool = (toolRequest: ApiRequest) =>
            run({
              ...toolRequest,
              claimUsage: (cost) => {
                answered.isRecorded = false
                answered.addHeader(costHeader, String(cost))
                return claimUsage("tool")
              },
            })
          return complete(answered, mcpRules, () => answerMcp(answered, scope, runTool))
        }

        for (const route of listEndpointRoutes(api, yield* handlers, getPricePerGigabyte)) {
          routes.on("GET", `/${route.path.slice(1)}`, route)
          announcements.set(route.path, announce(route.path))
        }
        const addPage = (path: FindMyWay.PathInput, answer: PageRoute["answer"]) => {
          routes.on("GET", path, { _tag: "Page", answer })
          if (path.endsWith("/*")) addPage(`/${path.slice(1, -2)}`, answer)
        }
        for (const { answer, path } of documentation.routes) addPage(path, answer)
        addPage(`${legacyPathPrefix}*`, (request) => Effect.sync(() => answerLegacyPath(directory, request, base)))

        /** Whether no rule but those of its endpoint can apply to a request. */
        const isPlain = ({ headers, method, target }: ApiRequest) =>
          (method === "GET" || method === "HEAD") && headers["host"] !== undefined && !/[%;#]/.test(target) &&
          Option.isNone(versionDeprecation)

        /** Finds the step that answers a request, in the order in which the rules apply. */
        const respondFromRouter = (
          request: ApiRequest,
          scope: () => Scope.Scope,
          admitted?: Admission,
        ): Response => {
          const plain = isPlain(request) ? routes.find("GET", request.target) : undefined
          if (plain?.handler._tag === "Endpoint") {
            return respondFromEndpoint(request, plain.handler, plain.searchParams, scope, admitted)
          }
          const path = decodePath(request.target)
          const unrouted = answerBeforeRouting(directory, request, path, documentation.paths)
          if (unrouted !== undefined) return respondWith(request, path, undefined, Effect.succeed(unrouted))
          // The documentation stays, because the 410 names it.
          if (Option.isSome(versionDeprecation) && isVersionedPath(path) && !documentation.paths.has(path)) {
            const removed = findSunsetError(versionDeprecation.value, "Version v1", request.startedAt)
            if (removed !== undefined) return respondWith(request, path, undefined, Effect.fail(removed))
          }
          if (isMcpRequest(request, path)) return respondFromMcp(request, scope)
          const found = routes.find("GET", request.target)
          if (found === undefined) {
            return respondWith(request, path, undefined, Effect.succeed(answerUnknownPath(directory, path)))
          }
          const { handler: route, searchParams } = found
          return route._tag === "Endpoint"
            ? respondFromEndpoint(request, route, searchParams, scope, admitted)
            : respondWith(request, path, undefined, route.answer(request))
        }

        // -------------------------------------------------------------------------------------------------------------
        // The response cache
        // -------------------------------------------------------------------------------------------------------------

        /** Sends the stored response if the account may get it. If not, the other steps find out why. */
        const respondFromCache = (
          request: ApiRequest,
          scope: () => Scope.Scope,
          cached: CachedResponse,
          admission: Admission,
        ) => {
          const { account, error } = admission
          if (account === undefined || error !== undefined || !canGetResponse(account, cached)) {
            return respondFromRouter(request, scope, admission)
          }
          const answered = beginAnswer(request, cached.route, cached.route, true)
          answered.admit(admission)
          return finishAndRecord(answered, { answer: cached }, true)
        }

        const respond = (request: ApiRequest, scope: () => Scope.Scope) => {
          const cached = responseCache.find(request)
          const admission = cached === undefined ? undefined : admit(request, cached.rules)
          return cached !== undefined && admission !== undefined && isKnown(admission) && Exit.isSuccess(admission)
            ? respondFromCache(request, scope, cached, admission.value)
            : respondFromRouter(request, scope)
        }
        return RequestPipeline.of({ respond })
      }),
    )
}
