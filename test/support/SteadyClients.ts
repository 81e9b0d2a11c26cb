/**
 * Clients that continuously send requests while a test causes faults, and that check every response.
 *
 * ```ts
 * const { key } = yield* createCustomer("steady", { tier: "ultimate" })
 * const { more, stop } = yield* startSteadyClients({ port: yield* startServiceInstance(), key })
 * yield* more(100)
 * yield* causeTheFault
 * yield* more(100)
 * yield* stop // fails if any response was wrong
 * ```
 */
import { assert } from "@effect/vitest"
import { Data, Effect, Fiber, Schedule } from "effect"
import { Agent, request } from "node:http"
import { paceWorkload } from "./Pauses.ts"

interface ReceivedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly text: string
}

/** What the clients observed. */
export interface ClientSummary {
  readonly requests: number
  /** The number of responses by status and error code. */
  readonly responses: Readonly<Record<string, number>>
  /** The longest response time, in milliseconds. */
  readonly slowest: number
  /**
   * The total cost stated in the responses, in microdollars. Includes the responses received before the clients
   * started.
   */
  readonly cost: number
}

/** The expected response for each path, recorded before the fault. */
type ExpectedResponses = ReadonlyMap<string, ReceivedResponse>

/** The maximum duration of a response during any fault, in milliseconds (§7.2, §8). */
const requestTimeout = 45_000

/** The error for a failed connection. `hasResponse` shows whether part of the response had been received. */
class Failed extends Data.TaggedError("Failed")<{ readonly hasResponse: boolean; readonly message: string }> {}

const requestIdPattern = /"request_id":"[^"]*"/

/**
 * Sends a GET request over the agent's connections, and returns the response. The request ID is removed from its text,
 * because responses are compared with earlier ones, and only the ID may differ.
 */
const get = (agent: Agent, port: number, path: string, key: string) =>
  Effect.callback<ReceivedResponse, Failed>((resume) => {
    const options = { agent, port, path, host: "127.0.0.1", headers: { "X-API-Key": key }, timeout: requestTimeout }
    const outgoing = request(options, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("error", (error) => resume(Effect.fail(new Failed({ hasResponse: true, message: error.message }))))
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8").replace(requestIdPattern, "")
        resume(Effect.succeed({ status: response.statusCode ?? 0, headers: response.headers, text }))
      })
    })
    outgoing.on("timeout", () => outgoing.destroy(new Error("no response in time")))
    outgoing.on("error", (error) => resume(Effect.fail(new Failed({ hasResponse: false, message: error.message }))))
    outgoing.end()
    return Effect.sync(() => outgoing.destroy())
  })

