/**
 * Annotations of an endpoint, which say what the contract's schemas cannot: the required tier (D3), the tables that it
 * reads (D17, caching), its title and description.
 */
import { Context, Schema } from "effect"
import { OpenApi } from "effect/http-api"

/** All tiers, from lowest to highest. */
export const tiers = ["basic", "pro", "ultimate"] as const

/** The tier of an account. */
export const Tier = Schema.Literals(tiers).annotate({ identifier: "Tier" })

/** One of `tiers`. */
export type Tier = typeof Tier.Type

/** Whether `tier` is `required` or higher. */
export const isTierSufficient = (tier: Tier, required: Tier) => tiers.indexOf(tier) >= tiers.indexOf(required)

/** The lowest tier that may use the endpoint. */
export const RequiredTier = Context.Reference<Tier>("tickerline/contract/RequiredTier", { defaultValue: () => "basic" })

/**
 * Whether the rows describe a company, not one class of its shares. If so, a request for any listed symbol of a company
 * also returns the rows of its primary symbol (decision 0126).
 */
export const HasCompanyRows = Context.Reference<boolean>("tickerline/contract/HasCompanyRows", {
  defaultValue: () => false,
})

/** The properties of an endpoint that determine which accounts and keys may use it. */
export interface EndpointAccess {
  /** The path with its version, such as `/v1/news`. */
  readonly path: string
  readonly required_tier: Tier
}

/**
 * Whether a free endpoint sends an `ETag`, and 304 if the client has it already (D17, caching). Priced endpoints always
 * do, unless they respond with a stream.
 */
export const FreeEndpointHasEtag = Context.Reference<boolean>("tickerline/contract/FreeEndpointHasEtag", {
  defaultValue: () => false,
})

/** Whether the endpoint responds with an endless stream, so that its size, cost and `ETag` are unknown. */
export const IsEndlessStream = Context.Reference<boolean>("tickerline/contract/IsEndlessStream", {
  defaultValue: () => false,
})

/**
 * The tables that the endpoint reads. When one of them changes, the endpoint's cached results expire. `/v1/datasets`
 * lists them.
 */
export const TablesReadByEndpoint = Context.Reference<ReadonlyArray<string>>(
  "tickerline/contract/TablesReadByEndpoint",
  {
    defaultValue: () => [],
  },
)

/**
 * Columns with free text from third parties, such as publishers and companies. A language model that reads such text
 * must not mistake it for instructions.
 */
export const ThirdPartyTextColumns = Context.Reference<ReadonlyArray<string>>(
  "tickerline/contract/ThirdPartyTextColumns",
  {
    defaultValue: () => [],
  },
)

/** The parts of an endpoint that this module reads. */
export interface AnnotatedEndpoint {
  readonly path: string
  readonly annotations: Context.Context<never>
}

/** Returns what an endpoint requires of accounts and keys. Its path is the declared path with the prefix `/v1`. */
export const getEndpointAccess = ({ annotations, path }: AnnotatedEndpoint): EndpointAccess => ({
  path: `/v1${path}`,
  required_tier: Context.get(annotations, RequiredTier),
})

/** Returns the tables that the endpoint declares. Throws during startup if it declares none. */
export const getTablesReadByEndpoint = ({ annotations, path }: AnnotatedEndpoint): ReadonlyArray<string> => {
  const tables = Context.get(annotations, TablesReadByEndpoint)
  if (tables.length === 0) throw new Error(`The endpoint ${path} does not declare the tables that it reads`)
  return tables
}

/** What an endpoint serves: values for the annotations above. */
interface EndpointData {
  readonly tables?: ReadonlyArray<string>
  readonly thirdPartyText?: ReadonlyArray<string>
  readonly hasCompanyRows?: boolean
}

/** Annotates an endpoint with a title and a description, for OpenAPI and the catalogue, and with its data. */
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

/** Annotates a group of endpoints with a title and a description. OpenAPI shows the group as a tag. */
export const describeEndpointGroup = (title: string, description: string) => OpenApi.annotations({ title, description })
