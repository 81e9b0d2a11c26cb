/**
 * Checks that values are plausible (D42): within the bounds of the column's domain in the schema and, in columns for
 * past days, not after tomorrow.
 */
import { Effect, SchemaAST } from "effect"
import { SqlClient } from "effect/sql"
import { catalogueEndpoints } from "../../api/catalogue/Endpoints.ts"
import type { LoadableDataset, RowCells } from "../../contract/Datasets.ts"
import { printedOffset, tomorrowInNewYork } from "../../contract/rules/Dates.ts"
import type { CellProblem } from "./FileReader.ts"

/** The smallest and the greatest value that a domain accepts, as PostgreSQL prints them. */
export interface Bounds {
  readonly least: string
  readonly greatest: string
}

/** Reads the bounds of a domain of numbers, days or times, such as `price`. Dies if there is no such domain. */
export const readDomainBounds = Effect.fnUntraced(function* (domain: string) {
  const sql = yield* SqlClient.SqlClient
  const [bounds] = yield* sql<Bounds>`select least, greatest from domain_bounds where domain = ${domain}::regtype`
  return yield* Effect.orDie(Effect.fromNullishOr(bounds))
})

/** Matches a day or a time. The groups: the day, the time of day, the offset from UTC. */
const timePattern = /^(\d{4}-\d\d-\d\d)(?:[ T]([\d:.]+))?(Z|[+-][\d:]+)?$/

/**
 * Converts a number, a day or a time to a number, so that values of the same column can be compared. A time without an
 * offset is taken as UTC, which makes no difference, because then all times of the column are.
 */
const toComparable = (text: string) => {
  const [, day, clock = "00:00:00", offset = "Z"] = timePattern.exec(text) ?? []
  if (day === undefined) return Number(text)
  // PostgreSQL prints whole hours as `+00`, which Date.parse does not accept.
  return Date.parse(`${day}T${clock}${/^.\d\d$/.test(offset) ? `${offset}:00` : offset}`)
}

/**
 * Returns the end of a day, in the form of `toComparable`, for a column with the lower bound `bound`. If the bound
 * has an offset, the column contains instants, and their days are counted at -05:00 (§2.1).
 */
const getEndOfDay = (day: string, bound: string) =>
  toComparable(`${day}T23:59:59.999${/[+-]\d\d$/.test(bound.slice(10)) ? printedOffset.text : "Z"}`)

/**
 * Returns the columns of a dataset that are for past days: those whose filters in the API refuse future days, and
 * `pastColumns`. In them, `load` refuses days after tomorrow.
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

/** Returns a problem for each value of a decoded row that is outside the bounds of its column. */
export type BoundsCheck = (cells: RowCells) => ReadonlyArray<CellProblem>

/** Creates the check for a dataset, with the bounds of its table in this database. */
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
