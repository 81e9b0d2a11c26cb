/** Checks that a test that examines everything it finds has found enough. */
import { assert } from "@effect/vitest"

/**
 * Fails unless more than `floor` items were found. A test that checks everything that a pattern or query finds would
 * pass without checking anything if it found nothing. `floor` is well below the current number, so that it need not
 * change with each file or endpoint. `things` names the items in the message.
 */
export const assertFoundMoreThan = (
  floor: number,
  things: string,
  found: ReadonlyArray<unknown> | ReadonlySet<unknown> | ReadonlyMap<unknown, unknown>,
) =>
  assert.isAbove("size" in found ? found.size : found.length, floor, `few ${things}, so this test would prove little`)
