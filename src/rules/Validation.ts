/** §7.2: what no endpoint declares. A request that does not decode is a 422 naming its fields; a defect is a 500. */
import { Cause, Effect, Layer, SchemaAST } from "effect"
import { HttpServerRequest } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { HttpApiMiddleware } from "effect/http-api"
import { InternalError, ValidationError } from "./Errors.ts"
import { RequestContext } from "../http/RequestContext.ts"
import { unknownParameterReason } from "./Filters.ts"
import { suggestName } from "./Suggestions.ts"
import { makeReasonFormatter } from "./ValidationMessages.ts"

const mostReasons = 20

interface Field {
  readonly field: string
  readonly reason: string
}

const nameless = "The query string holds a parameter without a name; remove it."

const repeated = "was given more than once; give it once"

/** Every parameter is text until it is given twice (D4). */
const reasons = makeReasonFormatter({ missing: "is required", unexpected: unknownParameterReason, wrongType: repeated })

const parameters = (endpoint: HttpApiEndpoint.Top): ReadonlyArray<string> => {
  const ast = endpoint.query === undefined ? undefined : SchemaAST.toEncoded(endpoint.query.ast)
  return ast !== undefined && SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
}

/** A misspelt filter must never widen the answer (D4): it is refused, with the name that was probably meant. */
const suggest = (names: ReadonlyArray<string>) => ({ field, reason }: Field): Field => {
  if (reason !== unknownParameterReason) return { field, reason }
  const advice = suggestName(field, names) || ` It takes ${names.join(", ") || "none"}.`
  return { field: field.slice(0, 64), reason: `${unknownParameterReason}.${advice}` }
}

/** A reason that starts with a capital is a sentence of its own (`Invalid ticker(s): …`, §7.2). */
const sentence = ({ field, reason }: Field) => /^[A-Z]/.test(reason) ? reason : `${field} ${reason}`

const refusal = (fields: ReadonlyArray<Field>) =>
  new ValidationError({ error: { message: fields.map(sentence).join("; "), details: { fields } } })

export class ValidationMiddleware
  extends HttpApiMiddleware.Service<ValidationMiddleware>()("tickerline/policy/Validation", {
    error: ValidationError,
  }) {
  static readonly layer = HttpApiMiddleware.layerSchemaErrorTransform(
    ValidationMiddleware,
    (failure, { endpoint }) =>
      failure.kind === "Query"
        ? Effect.flatMap(HttpServerRequest.ParsedSearchParams, (sent) =>
          Effect.fail(refusal(
            reasons(failure.cause.issue)
              .map(({ name, reason }) => ({
                field: name || "query",
                reason: name === "" && reason === unknownParameterReason
                  ? nameless
                  : Array.isArray(sent[name])
                  ? repeated
                  : reason,
              }))
              .slice(0, mostReasons)
              .map(suggest(parameters(endpoint))),
          )))
        : Effect.die(failure),
  )
}

export class UnexpectedErrorMiddleware
  extends HttpApiMiddleware.Service<UnexpectedErrorMiddleware>()("tickerline/policy/Unexpected", {
    error: InternalError,
  }) {
  static readonly layer = Layer.succeed(
    this,
    (served) =>
      Effect.catchDefect(
        served,
        (defect) =>
          Effect.flatMap(RequestContext, ({ id }) =>
            Effect.logError("Unexpected failure", Cause.die(defect)).pipe(
              Effect.annotateLogs("request_id", id),
              Effect.andThen(
                new InternalError({ error: { message: "Unexpected failure. Quote the request_id to support." } }),
              ),
            )),
      ),
  )
}
