/** Messages about addresses and ports that the service cannot listen on. */
import { Config, Effect, Option, Predicate } from "effect"
import type { HttpServerError } from "effect/http"
import { readSettingText } from "./SettingErrors.ts"

const text = (error: unknown, name: string) => Predicate.hasProperty(error, name) ? String(error[name]) : undefined

/** Some systems have no `SO_REUSEPORT` that shares connections out. */
const cannotShare = new Set(["ENOTSUP", "EOPNOTSUPP", "ENOPROTOOPT", "EINVAL"])

/** The API and the metrics have a port and a host each; the error tells which of them it is about. */
const namesFor = Effect.fnUntraced(function* (cause: unknown) {
  const values = yield* Effect.forEach(["HOST", "METRICS_HOST", "METRICS_PORT"], readSettingText)
  const [host, metricsHost, metricsPort] = values.map(Option.getOrUndefined)
  const [failedHost, failedPort] = [text(cause, "address") ?? text(cause, "hostname"), text(cause, "port")]
  const isMetrics = failedPort === undefined
    ? failedHost !== undefined && failedHost === metricsHost && failedHost !== host
    : failedPort === metricsPort
  return isMetrics
    ? { host: "METRICS_HOST", port: "METRICS_PORT", failedHost: failedHost ?? metricsHost, failedPort }
    : { host: "HOST", port: "PORT", failedHost: failedHost ?? host, failedPort: failedPort ?? "8080" }
})

/** Names the setting to change. */
export const describeListenError = Effect.fnUntraced(function* ({ cause }: HttpServerError.ServeError) {
  const { failedHost = "127.0.0.1", failedPort = "", host, port } = yield* namesFor(cause)
  const code = text(cause, "code") ?? ""
  const reusesPort = yield* Effect.orElseSucceed(Config.Boolean("REUSE_PORT"), () => false)
  if (code === "EADDRINUSE") {
    const other = Number(failedPort) < 65_535 ? Number(failedPort) + 1 : 8080
    return `${port} is ${failedPort}, but another program already uses that port on ${failedHost} (in use: ${code}). ` +
      `End that program (lsof -i :${failedPort} names it), or set ${port} to a free port, for example ${port}=${other}.`
  }
  if (code === "EACCES" || code === "EPERM") {
    return `${port} is ${failedPort}, but this user may not listen on that port (${code}); ports below 1024 need a ` +
      `right of their own. Set ${port} to a higher port, for example ${port}=8080, with a balancer in front, or give ` +
      "the process the capability CAP_NET_BIND_SERVICE."
  }
  if (reusesPort && cannotShare.has(code)) {
    return `REUSE_PORT is set, but this system cannot share a port among processes (${code}); Linux can. Unset it, ` +
      "and give each process a PORT of its own behind a balancer."
  }
  const why = code === "" ? text(cause, "message") ?? String(cause) : code
  return `${host} is "${failedHost}", which is not an address of this machine (${why}). Set it to one, for example ` +
    `${host}=127.0.0.1 for this machine alone or ${host}=0.0.0.0 for all of its addresses.`
})
