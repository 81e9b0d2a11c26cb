/**
 * Schedules webhook sending. An endpoint's messages are sent during its turns. Turns are assigned so that neither slow
 * receivers nor accounts with many endpoints delay others (docs/operations/webhooks.md). The schedule is based only on
 * what this process has observed.
 */
import { Duration } from "effect"
import { LRUCache } from "lru-cache"

/** Maximum number of concurrent turns: in total, for slow endpoints, and per account. */
export const maxConcurrentDeliveries = { total: 50, slow: 40, perAccount: 10 }

/** An endpoint is considered slow if its attempts take longer than this on average. */
const slowAttempt = Duration.seconds(2)

/**
 * Weight of the latest attempt in the moving average. With this weight, one timeout makes an endpoint slow, and two
 * quick attempts make it fast again.
 */
const latestShare = 0.25

/**
 * Maximum number of endpoints, and of accounts, whose history is cached. An evicted endpoint or account is treated as
 * new.
 */
const maxRemembered = 20_000

/** An endpoint with a message that is due. */
export interface DueEndpoint {
  readonly endpoint_id: bigint
  readonly account_id: bigint
}

interface EndpointHistory {
  /** Number of the endpoint's last turn. Turns are numbered from 1. */
  readonly lastTurn: number
  /** Average duration of an attempt, in milliseconds. */
  readonly averageMillis: number
}

const newEndpoint: EndpointHistory = { lastTurn: 0, averageMillis: 0 }

/** Creates the scheduler of a process. */
export const makeDeliveryScheduler = () => {
  const running = new Map<bigint, { readonly account: bigint; readonly isSlow: boolean }>()
  const endpoints = new LRUCache<bigint, EndpointHistory>({ max: maxRemembered })
  /** Number of each account's last turn. */
  const accounts = new LRUCache<bigint, number>({ max: maxRemembered })
  let turns = 0

  const getHistory = (endpoint: bigint) => endpoints.get(endpoint) ?? newEndpoint
  const isSlow = (endpoint: bigint) => getHistory(endpoint).averageMillis > Duration.toMillis(slowAttempt)

  /**
   * Returns the endpoint that gets the next turn. Prefers the account with the fewest turns in progress, then the
   * account whose last turn was longest ago, and then the endpoint whose last turn was longest ago. If endpoints are
   * still tied, the first one in `due` is chosen.
   */
  const findNext = (due: ReadonlyArray<DueEndpoint>) => {
    const current = [...running.values()]
    const turnsByAccount = Map.groupBy(current, ({ account }) => account)
    const countTurns = (account: bigint) => turnsByAccount.get(account)?.length ?? 0
    const mayBeSlow = current.filter((turn) => turn.isSlow).length < maxConcurrentDeliveries.slow
    // `||` continues with the next criterion if the difference is 0.
    const isBefore = (a: DueEndpoint, b: DueEndpoint) =>
      (countTurns(a.account_id) - countTurns(b.account_id) ||
        (accounts.get(a.account_id) ?? 0) - (accounts.get(b.account_id) ?? 0) ||
        getHistory(a.endpoint_id).lastTurn - getHistory(b.endpoint_id).lastTurn) < 0
    return due
      .filter(({ account_id, endpoint_id }) =>
        !running.has(endpoint_id) && countTurns(account_id) < maxConcurrentDeliveries.perAccount &&
        (mayBeSlow || !isSlow(endpoint_id))
      )
      .reduce<DueEndpoint | undefined>(
        (best, next) => best === undefined || isBefore(next, best) ? next : best,
        undefined,
      )
  }

  return {
    /** Starts turns for as many of the due endpoints as the limits allow. Returns these endpoints. */
    begin: (due: ReadonlyArray<DueEndpoint>) => {
      const begun: Array<DueEndpoint> = []
      while (running.size < maxConcurrentDeliveries.total) {
        const next = findNext(due)
        if (next === undefined) break
        const { account_id, endpoint_id } = next
        turns += 1
        running.set(endpoint_id, { account: account_id, isSlow: isSlow(endpoint_id) })
        endpoints.set(endpoint_id, { ...getHistory(endpoint_id), lastTurn: turns })
        accounts.set(account_id, turns)
        begun.push(next)
      }
      return begun
    },
    end: (endpoint: bigint) => {
      running.delete(endpoint)
    },
    /** Records the duration of an attempt. */
    recordAttempt: (endpoint: bigint, time: Duration.Duration) => {
      const history = getHistory(endpoint)
      const averageMillis = history.averageMillis + latestShare * (Duration.toMillis(time) - history.averageMillis)
      endpoints.set(endpoint, { ...history, averageMillis })
    },
    /** Returns whether the maximum number of turns is in progress. */
    isFull: () => running.size >= maxConcurrentDeliveries.total,
  }
}
