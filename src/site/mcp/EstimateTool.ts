/** The MCP tool `estimate`, which predicts the cost of a `query` call (D28, estimates) by requesting `/estimate`. */
import { Effect, Schema } from "effect"
import { estimatePath } from "../../contract/Authentication.ts"
import { CostEstimate, CostEstimates } from "../../contract/endpoints/catalogue.ts"
import { makeInternalApiClient } from "./InternalApiClient.ts"
import { choosePageParameters, QueryArguments, readQueryArguments } from "./QueryTool.ts"
import { makeReadOnlyMcpTool, makeToolArgumentsDecoder } from "./ToolArguments.ts"
import { failWithInvalidArgument } from "./ToolErrors.ts"

const EstimateResult = Schema.Struct({
  ...CostEstimate.fields,
  message: CostEstimates.fields.message,
  request_id: Schema.String,
})

/** The declaration of the tool `estimate`. */
export const mcpEstimateTool = makeReadOnlyMcpTool("estimate", {
  title: "Price of a request",
  description: "Returns the number of rows, the size and the cost of a call of query. Send the arguments of that " +
    "call. It is free. If the call would be refused, the estimate is refused with the same error.",
  arguments: QueryArguments,
  success: EstimateResult,
})

const decodeResponse = Schema.decodeEffect(Schema.fromJsonString(CostEstimates))

/**
 * Creates the function that handles calls of `estimate`. It converts the arguments to the same API request that the
 * tool `query` would send first, and asks `/estimate` for its size and cost.
 */
export const makeEstimateToolHandler = Effect.gen(function* () {
  const send = yield* makeInternalApiClient
  const decode = makeToolArgumentsDecoder(QueryArguments)
  return Effect.fnUntraced(function* (sent: unknown) {
    const { details, request } = yield* Effect.flatMap(decode(sent), readQueryArguments)
    const { endpoint, ...parameters } = choosePageParameters(details, request).parameters
    // Some endpoints, such as `/v1/usage`, have a filter named `endpoint`. In a request to `/estimate`, this name
    // stands for the endpoint to estimate, so that the filter cannot be sent.
    if (endpoint !== undefined) {
      return yield* failWithInvalidArgument(
        "endpoint",
        "cannot be estimated as a filter. Omit it from parameters; the endpoints that have it are free",
      )
    }
    const query = new URLSearchParams({ ...parameters, endpoint: details.path })
    const { request_id, text } = yield* send(estimatePath, query)
    const { message, results: [estimate] } = yield* Effect.orDie(decodeResponse(text))
    return { ...estimate, ...(message === undefined ? {} : { message }), request_id }
  })
})
