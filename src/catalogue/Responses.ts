/** The responses of the OpenAPI document: the statuses that no endpoint declares, and the headers of all (D14). */
import { Array, Schema } from "effect"
import { BadRequest, MethodNotAllowed } from "../rules/Errors.ts"
import { responseHeaders } from "../rules/ResponseHeaders.ts"
import { type Facts, headersOf } from "./ResponseHeaders.ts"
import { getIn, type Json } from "./Schemas.ts"

const schemaNamed = (name: string) => ({ "application/json": { schema: { $ref: `#/components/schemas/${name}` } } })

const bad = (description: string) => ({ description, content: schemaNamed("BadRequest") })

/** What an endpoint answers without declaring it (D10, D13): the request does not get as far as its handler. */
const undeclared: Readonly<Record<number, Json>> = {
  400: bad("The URL cannot be decoded, or the request names no `Host`."),
  405: { description: "Endpoints answer GET and HEAD.", content: schemaNamed("MethodNotAllowed") },
  408: bad("The request did not arrive in time."),
  413: bad("The request has a body, and it is too long."),
  431: bad("The URL and the headers are too long together, or the headers are too many."),
}

const described = (status: number, response: Json, facts: Facts): Json => {
  const { content, description } = response
  // Effect joins the descriptions of several errors by bars.
  const sentences = String(description).replaceAll(" | ", " ")
  return { description: sentences, headers: headersOf(status, facts), ...(content === undefined ? {} : { content }) }
}

const notModified = { description: "The client has this version already: it sent its `ETag` as `If-None-Match`." }

interface Answer {
  readonly path: string
  readonly status: number
  readonly facts: Facts
  readonly response: Json
}

const answersOf = (path: string, facts: Facts, responses: unknown): ReadonlyArray<Answer> =>
  Object.entries<Json>({
    ...Object(responses),
    ...undeclared,
    ...(facts.revalidated ? { 304: notModified } : {}),
  }).map(([status, response]) => ({
    path,
    status: Number(status),
    facts,
    response: described(Number(status), response, facts),
  }))

/** The names under which responses are shared. */
const sharedNames: Readonly<Record<number, string>> = {
  304: "NotModified",
  400: "BadRequest",
  401: "Unauthorized",
  402: "PaymentRequired",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  408: "RequestTimeout",
  409: "Conflict",
  410: "Gone",
  413: "ContentTooLarge",
  422: "ValidationError",
  429: "TooManyRequests",
  431: "HeadersTooLarge",
  500: "InternalError",
  503: "Unavailable",
}

const variant = ({ dropsTickers, keyed }: Facts) => dropsTickers ? "OfTickers" : keyed ? "" : "WithoutKey"

/** The names of responses that several operations have in common; a success is never shared. */
const namesOf = (answers: ReadonlyArray<Answer>): ReadonlyMap<Answer, string> => {
  const alike = Object.values(Array.groupBy(answers, ({ response, status }) => `${status} ${JSON.stringify(response)}`))
    .filter(([{ status }, ...others]) => status !== 200 && others.length > 0)
  const statuses = alike.map(([{ status }]) => status)
  const named = alike.map((group) => {
    const [{ facts, status }] = group
    const isOnly = statuses.indexOf(status) === statuses.lastIndexOf(status)
    return { group, name: `${sharedNames[status]}${isOnly ? "" : variant(facts)}` }
  })
  if (new Set(named.map(({ name }) => name)).size < named.length) {
    throw new Error("Two responses of the OpenAPI document have one name")
  }
  return new Map(named.flatMap(({ group, name }) => group.map((answer) => [answer, name] as const)))
}

/** Adds the statuses that no endpoint declares, and the headers of all. */
export const completeResponses = (spec: Json, declared: ReadonlyMap<string, { readonly facts: Facts }>) => {
  const answers = Array.fromIterable(declared).flatMap(([path, { facts }]) =>
    answersOf(path, facts, getIn(spec, "paths", path, "get", "responses"))
  )
  const names = namesOf(answers)
  for (const [path, own] of Object.entries(Array.groupBy(answers, ({ path }) => path))) {
    const responses = own.map((answer) => {
      const name = names.get(answer)
      return [answer.status, name === undefined ? answer.response : { $ref: `#/components/responses/${name}` }] as const
    })
    Object.assign(Object(getIn(spec, "paths", path, "get")), { responses: Object.fromEntries(responses) })
  }
  const errors = [BadRequest, MethodNotAllowed].map((error) =>
    Schema.toJsonSchemaDocument(Schema.toCodecJson(error)).definitions
  )
  Object.assign(Object(spec["components"]), {
    schemas: Object.assign({}, getIn(spec, "components", "schemas"), ...errors),
    headers: responseHeaders,
    responses: Object.fromEntries(Array.fromIterable(names).map(([{ response }, name]) => [name, response])),
  })
}
