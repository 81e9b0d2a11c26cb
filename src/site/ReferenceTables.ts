/** Renders tables of errors, endpoints, tiers and prices, based on the code and on this service's configuration. */
import { Effect, Schema } from "effect"
import * as AccountErrors from "../contract/AccountErrors.ts"
import { PriceLookup } from "../accounts/billing/Pricing.ts"
import { AccountRateLimiter } from "../accounts/limits/AccountRateLimiter.ts"
import { declaredEndpoints, pricedEndpointPaths } from "../api/catalogue/Endpoints.ts"
import { isTierSufficient, tiers } from "../contract/rules/EndpointAnnotations.ts"
import * as Errors from "../contract/rules/ApiErrors.ts"
import {
  type Html,
  type HtmlValue,
  joinMarkup,
  markup,
  renderInlineCode,
  renderProse,
  renderTable,
} from "./browser/markup.js"
import { formatInteger } from "./browser/number-format.js"
import { getReferencePagePath } from "./SitePage.ts"

/** For each error class of the API: what the client should do, and whether a retry can succeed. */
const advice = [
  [Errors.BadRequest, "Fix the request; the message names the part that cannot be read.", "no"],
  [AccountErrors.MissingApiKey, "Send the key in `Authorization: Bearer …` or `X-API-Key`.", "no"],
  [AccountErrors.InvalidApiKey, "Check that the key is complete, and send no other credentials with it.", "no"],
  [AccountErrors.ApiKeyDisabled, "Use another key of the account, or request a new one.", "no"],
  [
    AccountErrors.InsufficientCredits,
    "Add credit to the account, or wait until exports in progress end; `details` has the balance.",
    "after adding credit",
  ],
  [
    AccountErrors.AddressNotAllowed,
    "Send the request from an allowed address, or have the address in `details.address` allowed for the key.",
    "no",
  ],
  [AccountErrors.InsufficientTier, "Request the tier in `details.required_tier`.", "no"],
  [
    AccountErrors.EndpointNotAllowed,
    "Use a key with access to this endpoint; `details.allowed` lists the endpoints of this key.",
    "no",
  ],
  [Errors.NotFound, "Check the path and the symbol: the path does not exist, or the symbol has no records.", "no"],
  [Errors.MethodNotAllowed, "Send `GET` or `HEAD`.", "no"],
  [Errors.AmbiguousTickerLineage, "Read `details`: it has the conflicting events and the possible chains.", "no"],
  [Errors.EndpointRemoved, "Use the endpoint in `details.successor`.", "no"],
  [Errors.AsOfTooEarly, "Request a time at or after `details.earliest`.", "no"],
  [Errors.CursorExpired, "Download the datasets again, and continue with the cursor from `details.restart`.", "no"],
  [Errors.ValidationError, "Correct every field in `details.fields`.", "no"],
  [AccountErrors.RateLimitExceeded, "Wait for `Retry-After` seconds.", "yes, after `Retry-After`"],
  [
    Errors.TooManyExports,
    "Wait until an export of the account has ended, or request pages.",
    "once an export has ended",
  ],
  [AccountErrors.TooManyStreams, "Close a stream, or read several datasets with one.", "once a stream has ended"],
  [Errors.InternalError, "Send the `request_id` to support.", "once"],
  [Errors.DataRefreshing, "A dataset is being replaced. Wait for `Retry-After` seconds.", "yes, after `Retry-After`"],
  [Errors.DatabasePoolTimeout, "The service is busy. Wait for `Retry-After` seconds.", "yes, after `Retry-After`"],
] as const

/** All error codes of the API, ordered by status. */
export const errorCodeReference = advice.map(([error, action, retry]) => {
  const annotations = Schema.resolveAnnotations(error)
  return {
    status: Number(annotations?.["httpApiStatus"]),
    code: error.fields.error.fields.code.schema.literal,
    description: String(annotations?.["description"]),
    action,
    retry,
  }
})

