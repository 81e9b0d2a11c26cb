/** The tool `estimate`: what a request would cost (D28, estimates), from `/estimate`. */
import { Effect, Schema } from "effect"
import { CostEstimate } from "../catalogue/Api.ts"
import { InternalApiClient } from "./InternalApiClient.ts"
import {
  addDefaultParameters,
  encodeToolParameterValues,
  mcpToolRequestArguments,
  requireQueryableEndpoint,
} from "./QueryTool.ts"
import { makeReadOnlyMcpTool, makeToolArgumentsDecoder } from "./ToolArguments.ts"

export const estimateEndpointPath = "/estimate"

const EstimateArguments = Schema.Struct(mcpToolRequestArguments)

const EstimateResult = Schema.Struct({
  ...CostEstimate.fields,
  message: Schema.optionalKey(Schema.String.annotate({ description: "Why the request would be free." })),
  request_id: Schema.String,
})

export const mcpEstimateTool = makeReadOnlyMcpTool("estimate", {
  title: "Price of a request",
  description: "Returns the number of rows, the size and the cost of a call of query. Without the parameters limit " +
    "and format, it estimates 50 rows as CSV. It is free. If the call would be refused, the estimate is refused with " +
    "the same error.",
  arguments: EstimateArguments,
  success: EstimateResult,
})

const EstimateResponse = Schema.Struct({
  results: Schema.Tuple([CostEstimate]),
  message: Schema.optionalKey(Schema.String),
})

const decodeResponse = Schema.decodeEffect(Schema.fromJsonString(EstimateResponse))

export const makeEstimateToolHandler = Effect.gen(function* () {
  const { send } = yield* InternalApiClient
  const decode = makeToolArgumentsDecoder(EstimateArguments)
  return Effect.fnUntraced(function* (sent: unknown) {
    const { endpoint, parameters } = yield* decode(sent)
    const details = yield* requireQueryableEndpoint(endpoint)
    const sentParameters = addDefaultParameters(details, encodeToolParameterValues(parameters))
    const query = new URLSearchParams({ ...sentParameters, endpoint: details.path })
    const { request_id, text } = yield* send(estimateEndpointPath, query)
    const { message, results: [estimate] } = yield* Effect.orDie(decodeResponse(text))
    return { ...estimate, ...(message === undefined ? {} : { message }), request_id }
  })
})
