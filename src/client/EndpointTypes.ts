/**
 * The names and types of endpoints, derived from the contract in `Api.ts`. An endpoint's name is derived from its path,
 * which never changes (§4.5, endpoints): `/v1/gap-stats-advanced` becomes `gapStatsAdvanced`.
 */
import type { DateTime, Schema } from "effect"
import type { HttpApi, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import type { Api } from "../contract/Api.ts"

type Groups = typeof Api extends HttpApi.HttpApi<infer _Id, infer Groups> ? Groups : never

type RespondsWithJson<Endpoint> = Endpoint extends HttpApiEndpoint.ConstraintRequest
  ? [Endpoint["~Success"]["Type"]] extends [string] ? never : Endpoint
  : never

/** All endpoints except those with text responses, such as feeds. */
export type JsonEndpoint = RespondsWithJson<HttpApiGroup.Endpoints<Groups>>

/** The endpoint that provides the event stream for `changes.follow`. */
export type ChangeStreamEndpoint = Extract<HttpApiGroup.Endpoints<Groups>, { readonly path: "/v1/changes/stream" }>

type CamelCase<Text extends string> = Text extends `${infer Left}/${infer Right}`
  ? `${CamelCase<Left>}${Capitalize<CamelCase<Right>>}`
  : Text extends `${infer Left}-${infer Right}` ? `${CamelCase<Left>}${Capitalize<CamelCase<Right>>}`
  : Text extends `${infer Left}.${infer Right}` ? `${CamelCase<Left>}${Capitalize<CamelCase<Right>>}`
  : Text

/** The endpoint name for a path, such as `gapStatsAdvanced` for `/v1/gap-stats-advanced`. */
export type EndpointName<Path extends string> = Path extends `/v1/${infer Rest}` ? CamelCase<Rest>
  : Path extends `/${infer Rest}` ? CamelCase<Rest>
  : CamelCase<Path>

/** Returns the endpoint name for a path, such as `gapStatsAdvanced` for `/v1/gap-stats-advanced`. */
export const toEndpointName = (path: string) =>
  path.replace(/^\/(v1\/)?/, "").replace(/[-/.]+(.)/g, (_, letter: string) => letter.toUpperCase())

/**
 * Allows any other string as an enum value, because newer versions of the service may add values (§9.3, additions).
 * With plain `string`, editors would no longer suggest the known values; with `string & {}`, they do.
 */
export type OpenEnums<Value> = Value extends string ? (string extends Value ? Value : Value | (string & {}))
  : Value extends number | boolean | null | undefined | DateTime.Utc ? Value
  : { readonly [Key in keyof Value]: OpenEnums<Value[Key]> }

/**
 * The type of a value in plain JSON. `DateTime` values become strings as received, such as `2026-06-01T08:30:00-05:00`.
 */
export type JsonOf<Value> = Value extends DateTime.Utc ? string
  : Value extends string | number | boolean | null | undefined ? Value
  : { readonly [Key in keyof Value]: JsonOf<Value[Key]> }

type ParameterInput<Name, Value> = Value extends boolean ? boolean
  : Value extends number ? number
  : Value extends ReadonlyArray<infer Item> ? Item | ReadonlyArray<Item>
  : Name extends `min_${string}` | `max_${string}` ? Value | number
  : Value

/**
 * Query parameters as callers may write them. A single item may replace a list, and a number may replace a string as
 * the bound of a range.
 */
type ParameterInputs<Type, Encoded> = {
  readonly [Name in keyof Encoded]: Name extends keyof Type
    ? ParameterInput<Name, Type[Name]> | ({} extends Pick<Encoded, Name> ? undefined : never)
    : never
}

/** Expands a computed type, so that editors show its fields rather than its name. */
type Expand<Fields> = Fields extends infer Known ? { readonly [Name in keyof Known]: Known[Name] } : never

/** The query schema as originally declared, in which parameters with a default value are optional. */
type DeclaredQuery<Endpoint extends HttpApiEndpoint.ConstraintRequest> = [Endpoint["~Query"]] extends [never] ? never
  : [Endpoint["~Query"]] extends [Schema.toCodecStringTree<infer Declared>] ? Declared
  : Endpoint["~Query"]

/** An endpoint's query parameters, under the names in the specification. */
export type QueryOf<Endpoint extends HttpApiEndpoint.ConstraintRequest> = [DeclaredQuery<Endpoint>] extends [never] ? {}
  : Expand<ParameterInputs<DeclaredQuery<Endpoint>["Type"], DeclaredQuery<Endpoint>["Encoded"]>>

/** The type of the body of a 200 response. */
export type ResponseBodyOf<Endpoint extends HttpApiEndpoint.ConstraintRequest> = OpenEnums<Endpoint["~Success"]["Type"]>

/** The errors declared by an endpoint and its middleware. */
export type ErrorOf<Endpoint extends HttpApiEndpoint.ConstraintRequest> = HttpApiEndpoint.Errors<Endpoint>

/** A value of a query parameter. */
export type QueryValue = string | number | boolean | ReadonlyArray<string> | undefined

/** The query of an arbitrary endpoint, for code that handles endpoints generically. */
export type AnyQuery = { readonly [name: string]: QueryValue }

/** The body of a paginated response (D8, pages). */
export interface ResultPage {
  readonly results: ReadonlyArray<unknown>
  readonly page: number
  readonly has_more: boolean
}

/** The body of a response that lists changes. */
export interface ChangePage<Change> {
  readonly results: ReadonlyArray<Change>
  /** The value to send as the parameter `after` to request the changes that follow this page. */
  readonly cursor: string
  /** Whether further changes may already be available. */
  readonly has_more: boolean
}
