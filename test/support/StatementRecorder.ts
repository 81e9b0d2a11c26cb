/**
 * Records the statements that requests and streams send to PostgreSQL.
 *
 * ```ts
 * const recorded = Layer.provideMerge(Service.layer, StatementRecorder.layer)
 * layer(recorded, { excludeTestServices: true })("A page of news", (it) => {
 *   it.effect("uses an index (§8)", () =>
 *     Effect.gen(function* () {
 *       const plan = yield* StatementRecorder.explainRequest(requestRows("ticker=ABC"), "from news")
 *       assert.include(JSON.stringify(plan), "Index")
 *     }))
 * })
 * ```
 */
import { Context, Effect, Layer } from "effect"
import { SqlClient, Statement } from "effect/sql"

/** A statement that was sent to PostgreSQL. */
export interface SentStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<unknown>
}

/** The statements sent so far. */
class Statements extends Context.Service<Statements, Array<SentStatement>>()("test/support/Statements") {}

/** Matches the service's background statements: polls, jobs, rate limits and usage. */
const backgroundStatement = new RegExp(
  [
    "dataset_versions",
    "pg_postmaster_start_time",
    "pg_try_advisory_xact_lock_shared",
    "rate_limit_buckets",
    "insert into usage",
    "usage_partition",
    "settle_usage",
    "set last_used_at",
    "leases",
    "history\\.(counting_place|start_day|start_month)",
    "edgar_place_due_companies",
    // The statement that loads the ticker changes into memory.
    "json_build_array\\(old_ticker",
    "extract\\(epoch from now\\(\\)\\)",
  ].join("|"),
)

/**
 * Records the statements that requests and streams send. The service and the test must be provided with the same layer.
 */
export const layer = Layer.unwrap(Effect.sync(() => {
  const seen: Array<SentStatement> = []
  const record: Statement.Transformer = (statement) =>
    Effect.sync(() => {
      const [text, parameters] = statement.compile()
      if (!backgroundStatement.test(text)) seen.push({ text, parameters })
      return statement
    })
  return Layer.merge(Layer.succeed(Statements, seen), Layer.succeed(Statement.CurrentTransformer, record))
}))

/** Runs a request. Returns its result and the statements that it sent. */
export const recordStatements = Effect.fnUntraced(function* <A, E, R>(request: Effect.Effect<A, E, R>) {
  const seen = yield* Statements
  seen.length = 0
  const result = yield* request
  return { result, sent: Array.from(seen) }
})

/** Returns the plan of a statement: the row that `explain` returns. */
export const explainStatement = Effect.fnUntraced(function* ({ parameters, text }: SentStatement, how = "format json") {
  const sql = yield* SqlClient.SqlClient
  const [plan] = yield* sql.unsafe(`explain (${how}) ${text}`, parameters)
  return plan
})

/** Runs a request. Returns the plan of its first statement that contains `words`. */
export const explainRequest = Effect.fnUntraced(
  function* <A, E, R>(request: Effect.Effect<A, E, R>, words: string, how?: string) {
    const { sent } = yield* recordStatements(request)
    const statement = sent.find(({ text }) => text.includes(words))
    if (statement === undefined) return yield* Effect.die(new Error(`no statement has ${words}`))
    return yield* explainStatement(statement, how)
  },
)

/**
 * Executes a prepared statement repeatedly on one connection. Returns how often PostgreSQL used a custom plan instead
 * of a generic one.
 */
export const countCustomPlans = Effect.fnUntraced(function* ({ parameters, text }: SentStatement, executions: number) {
  const sql = yield* SqlClient.SqlClient
  const execute = Effect.replicateEffect(sql.unsafe(text, parameters), executions)
  const readPlans = sql<{ readonly custom_plans: number }>`
    select custom_plans::int from pg_prepared_statements where statement = ${text}
  `
  const [found] = yield* sql.withTransaction(Effect.andThen(execute, readPlans))
  return found?.custom_plans
})
