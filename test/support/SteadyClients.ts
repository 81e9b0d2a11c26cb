/** Clients that ask all the time, while a test lets things go wrong; and what they saw. */
import { assert } from "@effect/vitest"
import { Data, Effect, Fiber, Schedule } from "effect"
import { Agent, request } from "node:http"

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly text: string
}

export interface ClientSummary {
  readonly requests: number
  /** How many had a status, and a code where it was an error's. */
  readonly answers: Readonly<Record<string, number>>
  /** The longest that anybody waited, milliseconds. */
  readonly slowest: number
  /** What the answers said that they cost together, microdollars; those before the first of `clients` too. */
  readonly cost: number
}

/** What 200s, 404s and 409s say while nothing is wrong, by path. */
type Truth = ReadonlyMap<string, Answer>

/** Longer than that no request takes, whatever happens: a lock, a retry, another lock; a silent server (§7.2, §8). */
const longest = 45_000

/** Whether a part of an answer had come. */
class Failed extends Data.TaggedError("Failed")<{ readonly answered: boolean; readonly message: string }> {}

const idOf = /"request_id":"[^"]*"/

const get = (agent: Agent, port: number, path: string, key: string) =>
  Effect.callback<Answer, Failed>((resume) => {
    const options = { agent, port, path, host: "127.0.0.1", headers: { "X-API-Key": key }, timeout: longest }
    const outgoing = request(options, (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("error", (error) => resume(Effect.fail(new Failed({ answered: true, message: error.message }))))
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8").replace(idOf, "")
        resume(Effect.succeed({ status: response.statusCode ?? 0, headers: response.headers, text }))
      })
    })
    outgoing.on("timeout", () => outgoing.destroy(new Error("no answer in time")))
    outgoing.on("error", (error) => resume(Effect.fail(new Failed({ answered: false, message: error.message }))))
    outgoing.end()
    return Effect.sync(() => outgoing.destroy())
  })

/** What may be said of weather: it is documented, and says when to ask again. */
const isWeather = ({ headers, status, text }: Answer) =>
  status === 503 && headers["retry-after"] === "5" &&
  /^\{"error":\{"code":"(data_refreshing|database_pool_timeout)"/.test(text)

const nameOf = ({ status, text }: Answer) => {
  const code = /^\{"error":\{"code":"([^"]*)"/.exec(text)?.[1]
  return code === undefined ? String(status) : `${status} ${code}`
}

/** A mix: several tables, a lineage, a refusal, an error; what is asked for again, and what is not. */
export const mixedPaths: ReadonlyArray<string> = [
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

export interface SteadyClientOptions {
  readonly port: number
  readonly key: string
  readonly clients?: number
  readonly paths?: ReadonlyArray<string>
  /** Whether the service is on its way out, so that connections may be refused, or closed before an answer began. */
  readonly mayRefuse?: () => boolean
  /** Whether an answer that is no 503 is right; left out: it is what it was before. */
  readonly isRight?: (answer: Answer) => boolean
}

/** Clients at work; `stop` ends them after their last request, and says what they saw. Fails where any saw wrong. */
export const startSteadyClients = Effect.fnUntraced(function* (
  { clients: count = 8, isRight, key, mayRefuse = () => false, paths: asked = mixedPaths, port }: SteadyClientOptions,
) {
  const agent = new Agent({ keepAlive: true, maxSockets: count })
  yield* Effect.addFinalizer(() => Effect.sync(() => agent.destroy()))
  const truth: Truth = new Map(
    yield* Effect.forEach(asked, (path) =>
      Effect.map(get(agent, port, path, key), (answer) => {
        assert.include([200, 404, 409, 422], answer.status, answer.text)
        return [path, answer] as const
      }), { concurrency: 4 }),
  )
  const answers = new Map<string, number>()
  const wrong: Array<string> = []
  let [requests, slowest, at, stopping] = [0, 0, 0, false]
  const costOf = ({ headers }: Answer) => Number(headers["x-cost-microdollars"] ?? 0)
  let cost = Array.from(truth.values()).reduce((sum, answer) => sum + costOf(answer), 0)

  const asBefore = (path: string, { status, text }: Answer) => {
    const expected = truth.get(path)
    return expected?.status === status && expected.text === text
  }
  const isGood = (path: string, answer: Answer) =>
    isWeather(answer) || (isRight === undefined ? asBefore(path, answer) : isRight(answer))

  const one = Effect.gen(function* () {
    const path = asked[at % asked.length] ?? ""
    at += 1
    const began = performance.now()
    const answer = yield* Effect.result(get(agent, port, path, key))
    requests += 1
    slowest = Math.max(slowest, performance.now() - began)
    if (answer._tag === "Failure") {
      const { answered, message } = answer.failure
      if (answered || !mayRefuse()) return void wrong.push(`${path}: ${message}`)
      return void answers.set("no answer", (answers.get("no answer") ?? 0) + 1)
    }
    cost += costOf(answer.success)
    const name = nameOf(answer.success)
    answers.set(name, (answers.get(name) ?? 0) + 1)
    if (!isGood(path, answer.success)) wrong.push(`${path}: ${name} ${answer.success.text.slice(0, 300)}`)
  })
  const client = Effect.whileLoop({ while: () => !stopping, body: () => one, step: () => {} })
  const running = yield* Effect.all(Array.from({ length: count }, () => Effect.forkScoped(client)))

  const seen = (): ClientSummary => ({
    requests,
    answers: Object.fromEntries(Array.from(answers).toSorted()),
    slowest: Math.round(slowest),
    cost,
  })
  const good = () => answers.get("200") ?? 0
  /** Waits until so many further ones were answered 200; by default so many that no client is left behind. */
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
    assert.deepStrictEqual(wrong.slice(0, 5), [], `${wrong.length} of ${requests} were answered wrong`)
    assert.isBelow(slowest, longest)
    return seen()
  })
  return { more, seen, stop }
})
