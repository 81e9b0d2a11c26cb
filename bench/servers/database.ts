/** A `pg` pool that returns numbers as floats, and dates and times as text. */
import process from "node:process"
import pg from "pg"

const { builtins } = pg.types

const asText = (text: string) => text

const parsers = new Map<number, (text: string) => unknown>([
  [builtins.INT8, Number],
  [builtins.NUMERIC, Number],
  [builtins.DATE, asText],
  [builtins.TIMESTAMP, asText],
])

export const pool = new pg.Pool({
  connectionString: process.env["DATABASE_URL"],
  max: 10,
  types: {
    getTypeParser: (oid, format) => parsers.get(oid) ?? pg.types.getTypeParser(oid, format),
  },
})

export type Row = Record<string, unknown>

/** Runs a named statement, which each connection prepares once. */
export const runNamedStatement = async (
  name: string,
  text: string,
  values: ReadonlyArray<unknown>,
): Promise<ReadonlyArray<Row>> => {
  const { rows } = await pool.query<Row>({ name, text, values: [...values] })
  return rows
}
