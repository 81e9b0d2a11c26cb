/** An answer's JSON as rows of text; every number has the digits that were sent (D16). */
import { Option, Predicate } from "effect"
import type { TableCell, TableColumn, TableData } from "../terminal/Table.ts"

function exact(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }) {
  return typeof value === "number" ? JSON.rawJSON(context?.source ?? String(value)) : value
}

/** None: it is no JSON. Numbers are `JSON.rawJSON`, so that printing them again gives the same digits. */
export const parseExactJson = (text: string): Option.Option<unknown> => {
  try {
    return Option.some(JSON.parse(text, exact))
  } catch {
    return Option.none()
  }
}

export type ResponseRow = Readonly<Record<string, unknown>>

const isRow = (value: unknown): value is ResponseRow => Predicate.isObject(value) && !Array.isArray(value)

const isRows = (value: unknown): value is ReadonlyArray<ResponseRow> => Array.isArray(value) && value.every(isRow)

/** The list of an envelope, whatever its name; an answer without one is itself the only row. */
export const extractRows = (body: unknown): ReadonlyArray<ResponseRow> => {
  if (!isRow(body)) return []
  return Object.values(body).find(isRows) ?? [body]
}

const isChange = (value: unknown): value is { readonly old_ticker: string; readonly new_ticker: string } =>
  isRow(value) && typeof value["old_ticker"] === "string" && typeof value["new_ticker"] === "string"

/** `OSTK → BYON (2023-11-06) → BBBY (2025-08-29)`. */
export const formatSymbolHistory = (history: unknown, arrow: string): string | undefined => {
  if (!Array.isArray(history) || history.length === 0 || !history.every(isChange)) return undefined
  const [first] = history
  const steps = history.map((change) => {
    const on = Predicate.hasProperty(change, "effective_date") ? ` (${String(change.effective_date)})` : ""
    return ` ${arrow} ${change.new_ticker}${on}`
  })
  return `${first?.old_ticker ?? ""}${steps.join("")}`
}

const text = (value: unknown, arrow: string): TableCell => {
  if (value === null || value === undefined) return null
  if (typeof value === "string") return value
  if (Array.isArray(value) && value.length > 0 && value.every(Predicate.isString)) return value.join(", ")
  return formatSymbolHistory(value, arrow) ?? JSON.stringify(value)
}

/** In the order in which they are sent; a column that only later rows have comes last. */
export const listColumnNames = (rows: ReadonlyArray<ResponseRow>) =>
  Array.from(new Set(rows.flatMap((row) => Object.keys(row))))

/** `columns` are taken as they are; one that no row has is empty. */
export const toTable = (
  rows: ReadonlyArray<ResponseRow>,
  columns: ReadonlyArray<string>,
  arrow: string,
): TableData => ({
  columns: columns.map((name): TableColumn => ({
    name,
    isNumber: rows.some((row) => JSON.isRawJSON(row[name])),
  })),
  rows: rows.map((row) => columns.map((name) => text(row[name], arrow))),
})
