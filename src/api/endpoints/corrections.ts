/** Handles `GET /v1/corrections`. */
import { Effect } from "effect"
import { makePublicHandler } from "../../query/EndpointHandler.ts"
import { CorrectionCountReader } from "../../query/history/CorrectionCounts.ts"
import { makeStaticPage } from "../StaticPages.ts"
import { NoParameters } from "../../contract/rules/FilterParameters.ts"

/** Handler for the counts of corrected rows. Any cache may store the response for a minute. */
export const correctionsHandlers = Effect.map(CorrectionCountReader, ({ read }) => ({
  list: makePublicHandler(NoParameters, () =>
    Effect.map(read, (counts) =>
      makeStaticPage(
        new TextEncoder().encode(JSON.stringify(counts)),
        "application/json",
        { "cache-control": "public, max-age=60" },
        counts.count,
      ))),
}))
