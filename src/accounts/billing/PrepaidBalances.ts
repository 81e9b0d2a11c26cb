/**
 * Tracks in memory how much each account with a spending limit can still spend, and reserves amounts for its exports in
 * PostgreSQL (D13, D27: prepaid balances, budgets). See docs/decisions/0119-balance-reservations.md.
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

/** Lifetimes of reservations. Tests shorten them. */
export const ReservationTimes = Context.Reference("tickerline/accounts/ReservationTimes", {
  defaultValue: () => ({
    /** How long a reservation counts after its last renewal, by PostgreSQL's clock. */
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
  /** The spendable amount when it was last read, minus what this process has charged since. */
  balance: number
  /** The amount reserved by exports in all processes when it was last read, plus this process's changes since. */
  reserved: number
  /**
   * When this process last made a charge or changed a reservation (monotonic clock, ms). A read that began earlier may
   * not include that change, so its result is ignored.
   */
  changedAt: number
}

/** Amounts that this process has counted for an account but not written yet. */
interface Unwritten {
  /** The total cost of responses. */
  cost: number
  /** Reservations of exports that have ended. Each amount becomes available again when the export's cost is written. */
  givenBack: number
}

/** The result of reading a balance. `balance` is infinite if the account has no spending limit. */
interface FoundBalance {
  readonly balance: number
  readonly reserved: number
}

/** The account's data in a request. It is used until the ledger has an entry for the account. */
type AccountBalance = { readonly account_id: number; readonly spendable_microdollars: number | null }

/** A reservation made by this process. */
interface Holding {
  readonly account_id: number
  amount: number
  /**
   * Reference count: one for the export and, after it ends, one for its unwritten usage record. At 0, the reservation
   * is no longer renewed and expires.
   */
  users: number
  /** Whether the export has ended. Its reservation then remains only until its cost has been written. */
  isEnded: boolean
  /** The time until which this process may rely on the reservation (monotonic clock, ms). */
  validUntil: number
}

/** The cost of a usage row, and the reservation that covers it. */
export interface Charge {
  readonly account_id: number
  readonly cost_microdollars: number
  readonly reservation_id: string | null
}

interface ReserveResult {
  readonly isGranted: boolean
  /** What the account can still spend, excluding what its other exports have reserved. */
  readonly remaining_microdollars: number
  /** What the account's other exports have reserved. */
  readonly reserved_microdollars: number
}

/**
 * Maximum number of attempts to reserve an amount. If usage was being written during a refused attempt, some costs may
 * have been counted twice, so the attempt is repeated.
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
 * Balances come from the database. Costs and reservations that are not in the database yet are tracked separately.
 */
const makeBalanceLedger = (now: () => number) => {
  const balances = new Map<number, Balance>()
  /** Unwritten amounts by account, including accounts without a spending limit. */
  const unwritten = new Map<number, Unwritten>()

  /** Frees space by removing accounts that have nothing unwritten. Their balances can be read again. */
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

  /** Returns the amount reserved by exports in progress. */
  const getReserved = (account_id: number, { reserved }: Balance) =>
    Math.max(0, reserved - getUnwritten(account_id).givenBack)

  return {
    update,
    getUnwritten,
    addUnwritten,
    has: (account_id: number) => balances.has(account_id),
    /** Returns when this process last changed the balance (monotonic clock, ms). */
    getChangedAt: (account_id: number) => balances.get(account_id)?.changedAt ?? -Infinity,
    /** Subtracts a charge, and adds a change in reservations, that this process has just made in the database. */
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
    /** Returns whether the account could spend anything if its exports had not reserved anything. */
    isReserved: ({ account_id }: AccountBalance) => {
      const known = balances.get(account_id)
      return known !== undefined && getReserved(account_id, known) > 0 && known.balance > getUnwritten(account_id).cost
    },
  }
}

/** Builds the functions that change reservations in PostgreSQL. */
const makeReservationStatements = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* Reader
  const { lease } = yield* ReservationTimes
  const leaseSql = sql`make_interval(secs => ${Duration.toSeconds(lease)}::float8)`
  return {
    /**
     * Sets the reserved amount. `unwrittenCost` is what the account has spent but the database does not include yet. It
     * contains the costs of the exports in `ended`, so their reservations are no longer counted.
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

/** Combines the ledger with this process's reservations, and updates both when usage is written. */
const makePrepaidBalances = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = yield* makeMonotonicClock
  const { holderTtl, renewalInterval } = yield* ReservationTimes
  const statements = yield* makeReservationStatements
  const ledger = makeBalanceLedger(now)
  const holdings = new Map<string, Holding>()
  let findWriter: () => number | undefined = () => undefined
  /** The usage batch being written. */
  let sending: { readonly rows: UsageColumns; readonly last: number } | undefined

  /**
   * Removes the batch being written from a balance that already includes it. The ledger still counts that batch as
   * unwritten; `completeCharges` subtracts it once the write is known to have succeeded.
   */
  const withoutSending = (account_id: number, { balance, reserved }: FoundBalance): FoundBalance => {
    if (sending === undefined) return { balance, reserved }
    const { costs, reservations } = sending.rows
    for (const place of sending.rows.findIndexes(account_id)) {
      balance += costs[place] ?? 0
      reserved += holdings.get(reservations.get(place) ?? "")?.amount ?? 0
    }
    return { balance, reserved }
  }

  /**
   * Begins a read of balances. A usage batch may already be in the database before this process learns that the write
   * succeeded, so the statement also selects the number of the newest batch that it sees.
   */
  const beginRead = () => {
    const asOf = now()
    const writer = findWriter()
    return {
      writtenSql: sql`(select written from usage_writers where writer = ${writer ?? null}::int)`,
      /** Stores the result of the read. `written` is the value that `writtenSql` returned. */
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
   * Must be called before each batch is written. `last` is the batch's last sequence number. `getWriter` returns this
   * process's writer number.
   */
  const beginWrite = (batch: NonNullable<typeof sending>, getWriter: typeof findWriter) => {
    sending = batch
    findWriter = getWriter
  }

  /** Subtracts a cost that will be written later. A negative amount cancels an earlier one. */
  const spend = (account_id: number, microdollars: number) => ledger.addUnwritten(account_id, microdollars, 0)

  /** Subtracts the cost of a usage row that is not written yet, and releases the reservation of its export. */
  const addCharge = (charge: Charge) => {
    const holding = holdings.get(charge.reservation_id ?? "")
    if (holding !== undefined) {
      holding.users += 1
      holding.isEnded = true
    }
    ledger.addUnwritten(charge.account_id, charge.cost_microdollars, holding?.amount ?? 0)
  }

  /** Must be called once the charges are in the database. Moves them from the unwritten amounts to the balances. */
  const completeCharges = (rows: UsageColumns) => {
    sending = undefined
    for (const place of rows.findIndexes()) {
      const [account_id = 0, cost = 0] = [rows.accounts[place], rows.costs[place]]
      const reservation_id = rows.reservations.get(place) ?? ""
      const holding = holdings.get(reservation_id)
      if (cost === 0 && holding === undefined) continue
      const amount = holding?.amount ?? 0
      ledger.addUnwritten(account_id, -cost, -amount)
      ledger.adjust(account_id, cost, -amount)
      if (holding === undefined) continue
      holding.amount = 0
      holding.users -= 1
      if (holding.users === 0) holdings.delete(reservation_id)
    }
  }

  const listEnded = (account_id: number) =>
    Array.from(holdings).flatMap(([id, other]) => other.isEnded && other.account_id === account_id ? [id] : [])

  /** Extends how long this process relies on a reservation, starting from the time when the renewal was requested. */
  const extend = (holding: Holding, requestedAt: number) => {
    holding.validUntil = requestedAt + Duration.toMillis(holderTtl)
  }

  /** Sets a reservation's amount in PostgreSQL. Retries a refusal that may be wrong. */
  const reserve = Effect.fnUntraced(function* (id: string, holding: Holding, needed: number, wanted: number) {
    const { account_id } = holding
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
      const granted = found?.granted ?? null
      if (granted !== null) {
        ledger.adjust(account_id, 0, granted - holding.amount)
        holding.amount = granted
        extend(holding, requestedAt)
      } else {
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
   * Opens a reservation, which sets aside part of a balance for an export. Its amount is 0 at first. The reservation is
   * renewed until the scope closes and the export's cost has been written.
   */
  const open = Effect.fnUntraced(function* (account_id: number) {
    const id = SecureRandom.uuidV7Unsafe()
    const holding: Holding = { account_id, amount: 0, users: 1, isEnded: false, validUntil: 0 }
    holdings.set(id, holding)
    // The export may be recorded after this finalizer runs, so the entry stays in `holdings` until the next renewal.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        holding.users -= 1
      })
    )
    return {
      id,
      /** Returns the reserved amount, or 0 once this process may no longer rely on the reservation. */
      getAmount: () => now() < holding.validUntil ? holding.amount : 0,
      /**
       * Sets the reserved amount to `wanted` microdollars. If less is available but at least `needed`, reserves what is
       * available. Otherwise leaves the amount unchanged.
       */
      reserve: (needed: number, wanted: number) => reserve(id, holding, needed, wanted),
    }
  })

  const renewAll = Effect.suspend(() => {
    for (const [id, { users }] of holdings) if (users === 0) holdings.delete(id)
    const renewed = new Map(holdings)
    const requestedAt = now()
    return renewed.size === 0 ? Effect.void : Effect.map(statements.renew(Array.from(renewed.keys())), (found) => {
      for (const { reservation_id } of found) {
        const holding = renewed.get(reservation_id)
        if (holding !== undefined) extend(holding, requestedAt)
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
