/**
 * Builds the query schemas of endpoints that list rows by ticker. A query schema consists of the endpoint's own filters
 * and the parameters that all such lists share.
 */
import { Schema } from "effect"
import { AsOfParameter } from "./AsOfParameter.ts"
import { LineageParameters } from "./LineageParameters.ts"
import { PagingParameters } from "./Paging.ts"
import { checkParameterCombinations } from "./ParameterCombinations.ts"
import { ProvenanceParameter } from "./ProvenanceParameter.ts"

/** Returns the query schema of a list with the given filters. */
export const makeListQuery = <const Filters extends Schema.Struct.Fields>(filters: Filters) =>
  Schema.Struct({ ...filters, ...LineageParameters, ...AsOfParameter, ...PagingParameters })
    .check(checkParameterCombinations)

/** Returns the query schema of a list that supports `provenance`, so that its rows can include their sources. */
export const makeListQueryWithSources = <const Filters extends Schema.Struct.Fields>(filters: Filters) =>
  Schema.Struct({ ...filters, ...LineageParameters, ...AsOfParameter, ...ProvenanceParameter, ...PagingParameters })
    .check(checkParameterCombinations)
