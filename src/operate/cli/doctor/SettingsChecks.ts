/** Checks of the service on this machine: its settings, its port, and the addresses that clients use. */
import { Effect, Option, Schema } from "effect"
import { HttpClient } from "effect/http"
import { connect } from "node:net"
import { networkInterfaces } from "node:os"
import process from "node:process"
import { BaseUrlConfig } from "../../../api/BaseUrl.ts"
import { TrustedProxiesConfig } from "../../../api/TrustedProxies.ts"
import { MetricsHostConfig, MetricsPortConfig } from "../../../postgres/metrics/MetricsSettings.ts"
import { toFileVariable } from "../SecretFiles.ts"
import { HostConfig, isLoopback, PortConfig, ReusePortConfig } from "../ServeSettings.ts"
import {
  findInvalidSettings,
  findMisspelledSettings,
  formatMisspelledSettingAdvice,
  secretNames,
  settingNames,
} from "../Settings.ts"
import * as Finding from "./DoctorFinding.ts"

/**
 * Reports invalid and misspelled settings. If no setting is invalid, lists the settings that are set, but not their
 * values, because some are secrets.
 */
export const checkSettings = Effect.fnUntraced(function* (environment: Readonly<Record<string, string | undefined>>) {
  const invalid = (yield* findInvalidSettings).map(({ fix, problem }) => Finding.failed(problem, fix))
  const misspelled = findMisspelledSettings(environment).map((variable) =>
    Finding.warning(
      "no setting has this name, so it has no effect",
      formatMisspelledSettingAdvice(variable),
      variable.name,
    )
  )
  // A secret may also be in a file, whose path is in a variable such as `DATABASE_URL_FILE`.
  const set = settingNames.flatMap((name) => {
    const file = secretNames.has(name) ? environment[toFileVariable(name)] ?? "" : ""
    return file !== "" ? [`${name} (in ${file})`] : environment[name] === undefined ? [] : [name]
  })
  const summary = set.length === 0 ? "all have their defaults" : `set: ${set.join(", ")}`
  return [...(invalid.length === 0 ? [Finding.passed(summary)] : invalid), ...misspelled]
})

/** Returns whether a program accepts connections at the address. Does not send any data. */
const acceptsConnections = (host: string, port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = connect({ host, port, timeout: 2000 })
    const end = (isAccepted: boolean) => {
      socket.destroy()
      resume(Effect.succeed(isAccepted))
    }
    socket.once("connect", () => end(true))
    socket.once("timeout", () => end(false))
    socket.once("error", () => end(false))
    return Effect.sync(() => socket.destroy())
  })

const OpenApiInfo = Schema.fromJsonString(Schema.Struct({
  info: Schema.Struct({ title: Schema.String, version: Schema.String }),
}))

/**
 * Reads the service's title and version from its OpenAPI document. Returns `None` if there is no such document at the
 * origin.
 */
const identifyService = Effect.fnUntraced(
  function* (origin: string) {
    const response = yield* HttpClient.get(`${origin}/v1/openapi.json`)
    return yield* Schema.decodeEffect(OpenApiInfo)(yield* response.text)
  },
  Effect.timeout("3 seconds"),
  Effect.option,
)

const allAddresses = new Set(["0.0.0.0", "::"])

/** Returns the address at which this machine can reach a server that listens on `host`. */
const toLocalHost = (host: string) => allAddresses.has(host) ? "127.0.0.1" : host

const formatLocalOrigin = (host: string, port: number) => {
  const localHost = toLocalHost(host)
  return `http://${localHost.includes(":") ? `[${localHost}]` : localHost}:${port}`
}

const isAddressOfThisMachine = (host: string) =>
  host === "localhost" || allAddresses.has(host) || host.startsWith("127.") ||
  Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === host) === true)

/**
 * Reports whether the service can listen on the API port, or already does. The port is in use if a connection to it
 * succeeds. The program that uses it is identified by its OpenAPI document.
 */
