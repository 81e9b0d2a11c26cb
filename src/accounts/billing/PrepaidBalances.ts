/**
 * D13, D27 (prepaid balances, budgets): what each account with a limit can still spend, as far as this process knows,
 * and the amounts that its exports have reserved in PostgreSQL: docs/decisions/0119-balance-reservations.md
 */
import { Context, Duration, Effect, Layer, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { Reader } from "../../postgres/Reader.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import { describeFailure } from "../../postgres/FailureText.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import type { UsageColumns } from "./UsageColumns.ts"

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
  /** When this process last charged or reserved (monotonic clock, ms). An earlier read may lack that. */
  changedAt: number
}

/** What this process has counted for an account, and not written yet. */
interface Unwritten {
  /** The cost of responses. */
  cost: number
  /** What ended exports had reserved. The write of their costs gives it back. */
  givenBack: number
}

/** What a read found. The balance is infinite if nothing limits what the account spends. */
interface FoundBalance {
  readonly balance: number
  readonly reserved: number
}

type AccountBalance = { readonly account_id: number; readonly spendable_microdollars: number | null }

interface Holding {
  readonly account_id: number
  amount: number
  /** The export and, after its end, its unwritten usage record. Without users, it is not renewed, and expires. */
  users: number
  /** Whether the export has ended, and its cost is not written yet. */
  isEnded: boolean
  /** Until when the process relies on the reservation (monotonic clock, ms). */
  validUntil: number
}

/** The cost of a row of usage, and the reservation that covers it. */
export interface Charge {
  readonly account_id: number
  readonly cost_microdollars: number
  readonly reservation_id: string | null
}

interface ReserveResult {
  readonly isGranted: boolean
  /** What the account can still spend, without what other exports have reserved. */
  readonly remaining_microdollars: number
  /** What other exports of the account have reserved. */
  readonly reserved_microdollars: number
}

/** A refusal while usage was being written is repeated, because its numbers may count some of that usage twice. */
const maxReserveAttempts = 3

