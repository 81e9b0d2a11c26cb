/** Validates rows that affect money, limits or permissions. */
import { Effect, Schema } from "effect"

/** Decodes the rows of a query. A row that does not match the schema is a bug, so it becomes a defect. */
export const decodeRows = <A, I>(Row: Schema.Codec<A, I>) => {
  const decode = Schema.decodeUnknownEffect(Schema.Array(Row))
  return <E, R>(query: Effect.Effect<ReadonlyArray<object>, E, R>) =>
    Effect.flatMap(query, (rows) => Effect.orDie(decode(rows)))
}
