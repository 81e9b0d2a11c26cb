/**
 * Endpoint annotations for properties that the contract's schemas cannot express: the required tier (D3), the tables
 * that the endpoint reads (D17, caching), its title and its description.
 */
import { Context, Schema } from "effect"
import { OpenApi } from "effect/http-api"

/** All tiers, from lowest to highest. */
export const tiers = ["basic", "pro", "ultimate"] as const

/** An account's tier. */
export const Tier = Schema.Literals(tiers).annotate({ identifier: "Tier" })

/** An element of `tiers`. */
export type Tier = typeof Tier.Type

/** Returns whether `tier` is at least as high as `required`. */
export const isTierSufficient = (tier: Tier, required: Tier) => tiers.indexOf(tier) >= tiers.indexOf(required)

/** The lowest tier that has access to the endpoint. */
export const RequiredTier = Context.Reference<Tier>("tickerline/contract/RequiredTier", { defaultValue: () => "basic" })

/**
 * Whether the endpoint's rows describe a company as a whole, not one of its share classes. If so, the rows are stored
 * under the company's primary symbol only, and a request for another of its symbols, such as `GOOG` instead of `GOOGL`,
 * also returns them (decision 0126).
 */
export const HasCompanyRows = Context.Reference<boolean>("tickerline/contract/HasCompanyRows", {
  defaultValue: () => false,
})

/** The endpoint properties that determine which accounts and keys have access. */
export interface EndpointAccess {
  /** The path including the version prefix, such as `/v1/news`. */
  readonly path: string
  readonly required_tier: Tier
}

/**
 * Whether a free endpoint sends an `ETag` and responds with 304 if the client already has the current response (D17,
 * caching). Billed endpoints always do, except for streams.
 */
export const FreeEndpointHasEtag = Context.Reference<boolean>("tickerline/contract/FreeEndpointHasEtag", {
  defaultValue: () => false,
})

/** Whether the response is an endless stream, which has no known size, cost or `ETag`. */
export const IsEndlessStream = Context.Reference<boolean>("tickerline/contract/IsEndlessStream", {
  defaultValue: () => false,
})

/**
 * The tables that the endpoint reads, as listed by `/v1/datasets`. A change to any of them invalidates the endpoint's
 * cached results.
 */
export const TablesReadByEndpoint = Context.Reference<ReadonlyArray<string>>(
  "tickerline/contract/TablesReadByEndpoint",
  {
    defaultValue: () => [],
  },
)

/**
 * Columns that contain free text written by third parties, such as publishers and companies. A language model that
 * reads the text must not treat it as instructions.
 */
export const ThirdPartyTextColumns = Context.Reference<ReadonlyArray<string>>(
  "tickerline/contract/ThirdPartyTextColumns",
  {
    defaultValue: () => [],
  },
)

/** The endpoint properties that this module reads. */
export interface AnnotatedEndpoint {
  readonly path: string
  readonly annotations: Context.Context<never>
}

/** Returns the properties that determine access to an endpoint. `path` is the declared path with the prefix `/v1`. */
export const getEndpointAccess = ({ annotations, path }: AnnotatedEndpoint): EndpointAccess => ({
  path: `/v1${path}`,
  required_tier: Context.get(annotations, RequiredTier),
})

/** Returns the tables that the endpoint declares. Throws if it declares none, which stops the service at startup. */
export const getTablesReadByEndpoint = ({ annotations, path }: AnnotatedEndpoint): ReadonlyArray<string> => {
  const tables = Context.get(annotations, TablesReadByEndpoint)
  if (tables.length === 0) throw new Error(`The endpoint ${path} does not declare the tables that it reads`)
  return tables
}

/** Properties of the data that an endpoint serves. Each one sets an annotation defined above. */
interface EndpointData {
  readonly tables?: ReadonlyArray<string>
  readonly thirdPartyText?: ReadonlyArray<string>
  readonly hasCompanyRows?: boolean
}

/**
 * Returns an endpoint's annotations: the title and description that OpenAPI and the catalogue show, and the properties
 * of the data it serves.
 */
export const describeEndpoint = (
  summary: string,
  description: string,
  { hasCompanyRows = false, tables = [], thirdPartyText = [] }: EndpointData = {},
) =>
  OpenApi.annotations({ summary, description }).pipe(
    Context.add(TablesReadByEndpoint, tables),
    Context.add(ThirdPartyTextColumns, thirdPartyText),
    Context.add(HasCompanyRows, hasCompanyRows),
  )

/** Returns the annotations for a group of endpoints: a title and a description. OpenAPI shows the group as a tag. */
export const describeEndpointGroup = (title: string, description: string) => OpenApi.annotations({ title, description })
