/** Converts response bodies to table rows, and error responses to messages. */
import { Option, Predicate, Schema } from "effect"
import { getListAt, getTextAt } from "../../../site/browser/json-values.js"
import { CommandFailed } from "../CommandParts.ts"
import type { TableCell, TextTableColumn, TextTableData } from "../terminal/TextTable.ts"

function keepDigits(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }) {
  return typeof value === "number" ? JSON.rawJSON(context?.source ?? String(value)) : value
}

/** Parses JSON. Every number becomes a `JSON.rawJSON` value that preserves its digits (D16, decimals). */
export const parseJsonWithExactNumbers = (text: string): Option.Option<unknown> => {
  try {
    return Option.some(JSON.parse(text, keepDigits))
  } catch {
    return Option.none()
  }
}

/** A response row: maps column names to values. */
export type ResponseRow = Readonly<Record<string, unknown>>

const isRow = (value: unknown): value is ResponseRow => Predicate.isObject(value) && !Array.isArray(value)

const isRowList = (value: unknown): value is ReadonlyArray<ResponseRow> => Array.isArray(value) && value.every(isRow)

/** Returns the first list of rows in the body. If there is none, returns the body itself as the only row. */
export const extractResponseRows = (body: unknown): ReadonlyArray<ResponseRow> =>
  isRow(body) ? Object.values(body).find(isRowList) ?? [body] : []

const isSymbolChange = (value: unknown): value is { readonly old_ticker: string; readonly new_ticker: string } =>
  isRow(value) && typeof value["old_ticker"] === "string" && typeof value["new_ticker"] === "string"

/**
 * Formats a list of symbol changes, such as `OSTK → BYON (2023-11-06) → BBBY (2025-08-29)`. Returns undefined for any
 * other value.
 */
export const formatSymbolHistory = (history: unknown, arrow: string): string | undefined => {
  if (!Array.isArray(history) || history.length === 0 || !history.every(isSymbolChange)) return undefined
  const steps = history.map((change) => {
    const date = Predicate.hasProperty(change, "effective_date") ? ` (${String(change.effective_date)})` : ""
    return ` ${arrow} ${change.new_ticker}${date}`
  })
  return `${history[0]?.old_ticker ?? ""}${steps.join("")}`
}

const toCell = (value: unknown, arrow: string): TableCell => {
  if (value === null || value === undefined) return null
  if (typeof value === "string") return value
  if (Array.isArray(value) && value.length > 0 && value.every(Predicate.isString)) return value.join(", ")
  return formatSymbolHistory(value, arrow) ?? JSON.stringify(value)
}

/** Lists the column names in the order of their first appearance in the rows. */
export const listResponseColumnNames = (rows: ReadonlyArray<ResponseRow>) =>
  Array.from(new Set(rows.flatMap((row) => Object.keys(row))))

/** Builds a table with the given columns. A column that is missing from all rows is left empty. */
export const makeResponseTable = (
  rows: ReadonlyArray<ResponseRow>,
  columns: ReadonlyArray<string>,
  arrow: string,
): TextTableData => ({
  columns: columns.map((name): TextTableColumn => ({
    name,
    isNumber: rows.some((row) => JSON.isRawJSON(row[name])),
  })),
  rows: rows.map((row) => columns.map((name) => toCell(row[name], arrow))),
})

/** The body of an error response (§7.1, error body). */
const ErrorBody = Schema.Struct({
  error: Schema.Struct({
    code: Schema.String,
    message: Schema.String,
    details: Schema.optionalKey(Schema.Unknown),
  }),
  request_id: Schema.optionalKey(Schema.String),
})

const decodeErrorBody = Schema.decodeUnknownOption(ErrorBody)

/**
 * Returns a property as a number, or NaN if it is missing. The value is serialized first, because
 * `parseJsonWithExactNumbers` represents numbers as raw JSON.
 */
const getNumber = (value: unknown, name: string) =>
  Predicate.hasProperty(value, name) ? Number(JSON.stringify(value[name])) : Number.NaN

/** Formats one line for each company that an ambiguous symbol may refer to, with the company's symbol history. */
const formatCandidates = (symbol: unknown, arrow: string) => {
  const candidates = getListAt(symbol, "candidates")
  const lines = candidates.map((candidate) => {
    const history = Predicate.hasProperty(candidate, "history") ? candidate.history : undefined
    const cik = getTextAt(candidate, "cik")
    const company = [getTextAt(candidate, "company_name"), cik && `CIK ${cik}`].filter((part) => part !== undefined)
    const symbols = formatSymbolHistory(history, arrow) ?? getTextAt(candidate, "current_ticker") ?? "?"
    return `  ${symbols}   ${company.join(", ")}`.trimEnd()
  })
  const omitted = getNumber(symbol, "candidate_count") - candidates.length
  return omitted > 0 ? [...lines, `  There are ${omitted} more issuers.`] : lines
}

/** Formats the candidates for each ambiguous symbol, and how to choose one of them (§4.1, ambiguous lineage; D35). */
const formatAmbiguousSymbols = (details: unknown, arrow: string) => {
  const list = getListAt(details, "symbols")
  const symbols = list.length === 0 ? [details] : list
  const [choice] = symbols.flatMap((symbol) => {
    const [ticker, cik] = [getTextAt(symbol, "query_ticker"), getTextAt(getListAt(symbol, "candidates")[0], "cik")]
    return ticker === undefined || cik === undefined ? [] : [list.length === 0 ? `cik=${cik}` : `cik=${ticker}:${cik}`]
  })
  const advice = choice === undefined ? [] : [`Choose an issuer with its CIK, such as -p ${choice}`]
  return [...symbols.flatMap((symbol) => formatCandidates(symbol, arrow)), ...advice]
}

/**
 * Formats one line per invalid parameter. Returns no lines for a single invalid parameter, because the error message
 * already describes it.
 */
const formatInvalidParameters = (details: unknown) => {
  const fields = getListAt(details, "fields")
  if (fields.length < 2) return []
  return fields.map((field) => `  ${getTextAt(field, "field") ?? "?"}: ${getTextAt(field, "reason") ?? ""}`)
}

const keyHelp =
  "The key is read from --key-file, then from TICKERLINE_KEY. For the embedded database of this machine, " +
  "the demo key is the default until other data than the samples is loaded. Create a key with: tickerline keys create"

interface ErrorResponse {
  readonly status: number
  readonly text: string
  readonly retryAfterSeconds: number | null
}

const getAdvice = ({ retryAfterSeconds, status }: ErrorResponse) => {
  if (status === 401) return [keyHelp]
  return retryAfterSeconds === null ? [] : [`Try again in ${retryAfterSeconds} s.`]
}

/** Creates the error for an error response: the service's message, its details, and how to proceed. */
export const makeQueryErrorFromResponse = (response: ErrorResponse, arrow: string) => {
  const lines = Option.match(Option.flatMap(parseJsonWithExactNumbers(response.text), decodeErrorBody), {
    onNone: () => [
      `The response has status ${response.status} and does not come from Tickerline: ${response.text.slice(0, 200)}`,
    ],
    onSome: ({ error, request_id }) => [
      `${response.status} ${error.code}: ${error.message}`,
      ...formatInvalidParameters(error.details),
      ...formatAmbiguousSymbols(error.details, arrow),
      ...(response.status >= 500 && request_id !== undefined ? [`request_id ${request_id}`] : []),
    ],
  })
  return new CommandFailed({ message: [...lines, ...getAdvice(response)].join("\n") })
}
