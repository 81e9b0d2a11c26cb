/** Declares how clients authenticate (§5; D2, API keys). `accounts/keys/Authenticator.ts` verifies the keys. */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import { type EndpointAccess, isTierSufficient, type Tier } from "./rules/EndpointAnnotations.ts"
import { DatabasePoolTimeout, DataRefreshing } from "./rules/ApiErrors.ts"
import { ApiKeyDisabled, InvalidApiKey, MissingApiKey, RateLimitExceeded } from "./AccountErrors.ts"

/** The networks from which an API key may be used. Implemented in `accounts/keys/AllowedNetworks.ts`. */
export interface AllowedNetworks {
  /** The number of networks. */
  readonly size: number
  /** Returns whether one of the networks contains the address, which must be in canonical form. */
  readonly includes: (address: string) => boolean
}

/** The account that sent the request, and the API key it used. */
export class CurrentAccount extends Context.Service<CurrentAccount, {
  readonly account_id: number
  readonly tier: Tier
  /**
   * The prepaid balance, or what is left of an enforced budget, whichever is lower. Null if the account has no limit.
   */
  readonly spendable_microdollars: number | null
  /** Whether the budget, rather than the prepaid balance, limits what the account can still spend. */
  readonly is_limited_by_budget: boolean
  readonly key_id: number
  /** Paths of the endpoints that the key may access; null if it may access all of them. */
  readonly endpoints: ReadonlyArray<string> | null
  /** The networks from which the key may be used; null if it may be used from any address. */
  readonly networks: AllowedNetworks | null
}>()("tickerline/contract/CurrentAccount") {}

/**
 * The path for cost estimates. Every key may access it. Whether the key may access the estimated endpoint is checked
 * when the estimate is made (D28, estimates).
 */
export const estimatePath = "/estimate"

/**
 * Returns whether the API key may access the path. Keys may be restricted to certain paths; cost estimates are always
 * allowed.
 */
export const canKeyAccessPath = ({ endpoints }: typeof CurrentAccount.Service, path: string) =>
  endpoints === null || endpoints.includes(path) || path === estimatePath

/** Returns whether the account's tier includes the endpoint and the key may access it. */
export const canAccountUseEndpoint = (
  account: typeof CurrentAccount.Service,
  { path, required_tier }: EndpointAccess,
) => isTierSufficient(account.tier, required_tier) && canKeyAccessPath(account, path)

const schemes = {
  bearer: HttpApiSecurity.bearer.pipe(
    HttpApiSecurity.annotate(OpenApi.Description, "`Authorization: Bearer <key>`"),
  ),
  apiKey: HttpApiSecurity.apiKey({ in: "header", key: "X-API-Key" }).pipe(
    HttpApiSecurity.annotate(OpenApi.Description, "`X-API-Key: <key>`"),
  ),
}

/**
 * Declares the security schemes and the errors for invalid keys. The key is checked first, so an invalid key gets a 401
 * even if a 402, 403, 422 or 429 would also apply.
 */
export class AuthenticationMiddleware
  extends HttpApiMiddleware.Service<AuthenticationMiddleware, { provides: CurrentAccount }>()(
    "tickerline/contract/AuthenticationMiddleware",
    {
      security: schemes,
      error: [MissingApiKey, InvalidApiKey, ApiKeyDisabled, RateLimitExceeded, DataRefreshing, DatabasePoolTimeout],
    },
  ) {}
