/** Tests the limit on the number of MCP messages in progress per account (SECURITY.md). */
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { makeAccountMessageLimiter, maxMessagesPerAccount } from "../../../src/site/mcp/AccountMessageLimiter.ts"

/** The maximum number of messages from one account that are handled concurrently. */
const maxRunning = 8

it.effect("handles at most 8 messages of an account at once, holds 64, and delays no other account (SECURITY.md)", () =>
  Effect.gen(function* () {
    const withSlot = makeAccountMessageLimiter()
    const end = yield* Deferred.make<void>()
    let running = 0
    let maxSeen = 0
    const handle = Effect.gen(function* () {
      running += 1
      maxSeen = Math.max(maxSeen, running)
      yield* Deferred.await(end)
      running -= 1
      return "handled"
    })
    const send = (account: number) => withSlot(account, ({ run }) => run(handle), Effect.succeed("refused"))
    const held = yield* Effect.forEach(
      Array.from({ length: maxMessagesPerAccount }),
      () => Effect.forkChild(send(1), { startImmediately: true }),
    )
    assert.strictEqual(yield* send(1), "refused")
    const other = withSlot(2, ({ run }) => run(Effect.succeed("handled")), Effect.succeed("refused"))
    assert.strictEqual(yield* other, "handled")
    const [first, ...others] = held
    if (first !== undefined) yield* Fiber.interrupt(first)
    const next = yield* Effect.forkChild(send(1), { startImmediately: true })
    yield* Deferred.succeed(end, undefined)
    const results = yield* Effect.forEach([...others, next], Fiber.join)
    assert.deepStrictEqual(new Set(results), new Set(["handled"]))
    assert.strictEqual(maxSeen, maxRunning)
    assert.strictEqual(yield* send(1), "handled")
  }))
