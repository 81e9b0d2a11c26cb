/** Tests the response header that lists the symbols under which a company's rows are stored (decision 0126). */
import { assert, describe, it } from "@effect/vitest"
import { formatPrimaryTickersHeader } from "../../../src/query/lineage/StoredSymbols.ts"

describe("X-Primary-Tickers", () => {
  it("names each pair of symbols once, even if two companies have the same symbols (decision 0126)", () => {
    const pairs = [["GOOG", "GOOGL"], ["HOLD-PA", "HOLD"], ["HOLD-PA", "HOLD"]] as const
    assert.strictEqual(
      formatPrimaryTickersHeader(pairs.map(([alias, ticker]) => ({ alias, ticker }))),
      "GOOG=GOOGL, HOLD-PA=HOLD",
    )
  })
})
