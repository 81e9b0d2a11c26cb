/**
 * Checks that the values of a row are plausible (D42): each value must be within the bounds of its column's domain, and
 * columns for past days must not contain days after tomorrow.
 */
import { Effect, SchemaAST } from "effect"
import { SqlClient } from "effect/sql"
import { catalogueEndpoints } from "../../api/catalogue/Endpoints.ts"
import type { LoadableDataset, RowCells } from "../../contract/Datasets.ts"
import { completeOffset } from "../../contract/rows/Timestamps.ts"
import { printedOffset, tomorrowInNewYork } from "../../contract/rules/Dates.ts"
import type { CellProblem } from "./FileReader.ts"

/** The smallest and largest value that a domain accepts, as PostgreSQL prints them. */
export interface Bounds {
  readonly least: string
  readonly greatest: string
}

/** Reads the bounds of a domain of numbers, dates or times, such as `price`. Dies if the domain does not exist. */
export const readDomainBounds = Effect.fnUntraced(function* (domain: string) {
  const sql = yield* SqlClient.SqlClient
  const [bounds] = yield* sql<Bounds>`select least, greatest from domain_bounds where domain = ${domain}::regtype`
  return yield* Effect.orDie(Effect.fromNullishOr(bounds))
})

/** Matches a date or a time. The groups are the date, the time of day and the UTC offset. */
const timePattern = /^(\d{4}-\d\d-\d\d)(?:[ T]([\d:.]+))?(Z|[+-][\d:]+)?$/

/**
 * Converts a number, a date or a time to a number, so that values of the same column can be compared. A time without an
 * offset is read as UTC. This does not affect comparisons, because then no time in the column has an offset.
 */
const toComparable = (text: string) => {
  const [, day, clock = "00:00:00", offset = "Z"] = timePattern.exec(text) ?? []
  if (day === undefined) return Number(text)
  return Date.parse(`${day}T${clock}${completeOffset(offset)}`)
}

/**
 * Returns the end of a day as a number comparable with the results of `toComparable`. `bound` is the column's lower
 * bound. If it has an offset, the column contains instants, whose days are counted at -05:00 (§2.1).
 */
const getEndOfDay = (day: string, bound: string) =>
  toComparable(`${day}T23:59:59.999${/[+-]\d\d$/.test(bound.slice(10)) ? printedOffset.text : "Z"}`)

/**
 * Returns the columns of a dataset that describe past days: `pastColumns`, and the columns whose API filters reject
 * future days. In these columns, `load` rejects days after tomorrow.
 */
const findPastColumns = ({ pastColumns = [], row, table }: LoadableDataset) => {
  const filters = catalogueEndpoints.filter(({ tables }) => tables.includes(table)).flatMap(({ query }) =>
    query !== undefined && SchemaAST.isObjects(query.ast)
      ? query.ast.propertySignatures.map(({ type }) => SchemaAST.resolve(type)?.filter)
      : []
  )
  const filtered = filters.flatMap((filter) =>
    filter !== undefined && "refusesFuture" in filter && filter.column !== undefined ? [filter.column] : []
  )
  return new Set([...pastColumns, ...filtered].filter((name) => Object.hasOwn(row.fields, name)))
}

/** Checks a decoded row and returns a problem for each value outside the bounds of its column. */
export type BoundsCheck = (cells: RowCells) => ReadonlyArray<CellProblem>

/**
 * Creates the bounds check for a dataset: a function that returns a problem for each value outside the bounds of its
 * column, and for each day after tomorrow in a column for past days. Reads the bounds from the domains of the table's
 * columns in this database.
 */
export const makeBoundsCheck = Effect.fnUntraced(function* (dataset: LoadableDataset) {
  const sql = yield* SqlClient.SqlClient
  const columns = yield* sql<Bounds & { readonly name: string }>`
    select attname as name, least, greatest from pg_attribute join domain_bounds on domain = atttypid
    where attrelid = ${`public.${dataset.table}`}::regclass and attnum > 0 order by attnum
  `
  const tomorrow = yield* tomorrowInNewYork
  const pastColumns = findPastColumns(dataset)
  const bounded = columns.map(({ greatest, least, name }) => ({
    name,
    reason: `must be from ${least} to ${greatest}`,
    least: toComparable(least),
    greatest: toComparable(greatest),
    // A column that may contain future days has no latest value. The lower bound shows whether the column contains
    // instants, whose days begin at -05:00.
    latest: pastColumns.has(name) ? getEndOfDay(tomorrow, least) : Infinity,
  }))
  const check: BoundsCheck = (cells) =>
    bounded.flatMap(({ greatest, latest, least, name, reason }) => {
      const cell = cells[name]
      if (typeof cell !== "string") return []
      const value = toComparable(cell)
      if (value < least || value > greatest) return [{ column: name, reason }]
      return value > latest ? [{ column: name, reason: `must not be after tomorrow, ${tomorrow}, in New York` }] : []
    })
  return check
})
