/** Handles `GET /v1/corrections`. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { PublicApi } from "../../Api.ts"
import { CorrectionCountReader } from "../../history/CorrectionCounts.ts"
import { makeStaticBodyResponder } from "../../http/ConditionalRequests.ts"
import { setRecordCount } from "../../http/RequestContext.ts"

export const correctionsHandlers = HttpApiBuilder.group(
  PublicApi,
  "corrections",
  Effect.fnUntraced(function* (handlers) {
    const { read } = yield* CorrectionCountReader
    return handlers.handleAll({
      list: Effect.fnUntraced(function* ({ request }) {
        const counts = yield* read
        yield* setRecordCount(counts.count)
        const bytes = new TextEncoder().encode(JSON.stringify(counts))
        return makeStaticBodyResponder(bytes, "application/json", { "Cache-Control": "public, max-age=60" })(request)
      }),
    })
  }),
)
