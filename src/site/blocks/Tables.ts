/** Tables of what the code declares and this service is set to. */
import { Effect, Option, Schema } from "effect"
import * as AccountErrors from "../../accounts/AccountErrors.ts"
import { PriceLookup } from "../../accounts/billing/Pricing.ts"
import { RateLimit } from "../../accounts/limits/RateLimit.ts"
import { endpoints, pricedPaths } from "../../catalogue/Endpoints.ts"
import { meetsTier, tiers } from "../../rules/EndpointAnnotations.ts"
import * as Errors from "../../rules/Errors.ts"
import { documentationPath } from "../../rules/Lifecycle.ts"
import { escapeHtml } from "../Html.ts"
import { referencePagePath } from "../Page.ts"
import { renderHtmlTable } from "../Table.ts"

export const inlineCode = (text: string) => `<code>${escapeHtml(text)}</code>`

/** Text of the contract, in which `code` stands between backticks. */
export const renderProse = (text: string) => escapeHtml(text).replace(/`([^`]+)`/g, "<code>$1</code>")

const count = (value: number) => value.toLocaleString("en-US")

export const formatDollars = (microdollars: number) =>
  `$${(microdollars / 1_000_000).toFixed(microdollars % 10_000 ? 6 : 2)}`

/** What a client does about an error, and whether the same request may be answered later. */
const advice = [
  [Errors.BadRequest, "Fix the request; the message says what cannot be read.", "no"],
  [AccountErrors.MissingApiKey, "Send the key in `Authorization: Bearer …` or `X-API-Key`.", "no"],
  [AccountErrors.InvalidApiKey, "Check the key, which must be complete, and send no other credential beside it.", "no"],
  [AccountErrors.ApiKeyDisabled, "Use another key of the account, or ask for a new one.", "no"],
  [AccountErrors.InsufficientCredits, "Have the balance topped up; `details` tells it.", "once there is credit"],
  [AccountErrors.InsufficientTier, "Ask for the tier that `details.required_tier` names.", "no"],
  [
    AccountErrors.EndpointNotAllowed,
    "Use a key that opens this endpoint; `details.allowed` lists what this one does.",
    "no",
  ],
  [Errors.NotFound, "Nothing is at this path, or nothing is on record for the symbol.", "no"],
  [Errors.MethodNotAllowed, "Send `GET` or `HEAD`.", "no"],
  [Errors.AmbiguousTickerLineage, "Read `details`: which events clash, and the chains to choose from.", "no"],
  [Errors.EndpointRemoved, "Use `details.successor`.", "no"],
  [Errors.ValidationError, "Correct each field that `details.fields` names.", "no"],
  [AccountErrors.RateLimitExceeded, "Wait for `Retry-After` seconds.", "yes, after `Retry-After`"],
  [Errors.InternalError, "Quote the `request_id` to support.", "once, with care"],
  [Errors.DataRefreshing, "A dataset is being replaced. Wait for `Retry-After` seconds.", "yes, after `Retry-After`"],
  [Errors.DatabasePoolTimeout, "The service is busy. Wait for `Retry-After` seconds.", "yes, after `Retry-After`"],
] as const

/** Every code that the service can answer, by its status. */
export const errorReference = advice.map(([error, todo, retry]) => {
  const annotations = Schema.resolveAnnotations(error)
  return {
    status: Number(annotations?.["httpApiStatus"]),
    code: error.fields.error.fields.code.schema.literal,
    description: String(annotations?.["description"]),
    todo,
    retry,
  }
})

const errorTable = renderHtmlTable(
  ["Status", "Code", "Meaning", "What to do", "Retry"],
  errorReference.map(({ code: word, description, retry, status, todo }) =>
    [String(status), inlineCode(word), description, todo, retry].map((cell, at) => at === 1 ? cell : renderProse(cell))
  ),
)

export const renderEndpointTable = ({ free }: { readonly free: boolean }) =>
  renderHtmlTable(
    ["Path", "What it answers", "Tier"],
    endpoints.filter(({ isPriced: charged, row }) => charged !== free && row.path !== documentationPath).map((
      { row },
    ) => [
      `<a href="${referencePagePath(row.path)}">${inlineCode(row.path)}</a>` +
      (row.deprecated ? ` <span class="badge warn">deprecated</span>` : ""),
      renderProse(row.description),
      row.tier ?? "no key",
    ]),
  )

const tierTable = Effect.map(RateLimit, ({ perMinute }) =>
  renderHtmlTable(
    ["Tier", "Requests a minute", "Endpoints"],
    tiers.map((tier) => {
      const closed = endpoints.filter(({ row }) =>
        Option.exists(tierOf(row.tier), (needed) => !meetsTier(tier, needed))
      )
      const all = closed.length === 0 ? "all" : `all but ${closed.map(({ row }) => inlineCode(row.path)).join(", ")}`
      return [inlineCode(tier), count(perMinute(tier)), all]
    }),
  ))

const tierOf = (tier: string | null) => Option.fromUndefinedOr(tiers.find((one) => one === tier))

const priceTable = Effect.map(PriceLookup, ({ getPricePerGigabyte: of }) => {
  const found = pricedPaths.map((path) => ({ path, price: of(path) }))
  const usual = found.map(({ price }) =>
    price
  ).toSorted((left, right) =>
    found.filter(({ price }) => price === right).length - found.filter(({ price }) => price === left).length
  )[0] ?? 0
  const line = (what: string, price: number) => [
    what,
    formatDollars(price),
    `${count(Math.ceil(price * 10_000 / 1_000_000_000))} µ$`,
  ]
  return renderHtmlTable(["Data", "1 GB (1,000,000,000 bytes)", "An answer of 10,000 bytes"], [
    line("all endpoints", usual),
    ...found.filter(({ price }) => price !== usual).map(({ path, price }) => line(inlineCode(path), price)),
  ])
})

export const makeReferenceTables = Effect.gen(function* () {
  const made: Readonly<Record<string, string>> = {
    errors: errorTable,
    data: renderEndpointTable({ free: false }),
    free: renderEndpointTable({ free: true }),
    tiers: yield* tierTable,
    prices: yield* priceTable,
  }
  return (name: string) => {
    const found = made[name]
    if (found === undefined) {
      throw new Error(`docs: there is no table ${name}; there are ${Object.keys(made).join(", ")}`)
    }
    return found
  }
})
