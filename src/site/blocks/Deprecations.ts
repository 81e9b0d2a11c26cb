/** §9.4, D24: what is deprecated, as the endpoints themselves declare it. */
import { Option } from "effect"
import { endpoints } from "../../catalogue/Endpoints.ts"
import { escape } from "../Html.ts"
import { at } from "../Page.ts"
import { table } from "../Table.ts"
import { code, prose } from "./Tables.ts"

const found = endpoints.flatMap(({ life, row }) =>
  Option.match(life, { onNone: () => [], onSome: (life) => [{ path: row.path, ...life }] })
)

const none = `<p>Nothing is deprecated.</p>\n`

/** What stands on the first page, to which the `Link` headers lead. */
const notices = found.map(({ announced, note, path, successor, sunset }) =>
  `<div class="notice"><p><strong>${code(path)} is deprecated</strong> since ${escape(announced)}; ${
    sunset === undefined ? "no day of its end is set" : `it ends after ${escape(sunset)}`
  }. Use ${code(successor)}. ${prose(note)} <a href="${at("deprecations")}">How to migrate</a></p></div>\n`
).join("")

const list = table(
  ["Endpoint", "Announced", "Sunset", "Use instead", "What changes"],
  found.map(({ announced, note, path, successor, sunset }) => [
    code(path),
    escape(announced),
    sunset === undefined ? "none set" : escape(sunset),
    code(successor),
    prose(note),
  ]),
)

export const deprecations = (how: string) => found.length === 0 ? none : how === "short" ? notices : list
