/**
 * Compares the service running on Node with the service running on Deno. Both use the same database, and every response
 * to the same request must have the same status, headers and bytes. Prints each difference, and exits with 1 if there
 * are any.
 */
import { request } from "node:http"
import { connect } from "node:net"
import process from "node:process"
import { gunzipSync } from "node:zlib"
import { catalogueEndpoints } from "../src/api/catalogue/Endpoints.ts"
import { openServiceHome, type RuntimeService, startServiceOnRuntime } from "./support/RuntimeService.ts"

interface TestRequest {
  readonly target: string
  readonly headers?: Readonly<Record<string, string>>
}

const pricedPaths = catalogueEndpoints.filter(({ isEndless, isPriced }) => isPriced && !isEndless)

const targets = pricedPaths.flatMap(({ row: { path } }) => [
  `${path}?ticker=NXH&limit=3`,
  `${path}?limit=5&page=2`,
  `${path}?ticker=NXH,IMNN,META&limit=100&format=csv`,
  `${path}?limit=100&format=ndjson`,
  `${path}?limit=all&format=csv`,
  `${path}?ticker=NXH&tickr=NXH`,
  `${path}?ticker=%25&min_price=abc`,
  `/estimate?endpoint=${path}&ticker=NXH`,
])

const requests: ReadonlyArray<TestRequest> = [
  ...targets.flatMap((target) => [
    { target },
    { target, headers: { "accept-encoding": "gzip" } },
    { target, headers: { accept: "text/csv", origin: "https://example.com" } },
  ]),
  { target: "/endpoints" },
  { target: "/v1/openapi.json" },
  { target: "/v1/nothing" },
  { target: "/v1/news", headers: { authorization: "Bearer wrong" } },
  { target: "/v1/news?ticker=%E0%A4%A" },
  { target: "/enterprise/v1/news?limit=1" },
]

/** Headers whose values may differ between two responses to the same request. */
const volatileHeaders = new Set(["date", "x-ratelimit-remaining", "x-ratelimit-reset"])

interface TestResponse {
  readonly status: number
  /** One line per header or trailer. The value is left out if it is volatile. */
  readonly headers: ReadonlyArray<string>
  readonly body: string
}

const send = ({ key, origin }: RuntimeService, { headers, target }: TestRequest) =>
  new Promise<TestResponse>((resolve, reject) => {
    const sent = { authorization: `Bearer ${key}`, "x-request-id": "compare-runtimes", ...headers }
    request(new URL(origin), { path: target, headers: sent }, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("error", reject)
      response.on("end", () => {
        const pairs = [...Object.entries(response.headers), ...Object.entries(response.trailers)]
        const lines = pairs.map(([name, value]) => volatileHeaders.has(name) ? name : `${name}: ${String(value)}`)
        const isCompressed = response.headers["content-encoding"] === "gzip"
        const bytes = Buffer.concat(chunks)
        resolve({
          status: response.statusCode ?? 0,
          // The runtimes include different versions of zlib, so compressed sizes differ.
          headers: isCompressed ? lines.filter((line) => !line.startsWith("content-length")) : lines,
          body: (isCompressed ? gunzipSync(bytes) : bytes).toString("base64"),
        })
      })
    }).on("error", reject).end()
  })

/** Describes the differences between two responses. */
const compare = (onNode: TestResponse, onDeno: TestResponse) => [
  ...(onNode.status === onDeno.status ? [] : [`status ${onNode.status} on Node, ${onDeno.status} on Deno`]),
  ...onNode.headers.filter((line) => !onDeno.headers.includes(line)).map((line) => `only on Node: ${line}`),
  ...onDeno.headers.filter((line) => !onNode.headers.includes(line)).map((line) => `only on Deno: ${line}`),
  ...(onNode.body === onDeno.body ? [] : ["the bodies differ"]),
]

const head = "Host: x\r\nConnection: close\r\nX-Request-Id: compare-runtimes\r\n"

