/** Tests the log entries for requests: one entry per request at level debug, and error entries for failed requests. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Logger, References } from "effect"
import { valueAt } from "../support/DocumentedEndpoints.ts"
import { breakGzip, gzipHeaders } from "../support/BrokenCompression.ts"
import { openEventStream } from "../support/EventStreams.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import * as Service from "../support/Service.ts"

const { startServiceInstance, requestOverWire } = ServiceInstances

/** Returns a logger layer with a minimum level, and a function that returns the recorded log entries for requests. */
const log = (level: "Debug" | "Info") => {
  const lines: Array<unknown> = []
  const logger = Logger.make((options) => void lines.push(JSON.parse(Logger.formatJson.log(options))))
  const watched = Layer.merge(Logger.layer([logger]), Layer.succeed(References.MinimumLogLevel, level))
  return {
    completed: () => lines.filter((line) => valueAt(line, "message") === "Request completed"),
    failed: () => lines.filter((line) => valueAt(line, "level") === "ERROR"),
    watched,
  }
}

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })("The log", (it) => {
  it.effect("contains one entry per request at level debug, cached or not, without its key (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { completed, watched } = log("Debug")
      const port = yield* startServiceInstance({}, { port: 0 }, { watched })
      const { basic } = yield* Service.TestKeys
      const ids: Array<string> = []
      for (let round = 0; round < 6; round++) {
        const { headers, status } = yield* requestOverWire(port, "/v1/news?limit=5", basic)
        assert.strictEqual(status, 200)
        ids.push(headers["x-request-id"] ?? "")
      }
      const wrong = yield* requestOverWire(port, `/v1/news?x=${basic}`, basic)
      const lines = completed()
      assert.deepStrictEqual(
        lines.map((line) => valueAt(line, "annotations", "request_id")),
        [...ids, wrong.headers["x-request-id"]],
      )
      const cached = lines.map((line) => valueAt(line, "annotations", "cached"))
      assert.include(cached, true)
      assert.include(cached, false)
      const last = lines.at(-1)
      assert.strictEqual(valueAt(last, "annotations", "status"), 422)
      assert.strictEqual(valueAt(last, "annotations", "endpoint"), "/v1/news")
      assert.strictEqual(valueAt(last, "annotations", "target"), "/v1/news?x=tl_live_…")
      assert.isNumber(valueAt(last, "annotations", "account_id"))
      assert.isNumber(valueAt(last, "annotations", "milliseconds"))
      assert.notInclude(JSON.stringify(lines), basic.slice(12))
    }))

  it.effect("does not say that a stream of changes has 0 bytes (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { completed, watched } = log("Debug")
      const port = yield* startServiceInstance({}, { port: 0 }, { watched })
      const { ultimate } = yield* Service.TestKeys
      yield* openEventStream(port, "", { key: ultimate })
      const [line] = completed()
      assert.strictEqual(valueAt(line, "annotations", "endpoint"), "/v1/changes/stream")
      assert.isUndefined(valueAt(line, "annotations", "bytes"))
    }).pipe(Effect.scoped))

  it.effect("names the request whose body could not be sent to its end, and the reason (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { failed, watched } = log("Info")
      const port = yield* startServiceInstance({}, { port: 0 }, { watched })
      const { ultimate } = yield* Service.TestKeys
      yield* breakGzip
      const headers = { ...gzipHeaders, "X-Request-Id": "cut-off" }
      yield* Effect.flip(requestOverWire(port, "/v1/news?limit=all&format=ndjson", ultimate, { headers }))
      const [line] = failed()
      assert.strictEqual(valueAt(line, "annotations", "request_id"), "cut-off")
      assert.include(JSON.stringify(line), "gzip is out of memory")
      assert.strictEqual(failed().length, 1)
    }).pipe(Effect.scoped))

  it.effect("contains no requests at level info (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { completed, watched } = log("Info")
      const port = yield* startServiceInstance({}, { port: 0 }, { watched })
      const { basic } = yield* Service.TestKeys
      assert.strictEqual((yield* requestOverWire(port, "/v1/news", basic)).status, 200)
      assert.deepStrictEqual(completed(), [])
    }))
})
