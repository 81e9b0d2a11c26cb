/** Reads the example requests from the reference pages, as a browser without scripts shows them. */
import { Effect } from "effect"
import { getReferencePagePath } from "../../src/site/SitePage.ts"
import { documentedEndpoints } from "./DocumentedEndpoints.ts"
import { exampleBaseUrl } from "./DocumentExamples.ts"
import * as Service from "./Service.ts"

const textOf = (html: string) =>
  html.replaceAll(/<[^>]+>/g, "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", `"`)
    .replaceAll(/&#(39|x27);/g, "'").replaceAll("&amp;", "&")

/** Returns the text of the first code block with the given label, or an empty string if there is none. */
const readCode = (html: string, label: string) => {
  const [, code = ""] = new RegExp(`>${label}</p><pre[^>]*><code>([\\s\\S]*?)</code>`).exec(html) ?? []
  return textOf(code)
}

/**
 * Reads the examples of every endpoint whose response ends. If a page has no example for a client, that example is
 * empty.
 */
export const readReferenceExamples = Effect.forEach(
  documentedEndpoints,
  ({ path }) =>
    Effect.map(Service.requestJson(getReferencePagePath(path), { key: null }), ({ text }) => {
      const curl = readCode(text, "Shell")
      const request = curl.slice(curl.indexOf(exampleBaseUrl) + exampleBaseUrl.length, -1)
      return { path, curl, request, python: readCode(text, "Python"), typeScript: readCode(text, "TypeScript") }
    }),
)
