/** Settings of the `serve` command, in a module of their own so that other commands do not load the server. */
import { Config, Duration, Effect, Option } from "effect"
import { BaseUrlConfig } from "../../api/BaseUrl.ts"

/** The address on which the API listens. */
export const HostConfig = Config.NonEmptyString("HOST").pipe(Config.withDefault("127.0.0.1"))
/** The port on which the API listens. */
export const PortConfig = Config.Port("PORT").pipe(Config.withDefault(8080))

/** Whether only programs on this machine can connect to this host, which is the value of `HOST` or part of a URL. */
export const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|\[?::1\]?)$/.test(host)

/**
 * Lets several processes listen on one port, for example one per core. Linux distributes the connections among them.
 */
export const ReusePortConfig = Config.Boolean("REUSE_PORT").pipe(Config.withDefault(false))

/** Delay between the signal to stop and the shutdown, during which `/health/ready` reports "not ready". */
export const ShutdownDelayConfig = Config.Duration("SHUTDOWN_DELAY").pipe(Config.withDefault(Duration.zero))

/** The URL under which clients reach the service, without a trailing slash. */
export const apiBaseUrl = Effect.gen(function* () {
  const configured = yield* BaseUrlConfig
  const [host, port] = [yield* HostConfig, yield* PortConfig]
  const localHost = host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host
  return Option.getOrElse(configured, () => `http://${localHost}:${port}`)
})
