/** The limit of MCP messages in progress per account (SECURITY.md). */
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { makeMessageSlots, maxMessagesPerAccount } from "../../../src/site/mcp/MessageSlots.ts"

it.effect("answers at most 8 messages of an account at once, holds 64, and delays no other account (SECURITY.md)", () =>
  Effect.gen(function* () {
    const withSlot = makeMessageSlots()
    const end = yield* Deferred.make<void>()
    let running = 0
    let most = 0
    const response = Effect.gen(function* () {
      running += 1
      most = Math.max(most, running)
      yield* Deferred.await(end)
      running -= 1
      return "answered"
    })
    const send = (account: number) => withSlot(account, ({ run }) => run(response), Effect.succeed("refused"))
    const held = yield* Effect.forEach(
      Array.from({ length: maxMessagesPerAccount }),
      () => Effect.forkChild(send(1), { startImmediately: true }),
    )
    assert.strictEqual(yield* send(1), "refused")
    const other = withSlot(2, ({ run }) => run(Effect.succeed("answered")), Effect.succeed("refused"))
    assert.strictEqual(yield* other, "answered")
    const [first, ...others] = held
    if (first !== undefined) yield* Fiber.interrupt(first)
    const next = yield* Effect.forkChild(send(1), { startImmediately: true })
    yield* Deferred.succeed(end, undefined)
    const results = yield* Effect.forEach([...others, next], Fiber.join)
    assert.deepStrictEqual(new Set(results), new Set(["answered"]))
    assert.strictEqual(most, 8)
    assert.strictEqual(yield* send(1), "answered")
  }))
