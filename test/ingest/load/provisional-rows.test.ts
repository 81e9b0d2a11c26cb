/**
 * Tests which of several ticker changes with the same key `load` stores, and how it counts the others (D22,
 * corrections).
 */
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { insertBatchSize, loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import { tickerChangeStatuses } from "../../../src/contract/endpoints/ticker-changes.ts"
import { makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount, sampleUnlessThorough, skipUnlessThorough } from "../../support/Thoroughness.ts"

/** The columns of a ticker change. All changes in this test have the same new symbol and date. */
interface Change {
  readonly old_ticker: string
  readonly new_ticker: string
  readonly effective_date: string
  readonly cik: string | null
  readonly company_name: string
  readonly status: string
}

const formatKey = ({ cik, old_ticker }: Change) => `${old_ticker} ${cik}`
const isEqual = (one: Change, other: Change) => one.status === other.status && one.company_name === other.company_name

/** Returns whether an earlier change is kept although a later one has the same key (D22). */
const keepsEarlier = (earlier: Change, later: Change) =>
  ["confirmed", "reverted", "blocked"].includes(earlier.status) && ["estimated", "backfill"].includes(later.status)

const chooseChange = (choose: RandomChooser): Change => ({
  old_ticker: choose(["AAA", "BBB", "CCC"]),
  new_ticker: "NEW",
  effective_date: "2025-03-03",
  cik: choose(["0000000001", null]),
  company_name: choose(["one", "two"]),
  status: choose(tickerChangeStatuses),
})

const chooseChanges = (choose: RandomChooser, count: number) =>
  Array.from({ length: count }, () => chooseChange(choose))

/** Returns changes with unique keys. A batch of them separates the changes before it from the changes after it. */
const makeOtherChanges = (count: number) =>
  Array.from({ length: count }, (_, index): Change => ({
    old_ticker: `X${index}`,
    new_ticker: "NEW",
    effective_date: "2025-03-03",
    cik: null,
    company_name: "other",
    status: "confirmed",
  }))

/** Models reading a file, row by row. Returns the remaining changes by key, and the load's counts. */
const readFile = (rows: ReadonlyArray<Change>) => {
  const stored = new Map<string, Change>()
  const different = new Set<string>()
  let kept = 0
  for (const row of rows) {
    const earlier = stored.get(formatKey(row))
    if (earlier !== undefined && keepsEarlier(earlier, row)) {
      kept += 1
      continue
    }
    stored.set(formatKey(row), row)
    different.add(JSON.stringify(row))
  }
  const superseded = different.size - stored.size
  return { stored, counts: { rows: stored.size, dropped: rows.length - kept - different.size, superseded, kept } }
}

/** Models the merge. Returns the changes in the table after it, by key, and the merge's counts. */
const merge = (existing: ReadonlyMap<string, Change>, incoming: ReadonlyMap<string, Change>, isAppend: boolean) => {
  const stored = new Map(isAppend ? existing : [])
  let [added, updated, unchanged, kept] = [0, 0, 0, 0]
  for (const [key, row] of incoming) {
    const earlier = existing.get(key)
    if (earlier !== undefined && isAppend && keepsEarlier(earlier, row)) {
      kept += 1
      continue
    }
    stored.set(key, row)
    if (earlier === undefined) added += 1
    else if (isEqual(earlier, row)) unchanged += 1
    else updated += 1
  }
  const removed = existing.size - unchanged - updated
  return { stored, counts: { added, updated, unchanged, kept, ...(isAppend ? {} : { removed }) } }
}

const store = Effect.fnUntraced(function* (rows: Iterable<Change>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`truncate ticker_changes`
  yield* Service.insertRows("ticker_changes", ...Array.from(rows, (row) => ({ ...row })))
})

const toSorted = (rows: Iterable<Change>) =>
  Array.from(rows, (row) => [row.old_ticker, row.cik, row.company_name, row.status].join(" ")).toSorted()

const readStored = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return toSorted(
    yield* sql<
      Change
    >`select old_ticker, new_ticker, effective_date::text, cik, company_name, status from ticker_changes`,
  )
})

