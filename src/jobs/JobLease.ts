/**
 * Who does what is done once: a row for each job says who holds it, and until when. Each step is a statement of its
 * own, so it needs no session and works through a pooler that lends connections by the transaction; and since the row
 * is replicated with all others, a standby that is promoted knows who holds what.
 */
import { Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { decodeRows } from "../db/DecodeRows.ts"

/** For how long a lease is taken: so long after it was renewed last another process takes it. */
export const leaseDuration = Duration.seconds(5)
export const renewalInterval = Duration.seconds(1)

/**
 * For how long its holder goes by it, from before it asked, on a clock that nobody sets. The second between lets the
 * clock of a promoted standby be wrong by as much.
 */
export const holderTtl = Duration.toMillis(Duration.seconds(4))

const decode = decodeRows(Schema.Struct({ name: Schema.String }))

export const makeLeaseStatements = (sql: SqlClient.SqlClient, holder: string) => {
  const mine = sql`holder = ${holder}::text::uuid`

  /** A row for each name, which has no holder yet. */
  const declare = (names: ReadonlyArray<string>) =>
    sql`insert into leases (name) select unnest(${names}::text[]) on conflict do nothing`

  /** Those of the names that are this process's now: renewed, released by others, or run out. Locks no other row. */
  const take = (names: ReadonlyArray<string>) =>
    Effect.map(
      decode(sql`
        update leases set holder = ${holder}::text::uuid,
          until = now() + make_interval(secs => ${Duration.toSeconds(leaseDuration)}::float8)
        where name = any(${names}::text[]) and (${mine} or holder is null or until <= now())
        returning name
      `),
      (rows) => rows.map(({ name }) => name),
    )

  const release = (names: ReadonlyArray<string>) =>
    sql`update leases set holder = null, until = now() where name = any(${names}::text[]) and ${mine}`

  /** A condition for statements that only the holder may make, whatever it believes. */
  const held = (name: string) => sql`exists (select from leases where name = ${name} and ${mine} and until > now())`

  return { declare, take, release, held }
}
