/**
 * Tests that logs and messages about failed statements contain PostgreSQL's reason but no values
 * (operations/monitoring).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Cause, ConfigProvider, Console, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { format } from "node:util"
import { reportCommandFailure } from "../../../src/operate/cli/ErrorReport.ts"
import { stderrLoggingLayer } from "../../../src/operate/cli/Logging.ts"
import * as Service from "../../support/Service.ts"

const secret = "hunter2"

/**
 * Statements that fail because of a secret value, each with the reason that the message must still contain.
 * PostgreSQL's own message or detail contains the value.
 */
const failingStatements = [
  { statement: `select '${secret}'::int`, reason: "invalid input syntax for type integer" },
  { statement: `select 'a"${secret}"b'::date`, reason: "invalid input syntax for type date" },
  { statement: `select '{${secret}'::json`, reason: "invalid input syntax for type json" },
  { statement: `select '${secret}-13-45'::timestamptz`, reason: "invalid input syntax for type timestamp" },
  { statement: `select to_date('${secret}', 'YYYY')`, reason: "invalid value" },
  { statement: `select 1 ${secret} ${secret}`, reason: "syntax error at or near" },
  { statement: `do $$ begin raise 'no "%"', '${secret}'; end $$`, reason: "no" },
  {
    statement: `insert into accounts (name, tier) values ('${secret}', '${secret}')`,
    reason: `violates check constraint "accounts_tier_check"`,
  },
  {
    statement: `insert into accounts (name, tier) values ('${secret}', 'pro'), ('${secret}', 'pro')`,
    reason: `duplicate key value violates unique constraint "accounts_name_key"`,
  },
  { statement: `select from no_such_table where x = '${secret}'`, reason: `relation "no_such_table" does not exist` },
  { statement: `set statement_timeout = '${secret}'`, reason: "invalid value for parameter" },
  { statement: `select set_config('role', 'no-role', false) || '${secret}'`, reason: "does not exist" },
]

/** Runs an effect and returns what it writes to the console. */
const collect = Effect.fnUntraced(function* (effect: Effect.Effect<unknown, never, NodeServices.NodeServices>) {
  const written: Array<string> = []
  const write = (...words: ReadonlyArray<unknown>) => void written.push(format(...words))
  yield* Effect.provideService(effect, Console.Console, {
    ...console,
    log: write,
    error: write,
    warn: write,
    group: write,
    groupCollapsed: write,
  })
  return written.join("\n")
})

layer(Layer.merge(Service.migratedDatabaseLayer, NodeServices.layer).pipe(Layer.provideMerge(NodeServices.layer)), {
  excludeTestServices: true,
})("logging", (it) => {
  it.effect.each(failingStatements)(
    "names the reason of $statement, but no value of it (operations/monitoring)",
    ({ reason, statement }) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const error = yield* Effect.flip(sql.unsafe(statement))
        const causes = [Cause.fail(error), Cause.die(error), Cause.die(new Error("outside", { cause: error }))]
        const logged = Effect.forEach(causes, (cause) =>
          Effect.gen(function* () {
            yield* Effect.logWarning("failed", cause)
            yield* Effect.logWarning("failed", Cause.squash(cause))
            yield* Effect.logWarning(Cause.squash(cause))
          }), { discard: true })
        const outputs = [
          ...(yield* Effect.forEach(["json", "pretty"], (LOG_FORMAT) =>
            collect(logged.pipe(
              Effect.provide(
                Layer.provide(stderrLoggingLayer, ConfigProvider.layer(ConfigProvider.fromUnknown({ LOG_FORMAT }))),
              ),
              Effect.orDie,
            )))),
          ...(yield* Effect.forEach(causes, (cause) => collect(reportCommandFailure(cause)))),
        ]
        // The log in two formats, and one failure report for each of the three causes.
        assert.lengthOf(outputs, 5)
        for (const output of outputs) {
          assert.include(output.replaceAll('\\"', '"'), reason)
          assert.notInclude(output, secret)
          assert.notInclude(output, "Query failed")
        }
      }),
  )
})
