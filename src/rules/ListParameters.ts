/** The parameters that follow the filters of every list of rows with a symbol. */
import { AsOfParameter } from "./AsOfParameter.ts"
import { LineageParameters } from "./LineageParameters.ts"
import { PagingParameters } from "./Paging.ts"
import { ProvenanceParameter } from "./ProvenanceParameter.ts"

export const ListParameters = { ...LineageParameters, ...AsOfParameter, ...PagingParameters }

/** The parameters of a list whose rows can state their sources. */
export const SourcedListParameters = {
  ...LineageParameters,
  ...AsOfParameter,
  ...ProvenanceParameter,
  ...PagingParameters,
}