/** Renders the table of error codes. */
const errorTable = () =>
  renderTable(
    ["Status", "Code", "Meaning", "What to do", "Retry"],
    errorCodeReference.map((
      { action, code, description, retry, status },
    ) => [String(status), renderInlineCode(code), ...[description, action, retry].map(renderProse)]),
  )

/** Renders a table of either the billed endpoints or the free endpoints. */
export const renderEndpointTable = ({ isPriced }: { readonly isPriced: boolean }) =>
  renderTable(
    ["Path", "Description", "Tier"],
    declaredEndpoints.filter((endpoint) => endpoint.isPriced === isPriced).map(({ row }) => [
      markup`<a href="${getReferencePagePath(row.path)}">${renderInlineCode(row.path)}</a>${
        row.deprecated && markup` <span class="badge warn">deprecated</span>`
      }`,
      renderProse(row.description),
      row.tier ?? "no key",
    ]),
  )

/**
 * Returns a function that renders the table of tiers. For each tier, it shows the configured rate limit and the
 * endpoints that the tier does not include.
 */
const makeTierTable = Effect.map(
  AccountRateLimiter,
  ({ getRequestsPerMinute: perMinute }) => () =>
    renderTable(
      ["Tier", "Requests per minute", "Endpoints"],
      tiers.map((tier) => {
        const excluded = declaredEndpoints.filter(({ row }) => row.tier !== null && !isTierSufficient(tier, row.tier))
        const access = excluded.length === 0
          ? "all"
          : markup`all except ${joinMarkup(excluded.map(({ row }) => renderInlineCode(row.path)), ", ")}`
        return [renderInlineCode(tier), formatInteger(perMinute(tier)), access]
      }),
    ),
)

/** Formats a price in dollars, with six decimals instead of two if it is not a whole number of cents. */
const formatPrice = (microdollars: number) => `$${(microdollars / 1_000_000).toFixed(microdollars % 10_000 ? 6 : 2)}`

/** Returns the most frequent value, or 0 if there are no values. */
const modeOf = (values: ReadonlyArray<number>) => {
  const count = (value: number) => values.filter((other) => other === value).length
  return values.toSorted((left, right) => count(right) - count(left))[0] ?? 0
}

/**
 * Returns a function that renders the price table. Its first row contains the most common price, for "all endpoints";
 * each endpoint with another price follows in a row of its own. The last column shows the cost of a small response,
 * rounded up to whole microdollars like every cost.
 */
const makePriceTable = Effect.map(PriceLookup, ({ getPricePerGigabyte }) => () => {
  const prices = pricedEndpointPaths.map((path) => ({ path, price: getPricePerGigabyte(path) }))
  const usualPrice = modeOf(prices.map(({ price }) => price))
  const row = (
    data: HtmlValue,
    price: number,
  ) => [data, formatPrice(price), `${formatInteger(Math.ceil(price * 10_000 / 1_000_000_000))} µ$`]
  return renderTable(["Data", "1 GB (1,000,000,000 bytes)", "A response of 10,000 bytes"], [
    row("all endpoints", usualPrice),
    ...prices.filter(({ price }) => price !== usualPrice).map(({ path, price }) => row(renderInlineCode(path), price)),
  ])
})

/**
 * Returns a function that renders a table by name. For example, the guide block `table errors` renders the table
 * `errors`.
 */
export const makeReferenceTables = Effect.gen(function* () {
  const tables: Readonly<Record<string, () => Html>> = {
    errors: errorTable,
    data: () => renderEndpointTable({ isPriced: true }),
    free: () => renderEndpointTable({ isPriced: false }),
    tiers: yield* makeTierTable,
    prices: yield* makePriceTable,
  }
  return (name: string) => {
    const render = tables[name]
    if (render === undefined) {
      throw new Error(`docs: there is no table "${name}"; the tables are ${Object.keys(tables).join(", ")}`)
    }
    return render()
  }
})
