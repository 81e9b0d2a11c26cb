/**
 * Decides whether a request is admitted. Checks the API key (D2), the rate limit (D18), the client's address (D2), the
 * account's tier and the paths that the key may use (D3), and the account's balance (D13). Usually everything that the
 * checks need is in memory, so that no database query is necessary.
 */
import { Effect, Exit } from "effect"
import { registerCounter } from "../postgres/metrics/CallbackMetrics.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { type EndpointAccess, isTierSufficient } from "../contract/rules/EndpointAnnotations.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../contract/rules/ApiErrors.ts"
import { flatMapSync, isSettled } from "../contract/rules/SynchronousResults.ts"
import { toCanonicalAddress } from "../contract/rules/IpNetworks.ts"
import {
  AddressNotAllowed,
  type ApiKeyDisabled,
  EndpointNotAllowed,
  type ErrorWithHeaders,
  InsufficientCredits,
  InsufficientTier,
  type InvalidApiKey,
  makeCreditDetails,
  type MissingApiKey,
  type RateLimitExceeded,
} from "../contract/AccountErrors.ts"
import { PrepaidBalances } from "./billing/PrepaidBalances.ts"
import { UsageMetering } from "./billing/UsageMetering.ts"
import { canKeyUseAddress } from "./keys/AllowedNetworks.ts"
import { canKeyAccessPath, type CurrentAccount } from "../contract/Authentication.ts"
import { Authenticator } from "./keys/Authenticator.ts"
import { AccountRateLimiter } from "./limits/AccountRateLimiter.ts"

type Account = typeof CurrentAccount.Service

/**
 * Returns an error if the account's tier does not include the endpoint (D3), or if the key is restricted to other
 * paths. Otherwise returns undefined.
 */
export const findAccessError = (
  account: Account,
  { path, required_tier }: EndpointAccess,
): InsufficientTier | EndpointNotAllowed | undefined => {
  const { endpoints, tier } = account
  if (!isTierSufficient(tier, required_tier)) {
    const message = `This endpoint requires the tier ${required_tier}; the account has ${tier}.`
    return new InsufficientTier({ error: { message, details: { required_tier, tier } } })
  }
  if (endpoints !== null && !canKeyAccessPath(account, path)) {
    const message = `This API key is not allowed to use ${path}. It may use: ${endpoints.join(", ")}.`
    return new EndpointNotAllowed({ error: { message, details: { endpoint: path, allowed: endpoints } } })
  }
  return undefined
}

/**
 * Creates the error for a client address that the key does not allow. The message omits the allowed networks, because
 * they must not be revealed to someone who has stolen the key.
 */
const makeAddressError = (address: string | undefined) => {
  const seen = address === undefined ? null : toCanonicalAddress(address) ?? address
  const message = seen === null
    ? "This API key may only be used from certain IP addresses, and the address of this request is not known."
    : `This API key may not be used from the IP address ${seen}.`
  return new AddressNotAllowed({ error: { message, details: { address: seen } } })
}

/**
 * Creates the 402 error for an account that has nothing left to spend. `remaining` is what is left in microdollars,
 * possibly negative. With `isReserved`, the account still has money, but its exports in progress have reserved all of
 * it.
 */
const makeNoCreditError = ({ is_limited_by_budget }: Account, remaining: number, isReserved: boolean) => {
  const [limit, advice] = is_limited_by_budget
    ? ["budget for this month", "ask for a higher budget"]
    : ["prepaid balance", "add credit"]
  const message = isReserved
    ? `The account's ${limit} is reserved by exports in progress. Wait until they end, or ${advice}.`
    : is_limited_by_budget
    ? "The account's budget for this month is used up. Ask for a higher budget, or wait for the next month."
    : "The account's prepaid balance is used up. Add credit, and try again."
  return new InsufficientCredits({
    error: { message, details: makeCreditDetails(is_limited_by_budget, remaining) },
  })
}

/**
 * Builds a function that returns a 402 error if an account has nothing left to spend, or undefined if it can spend
 * more.
 */
export const makeCreditCheck = Effect.map(PrepaidBalances, ({ getRemaining, isReserved }) => (account: Account) => {
  const remaining = account.spendable_microdollars === null ? Infinity : getRemaining(account)
  return remaining > 0 ? undefined : makeNoCreditError(account, remaining, isReserved(account))
})

