/** Checks that a search of the project's files still finds what a test is about. */
import { assert } from "@effect/vitest"

/**
 * Fails if a search found fewer things than the project certainly has. A test that checks each match of a pattern would
 * pass without checking anything if the pattern no longer matched. `fewest` is far below the real number, so that it
 * need not change when files are added or removed; `things` says in the message what was searched for.
 */
export const assertFoundAtLeast = (fewest: number, things: string, found: ReadonlyArray<unknown>) =>
  assert.isAtLeast(found.length, fewest, `${things}: the search found too few, so this test would check almost nothing`)
