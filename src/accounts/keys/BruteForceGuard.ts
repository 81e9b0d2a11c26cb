/**
 * Blocks addresses that send too many wrong API keys (D2; D18, rate limits). Each process counts separately
 * (docs/decisions/0011-wrong-keys-per-process.md).
 */
import { Cache, Clock, Config, Duration, Effect, Metric, Result, Schema } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { initializeCounters, makeCounter } from "../../postgres/metrics/CallbackMetrics.ts"
import { getMonotonicMillis } from "../../postgres/metrics/MonotonicTime.ts"
import type { ApiRequest } from "../../contract/rules/ApiRequest.ts"
import { ErrorWithHeaders, RateLimitExceeded } from "../../contract/AccountErrors.ts"

/** Maximum number of wrong API keys per client address and minute. */
export const WrongKeysLimitConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })),
  "WRONG_KEYS_LIMIT",
).pipe(Config.withDefault(30))

const window = Duration.minutes(1)

const tooManyWrongKeys = new RateLimitExceeded({
  error: { message: "Too many wrong API keys from this address. Wait the number of seconds in Retry-After." },
})

/**
 * Returns the network that is blocked as a unit: a single IPv4 address, or the /64 of an IPv6 address, which usually
 * belongs to one customer.
 */
const toNetwork = (text: string) =>
  Result.match(NetAddress.ipFromString(text), {
    onFailure: () => text,
    onSuccess: (parsed) => {
      const address = NetAddress.toCanonical(parsed)
      return IpNetwork.format(IpNetwork.fromAddressUnsafe(address, NetAddress.isIpv6Address(address) ? 64 : 32))
    },
  })

/** Minimum interval between warnings about a trusted proxy that does not send the client's address. */
const warningInterval = Duration.hours(1)

const unnamedClientsTotal = makeCounter(
  "tickerline_proxy_clients_unnamed_total",
  "Requests with a key from a trusted proxy that named no client in X-Forwarded-For. Their wrong keys are " +
    "not counted.",
)

/**
 * Creates a process's guard, which counts wrong API keys by network and refuses networks that have sent too many. It
 * tracks at most `maxNetworks` networks.
 */
export const makeBruteForceGuard = Effect.fnUntraced(function* (maxNetworks = 100_000) {
  const limit = yield* WrongKeysLimitConfig
  const clock = yield* Clock.Clock
  yield* initializeCounters(unnamedClientsTotal)
  let nextWarningAt = -Infinity

  /**
   * Counts a request whose sender is unknown, because the trusted proxy `proxy` did not send the client's address. Logs
   * a warning unless one was logged within `warningInterval`.
   */
  const reportUnnamedClient = Effect.fnUntraced(function* (proxy: string) {
    yield* Metric.update(unnamedClientsTotal, 1)
    if (getMonotonicMillis(clock) < nextWarningAt) return
    nextWarningAt = getMonotonicMillis(clock) + Duration.toMillis(warningInterval)
    yield* Effect.logWarning(
      `${proxy} is in TRUSTED_PROXIES, but a request from it names no client address in X-Forwarded-For, so wrong ` +
        "keys are not counted. Configure the proxy to send this header (docs/operations/load-balancer.md), or remove " +
        "the address from TRUSTED_PROXIES if it is not a proxy.",
    )
  })

  /**
   * Returns the network that a request's wrong key is attributed to. Returns undefined if the request comes from a
   * trusted proxy that did not send the client's address.
   */
  const findSender = ({ address, peerAddress }: ApiRequest): Effect.Effect<string | undefined> => {
    if (address !== undefined) return Effect.succeed(toNetwork(address))
    return peerAddress === undefined ? Effect.undefined : Effect.as(reportUnnamedClient(peerAddress), undefined)
  }

  const newEnd = () => getMonotonicMillis(clock) + Duration.toMillis(window)
  const windows = yield* Cache.make({
    capacity: maxNetworks,
    timeToLive: window,
    lookup: (_network: string) => Effect.sync(() => ({ wrongKeys: 0, endsAt: newEnd() })),
  })

  /**
   * Fails with 429 if a network has sent `limit` wrong keys in its current window of one minute. If that window has
   * ended, starts a new one.
   */
  const checkWindow = Effect.fnUntraced(function* (current: { wrongKeys: number; endsAt: number }) {
    const millisLeft = current.endsAt - getMonotonicMillis(clock)
    if (millisLeft <= 0) Object.assign(current, { wrongKeys: 0, endsAt: newEnd() })
    if (current.wrongKeys < limit) return
    const headers = { "retry-after": String(Math.ceil(millisLeft / 1000)) }
    return yield* new ErrorWithHeaders({ error: tooManyWrongKeys, headers })
  })

  /** Fails with 429 if the sender is blocked. */
  const requireUnblocked = Effect.fnUntraced(function* (sender: string | undefined) {
    if (sender === undefined) return
    const current = yield* Cache.getSuccess(windows, sender)
    if (current._tag === "Some") yield* checkWindow(current.value)
  })

  /**
   * Counts a wrong key. Fails with 429 if the sender is already blocked, so at most `limit` wrong keys per window get a
   * 401.
   */
  const countWrongKey = Effect.fnUntraced(function* (sender: string | undefined) {
    if (sender === undefined) return
    const current = yield* Cache.get(windows, sender)
    yield* checkWindow(current)
    current.wrongKeys += 1
  })

  return { findSender, requireUnblocked, countWrongKey }
})
