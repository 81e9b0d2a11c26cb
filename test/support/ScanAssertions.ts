/** Checks that a test that examines everything it finds has found enough. */
import { assert } from "@effect/vitest"

/**
 * Fails unless more than `floor` were found. A test that checks everything that a pattern or query finds would pass
 * without checking anything if it found nothing. `floor` is therefore well below the present number, so that it need
 * not change with each file or endpoint. `things` says in the message what was searched for.
 */
export const assertFoundMoreThan = (
  floor: number,
  things: string,
  found: ReadonlyArray<unknown> | ReadonlySet<unknown> | ReadonlyMap<unknown, unknown>,
) =>
  assert.isAbove("size" in found ? found.size : found.length, floor, `few ${things}, so this test would prove little`)
