/**
 * Decodes the parameters of a request (D4, D11). Creates the errors for invalid parameters, and for unexpected failures
 * (§7.2, errors).
 */
import { Cause, Context, Effect, Exit, Schema, SchemaAST } from "effect"
import { QueryNow } from "./Dates.ts"
import { InternalError, ValidationError } from "./Errors.ts"
import { unknownParameterReason } from "./Filters.ts"
import { formatNameSuggestion } from "./Suggestions.ts"
import { type FieldErrorReason, makeValidationReasonFormatter } from "./ValidationMessages.ts"

const maxFields = 20

interface InvalidField {
  readonly field: string
  readonly reason: string
}

const namelessParameter = "The query string contains a parameter without a name; remove it."

const missingParameter = "is required"

const repeatedParameter = "is sent more than once; send it once"

/**
 * How common HTTP libraries write null, a missing value or NaN. These texts are not refused as such, because some are
 * also symbols; they only lead to better advice.
 */
const nullText = /^(?:|null|undefined|none|nil|nan|nat|na|<na>)$/i

/** Separators other than commas, and the brackets and quotes of lists as programming languages print them. */
const foreignListCharacters = /[|;[\](){}"']/

/**
 * The suffix that some libraries add to the name of a list or an object, as in `ticker[]`, `ticker[0]` and `ticker.0`.
 */
const nameSuffix = /(?:\[[^\]]*\])+$|\.\d+$/

/** Parameters are text, so the only wrong type is an array, which a repeated parameter becomes (D4). */
const getReasons = makeValidationReasonFormatter({
  missing: missingParameter,
  unexpected: unknownParameterReason,
  wrongType: repeatedParameter,
})

/** Returns a query's parameter names. */
export const getParameterNames = (query: Schema.Top): ReadonlyArray<string> => {
  const ast = SchemaAST.toEncoded(query.ast)
  return SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
}

/** Returns which parameters are lists, and which ones a request must contain. */
const describeParameters = (query: Schema.Top) => {
  const ast = SchemaAST.toType(query.ast)
  const encoded = SchemaAST.toEncoded(query.ast)
  const lists = SchemaAST.isObjects(ast) ? ast.propertySignatures.filter(({ type }) => SchemaAST.isArrays(type)) : []
  const required = SchemaAST.isObjects(encoded)
    ? encoded.propertySignatures.filter(({ type }) => !SchemaAST.isOptional(type))
    : []
  return {
    lists: new Set(lists.map(({ name }) => String(name))),
    required: new Set(required.map(({ name }) => String(name))),
  }
}

const formatListAdvice = (name: string) => `with its values separated by commas: ${name}=A,B`

/**
 * Returns the advice that follows the reason for an unknown parameter (D4), such as ` Did you mean ticker?`. If a
 * library has added a suffix to a valid name, as in `ticker[]`, it says how to send the parameter. If no name is
 * similar, it lists all names.
 */
const explainUnknown = (field: string, names: ReadonlyArray<string>, lists: ReadonlySet<string>) => {
  const name = field.replace(nameSuffix, "")
  if (name !== field && names.includes(name)) {
    return lists.has(name)
      ? ` Send ${name} once, ${formatListAdvice(name)}.`
      : ` Send ${name} once, with one value: ${name}=VALUE.`
  }
  return formatNameSuggestion(name, names) ||
    (names.length === 0 ? " It has no parameters." : ` Its parameters are ${names.join(", ")}.`)
}

/**
 * Appends advice to a reason. A reason with an initial capital is a complete sentence, so the advice becomes another
 * one.
 */
const appendAdvice = (reason: string, advice: string) =>
  /^[A-Z]/.test(reason) ? `${reason} ${advice.charAt(0).toUpperCase()}${advice.slice(1)}.` : `${reason}; ${advice}`

/**
 * Returns a function that adds advice to the reason why a parameter is refused, such as `; separate several values by
 * commas: tag=A,B`.
 */
const makeAdviser = (parameters: RawSearchParameters, query: Schema.Top) => {
  const names = getParameterNames(query)
  const { lists, required } = describeParameters(query)
  return ({ name, reason }: FieldErrorReason): InvalidField => {
    const value = parameters[name]
    const field = (name || "query").slice(0, 64)
    if (name === "" && reason === unknownParameterReason) return { field, reason: namelessParameter }
    if (reason === unknownParameterReason) {
      return { field, reason: `${unknownParameterReason}.${explainUnknown(name, names, lists)}` }
    }
    if (reason === missingParameter) {
      const sent = Object.keys(parameters).find((other) => other !== name && other.replace(nameSuffix, "") === name)
      return { field, reason: sent === undefined ? reason : `${reason}; send ${name}=VALUE instead of ${sent}` }
    }
    if (Array.isArray(value)) {
      return { field, reason: lists.has(name) ? `${repeatedParameter}, ${formatListAdvice(name)}` : repeatedParameter }
    }
    const text = typeof value === "string" ? value : ""
    const advice = nullText.test(text) && !required.has(name)
      ? `leave ${name} out to send no value`
      : lists.has(name) && foreignListCharacters.test(text) && !reason.includes("commas")
      ? `separate several values by commas: ${name}=A,B`
      : undefined
    return { field, reason: advice === undefined ? reason : appendAdvice(reason, advice) }
  }
}

