/** Creates customers for the cluster test, which runs without Vitest and therefore cannot use `support/Service.ts`. */
import { Effect } from "effect"
import * as Accounts from "../../src/accounts/Accounts.ts"
import * as ApiKeys from "../../src/accounts/keys/ApiKeyManagement.ts"
import type { Tier } from "../../src/contract/rules/EndpointAnnotations.ts"

/**
 * Creates an account and returns an API key for it. The balance is in microdollars; without a balance, the account is
 * postpaid.
 */
export const createCustomer = Effect.fnUntraced(function* (name: string, tier: Tier, balance?: bigint) {
  yield* Accounts.ensureAccount({ name, tier, email: null, prepaid: balance !== undefined })
  if (balance !== undefined) {
    yield* Accounts.creditAccount({ name, microdollars: balance, reference: "first", mayBecomePrepaid: true })
  }
  const { key } = yield* ApiKeys.createApiKey({
    account: name,
    name: "cluster",
    expires: null,
    endpoints: null,
    networks: null,
  })
  return key
})
