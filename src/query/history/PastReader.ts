/** Reads tables as they were at a past timestamp, for requests with `as_of` (decision 0114). */
import { Array, Context, Effect, Layer } from "effect"
import type { PastSource } from "../../postgres/DatabaseReader.ts"
import { AsOfResolver } from "./AsOfTimestamps.ts"
import { makePastStatementRewriters } from "./PastTables.ts"

/** The tables that map symbols to companies. Any request may read these tables in addition to its own. */
const lineageTables = ["ticker_changes", "company_symbols"]

const makePastReader = Effect.gen(function* () {
  const { findNewest, resolve } = yield* AsOfResolver
  const makeRewriter = yield* makePastStatementRewriters
  /** Returns a source that reads the given tables as they were at `timestamp`. */
  const open = (timestamp: string, tables: ReadonlyArray<string>) =>
    Effect.map(resolve(timestamp), (resolved): PastSource => ({
      timestamp,
      rewrite: makeRewriter(resolved, Array.dedupe([...tables, ...lineageTables])),
    }))
  return { open, findNewest }
})

/** Provides past states of the tables to requests with `as_of`. */
export class PastReader extends Context.Service<PastReader, Effect.Success<typeof makePastReader>>()(
  "tickerline/query/PastReader",
) {
  static readonly layer = Layer.effect(PastReader, makePastReader).pipe(Layer.provide(AsOfResolver.layer))
}
