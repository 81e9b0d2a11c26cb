/** §5, D2, D3: who is asking. The contract; `KeyCheck.ts` is what checks. */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import type { Tier } from "../policy/Access.ts"
import {
  ApiKeyDisabled,
  DatabasePoolTimeout,
  DataRefreshing,
  InsufficientTier,
  InvalidApiKey,
  MissingApiKey,
} from "../policy/Errors.ts"

/** The account whose key came with the request. */
export class Account extends Context.Service<Account, {
  readonly account_id: number
  readonly name: string
  readonly tier: Tier
  readonly key_id: number
}>()("tickerline/account/Account") {}

const schemes = {
  bearer: HttpApiSecurity.bearer.pipe(
    HttpApiSecurity.annotate(OpenApi.Description, "`Authorization: Bearer <key>`"),
  ),
  apiKey: HttpApiSecurity.apiKey({ in: "header", key: "X-API-Key" }).pipe(
    HttpApiSecurity.annotate(OpenApi.Description, "`X-API-Key: <key>`"),
  ),
}

/** 401 comes before 403, and both before the query is looked at. */
export class Authentication extends HttpApiMiddleware.Service<Authentication, { provides: Account }>()(
  "tickerline/account/Authentication",
  {
    security: schemes,
    error: [MissingApiKey, InvalidApiKey, ApiKeyDisabled, InsufficientTier, DataRefreshing, DatabasePoolTimeout],
  },
) {}
