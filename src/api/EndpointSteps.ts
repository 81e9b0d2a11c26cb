/** The steps of a request to an endpoint of the contract: admit, decode, answer, reserve the cost of an export. */
import { Effect, Exit, Scope } from "effect"
import type { Admission, AdmissionRules, makeAdmit } from "../accounts/Admission.ts"
import { makeExportBilling } from "../accounts/billing/ExportBilling.ts"
import { type Answer, noCache } from "../contract/rules/Answer.ts"
import { presentMoment, readAsOfParameter, replacePresentMoment } from "../contract/rules/AsOfParameter.ts"
import { findSunsetError } from "../contract/rules/Deprecation.ts"
import { flatMapKnown } from "../contract/rules/KnownResults.ts"
import { findDroppedTickers } from "../contract/rules/Tickers.ts"
import { makeQueryValidationError, type RawSearchParameters } from "../contract/rules/Validation.ts"
import type { PastSource } from "../postgres/Reader.ts"
import type { AdmittedRequest, ReceivedRequest } from "../query/EndpointHandler.ts"
import { PastReader } from "../query/history/PastReader.ts"
import type { ApiFailure } from "./ErrorResponses.ts"
import type { BilledAnswer } from "./FinishAndRecord.ts"
import { makeRecorder } from "./Record.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"
import type { AnyHandler, EndpointRoute } from "./Routes.ts"

type AdmittedPart = Omit<AdmittedRequest, keyof ReceivedRequest>

type AnswerRequest = (
  received: ReceivedRequest,
  admitted: AdmittedPart | undefined,
) => Effect.Effect<Answer, ApiFailure>

/** Decodes the query of a request. Returns the function that answers it. */
const decode = (handler: AnyHandler, parameters: RawSearchParameters, now: number) =>
  handler.needsKey
    ? Exit.map(
      handler.decode(parameters, now),
      (answer): AnswerRequest => (received, admitted) =>
        admitted === undefined
          ? Effect.die(new Error("An endpoint that needs a key was requested without one"))
          : answer({ ...received, ...admitted }),
    )
    : Exit.map(handler.decode(parameters, now), (answer): AnswerRequest => answer)

/** What the steps need besides the request. */
export interface EndpointContext {
  readonly route: EndpointRoute
  readonly scope: () => Scope.Scope
  readonly run: AdmittedRequest["run"]
}

/** Makes the function that takes the steps of a request to an endpoint. */
export const makeEndpointSteps = Effect.fnUntraced(function* (admit: Effect.Success<typeof makeAdmit>) {
  const pastReader = yield* PastReader
  const billExport = yield* makeExportBilling
  const { makeStreamUsageRecorder } = yield* makeRecorder

  /** `admission` is set if the request has been admitted or refused before. */
  const takeSteps = (
    progress: RequestInProgress,
    context: EndpointContext,
    sentParameters: RawSearchParameters,
    admission: Admission | undefined,
  ): Effect.Effect<BilledAnswer, ApiFailure> => {
    const { deprecation, path, rules } = context.route
    const removed = deprecation === undefined
      ? undefined
      : findSunsetError(deprecation, path, progress.request.startedAt)
    if (removed !== undefined) return Exit.fail(removed)
    const admitting = rules === undefined ? Exit.void : admitOnce(progress, rules, admission)
    return flatMapKnown(
      admitting,
      () =>
        flatMapKnown(
          replaceNow(progress, context, sentParameters),
          (parameters) =>
            flatMapKnown(decodeAndAnswer(progress, context, parameters), (answer) => {
              // The same request has another response a moment later, so this one is not stored.
              if (parameters !== sentParameters && answer._tag === "Page") {
                progress.addHeader("cache-control", noCache)
              }
              return reserveCost(progress, context, answer)
            }),
        ),
    )
  }

  const admitOnce = (
    progress: RequestInProgress,
    rules: AdmissionRules,
    admission: Admission | undefined,
  ): Effect.Effect<void, ApiFailure> =>
    flatMapKnown(admission === undefined ? admit(progress.request, rules) : Exit.succeed(admission), (admission) => {
      progress.admit(admission)
      return admission.error === undefined ? Exit.void : Exit.fail(admission.error)
    })

  /** Replaces `as_of=now` with the newest moment, so that links to further pages name it, too. */
  const replaceNow = (
    progress: RequestInProgress,
    { route }: EndpointContext,
    parameters: RawSearchParameters,
  ): Effect.Effect<RawSearchParameters, ApiFailure> =>
    route.handler.hasMoment && parameters["as_of"] === presentMoment
      ? Effect.map(pastReader.findNewest, (as_of) => {
        const { request } = progress
        progress.request = { ...request, target: replacePresentMoment(request.target, as_of) }
        return { ...parameters, as_of }
      })
      : Exit.succeed(parameters)

  const decodeAndAnswer = (
    progress: RequestInProgress,
    { route: { handler, path, tables }, run, scope }: EndpointContext,
    parameters: RawSearchParameters,
  ): Effect.Effect<Answer, ApiFailure> => {
    const moment = handler.hasMoment ? readAsOfParameter(parameters) : undefined
    const now = moment === undefined ? progress.request.startedAt : Date.parse(moment)
    const decoded = decode(handler, parameters, now)
    const { ticker } = parameters
    const dropped = handler.hasTickerList && typeof ticker === "string" ? findDroppedTickers(ticker) : undefined
    if (dropped !== undefined) progress.addHeader("x-dropped-tickers", dropped)
    const valid = Exit.mapError(decoded, (error) => makeQueryValidationError(error, parameters, handler.query))
    return flatMapKnown(valid, (answer) =>
      flatMapKnown(openPast(progress, moment, tables), (past) => {
        const { account, request } = progress
        return answer(
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

  const openPast = (
    progress: RequestInProgress,
    moment: string | undefined,
    tables: ReadonlyArray<string>,
  ): Effect.Effect<PastSource | undefined, ApiFailure> =>
    moment === undefined ? Exit.succeed(undefined) : Effect.map(pastReader.open(moment, tables), (past) => {
      progress.addHeader("x-as-of", past.moment)
      return past
    })

  /** Reserves the cost of an export (D27). HEAD sends nothing, and is free. */
  const reserveCost = (
    { account, price, request }: RequestInProgress,
    { route: { rules }, scope }: EndpointContext,
    answer: Answer,
  ): Effect.Effect<BilledAnswer, ApiFailure> => {
    const isBilled = answer._tag === "Export" && request.method !== "HEAD"
    if (!isBilled || account === undefined || rules?.access === undefined) return Exit.succeed({ answer })
    const billing = billExport(answer, account, request.address, rules.access, price)
    return Effect.map(Scope.provide(billing, scope()), (billed) => ({ answer, billed }))
  }

  return takeSteps
})
