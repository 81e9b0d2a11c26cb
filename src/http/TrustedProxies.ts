/** Behind balancers a client's address is what they say it is: those of `TRUSTED_PROXIES`, and nobody else. */
import { Config, Effect, Layer, Result, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { HttpMiddleware, HttpRouter } from "effect/http"
import { IpNetwork } from "effect/net"

/** `10.0.0.0/8`, or one address. */
const read = (text: string) =>
  IpNetwork.fromString(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`)

const Networks = Schema.String.pipe(Schema.decodeTo(
  Schema.Array(Schema.declare(IpNetwork.isIpNetwork)),
  SchemaTransformation.transformEffect({
    decode: (text) =>
      Effect.forEach(
        text.split(",").map((entry) => entry.trim()),
        (entry) =>
          Effect.fromResult(Result.mapError(read(entry), () =>
            new SchemaIssue.InvalidValue({
              message: `${entry} is no network; expected addresses or networks, such as 10.0.0.0/8,192.0.2.1`,
            }))),
      ),
    encode: (networks: ReadonlyArray<IpNetwork.IpNetwork>) => Effect.succeed(networks.map(IpNetwork.format).join(",")),
  }),
))

export const TrustedProxiesConfig = Config.schema(Networks, "TRUSTED_PROXIES").pipe(Config.withDefault([]))

export const layer = Layer.unwrap(Effect.map(
  TrustedProxiesConfig,
  (trustedProxies) =>
    trustedProxies.length === 0
      ? Layer.empty
      : HttpRouter.middleware(HttpMiddleware.xForwardedHeaders({ trustedProxies }), { global: true }),
))
