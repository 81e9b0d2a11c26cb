/** Takes the client's address from `X-Forwarded-For` if the request comes from a proxy in `TRUSTED_PROXIES`. */
import { Config, Effect, Result, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { HttpMiddleware, type HttpServerResponse } from "effect/http"
import { IpNetwork } from "effect/net"

/** Parses a network such as `10.0.0.0/8`, or a single address. */
const parseNetwork = (text: string) =>
  IpNetwork.fromString(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`)

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

/** Makes a middleware that replaces the address of a trusted proxy with the address of its client. */
export const makeTrustedProxiesMiddleware = Effect.map(TrustedProxiesConfig, (trustedProxies) => {
  const resolveAddress = HttpMiddleware.xForwardedHeaders({ trustedProxies })
  return <E, R>(httpApp: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    trustedProxies.length === 0 ? httpApp : resolveAddress(httpApp)
})
