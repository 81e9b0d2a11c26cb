/** The queries of lists of rows with a symbol: the filters of the list, then the parameters of every list. */
import { Schema } from "effect"
import { AsOfParameter } from "./AsOfParameter.ts"
import { LineageParameters } from "./LineageParameters.ts"
import { PagingParameters } from "./Paging.ts"
import { checkParameterCombinations } from "./ParameterCombinations.ts"
import { ProvenanceParameter } from "./ProvenanceParameter.ts"

/** Makes the query of a list. */
export const makeListQuery = <const Filters extends Schema.Struct.Fields>(filters: Filters) =>
  Schema.Struct({ ...filters, ...LineageParameters, ...AsOfParameter, ...PagingParameters })
    .check(checkParameterCombinations)

/** Makes the query of a list whose rows can state their sources. */
export const makeSourcedListQuery = <const Filters extends Schema.Struct.Fields>(filters: Filters) =>
  Schema.Struct({ ...filters, ...LineageParameters, ...AsOfParameter, ...ProvenanceParameter, ...PagingParameters })
    .check(checkParameterCombinations)
