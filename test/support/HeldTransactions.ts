/**
 * Transactions that stay open until a test commits them.
 *
 * ```ts
 * const { commit } = yield* beginTransaction(sql`lock table news`)
 * const waiting = yield* Effect.forkChild(requestJson("/v1/news"))
 * yield* waitUntilBlocked
 * yield* commit
 * assert.strictEqual((yield* Fiber.join(waiting)).status, 200)
 * ```
 */
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Runs `write` in a transaction and leaves the transaction open. `commit` commits it and waits until it has committed.
 */
export const beginTransaction = Effect.fnUntraced(function* <E>(write: Effect.Effect<unknown, E, SqlClient.SqlClient>) {
  const sql = yield* SqlClient.SqlClient
  const [written, released] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const transaction = Effect.gen(function* () {
    yield* write
    yield* Deferred.succeed(written, undefined)
    yield* Deferred.await(released)
  })
  const fiber = yield* Effect.forkChild(sql.withTransaction(transaction))
  yield* Effect.raceFirst(Deferred.await(written), Effect.asVoid(Fiber.join(fiber)))
  return { commit: Effect.andThen(Deferred.succeed(released, undefined), Fiber.join(fiber)) }
})

/** Waits until at least `count` sessions are blocked by other transactions. */
export const waitUntilSessionsAreBlocked = Effect.fnUntraced(function* (count: number) {
  const sql = yield* SqlClient.SqlClient
  const blocked = sql`
    select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
  `
  yield* Effect.repeat(blocked, { until: (rows) => rows.length >= count })
})

/** Waits until a session is blocked by another transaction. */
export const waitUntilBlocked = waitUntilSessionsAreBlocked(1)
