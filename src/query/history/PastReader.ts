/** Reads tables as they were at an earlier time, for requests with `as_of` (decision 0114). */
import { Array, Context, Effect, Layer } from "effect"
import type { PastSource } from "../../postgres/Reader.ts"
import { MomentResolver } from "./Moments.ts"
import { makePastStatementRewriters } from "./PastTables.ts"

/** Resolve symbols to companies. Any request may read these tables in addition to its own. */
const lineageTables = ["ticker_changes", "company_symbols"]

const makePastReader = Effect.gen(function* () {
  const { findNewest, resolve } = yield* MomentResolver
  const makeRewriter = yield* makePastStatementRewriters
  /** Makes the source that reads the given tables as they were at `moment`. */
  const open = (moment: string, tables: ReadonlyArray<string>) =>
    Effect.map(resolve(moment), (resolved): PastSource => ({
      moment,
      rewrite: makeRewriter(resolved, Array.dedupe([...tables, ...lineageTables])),
    }))
  return { open, findNewest }
})

export class PastReader extends Context.Service<PastReader, Effect.Success<typeof makePastReader>>()(
  "tickerline/query/PastReader",
) {
  static readonly layer = Layer.effect(PastReader, makePastReader).pipe(Layer.provide(MomentResolver.layer))
}
