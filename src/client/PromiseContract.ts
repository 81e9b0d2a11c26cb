/**
 * The contract as the types of the Promise client. The published package has the same types written out without Effect
 * (`client/EndpointTypes.ts`), which `test/client` compares with these.
 */
import type {
  EndpointName,
  ErrorOf,
  JsonEndpoint,
  JsonOf,
  OpenEnums,
  QueryOf,
  ResponseBodyOf,
  ResultPage,
} from "./Contract.ts"
import type { List, Resource } from "./Resource.ts"

type Of<Query, Answer> = [Answer] extends [ResultPage] ? List<Query, Answer> : Resource<Query, Answer>

/** Each endpoint of the API under the name of its path: `/v1/gap-stats-advanced` is `gapStatsAdvanced`. */
export type TickerlineClient = {
  readonly [Endpoint in JsonEndpoint as EndpointName<Endpoint["path"]>]: Of<
    QueryOf<Endpoint>,
    JsonOf<ResponseBodyOf<Endpoint>>
  >
}

type Bodies = ErrorOf<JsonEndpoint>["error"]

/** The error codes of the contract (§7.2, D13), and three for failures that are not an answer of the service. */
export type ErrorCode = Bodies["code"] | "no_answer" | "unreadable_answer" | "invalid_options"

/** The type of `details` for an error code. */
export type DetailsOf<Of> = JsonOf<
  OpenEnums<Extract<Bodies, { readonly code: Of; readonly details: unknown }>["details"]>
>
