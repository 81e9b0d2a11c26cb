/**
 * The contract as types of the Promise client. The published package has the same types without Effect, which
 * `clients/typescript/PromiseDeclarations.ts` generates; `test/client` checks that they are equal.
 */
import type {
  ChangePage,
  ChangeStreamEndpoint,
  EndpointName,
  ErrorOf,
  JsonEndpoint,
  JsonOf,
  OpenEnums,
  QueryOf,
  ResponseBodyOf,
  ResultPage,
} from "./EndpointTypes.ts"
import type { ChangeFeed, List, Resource } from "./PromiseResource.ts"

type EndpointResource<Query, Body> = [Body] extends [ResultPage] ? List<Query, Body>
  : [Body] extends [ChangePage<unknown>] ? ChangeFeed<Query, Body>
  : Resource<Query, Body>

/** Every endpoint, named after its path: `/v1/gap-stats-advanced` is `gapStatsAdvanced`. */
export type TickerlineClient = {
  readonly [Endpoint in JsonEndpoint as EndpointName<Endpoint["path"]>]: EndpointResource<
    QueryOf<Endpoint>,
    JsonOf<ResponseBodyOf<Endpoint>>
  >
}

/** The row type of an endpoint: `Row<"news">` is the type of an element in the `results` of `/v1/news`. */
export type Row<Name extends keyof TickerlineClient> = Awaited<ReturnType<TickerlineClient[Name]["get"]>> extends
  { readonly results: ReadonlyArray<infer Element> } ? Element : never

type ErrorBody = ErrorOf<JsonEndpoint | ChangeStreamEndpoint>["error"]

/** The API's error codes (§7.2, D13: errors), and three codes for errors that the client itself detects. */
export type ErrorCode = ErrorBody["code"] | "no_answer" | "unreadable_answer" | "invalid_options"

/** The type of `details` for an error code. */
export type DetailsOf<Code> = JsonOf<
  OpenEnums<Extract<ErrorBody, { readonly code: Code; readonly details: unknown }>["details"]>
>
