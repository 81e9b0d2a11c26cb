/** The page that finds a recorded request by its ID and explains it (docs/operations/disputes.md). */
import { Effect } from "effect"
import { explainRequestPathParameters, explainRequestQueryParameters } from "../admin/AdminApi.ts"
import { type ExplainedRequest, formatExplanation } from "../admin/RequestExplanation.ts"
import { callAdminApi, decodeQuery } from "./ConsoleApi.ts"
import { type ConsolePage, makeAccountUrl, renderFilteredPage } from "./ConsolePage.ts"
import { getText, renderSearchForm } from "./Forms.ts"
import { markup } from "../../site/browser/markup.js"
import { renderBreakableText, renderRows, renderTime } from "./Html.ts"

const renderRequest = (request: ExplainedRequest) =>
  markup`<h2>${renderTime(request.requested_at)}</h2>
${
    renderRows(
      `Request at ${request.requested_at}`,
      ["What", "Value"],
      formatExplanation(request).map(([name, ...lines]) => [
        name,
        lines.map((line, index) => markup`${index > 0 && markup`<br>`}${renderBreakableText(line)}`),
      ]),
    )
  }
<p><a href="${makeAccountUrl(request.account)}">Show the account</a></p>`

const fields = [
  ["request_id", "Request id", "text"],
  ["account", "Account, if a client made the id", "text"],
  ["from", "From", "date"],
  ["to", "To", "date"],
] as const

/** The page that explains a recorded request. */
export const requestPage: ConsolePage = {
  path: "/console/request",
  label: "Requests",
  render: ({ api, query }) => {
    const form = renderSearchForm(
      fields.map(([name, label, type]) => ({ name, label, type, value: getText(query, name) ?? "" })),
      "Explain",
    )
    const request_id = getText(query, "request_id")
    const found = request_id === undefined ? Effect.succeed(undefined) : Effect.gen(function* () {
      const params = yield* decodeQuery(explainRequestPathParameters, { request_id })
      const [account, from, to] = [getText(query, "account"), getText(query, "from"), getText(query, "to")]
      const days = yield* decodeQuery(explainRequestQueryParameters, { account, from, to })
      const { results, searched_back_to } = yield* callAdminApi(api.read.usage.explain({ params, query: days }))
      return markup`${results.map(renderRequest)}${
        searched_back_to !== null &&
        markup`<p>The search took too long. It has read the days after ${searched_back_to}.</p>`
      }`
    })
    return renderFilteredPage("Requests", form, found)
  },
}
