/** Takes the client's address from `X-Forwarded-For` if the request comes from a proxy in `TRUSTED_PROXIES`. */
import { Config, Effect, Result, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

/** Number of bits in front of the IPv4 address in an IPv4-mapped IPv6 address. */
const mappedPrefixBits = 96

/** Converts a network of IPv4-mapped IPv6 addresses to IPv4, as addresses are before they are compared with it. */
const toCanonicalNetwork = (network: IpNetwork.IpNetwork) => {
  const address = NetAddress.toCanonical(network.address)
  const isMapped = address !== network.address && network.prefixLength >= mappedPrefixBits
  return isMapped ? IpNetwork.makeUnsafe(address, network.prefixLength - mappedPrefixBits) : network
}

/** Parses a network such as `10.0.0.0/8`, or a single address. */
const parseNetwork = (text: string) =>
  Result.map(
    IpNetwork.fromString(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`),
    toCanonicalNetwork,
  )

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

export const TrustedProxiesConfig = Config.schema(NetworkList, "TRUSTED_PROXIES").pipe(Config.withDefault([]))

/** Parses an entry of `X-Forwarded-For`, which some proxies write with a port or brackets. */
const parseForwardedAddress = (text: string) => {
  const ip = NetAddress.ipFromString(text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text)
  if (Result.isSuccess(ip)) return NetAddress.toCanonical(ip.success)
  const inet = NetAddress.inetAddressFromString(text)
  return Result.isSuccess(inet) ? NetAddress.toCanonical(inet.success.address) : undefined
}

/**
 * Makes a function that returns the address of the client: the peer's, or the last one in `X-Forwarded-For` that is not
 * a trusted proxy's. Undefined if a trusted proxy names no client, so that nothing is counted for the proxy.
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
