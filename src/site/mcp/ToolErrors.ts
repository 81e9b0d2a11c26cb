/** The errors of MCP tools. They consist of an API error and advice on what the language model should do next. */
import { Effect, Option, Schema } from "effect"
import { McpRequestContext } from "./McpRequestContext.ts"
import { shortenToMaxTokens } from "./ResultSize.ts"

/**
 * The error that an MCP tool returns: an API error, advice for the language model (`next_step`), and the request id.
 */
export const McpToolError = Schema.Struct({
  error: Schema.Struct({
    code: Schema.String,
    message: Schema.String,
    details: Schema.optionalKey(Schema.Json),
  }),
  next_step: Schema.String,
  request_id: Schema.String,
})

/** The decoded type of the `McpToolError` schema. */
export type McpToolError = typeof McpToolError.Type

/** Returns advice on what the model should do about an error. `retryAfter` is the number of seconds to wait. */
const getNextStep = (code: string, retryAfter: string) => {
  switch (code) {
    case "validation_error":
      return "Correct the arguments named in details.fields, then call the tool again. find_endpoint lists the " +
        "parameters of an endpoint."
    case "not_found":
      return "Check the path or the symbol. find_endpoint lists the endpoints."
    case "ambiguous_ticker_lineage":
      return "If details.candidates lists companies, decide from their names and dates which one is meant, or ask " +
        "the user; then repeat the call with its cik. Otherwise tell the user the reasons why the history is unclear."
    case "insufficient_tier":
      return "Do not repeat the call. Use an endpoint that find_endpoint shows as available, or tell the user which " +
        "tier is required."
    case "endpoint_not_allowed":
      return "Do not repeat the call. The API key may only use the endpoints in details.allowed."
    case "insufficient_credits":
      return "Do not repeat the call. Tell the user that the prepaid balance, or the budget for this month if " +
        "details.reason is budget_exhausted, is used up or reserved by exports."
    case "rate_limit_exceeded":
    case "data_refreshing":
    case "database_pool_timeout":
      return `Wait ${retryAfter} seconds, then repeat the call.`
    case "endpoint_removed":
      return "Use the endpoint in details.successor."
    case "internal_error":
      return "Repeat the call once. If it fails again, report the request_id to the user."
    default:
      return "Tell the user the message."
  }
}

/** Creates a tool error from an API error by adding advice on what the model should do. */
export const makeToolError = (request_id: string, error: McpToolError["error"], retryAfter = "5"): McpToolError => ({
  error,
  next_step: getNextStep(error.code, retryAfter),
  request_id,
})

/** Fails with a tool error. `error` has the format of API errors. */
export const failWithToolError = (
  error: McpToolError["error"],
  retryAfter?: string,
): Effect.Effect<never, McpToolError, McpRequestContext> =>
  Effect.flatMap(McpRequestContext, ({ request }) => Effect.fail(makeToolError(request.id, error, retryAfter)))

/**
 * Fails with a `validation_error` for a single argument. The message consists of the argument name and the reason:
 * "endpoint is required".
 */
export const failWithInvalidArgument = (field: string, reason: string) =>
  failWithToolError({
    code: "validation_error",
    message: `${field} ${reason}`,
    details: { fields: [{ field, reason }] },
  })

const decodeApiError = Schema.decodeOption(Schema.fromJsonString(Schema.Struct({ error: McpToolError.fields.error })))
const isJson = Schema.is(Schema.Json)

/**
 * Fails with the error contained in the body of an API response, plus advice for the model. The error's `details` may
 * contain long lists and are truncated to `maxTokens`, which the message then mentions.
 */
export const failWithApiError = (body: string, retryAfter: string | undefined, maxTokens: number) =>
  Option.match(decodeApiError(body), {
    onNone: () => Effect.die(new Error("The API responded with an error of unknown format")),
    onSome: ({ error }) => {
      if (error.details === undefined) return failWithToolError(error, retryAfter)
      const details = shortenToMaxTokens(error.details, maxTokens)
      const message = details === error.details ? error.message : `${error.message} (The details are truncated.)`
      return failWithToolError({ ...error, message, ...(isJson(details) ? { details } : {}) }, retryAfter)
    },
  })
