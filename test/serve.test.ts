import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { createServer } from "node:net"
import * as Instances from "./support/Instances.ts"
import { TestKeys } from "./support/Service.ts"

const freePort = Effect.callback<number>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

const isRefused = (error: Error) => error.message.includes("ECONNREFUSED")

layer(Instances.database, { excludeTestServices: true, timeout: "60 seconds" })("serve", (it) => {
  it.effect("README, deploy: whoever gets a connection while the service starts is answered", () =>
    Effect.gen(function* () {
      const port = yield* freePort
      const asking = Instances.wire(port, "/health/live", "").pipe(
        Effect.retry({ while: isRefused, schedule: Schedule.spaced("1 millis") }),
        Effect.timeout("20 seconds"),
      )
      // Each tries again until it is let in, so that all of them are there in the first moment.
      const first = yield* Effect.forkChild(Effect.all(Array.from({ length: 20 }, () => asking), { concurrency: 20 }))
      yield* Instances.instance({}, { port })
      for (const { status } of yield* Fiber.join(first)) assert.strictEqual(status, 200)
    }).pipe(Effect.scoped))

  it.effect("README, deploy: with REUSE_PORT several instances answer at one port, and who goes leaves it to the others", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const at = { port: yield* freePort, reusePort: true }
      const ask = Effect.all(
        Array.from(
          { length: 60 },
          () => Instances.wire(at.port, "/v1/screener", basic, { headers: { Connection: "close" } }),
        ),
        { concurrency: 20 },
      )
      yield* Instances.instance({}, at)
      yield* Effect.scoped(Effect.gen(function* () {
        yield* Instances.instance({}, at)
        const answers = yield* ask
        assert.deepStrictEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
        // Each counts for itself, so numbers come twice.
        const left = answers.map(({ headers }) => headers["x-ratelimit-remaining"])
        assert.isBelow(new Set(left).size, left.length)
      }))
      const answers = yield* ask
      assert.deepStrictEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
    }).pipe(Effect.scoped))
})
