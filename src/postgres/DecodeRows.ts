/** Validates database rows that affect money, limits or access. */
import { Effect, Schema } from "effect"

/** Decodes the rows returned by a query. A row that does not match the schema indicates a bug and becomes a defect. */
export const decodeRows = <A, I>(Row: Schema.Codec<A, I>) => {
  const decode = Schema.decodeUnknownEffect(Schema.Array(Row))
  return <E, R>(query: Effect.Effect<ReadonlyArray<object>, E, R>) =>
    Effect.flatMap(query, (rows) => Effect.orDie(decode(rows)))
}

/**
 * Decodes rows that are arrays of values. The statement must select the columns in the order of the schema's fields.
 */
export const decodePositionalRows = <A, I>(Row: Schema.Codec<A, I> & { readonly fields: object }) => {
  const decode = decodeRows(Row)
  const names = Object.keys(Row.fields)
  return <E, R>(query: Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>, E, R>) =>
    decode(
      Effect.map(query, (rows) =>
        rows.map((values) => Object.fromEntries(names.map((name, index) => [name, values[index]])))),
    )
}
