/**
 * D18: an account's running minute, which all processes count together in PostgreSQL: the statement by which a process
 * takes permits of it, and gives back those that it does not need.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { arrayParameter, OID } from "../../db/ArrayParameters.ts"
import { decodeRows } from "../../db/DecodeRows.ts"

/** What a process asks of an account's window. */
export interface Wish {
  readonly account_id: string
  /** Requests a minute. */
  readonly limit: number
  /** Requests that wait: as many permits are given as are left. */
  readonly needed: number
  /** What requests to come may need: of that no more is given than a sixteenth of what is left. */
  readonly ahead: number
  /** Permits of the window that are not needed after all. */
  readonly back: number
  /** The window as it was told last. */
  readonly window: string
}

/** What the account's window is then. */
const Share = Schema.Struct({
  account_id: Schema.String,
  /** The window, by its beginning. */
  window: Schema.String,
  given: Schema.Finite,
  /** What processes were given of it so far; more than the limit where another process has a higher one. */
  used: Schema.Finite,
  /** Milliseconds to its end; it ends later where more is given, and is never shorter than a second. */
  ends_in: Schema.Finite,
})
export type Share = typeof Share.Type

const decode = decodeRows(Share)

/**
 * Over a connection of its own, for which no reader is waited for. Rows are locked in the order of the accounts, so two
 * processes never wait for each other in a circle, and the clock is PostgreSQL's. What was given counts as used,
 * whether it arrived or not.
 */
export const permits = Effect.gen(function* () {
  const { config } = yield* PgClient.PgClient
  const sql = yield* PgClient.make({ ...config, maxConnections: 1, minConnections: 0 })

  return (wishes: ReadonlyArray<Wish>) => {
    const floats = (of: (wish: Wish) => number) => arrayParameter(wishes.map(of), OID.float8)
    return decode(sql`
      with wishes as materialized (
        select account_id::bigint, per_minute::bigint, needed::bigint, ahead::bigint, back::bigint, window_began
        from unnest(
          ${floats(({ account_id }) => Number(account_id))}, ${floats(({ limit }) => limit)},
          ${floats(({ needed }) => needed)}, ${floats(({ ahead }) => ahead)}, ${floats(({ back }) => back)},
          ${arrayParameter(wishes.map(({ window }) => window), OID.text)}
        ) as wish (account_id, per_minute, needed, ahead, back, window_began)
      )
      insert into rate_limits as kept (account_id, began_at, ends_at, used, given)
      select account_id, now(), now() + make_interval(secs => greatest(1, 60.0 * given / per_minute)), given, given
      from wishes,
        lateral (select least(per_minute, greatest(needed, least(ahead, per_minute / 16))) as given) as share
      order by account_id
      on conflict (account_id) do update set (began_at, ends_at, used, given) = (
        select running.began_at,
          greatest(running.ends_at, running.began_at
            + make_interval(secs => greatest(1, 60.0 * (running.used + share.given) / per_minute))),
          running.used + share.given, share.given
        from wishes,
          lateral (
            select excluded.began_at, excluded.began_at as ends_at, 0 as used where kept.ends_at <= excluded.began_at
            union all
            select kept.began_at, kept.ends_at,
              kept.used - case when kept.began_at::text = window_began then least(back, kept.used) else 0 end
            where kept.ends_at > excluded.began_at
          ) as running,
          lateral (
            select greatest(0, least(per_minute - running.used,
              greatest(needed, least(ahead, (per_minute - running.used) / 16)))) as given
          ) as share
        where wishes.account_id = kept.account_id
      )
      returning account_id::text, began_at::text as window, given::float8, used::float8,
        extract(epoch from ends_at - now())::float8 * 1000 as ends_in
    `)
  }
})
