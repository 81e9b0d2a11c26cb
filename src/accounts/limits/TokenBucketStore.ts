/** Stores accounts' token buckets in PostgreSQL, where all processes share them (D18, rate limits). */
import { PgClient } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"

/** A process's request for tokens from one account's bucket. */
export interface TokenBucketRequest {
  readonly account_id: number
  /** Bucket size, in requests per minute. */
  readonly limit: number
  /** Tokens for requests that are waiting. Granted until the bucket is empty. */
  readonly needed: number
  /**
   * Tokens for later requests. At most one sixteenth of the tokens in the bucket is granted, so that other processes
   * also get some.
   */
  readonly prefetch: number
  /** Tokens from earlier grants that the process puts back into the bucket. */
  readonly returned: number
}

/** PostgreSQL's reply to a request for tokens. */
const TokenBucketGrant = Schema.Struct({
  account_id: Schema.Finite,
  /** Whole tokens taken from the bucket. */
  granted: Schema.Finite,
  /** Tokens missing from a full bucket. Exceeds `limit` if a process with a higher limit has used more. */
  used: Schema.Finite,
})

/** The decoded grant. */
export type TokenBucketGrant = typeof TokenBucketGrant.Type

const decode = decodeRows(TokenBucketGrant)

/**
 * Builds a function that requests tokens for several accounts with one statement. It uses a separate connection, so it
 * never queues behind reads. The statement locks the buckets in account order, which prevents deadlocks, and refills
 * them by PostgreSQL's clock. It returns one `TokenBucketGrant` per request.
 *
 * A row of `rate_limit_buckets` stores how many tokens the account's bucket lacks (`used`) as of the time
 * `refilled_at`, and how many tokens the latest request got (`granted`). A full bucket has `capacity` tokens, and an
 * empty one is full again after one minute. A grant is the larger of `needed` and the part of `prefetch` that is at
 * most one sixteenth of the tokens in the bucket, but never more than the bucket has.
 */
export const makeTokenBucketRequester = Effect.gen(function* () {
  const { config } = yield* PgClient.PgClient
  const sql = yield* PgClient.make({ ...config, maxConnections: 1, minConnections: 0 })

  return (requests: ReadonlyArray<TokenBucketRequest>) => {
    const column = (name: keyof TokenBucketRequest) =>
      makeArrayParameter(requests.map((request) => request[name]), OID.float8)
    return decode(sql`
      with requests as materialized (
        select account_id::bigint, capacity, needed, prefetch, returned
        from unnest(${column("account_id")}, ${column("limit")}, ${column("needed")}, ${column("prefetch")},
          ${column("returned")}) as request (account_id, capacity, needed, prefetch, returned)
      )
      -- An account without a row has a full bucket.
      insert into rate_limit_buckets as bucket (account_id, used, refilled_at, granted)
      select account_id, granted, now(), granted
      from requests, lateral (
        select floor(least(capacity, greatest(needed, least(prefetch, capacity / 16)))) as granted
      ) as new_grant
      order by account_id
      -- For an existing row, takes back returned tokens, refills the bucket for the time since the last refill, and
      -- then grants tokens.
      on conflict (account_id) do update set (used, refilled_at, granted) = (
        select refilled.used + new_grant.granted, greatest(bucket.refilled_at, now()), new_grant.granted
        from requests,
          lateral (
            select greatest(0, bucket.used - returned
              - capacity / 60 * greatest(0, extract(epoch from now() - bucket.refilled_at)::float8)) as used
          ) as refilled,
          lateral (
            select greatest(0, floor(least(capacity - refilled.used,
              greatest(needed, least(prefetch, (capacity - refilled.used) / 16))))) as granted
          ) as new_grant
        where requests.account_id = bucket.account_id
      )
      returning account_id::float8, granted::float8, used
    `)
  }
})
