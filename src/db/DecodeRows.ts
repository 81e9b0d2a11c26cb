/** Rows that decide about money, limits or rights are checked before anything relies on them. */
import { Effect, Schema } from "effect"

/** Decodes the rows of a statement. A row of another shape is a mistake of this program, so it is a defect. */
export const decodeRows = <A, I>(Row: Schema.Codec<A, I>) => {
  const decode = Schema.decodeUnknownEffect(Schema.Array(Row))
  return <E, R>(rows: Effect.Effect<ReadonlyArray<object>, E, R>) =>
    Effect.flatMap(rows, (found) => Effect.orDie(decode(found)))
}
