/**
 * Reads prices from the settings (D27, prices). `ENDPOINT_PRICES` overrides the default price for individual endpoints.
 */
import { Config, Effect, Layer, Schema } from "effect"
import { PriceLookup } from "../../accounts/billing/Pricing.ts"
import { RateLimitsByTierConfig } from "../../accounts/limits/AccountRateLimiter.ts"
import { Tier } from "../../contract/rules/EndpointAnnotations.ts"
import { pricedEndpointPaths } from "./Endpoints.ts"

/** A price in microdollars per gigabyte, at most one million dollars. */
const Price = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000_000 }))

/**
 * The setting `ENDPOINT_PRICES`, which lists prices per gigabyte by path, such as
 * `/v1/news=20000000,/v1/research-reports=50000000`.
 */
const PriceList = Schema.String.check(
  Schema.makeFilter((text: string) => text.split(",").every((entry) => /^[^=]+=\d{1,13}$/.test(entry.trim())), {
    message: "must be paths with prices, such as /v1/news=20000000,/v1/screener=5000000",
  }),
  Schema.makeFilter((text: string) => parsePrices(text).every(([, price]) => Schema.is(Price)(price)), {
    message: "must have prices from 0 to 1000000000000",
  }),
  Schema.makeFilter(
    (text: string) => new Set(parsePrices(text).map(([path]) => path)).size === parsePrices(text).length,
    {
      message: "must name each path once",
    },
  ),
  Schema.makeFilter((text: string) => parsePrices(text).every(([path]) => pricedEndpointPaths.includes(path)), {
    message: `must name endpoints that have a price: ${pricedEndpointPaths.join(", ")}`,
  }),
)

/** Parses a price list into pairs of path and price. */
const parsePrices = (text: string) =>
  text.split(",").map((entry) => {
    const [path = "", price = ""] = entry.split("=")
    return [path.trim(), Number(price)] as const
  })

/** The setting `PRICE_PER_GB_MICRODOLLARS`, which is the price of endpoints not listed in `ENDPOINT_PRICES`. */
export const DefaultPricePerGbConfig = Config.schema(Price, "PRICE_PER_GB_MICRODOLLARS").pipe(
  Config.withDefault(10_000_000),
)
/** The setting `ENDPOINT_PRICES`, parsed into pairs of path and price. */
export const EndpointPricesConfig = Config.schema(PriceList, "ENDPOINT_PRICES").pipe(
  Config.map(parsePrices),
  Config.withDefault([]),
)

/** The settings for prices and rate limits, which apply to all customers. */
export const customerSettings = Config.all({
  rate_limits: RateLimitsByTierConfig,
  price_per_gb_microdollars: DefaultPricePerGbConfig,
  endpoint_prices: Config.map(EndpointPricesConfig, (prices) => Object.fromEntries(prices)),
})

const requestsPerMinute = Schema.Int.annotate({ description: "Requests per minute." })

/** The schema of `customerSettings`, for the admin API. */
export const CustomerSettings = Schema.Struct({
  rate_limits: Schema.Record(Tier, requestsPerMinute),
  price_per_gb_microdollars: Price,
  endpoint_prices: Schema.Record(Schema.String, Price),
}).annotate({ identifier: "CustomerSettings" })

const priceSettings = Config.all({ defaultPrice: DefaultPricePerGbConfig, endpointPrices: EndpointPricesConfig })

/** Provides the prices from the settings to all code that charges for responses. */
export const priceListLayer = Layer.effect(
  PriceLookup,
  Effect.map(priceSettings, ({ defaultPrice, endpointPrices }) => {
    const prices = new Map(endpointPrices)
    return PriceLookup.of({ getPricePerGigabyte: (path) => prices.get(path) ?? defaultPrice })
  }),
)
