/** Two middlewares for every endpoint (§7.2, errors): 422 for invalid parameters, 500 for unexpected failures. */
import { Cause, Effect, Layer, type Schema, SchemaAST } from "effect"
import { HttpServerRequest } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { HttpApiMiddleware } from "effect/http-api"
import { RequestContext } from "../http/RequestContext.ts"
import { InternalError, ValidationError } from "./Errors.ts"
import { unknownParameterReason } from "./Filters.ts"
import { formatNameSuggestion } from "./Suggestions.ts"
import { makeValidationReasonFormatter } from "./ValidationMessages.ts"

const maxFields = 20

interface InvalidField {
  readonly field: string
  readonly reason: string
}

const namelessParameter = "The query string contains a parameter without a name; remove it."

const repeatedParameter = "is sent more than once; send it once"

/** All parameters are text. The only wrong type is an array, which a repeated parameter produces (D4). */
const getReasons = makeValidationReasonFormatter({
  missing: "is required",
  unexpected: unknownParameterReason,
  wrongType: repeatedParameter,
})

const getParameterNames = (endpoint: HttpApiEndpoint.Top): ReadonlyArray<string> => {
  const ast = endpoint.query === undefined ? undefined : SchemaAST.toEncoded(endpoint.query.ast)
  return ast !== undefined && SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
}

/** Completes the reason for an unknown parameter with a similar one, or with all parameters if none is similar (D4). */
const addSuggestion = (names: ReadonlyArray<string>) => ({ field, reason }: InvalidField): InvalidField => {
  if (reason !== unknownParameterReason) return { field, reason }
  const suggestion = formatNameSuggestion(field, names) ||
    (names.length === 0 ? " It has no parameters." : ` Its parameters are ${names.join(", ")}.`)
  return { field: field.slice(0, 64), reason: `${unknownParameterReason}.${suggestion}` }
}

/** Puts the parameter's name before the reason, unless the reason is a complete sentence with an initial capital. */
const formatSentence = ({ field, reason }: InvalidField) => /^[A-Z]/.test(reason) ? reason : `${field} ${reason}`

const makeValidationError = (fields: ReadonlyArray<InvalidField>) =>
  new ValidationError({ error: { message: fields.map(formatSentence).join("; "), details: { fields } } })

/** Refuses unknown parameters, and reports all invalid parameters at once (D4, D11). */
export const queryParseOptions = { onExcessProperty: "error", errors: "all" } as const

/** The parameters of a request as text, by name; an array if one is repeated. */
export type RawSearchParameters = Readonly<Record<string, string | ReadonlyArray<string>>>

/**
 * Makes the 422 error for a query that does not match the schema of its endpoint. It names up to 20 invalid parameters.
 */
export const makeQueryValidationError = (
  { issue }: Schema.SchemaError,
  parameters: RawSearchParameters,
  endpoint: HttpApiEndpoint.Top,
) =>
  makeValidationError(
    getReasons(issue)
      .map(({ name, reason }) => ({
        field: name || "query",
        reason: name === "" && reason === unknownParameterReason
          ? namelessParameter
          : Array.isArray(parameters[name])
          ? repeatedParameter
          : reason,
      }))
      .slice(0, maxFields)
      .map(addSuggestion(getParameterNames(endpoint))),
  )

/** Turns a query that does not match its schema into a 422. */
export class ValidationMiddleware extends HttpApiMiddleware.Service<ValidationMiddleware>()(
  "tickerline/rules/ValidationMiddleware",
  { error: ValidationError },
) {
  static readonly layer = HttpApiMiddleware.layerSchemaErrorTransform(
    ValidationMiddleware,
    (failure, { endpoint }) =>
      failure.kind === "Query"
        ? Effect.flatMap(
          HttpServerRequest.ParsedSearchParams,
          (parameters) => Effect.fail(makeQueryValidationError(failure.cause, parameters, endpoint)),
        )
        : Effect.die(failure),
  )
}

/** Logs a defect with the request id, and returns the error to respond with. */
export const logDefectAsInternalError = (defect: unknown) =>
  Effect.flatMap(RequestContext, ({ id }) =>
    Effect.logError("Unexpected failure", Cause.die(defect)).pipe(
      Effect.annotateLogs("request_id", id),
      Effect.as(
        new InternalError({ error: { message: "Unexpected failure. Quote the request_id to support." } }),
      ),
    ))

/** Logs a defect with the request id and responds with 500. */
export class UnexpectedErrorMiddleware extends HttpApiMiddleware.Service<UnexpectedErrorMiddleware>()(
  "tickerline/rules/UnexpectedErrorMiddleware",
  { error: InternalError },
) {
  static readonly layer = Layer.succeed(
    this,
    (httpApp) => Effect.catchDefect(httpApp, (defect) => Effect.flatMap(logDefectAsInternalError(defect), Effect.fail)),
  )
}
