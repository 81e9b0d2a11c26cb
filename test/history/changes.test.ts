/** `/v1/changes`: every committed change is delivered once, in order, and a copy can be kept from the changes. */
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, FileSystem, Layer, Ref, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { CurrentAccount } from "../../src/accounts/keys/Authentication.ts"
import { loadableDatasets } from "../../src/load/Datasets.ts"
import { loadFile } from "../../src/load/Load.ts"
import { readTableColumns } from "../../src/load/LoadingTable.ts"
import { RequiredTier } from "../../src/rules/EndpointAnnotations.ts"
import { changedDatasets, changeKinds, datasetEndpoints } from "../../src/v1/changes/Api.ts"
import { selectDatasets } from "../../src/v1/changes/Http.ts"
import { fillTable } from "../support/GeneratedRows.ts"
import { type Chooser, makeChooser } from "../support/RandomChoices.ts"
import * as Service from "../support/Service.ts"
import * as StatementRecorder from "../support/StatementRecorder.ts"
import { inputs } from "../support/Thoroughness.ts"

const { valueAt } = Service

// ---------------------------------------------------------------------------------------------------------------------
// Reading the feed
// ---------------------------------------------------------------------------------------------------------------------

const Values = Schema.Record(Schema.String, Schema.Unknown)

const Page = Schema.Struct({
  count: Schema.Int,
  results: Schema.Array(Schema.Struct({
    cursor: Schema.String,
    recorded_at: Schema.String,
    dataset: Schema.Literals(changedDatasets),
    kind: Schema.Literals(changeKinds),
    key: Values,
    row: Schema.NullOr(Values),
    before: Schema.NullOr(Values),
    changed: Schema.Array(Schema.String),
  })),
  cursor: Schema.String,
  has_more: Schema.Boolean,
})
type FeedPage = typeof Page.Type
type Change = FeedPage["results"][number]

/** Parses JSON and keeps the digits of each number. */
const parseExactly = (text: string): unknown =>
  JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) =>
    typeof value === "number" && Number.isInteger(value) === false ? JSON.rawJSON(context?.source ?? "") : value)

const request = Effect.fnUntraced(function* (query: string, key?: string) {
  const { ultimate } = yield* Service.TestKeys
  return yield* Service.requestJson(`/v1/changes?${query}`, { key: key ?? ultimate })
})

const readPage = Effect.fnUntraced(function* (query: string, key?: string) {
  const { headers, status, text } = yield* request(query, key)
  assert.strictEqual(status, 200, `${query}: ${text}`)
  assert.strictEqual(headers["cache-control"], "private, no-store")
  return Schema.decodeUnknownSync(Page)(parseExactly(text))
})

const withAfter = (query: string, after: string | undefined) =>
  after === undefined ? query : `${query}&after=${encodeURIComponent(after)}`

/** Reads until there is no more. Returns all changes and the last cursor. */
const readAll = Effect.fnUntraced(function* (query: string, after?: string, key?: string) {
  const changes: Array<Change> = []
  let cursor = after
  while (true) {
    const page = yield* readPage(withAfter(query, cursor), key)
    assert.strictEqual(page.count, page.results.length)
    changes.push(...page.results)
    cursor = page.cursor
    if (!page.has_more) return { changes, cursor }
  }
})

const now = Effect.map(readPage("after=now"), ({ cursor }) => cursor)

const kindsOf = (changes: ReadonlyArray<Change>) => changes.map(({ kind }) => kind)

// ---------------------------------------------------------------------------------------------------------------------
// Keeping a copy
// ---------------------------------------------------------------------------------------------------------------------

const textOf = (value: unknown) => JSON.stringify(value)

/** Copies of the datasets, by key. Fails if a change does not fit: it was skipped, repeated or in the wrong order. */
class Copy {
  readonly tables = new Map<string, Map<string, Readonly<Record<string, unknown>>>>()
  private last = ""

