/** Whether the servers of `DATABASE_READ_URLS` are replicas of the primary, and keep up with it. */
import { Duration, Effect, Predicate, type Redacted, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { makePoll } from "../../db/replicas/ServerState.ts"
import type { ReplicaUrls } from "../../db/replicas/ReadRouter.ts"
import { readOnlyConnection } from "./DatabaseChecks.ts"
import { failed, passed, runCheck, skipped, warned } from "./Finding.ts"

type Named = Effect.Success<typeof ReplicaUrls>[number]

const facts = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* sql<{ readonly system: string }>`
    select system_identifier::text as system from pg_control_system()
  `
  return { look: yield* makePoll(sql), system: server?.system }
})

const megabytes = (bytes: number) => `${(bytes / 1_048_576).toFixed(1)} MiB`

/** In the server's words: those for a lost connection elsewhere name `DATABASE_URL`. */
const whyOf = (error: { readonly message: string }) => {
  const cause = SqlError.isSqlError(error) ? error.reason.cause : undefined
  return Predicate.hasProperty(cause, "message") && cause.message !== "" ? String(cause.message) : error.message
}

/** Time to replay what the primary has just written. */
const catchUpTimeout = Duration.seconds(1)

const checkOne = (name: string, { look: primary, system }: Effect.Success<typeof facts>) =>
  Effect.gen(function* () {
    const replica = yield* facts
    if (replica.system !== system) {
      return failed(name, "it belongs to another cluster than DATABASE_URL", "Name replicas of that primary only.")
    }
    if (!replica.look.is_replica) {
      return warned(name, "it is no replica, so it is not used", "Name the primary in DATABASE_URL alone.")
    }
    const unwatched = Array.from(primary.datasets.keys()).filter((dataset) => !replica.look.datasets.has(dataset))
    if (replica.look.datasets.size === 0 || unwatched.length === primary.datasets.size) {
      return failed(name, "it has none of the datasets", "See whether the URL names the right database, and replays.")
    }
    const sql = yield* SqlClient.SqlClient
    const target = primary.wal_position ?? 0
    const behind = Effect.map(makePoll(sql), ({ wal_position }) => target - (wal_position ?? 0))
    const left = yield* behind.pipe(
      Effect.repeat({
        until: (bytes) => bytes <= 0,
        schedule: Schedule.upTo(Schedule.spaced("50 millis"), { duration: catchUpTimeout }),
      }),
    )
    return left <= 0
      ? passed(name, `it keeps up: what the primary wrote is here within ${Duration.format(catchUpTimeout)}`)
      : warned(
        name,
        `it is ${megabytes(left)} of WAL behind after ${
          Duration.format(catchUpTimeout)
        }, so it is not used where data change`,
        "See pg_stat_replication on the primary, and what replay waits for: a query, or its resumption.",
      )
  })

/** A line for each; what one does not answer keeps nobody from the others. */
export const checkReplicas = Effect.fnUntraced(function* (url: Redacted.Redacted, named: ReadonlyArray<Named>) {
  if (named.length === 0) return []
  const primary = yield* Effect.provide(facts, readOnlyConnection(url))
  if (primary.look.is_replica) return [skipped("replicas", "DATABASE_URL names no primary to compare them with")]
  const found = yield* Effect.forEach(
    named,
    (one) =>
      runCheck({
        name: `replica ${one.name}`,
        advice:
          "Start it, or set DATABASE_READ_URLS right: postgres://user:password@host:port/database, each a server.",
        effect: checkOne(`replica ${one.name}`, primary).pipe(
          Effect.provide(readOnlyConnection(one.url)),
          Effect.mapError((error) => ({ message: whyOf(error) })),
        ),
      }),
    { concurrency: "unbounded" },
  )
  return found.flat()
})
