/** Lists the endpoints that read each dataset, based on their `TablesReadByEndpoint` annotations. */
import { Array, Order } from "effect"
import { catalogueEndpoints } from "./Endpoints.ts"

interface DatasetEndpoints {
  readonly dataset: string
  /** The paths of the endpoints that read the dataset. */
  readonly endpoints: ReadonlyArray<string>
}

const reads = catalogueEndpoints.flatMap(({ row: { path }, tables }) => tables.map((dataset) => ({ dataset, path })))

/** All datasets with the paths of the endpoints that read them, sorted by dataset name. */
export const endpointsByDataset: ReadonlyArray<DatasetEndpoints> = Array
  .sort(
    Object.entries(Array.groupBy(reads, ({ dataset }) => dataset)).map(([dataset, readers]) => ({
      dataset,
      endpoints: readers.map(({ path }) => path),
    })),
    Order.mapInput(Order.String, ({ dataset }: { readonly dataset: string }) => dataset),
  )
