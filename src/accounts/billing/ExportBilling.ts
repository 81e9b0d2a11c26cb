/**
 * Reserves the cost of exports, and aborts an export if its account loses access to the data or can no longer pay (D13,
 * D27).
 */
import { Effect } from "effect"
import type { ExportRefusal, ExportResult } from "../../contract/rules/EndpointResult.ts"
import type { EndpointAccess } from "../../contract/rules/EndpointAnnotations.ts"
import { InsufficientCredits, makeCreditDetails } from "../../contract/AccountErrors.ts"
import { canKeyUseAddress } from "../keys/AllowedNetworks.ts"
import { canAccountUseEndpoint, type CurrentAccount } from "../../contract/Authentication.ts"
import { KeyWatcher } from "../keys/KeyWatcher.ts"
import { type BalanceReservation, PrepaidBalances } from "./PrepaidBalances.ts"
import { computeAffordableBytes, computeDataCost } from "./Pricing.ts"

type Account = typeof CurrentAccount.Service

type Attempt = Effect.Success<ReturnType<BalanceReservation["reserve"]>>

/**
 * Creates the error for an export that costs `cost` microdollars, which is more than the account can spend.
 * `remaining_microdollars` is what it can spend without the amounts reserved by its other exports, and
 * `reserved_microdollars` is the sum of these. The message names the limit that is reached: the monthly budget or the
 * prepaid balance.
 */
const makeExportCostError = (
  { is_limited_by_budget }: Account,
  cost: number,
  { remaining_microdollars, reserved_microdollars }: Attempt,
) => {
  const unreserved = `${remaining_microdollars + reserved_microdollars} microdollars`
  const [remaining, alternative] = reserved_microdollars > 0
    ? [
      `${unreserved}, of which other exports in progress have reserved ${reserved_microdollars}`,
      ", reduce the export, or wait until the others end.",
    ]
    : [unreserved, ", or reduce the export."]
  const [limit, advice] = is_limited_by_budget
    ? ["rest of the account's budget for this month", "Ask for a higher budget"]
    : ["remaining prepaid balance", "Add credit"]
  const message = `The export costs ${cost} microdollars, more than the ${limit}: ${remaining}. ${advice}${alternative}`
  return new InsufficientCredits({
    error: { message, details: makeCreditDetails(is_limited_by_budget, remaining_microdollars) },
  })
}

const revokedKey: ExportRefusal = { status: 401, reason: "its key was revoked or disabled, or has expired." }
const lostAccess: ExportRefusal = { status: 403, reason: "the account or the key may no longer use its endpoint." }
const otherAddress: ExportRefusal = { status: 403, reason: "its key may no longer be used from the client's address." }
const costsTooMuch: ExportRefusal = { status: 402, reason: "it costs more than the account can still spend." }

/** The billing state of an export in progress. */
export interface BilledExport {
  /**
   * Id of the reservation that ends when the export is recorded as usage. Null if the account has no spending limit, or
   * if the endpoint is free.
   */
  readonly reservation_id: string | null
  /**
   * Returns the reason to abort the export before the next chunk, or undefined to continue. `bytes` is the size of the
   * body including the next chunk.
   */
  readonly checkChunk: (bytes: number) => Effect.Effect<ExportRefusal | undefined>
}

/**
 * Builds the function that reserves the cost of an export and then watches the export's key and cost. Called once, at
 * startup.
 */
export const makeExportBilling = Effect.gen(function* () {
  const { getRemaining, open } = yield* PrepaidBalances
  const { watch } = yield* KeyWatcher

  /**
   * Reserves the expected cost of an export. If the expected cost is more than half of what the account can still
   * spend, the export is first encoded without being sent, and the exact cost is reserved. Fails with 402 if the
   * account cannot pay the exact cost.
   */
  const reserve = Effect.fnUntraced(function* (result: ExportResult, account: Account, price: number) {
    const reservation = yield* open(account.account_id)
    const expected = computeDataCost(result.expectedBytes, price)
    if (expected === 0) return reservation
    if (expected <= getRemaining(account) / 2 && (yield* reservation.reserve(expected, expected)).isGranted) {
      return reservation
    }
    const cost = computeDataCost(yield* result.measureBytes, price)
    const attempt = yield* reservation.reserve(cost, cost)
    return attempt.isGranted ? reservation : yield* makeExportCostError(account, cost, attempt)
  })

  /**
   * Returns the reason to abort an export of which `bytes` bytes will have been sent, if these cost more than its
   * reservation and the reservation cannot be enlarged. Returns undefined if the export may continue.
   */
  const checkReservation = (
    reservation: BalanceReservation,
    price: number,
    bytes: number,
  ): Effect.Effect<ExportRefusal | undefined> => {
    if (bytes <= computeAffordableBytes(reservation.getAmount(), price)) return Effect.undefined
    const cost = computeDataCost(bytes, price)
    // Reserve 25% more than needed, so that the reservation rarely has to be enlarged.
    return Effect.match(reservation.reserve(cost, Math.ceil(cost * 1.25)), {
      onSuccess: ({ isGranted }) => isGranted ? undefined : costsTooMuch,
      onFailure: ({ error }) => ({ status: 503, reason: error.message }),
    })
  }

  /**
   * Prepares to bill an export that is about to begin. Reserves its cost if the account has a spending limit. Until the
   * scope closes, the reservation is renewed, and the key is checked twice a second: it must still work, may use the
   * endpoint, and may be used from `address`, the client's IP address. Returns the reservation's id and the check to
   * run before each chunk.
   */
  return Effect.fnUntraced(function* (
    result: ExportResult,
    account: Account,
    address: string | undefined,
    access: EndpointAccess,
    price: number,
  ) {
    const isReserved = price > 0 && account.spendable_microdollars !== null
    const reservation = isReserved ? yield* reserve(result, account, price) : undefined
    let refusal: ExportRefusal | undefined
    yield* watch(account, (current) => {
      if (current === undefined) refusal = revokedKey
      else if (!canAccountUseEndpoint(current, access)) refusal = lostAccess
      else if (!canKeyUseAddress(current, address)) refusal = otherAddress
    })
    const checkChunk = (bytes: number) =>
      Effect.suspend(() =>
        refusal !== undefined || reservation === undefined
          ? Effect.succeed(refusal)
          : checkReservation(reservation, price, bytes)
      )
    const billed: BilledExport = { reservation_id: reservation?.id ?? null, checkChunk }
    return billed
  })
})
