/** Takes the client's address from `X-Forwarded-For` if the request comes from a proxy in `TRUSTED_PROXIES`. */
import { Config, Effect, Result, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { parseNetwork } from "../contract/rules/IpNetworks.ts"

const NetworkList = Schema.String.pipe(Schema.decodeTo(
  Schema.Array(Schema.declare(IpNetwork.isIpNetwork)),
  SchemaTransformation.transformEffect({
    decode: (text) =>
      Effect.forEach(
        text.split(",").map((entry) => entry.trim()),
        (entry) =>
          Effect.fromResult(Result.mapError(parseNetwork(entry), () =>
            new SchemaIssue.InvalidValue({
              message: `${entry} is not a network; expected addresses or networks, such as 10.0.0.0/8,192.0.2.1`,
            }))),
      ),
    encode: (networks: ReadonlyArray<IpNetwork.IpNetwork>) => Effect.succeed(networks.map(IpNetwork.format).join(",")),
  }),
))

/** The setting `TRUSTED_PROXIES`: the networks of proxies whose `X-Forwarded-For` is believed. */
export const TrustedProxiesConfig = Config.schema(NetworkList, "TRUSTED_PROXIES").pipe(Config.withDefault([]))

/** Parses an entry of `X-Forwarded-For`, which some proxies write with a port or brackets. */
const parseForwardedAddress = (text: string) => {
  const ip = NetAddress.ipFromString(text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text)
  if (Result.isSuccess(ip)) return NetAddress.toCanonical(ip.success)
  const inet = NetAddress.inetAddressFromString(text)
  return Result.isSuccess(inet) ? NetAddress.toCanonical(inet.success.address) : undefined
}

/**
 * Creates a function that returns the client's address: the peer's or, if the peer is a trusted proxy, the last address
 * in `X-Forwarded-For` that is not a trusted proxy's. Returns undefined if there is no such address, so that limits per
 * address never count the requests of all clients of a proxy together.
 */
export const makeClientAddressResolver = Effect.map(TrustedProxiesConfig, (trustedProxies) => {
  const isTrusted = (address: NetAddress.IpAddress | undefined) =>
    address !== undefined && trustedProxies.some((network) => IpNetwork.contains(network, address))

  return (peer: string | undefined, forwardedFor: string | undefined): string | undefined => {
    if (trustedProxies.length === 0 || peer === undefined || !isTrusted(parseForwardedAddress(peer))) return peer
    for (const entry of forwardedFor?.split(",").toReversed() ?? []) {
      const address = parseForwardedAddress(entry.trim())
      if (address === undefined) return undefined
      if (!isTrusted(address)) return NetAddress.formatIp(address)
    }
    return undefined
  }
})
