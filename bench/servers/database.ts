/**
 * The connection pool of the handwritten servers. Numbers are returned as floats, and dates and timestamps as strings.
 * The driver is `pg`, or postgres.js if DRIVER=postgres is set.
 */
import process from "node:process"
import pg from "pg"
import postgres from "postgres"

const { builtins } = pg.types

const asText = (text: string) => text

const parsers = new Map<number, (text: string) => unknown>([
  [builtins.INT8, Number],
  [builtins.NUMERIC, Number],
  [builtins.DATE, asText],
  [builtins.TIMESTAMP, asText],
])

const connectionString = process.env["DATABASE_URL"] ?? ""
/** The number of connections in the pool. */
const max = 10

/** A row: maps column names to values. */
export type Row = Record<string, unknown>

/** Runs a named statement. Each connection prepares the statement only once. */
type StatementRunner = (name: string, text: string, values: ReadonlyArray<unknown>) => Promise<ReadonlyArray<Row>>

const connectWithPg = (): StatementRunner => {
  const pool = new pg.Pool({
    connectionString,
    max,
    types: {
      getTypeParser: (oid, format) => parsers.get(oid) ?? pg.types.getTypeParser(oid, format),
    },
  })
  return async (name, text, values) => (await pool.query<Row>({ name, text, values: [...values] })).rows
}

/**
 * Connects with postgres.js, which pipelines statements on a connection and identifies a prepared statement by its
 * text.
 */
const connectWithPostgresJs = (): StatementRunner => {
  const sql = postgres(connectionString, {
    max,
    types: {
      number: { to: builtins.NUMERIC, from: [builtins.INT8, builtins.NUMERIC], serialize: String, parse: Number },
      text: { to: builtins.DATE, from: [builtins.DATE, builtins.TIMESTAMP], serialize: String, parse: asText },
    },
  })
  return (_, text, values) => sql.unsafe<Array<Row>>(text, values.map(String), { prepare: true })
}

/** Runs a named statement with the selected driver. */
export const runNamedStatement = process.env["DRIVER"] === "postgres" ? connectWithPostgresJs() : connectWithPg()
