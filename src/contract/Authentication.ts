/** Declares how clients authenticate (§5; D2, API keys). `accounts/keys/Authenticator.ts` checks the keys. */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import { type EndpointAccess, isTierSufficient, type Tier } from "./rules/EndpointAnnotations.ts"
import { DatabasePoolTimeout, DataRefreshing } from "./rules/Errors.ts"
import { ApiKeyDisabled, InvalidApiKey, MissingApiKey, RateLimitExceeded } from "./AccountErrors.ts"

/** The networks from which a key may be used. `accounts/keys/AllowedNetworks.ts` implements this. */
export interface AllowedNetworks {
  /** The number of networks. */
  readonly size: number
  /** Whether an address in canonical form is in one of the networks. */
  readonly includes: (address: string) => boolean
}

/** The account that sent the request, and the key that it used. */
export class CurrentAccount extends Context.Service<CurrentAccount, {
  readonly account_id: number
  readonly tier: Tier
  /** The prepaid balance, or the rest of a budget that stops the account if that is less; null if nothing limits it. */
  readonly spendable_microdollars: number | null
  /** Whether the budget, and not the balance, determines what the account can still spend. */
  readonly is_limited_by_budget: boolean
  readonly key_id: number
  /** The paths that the key may be used for; null if it may be used for all. */
  readonly endpoints: ReadonlyArray<string> | null
  /** The networks from which the key may be used; null if it may be used from anywhere. */
  readonly networks: AllowedNetworks | null
}>()("tickerline/contract/CurrentAccount") {}

/**
 * The path of cost estimates, which every key may use: an estimate checks whether the key may be used for the estimated
 * request (D28, estimates).
 */
export const estimatePath = "/estimate"

/** Whether the key may be used for the path. */
export const canKeyAccessPath = ({ endpoints }: typeof CurrentAccount.Service, path: string) =>
  endpoints === null || endpoints.includes(path) || path === estimatePath

/** Whether the account's tier includes the endpoint and the key may be used for it. */
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
 * Declares the security schemes, and the errors for invalid keys. The key is checked first, so a wrong key gets 401
 * even if 402, 403, 422 or 429 would also apply.
 */
export class AuthenticationMiddleware
  extends HttpApiMiddleware.Service<AuthenticationMiddleware, { provides: CurrentAccount }>()(
    "tickerline/contract/AuthenticationMiddleware",
    {
      security: schemes,
      error: [MissingApiKey, InvalidApiKey, ApiKeyDisabled, RateLimitExceeded, DataRefreshing, DatabasePoolTimeout],
    },
  ) {}
