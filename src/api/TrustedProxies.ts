/**
 * Determines the client's address from `X-Forwarded-For` if a request comes from a proxy listed in `TRUSTED_PROXIES`.
 */
import { Config, Effect, Result, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { parseNetwork } from "../contract/rules/IpNetworks.ts"

/** A comma-separated list of IP addresses and networks. */
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

/** The setting `TRUSTED_PROXIES`, which lists the networks of proxies whose `X-Forwarded-For` header is trusted. */
export const TrustedProxiesConfig = Config.schema(NetworkList, "TRUSTED_PROXIES").pipe(Config.withDefault([]))

/**
 * Parses an entry of `X-Forwarded-For`, which is an IP address. Some proxies add a port or brackets. Returns undefined
 * if the entry is invalid.
 */
const parseForwardedAddress = (text: string) => {
  const ip = NetAddress.ipFromString(text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text)
  if (Result.isSuccess(ip)) return NetAddress.toCanonical(ip.success)
  const inet = NetAddress.inetAddressFromString(text)
  return Result.isSuccess(inet) ? NetAddress.toCanonical(inet.success.address) : undefined
}

/**
 * Builds a function that returns a client's address, given the peer's address and the `X-Forwarded-For` header.
 * Normally, the peer is the client. If the peer is a trusted proxy, the client's address is the last one in the header
 * that does not belong to a trusted proxy: addresses before it may have been invented by the client. Returns undefined
 * if there is no such address. Using the proxy's address instead would apply limits per address to all of the proxy's
 * clients together.
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
