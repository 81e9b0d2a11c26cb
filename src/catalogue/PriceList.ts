/** D27: one price for all data, and those of endpoints that have another. */
import { Config, Effect, Layer, Schema } from "effect"
import { PriceLookup } from "../accounts/billing/Pricing.ts"
import { pricedPaths } from "./Endpoints.ts"

const Price = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000_000 }))

/** `/v1/news=20000000,/v1/research-reports=50000000` */
const Listed = Schema.String.check(
  Schema.makeFilter((text: string) => text.split(",").every((entry) => /^[^=]+=\d{1,13}$/.test(entry.trim())), {
    message: "must be paths with their prices, such as /v1/news=20000000,/v1/screener=5000000",
  }),
  Schema.makeFilter((text: string) => entriesOf(text).every(([, price]) => Schema.is(Price)(price)), {
    message: "must hold prices from 0 to 1000000000000",
  }),
  Schema.makeFilter((text: string) => new Set(entriesOf(text).map(([path]) => path)).size === entriesOf(text).length, {
    message: "must name each path once",
  }),
  Schema.makeFilter((text: string) => entriesOf(text).every(([path]) => pricedPaths.includes(path)), {
    message: `must name endpoints whose data have a price: ${pricedPaths.join(", ")}`,
  }),
)

const entriesOf = (text: string) =>
  text.split(",").map((entry) => {
    const [path = "", price = ""] = entry.split("=")
    return [path.trim(), Number(price)] as const
  })

export const PricePerGbMicrodollars = Config.schema(Price, "PRICE_PER_GB_MICRODOLLARS").pipe(
  Config.withDefault(10_000_000),
)
export const EndpointPrices = Config.schema(Listed, "ENDPOINT_PRICES").pipe(
  Config.map(entriesOf),
  Config.withDefault([]),
)

export const priceSettings = Config.all({ general: PricePerGbMicrodollars, own: EndpointPrices })

export const priceListLayer = Layer.effect(
  PriceLookup,
  Effect.map(priceSettings, ({ general, own }) => {
    const known = new Map(own)
    return PriceLookup.of({ getPricePerGigabyte: (path) => known.get(path) ?? general })
  }),
)
