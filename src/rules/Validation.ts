/** Decodes the parameters of a request (D4, D11), and makes the errors of what was not expected (§7.2, errors). */
import { Cause, Context, Effect, Exit, Schema, SchemaAST } from "effect"
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

/** Returns the names of the parameters of a query. */
export const getParameterNames = (query: Schema.Top): ReadonlyArray<string> => {
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

export const makeValidationError = (fields: ReadonlyArray<InvalidField>) =>
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

type Decode<A> = (input: unknown) => Effect.Effect<A, Schema.SchemaError, DecodingTime>

/** Makes a decoder of text. A repeated parameter becomes an array. */
const makeTextDecoder = <A>(schema: Schema.Codec<A, unknown, DecodingTime>): Decode<A> =>
  Schema.decodeUnknownEffect(Schema.toCodecArrayFromSingle(Schema.toCodecStringTree(schema)), queryParseOptions)

/** A parameter that is decoded on its own. */
interface ParameterDecoder {
  readonly name: string
  readonly decode: Decode<unknown>
  /** Result for a request without the parameter: nothing, a default, or an error. */
  readonly missing: Exit.Exit<object, unknown>
}

const isCodec = (schema: unknown): schema is Schema.Codec<unknown, unknown, DecodingTime> => Schema.isSchema(schema)

const listParameterDecoders = (fields: Schema.Struct.Fields): ReadonlyArray<ParameterDecoder> =>
  Object.entries(fields).flatMap(([name, field]) =>
    isCodec(field)
      ? [{
        name,
        decode: makeTextDecoder(field),
        missing: Effect.runSyncExitWith(Context.make(DecodingTime, 0))(
          makeTextDecoder(Schema.Struct({ [name]: field }))({}),
        ),
      }]
      : []
  )

/**
 * Makes a function that decodes valid queries, one parameter after the other, because a schema of many parameters also
 * examines those that were not sent. Undefined if the query is invalid.
 */
const makeFastDecoder = (query: Schema.Top & { readonly fields: Schema.Struct.Fields }) => {
  const decoders = listParameterDecoders(query.fields)
  const [first, ...others] = query.ast.checks ?? []
  const check = first === undefined ? undefined : Schema.decodeUnknownExit(Schema.Unknown.check(first, ...others))
  return (parameters: RawSearchParameters, context: Context.Context<DecodingTime>) => {
    const run = Effect.runSyncExitWith(context)
    const decoded: Record<string, unknown> = {}
    let remaining = Object.keys(parameters).length
    for (const { decode, missing, name } of decoders) {
      const text = parameters[name]
      if (text === undefined) {
        if (Exit.isFailure(missing)) return undefined
        Object.assign(decoded, missing.value)
        continue
      }
      const exit = run(decode(text))
      if (Exit.isFailure(exit)) return undefined
      decoded[name] = exit.value
      remaining -= 1
    }
    return remaining === 0 && (check === undefined || Exit.isSuccess(check(decoded))) ? decoded : undefined
  }
}

const hasFields = (schema: Schema.Top): schema is Schema.Top & { readonly fields: Schema.Struct.Fields } =>
  "fields" in schema && SchemaAST.isObjects(schema.ast) && schema.ast.indexSignatures.length === 0 &&
  schema.ast.encoding === undefined

/**
 * Makes a function that decodes the parameters of a request. `now` is the time of the request, or of its `as_of`. The
 * whole schema decodes queries that are not valid, to name everything that is wrong.
 */
export const makeQueryDecoder = <Query>(query: QueryCodec<Query>) => {
  const decode = makeTextDecoder(query)
  const decodeFast = hasFields(query) ? makeFastDecoder(query) : undefined
  return (parameters: RawSearchParameters, now: number): Exit.Exit<Query, Schema.SchemaError> => {
    const context = Context.make(DecodingTime, now)
    const decoded = decodeFast?.(parameters, context)
    // The parts of a valid query are the query, which the type cannot say.
    return decoded === undefined ? Effect.runSyncExitWith(context)(decode(parameters)) : Exit.succeed(decoded as Query)
  }
}

/** Logs a defect, with the id of its request if it has one, and returns the error to respond with. */
export const logDefectAsInternalError = (defect: unknown, request_id?: string) =>
  Effect.logError("Unexpected failure", Cause.die(defect)).pipe(
    request_id === undefined ? (log) => log : Effect.annotateLogs("request_id", request_id),
    Effect.as(new InternalError({ error: { message: "Unexpected failure. Quote the request_id to support." } })),
  )
