/**
 * Tracks in memory how much each account with a spending limit can still spend, and reserves amounts for its exports in
 * PostgreSQL (D13, D27: prepaid balances, budgets). See docs/decisions/0119-balance-reservations.md.
 */
import { Context, Duration, Effect, Layer, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import { describeFailure } from "../../postgres/FailureText.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import type { UsageColumns } from "./UsageColumns.ts"

/** For how long a reservation of part of an account's balance is valid. Tests use shorter times. */
export const ReservationTimes = Context.Reference("tickerline/accounts/ReservationTimes", {
  defaultValue: () => ({
    /** How long PostgreSQL counts a reservation after its last renewal, measured by PostgreSQL's clock. */
    lease: Duration.seconds(60),
    renewalInterval: Duration.seconds(10),
    /**
     * How long this process relies on a reservation, measured on the monotonic clock from the time when the last
     * renewal was requested. It is shorter than `lease`, so that the process stops relying on the reservation before
     * PostgreSQL stops counting it.
     */
    holderTtl: Duration.seconds(50),
  }),
})

const maxAccounts = 10_000

/**
 * The connection pool partition reserved for reservation statements, so that they never queue behind reads of a locked
 * table.
 */
const poolPartition = "reservations"

interface Balance {
  /**
   * The spendable amount in microdollars when it was last read from the database, minus what this process has charged
   * since.
   */
  balance: number
  /**
   * The amount reserved by exports in all processes when it was last read from the database, plus changes by this
   * process since.
   */
  reserved: number
  /**
   * When this process last made a charge or changed a reservation (monotonic clock, ms). A read of the balance that
   * began earlier may not include that change, so its result is ignored.
   */
  changedAt: number
}

/** Amounts in microdollars that this process has counted for an account, but not written to the database yet. */
interface Unwritten {
  /** The total cost of responses that are not recorded yet. */
  cost: number
  /**
   * The total of reservations whose exports have ended. A reservation's amount becomes available again when its
   * export's cost is written.
   */
  givenBack: number
}

/** The result of reading a balance. `balance` is infinite if the account has no spending limit. */
interface FoundBalance {
  readonly balance: number
  readonly reserved: number
}

/**
 * An account as identified by a request's key. Its spendable amount is used until the ledger has an entry for the
 * account.
 */
type AccountBalance = { readonly account_id: number; readonly spendable_microdollars: number | null }

/** A reservation for one export by this process. */
interface HeldReservation {
  readonly account_id: number
  amount: number
  /**
   * Reference count: one for the export until it ends, and one for its usage record until that is written. At 0, the
   * reservation is no longer renewed and expires.
   */
  users: number
  /**
   * Whether the export has been recorded as usage. Its reservation then remains only until the cost has been written.
   */
  isEnded: boolean
  /** The time until which this process may rely on the reservation (monotonic clock, ms). */
  validUntil: number
}

/**
 * The cost of a request that has been recorded as usage, and the reservation that covers it, if the request is an
 * export.
 */
export interface Charge {
  readonly account_id: number
  readonly cost_microdollars: number
  readonly reservation_id: string | null
}

/** The result of an attempt to reserve an amount, all amounts in microdollars. */
interface ReserveResult {
  readonly isGranted: boolean
  /** What the account can still spend, excluding what its other exports have reserved. */
  readonly remaining_microdollars: number
  /** What the account's other exports have reserved. */
  readonly reserved_microdollars: number
}

/**
 * Maximum number of attempts to reserve an amount. An attempt is repeated if it was refused while usage was being
 * written, because the same cost may have been subtracted twice: once by PostgreSQL, and once as unwritten by this
 * process.
 */
const maxReserveAttempts = 3

const decodeGrants = decodeRows(Schema.Struct({
  granted: Schema.NullOr(Schema.Finite),
  balance: Schema.NullOr(Schema.Finite),
  reserved_elsewhere: Schema.Finite,
  given_back: Schema.Finite,
}))
const decodeIds = decodeRows(Schema.Struct({ reservation_id: Schema.String }))

/**
 * Creates an in-memory ledger of what accounts with a spending limit can still spend, as far as this process knows.
 * Balances come from the database. Costs and reservations that are not in the database yet are tracked separately: an
 * account can spend its balance, without the amounts reserved by exports and without its unwritten costs. All amounts
 * are in microdollars. `Infinity` means that there is no limit.
 *
 * When an export ends, its cost becomes unwritten, and its reservation is `givenBack`: it no longer counts, although
 * the database still contains it until the cost is written.
 */
const makeBalanceLedger = (now: () => number) => {
  const balances = new Map<number, Balance>()
  /** Amounts not written yet, by account id, including accounts without a spending limit. */
  const unwritten = new Map<number, Unwritten>()

  /**
   * Removes the balances of accounts that have nothing unwritten. They are read again with the next lookup of a key.
   */
  const evict = () => {
    for (const id of balances.keys()) if (!unwritten.has(id)) balances.delete(id)
  }

  /**
   * Stores the result of a read that began at `asOf` (monotonic clock, ms), unless this process has changed the balance
   * since. An account without a spending limit is stored only if the ledger already has an entry for it.
   */
  const update = (account_id: number, { balance, reserved }: FoundBalance, asOf: number) => {
    const known = balances.get(account_id)
    if (known !== undefined) {
      if (asOf > known.changedAt) Object.assign(known, { balance, reserved })
      return
    }
    if (balance === Infinity) return
    if (balances.size >= maxAccounts) evict()
    balances.set(account_id, { balance, reserved, changedAt: -Infinity })
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

  /** Returns the amount reserved by exports in progress, excluding exports that have ended but are not recorded yet. */
  const getReserved = (account_id: number, { reserved }: Balance) =>
    Math.max(0, reserved - getUnwritten(account_id).givenBack)

  return {
    update,
    getUnwritten,
    addUnwritten,
    has: (account_id: number) => balances.has(account_id),
    /** Returns when this process last changed the account's balance (monotonic clock, ms). */
    getChangedAt: (account_id: number) => balances.get(account_id)?.changedAt ?? -Infinity,
    /**
     * Applies changes that this process has just made in the database: subtracts `charged` from the balance, and adds
     * `reserved`, which may be negative, to the reserved amount.
     */
    adjust: (account_id: number, charged: number, reserved: number) => {
      const known = balances.get(account_id)
      if (known === undefined) return
      known.balance -= charged
      known.reserved += reserved
      known.changedAt = now()
    },
    /** Returns what the account can still spend. The result is 0 or negative if requests for data must be refused. */
    getRemaining: ({ account_id, spendable_microdollars }: AccountBalance) => {
      const known = balances.get(account_id)
      return known === undefined
        ? spendable_microdollars ?? Infinity
        : known.balance - getReserved(account_id, known) - getUnwritten(account_id).cost
    },
    /** Returns whether the account has money, part or all of which is reserved by exports in progress. */
    isReserved: ({ account_id }: AccountBalance) => {
      const known = balances.get(account_id)
      return known !== undefined && getReserved(account_id, known) > 0 && known.balance > getUnwritten(account_id).cost
    },
  }
}

/**
 * Builds the functions that set and renew reservations in PostgreSQL. An export reserves part of the account's balance
 * before it is sent, so that exports in all processes together never cost more than the account can spend. A
 * reservation expires if it is not renewed, for example because its process has ended.
 */
const makeReservationStatements = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* DatabaseReader
  const { lease } = yield* ReservationTimes
  const leaseSql = sql`make_interval(secs => ${Duration.toSeconds(lease)}::float8)`
  return {
    /**
     * Sets the amount of the reservation `id`: to `wanted` or, if less is available, to what is available, provided
     * that it is at least `needed`. `unwrittenCost` is what the account has spent but the database does not include
     * yet. It contains the costs of the exports whose reservations are listed in `ended`, so those reservations are not
     * counted as well: their amounts (`given_back`) are subtracted from it.
     *
     * Returns one row from the database function `reserve_balance`: the new amount of the reservation (`granted`), the
     * amount that the account can spend (`balance`), and the sum of its other reservations (`reserved_elsewhere`).
     */
    reserve: (
      { account_id, ended, id, needed, unwrittenCost, wanted }: {
        readonly id: string
        readonly account_id: number
        readonly needed: number
        readonly wanted: number
        readonly unwrittenCost: number
        readonly ended: ReadonlyArray<string>
      },
    ) =>
      reader.query(
        decodeGrants(sql`
          select granted::float8, balance::float8, reserved_elsewhere::float8, given_back::float8
          from (
            select coalesce(sum(amount_microdollars), 0) as given_back from balance_reservations
            where reservation_id = any(${makeArrayParameter(ended, OID.uuid)}) and expires_at > now()
          ) as ended cross join lateral reserve_balance(${account_id}::float8::bigint, ${id}::text::uuid,
            ${needed}::float8::bigint, ${wanted}::float8::bigint, (${unwrittenCost}::float8 - given_back)::bigint,
            ${leaseSql})
        `),
        poolPartition,
      ),
    /** Renews reservations. Returns the ids of those that had not expired. */
    renew: (ids: ReadonlyArray<string>) =>
      reader.query(
        decodeIds(sql`
          update balance_reservations set expires_at = now() + ${leaseSql}
          where reservation_id = any(${makeArrayParameter(ids, OID.uuid)}) and expires_at > now()
          returning reservation_id::text
        `),
        poolPartition,
      ),
  }
})

