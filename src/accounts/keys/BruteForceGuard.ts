/**
 * Guessing keys: an address that sends too many wrong ones has to wait before it is answered about another. They are
 * counted in PostgreSQL, for all processes, by the very statement that looks a key up: so each guess is counted and
 * answered in one step, and of many at once no more are answered than may be.
 */
import { Cache, Clock, Config, Duration, Effect, Option, Predicate, Result, Schedule, Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import { IpNetwork, NetAddress } from "effect/net"
import { SqlClient, SqlError, SqlSchema, type Statement } from "effect/sql"
import { Database } from "../../db/Database.ts"
import { setResponseHeaders } from "../../http/RequestContext.ts"
import { RateLimitExceeded } from "../AccountErrors.ts"

export const WrongKeysLimitConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })),
  "WRONG_KEYS_LIMIT",
)
  .pipe(Config.withDefault(30))

const window = Duration.minutes(1)

/** As many addresses are kept in mind; who has more of them than that is not stopped by counting addresses. */
const addresses = 100_000

/** A mistyped key is answered without PostgreSQL where that does not answer within this. */
const patience = Duration.seconds(5)

const tidyEvery = Duration.seconds(10)

/** The lane of the database in which keys are looked up and wrong ones counted, for requests to all endpoints. */
export const keyLookupPartition = "keys"

const wait = new RateLimitExceeded({
  error: { message: "Too many wrong API keys came from this address. Wait as long as Retry-After says." },
})

/** Whoever has one address of IPv6 has the 2^64 of its network. */
const networkOf = (text: string) =>
  Result.match(NetAddress.ipFromString(text), {
    onFailure: () => text,
    onSuccess: (sent) => {
      const address = NetAddress.toCanonical(sent)
      return IpNetwork.format(IpNetwork.fromAddressUnsafe(address, NetAddress.isIpv6Address(address) ? 64 : 32))
    },
  })

/** PostgreSQL reads, and does not write: it is a standby, or full, or the role was not granted it. */
export const isUnwritable = (error: unknown) => {
  const cause = SqlError.isSqlError(error) ? error.reason.cause : undefined
  return Predicate.hasProperty(cause, "code") && /^(25006|53[12]00|42501)$/.test(String(cause.code))
}

/** What the table says of an attempt: how many were wrong with it, none where it had to wait; milliseconds to go. */
export const Tally = Schema.Struct({ wrong: Schema.NullOr(Schema.Number), ends_in: Schema.Number })

export const makeBruteForceGuard = Effect.gen(function* () {
  const most = yield* WrongKeysLimitConfig
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const clock = yield* Clock.Clock
  const time = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  /** What this process knows of the networks that it heard of within the minute. */
  const known = yield* Cache.make({
    capacity: addresses,
    timeToLive: window,
    lookup: (_network: string) => Effect.sync(() => ({ wrong: 0, endsAt: time() + Duration.toMillis(window) })),
  })
  const network = Effect.map(
    HttpServerRequest.HttpServerRequest,
    ({ remoteAddress }) => networkOf(Option.getOrElse(remoteAddress, () => "")),
  )

  const refuse = Effect.fnUntraced(function* (milliseconds: number) {
    yield* setResponseHeaders({ "Retry-After": String(Math.max(1, Math.ceil(milliseconds / 1000))) })
    return yield* wait
  })

  /** Fails for an address of which this process knows that it has used up its wrong keys. */
  const check = Effect.gen(function* () {
    const found = yield* Cache.getSuccess(known, yield* network)
    if (Option.isNone(found) || found.value.wrong < most) return
    const left = found.value.endsAt - time()
    if (left > 0) return yield* refuse(left)
  })

  const heard = Effect.fnUntraced(function* ({ ends_in, wrong }: typeof Tally.Type) {
    if (wrong === null || wrong >= most) {
      yield* Cache.set(known, yield* network, { wrong: most, endsAt: time() + ends_in })
    }
    if (wrong === null) return yield* refuse(ends_in)
  })

  /**
   * The CTE `guess`: one row where another attempt may be answered, none where it has to wait. It locks the network's
   * row, so attempts take turns, at whichever process they are.
   */
  const guess = (sender: string, isWrong: Statement.Fragment) =>
    sql`
      guess as (
        insert into wrong_keys as kept (network, began_at, wrong) select ${sender}, now(), (${isWrong})::int
        on conflict (network) do update set
          wrong = excluded.wrong + case when kept.began_at > now() - interval '1 minute' then kept.wrong else 0 end,
          began_at = case
            when kept.began_at > now() - interval '1 minute' and kept.wrong > 0 then kept.began_at else now()
          end
        where kept.wrong < ${most} or kept.began_at <= now() - interval '1 minute'
        returning wrong, began_at
      ), tally as (
        select guess.wrong,
          extract(epoch from coalesce(guess.began_at, seen.began_at, now()) + interval '1 minute' - now())::float8
            * 1000 as ends_in
        from (values (1)) as attempt
        left join guess on true
        left join wrong_keys as seen on seen.network = ${sender}
      )
    `

  const count = SqlSchema.findOne({
    Request: Schema.String,
    Result: Tally,
    execute: (sender) => sql`with ${guess(sender, sql`select true`)} select * from tally`,
  })

  /** While PostgreSQL does not count each process does for itself. */
  const noteAlone = Effect.gen(function* () {
    const tally = yield* Cache.get(known, yield* network)
    if (tally.endsAt <= time()) Object.assign(tally, { wrong: 0, endsAt: time() + Duration.toMillis(window) })
    tally.wrong += 1
  })

  /** Counts a key that needs no looking up to be wrong. */
  const note = Effect.gen(function* () {
    yield* check
    const asked = count(yield* network).pipe(
      Effect.catchTag("NoSuchElementError", Effect.die),
      Effect.catchIf(isUnwritable, () => Effect.undefined),
    )
    const tally = yield* Effect.orElseSucceed(
      Effect.timeout(read(asked, keyLookupPartition), patience),
      () => undefined,
    )
    yield* tally === undefined ? noteAlone : heard(tally)
  })

  /** Old rows go, and the oldest where somebody has more addresses than are kept. */
  const tidy = sql`
    with old as (
      select network from wrong_keys where began_at <= now() - interval '1 minute' for update skip locked
    ), beyond as (
      select network from wrong_keys order by began_at desc offset ${addresses} for update skip locked
    )
    delete from wrong_keys where network in (select network from old union all select network from beyond)
  `.pipe(
    Effect.catch((error) => Effect.logWarning(`Old wrong keys were not forgotten: ${error.message}`)),
    Effect.withTracerEnabled(false),
  )
  yield* Effect.forkScoped(Effect.repeat(tidy, Schedule.spaced(tidyEvery)))
  return { check, guess, heard, network, note, noteAlone }
})
