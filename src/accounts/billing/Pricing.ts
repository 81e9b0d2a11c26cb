/** D27 (prices): the cost of responses, rounded up to a microdollar each. A gigabyte is 1,000,000,000 bytes. */
import { Context } from "effect"

const gigabyte = 1_000_000_000n

/** Returns the cost of a body in microdollars. Calculates with BigInt, because the product may exceed 2^53. */
export const computeDataCost = (bytes: number, pricePerGigabyte: number) =>
  Number((BigInt(bytes) * BigInt(pricePerGigabyte) + gigabyte - 1n) / gigabyte)

/** Returns the number of bytes that an amount in microdollars pays for. */
export const computeAffordableBytes = (microdollars: number, pricePerGigabyte: number) =>
  pricePerGigabyte === 0 ? Infinity : Number((BigInt(microdollars) * gigabyte) / BigInt(pricePerGigabyte))

/** Finds the price of an endpoint's data by the endpoint's path, in microdollars per gigabyte. */
export class PriceLookup
  extends Context.Service<PriceLookup, { readonly getPricePerGigabyte: (path: string) => number }>()(
    "tickerline/accounts/PriceLookup",
  ) {}
