import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { createServer } from "node:net"
import * as Instances from "./support/Instances.ts"

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
      yield* Instances.instance({}, port)
      for (const { status } of yield* Fiber.join(first)) assert.strictEqual(status, 200)
    }).pipe(Effect.scoped))
})
