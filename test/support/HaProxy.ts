/** Starts HAProxy in front of service processes, and sends requests through it from several client addresses. */
import { Data, Effect, FileSystem, Schedule } from "effect"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import type { IncomingMessage } from "node:http"
import { request } from "node:https"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { getCandidateProgramPaths, isExecutable, startProgram } from "./Processes.ts"
import { requestOverWire } from "./ServiceInstances.ts"

/** The path of the HAProxy executable, if it is installed. */
export const haproxyProgram = [...getCandidateProgramPaths("haproxy"), "/usr/sbin/haproxy"].find(isExecutable)

/** Whether tests with HAProxy are skipped, because it is not installed and `REQUIRE_HAPROXY` is not set. */
export const isHaproxyMissing = haproxyProgram === undefined && (process.env["REQUIRE_HAPROXY"] ?? "") === ""

/** A suffix for test titles. States that the test is skipped if HAProxy is missing, and is empty otherwise. */
export const haproxyTestSuffix = isHaproxyMissing ? " (skipped: no HAProxy here)" : ""

class HaProxyError extends Data.TaggedError("HaProxyError")<{ readonly message: string }> {}

const requireHaproxy = haproxyProgram === undefined
  ? Effect.die(new Error("There is no haproxy here: install it (Debian has it)."))
  : Effect.succeed(haproxyProgram)

/**
 * Starts HAProxy with the configuration, plus a page with the states of its servers, from which `waitForStates` reads
 * them. HAProxy stops when the scope closes.
 */
export const startHaproxy = Effect.fnUntraced(function* (configuration: string) {
  const program = yield* requireHaproxy
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-haproxy-" })
  const statesPort = yield* chooseFreePort
  yield* fs.writeFileString(`${folder}/haproxy.cfg`, `${configuration}\n`)
  yield* fs.writeFileString(
    `${folder}/states.cfg`,
    [
      "listen states",
      "  mode http",
      "  timeout client 5s",
      "  timeout server 5s",
      "  timeout connect 5s",
      `  bind 127.0.0.1:${statesPort}`,
      "  stats enable",
      "  stats uri /states",
      "",
    ].join("\n"),
  )
  const running = yield* startProgram(program, ["-db", "-f", `${folder}/haproxy.cfg`, "-f", `${folder}/states.cfg`], {})

  /** Waits until a health check has put the backend's servers into the given states, such as `UP` and `DOWN`. */
  const waitForStates = (backend: string, expected: Readonly<Record<string, string>>) =>
    requestOverWire(statesPort, "/states;csv", "").pipe(
      Effect.flatMap(({ text }) => {
        const [columns = [], ...rows] = text.split("\n").map((line) => line.replace(/^# /, "").split(","))
        const servers = rows.map((cells) =>
          Object.fromEntries(columns.map((name, index) => [name, cells[index] ?? ""]))
        )
        // Before the first health check, the status is already `UP`, and `check_status` is empty or `INI`.
        const isReached = Object.entries(expected).every(([name, state]) =>
          servers.some((server) =>
            server["pxname"] === backend && server["svname"] === name && server["status"] === state &&
            !["", "INI"].includes(server["check_status"] ?? "")
          )
        )
        return isReached ? Effect.void : Effect.fail(`HAProxy's states are:\n${text}`)
      }),
      Effect.retry({
        schedule: Schedule.spaced("50 millis"),
        times: 1_200,
        while: () => running.child.exitCode === null,
      }),
      Effect.mapError((error) => new HaProxyError({ message: `${String(error)}\n${running.output.err}` })),
    )
  return { waitForStates }
})

/**
 * Creates a certificate for `localhost`. Returns a file with the certificate and its key for HAProxy, and the
 * certificate text for clients.
 */
export const makeCertificate = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-certificate-" })
  const file = `${folder}/api.pem`
  yield* Effect.sync(() =>
    execFileSync(
      "openssl",
      [
        ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(" "),
        ..."-subj /CN=localhost -addext subjectAltName=DNS:localhost".split(" "),
        "-keyout",
        `${folder}/key.pem`,
        "-out",
        `${folder}/certificate.pem`,
      ],
      { stdio: "ignore" },
    )
  )
  const certificate = readFileSync(`${folder}/certificate.pem`, "utf8")
  yield* fs.writeFileString(file, certificate + readFileSync(`${folder}/key.pem`, "utf8"))
  return { file, certificate }
})

/** A request to send through HAProxy. */
export interface ProxiedRequest {
  readonly key: string
  /** The client's address, within 127.0.0.0/8. */
  readonly from: string
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string>>>
  /** If set, sends a POST with this body instead of a GET. */
  readonly body?: string
  /** If set, resolves the request as soon as the text received so far matches. */
  readonly until?: RegExp
}

/** A response received through HAProxy. */
export interface ProxiedResponse {
  readonly status: number
  readonly headers: IncomingMessage["headers"]
  readonly trailers: IncomingMessage["trailers"]
  readonly text: string
  readonly isComplete: boolean
}

/** Sends a request over a new TLS connection. */
export const requestOverTls = (
  { certificate, port }: { readonly certificate: string; readonly port: number },
  path: string,
  { body, from, headers = {}, key, until }: ProxiedRequest,
) =>
  Effect.callback<ProxiedResponse, Error>((resume) => {
    const outgoing = request({
      host: "127.0.0.1",
      port,
      path,
      method: body === undefined ? "GET" : "POST",
      servername: "localhost",
      ca: certificate,
      localAddress: from,
      agent: false,
      headers: {
        Authorization: `Bearer ${key}`,
        ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value].flat()])),
      },
    }, (response) => {
      let text = ""
      const end = () =>
        resume(Effect.succeed({
          status: response.statusCode ?? 0,
          headers: response.headers,
          trailers: response.trailers,
          text,
          isComplete: response.complete,
        }))
      response.setEncoding("utf8")
      response.on("data", (chunk: string) => {
        text += chunk
        if (until?.test(text) !== true) return
        end()
        outgoing.destroy()
      })
      response.on("error", () => {})
      response.on("close", end)
    })
    outgoing.on("error", (error) => resume(Effect.fail(error)))
    outgoing.end(body)
    return Effect.sync(() => outgoing.destroy())
  })

/**
 * Returns how many requests to `/v1/` a service process has responded to. `metricsPort` is the process's
 * `METRICS_PORT`.
 */
export const countResponsesOf = (metricsPort: number) =>
  Effect.map(
    requestOverWire(metricsPort, "/metrics", ""),
    ({ text }) =>
      Array.from(text.matchAll(/^tickerline_http_requests_total\{([^}]*)\} (\d+)/gm)).filter(([, labels = ""]) =>
        labels.includes("/v1/")
      ).reduce((sum, [, , count]) => sum + Number(count), 0),
  )
