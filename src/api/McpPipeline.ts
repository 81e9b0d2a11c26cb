/**
 * Runs the steps of a message to the MCP server. A message may call a tool, which makes an API request. Either the
 * message or that request is recorded as usage, but not both, so that the customer does not see the same call twice.
 */
import { Effect } from "effect"
import type { AdmissionRules, makeRequestAdmitter } from "../accounts/RequestAdmission.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import type { AdmittedRequest } from "../query/EndpointHandler.ts"
import { costHeader } from "./ResponseBuilder.ts"
import type { BilledResult } from "./MeteredResponseBuilder.ts"
import { McpEndpoint, type McpMessage } from "./SiteRoutes.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"

/** Admission rules for messages. Any account may send messages, and they are free. */
export const mcpRules: AdmissionRules = { access: undefined, price: undefined }

/**
 * Returns a function that decides whether the message or the tool's request is recorded as usage. It is called when
 * either of them ends. It returns true for the one that ends first, which is then recorded, and false for the other.
 */
const makeUsageClaim = () => {
  let owner: "message" | "tool" | undefined
  return (claimant: "message" | "tool") => {
    owner ??= claimant
    return owner === claimant
  }
}

/**
 * Builds the function that handles an MCP message. That function admits the request, handles the message, and returns
 * the response and how to record it. Called once, at startup.
 */
export const makeMcpPipeline = Effect.fnUntraced(function* (admit: Effect.Success<typeof makeRequestAdmitter>) {
  const mcp = yield* McpEndpoint

  /** Admits and handles a message. `run` runs the API request of a tool. */
  const takeSteps = Effect.fnUntraced(function* (
    progress: RequestInProgress,
    scope: McpMessage["scope"],
    run: AdmittedRequest["run"],
  ) {
    const { request } = progress
    const nonMessageResult = mcp.respondToNonMessage(request)
    if (nonMessageResult !== undefined) return { result: nonMessageResult }
    const admission = yield* admit(request, mcpRules)
    progress.admit(admission)
    const { account, error, headers } = admission
    // If the rate limit is exceeded, the MCP server chooses the form of the error, which depends on the message.
    const refusal = error?._tag === "RateLimitExceeded" ? error : undefined
    if (error !== undefined && error !== refusal) return yield* Effect.fail(error)
    if (account === undefined) return yield* Effect.die(new Error("A request without an account was admitted"))
    const { result, recordedStatus } = yield* mcp.respond({ request, account, headers, refusal, scope, run })
    const billed: BilledResult = { result, recording: { recordedStatus } }
    return billed
  })

  return (progress: RequestInProgress, scope: McpMessage["scope"], run: AdmittedRequest["run"]) => {
    const claim = makeUsageClaim()
    progress.request = { ...progress.request, claimUsage: () => claim("message") }
    const runTool = (toolRequest: ApiRequest) =>
      run({
        ...toolRequest,
        claimUsage: (cost) => {
          // The message's response states the cost of the tool's request, but only the tool's request is recorded as
          // usage.
          progress.isRecorded = false
          progress.addHeader(costHeader, String(cost))
          return claim("tool")
        },
      })
    return takeSteps(progress, scope, runTool)
  }
})
