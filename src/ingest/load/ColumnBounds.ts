/** D42 (plausible values): the bounds of columns, which the domains of the schema have, and columns of past days. */
import { Effect, SchemaAST } from "effect"
import { SqlClient } from "effect/sql"
import { catalogueEndpoints } from "../../api/catalogue/Endpoints.ts"
import type { LoadableDataset, RowCells } from "../../contract/Datasets.ts"
import { printedOffset, tomorrowInNewYork } from "../../contract/rules/Dates.ts"
import type { CellProblem } from "./FileReader.ts"

/** The least and the greatest value of a domain, as PostgreSQL writes them. */
export interface Bounds {
  readonly least: string
  readonly greatest: string
}

/** Reads the bounds of a domain over numbers, days or times. */
export const readDomainBounds = Effect.fnUntraced(function* (domain: string) {
  const sql = yield* SqlClient.SqlClient
  const [bounds] = yield* sql<Bounds>`select least, greatest from domain_bounds where domain = ${domain}::regtype`
  return yield* Effect.orDie(Effect.fromNullishOr(bounds))
})

const timePattern = /^(\d{4}-\d\d-\d\d)(?:[ T]([\d:.]+))?(Z|[+-][\d:]+)?$/

/** Converts a number, a day or a time to a number that can be compared. Without a zone, a time counts as one of UTC. */
const toComparable = (text: string) => {
  const [, day, clock = "00:00:00", zone = "Z"] = timePattern.exec(text) ?? []
  return day === undefined ? Number(text) : Date.parse(`${day}T${clock}${/^.\d\d$/.test(zone) ? `${zone}:00` : zone}`)
}

/** Returns the end of a day in the column with this bound. The days of instants are those at -05:00 (§2.1). */
const getEndOfDay = (day: string, bound: string) =>
  toComparable(`${day}T23:59:59.999${/[+-]\d\d$/.test(bound.slice(10)) ? printedOffset.text : "Z"}`)

/** Returns the columns of a dataset in which days after tomorrow are refused: filters refuse days after today. */
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

/** Finds the values of a valid row that are outside of the bounds of their columns. */
export type BoundsCheck = (cells: RowCells) => ReadonlyArray<CellProblem>

/** Makes the check for the columns that a dataset's table has in this database. */
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
