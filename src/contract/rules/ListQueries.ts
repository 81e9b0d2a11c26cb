/**
 * Composes the queries of endpoints that list rows by ticker: the list's own filters, then the parameters that all of
 * these lists have.
 */
import { Schema } from "effect"
import { AsOfParameter } from "./AsOfParameter.ts"
import { LineageParameters } from "./LineageParameters.ts"
import { PagingParameters } from "./Paging.ts"
import { checkParameterCombinations } from "./ParameterCombinations.ts"
import { ProvenanceParameter } from "./ProvenanceParameter.ts"

/** Creates the query of a list from its filters. */
export const makeListQuery = <const Filters extends Schema.Struct.Fields>(filters: Filters) =>
  Schema.Struct({ ...filters, ...LineageParameters, ...AsOfParameter, ...PagingParameters })
    .check(checkParameterCombinations)

/** Creates the query of a list whose rows can state their sources (`provenance`). */
export const makeSourcedListQuery = <const Filters extends Schema.Struct.Fields>(filters: Filters) =>
  Schema.Struct({ ...filters, ...LineageParameters, ...AsOfParameter, ...ProvenanceParameter, ...PagingParameters })
    .check(checkParameterCombinations)