/**
 * Tracks what each account can still spend and this process's reservations, and updates both when usage is recorded and
 * written.
 */
const makePrepaidBalances = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = yield* makeMonotonicClock
  const { holderTtl, renewalInterval } = yield* ReservationTimes
  const statements = yield* makeReservationStatements
  const ledger = makeBalanceLedger(now)
  /** This process's reservations by id. */
  const reservations = new Map<string, HeldReservation>()
  let findWriter: () => number | undefined = () => undefined
  /** The usage batch being written to the database, if any. */
  let sending: { readonly rows: UsageColumns; readonly last: number } | undefined

  /**
   * Adds the costs of the batch being written back to a balance from which the database has already subtracted them.
   * The ledger still counts these costs as unwritten, and would otherwise subtract them a second time.
   * `completeCharges` removes them from the unwritten costs once this process knows that the write has succeeded.
   */
  const withoutSending = (account_id: number, { balance, reserved }: FoundBalance): FoundBalance => {
    if (sending === undefined) return { balance, reserved }
    const { rows } = sending
    for (const index of rows.findIndexes(account_id)) {
      balance += rows.costs[index] ?? 0
      reserved += reservations.get(rows.reservations.get(index) ?? "")?.amount ?? 0
    }
    return { balance, reserved }
  }

  /**
   * Begins a read of balances. A usage batch may already be in the database before this process learns that the write
   * succeeded. The statement that reads the balances must therefore also select `writtenSql`, the sequence number of
   * the newest batch of this process that it sees.
   */
  const beginRead = () => {
    const asOf = now()
    const writer = findWriter()
    return {
      writtenSql: sql`(select written from usage_writers where writer = ${writer ?? null}::int)`,
      /** Stores a balance that was read. `written` is the value of `writtenSql` in the same statement. */
      store: (account_id: number, found: FoundBalance, written: number | null) => {
        const containsBatch = sending !== undefined && (written ?? 0) >= sending.last
        if (containsBatch) return ledger.update(account_id, withoutSending(account_id, found), asOf)
        // While a process writes its first batch, it does not know its writer number yet. The read may or may not
        // include that batch, so an existing ledger entry is left unchanged.
        const isUncertain = sending !== undefined && writer === undefined
        if (!isUncertain || !ledger.has(account_id)) ledger.update(account_id, found, asOf)
      },
    }
  }

  /**
   * Must be called before each usage batch is written. `last` is the batch's last sequence number. `getWriter` returns
   * this process's writer number, or undefined if it has none yet.
   */
  const beginWrite = (batch: NonNullable<typeof sending>, getWriter: typeof findWriter) => {
    sending = batch
    findWriter = getWriter
  }

  /** Subtracts a cost that will be recorded later, in microdollars. A negative amount cancels an earlier one. */
  const spend = (account_id: number, microdollars: number) => ledger.addUnwritten(account_id, microdollars, 0)

  /** Subtracts the cost of a usage row that is not written yet, and marks the reservation of its export as ended. */
  const addCharge = (charge: Charge) => {
    const reservation = reservations.get(charge.reservation_id ?? "")
    if (reservation !== undefined) {
      reservation.users += 1
      reservation.isEnded = true
    }
    ledger.addUnwritten(charge.account_id, charge.cost_microdollars, reservation?.amount ?? 0)
  }

  /**
   * Must be called once a batch is in the database. Moves its costs from the unwritten amounts to the balances, and
   * ends the reservations of its exports.
   */
  const completeCharges = (rows: UsageColumns) => {
    sending = undefined
    for (const index of rows.findIndexes()) {
      const [account_id = 0, cost = 0] = [rows.accounts[index], rows.costs[index]]
      const reservation_id = rows.reservations.get(index) ?? ""
      const reservation = reservations.get(reservation_id)
      if (cost === 0 && reservation === undefined) continue
      const amount = reservation?.amount ?? 0
      ledger.addUnwritten(account_id, -cost, -amount)
      ledger.adjust(account_id, cost, -amount)
      if (reservation === undefined) continue
      reservation.amount = 0
      reservation.users -= 1
      if (reservation.users === 0) reservations.delete(reservation_id)
    }
  }

  /** Returns the ids of the account's reservations whose exports have ended, but whose costs are not written yet. */
  const listEnded = (account_id: number) =>
    Array.from(reservations).flatMap(([id, one]) => one.isEnded && one.account_id === account_id ? [id] : [])

  /** Extends how long this process relies on a reservation, starting from the time when the renewal was requested. */
  const extend = (reservation: HeldReservation, requestedAt: number) => {
    reservation.validUntil = requestedAt + Duration.toMillis(holderTtl)
  }

  /**
   * Sets a reservation's amount in PostgreSQL, to between `needed` and `wanted`. Repeats an attempt whose refusal may
   * be wrong, because usage was being written at the same time.
   */
  const reserve = Effect.fnUntraced(function* (
    id: string,
    reservation: HeldReservation,
    needed: number,
    wanted: number,
  ) {
    const { account_id } = reservation
    for (let attempt = 1;; attempt++) {
      const requestedAt = now()
      // If a batch is being written, its costs may already be in the database while they still count as unwritten here.
      const isBeingWritten = (sending?.rows.findIndexes(account_id).length ?? 0) > 0
      const unwrittenCost = ledger.getUnwritten(account_id).cost
      const [found] = yield* statements.reserve({
        id,
        account_id,
        needed,
        wanted,
        unwrittenCost,
        ended: listEnded(account_id),
      })
      // Null if less than `needed` is available.
      const granted = found?.granted ?? null
      if (granted !== null) {
        ledger.adjust(account_id, 0, granted - reservation.amount)
        reservation.amount = granted
        extend(reservation, requestedAt)
      } else {
        // A batch may also have been written completely since the attempt began.
        const wasWritten = ledger.getChangedAt(account_id) >= requestedAt
        if ((isBeingWritten || wasWritten) && attempt < maxReserveAttempts) continue
      }
      const reserved = (found?.reserved_elsewhere ?? 0) - (found?.given_back ?? 0)
      const result: ReserveResult = {
        isGranted: granted !== null,
        remaining_microdollars: (found?.balance ?? 0) - unwrittenCost - reserved,
        reserved_microdollars: reserved,
      }
      return result
    }
  })

  /**
   * Opens a reservation, which sets aside part of the account's balance for an export. Its amount is 0 at first. The
   * reservation is renewed until the scope closes and the export's cost has been written.
   */
  const open = Effect.fnUntraced(function* (account_id: number) {
    const id = SecureRandom.uuidV7Unsafe()
    const reservation: HeldReservation = { account_id, amount: 0, users: 1, isEnded: false, validUntil: 0 }
    reservations.set(id, reservation)
    // The export may be recorded as usage after this finalizer has run, and then uses the entry again. It is therefore
    // left in `reservations`; `renewAll` deletes entries without users.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        reservation.users -= 1
      })
    )
    return {
      id,
      /** Returns the reserved amount, or 0 once this process may no longer rely on the reservation. */
      getAmount: () => now() < reservation.validUntil ? reservation.amount : 0,
      /**
       * Sets the reserved amount to `wanted` microdollars. If less is available but at least `needed`, reserves what is
       * available. Otherwise leaves the amount unchanged.
       */
      reserve: (needed: number, wanted: number) => reserve(id, reservation, needed, wanted),
    }
  })

  /** Renews the reservations that are in use with one statement, and forgets the others. */
  const renewAll = Effect.suspend(() => {
    for (const [id, { users }] of reservations) if (users === 0) reservations.delete(id)
    const renewed = new Map(reservations)
    const requestedAt = now()
    return renewed.size === 0 ? Effect.void : Effect.map(statements.renew(Array.from(renewed.keys())), (found) => {
      for (const { reservation_id } of found) {
        const reservation = renewed.get(reservation_id)
        if (reservation !== undefined) extend(reservation, requestedAt)
      }
    })
  })
  yield* repeatInBackground(
    Effect.catch(
      renewAll,
      (error) => Effect.logWarning(`Reservations of exports were not renewed: ${describeFailure(error)}`),
    ),
    renewalInterval,
  )

  return {
    update: ledger.update,
    beginRead,
    getRemaining: ledger.getRemaining,
    isReserved: ledger.isReserved,
    spend,
    addCharge,
    beginWrite,
    completeCharges,
    getUnwrittenCost: (account_id: number) => ledger.getUnwritten(account_id).cost,
    open,
  }
})

/** What accounts with a spending limit can still spend, and the reservations for their exports. */
export class PrepaidBalances extends Context.Service<PrepaidBalances, Effect.Success<typeof makePrepaidBalances>>()(
  "tickerline/accounts/PrepaidBalances",
) {
  static readonly layer = Layer.effect(PrepaidBalances, makePrepaidBalances)
}

/** Part of a balance that is set aside for one export. */
export type BalanceReservation = Effect.Success<ReturnType<PrepaidBalances["Service"]["open"]>>