type AdmissionError =
  | AddressNotAllowed
  | ApiKeyDisabled
  | DatabasePoolTimeout
  | DataRefreshing
  | EndpointNotAllowed
  | InsufficientCredits
  | InsufficientTier
  | InvalidApiKey
  | MissingApiKey
  | RateLimitExceeded
  | ErrorWithHeaders

/** What an endpoint requires of the accounts and keys that use it. */
export interface AdmissionRules {
  /** Undefined if every account and key may use the endpoint. */
  readonly access: EndpointAccess | undefined
  /** Microdollars per gigabyte. Undefined if responses are free (D27, prices). */
  readonly price: number | undefined
}

/** The decision about a request, and the information that later steps need. */
export interface Admission {
  /** The account that the key belongs to. Undefined if the key is missing, invalid, or could not be looked up. */
  readonly account: Account | undefined
  /** Whether the request must be recorded as usage (D29). */
  readonly isRecorded: boolean
  /** Rate limit headers, keyed by lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  /** Price of the response in microdollars per gigabyte, or 0 if the endpoint is free. */
  readonly price: number
  /** The error to respond with. Undefined if the request is admitted. */
  readonly error: AdmissionError | undefined
}

const noHeaders = {}

const refuseWithoutAccount = (error: AdmissionError): Admission => ({
  account: undefined,
  isRecorded: false,
  headers: noHeaders,
  price: 0,
  error,
})

/**
 * Builds the function that admits or refuses requests. It checks the API key, the rate limit, the client's address, the
 * account's access to the endpoint (`access`), and its balance if the endpoint has a price (`price`). An `Admission`
 * contains the account and, if the request is refused, the error. Requests whose `purpose` is not `response` are
 * estimates, which are neither recorded nor charged for.
 */
export const makeRequestAdmitter = Effect.gen(function* () {
  const { authenticate } = yield* Authenticator
  const { hasCapacity, requireCapacity } = yield* UsageMetering
  const { countRequest } = yield* AccountRateLimiter
  const findCreditError = yield* makeCreditCheck
  let refusedAddresses = 0
  yield* registerCounter({
    name: "tickerline_key_addresses_refused_total",
    description: "Requests with a valid key from an address that the networks of the key do not include.",
    read: () => refusedAddresses,
  })

  const findAddressError = (account: Account, address: string | undefined) => {
    if (canKeyUseAddress(account, address)) return undefined
    refusedAddresses += 1
    return makeAddressError(address)
  }

  /**
   * Runs all checks after the key check. The request counts toward the rate limit, with two exceptions: estimates are
   * never counted, and neither are requests sent by a tool of `/mcp`, because the message to `/mcp` has already been
   * counted.
   */
  const admitAccount = (
    { address, purpose, via }: ApiRequest,
    { access, price }: AdmissionRules,
    account: Account,
  ): Effect.Effect<Admission> => {
    const isRecorded = purpose === "response"
    const admit = (headers: Admission["headers"], refusal: RateLimitExceeded | undefined) => {
      const error = refusal ?? findAddressError(account, address) ??
        (access === undefined ? undefined : findAccessError(account, access)) ??
        (price !== undefined && isRecorded ? findCreditError(account) : undefined)
      return Exit.succeed<Admission>({ account, isRecorded, headers, price: price ?? 0, error })
    }
    if (!isRecorded) return admit(noHeaders, undefined)
    const count = () => {
      if (via === "mcp") return admit(noHeaders, undefined)
      return flatMapSync(countRequest(account), ({ headers, refusal }) => admit(headers, refusal))
    }
    return hasCapacity() ? count() : Effect.matchEffect(requireCapacity, {
      onFailure: (error) =>
        Exit.succeed<Admission>({ account, isRecorded: false, headers: noHeaders, price: 0, error }),
      onSuccess: count,
    })
  }

  /**
   * Checks a request. If everything that the checks need is in memory, checks and counts it immediately and returns an
   * `Exit`, which needs no fiber. Otherwise returns an effect that does so when it runs.
   */
  return (request: ApiRequest, rules: AdmissionRules): Effect.Effect<Admission> => {
    const authentication = authenticate(request)
    return isSettled(authentication) && Exit.isSuccess(authentication)
      ? admitAccount(request, rules, authentication.value)
      : Effect.matchEffect(authentication, {
        onFailure: (error) => Exit.succeed(refuseWithoutAccount(error)),
        onSuccess: (account) => admitAccount(request, rules, account),
      })
  }
})
