/** What an endpoint declares as annotations: its tier (D3), the tables it reads (D17), its title and description. */
import { Context, Schema } from "effect"
import { OpenApi } from "effect/http-api"

export const tiers = ["basic", "pro", "ultimate"] as const

export const Tier = Schema.Literals(tiers).annotate({ identifier: "Tier" })
export type Tier = typeof Tier.Type

export const meetsTier = (tier: Tier, required: Tier) => tiers.indexOf(tier) >= tiers.indexOf(required)

/** The least tier an endpoint asks for. */
export const RequiredTier = Context.Reference<Tier>("tickerline/policy/RequiredTier", { defaultValue: () => "basic" })

/** Whether responses carry an `ETag` and can be 304 (D17). Those of endpoints with a price always do. */
export const HasEtag = Context.Reference<boolean>("tickerline/policy/Revalidated", { defaultValue: () => false })

/** The tables that an endpoint reads. The query cache and `/v1/datasets` take them from here. */
export const ReadsTables = Context.Reference<ReadonlyArray<string>>("tickerline/policy/Reads", {
  defaultValue: () => [],
})

/** An endpoint, as far as its annotations are concerned. */
export interface AnnotatedEndpoint {
  readonly path: string
  readonly annotations: Context.Context<never>
}

/** The tables that the endpoint declares; that it declares none is a defect when the service starts. */
export const getTables = ({ annotations, path }: AnnotatedEndpoint): ReadonlyArray<string> => {
  const tables = Context.get(annotations, ReadsTables)
  if (tables.length === 0) throw new Error(`The endpoint ${path} declares no tables that it reads`)
  return tables
}

/** Title and description of an endpoint, for OpenAPI and the catalogue. */
export const describeEndpoint = (summary: string, description: string) => OpenApi.annotations({ summary, description })

/** Title and description of a group of endpoints: a tag of OpenAPI. */
export const describeGroup = (title: string, description: string) => OpenApi.annotations({ title, description })
