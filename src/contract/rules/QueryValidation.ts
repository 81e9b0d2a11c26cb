/**
 * Decodes request parameters (D4, D11). Creates the errors for invalid parameters and for unexpected failures (§7.2,
 * errors).
 */
import { Cause, Context, Effect, Exit, Schema, SchemaAST } from "effect"
import { QueryNow } from "./Dates.ts"
import { InternalError, ValidationError } from "./ApiErrors.ts"
import { unknownParameterReason } from "./FilterParameters.ts"
import { formatNameSuggestion } from "./NameSuggestions.ts"
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

/** Returns two sets of parameter names of a query schema: those whose value is a list, and those that are required. */
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
 * Returns advice to append to the reason why the value of a parameter is invalid, if the value looks as if a library
 * had written it for null or for a list. Returns undefined otherwise.
 */
const adviseOnValue = (
  name: string,
  value: string,
  reason: string,
  { lists, required }: ReturnType<typeof describeParameters>,
) => {
  if (nullText.test(value) && !required.has(name)) return `leave ${name} out to send no value`
  return lists.has(name) && foreignListCharacters.test(value) && !reason.includes("commas")
    ? `separate several values by commas: ${name}=A,B`
    : undefined
}

/**
 * Returns a function that completes the reason why a parameter was rejected. It takes the parameter's name and the
 * reason that its schema gives, and returns the field for the 422 response: the same name and reason, plus advice if a
 * common mistake can be recognized in the request's `parameters`. For example, `must be one of: …` becomes `must be one
 * of: …; separate several values by commas: tag=A,B` if the client sent `tag=A|B`.
 */
const makeAdviser = (parameters: RawSearchParameters, query: Schema.Top) => {
  const names = getParameterNames(query)
  const described = describeParameters(query)
  const { lists } = described
  return ({ name, reason }: FieldErrorReason): InvalidField => {
    const value = parameters[name]
    // The name is empty for a parameter such as `=5`, and for an error that concerns the query as a whole.
    const field = (name || "query").slice(0, 64)
    if (reason === unknownParameterReason) {
      return name === ""
        ? { field, reason: namelessParameter }
        : { field, reason: `${unknownParameterReason}.${explainUnknown(name, names, lists)}` }
    }
    if (reason === missingParameter) {
      // The parameter may have been sent under a name such as `ticker[]`.
      const similar = Object.keys(parameters).find((other) => other !== name && other.replace(nameSuffix, "") === name)
      return { field, reason: similar === undefined ? reason : `${reason}; send ${name}=VALUE instead of ${similar}` }
    }
    if (Array.isArray(value)) {
      return { field, reason: lists.has(name) ? `${repeatedParameter}, ${formatListAdvice(name)}` : repeatedParameter }
    }
    const advice = adviseOnValue(name, typeof value === "string" ? value : "", reason, described)
    return { field, reason: advice === undefined ? reason : appendAdvice(reason, advice) }
  }
}

/**
 * Puts the parameter name in front of the reason, as in `page must be a number`. A reason that starts with a capital
 * letter is already a complete sentence and stays unchanged.
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

/** Decodes one parameter without looking at the others. */
interface ParameterDecoder {
  readonly name: string
  readonly decode: Decode<unknown>
  /** The result if the request omits the parameter: an empty object, a default value, or an error. */
  readonly missing: Exit.Exit<object, unknown>
}

const isCodec = (schema: unknown): schema is Schema.Codec<unknown, unknown, QueryNow> => Schema.isSchema(schema)

/**
 * Returns a decoder for each parameter of a query schema. The result for an omitted parameter is the same for every
 * request, so it is computed here, once. It does not depend on the time, so the time 0 is provided.
 */
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
 * Returns a function that decodes valid queries only, and returns undefined for invalid ones, whose errors it does not
 * collect. It is fast because it runs schemas only for the parameters that were sent; for all others, it uses the
 * result computed at startup. The schema of the whole query would also run the schemas of the parameters that were not
 * sent, and an endpoint can have dozens.
 */
const makeFastDecoder = (query: Schema.Top & { readonly fields: Schema.Struct.Fields }) => {
  const decoders = listParameterDecoders(query.fields)
  const [firstCheck, ...otherChecks] = query.ast.checks ?? []
  // The checks of the whole query involve several parameters, as in "min_gap must not be greater than max_gap". They
  // run after the parameters are decoded.
  const checkQuery = firstCheck === undefined
    ? undefined
    : Schema.decodeUnknownExit(Schema.Unknown.check(firstCheck, ...otherChecks))
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
    const isValid = remaining === 0 && (checkQuery === undefined || Exit.isSuccess(checkQuery(decoded)))
    return isValid ? decoded : undefined
  }
}

/**
 * Returns whether a query schema consists of nothing but its fields, so that each can be decoded on its own. The query
 * of `/estimate` does not, because it accepts additional parameters under any name.
 */
const hasFields = (schema: Schema.Top): schema is Schema.Top & { readonly fields: Schema.Struct.Fields } =>
  "fields" in schema && SchemaAST.isObjects(schema.ast) && schema.ast.indexSignatures.length === 0 &&
  schema.ast.encoding === undefined

/**
 * Returns a function that decodes the parameters of a request. Its argument `now` is the time of the request or, if
 * `as_of` is present, the time that `as_of` specifies; it determines which dates lie in the future. A query is first
 * decoded the fast way (see `makeFastDecoder`). If that fails, it is decoded again with the schema of the whole query,
 * because only that schema reports all errors.
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