/** Returns whether the response is a documented, temporary 503 with `Retry-After`. */
const isTemporaryRefusal = ({ headers, status, text }: ReceivedResponse) =>
  status === 503 && headers["retry-after"] === "5" &&
  /^\{"error":\{"code":"(data_refreshing|database_pool_timeout)"/.test(text)

const describeResponse = ({ status, text }: ReceivedResponse) => {
  const code = /^\{"error":\{"code":"([^"]*)"/.exec(text)?.[1]
  return code === undefined ? String(status) : `${status} ${code}`
}

/** Requests to several tables: repeated requests, unique requests, rejected requests and errors. */
export const mixedRequestPaths: ReadonlyArray<string> = [
  "/v1/ticker-changes?ticker=OSTK",
  "/v1/ticker-changes?ticker=META",
  "/v1/historical-tickers?ticker=NOBODY",
  "/v1/intraday-runners?min_gap=5",
  ...Array.from({ length: 20 }, (_, at) => `/v1/intraday-runners?limit=${at + 1}`),
  ...Array.from({ length: 20 }, (_, at) => `/v1/screener?limit=10&page=${at + 1}`),
  ...Array.from({ length: 20 }, (_, at) => `/v1/gap-stats?limit=${at + 1}`),
  ...Array.from({ length: 10 }, (_, at) => `/v1/historical-float-pro?limit=${at + 1}`),
  ...Array.from({ length: 10 }, (_, at) => `/v1/news?limit=${at + 1}`),
]

/** Options for the clients. */
export interface SteadyClientOptions {
  readonly port: number
  readonly key: string
  readonly clients?: number
  /**
   * Each client's pause between two requests, in milliseconds. The default is 10. With 0, the clients use an entire CPU
   * core.
   */
  readonly pause?: number
  readonly paths?: ReadonlyArray<string>
  /** Returns whether the service is stopping. If it is, it may refuse connections or close them without a response. */
  readonly mayRefuse?: () => boolean
  /**
   * Checks a response that is not a temporary 503. By default, the response must equal the one recorded before the
   * fault.
   */
  readonly isRight?: (response: ReceivedResponse) => boolean
}

/**
 * Starts the clients. `stop` waits until they have stopped and returns a summary. It fails if any response was wrong.
 */
export const startSteadyClients = Effect.fnUntraced(function* (
  {
    clients: count = 8,
    isRight,
    key,
    mayRefuse = () => false,
    paths: requestedPaths = mixedRequestPaths,
    pause = 10,
    port,
  }: SteadyClientOptions,
) {
  const agent = new Agent({ keepAlive: true, maxSockets: count })
  yield* Effect.addFinalizer(() => Effect.sync(() => agent.destroy()))
  const truth: ExpectedResponses = new Map(
    yield* Effect.forEach(requestedPaths, (path) =>
      Effect.map(get(agent, port, path, key), (response) => {
        assert.include([200, 404, 409, 422], response.status, response.text)
        return [path, response] as const
      }), { concurrency: 4 }),
  )
  const responses = new Map<string, number>()
  const wrong: Array<string> = []
  let [requests, slowest, at, stopping] = [0, 0, 0, false]
  const costOf = ({ headers }: ReceivedResponse) => Number(headers["x-cost-microdollars"] ?? 0)
  let cost = Array.from(truth.values()).reduce((sum, response) => sum + costOf(response), 0)

  const asBefore = (path: string, { status, text }: ReceivedResponse) => {
    const expected = truth.get(path)
    return expected?.status === status && expected.text === text
  }
  const isGood = (path: string, response: ReceivedResponse) =>
    isTemporaryRefusal(response) || (isRight === undefined ? asBefore(path, response) : isRight(response))

  const one = Effect.gen(function* () {
    const path = requestedPaths[at % requestedPaths.length] ?? ""
    at += 1
    const began = performance.now()
    const response = yield* Effect.result(get(agent, port, path, key))
    requests += 1
    slowest = Math.max(slowest, performance.now() - began)
    if (response._tag === "Failure") {
      const { hasResponse, message } = response.failure
      if (hasResponse || !mayRefuse()) return void wrong.push(`${path}: ${message}`)
      return void responses.set("no response", (responses.get("no response") ?? 0) + 1)
    }
    cost += costOf(response.success)
    const name = describeResponse(response.success)
    responses.set(name, (responses.get(name) ?? 0) + 1)
    if (!isGood(path, response.success)) wrong.push(`${path}: ${name} ${response.success.text.slice(0, 300)}`)
  })
  const next = pause === 0 ? one : Effect.andThen(paceWorkload(pause), one)
  const client = Effect.whileLoop({ while: () => !stopping, body: () => next, step: () => {} })
  const running = yield* Effect.all(Array.from({ length: count }, () => Effect.forkScoped(client)))

  const seen = (): ClientSummary => ({
    requests,
    responses: Object.fromEntries(Array.from(responses).toSorted()),
    slowest: Math.round(slowest),
    cost,
  })
  const good = () => responses.get("200") ?? 0
  /** Waits until the clients have received `by` more responses with the status 200. */
  const more = Effect.fnUntraced(function* (by = 50) {
    const before = good()
    yield* Effect.repeat(Effect.sync(good), {
      until: (now) => now >= before + by,
      schedule: Schedule.spaced("20 millis"),
    }).pipe(Effect.timeout("60 seconds"))
  })
  const stop = Effect.gen(function* () {
    stopping = true
    yield* Effect.forEach(running, Fiber.join, { concurrency: "unbounded" })
    assert.deepStrictEqual(wrong.slice(0, 5), [], `${wrong.length} of ${requests} requests got a wrong response`)
    return seen()
  })
  return { more, seen, stop }
})
