/** Takes the client's address from `X-Forwarded-For` if the request comes from a proxy in `TRUSTED_PROXIES`. */
import { Config, Effect, Option, Result, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { HttpMiddleware, HttpServerRequest, type HttpServerResponse } from "effect/http"
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

/**
 * Makes a middleware that replaces the address of a trusted proxy with the address of its client. If the proxy names no
 * client, the request has no `remoteAddress`, so that nothing is counted for the proxy.
 */
export const makeTrustedProxiesMiddleware = Effect.map(TrustedProxiesConfig, (trustedProxies) => {
  const resolveAddress = HttpMiddleware.xForwardedHeaders({ trustedProxies })
  const isTrusted = (peer: string) =>
    Result.match(NetAddress.ipFromString(peer), {
      onFailure: () => false,
      onSuccess: (address) =>
        trustedProxies.some((network) => IpNetwork.contains(network, NetAddress.toCanonical(address))),
    })

  return <E, R>(httpApp: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) => {
    if (trustedProxies.length === 0) return httpApp
    return Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      (original) =>
        resolveAddress(Effect.updateService(httpApp, HttpServerRequest.HttpServerRequest, (resolved) =>
          // Effect returns the same object if `X-Forwarded-For` contains no usable address, and the address of a proxy
          // if it contains only proxies.
          (resolved === original || Option.exists(resolved.remoteAddress, isTrusted)) &&
            Option.exists(original.peerAddress, isTrusted)
            ? original.modify({ remoteAddress: Option.none(), peerAddress: original.peerAddress })
            : resolved)),
    )
  }
})
