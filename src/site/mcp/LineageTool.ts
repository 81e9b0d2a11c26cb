/**
 * The MCP tool `lineage`, which returns the chain of a company's symbol changes (§4.1) by requesting
 * `/v1/ticker-changes`.
 */
import { Effect, Schema } from "effect"
import { ChangeEvent } from "../../contract/rules/ApiErrors.ts"
import { makeInternalApiClient } from "./InternalApiClient.ts"
import { fitRowsToTokens, MaxResultTokensConfig } from "./ResultSize.ts"
import { makeReadOnlyMcpTool, makeToolArgumentsDecoder } from "./ToolArguments.ts"
import { TickerChangesResponse } from "../../contract/endpoints/ticker-changes.ts"

/** The path of the endpoint that the tool `lineage` requests. */
export const tickerChangesEndpointPath = "/v1/ticker-changes"

const LineageArguments = Schema.Struct({
  ticker: Schema.String.annotate({ description: "A current or former symbol.", examples: ["OSTK"] }),
  cik: Schema.optionalKey(
    Schema.String.annotate({ description: "If the symbol is ambiguous: the CIK of the intended candidate." }),
  ),
  as_of: Schema.optionalKey(
    Schema.String.annotate({
      description: "Returns the answer as of an earlier time: a date, or a timestamp with an offset.",
      examples: ["2026-03-01"],
    }),
  ),
})

const LineageResult = Schema.Struct({
  query_ticker: Schema.String.annotate({ description: "The requested symbol, normalized." }),
  has_changes: Schema.Boolean.annotate({ description: "Whether a recorded change involves the symbol." }),
  current_ticker: Schema.NullOr(Schema.String).annotate({
    description: "The latest symbol. Null if has_changes is false.",
  }),
  history: Schema.Array(ChangeEvent).annotate({ description: "The chain, oldest first." }),
  truncated: Schema.Boolean.annotate({ description: "Whether the oldest changes are missing from history." }),
  cost_microdollars: Schema.Int,
  request_id: Schema.String,
})

/** The declaration of the tool `lineage`. */
export const mcpLineageTool = makeReadOnlyMcpTool("lineage", {
  title: "Symbol history of a company",
  description:
    "Returns all symbols that a company has used, with dates, for a current or former symbol. If companies " +
    "cannot be told apart, it refuses with the code ambiguous_ticker_lineage and lists candidates: choose one, or " +
    "ask the user, and repeat the call with its cik.",
  arguments: LineageArguments,
  success: LineageResult,
})

const decodeResponse = Schema.decodeEffect(Schema.fromJsonString(TickerChangesResponse))

/**
 * Creates the function that handles calls of `lineage`. It returns the single object in the response of
 * `/v1/ticker-changes`, with the history shortened to the maximum size of a tool result if necessary.
 */
export const makeLineageToolHandler = Effect.gen(function* () {
  const send = yield* makeInternalApiClient
  const maxTokens = yield* MaxResultTokensConfig
  const decode = makeToolArgumentsDecoder(LineageArguments)
  return Effect.fnUntraced(function* (sent: unknown) {
    const { headers, request_id, text } = yield* send(
      tickerChangesEndpointPath,
      new URLSearchParams(yield* decode(sent)),
    )
    const { results: [chain] } = yield* Effect.orDie(decodeResponse(text))
    // The history is ordered from oldest to newest. If it is too long, the oldest changes are omitted, so the function
    // counts how many changes fit starting from the newest. It returns at least 1 unless the history is empty.
    const fittingCount = fitRowsToTokens(chain.history.toReversed(), maxTokens).rows.length
    const history = chain.history.slice(-fittingCount)
    const truncated = history.length < chain.history.length
    return { ...chain, history, truncated, cost_microdollars: Number(headers["x-cost-microdollars"] ?? 0), request_id }
  })
})
