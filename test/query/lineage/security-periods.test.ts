/** `security_periods` in the schema decides as the resolution of lineages does (D20, D21, D45). */
import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { resolveLineageOfEvents, toCompanyLineage } from "../../../src/query/lineage/LineageRules.ts"
import { TickerChangeIndex } from "../../../src/query/lineage/TickerChangeIndex.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

// @module-tag waiting

const symbols = ["A", "B", "C", "D", "E", "F", "G"] as const

interface Period {
  readonly security: string
  readonly ticker: string
  readonly starts: string
  readonly ends: string
  readonly is_linked: boolean
  readonly is_ambiguous: boolean
}

const makeChanges = (seed: number) => {
  const choose = makeRandomChooser(seed)
  const count = choose([0, 1, 2, 3, 4, 6, 9, 12, 13, 300])
  // Some histories are chains, which random changes hardly ever form.
  const isChain = choose([true, true, false])
  let last: string = choose(symbols)
  const changes = Array.from({ length: count }, (_, index) => {
    const next = choose(symbols)
    const event = {
      old_ticker: isChain && choose([true, true, true, true, true, false]) ? last : choose(symbols),
      new_ticker: isChain && count > 7 ? `N${index}` : next,
      effective_date: new Date(Date.UTC(2024, isChain ? index : choose([1, 2, 3, 4, 5]), 1)).toISOString().slice(0, 10),
      cik: isChain ? choose([null, "0000000001"]) : choose([null, "0000000001", "0000000002"]),
      company_name: null,
    }
    last = event.new_ticker
    return event
  })
  // The table contains each change only once.
  return Array.from(new Map(changes.map((change) => [JSON.stringify(change), change])).values())
    .filter(({ new_ticker, old_ticker }) => new_ticker !== old_ticker)
}

layer(Service.migratedDatabaseLayer, { excludeTestServices: true })("security_periods", (it) => {
  it.effect(
    "links the symbols of a company exactly where its lineage is a chain, and divides all others (D21, D45)",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        let [chains, conflicts] = [0, 0]
        for (let seed = 1; seed <= getInputCount(1000); seed += 1) {
          const changes = makeChanges(seed)
          yield* sql`delete from ticker_changes`
          const stored = changes.map((change) => ({ ...change, status: "confirmed" }))
          yield* Service.insertRows("ticker_changes", ...stored)
          const rows = yield* sql<Period>`
            select security, ticker, starts::text, ends::text, is_linked, is_ambiguous
            from security_periods(${symbols}::text[], '2026-01-01')
          `
          const index = TickerChangeIndex.of(changes)
          for (const ticker of symbols) {
            const message = `seed ${seed}, ${ticker}`
            const events = index.findComponent(ticker, "2026-01-01", 1000)
            const own = rows.filter((row) => row.ticker === ticker).toSorted((a, b) => a.ends.localeCompare(b.ends))
            const days = new Set(
              events.flatMap(({ effective_date, new_ticker, old_ticker }) =>
                [new_ticker, old_ticker].includes(ticker) ? [effective_date] : []
              ),
            )
            const cuts = ["-infinity", ...Array.from(days).toSorted()]
            assert.deepStrictEqual(own.map(({ starts }) => starts), cuts, message)
            assert.deepStrictEqual(own.map(({ ends }) => ends), [...cuts.slice(1), "infinity"], message)
            const lineage = resolveLineageOfEvents(events)
            assert.strictEqual(own.every((row) => row.is_ambiguous), Result.isFailure(lineage), message)
            const chain = Result.isSuccess(lineage) ? lineage.success : undefined
            const linked = rows.filter((row) => row.is_linked && own.some((period) => period.security === row.security))
            if (chain === undefined) {
              conflicts += Result.isFailure(lineage) ? 1 : 0
              assert.lengthOf(linked, 0, message)
              assert.strictEqual(new Set(own.map(({ security }) => security)).size, own.length, message)
              continue
            }
            chains += 1
            const expected = toCompanyLineage(chain).periods.map(({ from = "-infinity", ticker, until = "infinity" }) =>
              [ticker, from, until].join(" ")
            )
            assert.sameMembers(
              linked.map(({ ends, starts, ticker }) => [ticker, starts, ends].join(" ")),
              expected,
              message,
            )
            assert.strictEqual(new Set(linked.map(({ security }) => security)).size, 1, message)
          }
          const names = rows.filter((row) => !row.is_linked).map(({ security }) => security)
          assert.strictEqual(new Set(names).size, names.length, `seed ${seed}`)
        }
        assert.isAbove(chains, 5)
        assert.isAbove(conflicts, 5)
      }),
    240_000,
  )
})
