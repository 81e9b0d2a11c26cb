/**
 * Computes what responses cost (D27, prices). The cost of each is rounded up to a microdollar. A gigabyte is
 * 1,000,000,000 bytes.
 */
import { Context } from "effect"

const gigabyte = 1_000_000_000n

/** Returns the cost of a body in microdollars. Calculates with BigInt, because the product may exceed 2^53. */
export const computeDataCost = (bytes: number, pricePerGigabyte: number) =>
  Number((BigInt(bytes) * BigInt(pricePerGigabyte) + gigabyte - 1n) / gigabyte)

/** Returns the number of bytes that an amount in microdollars pays for. */
export const computeAffordableBytes = (microdollars: number, pricePerGigabyte: number) =>
  pricePerGigabyte === 0 ? Infinity : Number((BigInt(microdollars) * gigabyte) / BigInt(pricePerGigabyte))

/** Returns the price of an endpoint's data, in microdollars per gigabyte, by the endpoint's path. */
export class PriceLookup
  extends Context.Service<PriceLookup, { readonly getPricePerGigabyte: (path: string) => number }>()(
    "tickerline/accounts/PriceLookup",
  ) {}
