/** Handles `GET /v1/split-status`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { SplitStatus, SplitStatusApiGroup, SplitStatusQuery } from "../../contract/endpoints/split-status.ts"

/** Handler for the list of announced and effective splits, newest filing first. */
export const splitStatusHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(SplitStatusApiGroup.endpoints.list, {
    Query: SplitStatusQuery,
    Row: SplitStatus,
    select: (_, { selectPage }) => selectPage({ table: "split_status", order: "filed_at desc, id" }),
  }),
}))
