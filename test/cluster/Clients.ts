/** Clients that continuously send requests through the load balancer and check every response. */
import { Effect, Fiber, Schedule, Schema } from "effect"
import { Agent } from "node:http"
import { performance } from "node:perf_hooks"
import { type CommitCounter, counterTicker } from "./CommitCounter.ts"
import { getHeaderValue, requestWithTimeout, type TimedResponse } from "./RequestWithTimeout.ts"
import { paceWorkload } from "../support/Pauses.ts"

/** A request and its outcome. */
export interface ObservedRequest {
  readonly id: string
  readonly account: string
  readonly path: string
  /** HTTP status, or 0 if there was no response. */
  readonly status: number
  readonly code: string
  readonly bytes: number
  readonly cost: number
  /** Whether the service recognized the API key, so that it records the request as usage. */
  readonly isKeyed: boolean
  /** The service process that responded, according to the load balancer's X-Served-By header. */
  readonly servedBy: string
  readonly startedAt: number
  readonly endedAt: number
}

/** Where the clients send requests, and which failures they tolerate. */
export interface ClusterClientOptions {
  /** The load balancer's address. */
  readonly address: { readonly host: string; readonly port: number }
  /** API keys by account. Requests use the accounts in turn. */
  readonly keys: Readonly<Record<string, string>>
  readonly counter: CommitCounter
  /** The prefix of the request ids. */
  readonly name: string
  readonly clients?: number
  /** The pause between a client's requests, in milliseconds. */
  readonly pause?: number
  /** Whether requests may fail with a 502 or 504, or a broken connection. */
  readonly mayBreak?: boolean
}

/** Paths with constant responses, because their tables are only ever reloaded with the same rows. */
const paths: ReadonlyArray<string> = [
  "/v1/ticker-changes?ticker=OSTK",
  "/v1/ticker-changes?ticker=META",
  "/v1/historical-tickers?ticker=NOBODY",
  "/v1/intraday-runners?min_gap_percentage=5",
  "/v1/intraday-runners?min_gap=5",
  "/v1/ownership?ticker=GAP7",
  ...[1, 2, 3, 5, 8].flatMap((limit) => [`/v1/news?limit=${limit}`, `/v1/historical-float-pro?limit=${limit}`]),
]

/** Returns a path that has probably not been requested before. */
const uncachedPathAt = (at: number) => `/v1/gap-stats?page=${(at * 31) % 97 + 1}&limit=${(at * 17) % 40 + 1}`

/**
 * Returns the path of the nth request. One request in four reads the counter, and one in four is probably not cached.
 */
const pathAt = (at: number) =>
  at % 4 === 0
    ? `/v1/screener?ticker=${counterTicker}&limit=${at % 100 + 1}`
    : at % 4 === 1
    ? uncachedPathAt(at)
    : paths[Math.floor(at / 2) % paths.length] ?? ""

const codeOf = ({ text }: TimedResponse) => /^\{"error":\{"code":"([^"]*)"/.exec(text)?.[1] ?? ""
const idOf = /"request_id":"[^"]*"/

/**
 * Returns whether a 503 response matches the documentation: it is retryable, with a documented error code and the
 * request's id.
 */
const isDocumented503 = (response: TimedResponse, id: string) =>
  getHeaderValue(response, "retry-after") === "5" && getHeaderValue(response, "x-request-id") === id &&
  ["data_refreshing", "database_pool_timeout"].includes(codeOf(response))

const CounterPage = Schema.fromJsonString(
  Schema.Struct({ results: Schema.Tuple([Schema.Struct({ outstanding: Schema.Int })]) }),
)

const readCounter = ({ text }: TimedResponse) => Schema.decodeSync(CounterPage)(text).results[0].outstanding

/**
 * Returns a function that checks a response. The function returns a description of the problem, or "" if the response
 * is correct.
 */