const decodeGrants = decodeRows(Schema.Struct({
  granted: Schema.NullOr(Schema.Finite),
  balance: Schema.NullOr(Schema.Finite),
  reserved_elsewhere: Schema.Finite,
  given_back: Schema.Finite,
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
  /** Accounts with costs that are not written, also without a limit. */
  const unwritten = new Map<number, Unwritten>()
  let findWriter: () => number | undefined = () => undefined
  /** The batch of usage that is being written. */
  let sending: { readonly rows: UsageColumns; readonly last: number } | undefined
  const leaseSql = sql`make_interval(secs => ${Duration.toSeconds(lease)}::float8)`

  /**
   * Stores what a read that began at `asOf` (monotonic clock, ms) has found. An account that nothing limits is stored
   * only if it had a limit before.
   */
  const update = (account_id: number, { balance, reserved }: FoundBalance, asOf: number) => {
    const known = balances.get(account_id)
    if (known !== undefined) {
      if (asOf > known.changedAt) Object.assign(known, { balance, reserved })
      return
    }
    if (balance === Infinity) return
    if (balances.size >= maxAccounts) {
      for (const id of balances.keys()) if (!unwritten.has(id)) balances.delete(id)
    }
    balances.set(account_id, { balance, reserved, changedAt: -Infinity })
  }

  /** Takes back what the batch that is being written has changed, because its end is applied when it is known. */
  const withoutSending = (account_id: number, { balance, reserved }: FoundBalance): FoundBalance => {
    if (sending === undefined) return { balance, reserved }
    const { costs, reservations } = sending.rows
    for (const place of sending.rows.findPlaces(account_id)) {
      balance += costs[place] ?? 0
      reserved += holdings.get(reservations.get(place) ?? "")?.amount ?? 0
    }
    return { balance, reserved }
  }

  /**
   * Begins a read of balances. A batch of usage may be in the database before this process learns that it is, so the
   * statement also selects the number of the newest batch that it sees.
   */
  const beginRead = () => {
    const asOf = now()
    const writer = findWriter()
    return {
      writtenSql: sql`(select written from usage_writers where writer = ${writer ?? null}::int)`,
      /** Stores what the statement found. `written` is the value of `writtenSql`. */
      store: (account_id: number, found: FoundBalance, written: number | null) => {
        if (sending === undefined || (written ?? 0) < sending.last) {
          // The first batch of a process may be in the database, or not.
          if (sending === undefined || writer !== undefined || !balances.has(account_id)) {
            update(account_id, found, asOf)
          }
        } else update(account_id, withoutSending(account_id, found), asOf)
      },
    }
  }

  /** Called before each batch is written. `last` is its number; `getWriter` returns that of the process. */
  const beginWrite = (batch: NonNullable<typeof sending>, getWriter: typeof findWriter) => {
    sending = batch
    findWriter = getWriter
  }

  const noneUnwritten: Readonly<Unwritten> = { cost: 0, givenBack: 0 }
  const getUnwritten = (account_id: number): Readonly<Unwritten> => unwritten.get(account_id) ?? noneUnwritten

  const addUnwritten = (account_id: number, cost: number, givenBack: number) => {
    if (cost === 0 && givenBack === 0) return
    const sum = unwritten.get(account_id) ?? { cost: 0, givenBack: 0 }
    sum.cost += cost
    sum.givenBack += givenBack
    if (sum.cost === 0 && sum.givenBack === 0) unwritten.delete(account_id)
    else unwritten.set(account_id, sum)
  }

  /** Returns what exports in progress have reserved, as far as this process knows. */
  const getReserved = (account_id: number, { reserved }: Balance) =>
    Math.max(0, reserved - getUnwritten(account_id).givenBack)

  /** Returns what the account can still spend: at most 0 if requests for data must be refused. */
  const getRemaining = ({ account_id, spendable_microdollars }: AccountBalance) => {
    const known = balances.get(account_id)
    return known === undefined
      ? spendable_microdollars ?? Infinity
      : known.balance - getReserved(account_id, known) - getUnwritten(account_id).cost
  }

  /** Whether the account could spend more if its exports had reserved nothing. */
  const isReserved = ({ account_id }: AccountBalance) => {
    const known = balances.get(account_id)
    return known !== undefined && getReserved(account_id, known) > 0 && known.balance > getUnwritten(account_id).cost
  }

  /** Subtracts a cost that will be written later. A negative cost takes back an earlier one. */
  const spend = (account_id: number, microdollars: number) => addUnwritten(account_id, microdollars, 0)

  /** Subtracts a charge, and adds a change of the reservations, that this process has just made in the database. */
  const adjust = (account_id: number, charged: number, reserved: number) => {
    const known = balances.get(account_id)
    if (known === undefined) return
    known.balance -= charged
    known.reserved += reserved
    known.changedAt = now()
  }

  /** Subtracts the cost of a row that is not written yet, and gives back the reservation of its export. */
  const addCharge = (charge: Charge) => {
    const holding = holdings.get(charge.reservation_id ?? "")
    if (holding !== undefined) {
      holding.users += 1
      holding.isEnded = true
    }
    addUnwritten(charge.account_id, charge.cost_microdollars, holding?.amount ?? 0)
  }

  /** Called when the charges are in the database. */
  const completeCharges = (rows: UsageColumns) => {
    sending = undefined
    for (const place of rows.findPlaces()) {
      const [account_id = 0, cost = 0] = [rows.accounts[place], rows.costs[place]]
      const reservation_id = rows.reservations.get(place) ?? ""
      const holding = holdings.get(reservation_id)
      if (cost === 0 && holding === undefined) continue
      const amount = holding?.amount ?? 0
      addUnwritten(account_id, -cost, -amount)
      adjust(account_id, cost, -amount)
      if (holding === undefined) continue
      holding.amount = 0
      holding.users -= 1
      if (holding.users === 0) holdings.delete(reservation_id)
    }
  }

  const reserve = Effect.fnUntraced(function* (id: string, holding: Holding, needed: number, wanted: number) {
    const { account_id } = holding
    for (let attempt = 1;; attempt++) {
      const requestedAt = now()
      // A batch that is being written may be counted twice.
      const isUncertain = (sending?.rows.findPlaces(account_id).length ?? 0) > 0
      const { cost } = getUnwritten(account_id)
      const ended = Array.from(holdings).flatMap(([id, other]) =>
        other.isEnded && other.account_id === account_id ? [id] : []
      )
      const [found] = yield* reader.query(
        decodeGrants(sql`
          select granted::float8, balance::float8, reserved_elsewhere::float8, given_back::float8
          from (
            select coalesce(sum(amount_microdollars), 0) as given_back from balance_reservations
            where reservation_id = any(${makeArrayParameter(ended, OID.uuid)}) and expires_at > now()
          ) as ended cross join lateral reserve_balance(${account_id}::float8::bigint, ${id}::text::uuid,
            ${needed}::float8::bigint, ${wanted}::float8::bigint, (${cost}::float8 - given_back)::bigint, ${leaseSql})
        `),
        poolPartition,
      )
      const granted = found?.granted ?? null
      if (granted !== null) {
        adjust(account_id, 0, granted - holding.amount)
        holding.amount = granted
        holding.validUntil = requestedAt + Duration.toMillis(holderTtl)
      } else {
        const isWritten = (balances.get(account_id)?.changedAt ?? -Infinity) >= requestedAt
        if ((isUncertain || isWritten) && attempt < maxReserveAttempts) continue
      }
      const reserved = (found?.reserved_elsewhere ?? 0) - (found?.given_back ?? 0)
      const result: ReserveResult = {
        isGranted: granted !== null,
        remaining_microdollars: (found?.balance ?? 0) - cost - reserved,
        reserved_microdollars: reserved,
      }
      return result
    }
  })

  /**
   * Opens a reservation: part of a balance that an export may spend, nothing at first. It is renewed until the scope
   * closes and its charge is written.
   */
  const open = Effect.fnUntraced(function* (account_id: number) {
    const id = SecureRandom.uuidV7Unsafe()
    const holding: Holding = { account_id, amount: 0, users: 1, isEnded: false, validUntil: 0 }
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

  return {
    update,
    beginRead,
    getRemaining,
    isReserved,
    spend,
    addCharge,
    beginWrite,
    completeCharges,
    getUnwrittenCost: (account_id: number) => getUnwritten(account_id).cost,
    open,
  }
})

export class PrepaidBalances extends Context.Service<PrepaidBalances, Effect.Success<typeof makePrepaidBalances>>()(
  "tickerline/accounts/PrepaidBalances",
) {
  static readonly layer = Layer.effect(PrepaidBalances, makePrepaidBalances)
}

/** Part of a balance that an export may spend. */
export type BalanceReservation = Effect.Success<ReturnType<PrepaidBalances["Service"]["open"]>>
