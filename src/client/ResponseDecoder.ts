/** Decodes responses according to the contract. All endpoint decoders are built once, when the module is loaded. */
import { Effect, Option, Predicate, Schema, SchemaAST } from "effect"
import type { Headers } from "effect/http"
import { HttpApi, type HttpApiEndpoint } from "effect/http-api"
import { Api } from "../Api.ts"
import { UnknownCode, UnreadableAnswer } from "./ClientErrors.ts"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/** Matches numbers of 16 or more characters. A double keeps every digit of shorter numbers. */
const longNumber = /[\d.]{16}/
/** Matches long numbers, and the quotes and escapes that show where strings begin and end. */
const tokens = /\\.|"|-?[\d.]{16,}(?:[eE][+-]?\d+)?/gs

/** Quotes numbers that a double cannot represent exactly (D16, decimals). The schemas accept decimals as text. */
const quoteLongNumbers = (json: string) => {
  let isInString = false
  return json.replace(tokens, (token) => {
    if (token === `"`) isInString = !isInString
    return isInString || !/^-?[\d.]+$/.test(token) || String(Number(token)) === token ? token : `"${token}"`
  })
}

const parseJson = (text: string): Option.Option<unknown> => {
  try {
    return Option.some(JSON.parse(longNumber.test(text) ? quoteLongNumbers(text) : text))
  } catch {
    return Option.none()
  }
}

/** Makes a codec. Its type is not checked, but correct, because no schema of the contract needs an Effect service. */
const codecOf = (ast: SchemaAST.AST) => Schema.make<Schema.Codec<unknown, unknown>>(ast)

/** §9.3 (additions): accepts any text as an enum value, because a newer service may have more values. */
const openEnums = (ast: SchemaAST.AST): SchemaAST.AST => {
  const opened = openEnumsInside(ast)
  return SchemaAST.isOptional(ast) && !SchemaAST.isOptional(opened) ? Schema.optionalKey(codecOf(opened)).ast : opened
}

const openEnumsInside = (ast: SchemaAST.AST): SchemaAST.AST => {
  if (ast.encoding !== undefined) return ast
  if (SchemaAST.isLiteral(ast)) return Predicate.isString(ast.literal) ? SchemaAST.string : ast
  if (SchemaAST.isUnion(ast)) return new SchemaAST.Union(ast.types.map(openEnums))
  if (SchemaAST.isArrays(ast)) {
    return new SchemaAST.Arrays(ast.isMutable, ast.elements.map(openEnums), ast.rest.map(openEnums))
  }
  if (!SchemaAST.isObjects(ast)) return ast
  const fields = ast.propertySignatures.map(({ name, type }) => new SchemaAST.PropertySignature(name, openEnums(type)))
  return new SchemaAST.Objects(fields, ast.indexSignatures)
}

const fieldOf = (ast: SchemaAST.AST, field: string) =>
  SchemaAST.isObjects(ast) ? ast.propertySignatures.find(({ name }) => name === field)?.type : undefined

/** A complete response before decoding. */
export interface RawResponse {
  readonly text: string
  readonly headers: Headers.Headers
  readonly metadata: ResponseMetadata
}

const unreadableAnswer = ({ metadata: { request_id, status }, text }: RawResponse, message: string) =>
  new UnreadableAnswer({ message, status, request_id, body: text.slice(0, 1000) })

const ErrorBody = Schema.Struct({
  error: Schema.Struct({ code: Schema.String, message: Schema.String, details: Schema.optionalKey(Schema.Unknown) }),
  request_id: Schema.String,
})

const decodeErrorBody = Schema.decodeUnknownOption(ErrorBody)

const unknownError = (response: RawResponse, path: string, body: unknown) => {
  const { status } = response.metadata
  return Option.match(decodeErrorBody(body), {
    onNone: () => unreadableAnswer(response, `${path} returned ${status}, but the body is not a Tickerline error`),
    onSome: ({ error: { code, details, message }, request_id }) =>
      new UnknownCode({ message, code, status, details, request_id }),
  })
}

