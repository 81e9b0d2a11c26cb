/**
 * Leases that make each job run in one process: a row per job, with its holder and expiry. A step is one statement, so
 * it works through poolers in transaction mode. The rows are replicated, so leases survive the promotion of a standby.
 */
import { Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { decodeRows } from "../DecodeRows.ts"

/** How long a lease is valid after its last renewal. After that, another process may take it. */
const leaseDuration = Duration.seconds(5)
export const jobLeaseRenewalInterval = Duration.seconds(1)

/**
 * How long the holder relies on a lease after requesting its renewal, ms (monotonic clock). Shorter than the lease by
 * a second, so that the clock of a promoted standby may be fast by a second.
 */
export const jobLeaseHolderTtlMillis = Duration.toMillis(Duration.seconds(4))

const decodeNames = decodeRows(Schema.Struct({ name: Schema.String }))

export const makeJobLeaseStatements = (sql: SqlClient.SqlClient, holder: string) => {
  const isMine = sql`holder = ${holder}::text::uuid`

  /** Inserts a row without a holder for each job that has no row yet. */
  const declare = (names: ReadonlyArray<string>) =>
    sql`insert into leases (name) select unnest(${names}::text[]) on conflict do nothing`

  /** Renews the leases of this process, and takes free or expired ones. Returns the names of all that it now holds. */
  const take = (names: ReadonlyArray<string>) =>
    Effect.map(
      decodeNames(sql`
        update leases set holder = ${holder}::text::uuid,
          until = now() + make_interval(secs => ${Duration.toSeconds(leaseDuration)}::float8)
        where name = any(${names}::text[]) and (${isMine} or holder is null or until <= now())
        returning name
      `),
      (rows) => rows.map(({ name }) => name),
    )

  const release = (names: ReadonlyArray<string>) =>
    sql`update leases set holder = null, until = now() where name = any(${names}::text[]) and ${isMine}`

  /** SQL condition that is true only while this process holds the lease, by the database's clock. */
  const holderCondition = (name: string) =>
    sql`exists (select from leases where name = ${name} and ${isMine} and until > now())`

  return { declare, take, release, holderCondition }
}
