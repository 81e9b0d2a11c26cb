/** Decodes responses using the endpoint schemas. */
import { Effect, Option, Schema, SchemaAST } from "effect"
import type { Headers } from "effect/http"
import { UnknownCode, UnreadableAnswer } from "./ClientErrors.ts"
import type { EndpointSchemas } from "./EndpointSchemas.ts"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/**
 * Matches a response body that may contain numbers of 16 or more characters. Shorter numbers can be represented exactly
 * as doubles, so a body without long numbers is parsed by `JSON.parse` alone.
 */
const longNumber = /[\d.]{16}/

/** Matches long numbers in JSON, and the quotes and escape sequences needed to find where strings start and end. */
const tokens = /\\.|"|-?[\d.]{16,}(?:[eE][+-]?\d+)?/gs

/**
 * Encloses numbers in JSON in quotes if a double cannot represent them exactly, so that no digits are lost when the
 * JSON is parsed (D16, decimals). The schemas accept decimals as strings. Numbers within strings, numbers with an
 * exponent, and numbers that a double represents exactly stay unchanged.
 */
const quoteLongNumbers = (json: string) => {
  let isInString = false
  return json.replace(tokens, (token) => {
    if (token === `"`) isInString = !isInString
    const isPlainNumber = /^-?[\d.]+$/.test(token)
    const isExact = String(Number(token)) === token
    return isInString || !isPlainNumber || isExact ? token : `"${token}"`
  })
}

/** Parses JSON without losing digits. Returns `None` if the text is not JSON. */
const parseJson = (text: string): Option.Option<unknown> => {
  try {
    return Option.some(JSON.parse(longNumber.test(text) ? quoteLongNumbers(text) : text))
  } catch {
    return Option.none()
  }
}

/**
 * Returns the codec for a schema. TypeScript cannot verify the codec's type. It is correct because no schema in the
 * contract requires an Effect service.
 */
const makeCodec = (ast: SchemaAST.AST) => Schema.make<Schema.Codec<unknown, unknown>>(ast)

/** Returns the schema of a field in a schema for objects, or undefined if there is none. */
const findFieldSchema = (ast: SchemaAST.AST, field: string) =>
  SchemaAST.isObjects(ast) ? ast.propertySignatures.find(({ name }) => name === field)?.type : undefined

/** A complete response that has not been decoded. */
export interface RawResponse {
  readonly text: string
  readonly headers: Headers.Headers
  readonly metadata: ResponseMetadata
}

const makeUnreadableAnswer = ({ metadata: { request_id, status }, text }: RawResponse, message: string) =>
  new UnreadableAnswer({ message, status, request_id, body: text.slice(0, 1000) })

/** The body of any error response, with a code and details that this client may not know. */
const ErrorBody = Schema.Struct({
  error: Schema.Struct({ code: Schema.String, message: Schema.String, details: Schema.optionalKey(Schema.Unknown) }),
  request_id: Schema.String,
})

const decodeErrorBody = Schema.decodeUnknownOption(ErrorBody)

/** Returns the error for a response that no declared error matches: `UnknownCode` or `UnreadableAnswer`. */
const makeUnknownError = (response: RawResponse, path: string, body: unknown) => {
  const { status } = response.metadata
  return Option.match(decodeErrorBody(body), {
    onNone: () => makeUnreadableAnswer(response, `${path} returned ${status}, but the body is not a Tickerline error`),
    onSome: ({ error: { code, details, message }, request_id }) =>
      new UnknownCode({ message, code, status, details, request_id }),
  })
}

