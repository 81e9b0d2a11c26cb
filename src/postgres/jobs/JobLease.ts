/**
 * Leases that ensure that only one process runs a job at a time. A lease is a row with a holder and an expiry time.
 * Each operation is a single statement, so leases work through poolers in transaction mode. The rows are replicated, so
 * leases survive the promotion of a standby.
 */
import { Duration, Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { decodeRows } from "../DecodeRows.ts"

/** How long a lease stays valid after its last renewal. After that, another process may take it. */
const leaseDuration = Duration.seconds(5)
/** How often a process renews its leases and tries to take free leases. */
export const jobLeaseRenewalInterval = Duration.seconds(1)

/**
 * How long the holder relies on a lease after requesting its renewal, in monotonic milliseconds. This is one second
 * shorter than the lease itself, which allows the clock of a promoted standby to be up to one second fast.
 */
export const jobLeaseHolderTtlMillis = Duration.toMillis(Duration.seconds(4))

const decodeNames = decodeRows(Schema.Struct({ name: Schema.String }))

/**
 * Creates the statements that declare, take and release leases on behalf of the process `holder`, whose id is a UUID.
 * The table `leases` has one row per job. A process holds a job's lease while `holder` is its id and `until` is in the
 * future; the lease is free if `holder` is null or `until` has passed.
 */
export const makeJobLeaseStatements = (sql: SqlClient.SqlClient, holder: string) => {
  const isHeldByProcess = sql`holder = ${holder}::text::uuid`

  /** Inserts a row without a holder for each job that does not have a row yet. */
  const declare = (names: ReadonlyArray<string>) =>
    sql`insert into leases (name) select unnest(${names}::text[]) on conflict do nothing`

  /**
   * Renews this process's leases and takes free or expired ones. Returns the names of all leases that this process now
   * holds.
   */
  const take = (names: ReadonlyArray<string>) =>
    Effect.map(
      decodeNames(sql`
        update leases set holder = ${holder}::text::uuid,
          until = now() + make_interval(secs => ${Duration.toSeconds(leaseDuration)}::float8)
        where name = any(${names}::text[]) and (${isHeldByProcess} or holder is null or until <= now())
        returning name
      `),
      (rows) => rows.map(({ name }) => name),
    )

  /** Frees this process's leases, so that other processes can take them immediately. */
  const release = (names: ReadonlyArray<string>) =>
    sql`update leases set holder = null, until = now() where name = any(${names}::text[]) and ${isHeldByProcess}`

  /** Returns an SQL condition that is true only while this process holds the lease, by the database's clock. */
  const holderCondition = (name: string) =>
    sql`exists (select from leases where name = ${name} and ${isHeldByProcess} and until > now())`

  return { declare, take, release, holderCondition }
}