export const checkPort = Effect.gen(function* () {
  const [host, port, reusesPort] = [yield* HostConfig, yield* PortConfig, yield* ReusePortConfig]
  // Only an IP address can be compared with the machine's addresses; a host name would have to be resolved first.
  if (/^[\d.]+$|:/.test(host) && !isAddressOfThisMachine(host)) {
    return Finding.failed(
      `${host} is not an address of this machine`,
      "Set HOST to one of its addresses, or to 0.0.0.0 for all of them.",
    )
  }
  if (!(yield* acceptsConnections(toLocalHost(host), port))) {
    return port < 1024 && process.getuid?.() !== 0
      ? Finding.warning(
        `${port} is free, but may need special permission`,
        "Set PORT to 1024 or higher, and let a load balancer listen on the lower port.",
      )
      : Finding.passed(`${port} is free; the service is not running`)
  }
  const service = yield* identifyService(formatLocalOrigin(host, port))
  if (Option.isSome(service) && service.value.info.title.startsWith("Tickerline")) {
    const sharing = reusesPort ? ", port shared" : ""
    return Finding.passed(`${port}: the service is running (API ${service.value.info.version}${sharing})`)
  }
  return Finding.failed(`${port} is in use by another program`, "End that program, or set PORT to a free port.")
})

/**
 * Reports contradictions between `BASE_URL`, `HOST`, and `TRUSTED_PROXIES`: a service that other machines can reach
 * needs a `BASE_URL` for the links in its responses, and a public `BASE_URL` suggests a load balancer, which must be
 * trusted to specify the addresses of clients.
 */
export const checkAddressSettings = Effect.gen(function* () {
  const baseUrl = yield* BaseUrlConfig
  const host = yield* HostConfig
  const proxies = yield* TrustedProxiesConfig
  if (Option.isNone(baseUrl)) {
    return allAddresses.has(host)
      ? Finding.warning(
        "other machines can connect, but links in responses point to localhost",
        "Set BASE_URL to the address that clients use.",
      )
      : Finding.passed(`connect from this machine, at ${host}`)
  }
  if (isLoopback(new URL(baseUrl.value).hostname) || proxies.length > 0) {
    return Finding.passed(`connect through ${baseUrl.value}`)
  }
  return Finding.warning(
    `connect through ${baseUrl.value}, and no proxy is trusted, so all clients may appear to have one address`,
    "Behind a load balancer, set TRUSTED_PROXIES to its addresses. Without one, ignore this warning.",
  )
})

/**
 * Reads the number of requests for which a trusted proxy did not specify the client's address. Returns `None` if there
 * is no running process that exposes this metric.
 */
const readUnnamedClients = Effect.fnUntraced(
  function* (origin: string) {
    const response = yield* HttpClient.get(`${origin}/metrics`)
    const line = /^tickerline_proxy_clients_unnamed_total (\d+)$/m.exec(yield* response.text)
    return line === null ? Option.none() : Option.some(Number(line[1]))
  },
  Effect.timeout("3 seconds"),
  Effect.orElseSucceed(() => Option.none<number>()),
)

/**
 * Reports whether the trusted proxies specify client addresses, according to the metrics of the running process: it
 * counts the requests that came from a trusted proxy but did not name their client.
 */
export const checkTrustedProxies = Effect.gen(function* () {
  const proxies = yield* TrustedProxiesConfig
  if (proxies.length === 0) return []
  const port = yield* MetricsPortConfig
  if (Option.isNone(port)) {
    return Finding.skipped("without METRICS_PORT, doctor cannot ask whether they name their clients")
  }
  const origin = formatLocalOrigin(yield* MetricsHostConfig, port.value)
  const unnamed = yield* readUnnamedClients(origin)
  if (Option.isNone(unnamed)) {
    return Finding.skipped(`${origin}/metrics does not answer whether they name their clients`)
  }
  return unnamed.value === 0 ? Finding.passed("name their clients in X-Forwarded-For") : Finding.warning(
    `since the process started, ${unnamed.value} requests with a key came from an address in TRUSTED_PROXIES, but ` +
      "named no client in X-Forwarded-For, so their wrong keys were not counted",
    "Let the proxy send this header: see docs/operations/load-balancer.md. Then restart the process.",
  )
})
