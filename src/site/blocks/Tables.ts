/** Tables of what the code declares and this service is set to. */
import { Effect, Option, Schema } from "effect"
import * as AccountErrors from "../../accounts/AccountErrors.ts"
import { Prices } from "../../accounts/billing/Pricing.ts"
import { RateLimit } from "../../accounts/limits/RateLimit.ts"
import { endpoints, priced } from "../../catalogue/Endpoints.ts"
import { includes, tiers } from "../../rules/EndpointAnnotations.ts"
import * as Errors from "../../rules/Errors.ts"
import { documentation } from "../../rules/Lifecycle.ts"
import { escape } from "../Html.ts"
import { referenceOf } from "../Page.ts"
import { table } from "../Table.ts"

export const code = (text: string) => `<code>${escape(text)}</code>`

/** Text of the contract, in which `code` stands between backticks. */
export const prose = (text: string) => escape(text).replace(/`([^`]+)`/g, "<code>$1</code>")

const count = (value: number) => value.toLocaleString("en-US")

export const dollars = (microdollars: number) => `$${(microdollars / 1_000_000).toFixed(microdollars % 10_000 ? 6 : 2)}`

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
export const errors = advice.map(([error, todo, retry]) => {
  const annotations = Schema.resolveAnnotations(error)
  return {
    status: Number(annotations?.["httpApiStatus"]),
    code: error.fields.error.fields.code.schema.literal,
    description: String(annotations?.["description"]),
    todo,
    retry,
  }
})

const errorTable = table(
  ["Status", "Code", "Meaning", "What to do", "Retry"],
  errors.map(({ code: word, description, retry, status, todo }) =>
    [String(status), code(word), description, todo, retry].map((cell, at) => at === 1 ? cell : prose(cell))
  ),
)

export const families = ({ free }: { readonly free: boolean }) =>
  table(
    ["Path", "What it answers", "Tier"],
    endpoints.filter(({ charged, row }) => charged !== free && row.path !== documentation).map(({ row }) => [
      `<a href="${referenceOf(row.path)}">${code(row.path)}</a>` +
      (row.deprecated ? ` <span class="badge warn">deprecated</span>` : ""),
      prose(row.description),
      row.tier ?? "no key",
    ]),
  )

const tierTable = Effect.map(RateLimit, ({ perMinute }) =>
  table(
    ["Tier", "Requests a minute", "Endpoints"],
    tiers.map((tier) => {
      const closed = endpoints.filter(({ row }) => Option.exists(tierOf(row.tier), (needed) => !includes(tier, needed)))
      const all = closed.length === 0 ? "all" : `all but ${closed.map(({ row }) => code(row.path)).join(", ")}`
      return [code(tier), count(perMinute(tier)), all]
    }),
  ))

const tierOf = (tier: string | null) => Option.fromUndefinedOr(tiers.find((one) => one === tier))

const priceTable = Effect.map(Prices, ({ of }) => {
  const found = priced.map((path) => ({ path, price: of(path) }))
  const usual = found.map(({ price }) =>
    price
  ).toSorted((left, right) =>
    found.filter(({ price }) => price === right).length - found.filter(({ price }) => price === left).length
  )[0] ?? 0
  const line = (what: string, price: number) => [
    what,
    dollars(price),
    `${count(Math.ceil(price * 10_000 / 1_000_000_000))} µ$`,
  ]
  return table(["Data", "1 GB (1,000,000,000 bytes)", "An answer of 10,000 bytes"], [
    line("all endpoints", usual),
    ...found.filter(({ price }) => price !== usual).map(({ path, price }) => line(code(path), price)),
  ])
})

export const tables = Effect.gen(function* () {
  const made: Readonly<Record<string, string>> = {
    errors: errorTable,
    data: families({ free: false }),
    free: families({ free: true }),
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