/** Loads the changes. Before that, runs a check, which must change nothing and return the same counts. */
const load = Effect.fnUntraced(
  function* (rows: ReadonlyArray<object>, options: { readonly append: boolean; readonly keepOmitted: boolean }) {
    const fs = yield* FileSystem.FileSystem
    const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-provisional-" })}/changes.ndjson`
    yield* fs.writeFileString(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
    const task = { dataset: "ticker_changes", file, ...options }
    const before = yield* readStored
    const checked = yield* loadDatasetFile({ ...task, check: true }, yield* Ref.make(0))
    assert.deepStrictEqual(yield* readStored, before)
    const loaded = yield* loadDatasetFile(task, yield* Ref.make(0))
    assert.deepStrictEqual(checked, loaded)
    return loaded
  },
)

const ways = [
  { name: "without --append", append: false, keepOmitted: false },
  { name: "with --append", append: true, keepOmitted: false },
  { name: "with --append --keep-omitted", append: true, keepOmitted: true },
]

layer(Service.layer, { excludeTestServices: true, timeout: "120 seconds" })("Ticker changes with equal keys", (it) => {
  it.effect.each(ways)(
    "are replaced by later ones, but decided ones never by estimates or backfills, $name, and --check agrees (D22)",
    (way) =>
      Effect.gen(function* () {
        const keptChanges = { inFile: 0, inTable: 0 }
        for (let seed = 1; seed <= getInputCount(100); seed += 1) {
          const choose = makeRandomChooser(seed)
          const existing = readFile(chooseChanges(choose, choose([0, 2, 8]))).stored
          const rows = chooseChanges(choose, choose([1, 3, 8, 25]))
          const file = readFile(rows)
          const expected = merge(existing, file.stored, way.append)
          yield* store(existing.values())
          const { dropped, kept, merged, rows: loaded, superseded } = yield* load(rows, way)
          const message = JSON.stringify({ seed, existing: [...existing.values()], rows })
          assert.deepStrictEqual({ rows: loaded, dropped, superseded, kept }, file.counts, message)
          assert.deepStrictEqual(merged, expected.counts, message)
          assert.deepStrictEqual(yield* readStored, toSorted(expected.stored.values()), message)
          keptChanges.inFile += kept
          keptChanges.inTable += merged.kept
        }
        assert.isAbove(keptChanges.inFile, 0)
        assert.strictEqual(keptChanges.inTable > 0, way.append)
      }),
  )

  it.effect.each(ways.map((way, index) => ({ ...way, seeds: sampleUnlessThorough([1, 2, 3, 4, 5], 3, index) })))(
    "follow the same rule if they are in different batches of a file, $name (D22)",
    ({ seeds, ...way }) =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        for (const seed of seeds) {
          const choose = makeRandomChooser(seed)
          const existing = readFile(chooseChanges(choose, 4)).stored
          const rows = [...chooseChanges(choose, 8), ...makeOtherChanges(insertBatchSize), ...chooseChanges(choose, 25)]
          const file = readFile(rows)
          const expected = merge(existing, file.stored, way.append)
          yield* store(existing.values())
          const { dropped, kept, merged, rows: loaded, superseded } = yield* load(rows, way)
          assert.deepStrictEqual([loaded, kept], [file.counts.rows, file.counts.kept], `seed ${seed}`)
          assert.strictEqual(loaded + dropped + superseded + kept, rows.length)
          assert.deepStrictEqual(merged, expected.counts, `seed ${seed}`)
          assert.deepStrictEqual(yield* readStored, toSorted(expected.stored.values()), `seed ${seed}`)
        }
      }),
  )

  it.effect("keep their status, and get the other values, from a file without a status (D22)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const changes = tickerChangeStatuses.map((status, index): Change => ({
        old_ticker: `OLD${index}`,
        new_ticker: "NEW",
        effective_date: "2025-03-03",
        cik: null,
        company_name: "before",
        status,
      }))
      yield* store(changes)
      const rows = changes.map((row) => ({ ...row, status: undefined, company_name: "after" }))
      const { merged } = yield* load(rows, { append: true, keepOmitted: true })
      assert.deepStrictEqual(merged, { added: 0, updated: changes.length, unchanged: 0, kept: 0 })
      const stored = yield* sql<{ readonly status: string; readonly company_name: string }>`
        select status, company_name from ticker_changes order by old_ticker
      `
      assert.deepStrictEqual(stored, tickerChangeStatuses.map((status) => ({ status, company_name: "after" })))
    }))
})
