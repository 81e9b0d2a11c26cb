/**
 * Tests that both the schema and the complete series of migrations create what `sql/description.txt` describes, on each
 * PostgreSQL version.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { runMigrations } from "../../../src/postgres/migrations/Migrations.ts"
import {
  describeSchema,
  formatSchemaDescription,
  readExpectedSchema,
} from "../../../src/postgres/migrations/SchemaDescription.ts"
import { makeEmptyDatabase, withDatabase } from "../../support/MigrationDatabases.ts"

layer(NodeServices.layer, { excludeTestServices: true })("The schema", (it) => {
  it.effect("has the objects of sql/description.txt, which `-u` updates (CONTRIBUTING.md)", () =>
    Effect.gen(function* () {
      const url = yield* makeEmptyDatabase
      const made = yield* withDatabase(url, Effect.andThen(runMigrations, describeSchema))
      const text = formatSchemaDescription(made)
      yield* Effect.promise(() => expect(text).toMatchFileSnapshot("../../../sql/description.txt"))
      assert.deepStrictEqual(yield* readExpectedSchema, made)
    }))
})