  apply({ before, changed, cursor, dataset, key, kind, recorded_at, row }: Change) {
    const rows = this.tables.get(dataset) ?? new Map()
    this.tables.set(dataset, rows)
    const [name, what] = [textOf(key), `${dataset} ${kind} ${textOf(key)} at ${recorded_at} (${cursor})`]
    assert.isTrue(recorded_at >= this.last, `${what} precedes an earlier change`)
    this.last = recorded_at
    assert.strictEqual(textOf(rows.get(name) ?? null), textOf(before), `${what} does not fit what was read before`)
    for (const values of [row, before]) {
      if (values !== null) assert.strictEqual(textOf(Object.keys(key).map((column) => values[column])), textOf(Object.values(key)))
    }
    assert.strictEqual(row === null, kind === "removed", what)
    assert.strictEqual(before === null, kind === "added", what)
    const differing = Object.keys(row ?? {}).filter((column) =>
      before !== null && textOf(row?.[column]) !== textOf(before[column])
    )
    assert.deepStrictEqual(changed, differing, what)
    if (kind === "corrected") assert.isNotEmpty(changed, what)
    if (row === null) rows.delete(name)
    else rows.set(name, row)
  }

  toNdjson(dataset: string) {
    return Array.from(this.tables.get(dataset)?.values() ?? [], (row) => `${JSON.stringify(row)}\n`).join("")
  }
}

/** The rows of a table without the ledger's column, as PostgreSQL prints them. */
const readTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const columns = (yield* readTableColumns(table)).map(({ name }) => `"${name}"`).join(", ")
  const rows = yield* sql.unsafe<{ readonly row: string }>(`select row(${columns})::text as row from ${table} order by 1`)
  return rows.map(({ row }) => row)
})

/** Loads the copy into an empty database, and returns the rows of the table there. */
const loadCopy = Effect.fnUntraced(function* (copy: Copy, dataset: string) {
  const fs = yield* FileSystem.FileSystem
  const content = copy.toNdjson(dataset)
  if (content === "") return []
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-feed-" })}/${dataset}.ndjson`
  yield* fs.writeFileString(file, content)
  yield* loadFile({ dataset, file, append: true }, yield* Ref.make(0))
  return yield* readTable(dataset)
})

const assertCopies = Effect.fnUntraced(function* (copy: Copy, datasets: ReadonlyArray<string>) {
  const expected = yield* Effect.forEach(datasets, readTable)
  const loaded = yield* Effect.forEach(datasets, (dataset) => loadCopy(copy, dataset)).pipe(
    Effect.scoped,
    Effect.provide(Layer.fresh(Service.migratedDatabaseLayer)),
  )
  datasets.forEach((dataset, index) => assert.deepStrictEqual(loaded[index], expected[index], dataset))
})

// ---------------------------------------------------------------------------------------------------------------------
// Random transactions
// ---------------------------------------------------------------------------------------------------------------------

const range = (length: number) => Array.from({ length }, (_, index) => index)

/** One statement, and the key by which transactions order their statements so that they do not deadlock. */
const chooseStatement = (choose: Chooser) => {
  const ticker = choose(["AAA", "BBB", "CCC"])
  const day = `2026-01-0${choose([1, 2, 3, 4])}`
  const number = choose([1, 2, 3])
  const statement = choose(["price", "price", "removal", "move", "former", "former removal", "rename", "rename removal"])
  const order = `${statement.split(" ")[0]} ${ticker} ${day}`
  switch (statement) {
    case "price":
      return {
        order: `price ${ticker} ${day}`,
        text: `insert into daily_prices (ticker, date, close) values ('${ticker}', '${day}', ${number}.5)
          on conflict (ticker, date) do update set close = excluded.close`,
      }
    case "removal":
      return { order: `price ${ticker} ${day}`, text: `delete from daily_prices where ticker = '${ticker}' and date = '${day}'` }
    case "move":
      return {
        order: `price ${ticker} ${day}`,
        text: `update daily_prices set date = date + 10 where ticker = '${ticker}' and date = '${day}'
          and not exists (select from daily_prices as other
            where other.ticker = daily_prices.ticker and other.date = daily_prices.date + 10)`,
      }
    case "former":
      return {
        order,
        text: `insert into historical_tickers (ticker, former_ticker, date)
          select '${ticker}', 'OLD${number}', ${number === 1 ? "null" : `date '${day}'`} on conflict do nothing`,
      }
    case "former removal":
      return { order, text: `delete from historical_tickers where ticker = '${ticker}' and date is not distinct from null` }
    case "rename":
      return {
        order,
        text: `insert into ticker_changes (old_ticker, new_ticker, effective_date, cik, status, company_name)
          select 'OLD${number}', '${ticker}', '${day}', ${number === 1 ? "null" : "'0000000001'"}, 'confirmed', '${day}'
          on conflict (old_ticker, new_ticker, effective_date, cik) do update set status = 'estimated'`,
      }
    default:
      return { order, text: `delete from ticker_changes where new_ticker = '${ticker}' and effective_date = '${day}'` }
  }
}

