/** The page that shows the audit log. */
import { Effect, Predicate } from "effect"
import type { AuditRow } from "../../postgres/AuditLog.ts"
import { auditQueryParameters } from "../admin/AdminApi.ts"
import { callAdminApi, decodeQuery } from "./ConsoleApi.ts"
import { type ConsolePage, makePageUrl, renderFilteredPage, renderNextPage } from "./ConsolePage.ts"
import { getText, renderSearchForm } from "./Forms.ts"
import { markup } from "../../site/browser/markup.js"
import { renderBreakableText, renderRows, renderTime } from "./Html.ts"

/**
 * Renders the fields that a change in the audit log has set, removed, or replaced, each with its old and new value.
 * They are folded under a summary that names the first three. `before` is null if the change has created its subject,
 * and `after` is null if it has removed it.
 */
const renderDifference = ({ after, before }: AuditRow) => {
  // A value that is not an object is shown like the only field of one.
  const [old, next] = [before, after].map((value) => Predicate.isObject(value) ? value : { value })
  const valueOf = (values: object | undefined, name: string) => {
    const value: unknown = values !== undefined && Predicate.hasProperty(values, name) ? values[name] : undefined
    return value === undefined || value === null ? "–" : typeof value === "string" ? value : JSON.stringify(value)
  }
  const names = Array.from(new Set([...Object.keys(old ?? {}), ...Object.keys(next ?? {})]))
    .filter((name) => valueOf(old, name) !== valueOf(next, name))
  if (names.length === 0) return "–"
  const lines = names.map((name) =>
    before === null
      ? `${name}: ${valueOf(next, name)}`
      : after === null
      ? `${name}: ${valueOf(old, name)}`
      : `${name}: ${valueOf(old, name)} → ${valueOf(next, name)}`
  )
  return markup`<details class="change"><summary>${names.slice(0, 3).join(", ")}${
    names.length > 3 && " …"
  }</summary><pre
 tabindex="0" role="group" aria-label="Values">${lines.join("\n")}</pre></details>`
}

/** Renders changes from the audit log as a table, newest first. `changes` has the oldest first. */
export const renderChanges = (label: string, changes: ReadonlyArray<AuditRow>) =>
  renderRows(
    label,
    ["Time", "Who", "Operation", "What", "Account", "Values"],
    changes.toReversed().map((row) => [
      renderTime(row.recorded_at),
      markup`${renderBreakableText(row.actor)} (${row.via}${row.origin !== null && `, ${row.origin}`})`,
      renderBreakableText(row.operation ?? "–"),
      markup`${row.subject_type} ${renderBreakableText(row.subject)} ${row.change}`,
      renderBreakableText(row.account ?? "–"),
      renderDifference(row),
    ]),
    "There are no such changes.",
  )

const filterFields = [
  ["since", "Since"],
  ["until", "Until"],
  ["actor", "Who"],
  ["account", "Account"],
  ["subject_type", "Kind, such as key"],
  ["subject", "Name or ID"],
] as const

/**
 * An ID greater than that of any change. Paging backward from here lists the newest changes, even if a time filter is
 * set.
 */
const afterNewest = 999_999_999_999_999

/** The page that shows the audit log. */
export const auditPage: ConsolePage = {
  path: "/console/audit",
  label: "Audit log",
  render: ({ api, query }) => {
    const filter: Readonly<Record<string, string>> = Object.fromEntries(filterFields.flatMap(([name]) => {
      const value = getText(query, name)
      return value === undefined ? [] : [[name, value]]
    }))
    const before = getText(query, "before")
    const fields = filterFields.map(([name, label]) => ({
      name,
      label,
      value: filter[name] ?? "",
      type: name === "since" || name === "until" ? "date" as const : "text" as const,
    }))
    const changes = decodeQuery(auditQueryParameters, { ...filter, before }).pipe(
      Effect.flatMap((page) => callAdminApi(api.read.operations.audit({ query: { before: afterNewest, ...page } }))),
      Effect.map(({ previous, results }) =>
        markup`${renderChanges("Changes", results)}${
          renderNextPage("Older changes", previous, (before) => makePageUrl("/console/audit", { ...filter, before }))
        }`
      ),
    )
    return renderFilteredPage("Audit log", renderSearchForm(fields, "Filter"), changes)
  },
}