/** Puts the parameter's name before the reason, unless the reason is a complete sentence with an initial capital. */
const formatSentence = ({ field, reason }: InvalidField) => /^[A-Z]/.test(reason) ? reason : `${field} ${reason}`

/** Creates the error 422 for the given parameters. */
export const makeValidationError = (fields: ReadonlyArray<InvalidField>) =>
  new ValidationError({ error: { message: fields.map(formatSentence).join("; "), details: { fields } } })

/** Makes schemas refuse unknown parameters, and report all invalid parameters instead of only the first (D4, D11). */
export const queryParseOptions = { onExcessProperty: "error", errors: "all" } as const

/** The parameters of a request as text, by name; an array if one is repeated. */
export type RawSearchParameters = Readonly<Record<string, string | ReadonlyArray<string>>>

/** Creates the error 422 for a query that does not match its schema. It names up to 20 invalid parameters. */
export const makeQueryValidationError = (
  { issue }: Schema.SchemaError,
  parameters: RawSearchParameters,
  query: Schema.Top,
) => makeValidationError(getReasons(issue).slice(0, maxFields).map(makeAdviser(parameters, query)))

/** The schema of a query. `QueryNow` decides which dates are in the future. */
export type QueryCodec<Query> = Schema.Codec<Query, unknown, QueryNow>

type Decode<A> = (input: unknown) => Effect.Effect<A, Schema.SchemaError, QueryNow>

/** Returns a decoder for a value that is text in the request. A repeated parameter is an array. */
const makeTextDecoder = <A>(schema: Schema.Codec<A, unknown, QueryNow>): Decode<A> =>
  Schema.decodeUnknownEffect(Schema.toCodecArrayFromSingle(Schema.toCodecStringTree(schema)), queryParseOptions)

/** A parameter that is decoded on its own. */
interface ParameterDecoder {
  readonly name: string
  readonly decode: Decode<unknown>
  /** The result if a request does not have the parameter: nothing, a default, or an error. */
  readonly missing: Exit.Exit<object, unknown>
}

const isCodec = (schema: unknown): schema is Schema.Codec<unknown, unknown, QueryNow> => Schema.isSchema(schema)

const listParameterDecoders = (fields: Schema.Struct.Fields): ReadonlyArray<ParameterDecoder> =>
  Object.entries(fields).flatMap(([name, field]) =>
    isCodec(field)
      ? [{
        name,
        decode: makeTextDecoder(field),
        missing: Effect.runSyncExitWith(Context.make(QueryNow, 0))(
          makeTextDecoder(Schema.Struct({ [name]: field }))({}),
        ),
      }]
      : []
  )

/**
 * Returns a fast decoder for valid queries; it returns undefined for invalid ones. It decodes only the parameters that
 * were sent, one by one. The schema of the whole query would also examine absent ones, and an endpoint can have
 * dozens.
 */
const makeFastDecoder = (query: Schema.Top & { readonly fields: Schema.Struct.Fields }) => {
  const decoders = listParameterDecoders(query.fields)
  const [first, ...others] = query.ast.checks ?? []
  // Checks that concern the whole query, such as range checks, run on the decoded parameters.
  const check = first === undefined ? undefined : Schema.decodeUnknownExit(Schema.Unknown.check(first, ...others))
  return (parameters: RawSearchParameters, context: Context.Context<QueryNow>) => {
    const run = Effect.runSyncExitWith(context)
    const decoded: Record<string, unknown> = {}
    // Counts the parameters that no decoder has used. If any are left, they are unknown.
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
 * Returns a function that decodes the parameters of a request. `now` is the time of the request, or the moment of its
 * `as_of`. If the query is invalid, the schema of the whole query decodes it again, because only its error names
 * everything that is wrong.
 */
export const makeQueryDecoder = <Query>(query: QueryCodec<Query>) => {
  const decode = makeTextDecoder(query)
  const decodeFast = hasFields(query) ? makeFastDecoder(query) : undefined
  return (parameters: RawSearchParameters, now: number): Exit.Exit<Query, Schema.SchemaError> => {
    const context = Context.make(QueryNow, now)
    const decoded = decodeFast?.(parameters, context)
    // Together, the decoded parameters are the decoded query, but TypeScript cannot know that.
    return decoded === undefined ? Effect.runSyncExitWith(context)(decode(parameters)) : Exit.succeed(decoded as Query)
  }
}

/** Logs a defect, with the id of its request if it has one, and returns the error for the response. */
export const logDefectAsInternalError = (defect: unknown, request_id?: string) =>
  Effect.logError("Unexpected failure", Cause.die(defect)).pipe(
    request_id === undefined ? (log) => log : Effect.annotateLogs("request_id", request_id),
    Effect.as(new InternalError({ error: { message: "Unexpected failure. Quote the request_id to support." } })),
  )
