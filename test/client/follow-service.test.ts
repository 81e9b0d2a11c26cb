/** Tests `follow` of both clients against the service, over connections that are cut. */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { makeClient } from "../../src/client/Client.ts"
import { createClient, TickerlineError } from "../../src/client/PromiseClient.ts"
import { awaitRejection, makeStubCursor } from "../support/ChangeFeedStub.ts"
import { makeRandomChooser } from "../support/RandomChoices.ts"
import { range, writeRandomTransaction } from "../support/RandomTransactions.ts"
import { waitUntil } from "../support/RawSockets.ts"
import * as Service from "../support/Service.ts"
import { startTcpProxy } from "../support/TcpProxy.ts"

/** Creates an Effect client and a Promise client for the service on the given port. */
const makeClients = Effect.fnUntraced(function* (port: number, apiKey: string) {
  const baseUrl = `http://127.0.0.1:${port}`
  const effects = yield* Effect.provide(
    makeClient({ baseUrl, apiKey: Redacted.make(apiKey) }),
    FetchHttpClient.layer,
  )
  return { effects, promises: createClient({ baseUrl, apiKey }) }
})

/** Creates clients that connect through a proxy. `start` is the cursor after all existing changes. */
const setUp = Effect.gen(function* () {
  const { ultimate } = yield* Service.TestKeys
  const proxy = yield* startTcpProxy(yield* Service.servicePort)
  const clients = yield* makeClients(proxy.port, ultimate)
  const { cursor } = yield* clients.effects.changes.get({ after: "now" })
  return { ...clients, proxy, start: cursor }
})

layer(Layer.fresh(Service.layer), { excludeTestServices: true, timeout: "120 seconds" })("follow", (it) => {
  it.effect.each(["stream", "polling"] as const)(
    "delivers every change once and in order while connections are cut, with the transport %s (guides/changes)",
    (via) =>
      Effect.scoped(Effect.gen(function* () {
        const { effects, promises, proxy, start } = yield* setUp
        const found: Array<string> = []
        const inEffect = yield* effects.changes.follow({ after: start }, { via, interval: "100 millis" }).pipe(
          Stream.runForEach(({ cursor }) => Effect.sync(() => void found.push(cursor))),
          Effect.forkChild,
        )
        const json: Array<unknown> = []
        const controller = new AbortController()
        const following = (async () => {
          const { signal } = controller
          for await (const change of promises.changes.follow({ after: start }, { via, signal, intervalMs: 100 })) {
            json.push(change)
          }
        })()
        const rejected = following.then(() => false, (error: unknown) => error === controller.signal.reason)
        const choose = makeRandomChooser(7)
        const listChanges = Effect.map(effects.changes.get({ after: start, limit: 1000 }), ({ results }) => results)
        const untilCaughtUp = Effect.gen(function* () {
          const { length } = yield* listChanges
          yield* waitUntil(() => found.length >= length && json.length >= length)
        })
        for (const round of range(30)) {
          yield* writeRandomTransaction(choose)
          if (round % 2 === 0) yield* proxy.cut
          if (round % 5 === 4) yield* untilCaughtUp
        }
        const results = yield* listChanges
        assert.deepStrictEqual(found, results.map(({ cursor }) => cursor))
        const listed = yield* Effect.promise(() => promises.changes.get({ after: start, limit: 1000 }))
        assert.deepStrictEqual<ReadonlyArray<unknown>>(json, listed.results)
        assert.isAbove(results.length, 20)

        yield* Fiber.interrupt(inEffect)
        controller.abort()
        assert.isTrue(yield* Effect.promise(() => rejected))
      })),
  )

  it.effect("fails with the service's error if the key is revoked or the cursor is unknown (guides/changes)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* Service.ensureAccountWithKey("follower", "ultimate")
      const { effects, promises } = yield* makeClients(yield* Service.servicePort, key)
      const found: Array<string> = []
      const fiber = yield* effects.changes.follow({ after: "now" }).pipe(
        Stream.runForEach(({ cursor }) => Effect.sync(() => void found.push(cursor))),
        Effect.flip,
        Effect.forkChild,
      )
      // Writes changes until the first one arrives. Its arrival shows that the stream is open.
      let day = 0
      yield* Effect.repeat(
        Effect.suspend(() => {
          day += 1
          return sql`insert into historical_tickers values ('OPEN', 'FORMER', date '2000-01-01' + ${day}::int)`
        }),
        { until: () => found.length > 0 },
      )
      yield* sql`update api_keys set revoked_at = now()
        where account_id = (select account_id from accounts where name = 'follower')`
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "ApiKeyDisabled")
      const { ultimate } = yield* Service.TestKeys
      const current = yield* makeClients(yield* Service.servicePort, ultimate)
      const expired = yield* Effect.flip(Stream.runDrain(current.effects.changes.follow({ after: makeStubCursor(1) })))
      assert.strictEqual(expired._tag, "CursorExpired")
      for (const via of ["stream", "polling"] as const) {
        const changes = current.promises.changes.follow({ after: makeStubCursor(1) }, { via })[Symbol.asyncIterator]()
        const error = yield* awaitRejection(() => changes.next())
        assert.isTrue(TickerlineError.is(error, "cursor_expired"), String(error))
      }
      const invalid = promises.changes.follow({ after: "yesterday" })[Symbol.asyncIterator]()
      const error = yield* awaitRejection(() => invalid.next())
      assert.isTrue(TickerlineError.is(error, "api_key_disabled"), String(error))
    }))
})
