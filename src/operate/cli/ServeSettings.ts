/** Settings of the `serve` command. They are in a separate module so that other commands do not load the server. */
import { Config, Duration, Effect, Option } from "effect"
import { BaseUrlConfig } from "../../api/BaseUrl.ts"

/** The address that the API listens on. */
export const HostConfig = Config.NonEmptyString("HOST").pipe(Config.withDefault("127.0.0.1"))
/** The port that the API listens on. */
export const PortConfig = Config.Port("PORT").pipe(Config.withDefault(8080))

/** Returns whether a host is reachable only from this machine. `host` is the value of `HOST` or the host of a URL. */
export const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|\[?::1\]?)$/.test(host)

/**
 * Whether several processes may listen on the same port, for example one per core. Linux distributes the connections
 * among them.
 */
export const ReusePortConfig = Config.Boolean("REUSE_PORT").pipe(Config.withDefault(false))

/** The delay between the stop signal and the shutdown. During the delay, `/health/ready` reports "not ready". */
export const ShutdownDelayConfig = Config.Duration("SHUTDOWN_DELAY").pipe(Config.withDefault(Duration.zero))

/** The URL at which clients reach the service, without a trailing slash. */
export const apiBaseUrl = Effect.gen(function* () {
  const configured = yield* BaseUrlConfig
  const [host, port] = [yield* HostConfig, yield* PortConfig]
  const localHost = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host
  return Option.getOrElse(configured, () => `http://${localHost}:${port}`)
})