export interface EndpointDecoder {
  readonly path: string
  readonly hasPages: boolean
  /** Decodes a change that the stream sends; undefined if the endpoint does not list changes. */
  readonly decodeChange: ((response: RawResponse) => Effect.Effect<unknown, UnreadableAnswer>) | undefined
  /** Succeeds with the body of a 200. Fails with an error from the contract, `UnknownCode` or `UnreadableAnswer`. */
  readonly decode: (response: RawResponse) => Effect.Effect<unknown, unknown>
}

const makeChangeDecoder = (success: SchemaAST.AST): EndpointDecoder["decodeChange"] => {
  const results = fieldOf(success, "results")
  if (fieldOf(success, "cursor") === undefined || results === undefined || !SchemaAST.isArrays(results)) {
    return undefined
  }
  const [change = SchemaAST.unknown] = results.rest
  const decodeChange = Schema.decodeUnknownEffect(codecOf(openEnums(change)))
  return (response) =>
    Option.match(parseJson(response.text), {
      onNone: () => Effect.fail(unreadableAnswer(response, "The stream of changes sent a change that is not JSON")),
      onSome: (value) =>
        Effect.mapError(
          decodeChange(value),
          ({ message }) => unreadableAnswer(response, `A change of the stream does not match this client: ${message}`),
        ),
    })
}

const makeEndpointDecoder = (
  { path }: HttpApiEndpoint.Top,
  successes: ReadonlyMap<number, ReadonlyArray<Schema.Top>>,
  errors: ReadonlyMap<number, ReadonlyArray<Schema.Top>>,
): EndpointDecoder => {
  const [success = Schema.Unknown] = successes.get(200) ?? []
  const decodeBody = Schema.decodeUnknownEffect(codecOf(openEnums(success.ast)))
  const decodeErrors = new Map(
    Array.from(errors, ([status, schemas]) => [
      status,
      Schema.decodeUnknownOption(codecOf(new SchemaAST.Union(schemas.map(({ ast }) => ast)))),
    ]),
  )
  const decode = (response: RawResponse) => {
    const { status } = response.metadata
    const body = parseJson(response.text)
    if (Option.isNone(body)) {
      const message = `${path} returned ${status} without JSON. Does baseUrl point to Tickerline?`
      return Effect.fail(unreadableAnswer(response, message))
    }
    if (status === 200) {
      return Effect.mapError(
        decodeBody(body.value),
        ({ message }) => unreadableAnswer(response, `The response of ${path} does not match this client: ${message}`),
      )
    }
    const declared = Option.flatMap(Option.fromUndefinedOr(decodeErrors.get(status)), (decode) => decode(body.value))
    return Effect.fail(Option.getOrElse(declared, () => unknownError(response, path, body.value)))
  }
  const hasPages = fieldOf(success.ast, "page") !== undefined
  return { path, hasPages, decodeChange: makeChangeDecoder(success.ast), decode }
}

const makeDecoders = (isIncluded: (endpoint: { readonly path: string; readonly isText: boolean }) => boolean) => {
  const decoders: Array<EndpointDecoder> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, errors, successes }) => {
      const isText = (successes.get(200) ?? []).some(({ ast }) => SchemaAST.isString(ast))
      if (isIncluded({ path: endpoint.path, isText })) decoders.push(makeEndpointDecoder(endpoint, successes, errors))
    },
  })
  return decoders
}

/** One decoder for each endpoint that returns JSON. */
export const jsonEndpointDecoders: ReadonlyArray<EndpointDecoder> = makeDecoders(({ isText }) => !isText)

/** Decodes the errors of `/v1/changes/stream`. */
export const [changeStreamDecoder] = makeDecoders(({ path }) => path === "/v1/changes/stream")
