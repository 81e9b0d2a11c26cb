/**
 * What the two faces of the client are called and made of: types read from the contract, `Api.ts`, and nothing beside.
 * An endpoint is named after its path, its stable key (§4.5): `/v1/gap-stats-advanced` is `gapStatsAdvanced`.
 */
import type { DateTime, Schema } from "effect"
import type { HttpApi, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import type { Api } from "../Api.ts"

export type { ResultPage } from "./Resource.ts"

type Groups = typeof Api extends HttpApi.HttpApi<infer _Id, infer Groups> ? Groups : never

/** What is no JSON, such as a feed, is for other readers than programs of this client. */
type RespondsWithJson<Endpoint> = Endpoint extends HttpApiEndpoint.ConstraintRequest
  ? [Endpoint["~Success"]["Type"]] extends [string] ? never : Endpoint
  : never

/** Every endpoint of the contract that answers in JSON. */
export type JsonEndpoint = RespondsWithJson<HttpApiGroup.Endpoints<Groups>>

type CamelCase<Text extends string> = Text extends `${infer Left}/${infer Right}`
  ? `${CamelCase<Left>}${Capitalize<CamelCase<Right>>}`
  : Text extends `${infer Left}-${infer Right}` ? `${CamelCase<Left>}${Capitalize<CamelCase<Right>>}`
  : Text extends `${infer Left}.${infer Right}` ? `${CamelCase<Left>}${Capitalize<CamelCase<Right>>}`
  : Text

/** `/v1/gap-stats-advanced` → `gapStatsAdvanced`. */
export type EndpointName<Path extends string> = Path extends `/v1/${infer Rest}` ? CamelCase<Rest>
  : Path extends `/${infer Rest}` ? CamelCase<Rest>
  : CamelCase<Path>

/** `/v1/gap-stats-advanced` → `gapStatsAdvanced`. */
export const endpointNameOf = (path: string) =>
  path.replace(/^\/(v1\/)?/, "").replace(/[-/.]+(.)/g, (_, letter: string) => letter.toUpperCase())

/** A newer service may know words that this client does not (§9.3), so a word is never only one of those known. */
export type OpenEnums<Value> = Value extends string ? (string extends Value ? Value : Value | (string & {}))
  : Value extends number | boolean | null | undefined | DateTime.Utc ? Value
  : { readonly [Key in keyof Value]: OpenEnums<Value[Key]> }

/** As plain JSON: what is a `DateTime` stays the text that was sent, `2026-06-01T08:30:00-05:00`. */
export type JsonOf<Value> = Value extends DateTime.Utc ? string
  : Value extends string | number | boolean | null | undefined ? Value
  : { readonly [Key in keyof Value]: JsonOf<Value[Key]> }

type Sent<Name, Value> = Value extends boolean ? boolean
  : Value extends number ? number
  : Value extends ReadonlyArray<infer Word> ? Word | ReadonlyArray<Word>
  : Name extends `min_${string}` | `max_${string}` ? Value | number
  : Value

/** A list may be sent as one of its words, and a bound as a number; with text it keeps all of its digits. */
type Parameters<Type, Encoded> = {
  readonly [Name in keyof Encoded]: Name extends keyof Type
    ? Sent<Name, Type[Name]> | ({} extends Pick<Encoded, Name> ? undefined : never)
    : never
}

/** For editors, which show the names of computed types and not what they hold. */
type Shown<Fields> = Fields extends infer Known ? { readonly [Name in keyof Known]: Known[Name] } : never

/** As declared: what has a default is optional there, and may be left out here. */
type Query<Endpoint extends HttpApiEndpoint.ConstraintRequest> = [Endpoint["~Query"]] extends [never] ? never
  : [Endpoint["~Query"]] extends [Schema.toCodecStringTree<infer Declared>] ? Declared
  : Endpoint["~Query"]

/** What the endpoint takes: its parameters, by their names in the specification. */
export type QueryOf<Endpoint extends HttpApiEndpoint.ConstraintRequest> = [Query<Endpoint>] extends [never] ? {}
  : Shown<Parameters<Query<Endpoint>["Type"], Query<Endpoint>["Encoded"]>>

/** What it answers with 200. */
export type ResponseBodyOf<Endpoint extends HttpApiEndpoint.ConstraintRequest> = OpenEnums<Endpoint["~Success"]["Type"]>

/** The errors that it declares, those of its middleware included. */
export type ErrorOf<Endpoint extends HttpApiEndpoint.ConstraintRequest> = HttpApiEndpoint.Errors<Endpoint>

/** A parameter as a program has it. */
export type QueryValue = string | number | boolean | ReadonlyArray<string> | undefined

/** All that a query can hold, whatever the endpoint. */
export type AnyQuery = { readonly [name: string]: QueryValue }
