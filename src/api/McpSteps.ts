/** The steps of a message to the MCP server. Usage lists either it, or the request of the tool that it calls. */
import { Effect } from "effect"
import type { AdmissionRules, makeAdmit } from "../accounts/Admission.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import type { AdmittedRequest } from "../query/EndpointHandler.ts"
import { costHeader } from "./Finish.ts"
import type { BilledAnswer } from "./FinishAndRecord.ts"
import { McpEndpoint, type McpMessage } from "./OtherRoutes.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"

/** Every account may send messages, and they are free. */
export const mcpRules: AdmissionRules = { access: undefined, price: undefined }

/** Decides which of two is listed in usage: whichever ends first. */
const makeUsageClaim = () => {
  let owner: "message" | "tool" | undefined
  return (claimant: "message" | "tool") => {
    owner ??= claimant
    return owner === claimant
  }
}

/** Makes the function that takes the steps of a message. */
export const makeMcpSteps = Effect.fnUntraced(function* (admit: Effect.Success<typeof makeAdmit>) {
  const mcp = yield* McpEndpoint

  const takeSteps = Effect.fnUntraced(function* (
    progress: RequestInProgress,
    scope: McpMessage["scope"],
    run: AdmittedRequest["run"],
  ) {
    const { request } = progress
    const other = mcp.answerOther(request)
    if (other !== undefined) return { answer: other }
    const admission = yield* admit(request, mcpRules)
    progress.admit(admission)
    const { account, error, headers } = admission
    const refusal = error?._tag === "RateLimitExceeded" ? error : undefined
    if (error !== undefined && error !== refusal) return yield* Effect.fail(error)
    if (account === undefined) return yield* Effect.die(new Error("A request without an account was admitted"))
    const { answer, recordedStatus } = yield* mcp.answer({ request, account, headers, refusal, scope, run })
    const billed: BilledAnswer = { answer, recording: { recordedStatus } }
    return billed
  })

  return (progress: RequestInProgress, scope: McpMessage["scope"], run: AdmittedRequest["run"]) => {
    const claim = makeUsageClaim()
    progress.request = { ...progress.request, claimUsage: () => claim("message") }
    const runTool = (toolRequest: ApiRequest) =>
      run({
        ...toolRequest,
        claimUsage: (cost) => {
          progress.isRecorded = false
          progress.addHeader(costHeader, String(cost))
          return claim("tool")
        },
      })
    return takeSteps(progress, scope, runTool)
  }
})
