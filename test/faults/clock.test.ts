/** Tests a process whose clock differs from PostgreSQL's clock (RELIABILITY.md). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { requestOverWire, startServiceProcess } from "../support/ServiceInstances.ts"
import { runCommandProcess, waitForOutput } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"

// @module-tag slow

const day = 86_400_000

/**
 * Returns Node options that shift the process's clock by `millis`. Each SIGUSR2 switches the shift on or off;
 * `isShifted` is its initial state.
 */
const shiftClock = (millis: number, isShifted: boolean) => {
  const script = `
    const { now } = Date
    let shift = ${isShifted ? millis : 0}
    globalThis.Date = class extends Date {
      constructor(...parts) { if (parts.length === 0) super(now() + shift); else super(...parts) }
      static now() { return now() + shift }
    }
    process.on("SIGUSR2", () => { shift = shift === 0 ? ${millis} : 0 })
  `
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` }
}

const database = Service.migratedDatabaseLayer.pipe(
  Layer.provideMerge(Layer.merge(NodeServices.layer, NodeCrypto.layer)),
)

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("A process with a wrong clock", (it) => {
  it.effect("is not ready while its clock and PostgreSQL's differ by 40 days, and says so in the log and a metric (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const metrics = yield* chooseFreePort
      const { port, running } = yield* startServiceProcess(yield* Service.databaseUrl, {
        ...shiftClock(40 * day, false),
        METRICS_PORT: String(metrics),
      })
      const waitForReadiness = (status: number) =>
        Effect.repeat(requestOverWire(port, "/health/ready", ""), {
          until: (response) => response.status === status,
          schedule: Schedule.spaced("50 millis"),
        }).pipe(Effect.map(({ text }): unknown => JSON.parse(text)))
      const readDifference = Effect.map(
        requestOverWire(metrics, "/metrics", ""),
        ({ text }) => Number(/^tickerline_clock_difference_seconds (\S+)$/m.exec(text)?.[1]),
      )
      assert.strictEqual(Service.valueAt(yield* waitForReadiness(200), "parts", "clock"), "ok")
      assert.strictEqual(yield* readDifference, 0)

      running.child.kill("SIGUSR2")
      const refusal = yield* waitForReadiness(503)
      assert.strictEqual(
        Service.valueAt(refusal, "error", "message"),
        "Not ready: the clocks of the service and the database differ.",
      )
      assert.strictEqual(Service.valueAt(refusal, "error", "details", "parts", "clock"), "wrong")
      assert.approximately(yield* readDifference, 40 * 86_400, 60)
      yield* waitForOutput(running, /ERROR.*not ready, because this machine's clock is 40d ahead of PostgreSQL's/)
      assert.strictEqual((yield* requestOverWire(port, "/health/live", "")).status, 200)

      running.child.kill("SIGUSR2")
      yield* waitForReadiness(200)
      assert.strictEqual(yield* readDifference, 0)
    }))

  it.effect("does not start if the clocks differ by more than a minute, and doctor reports the difference (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* Service.databaseUrl, PORT: String(yield* chooseFreePort) }
      const late = { ...environment, ...shiftClock(-2 * 60_000, true) }
      const { code, err } = yield* runCommandProcess(["serve"], late)
      assert.strictEqual(code, 1, err)
      assert.match(err, /does not start, because this machine's clock is 2m behind PostgreSQL's.*with NTP/)
      const report = yield* runCommandProcess(["doctor"], late)
      assert.match(report.out, /clocks: this machine's clock is 2m behind PostgreSQL's, so the service does not start/)
      const slight = yield* runCommandProcess(["doctor"], { ...environment, ...shiftClock(10_000, true) })
      assert.match(slight.out, /clocks: this machine's clock is (9|10)\.\d s ahead of PostgreSQL's/)
    }))
})
