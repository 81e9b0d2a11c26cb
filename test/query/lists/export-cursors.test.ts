/** Tests export cursors when the database does not respond. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Logger, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { cursorTimeout } from "../../../src/postgres/ReadTimeoutsAndRetries.ts"
import { ReadRouter } from "../../../src/postgres/replicas/ReadRouter.ts"
import { type ExportCursor, ExportCursors } from "../../../src/query/lists/ExportCursors.ts"
import { makeAdmittedRequest } from "../../support/ApiRequests.ts"
import * as Service from "../../support/Service.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"

layer(Layer.merge(NodeServices.layer, NodeCrypto.layer))("The cursor of an export", (it) => {
  const steps: ReadonlyArray<readonly [string, (cursor: ExportCursor) => Effect.Effect<unknown, unknown>]> = [
    ["the next rows", (cursor) => cursor.fetch(10)],
    ["the move back to the first row", (cursor) => cursor.seek(0)],
  ]
  it.effect.each(steps)(
    "does not wait for %s forever if the database does not respond (§8)",
    ([, step]) =>
      Effect.gen(function* () {
        const url = new URL(Redacted.value(yield* Service.copyMigratedDatabase))
        const proxy = yield* startTcpProxy(Number(url.port))
        url.port = String(proxy.port)
        const cursors = yield* Effect.provide(
          ExportCursors,
          ExportCursors.layer.pipe(
            Layer.provide(ReadRouter.layer),
            Layer.provide(databaseClientLayer({ url: Redacted.make(url.href), applicationName: "tickerline-test" })),
            Layer.provide(Logger.layer([])),
          ),
        )
        const statement = { text: "select row(g) from generate_series(1, 100) as g", parameters: [], isPrepared: false }
        const cursor = yield* cursors.open({ tables: [], statement, request: makeAdmittedRequest() })
        yield* step(cursor)
        yield* proxy.stall
        const waiting = yield* Effect.forkChild(step(cursor), { startImmediately: true })
        yield* TestClock.adjust(cursorTimeout)
        assert.isTrue(Exit.isFailure(yield* Fiber.await(waiting)))
      }).pipe(Effect.scoped),
  )
})
