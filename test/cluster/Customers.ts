/** Creates the customers of the cluster test, which runs without Vitest and so cannot use `support/Service.ts`. */
import { Effect } from "effect"
import * as Accounts from "../../src/accounts/Accounts.ts"
import * as ApiKeys from "../../src/accounts/keys/ApiKeyManagement.ts"
import type { Tier } from "../../src/contract/rules/EndpointAnnotations.ts"

/** Creates an account with a balance in microdollars; without one, it is postpaid. Returns a key of the account. */
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
