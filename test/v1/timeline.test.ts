import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Service from "../support/Service.ts"

layer(Service.sampleDataLayer, { excludeTestServices: true })("GET /v1/timeline", (it) => {
  it.effect("x", () =>
    Effect.gen(function* () {
      const a = yield* Service.requestJson("/v1/timeline?ticker=GAP7&limit=100")
      console.log(a.text, a.headers)
      const b = yield* Service.requestJson("/v1/timeline?ticker=BYON&limit=3")
      console.log(b.text)
      assert.strictEqual(a.status, 200)
    }))
})
