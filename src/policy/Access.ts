/** D3: who may see an endpoint. Declared as annotations; the account, the catalogue and the documentation read them. */
import { Context, Schema } from "effect"
import { OpenApi } from "effect/http-api"

export const tiers = ["basic", "pro", "ultimate"] as const

export const Tier = Schema.Literals(tiers).annotate({ identifier: "Tier" })
export type Tier = typeof Tier.Type

export const includes = (tier: Tier, required: Tier) => tiers.indexOf(tier) >= tiers.indexOf(required)

/** The least tier an endpoint asks for. */
export const RequiredTier = Context.Reference<Tier>("tickerline/policy/RequiredTier", { defaultValue: () => "basic" })

/** Whether responses carry an `ETag` and can be 304 (D17). Those of endpoints with a price always do. */
export const Revalidated = Context.Reference<boolean>("tickerline/policy/Revalidated", { defaultValue: () => false })

/** Title and description of an endpoint, for OpenAPI and the catalogue. */
export const described = (summary: string, description: string) => OpenApi.annotations({ summary, description })

/** Title and description of a group of endpoints: a tag of OpenAPI. */
export const tagged = (title: string, description: string) => OpenApi.annotations({ title, description })
