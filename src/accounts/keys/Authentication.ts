/** §5, D2: who is asking. The contract; `KeyCheck.ts` is what checks. */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import type { Tier } from "../../rules/EndpointAnnotations.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { ApiKeyDisabled, InvalidApiKey, MissingApiKey, RateLimitExceeded } from "../AccountErrors.ts"

/** The account whose key came with the request, and what that key may do. */
export class Account extends Context.Service<Account, {
  readonly account_id: number
  readonly tier: Tier
  /** What is left of what was paid in advance; null: billed later. */
  readonly balance_microdollars: number | null
  readonly key_id: number
  /** The only paths that the key opens; null: all. */
  readonly endpoints: ReadonlyArray<string> | null
}>()("tickerline/account/Account") {}

type Who = typeof Account.Service

/** Whether the key's own list has the path. */
export const isPathAllowed = ({ endpoints }: Who, path: string) => endpoints === null || endpoints.includes(path)

/** Whether data may be sold to it (D13). */
export const hasCredit = ({ balance_microdollars }: Who) => balance_microdollars === null || balance_microdollars > 0

const schemes = {
  bearer: HttpApiSecurity.bearer.pipe(
    HttpApiSecurity.annotate(OpenApi.Description, "`Authorization: Bearer <key>`"),
  ),
  apiKey: HttpApiSecurity.apiKey({ in: "header", key: "X-API-Key" }).pipe(
    HttpApiSecurity.annotate(OpenApi.Description, "`X-API-Key: <key>`"),
  ),
}

/** 401 comes before all that is asked of an account, and before the query is looked at. */
export class Authentication extends HttpApiMiddleware.Service<Authentication, { provides: Account }>()(
  "tickerline/account/Authentication",
  {
    security: schemes,
    error: [MissingApiKey, InvalidApiKey, ApiKeyDisabled, RateLimitExceeded, DataRefreshing, DatabasePoolTimeout],
  },
) {}
