/** Decodes the parameters of a request (D4, D11), and makes the errors of what was not expected (§7.2, errors). */
import { Cause, Context, Effect, type Exit, Schema, SchemaAST } from "effect"
import { DecodingTime } from "./Dates.ts"
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

const getParameterNames = (query: Schema.Top): ReadonlyArray<string> => {
  const ast = SchemaAST.toEncoded(query.ast)
  return SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
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

/** Makes the 422 error for a query that does not match its schema. It names up to 20 invalid parameters. */
export const makeQueryValidationError = (
  { issue }: Schema.SchemaError,
  parameters: RawSearchParameters,
  query: Schema.Top,
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
      .map(addSuggestion(getParameterNames(query))),
  )

/** The schema of a query. Its dates are compared with the time of the request. */
export type QueryCodec<Query> = Schema.Codec<Query, unknown, DecodingTime>

/** Makes a function that decodes the parameters of a request. `now` is the time of the request, or of its `as_of`. */
export const makeQueryDecoder = <Query>(query: QueryCodec<Query>) => {
  const decode = Schema.decodeUnknownEffect(
    Schema.toCodecArrayFromSingle(Schema.toCodecStringTree(query)),
    queryParseOptions,
  )
  return (parameters: RawSearchParameters, now: number): Exit.Exit<Query, Schema.SchemaError> =>
    Effect.runSyncExitWith(Context.make(DecodingTime, now))(decode(parameters))
}

/** Logs a defect, with the id of its request if it has one, and returns the error to respond with. */
export const logDefectAsInternalError = (defect: unknown, request_id?: string) =>
  Effect.logError("Unexpected failure", Cause.die(defect)).pipe(
    request_id === undefined ? (log) => log : Effect.annotateLogs("request_id", request_id),
    Effect.as(new InternalError({ error: { message: "Unexpected failure. Quote the request_id to support." } })),
  )
