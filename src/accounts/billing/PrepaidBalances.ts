/**
 * D13, D27 (prepaid balances, budgets): what each account with a limit can still spend, as far as this process knows,
 * and the amounts that its exports have reserved in PostgreSQL: docs/decisions/0119-balance-reservations.md
 */
import { Context, Duration, Effect, Layer, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../db/CompiledStatement.ts"
import { Reader } from "../../db/Reader.ts"
import { decodeRows } from "../../db/DecodeRows.ts"
import { repeatInBackground } from "../../observability/BackgroundFibers.ts"
import { describeFailure } from "../../observability/FailureText.ts"
import { makeMonotonicClock } from "../../observability/MonotonicTime.ts"

/** Times of reservations, which tests shorten. */
export const ReservationTimes = Context.Reference("tickerline/accounts/ReservationTimes", {
  defaultValue: () => ({
    /** How long a reservation counts after its last renewal, by the clock of PostgreSQL. */
    lease: Duration.seconds(60),
    renewalInterval: Duration.seconds(10),
    /** How long the process relies on a reservation after requesting its renewal (monotonic clock). */
    holderTtl: Duration.seconds(50),
  }),
})

const maxAccounts = 10_000

/** Partition of the connection pool for reservations, so that reads of a locked table do not delay them. */
const poolPartition = "reservations"

interface Balance {
  /** What the account could spend as last read, minus what this process has charged since. */
  balance: number
  /** Amount that the exports of all processes have reserved: as last read, and changed by this process since. */
  reserved: number
  /** The cost of responses that is not written yet. */
  unrecorded: number
  /** When this process last charged or reserved (monotonic clock, ms). An earlier read may lack that. */
  changedAt: number
}

type AccountBalance = { readonly account_id: number; readonly spendable_microdollars: number | null }

interface Holding {
  readonly account_id: number
  amount: number
  /** The export and, after its end, its unwritten usage record. Without users, it is not renewed, and expires. */
  users: number
  /** Until when the process relies on the reservation (monotonic clock, ms). */
  validUntil: number
}

/** The cost of a row of usage, and the reservation that covers it. */
interface Charge {
  readonly account_id: number
  readonly cost_microdollars: number
  readonly reservation_id: string | null
}

const decodeGrants = decodeRows(Schema.Struct({
  granted: Schema.NullOr(Schema.Finite),
  balance: Schema.NullOr(Schema.Finite),
  reserved_elsewhere: Schema.Finite,
}))
const decodeIds = decodeRows(Schema.Struct({ reservation_id: Schema.String }))

const makePrepaidBalances = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* Reader
  const now = yield* makeMonotonicClock
  const { holderTtl, lease, renewalInterval } = yield* ReservationTimes
  /** Balances of accounts with a limit, by account id. */
  const balances = new Map<number, Balance>()
  const holdings = new Map<string, Holding>()
  const leaseSql = sql`make_interval(secs => ${Duration.toSeconds(lease)}::float8)`

  /**
   * Stores what a read that began at `asOf` (monotonic clock, ms) has found. The balance is infinite if nothing limits
   * what the account spends; such an account is stored only if it had a limit before.
   */
  const update = (
    account_id: number,
    { balance, reserved }: { readonly balance: number; readonly reserved: number },
    asOf: number,
  ) => {
    const known = balances.get(account_id)
    if (known !== undefined) {
      if (asOf > known.changedAt) Object.assign(known, { balance, reserved })
      return
    }
    if (balance === Infinity) return
    if (balances.size >= maxAccounts) {
      for (const [id, { unrecorded }] of balances) if (unrecorded === 0) balances.delete(id)
    }
    balances.set(account_id, { balance, reserved, unrecorded: 0, changedAt: -Infinity })
  }

  /** Returns what the account can still spend: at most 0 if requests for data must be refused. */
  const getRemaining = ({ account_id, spendable_microdollars }: AccountBalance) => {
    const known = balances.get(account_id)
    return known === undefined ? spendable_microdollars ?? Infinity : known.balance - known.reserved - known.unrecorded
  }

  /** Whether the account could spend more if its exports had reserved nothing. */
  const isReserved = ({ account_id }: AccountBalance) => {
    const known = balances.get(account_id)
    return known !== undefined && known.reserved > 0 && known.balance > known.unrecorded
  }

  /** Subtracts a cost that will be written later. A negative cost takes back an earlier one. */
  const spend = (account_id: number, microdollars: number) => {
    const known = balances.get(account_id)
    if (known !== undefined) known.unrecorded = Math.max(0, known.unrecorded + microdollars)
  }

  /** Subtracts a charge, and adds a change of the reservations, that this process has just made in the database. */
  const adjust = (account_id: number, charged: number, reserved: number) => {
    const known = balances.get(account_id)
    if (known === undefined) return
    known.balance -= charged
    known.reserved += reserved
    known.changedAt = now()
  }

  const findHolding = ({ reservation_id }: Charge) => reservation_id === null ? undefined : holdings.get(reservation_id)

  /** Keeps the reservation of an unwritten row, or subtracts the row's cost if nothing is reserved for it. */
  const addCharge = (charge: Charge) => {
    const holding = findHolding(charge)
    if (holding === undefined) spend(charge.account_id, charge.cost_microdollars)
    else holding.users += 1
  }

  /** Called when the charges are in the database. */
  const completeCharges = (charges: ReadonlyArray<Charge>) => {
    for (const charge of charges) {
      const { account_id, cost_microdollars, reservation_id } = charge
      const holding = findHolding(charge)
      if (holding === undefined || reservation_id === null) {
        if (cost_microdollars === 0) continue
        spend(account_id, -cost_microdollars)
        adjust(account_id, cost_microdollars, 0)
      } else {
        adjust(account_id, cost_microdollars, -holding.amount)
        holding.amount = 0
        holding.users -= 1
        if (holding.users === 0) holdings.delete(reservation_id)
      }
    }
  }

  const reserve = Effect.fnUntraced(function* (id: string, holding: Holding, needed: number, wanted: number) {
    const { account_id } = holding
    const requestedAt = now()
    const unrecorded = balances.get(account_id)?.unrecorded ?? 0
    const [found] = yield* reader.query(
      decodeGrants(sql`
        select granted::float8, balance::float8, reserved_elsewhere::float8
        from reserve_balance(${account_id}::float8::bigint, ${id}::text::uuid, ${needed}::float8::bigint,
          ${wanted}::float8::bigint, ${unrecorded}::float8::bigint, ${leaseSql})
      `),
      poolPartition,
    )
    const granted = found?.granted ?? null
    if (granted !== null) {
      adjust(account_id, 0, granted - holding.amount)
      holding.amount = granted
      holding.validUntil = requestedAt + Duration.toMillis(holderTtl)
    }
    return {
      isGranted: granted !== null,
      /** What the account could spend if nothing was reserved. */
      spendable_microdollars: found?.balance ?? 0,
      /** Amount that other exports of the account have reserved. */
      reserved_microdollars: found?.reserved_elsewhere ?? 0,
    }
  })

  /**
   * Opens a reservation: part of a balance that an export may spend, nothing at first. It is renewed until the scope
   * closes and its charge is written.
   */
  const open = Effect.fnUntraced(function* (account_id: number) {
    const id = SecureRandom.uuidV7Unsafe()
    const holding: Holding = { account_id, amount: 0, users: 1, validUntil: 0 }
    holdings.set(id, holding)
    // The export may be recorded after this finalizer, so the holding stays until the next renewal.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        holding.users -= 1
      })
    )
    return {
      id,
      /** Returns the reserved amount; 0 once the process may no longer rely on the reservation. */
      getAmount: () => now() < holding.validUntil ? holding.amount : 0,
      /**
       * Reserves `wanted` microdollars in total, or fewer if fewer are available, but at least `needed` or none at all.
       */
      reserve: (needed: number, wanted: number) => reserve(id, holding, needed, wanted),
    }
  })

  const renew = Effect.suspend(() => {
    for (const [id, { users }] of holdings) if (users === 0) holdings.delete(id)
    const renewed = new Map(holdings)
    const requestedAt = now()
    return renewed.size === 0 ? Effect.void : Effect.map(
      reader.query(
        decodeIds(sql`
          update balance_reservations set expires_at = now() + ${leaseSql}
          where reservation_id = any(${makeArrayParameter(Array.from(renewed.keys()), OID.uuid)})
            and expires_at > now()
          returning reservation_id::text
        `),
        poolPartition,
      ),
      (found) => {
        for (const { reservation_id } of found) {
          const holding = renewed.get(reservation_id)
          if (holding !== undefined) holding.validUntil = requestedAt + Duration.toMillis(holderTtl)
        }
      },
    )
  })
  yield* repeatInBackground(
    Effect.catch(
      renew,
      (error) => Effect.logWarning(`Reservations of exports were not renewed: ${describeFailure(error)}`),
    ),
    renewalInterval,
  )

  return { update, getRemaining, isReserved, spend, addCharge, completeCharges, open }
})

export class PrepaidBalances extends Context.Service<PrepaidBalances, Effect.Success<typeof makePrepaidBalances>>()(
  "tickerline/accounts/PrepaidBalances",
) {
  static readonly layer = Layer.effect(PrepaidBalances, makePrepaidBalances)
}

/** Part of a balance that an export may spend. */
export type BalanceReservation = Effect.Success<ReturnType<PrepaidBalances["Service"]["open"]>>
