/** The endpoints that read each dataset, derived from their `TablesReadByEndpoint` annotations. */
import { Array, Context, Order } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../Api.ts"
import { TablesReadByEndpoint } from "../rules/EndpointAnnotations.ts"

interface DatasetEndpoints {
  readonly dataset: string
  readonly endpoints: ReadonlyArray<string>
}

const listReads = () => {
  const found: Array<{ readonly dataset: string; readonly path: string }> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      for (const dataset of Context.get(endpoint.annotations, TablesReadByEndpoint)) {
        found.push({ dataset, path: endpoint.path })
      }
    },
  })
  return found
}

/** Each dataset with the paths that read it, ordered by name. */
export const endpointsByDataset: ReadonlyArray<DatasetEndpoints> = Array
  .sort(
    Object.entries(Array.groupBy(listReads(), ({ dataset }) => dataset)).map(([dataset, readers]) => ({
      dataset,
      endpoints: readers.map(({ path }) => path),
    })),
    Order.mapInput(Order.String, ({ dataset }: { readonly dataset: string }) => dataset),
  )
