/**
 * Runs the steps of a request to an endpoint: checks the endpoint's removal date, admits the request, decodes its
 * query, runs the handler, and reserves the cost if the result is an export.
 */
import { Effect, Exit, Scope } from "effect"
import type { Admission, AdmissionRules, makeRequestAdmitter } from "../accounts/RequestAdmission.ts"
import { makeExportBilling } from "../accounts/billing/ExportBilling.ts"
import { type EndpointResult, privateNoCacheDirectives } from "../contract/rules/EndpointResult.ts"
import { asOfNow, readAsOfParameter, replaceAsOfNow } from "../contract/rules/AsOfParameter.ts"
import { findSunsetError } from "../contract/rules/Deprecation.ts"
import { flatMapSync } from "../contract/rules/SynchronousResults.ts"
import { findDroppedTickers } from "../contract/rules/Tickers.ts"
import { makeQueryValidationError, type RawSearchParameters } from "../contract/rules/QueryValidation.ts"
import type { PastSource } from "../postgres/DatabaseReader.ts"
import type { AdmittedRequest, ReceivedRequest } from "../query/EndpointHandler.ts"
import { PastReader } from "../query/history/PastReader.ts"
import type { ApiFailure } from "./ErrorResponses.ts"
import type { BilledResult } from "./MeteredResponseBuilder.ts"
import { makeUsageRecorder } from "./UsageRecorder.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"
import type { AnyHandler, EndpointRoute } from "./Routes.ts"

/** The properties that a handler receives only if the endpoint needs a key. */
type AdmittedProperties = Omit<AdmittedRequest, keyof ReceivedRequest>

type RunHandler = (
  received: ReceivedRequest,
  admitted: AdmittedProperties | undefined,
) => Effect.Effect<EndpointResult, ApiFailure>

/**
 * Decodes a request's query. Succeeds with a function that runs the handler with the decoded query, or fails if the
 * query is invalid. `now` is the time of the request or, with `as_of`, the time given there.
 */
const decode = (handler: AnyHandler, parameters: RawSearchParameters, now: number) =>
  handler.needsKey
    ? Exit.map(
      handler.decode(parameters, now),
      (run): RunHandler => (received, admitted) =>
        admitted === undefined
          ? Effect.die(new Error("An endpoint that needs a key was requested without one"))
          : run({ ...received, ...admitted }),
    )
    : Exit.map(handler.decode(parameters, now), (run): RunHandler => run)

/** Values that the steps of a request use, in addition to its state in `RequestInProgress`. */
export interface EndpointContext {
  readonly route: EndpointRoute
  /** Returns the scope of the request's resources. It closes after the body has been sent. */
  readonly scope: () => Scope.Scope
  /** Runs a further request within this process. */
  readonly run: AdmittedRequest["run"]
}

/**
 * Builds the function that runs the steps of a request to an endpoint and returns the result with its billing. Called
 * once, at startup.
 */
