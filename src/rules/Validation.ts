/** Two middlewares for every endpoint (§7.2, errors): invalid parameters are a 422, defects are a 500. */
import { Effect, Layer, type Schema, SchemaAST } from "effect"
import { HttpServerRequest } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { HttpApiMiddleware } from "effect/http-api"
import { reportDefect } from "../http/ErrorResponses.ts"
import { InternalError, ValidationError } from "./Errors.ts"
import { unknownParameterReason } from "./Filters.ts"
import { suggestName } from "./Suggestions.ts"
import { makeReasonFormatter } from "./ValidationMessages.ts"

const maxFields = 20

interface InvalidField {
  readonly field: string
  readonly reason: string
}

const namelessParameter = "The query string contains a parameter without a name; remove it."

const repeatedParameter = "is sent more than once; send it once"

/** Parameters are text, so only a repeated one has a wrong type: it is an array (D4). */
const getReasons = makeReasonFormatter({
  missing: "is required",
  unexpected: unknownParameterReason,
  wrongType: repeatedParameter,
})

const getParameterNames = (endpoint: HttpApiEndpoint.Top): ReadonlyArray<string> => {
  const ast = endpoint.query === undefined ? undefined : SchemaAST.toEncoded(endpoint.query.ast)
  return ast !== undefined && SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
}

/** Adds the most similar parameter to the reason, because an ignored filter would return too many rows (D4). */
const addSuggestion = (names: ReadonlyArray<string>) => ({ field, reason }: InvalidField): InvalidField => {
  if (reason !== unknownParameterReason) return { field, reason }
  const suggestion = suggestName(field, names) ||
    (names.length === 0 ? " It has no parameters." : ` Its parameters are ${names.join(", ")}.`)
  return { field: field.slice(0, 64), reason: `${unknownParameterReason}.${suggestion}` }
}

/** A reason with an initial capital is a complete sentence, such as `Invalid ticker(s): …`. */
const formatSentence = ({ field, reason }: InvalidField) => /^[A-Z]/.test(reason) ? reason : `${field} ${reason}`

const makeValidationError = (fields: ReadonlyArray<InvalidField>) =>
  new ValidationError({ error: { message: fields.map(formatSentence).join("; "), details: { fields } } })

/** The parameters of a request as text, by name; an array if one is repeated. */
export type SearchParameters = Readonly<Record<string, string | ReadonlyArray<string>>>

/** Makes the 422 for a query that does not match the schema of its endpoint. It names each field. */
export const makeQueryError = (
  { issue }: Schema.SchemaError,
  parameters: SearchParameters,
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
          (parameters) => Effect.fail(makeQueryError(failure.cause, parameters, endpoint)),
        )
        : Effect.die(failure),
  )
}

/** Logs a defect with the request id and answers with a 500. */
export class UnexpectedErrorMiddleware extends HttpApiMiddleware.Service<UnexpectedErrorMiddleware>()(
  "tickerline/rules/UnexpectedErrorMiddleware",
  { error: InternalError },
) {
  static readonly layer = Layer.succeed(
    this,
    (httpApp) => Effect.catchDefect(httpApp, (defect) => Effect.flatMap(reportDefect(defect), Effect.fail)),
  )
}
