/** Which endpoints read each dataset, derived from the tables that they declare (`Reads`). */
import { Array, Context, Order } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../../Api.ts"
import { ReadsTables } from "../../rules/EndpointAnnotations.ts"

const declared = () => {
  const found: Array<{ readonly dataset: string; readonly path: string }> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      for (const dataset of Context.get(endpoint.annotations, ReadsTables)) found.push({ dataset, path: endpoint.path })
    },
  })
  return found
}

/** Each dataset, by name, with the paths that read it. */
export const datasetEndpoints: ReadonlyArray<{ readonly dataset: string; readonly endpoints: ReadonlyArray<string> }> =
  Array
    .sort(
      Object.entries(Array.groupBy(declared(), ({ dataset }) => dataset)).map(([dataset, readers]) => ({
        dataset,
        endpoints: readers.map(({ path }) => path),
      })),
      Order.mapInput(Order.String, ({ dataset }: { readonly dataset: string }) => dataset),
    )