export const makeEndpointPipeline = Effect.fnUntraced(function* (admit: Effect.Success<typeof makeRequestAdmitter>) {
  const pastReader = yield* PastReader
  const billExport = yield* makeExportBilling
  const { makeStreamUsageRecorder } = yield* makeUsageRecorder

  /**
   * Runs the steps of a request. `sentParameters` is the query before decoding. `admission` is set if the request was
   * already admitted or refused when it was looked up in the response cache. It is then not counted a second time.
   */
  const takeSteps = (
    progress: RequestInProgress,
    context: EndpointContext,
    sentParameters: RawSearchParameters,
    admission: Admission | undefined,
  ): Effect.Effect<BilledResult, ApiFailure> => {
    const { deprecation, path, rules } = context.route
    const removed = deprecation === undefined
      ? undefined
      : findSunsetError(deprecation, path, progress.request.startedAt)
    if (removed !== undefined) return Exit.fail(removed)
    // An endpoint without rules needs no key, so there is nothing to check or count.
    const admitting = rules === undefined ? Exit.void : admitOnce(progress, rules, admission)
    return flatMapSync(admitting, () => takeAdmittedSteps(progress, context, sentParameters))
  }

  /** Runs the steps of a request that has been admitted or needs no admission. */
  const takeAdmittedSteps = (
    progress: RequestInProgress,
    context: EndpointContext,
    sentParameters: RawSearchParameters,
  ): Effect.Effect<BilledResult, ApiFailure> =>
    flatMapSync(
      replaceNow(progress, context, sentParameters),
      (parameters) =>
        flatMapSync(decodeAndRun(progress, context, parameters), (result) => {
          const isAsOfNow = parameters !== sentParameters
          // An identical request gets different data a moment later, so this response must not be cached.
          if (isAsOfNow && result._tag === "Page") progress.addHeader("cache-control", privateNoCacheDirectives)
          return reserveCost(progress, context, result)
        }),
    )

  /**
   * Admits or refuses the request, unless `admission` contains an earlier decision. Stores the decision in `progress`,
   * and fails with the error of a refusal.
   */
  const admitOnce = (
    progress: RequestInProgress,
    rules: AdmissionRules,
    admission: Admission | undefined,
  ): Effect.Effect<void, ApiFailure> =>
    flatMapSync(admission === undefined ? admit(progress.request, rules) : Exit.succeed(admission), (decision) => {
      progress.admit(decision)
      return decision.error === undefined ? Exit.void : Exit.fail(decision.error)
    })

  /**
   * Replaces `as_of=now` with the newest available timestamp, so that links to further pages also contain that
   * timestamp. Returns the same object if the query does not contain `as_of=now`.
   */
  const replaceNow = (
    progress: RequestInProgress,
    { route }: EndpointContext,
    parameters: RawSearchParameters,
  ): Effect.Effect<RawSearchParameters, ApiFailure> =>
    route.handler.supportsAsOf && parameters["as_of"] === asOfNow
      ? Effect.map(pastReader.findNewest, (as_of) => {
        const { request } = progress
        progress.request = { ...request, target: replaceAsOfNow(request.target, as_of) }
        return { ...parameters, as_of }
      })
      : Exit.succeed(parameters)

  /**
   * Decodes the query, opens the past state of the data if the request has `as_of`, and runs the handler. Adds the
   * headers `X-Dropped-Tickers` and `X-As-Of`.
   */
  const decodeAndRun = (
    progress: RequestInProgress,
    { route: { handler, path, tables }, run, scope }: EndpointContext,
    parameters: RawSearchParameters,
  ): Effect.Effect<EndpointResult, ApiFailure> => {
    const asOf = handler.supportsAsOf ? readAsOfParameter(parameters) : undefined
    const now = asOf === undefined ? progress.request.startedAt : Date.parse(asOf)
    const decoded = decode(handler, parameters, now)
    const { ticker } = parameters
    const dropped = handler.hasTickerList && typeof ticker === "string" ? findDroppedTickers(ticker) : undefined
    if (dropped !== undefined) progress.addHeader("x-dropped-tickers", dropped)
    // If the query is invalid, the error must say which parameter is wrong and why.
    const valid = Exit.mapError(decoded, (error) => makeQueryValidationError(error, parameters, handler.query))
    return flatMapSync(valid, (runHandler) =>
      flatMapSync(openPast(progress, asOf, tables), (past) => {
        const { account, request } = progress
        return runHandler(
          { request, now },
          account === undefined ? undefined : {
            account,
            route: path,
            past,
            scope,
            makeStreamUsageRecorder: () => makeStreamUsageRecorder(progress),
            run,
          },
        )
      }))
  }

  /** Opens the tables as they were at `asOf`. Returns undefined if the request reads the current data. */
  const openPast = (
    progress: RequestInProgress,
    asOf: string | undefined,
    tables: ReadonlyArray<string>,
  ): Effect.Effect<PastSource | undefined, ApiFailure> =>
    asOf === undefined ? Exit.succeed(undefined) : Effect.map(pastReader.open(asOf, tables), (past) => {
      progress.addHeader("x-as-of", past.timestamp)
      return past
    })

  /** Reserves the cost of an export (D27). HEAD requests are free, because the response has no body. */
  const reserveCost = (
    { account, price, request }: RequestInProgress,
    { route: { rules }, scope }: EndpointContext,
    result: EndpointResult,
  ): Effect.Effect<BilledResult, ApiFailure> => {
    const isBilled = result._tag === "Export" && request.method !== "HEAD"
    if (!isBilled || account === undefined || rules?.access === undefined) return Exit.succeed({ result })
    const billing = billExport(result, account, request.address, rules.access, price)
    return Effect.map(Scope.provide(billing, scope()), (billed) => ({ result, billed }))
  }

  return takeSteps
})
