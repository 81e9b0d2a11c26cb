/** Reads tables as they were at an earlier time, for requests with `as_of` (decision 0114). */
import { Array, Context, Effect, Layer } from "effect"
import type { PastSource } from "../db/Reader.ts"
import type { AsOfTooEarly, DatabasePoolTimeout, DataRefreshing, ValidationError } from "../rules/Errors.ts"
import { MomentResolver } from "./Moments.ts"
import { makePastStatementRewriters } from "./PastTables.ts"

/** Resolve symbols to companies. Any request may read these tables in addition to its own. */
const lineageTables = ["ticker_changes", "company_symbols"]

export class PastReader extends Context.Service<PastReader, {
  /** Makes the source that reads the given tables as they were at `moment`. */
  readonly open: (
    moment: string,
    tables: ReadonlyArray<string>,
  ) => Effect.Effect<PastSource, AsOfTooEarly | ValidationError | DataRefreshing | DatabasePoolTimeout>
}>()("tickerline/history/PastReader") {
  static readonly layer = Layer.effect(
    PastReader,
    Effect.gen(function* () {
      const { resolve } = yield* MomentResolver
      const makeRewriter = yield* makePastStatementRewriters
      const open = (moment: string, tables: ReadonlyArray<string>) =>
        Effect.map(resolve(moment), (resolved): PastSource => ({
          moment,
          rewrite: makeRewriter(resolved, Array.dedupe([...tables, ...lineageTables])),
        }))
      return PastReader.of({ open })
    }),
  ).pipe(Layer.provide(MomentResolver.layer))
}