/** Requests that the runtime's parser rejects, or that have an unusual method. */
const unusualRequests = [
  ...["FOO", "get", "PROPFIND", "M-SEARCH", "SETUP", "SOURCE", "CONNECT"].flatMap((method) =>
    ["/v1/news", "/v1/historical-tickers?ticker=FB", "/v1/nothing", "/health/live", "*"].map(
      (target) => `${method} ${target} HTTP/1.1\r\n${head}\r\n`,
    )
  ),
  `GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nFOO /v1/news HTTP/1.1\r\n${head}\r\n`,
  "F(O /v1/news HTTP/1.1\r\n\r\n",
  `GET /v1/news HTTP/1.2\r\n${head}\r\n`,
  `GET /v1/news HTTP/1.1\r\n${head}A b: c\r\n\r\n`,
  `GET /v1/news HTTP/1.1\r\n${head}Content-Length: x\r\n\r\n`,
  `GET /v1/news HTTP/1.1\r\n${head}X-Long: ${"x".repeat(20_000)}\r\n\r\n`,
]

/**
 * Sends raw bytes and returns everything received until the service closes the connection, with times and random ids
 * masked.
 */
const exchange = ({ origin }: RuntimeService, bytes: string) =>
  new Promise<string>((resolve, reject) => {
    const socket = connect(Number(new URL(origin).port), "127.0.0.1")
    let text = ""
    socket.setEncoding("utf8").on("data", (chunk) => text += String(chunk)).on("error", reject)
    socket.on("close", () => resolve(text.replaceAll(/^date: .*|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/gim, "…")))
    socket.write(bytes, "latin1")
  })

const heartbeats = /: heartbeat\n(id: .*\n)?\n/g

/** Removes heartbeats from a stream, because each service sends them at different times. */
const withoutHeartbeats = ({ body, ...response }: TestResponse) => ({
  ...response,
  body: Buffer.from(body, "base64").toString("utf8").replaceAll(heartbeats, ""),
})

const { close, home } = await openServiceHome()
// Documents contain the base URL, so both services need the same value.
const settings = { BASE_URL: "https://api.example.com" }
const onNode = await startServiceOnRuntime("node", home, settings)
const onDeno = await startServiceOnRuntime("deno", home, settings)
let failures = 0
const statuses = new Map<number, number>()
/** One event stream from each service. A stream ends when its service stops. */
const streams = Promise.all(
  [onNode, onDeno].map((service) => send(service, { target: "/v1/changes/stream?ticker=NXH" })),
)

const report = (response: TestResponse, differences: ReadonlyArray<string>, sent: TestRequest) => {
  statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
  if (differences.length > 0) failures += 1
  for (const difference of differences) {
    console.log(`${sent.target} ${JSON.stringify(sent.headers ?? {})}: ${difference}`)
  }
}

try {
  const check = async (sent: TestRequest) => {
    const response = await send(onNode, sent)
    report(response, compare(response, await send(onDeno, sent)), sent)
    return response
  }
  for (const sent of requests) {
    const { headers } = await check(sent)
    const etag = headers.find((line) => line.startsWith("etag: "))?.slice("etag: ".length)
    if (etag !== undefined) await check({ ...sent, headers: { ...sent.headers, "if-none-match": etag } })
  }
  for (const bytes of unusualRequests) {
    const [text, textOnDeno] = [await exchange(onNode, bytes), await exchange(onDeno, bytes)]
    const status = Number(/ (\d{3}) /.exec(text)?.[1] ?? 0)
    const differences = text === textOnDeno ? [] : [`${text}\n-- on Deno:\n${textOnDeno}`]
    report({ status, headers: [], body: text }, differences, { target: JSON.stringify(bytes.slice(0, 80)) })
  }
} finally {
  const exitCodes = [await onDeno.stop(), await onNode.stop()]
  if (exitCodes.some((code) => code !== 0)) failures += 1
  const [streamOnNode, streamOnDeno] = (await streams).map(withoutHeartbeats)
  if (streamOnNode !== undefined && streamOnDeno !== undefined) {
    const hasEnded = streamOnNode.body.includes(`event: end\ndata: {"reason":"server_stopping"`)
    const differences = [...compare(streamOnNode, streamOnDeno), ...(hasEnded ? [] : ["it has no end"])]
    report(streamOnNode, differences, { target: "a stream of changes" })
  }
  console.log(`Exit codes on Deno and Node: ${exitCodes.join(", ")}`)
  await close()
}

console.log(`${failures} differences; responses by status: ${JSON.stringify(Object.fromEntries(statuses))}`)
const missing = [200, 304, 400, 401, 404, 405, 422, 431].filter((status) => !statuses.has(status))
if (missing.length > 0) console.log(`No response had the status ${missing.join(", ")}.`)
process.exitCode = failures === 0 && missing.length === 0 ? 0 : 1
