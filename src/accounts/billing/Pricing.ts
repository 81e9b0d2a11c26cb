/** D27: what data cost. A gigabyte is 1,000,000,000 bytes; a started microdollar counts whole. */
import { Context } from "effect"
import type { HttpServerResponse } from "effect/http"

const gigabyte = 1_000_000_000n

/** What goes over the wire before any compression. */
export const getBodyBytes = ({ body }: HttpServerResponse.HttpServerResponse) =>
  body._tag === "Empty" ? 0 : body.contentLength ?? 0

/** Microdollars for a body of so many bytes, exact whatever the size. */
export const computeCost = (bytes: number, pricePerGigabyte: number) =>
  Number((BigInt(bytes) * BigInt(pricePerGigabyte) + gigabyte - 1n) / gigabyte)

/** How many bytes so many microdollars pay for. */
export const computeAffordableBytes = (microdollars: number, pricePerGigabyte: number) =>
  pricePerGigabyte === 0 ? Infinity : Number((BigInt(microdollars) * gigabyte) / BigInt(pricePerGigabyte))

/** Microdollars a gigabyte of an endpoint's data, by its path. */
export class PriceLookup
  extends Context.Service<PriceLookup, { readonly getPricePerGigabyte: (path: string) => number }>()(
    "tickerline/account/Prices",
  ) {}
