/** §9.4, D24: what is deprecated, as the endpoints themselves declare it. */
import { Option } from "effect"
import { endpoints } from "../../catalogue/Endpoints.ts"
import { escapeHtml } from "../Html.ts"
import { pagePath } from "../Page.ts"
import { renderHtmlTable } from "../Table.ts"
import { inlineCode, renderProse } from "./Tables.ts"

const found = endpoints.flatMap(({ deprecation: life, row }) =>
  Option.match(life, { onNone: () => [], onSome: (life) => [{ path: row.path, ...life }] })
)

const none = `<p>Nothing is deprecated.</p>\n`

/** What stands on the first page, to which the `Link` headers lead. */
const notices = found.map(({ announced, note, path, successor, sunset }) =>
  `<div class="notice"><p><strong>${inlineCode(path)} is deprecated</strong> since ${escapeHtml(announced)}; ${
    sunset === undefined ? "no day of its end is set" : `it ends after ${escapeHtml(sunset)}`
  }. Use ${inlineCode(successor)}. ${renderProse(note)} <a href="${
    pagePath("deprecations")
  }">How to migrate</a></p></div>\n`
).join("")

const list = renderHtmlTable(
  ["Endpoint", "Announced", "Sunset", "Use instead", "What changes"],
  found.map(({ announced, note, path, successor, sunset }) => [
    inlineCode(path),
    escapeHtml(announced),
    sunset === undefined ? "none set" : escapeHtml(sunset),
    inlineCode(successor),
    renderProse(note),
  ]),
)

export const renderDeprecations = (how: string) => found.length === 0 ? none : how === "short" ? notices : list
