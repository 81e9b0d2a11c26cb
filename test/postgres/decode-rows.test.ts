/** Tests that rows that affect billing, limits or access are validated when they are read (D18). */
import { assert, it } from "@effect/vitest"
import { Arbitrary, Cause, Effect, Exit, Option, Schema } from "effect"
import { decodeRows } from "../../src/postgres/DecodeRows.ts"

const Row = Schema.Struct({ account_id: Schema.String, used: Schema.Finite })
const decode = decodeRows(Row)

it.effect.prop(
  "decodeRows returns rows that match the schema unchanged (D18)",
  { rows: Arbitrary.schema(Schema.Array(Row)) },
  ({ rows }) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* decode(Effect.succeed(rows)), rows)
    }),
)

it.effect("decodeRows dies on a row that does not match the schema, so that no caller uses the row (D18)", () =>
  Effect.gen(function* () {
    const wrong = [{}, { account_id: "1" }, { account_id: 1n, used: 1 }, { account_id: "1", used: null }, {
      account_id: "1",
      used: NaN,
    }, { account_id: "1", used: "5" }]
    for (const row of wrong) {
      const exit = yield* Effect.exit(decode(Effect.succeed([{ account_id: "1", used: 1 }, row])))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause), JSON.stringify(Object.keys(row)))
    }
    const failed = yield* Effect.exit(decode(Effect.fail("no connection")))
    assert.deepStrictEqual(
      Exit.getCause(failed).pipe(Option.flatMap(Cause.findErrorOption)),
      Option.some("no connection"),
    )
  }))
