/** The MCP tool `find_endpoint`, which searches the endpoints and describes the best match in detail. */
import { Effect, Schema } from "effect"
import { PriceLookup } from "../../accounts/billing/Pricing.ts"
import { canAccountUseEndpoint, type CurrentAccount } from "../../contract/Authentication.ts"
import { formatEndpointSuggestion } from "../../api/catalogue/Endpoints.ts"
import { Tier } from "../../contract/rules/EndpointAnnotations.ts"
import { NonNegativeInt } from "../../contract/rules/NonNegativeInt.ts"
import { makeSearch } from "../browser/search-matching.js"
import { makeEndpointSearchEntry } from "../EndpointSearch.ts"
import { findQueryableEndpoint, getQueryableEndpoints, type McpEndpointDescription } from "./EndpointDetails.ts"
import { McpRequestContext } from "./McpRequestContext.ts"
import { makeReadOnlyMcpTool, makeToolArgumentsDecoder } from "./ToolArguments.ts"

const maxMatches = 8

const FindEndpointArguments = Schema.Struct({
  search: Schema.optionalKey(
    Schema.String.check(Schema.isMaxLength(200, { message: "must have at most 200 characters" })).annotate({
      description:
        "Words such as `insider ownership`, the name of a parameter or column, or the path of one endpoint. " +
        "Without it, all endpoints are listed.",
    }),
  ),
})

const Named = Schema.Struct({ name: Schema.String, description: Schema.String })

const FindEndpointResult = Schema.Struct({
  count: NonNegativeInt.annotate({ description: "Number of endpoints in results." }),
  results: Schema.Array(Schema.Struct({
    path: Schema.String,
    label: Schema.String,
    description: Schema.String,
    tier: Tier.annotate({ description: "The lowest tier that may use the endpoint." }),
    is_available: Schema.Boolean.annotate({ description: "Whether this account and key may use the endpoint." }),
    price_per_gb_microdollars: NonNegativeInt.annotate({
      description: "Price of 1,000,000,000 bytes in millionths of a US dollar. 0: the endpoint is free.",
    }),
    successor: Schema.NullOr(Schema.String).annotate({
      description: "If it is deprecated: the path of its replacement.",
    }),
    parameters: Schema.optionalKey(
      Schema.Array(Schema.Struct({ ...Named.fields, required: Schema.Boolean })).annotate({
        description: "The parameters. Only for the best match.",
      }),
    ),
    columns: Schema.optionalKey(
      Schema.Array(Named).annotate({ description: "The columns of its rows. Only for the best match." }),
    ),
  })).annotate({ description: "The best match first." }),
  message: Schema.optionalKey(Schema.String),
})

/** The declaration of the tool `find_endpoint`. */
export const mcpFindEndpointTool = makeReadOnlyMcpTool("find_endpoint", {
  title: "Find an endpoint",
  description:
    "Searches the endpoints of Tickerline: market data about listed securities, such as symbol changes, gaps, " +
    "sessions, news, filings, dilution, float, ownership, splits and a screener. Returns paths, tier, availability " +
    "and price, and the parameters and columns of the best match. It is free.",
  arguments: FindEndpointArguments,
  success: FindEndpointResult,
})

/** Returns a function that finds endpoints by words in their descriptions, parameters and columns, best match first. */
const makeEndpointSearch = () => {
  const endpoints = getQueryableEndpoints().map((details) => ({
    details,
    entry: makeEndpointSearchEntry(details.endpoint),
  }))
  const find = makeSearch(endpoints.map(({ entry }) => entry))
  return (text: string) =>
    find(text).flatMap((match) => endpoints.flatMap(({ details, entry }) => entry === match.entry ? [details] : []))
}

/** Created on first use, because it depends on the complete OpenAPI document. */
let endpointSearch: ReturnType<typeof makeEndpointSearch> | undefined

/** Returns the endpoint whose path was entered or, if there is none, at most eight endpoints that match the words. */
const search = (text: string): ReadonlyArray<McpEndpointDescription> => {
  const exact = findQueryableEndpoint(text.trim())
  return exact === undefined ? (endpointSearch ??= makeEndpointSearch())(text).slice(0, maxMatches) : [exact]
}

/**
 * Creates the function that handles calls of `find_endpoint`. With a text to search for, it returns the matching
 * endpoints, and describes the first one completely. Without a text, it lists all endpoints.
 */
export const makeFindEndpointToolHandler = Effect.gen(function* () {
  const { getPricePerGigabyte } = yield* PriceLookup
  const decode = makeToolArgumentsDecoder(FindEndpointArguments)

  /**
   * Describes an endpoint as the tool's result shows it. `isComplete` adds the parameters and columns, which are long.
   */
  const describe = (
    { columns, endpoint: { isPriced, row }, parameters, path, tier }: McpEndpointDescription,
    account: typeof CurrentAccount.Service,
    isComplete: boolean,
  ) => ({
    path,
    label: row.label,
    description: row.description,
    tier,
    is_available: canAccountUseEndpoint(account, { path, required_tier: tier }),
    price_per_gb_microdollars: isPriced ? getPricePerGigabyte(path) : 0,
    successor: row.successor,
    ...(isComplete ? { parameters, columns } : {}),
  })

  return Effect.fnUntraced(function* (sent: unknown) {
    const { search: text = "" } = yield* decode(sent)
    const { account } = yield* McpRequestContext
    const matches = text.trim() === "" ? getQueryableEndpoints() : search(text)
    const results = matches.map((details, index) => describe(details, account, text.trim() !== "" && index === 0))
    const message = `Nothing matches.${
      formatEndpointSuggestion(text)
    } Call the tool without search to list all endpoints.`
    return { count: results.length, results, ...(matches.length === 0 && { message }) }
  })
})