const makeResponseCheck = ({ counter, mayBreak }: Pick<ClusterClientOptions, "counter" | "mayBreak">) => {
  const firstResponses = new Map<string, string>()
  return (path: string, id: string, account: string, began: number, response: TimedResponse) => {
    const { status, text } = response
    if (mayBreak === true && [502, 504].includes(status)) return ""
    if (getHeaderValue(response, "x-request-id") !== id) return "a wrong request id"
    if (status === 503) return isDocumented503(response, id) ? "" : "an undocumented 503"
    if (status === 402) return account === "ending" && codeOf(response) === "insufficient_credits" ? "" : "402"
    if (![200, 404, 409, 422].includes(status)) return "an unexpected status"
    if (path.startsWith("/v1/screener")) {
      return status === 200 ? counter.findViolation(readCounter(response), began) : "not 200"
    }
    const found = `${status} ${text.replace(idOf, "")}`
    const before = firstResponses.get(path)
    if (before === undefined) firstResponses.set(path, found)
    return before === undefined || before === found ? "" : `before it was ${before.slice(0, 200)}`
  }
}

/**
 * Starts clients that send requests one after another until `stop`. Returns `more`, which waits for further responses,
 * `stop`, which stops the clients, and all requests (`observed`) and problems (`wrong`) so far.
 */
export const startClusterClients = Effect.fnUntraced(function* (
  { address, clients = 16, keys, mayBreak = false, name, counter, pause = 100 }: ClusterClientOptions,
) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  yield* Effect.addFinalizer(() => Effect.sync(() => agent.destroy()))
  const findProblem = makeResponseCheck({ counter, mayBreak })
  const observed: Array<ObservedRequest> = []
  const wrong: Array<string> = []
  const accounts = Object.entries(keys)
  let [sentCount, stopping] = [0, false]

  const sendRequest = Effect.gen(function* () {
    const number = sentCount++
    const path = pathAt(number)
    const id = `${name}-${number}`
    const [account, key] = accounts[number % accounts.length] ?? ["", ""]
    const began = performance.now()
    const headers = { Authorization: `Bearer ${key}`, "X-Request-Id": id }
    const response = yield* Effect.result(requestWithTimeout({ ...address, path, headers, agent }))
    const ended = performance.now()
    if (response._tag === "Failure") {
      observed.push({
        id,
        account,
        path,
        startedAt: began,
        endedAt: ended,
        status: 0,
        code: "",
        bytes: 0,
        cost: 0,
        isKeyed: false,
        servedBy: "",
      })
      if (!mayBreak) wrong.push(`${path}: ${response.failure.message} after ${Math.round(ended - began)} ms`)
      return
    }
    const { status, text } = response.success
    const cost = getHeaderValue(response.success, "x-cost-microdollars")
    observed.push({
      id,
      account,
      path,
      startedAt: began,
      endedAt: ended,
      status,
      code: codeOf(response.success),
      bytes: Buffer.byteLength(text),
      cost: Number(cost),
      isKeyed: cost !== "",
      servedBy: getHeaderValue(response.success, "x-served-by"),
    })
    const why = findProblem(path, id, account, began, response.success)
    if (why !== "") wrong.push(`${path}: ${why}: ${status} ${text.slice(0, 300)}`)
  })
  const client = Effect.whileLoop({
    while: () => !stopping,
    body: () => Effect.andThen(sendRequest, paceWorkload(pause)),
    step: () => {},
  })
  const running = yield* Effect.all(Array.from({ length: clients }, () => Effect.forkScoped(client)))

  const countOk = () => observed.filter(({ status }) => status === 200).length
  /** Waits for `by` further responses with status 200. */
  const more = (by = 100) =>
    Effect.suspend(() => {
      const before = countOk()
      return Effect.repeat(Effect.sync(countOk), {
        until: (now) => now >= before + by,
        schedule: Schedule.spaced("50 millis"),
      })
    }).pipe(Effect.timeout("120 seconds"))
  const stop = Effect.gen(function* () {
    stopping = true
    yield* Effect.forEach(running, Fiber.join, { concurrency: "unbounded", discard: true })
    return { observed, wrong }
  })
  return { more, observed, wrong, stop }
})

/** The running clients, as `startClusterClients` returns them. */
export type ClusterClients = Effect.Success<ReturnType<typeof startClusterClients>>