const abandon = Effect.fail("abandoned" as const)

/** A transaction with one to eight statements. Some of them, or all, may be rolled back. */
const writeTransaction = Effect.fnUntraced(function* (choose: Chooser) {
  const sql = yield* SqlClient.SqlClient
  const statements = range(choose([1, 2, 4, 8])).map(() => chooseStatement(choose))
    .toSorted((left, right) => left.order < right.order ? -1 : 1)
  const [first, second] = [choose([0, 1, 2]), choose([2, 3, 8])]
  const isAbandoned = choose([true, false, false, false])
  const keepsMiddle = choose([true, false])
  const run = (from: number, to: number) =>
    Effect.forEach(statements.slice(from, to), ({ text }) => sql.unsafe(text), { discard: true })
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* run(0, first)
    yield* Effect.ignore(sql.withTransaction(Effect.andThen(run(first, second), keepsMiddle ? Effect.void : abandon)))
    yield* sql`select pg_sleep(${choose(["0", "0.001", "0.01"])}::text::float8)`
    yield* run(second, statements.length)
    if (isAbandoned) yield* abandon
  })).pipe(Effect.catchIf((error) => error === "abandoned", () => Effect.void))
})

const writtenTables = ["daily_prices", "historical_tickers", "ticker_changes"] as const

const price = (ticker: string, date: string, close: string) => ({ ticker, date, close })

const service = Layer.provideMerge(Service.layer, StatementRecorder.layer)

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("/v1/changes", (it) => {
  it.effect("delivers each committed change once and in order while transactions run, from which a copy follows", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const start = yield* now
      const copy = new Copy()
      const cursors = new Set<string>()
      const choose = makeChooser(11)
      const writers = yield* Effect.forkChild(Effect.forEach(
        range(4),
        (writer) => {
          const chooseNext = makeChooser(writer + 1)
          return Effect.forEach(range(inputs(200)), () => writeTransaction(chooseNext), { discard: true })
        },
        { concurrency: 4, discard: true },
      ))
      let cursor = start
      const consume = Effect.fnUntraced(function* () {
        const { cursor: next, has_more, results } = yield* readPage(withAfter(`limit=${choose([1, 2, 3, 7, 50])}`, cursor))
        for (const change of results) {
          copy.apply(change)
          cursors.add(change.cursor)
        }
        // A consumer may continue from the page or from its last change.
        cursor = choose([true, false]) ? next : results.at(-1)?.cursor ?? next
        return has_more || results.length > 0
      })
      while (writers.pollUnsafe() === undefined) yield* consume()
      yield* Fiber.join(writers)
      while (yield* consume());
      const [counted] = yield* sql<{ readonly number: number }>`select count(*)::int as number from history.changes`
      assert.isAbove(cursors.size, 100)
      assert.strictEqual(cursors.size, counted?.number, "every change is delivered")
      yield* assertCopies(copy, writtenTables)
      const again = yield* readAll("limit=1000")
      assert.strictEqual(again.changes.length, cursors.size, "a second consumer reads the same changes")
    }))
})
