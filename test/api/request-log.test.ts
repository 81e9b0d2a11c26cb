/** Tests the log entry of each request at the level debug. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Logger, References } from "effect"
import { valueAt } from "../support/DocumentedEndpoints.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import * as Service from "../support/Service.ts"

const { startServiceInstance, requestOverWire } = ServiceInstances

/** Returns a logger layer with a minimum level, and a function that returns the recorded entries about requests. */
const log = (level: "Debug" | "Info") => {
  const lines: Array<unknown> = []
  const logger = Logger.make((options) => void lines.push(JSON.parse(Logger.formatJson.log(options))))
  const watched = Layer.merge(Logger.layer([logger]), Layer.succeed(References.MinimumLogLevel, level))
  return { answered: () => lines.filter((line) => valueAt(line, "message") === "Request completed"), watched }
}

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })("The log", (it) => {
  it.effect("contains one entry per request at level debug, cached or not, without its key (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { answered, watched } = log("Debug")
      const port = yield* startServiceInstance({}, { port: 0 }, { watched })
      const { basic } = yield* Service.TestKeys
      const ids: Array<string> = []
      for (let round = 0; round < 6; round++) {
        const { headers, status } = yield* requestOverWire(port, "/v1/news?limit=5", basic)
        assert.strictEqual(status, 200)
        ids.push(headers["x-request-id"] ?? "")
      }
      const wrong = yield* requestOverWire(port, `/v1/news?x=${basic}`, basic)
      const lines = answered()
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

  it.effect("contains no requests at level info (operations/monitoring)", () =>
    Effect.gen(function* () {
      const { answered, watched } = log("Info")
      const port = yield* startServiceInstance({}, { port: 0 }, { watched })
      const { basic } = yield* Service.TestKeys
      assert.strictEqual((yield* requestOverWire(port, "/v1/news", basic)).status, 200)
      assert.deepStrictEqual(answered(), [])
    }))
})
