/**
 * Tests the compressed versions of static bodies (D17, caching). `conditional-requests.test.ts` requests them over
 * HTTP.
 */
import { assert, describe, it } from "@effect/vitest"
import { getCompressedBody } from "../../src/api/Compression.ts"

const settle = async (compressed: Promise<Uint8Array>) =>
  (await Promise.allSettled([compressed])).map(({ status }) => status)[0]

describe("The compressed versions of static bodies", () => {
  it("are computed once, and again only after a failure (D17)", async () => {
    const bodies = new Map<string, Promise<Uint8Array>>()
    let failures = 1
    let calls = 0
    const compress = async () => {
      calls += 1
      if (failures-- > 0) throw new Error("out of memory")
      return new Uint8Array([1])
    }
    const get = () => getCompressedBody(bodies, "gzip", compress)
    // Requests that arrive while a compression attempt is failing get the same error.
    assert.deepStrictEqual(await Promise.all([get(), get()].map(settle)), ["rejected", "rejected"])
    assert.strictEqual(calls, 1)
    for (let request = 0; request < 3; request++) assert.deepStrictEqual(await get(), new Uint8Array([1]))
    assert.strictEqual(calls, 2)
  })
})
