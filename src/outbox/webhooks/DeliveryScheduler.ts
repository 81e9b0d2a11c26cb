/**
 * Schedules the sending of webhook messages. A scheduling slot is the time in which one webhook endpoint's messages are
 * sent, one at a time. Slots are assigned so that neither slow receivers nor accounts with many endpoints delay others
 * (docs/operations/webhooks.md). The schedule is based only on what this process has observed.
 */
import { Duration } from "effect"
import { LRUCache } from "lru-cache"

/**
 * Maximum number of slots in use at the same time: in total, by slow endpoints, and by the endpoints of one account.
 */
export const maxConcurrentDeliveries = { total: 50, slow: 40, perAccount: 10 }

/** A webhook endpoint is considered slow if attempts to deliver to it take longer than this on average. */
const slowAttempt = Duration.seconds(2)

/**
 * Weight of the latest attempt in the moving average of an endpoint's attempt durations. With this weight, one timeout
 * makes an endpoint slow, and two quick attempts make it fast again.
 */
const latestShare = 0.25

/**
 * Maximum number of endpoints, and of accounts, whose history is cached. One that has been evicted from the cache is
 * treated as new.
 */
const maxRemembered = 20_000

/** A webhook endpoint with a message that is due. */
export interface DueEndpoint {
  readonly endpoint_id: bigint
  readonly account_id: bigint
}

/** What the scheduler remembers about an endpoint. */
interface EndpointHistory {
  /**
   * Number of the endpoint's latest slot. A process numbers its slots from 1. An endpoint that has not had a slot has
   * 0.
   */
  readonly lastSlot: number
  /** Moving average of the durations of attempts to deliver to the endpoint, in milliseconds. */
  readonly averageMillis: number
}

const newEndpoint: EndpointHistory = { lastSlot: 0, averageMillis: 0 }

/**
 * Creates a process's scheduler. It decides which webhook endpoints are sent their messages now. An endpoint gets a
 * slot, in which several of its messages may be sent, one after the other. There are limits on the slots in use: in
 * total, per account, and for slow endpoints (`maxConcurrentDeliveries`).
 */
export const makeDeliveryScheduler = () => {
  /** The slots in use, by endpoint id. `isSlow` is whether the endpoint was slow when the slot began. */
  const slots = new Map<bigint, { readonly account: bigint; readonly isSlow: boolean }>()
  const endpoints = new LRUCache<bigint, EndpointHistory>({ max: maxRemembered })
  /** Number of each account's latest slot. */
  const lastSlotByAccount = new LRUCache<bigint, number>({ max: maxRemembered })
  /** Number of the latest slot. */
  let lastSlot = 0

  const getHistory = (endpoint: bigint) => endpoints.get(endpoint) ?? newEndpoint
  const isSlow = (endpoint: bigint) => getHistory(endpoint).averageMillis > Duration.toMillis(slowAttempt)

  /**
   * Returns the endpoint that gets the next slot, or undefined if the limits allow none of the due endpoints to begin.
   * Prefers the account with the fewest slots in use, then the account whose latest slot began longest ago, and then
   * the endpoint whose latest slot began longest ago. If endpoints are still tied, the first one in `due` is chosen.
   */
  const findNext = (due: ReadonlyArray<DueEndpoint>) => {
    const inUse = [...slots.values()]
    const slotsByAccount = Map.groupBy(inUse, ({ account }) => account)
    const countSlots = (account: bigint) => slotsByAccount.get(account)?.length ?? 0
    const hasRoomForSlow = inUse.filter((slot) => slot.isSlow).length < maxConcurrentDeliveries.slow
    // `||` continues with the next criterion if the difference is 0.
    const isBefore = (a: DueEndpoint, b: DueEndpoint) =>
      (countSlots(a.account_id) - countSlots(b.account_id) ||
        (lastSlotByAccount.get(a.account_id) ?? 0) - (lastSlotByAccount.get(b.account_id) ?? 0) ||
        getHistory(a.endpoint_id).lastSlot - getHistory(b.endpoint_id).lastSlot) < 0
    return due
      .filter(({ account_id, endpoint_id }) =>
        !slots.has(endpoint_id) && countSlots(account_id) < maxConcurrentDeliveries.perAccount &&
        (hasRoomForSlow || !isSlow(endpoint_id))
      )
      .reduce<DueEndpoint | undefined>(
        (best, next) => best === undefined || isBefore(next, best) ? next : best,
        undefined,
      )
  }

  return {
    /**
     * Assigns slots to as many of the due endpoints as the limits allow. Returns these endpoints. For each of them,
     * `end` must be called later.
     */
    begin: (due: ReadonlyArray<DueEndpoint>) => {
      const begun: Array<DueEndpoint> = []
      while (slots.size < maxConcurrentDeliveries.total) {
        const next = findNext(due)
        if (next === undefined) break
        const { account_id, endpoint_id } = next
        lastSlot += 1
        slots.set(endpoint_id, { account: account_id, isSlow: isSlow(endpoint_id) })
        endpoints.set(endpoint_id, { ...getHistory(endpoint_id), lastSlot })
        lastSlotByAccount.set(account_id, lastSlot)
        begun.push(next)
      }
      return begun
    },
    /** Ends an endpoint's slot. */
    end: (endpoint: bigint) => {
      slots.delete(endpoint)
    },
    /** Updates an endpoint's average with the duration of an attempt to deliver a message. */
    recordAttempt: (endpoint: bigint, time: Duration.Duration) => {
      const history = getHistory(endpoint)
      const averageMillis = history.averageMillis + latestShare * (Duration.toMillis(time) - history.averageMillis)
      endpoints.set(endpoint, { ...history, averageMillis })
    },
    /** Returns whether the maximum number of slots is in use. */
    isFull: () => slots.size >= maxConcurrentDeliveries.total,
  }
}