/** Decodes an endpoint's responses. */
export interface EndpointDecoder {
  readonly path: string
  /** Whether the endpoint returns a list with pages. */
  readonly hasPages: boolean
  /** Decodes a single change from the event stream. Undefined if the endpoint does not list changes. */
  readonly decodeChange: ((response: RawResponse) => Effect.Effect<unknown, UnreadableAnswer>) | undefined
  /**
   * Returns the decoded body of a 200 response. For any other response, fails with the error from the contract that the
   * body contains, with `UnknownCode` if this client does not know the error, or with `UnreadableAnswer` if the
   * response does not come from the service.
   */
  readonly decode: (response: RawResponse) => Effect.Effect<unknown, unknown>
  /** Decodes error responses of the endpoint's event stream, if it has one. */
  readonly eventStream: EndpointDecoder | undefined
}

/**
 * Returns the function that decodes the data of a `change` event. Its schema is that of the elements of `results` in
 * `success`, the schema of the endpoint's 200 response. Returns undefined if the endpoint is not the change feed, which
 * is the only one whose response has a `cursor`.
 */
const makeChangeDecoder = (success: SchemaAST.AST): EndpointDecoder["decodeChange"] => {
  const results = findFieldSchema(success, "results")
  if (findFieldSchema(success, "cursor") === undefined || results === undefined || !SchemaAST.isArrays(results)) {
    return undefined
  }
  // `rest` contains the schema of the elements of an array whose length is not fixed.
  const [changeSchema = SchemaAST.unknown] = results.rest
  const decodeChange = Schema.decodeUnknownEffect(makeCodec(changeSchema))
  return (response) => {
    const change = parseJson(response.text)
    if (Option.isNone(change)) {
      return Effect.fail(makeUnreadableAnswer(response, "The stream of changes sent a change that is not JSON"))
    }
    return Effect.mapError(
      decodeChange(change.value),
      ({ message }) => makeUnreadableAnswer(response, `A change of the stream does not match this client: ${message}`),
    )
  }
}

/**
 * Creates the decoder for an endpoint from the schemas of its responses. It decodes a response with status 200 with
 * `success`, and fails with the error in any other response, decoded with the schema that the endpoint declares for the
 * status (`errors`). A status that it does not declare, such as one of a proxy, yields an unknown error. `eventStream`
 * is the decoder for the endpoint's event stream, if it has one.
 */
const makeEndpointDecoder = (
  { errors, path, success }: EndpointSchemas,
  eventStream: EndpointDecoder | undefined,
): EndpointDecoder => {
  const decodeBody = Schema.decodeUnknownEffect(makeCodec(success))
  const decodeErrors = new Map(
    Array.from(errors, ([status, schema]) => [status, Schema.decodeUnknownOption(makeCodec(schema))]),
  )
  const decode = (response: RawResponse) => {
    const { status } = response.metadata
    const body = parseJson(response.text)
    if (Option.isNone(body)) {
      const message = `${path} returned ${status} without JSON. Does baseUrl point to Tickerline?`
      return Effect.fail(makeUnreadableAnswer(response, message))
    }
    if (status === 200) {
      return Effect.mapError(
        decodeBody(body.value),
        ({ message }) =>
          makeUnreadableAnswer(response, `The response of ${path} does not match this client: ${message}`),
      )
    }
    const declaredError = Option.flatMap(
      Option.fromUndefinedOr(decodeErrors.get(status)),
      (decodeError) => decodeError(body.value),
    )
    return Effect.fail(Option.getOrElse(declaredError, () => makeUnknownError(response, path, body.value)))
  }
  const hasPages = findFieldSchema(success, "page") !== undefined
  return { path, hasPages, decodeChange: makeChangeDecoder(success), decode, eventStream }
}

/** Creates a decoder for each endpoint that returns JSON. */
export const makeEndpointDecoders = (all: ReadonlyArray<EndpointSchemas>): ReadonlyArray<EndpointDecoder> =>
  all.filter(({ success }) => !SchemaAST.isString(success)).map((schemas) => {
    const eventStream = all.find(({ path }) => path === `${schemas.path}/stream`)
    return makeEndpointDecoder(schemas, eventStream && makeEndpointDecoder(eventStream, undefined))
  })
