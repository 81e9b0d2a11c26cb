/**
 * Computes the cost of responses (D27, prices). The cost of each response is rounded up to a whole microdollar. A
 * gigabyte is 1,000,000,000 bytes.
 */
import { Context } from "effect"

const gigabyte = 1_000_000_000n

/** Returns the cost of a response body in microdollars. Uses BigInt, because the product may exceed 2^53. */
export const computeDataCost = (bytes: number, pricePerGigabyte: number) =>
  Number((BigInt(bytes) * BigInt(pricePerGigabyte) + gigabyte - 1n) / gigabyte)

/** Returns how many bytes of a response body can be bought for an amount in microdollars. */
export const computeAffordableBytes = (microdollars: number, pricePerGigabyte: number) =>
  pricePerGigabyte === 0 ? Infinity : Number((BigInt(microdollars) * gigabyte) / BigInt(pricePerGigabyte))

/** Looks up an endpoint's price, in microdollars per gigabyte, by the endpoint's path. */
export class PriceLookup
  extends Context.Service<PriceLookup, { readonly getPricePerGigabyte: (path: string) => number }>()(
    "tickerline/accounts/PriceLookup",
  ) {}
