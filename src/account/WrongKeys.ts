/** Guessing keys: an address that sends too many wrong ones has to wait before it is answered about another. */
import { Cache, Config, Duration, Effect, Option, Result, Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import { IpNetwork, NetAddress } from "effect/net"
import { setHeaders } from "../policy/Exchange.ts"
import { RateLimitExceeded } from "./Errors.ts"

export const Most = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 })),
  "WRONG_KEYS_LIMIT",
)
  .pipe(Config.withDefault(30))

const window = Duration.minutes(1)

/** As many addresses are kept in mind; who has more of them than that is not stopped by counting addresses. */
const addresses = 100_000

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

/** `check` fails for an address that has used up its wrong keys; `note` counts one. */
export const make = Effect.gen(function* () {
  const most = yield* Most
  const counts = yield* Cache.make({
    capacity: addresses,
    timeToLive: window,
    lookup: (_network: string) => Effect.sync(() => ({ wrong: 0 })),
  })
  const network = Effect.map(
    HttpServerRequest.HttpServerRequest,
    ({ remoteAddress }) => networkOf(Option.getOrElse(remoteAddress, () => "")),
  )

  const check = Effect.gen(function* () {
    const found = yield* Cache.getSuccess(counts, yield* network)
    if (Option.isNone(found) || found.value.wrong < most) return
    yield* setHeaders({ "Retry-After": String(Duration.toSeconds(window)) })
    return yield* wait
  })

  const note = Effect.gen(function* () {
    const count = yield* Cache.get(counts, yield* network)
    count.wrong += 1
  })
  return { check, note }
})
