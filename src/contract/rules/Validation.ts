/**
 * Decodes request parameters (D4, D11). Creates the errors for invalid parameters and for unexpected failures (§7.2,
 * errors).
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
 * How common HTTP libraries write null, missing values and NaN. Some of these texts are also symbols, so they are not
 * rejected as such. If the value is rejected for another reason, the error message includes advice.
 */
const nullText = /^(?:|null|undefined|none|nil|nan|nat|na|<na>)$/i

/** Separators other than commas, and the brackets and quotes of lists in programming languages. */
const foreignListCharacters = /[|;[\](){}"']/

/**
 * A suffix that some libraries append to the name of a list or object parameter, as in `ticker[]`, `ticker[0]` and
 * `ticker.0`.
 */
const nameSuffix = /(?:\[[^\]]*\])+$|\.\d+$/

/** Parameters are strings. The only possible type error is an array, which results from a repeated parameter (D4). */
const getReasons = makeValidationReasonFormatter({
  missing: missingParameter,
  unexpected: unknownParameterReason,
  wrongType: repeatedParameter,
})

/** Returns the names of a query's parameters. */
export const getParameterNames = (query: Schema.Top): ReadonlyArray<string> => {
  const ast = SchemaAST.toEncoded(query.ast)
  return SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
}

/** Returns the names of list parameters and the names of required parameters. */
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
 * Returns advice to append to the reason why a parameter is unknown (D4), such as ` Did you mean ticker?`. If a library
 * has appended a suffix to a valid name, as in `ticker[]`, the advice explains how to send the parameter. If no name is
 * similar, the advice lists all names.
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
 * Appends advice to a reason. If the reason is a complete sentence, which starts with a capital letter, the advice
 * becomes a separate sentence.
 */
const appendAdvice = (reason: string, advice: string) =>
  /^[A-Z]/.test(reason) ? `${reason} ${advice.charAt(0).toUpperCase()}${advice.slice(1)}.` : `${reason}; ${advice}`

/**
 * Returns a function that adds advice to the reason why a parameter was rejected, such as `; separate several values by
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

/**
 * Puts the parameter name in front of the reason, unless the reason is a complete sentence, which starts with a capital
 * letter.
 */
const formatSentence = ({ field, reason }: InvalidField) => /^[A-Z]/.test(reason) ? reason : `${field} ${reason}`

/** Creates the 422 error for the given invalid parameters. */
export const makeValidationError = (fields: ReadonlyArray<InvalidField>) =>
  new ValidationError({ error: { message: fields.map(formatSentence).join("; "), details: { fields } } })

/** Makes schemas reject unknown parameters and report all invalid parameters, not just the first (D4, D11). */
export const queryParseOptions = { onExcessProperty: "error", errors: "all" } as const

/** The undecoded parameters of a request, by name. A repeated parameter is an array. */
export type RawSearchParameters = Readonly<Record<string, string | ReadonlyArray<string>>>

/** Creates the 422 error for a query that does not match its schema. The error lists at most 20 invalid parameters. */
export const makeQueryValidationError = (
  { issue }: Schema.SchemaError,
  parameters: RawSearchParameters,
  query: Schema.Top,
) => makeValidationError(getReasons(issue).slice(0, maxFields).map(makeAdviser(parameters, query)))

/** A query schema. `QueryNow` determines which dates are in the future. */
export type QueryCodec<Query> = Schema.Codec<Query, unknown, QueryNow>

type Decode<A> = (input: unknown) => Effect.Effect<A, Schema.SchemaError, QueryNow>

/** Returns a decoder for a parameter, whose value is a string, or an array of strings if the parameter is repeated. */
const makeTextDecoder = <A>(schema: Schema.Codec<A, unknown, QueryNow>): Decode<A> =>
  Schema.decodeUnknownEffect(Schema.toCodecArrayFromSingle(Schema.toCodecStringTree(schema)), queryParseOptions)

/** Decodes one parameter independently of the others. */
interface ParameterDecoder {
  readonly name: string
  readonly decode: Decode<unknown>
  /** The result if the request omits the parameter: an empty object, a default value, or an error. */
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
 * Returns a fast decoder that handles valid queries only and returns undefined for invalid ones. It decodes each
 * parameter that was sent, one at a time. The schema of the whole query would also examine the parameters that were not
 * sent, and an endpoint can have dozens.
 */
const makeFastDecoder = (query: Schema.Top & { readonly fields: Schema.Struct.Fields }) => {
  const decoders = listParameterDecoders(query.fields)
  const [first, ...others] = query.ast.checks ?? []
  // Checks that involve several parameters, such as range checks, run after the parameters are decoded.
  const check = first === undefined ? undefined : Schema.decodeUnknownExit(Schema.Unknown.check(first, ...others))
  return (parameters: RawSearchParameters, context: Context.Context<QueryNow>) => {
    const run = Effect.runSyncExitWith(context)
    const decoded: Record<string, unknown> = {}
    // The number of parameters that no decoder has processed. If any remain at the end, they are unknown.
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
 * Returns a function that decodes request parameters. `now` is the time of the request or, if `as_of` is present, the
 * time it specifies. An invalid query is decoded again with the schema of the whole query, because only that schema
 * reports all errors.
 */
export const makeQueryDecoder = <Query>(query: QueryCodec<Query>) => {
  const decode = makeTextDecoder(query)
  const decodeFast = hasFields(query) ? makeFastDecoder(query) : undefined
  return (parameters: RawSearchParameters, now: number): Exit.Exit<Query, Schema.SchemaError> => {
    const context = Context.make(QueryNow, now)
    const decoded = decodeFast?.(parameters, context)
    // The decoded parameters together form the decoded query, but TypeScript cannot infer this.
    return decoded === undefined ? Effect.runSyncExitWith(context)(decode(parameters)) : Exit.succeed(decoded as Query)
  }
}

/** Logs a defect, with the request id if there is one, and returns the error to respond with. */
export const logDefectAsInternalError = (defect: unknown, request_id?: string) =>
  Effect.logError("Unexpected failure", Cause.die(defect)).pipe(
    request_id === undefined ? (log) => log : Effect.annotateLogs("request_id", request_id),
    Effect.as(new InternalError({ error: { message: "Unexpected failure. Quote the request_id to support." } })),
  )
