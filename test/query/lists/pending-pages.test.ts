/** Tests requests that wait for the same page when the request that reads the page is interrupted (D17). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { DatasetVersions } from "../../../src/postgres/versions/DatasetVersions.ts"
import { CacheMemory } from "../../../src/query/lists/CacheMemory.ts"
import { QueryCache } from "../../../src/query/lists/QueryCache.ts"
import type { ResponseContent } from "../../../src/contract/rules/Paging.ts"
import { SplitStatusApiGroup } from "../../../src/contract/endpoints/split-status.ts"
import { makeAdmittedRequest } from "../../support/ApiRequests.ts"
import { interruptAfterEachOperation } from "../../support/Interruptions.ts"

/** Provides a query cache for a dataset that never changes. */
const services = QueryCache.layer.pipe(
  Layer.provide(CacheMemory.layer),
  Layer.provide(
    Layer.mock(DatasetVersions)({
      watchTables: () => () => "version",
      getLastChange: () => undefined,
      getLedger: () => undefined,
      getTimeline: () => undefined,
      isPolling: () => true,
    }),
  ),
  Layer.provide(Layer.mock(DatabaseReader)({})),
)

const content: ResponseContent = { body: new Uint8Array(1), records: 0, nextPage: undefined }

describe("A page", () => {
  it.effect("is read again after the request that was reading it is interrupted at any operation (D17)", () =>
    Effect.gen(function* () {
      const { makeCachedSource } = yield* QueryCache
      const { getPage } = makeCachedSource<never>(SplitStatusApiGroup.endpoints.list)
      const request = makeAdmittedRequest()
      yield* interruptAfterEachOperation(
        (number) => getPage({ number }, request, () => Effect.as(Effect.yieldNow, content)),
        Effect.fnUntraced(function* (number) {
          const next = yield* Effect.forkChild(getPage({ number }, request, () => Effect.succeed(content)))
          yield* TestClock.adjust("1 hour")
          assert.isDefined(next.pollUnsafe(), `after ${number} operations`)
          yield* Fiber.join(next)
        }),
      )
    }).pipe(Effect.provide(services)))
})
