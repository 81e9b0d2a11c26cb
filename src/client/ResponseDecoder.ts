/** How the text of an answer becomes values, once for each endpoint and without a request. */
import { Effect, Option, Predicate, Schema, SchemaAST } from "effect"
import type { Headers } from "effect/http"
import { HttpApi, type HttpApiEndpoint } from "effect/http-api"
import { Api } from "../Api.ts"
import { UnknownCode, UnreadableAnswer } from "./ClientErrors.ts"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/** Fewer digits than these a float holds, whichever they are. */
const long = /[\d.]{16}/
/** A long number, or what tells where a text begins and ends, in which digits are no number. */
const tokens = /\\.|"|-?[\d.]{16,}(?:[eE][+-]?\d+)?/gs

/** D16: a number that a float cannot hold comes as its digits, which the contract reads just as well. */
const withDigits = (text: string) => {
  let inText = false
  return text.replace(tokens, (token) => {
    if (token === `"`) inText = !inText
    return inText || !/^-?[\d.]+$/.test(token) || String(Number(token)) === token ? token : `"${token}"`
  })
}

const exactly = (text: string): unknown => JSON.parse(long.test(text) ? withDigits(text) : text)

const json = (text: string) => {
  try {
    return Option.some(exactly(text))
  } catch {
    return Option.none()
  }
}

type Reader = Schema.Codec<unknown, unknown>

/** Schemas of the contract need no service to be read. */
const reader = (ast: SchemaAST.AST) => Schema.make<Reader>(ast)

/** §9.3: the contract's shape, with any word where it lists some: one of a newer service does not lose a page. */
const openAst = (ast: SchemaAST.AST): SchemaAST.AST => {
  const optional = SchemaAST.isOptional(ast)
  const opened = openedAst(ast)
  return optional && !SchemaAST.isOptional(opened) ? Schema.optionalKey(reader(opened)).ast : opened
}

const openedAst = (ast: SchemaAST.AST): SchemaAST.AST => {
  if (ast.encoding !== undefined) return ast
  if (SchemaAST.isLiteral(ast)) return Predicate.isString(ast.literal) ? SchemaAST.string : ast
  if (SchemaAST.isUnion(ast)) return new SchemaAST.Union(ast.types.map(openAst))
  if (SchemaAST.isArrays(ast)) {
    return new SchemaAST.Arrays(ast.isMutable, ast.elements.map(openAst), ast.rest.map(openAst))
  }
  if (!SchemaAST.isObjects(ast)) return ast
  const fields = ast.propertySignatures.map(({ name, type }) => new SchemaAST.PropertySignature(name, openAst(type)))
  return new SchemaAST.Objects(fields, ast.indexSignatures)
}

const hasMore = (ast: SchemaAST.AST) =>
  SchemaAST.isObjects(ast) && ast.propertySignatures.some(({ name }) => name === "has_more")

/** A whole answer. */
export interface RawResponse {
  readonly text: string
  readonly headers: Headers.Headers
  readonly told: ResponseMetadata
}

const unreadable = ({ text, told }: RawResponse, message: string) =>
  new UnreadableAnswer({ message, status: told.status, request_id: told.request_id, body: text.slice(0, 1000) })

const ErrorBody = Schema.Struct({
  error: Schema.Struct({ code: Schema.String, message: Schema.String, details: Schema.optionalKey(Schema.Unknown) }),
  request_id: Schema.String,
})

const decodeErrorBody = Schema.decodeUnknownOption(ErrorBody)

const refused = (reply: RawResponse, path: string, body: unknown) =>
  Option.match(decodeErrorBody(body), {
    onNone: () =>
      unreadable(reply, `${path} was answered with ${reply.told.status}, and not by Tickerline: see its body`),
    onSome: ({ error, request_id }) =>
      new UnknownCode({
        message: error.message,
        code: error.code,
        status: reply.told.status,
        details: error.details,
        request_id,
      }),
  })

/** An endpoint, as far as a client has to know it. */
export interface EndpointDecoder {
  readonly path: string
  /** It comes in pages. */
  readonly paged: boolean
  /** The answer, or the contract's error, or why it is neither. */
  readonly read: (reply: RawResponse) => Effect.Effect<unknown, unknown>
}

const planOf = (
  endpoint: HttpApiEndpoint.Top,
  successes: ReadonlyMap<number, ReadonlyArray<Schema.Top>>,
  errors: ReadonlyMap<number, ReadonlyArray<Schema.Top>>,
): EndpointDecoder => {
  const { path } = endpoint
  const [success = Schema.Unknown] = successes.get(200) ?? []
  const decode = Schema.decodeUnknownEffect(reader(openAst(success.ast)))
  const decodeError = new Map(
    Array.from(errors, ([status, schemas]) => [
      status,
      Schema.decodeUnknownOption(reader(new SchemaAST.Union(schemas.map(({ ast }) => ast)))),
    ]),
  )
  const read = (reply: RawResponse) => {
    const { told: { status }, text } = reply
    const body = json(text)
    if (Option.isNone(body)) {
      return Effect.fail(
        unreadable(reply, `${path} was answered with ${status} and no JSON; is baseUrl that of Tickerline?`),
      )
    }
    if (status === 200) {
      return Effect.mapError(
        decode(body.value),
        ({ message }) => unreadable(reply, `The answer of ${path} has another shape than in this client: ${message}`),
      )
    }
    const known = Option.flatMap(Option.fromUndefinedOr(decodeError.get(status)), (decode) => decode(body.value))
    return Effect.fail(Option.getOrElse(known, () => refused(reply, path, body.value)))
  }
  return { path, paged: hasMore(success.ast), read }
}

/** Every endpoint of the contract that answers in JSON. */
export const endpointDecoders: ReadonlyArray<EndpointDecoder> = (() => {
  const found: Array<EndpointDecoder> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, errors, successes }) => {
      const isText = (successes.get(200) ?? []).some(({ ast }) => SchemaAST.isString(ast))
      if (!isText) found.push(planOf(endpoint, successes, errors))
    },
  })
  return found
})()
