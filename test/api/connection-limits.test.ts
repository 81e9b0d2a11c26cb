/** Tests how long the server keeps a connection open. */
import { assert, describe, it, vi } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { once } from "node:events"
import type { ServerResponse } from "node:http"
import { type AddressInfo, connect } from "node:net"
import { defaultConnectionTimeouts, makeHttpServer } from "../../src/api/ConnectionLimits.ts"

const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

describe("A connection", () => {
  it.effect("stays open between requests for longer than a response may take, and closes during a response (operations/request-limits)", () =>
    Effect.gen(function* () {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
      yield* Effect.addFinalizer(() => Effect.sync(() => vi.useRealTimers()))
      const responses: Array<ServerResponse> = []
      const { server } = makeHttpServer(defaultConnectionTimeouts, {
        handle: (_, response) => responses.push(response),
        describeError: () => ({ status: 400, code: "bad_request", message: "", headers: {}, body: "" }),
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
      yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
      const { port } = server.address() as AddressInfo
      const socket = connect(port, "127.0.0.1").setEncoding("utf8")
      yield* Effect.addFinalizer(() => Effect.sync(() => socket.destroy()))

      const handled = (count: number) =>
        Effect.callback<ServerResponse>((resume) => {
          const check = () => {
            const response = responses[count - 1]
            if (response === undefined && !socket.destroyed) setImmediate(check)
            else resume(response === undefined ? Effect.die("The connection is closed") : Effect.succeed(response))
          }
          check()
        })
      const received = Effect.callback<string>((resume) => {
        socket.once("data", (text) => resume(Effect.succeed(String(text))))
        socket.once("close", () => resume(Effect.succeed("closed")))
      })
      const closed = Effect.callback<void>((resume) => void socket.once("close", () => resume(Effect.void)))

      const almostAll = Duration.toMillis(defaultConnectionTimeouts.response) - 1
      socket.write(request)
      const first = yield* handled(1)
      vi.advanceTimersByTime(almostAll)
      const finished = once(first, "close")
      first.end("slow")
      assert.include(yield* received, "slow")
      yield* Effect.promise(() => finished)
      vi.advanceTimersByTime(almostAll)
      yield* Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))
      assert.strictEqual(socket.readyState, "open")
      socket.write(request)
      const second = yield* handled(2)
      vi.advanceTimersByTime(almostAll)
      second.end("next")
      assert.include(yield* received, "next")

      socket.write(request)
      yield* handled(3)
      vi.advanceTimersByTime(almostAll + 1)
      yield* closed
    }))

  it.effect("is closed after its response while the service is ending (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      let isEnding = false
      const { server } = makeHttpServer(
        defaultConnectionTimeouts,
        {
          handle: (_, response) => response.end(),
          describeError: () => ({ status: 400, code: "bad_request", message: "", headers: {} }),
        },
        () => isEnding,
      )
      yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
      yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
      const { port } = server.address() as AddressInfo
      const readConnectionHeader = Effect.promise(() =>
        fetch(`http://127.0.0.1:${port}`).then(({ headers }) => headers.get("connection"))
      )
      assert.strictEqual(yield* readConnectionHeader, "keep-alive")
      isEnding = true
      assert.strictEqual(yield* readConnectionHeader, "close")
    }))
})
