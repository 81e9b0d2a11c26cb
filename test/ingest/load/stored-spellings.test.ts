/**
 * Tests that the database stores each symbol with a single spelling, regardless of the program that writes it (D41,
 * spelling of symbols).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Layer, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { toSymbolKey } from "../../../src/contract/rules/Tickers.ts"
import { loadDatasetFile, type LoadTask, removeFileRows } from "../../../src/ingest/load/DatasetLoad.ts"
import { ingestPriceFile } from "../../../src/ingest/prices/PriceIngest.ts"
import { beginTransaction, waitUntilBlocked } from "../../support/HeldTransactions.ts"
import { getResultRows } from "../../support/ListClients.ts"
import { type Choices, makeRandomChooser, type RandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const { insertRows, requestJson, valueAt } = Service

const services = Layer.fresh(Service.layer).pipe(Layer.provideMerge(NodeServices.layer))

const writeFile = Effect.fnUntraced(function* (lines: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-spellings-" })}/file.csv`
  yield* fs.writeFileString(file, `${lines.join("\n")}\n`)
  return file
})

const load = Effect.fnUntraced(
  function* (dataset: string, lines: ReadonlyArray<string>, options: Partial<LoadTask> = {}) {
    const task = { dataset, file: yield* writeFile(lines), append: true, ...options }
    return yield* loadDatasetFile(task, yield* Ref.make(0))
  },
  Effect.scoped,
)

/** Ingests lines of a price file. Each line has a symbol, day, open, high, low, close and volume. */
const ingest = Effect.fnUntraced(
  function* (lines: ReadonlyArray<string>) {
    const file = yield* writeFile(["ticker,date,open,high,low,close,volume", ...lines])
    return yield* ingestPriceFile(file, { datasets: ["daily_prices", "screener"], check: false, allowEmpty: false })
  },
  Effect.scoped,
)

const floatHeader = "ticker,outstanding,is_adr,last_updated"
const toFloatLine = (ticker: string, outstanding: number) => `${ticker},${outstanding},false,2026-06-01 10:00:00`
const priceHeader = "ticker,date,close"

/** Reads a table's spellings of a symbol, one per row. `key` is the symbol with hyphens. */
const readSymbols = Effect.fnUntraced(function* (table: string, key: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly ticker: string }>`
    select ticker from ${sql(table)} where replace(ticker, '.', '-') = ${key} order by 1
  `
  return rows.map(({ ticker }) => ticker)
})

layer(services, { excludeTestServices: true, timeout: "120 seconds" })("A stored symbol", (it) => {
  it.effect("has one spelling in every column for symbols, because a trigger on the table applies it (D41)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      // Symbols that a user entered keep their spelling. The other columns in this list only repeat symbols from stored
      // rows.
      const columnsWithoutTrigger = [
        "history.changes.ticker",
        "history.changes.other_ticker",
        "public.edgar_runs.tickers",
        "public.news.tickers",
        "public.price_corrections.counterpart",
        "public.price_corrections.ticker",
        "public.symbol_spellings.spelling",
        "public.webhook_endpoints.tickers",
      ]
      const columns = yield* sql<{ readonly name: string; readonly is_spelled: boolean }>`
        select format('%s.%s.%s', nspname, relname, attname) as name, exists (
            select from pg_trigger where tgrelid = pg_class.oid and tgname = 'apply_spellings' and tgenabled = 'A'
              and attnum = any (tgattr::int2[]) and encode(tgargs, 'escape') ~ format('(^|000)%s\\\\000', attname)
          ) as is_spelled
        from pg_class join pg_namespace on pg_namespace.oid = relnamespace join pg_attribute on attrelid = pg_class.oid
        where relkind in ('r', 'p') and nspname in ('public', 'history') and attnum > 0 and not attisdropped
          and (atttypid in ('ticker'::regtype, 'tickers'::regtype) or attname ~ '(ticker|symbol|alias)')
          -- Rows in the other tables of the schema history come from tables that have the trigger.
          and (nspname = 'public' or relname = 'changes')
        order by 1
      `
      const minColumns = 25
      assert.isAbove(columns.length, minColumns)
      const unspelled = columns.filter(({ is_spelled }) => !is_spelled).map(({ name }) => name)
      assert.deepStrictEqual(unspelled, columnsWithoutTrigger.toSorted())
    }))

  it.effect("identifies the same row in each spelling, within a file and in the table (D41, D22)", () =>
    Effect.gen(function* () {
      const first = yield* load("float_outstanding", [
        floatHeader,
        toFloatLine("ONE.A", 1),
        toFloatLine("ONE-A", 2),
        toFloatLine("ONE.B", 3),
        toFloatLine("ONE-B", 3),
        toFloatLine("ONEA", 4),
      ])
      assert.deepInclude(first, { rows: 3, superseded: 1, dropped: 1 })
      assert.deepStrictEqual(yield* readSymbols("float_outstanding", "ONE-A"), ["ONE.A"])
      const second = yield* load("float_outstanding", [floatHeader, toFloatLine("ONE-A", 2), toFloatLine("ONE-B", 5)])
      assert.deepStrictEqual(second.merged, { added: 0, updated: 1, unchanged: 1, kept: 0 })
      const replaced = yield* load("float_outstanding", [floatHeader, toFloatLine("ONE-B", 5)], { append: false })
      assert.deepInclude(replaced.merged, { added: 0, updated: 0, unchanged: 1, removed: 2 })
      const file = yield* writeFile([floatHeader, toFloatLine("ONE-B", 5)])
      assert.deepInclude(yield* removeFileRows({ dataset: "float_outstanding", file }), { removed: 1, changed: 0 })
      const again = yield* load("daily_prices", [priceHeader, "ONE-B,2026-06-01,5"])
      assert.deepInclude(again.merged, { added: 1 })
      assert.deepStrictEqual(yield* readSymbols("daily_prices", "ONE-B"), ["ONE.B"])
    }).pipe(Effect.scoped))

  it.effect("is the same however the tape and the SEC mark warrants and units, in any order of loads (D41)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pairs = [["WRT.WS", "WRT-WT"], ["WRA-WT", "WRA-WS"], ["UNI.U", "UNI.UN"], ["UNA-UN", "UNA-U"]] as const
      for (const [first, second] of pairs) {
        yield* load("float_outstanding", [floatHeader, toFloatLine(first, 1)])
        yield* load("daily_prices", [priceHeader, `${second},2026-06-01,1`, `${first},2026-06-02,1`])
        yield* ingest([`${second},2026-06-03,1,1,1,1,100`])
        const rows =
          yield* sql`select distinct ticker from daily_prices where symbol_key(ticker) = symbol_key(${second})`
        assert.deepStrictEqual(rows, [{ ticker: first }])
      }
      const others = ["ABC.WS.A", "ABC.UX", "WS", "U", "ABWS"]
      const symbols = [...pairs.flat(), ...others]
      const keys = yield* sql<{ readonly key: string }>`
        select symbol_key(symbol) as key from unnest(${symbols}::text[]) with ordinality as given (symbol, place)
        order by place
      `
      assert.deepStrictEqual(keys.map(({ key }) => key), symbols.map(toSymbolKey))
      assert.deepStrictEqual(others.map(toSymbolKey), ["ABC-WS-A", "ABC-UX", "WS", "U", "ABWS"])
    }))

  it.effect("keeps the first spelling that was stored, not one that was only checked or rolled back (D41)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (const append of [true, false]) {
        yield* load("float_outstanding", [floatHeader, toFloatLine("CHE.CK", 1)], { check: true, append })
      }
      yield* Effect.flip(sql.withTransaction(Effect.andThen(
        insertRows("daily_prices", { ticker: "CHE.CK", date: "2026-06-01", close: "1" }),
        Effect.fail("rolled back"),
      )))
      yield* load("float_outstanding", [floatHeader, toFloatLine("CHE-CK", 1)])
      assert.deepStrictEqual(yield* readSymbols("float_outstanding", "CHE-CK"), ["CHE-CK"])
      yield* sql`update float_outstanding set ticker = 'CHE.CK' where ticker = 'CHE-CK'`
      yield* sql`
        insert into float_outstanding (ticker, is_adr, last_updated) values ('CHE.CK', false, '2026-06-01')
        on conflict (ticker) do update set ticker = excluded.ticker, outstanding = 7
      `
      assert.deepStrictEqual(yield* readSymbols("float_outstanding", "CHE-CK"), ["CHE-CK"])
    }))

  it.effect("has the spelling of the transaction that stores it first, and others wait for that (D41)", () =>
    Effect.gen(function* () {
      const other = yield* beginTransaction(
        insertRows(
          "daily_prices",
          { ticker: "CON.A", date: "2026-06-01", close: "1" },
          { ticker: "CON.B", date: "2026-06-01", close: "1" },
        ),
      )
      const loading = yield* Effect.forkChild(
        load("float_outstanding", [floatHeader, toFloatLine("CON-B", 1), toFloatLine("CON-A", 1)]),
      )
      yield* waitUntilBlocked
      yield* other.commit
      assert.deepInclude((yield* Fiber.join(loading)).merged, { added: 2 })
      assert.deepStrictEqual(yield* readSymbols("float_outstanding", "CON-A"), ["CON.A"])
      assert.deepStrictEqual(yield* readSymbols("float_outstanding", "CON-B"), ["CON.B"])
    }))

  it.effect("has one spelling even if loads and an ingest first store it at the same time, in any order (D41)", () =>
    Effect.gen(function* () {
      const [rounds, symbolsPerRound] = [getInputCount(20), 20]
      for (let round = 0; round < rounds; round += 1) {
        const symbols = Array.from({ length: symbolsPerRound }, (_, index) => `R${round}.${index}`)
        const hyphenated = symbols.map(toSymbolKey).toReversed()
        yield* Effect.all([
          load("float_outstanding", [floatHeader, ...symbols.map((symbol) => toFloatLine(symbol, 1))]),
          load("historical_tickers", ["ticker,former_ticker,date", ...hyphenated.map((symbol) => `${symbol},OLD,`)]),
          load("daily_prices", [priceHeader, ...hyphenated.map((symbol) => `${symbol},2026-06-01,1`)]),
          ingest(symbols.map((symbol) => `${symbol},2026-06-02,1,1,1,1,100`)),
        ], { concurrency: "unbounded" })
        for (const key of hyphenated) {
          const [spelling, ...more] = new Set([
            ...yield* readSymbols("float_outstanding", key),
            ...yield* readSymbols("historical_tickers", key),
            ...yield* readSymbols("daily_prices", key),
            ...yield* readSymbols("price_periods", key),
          ])
          assert.isDefined(spelling)
          assert.isEmpty(more)
          // One day comes from the load, and one from the ingest.
          const daysPerSymbol = 2
          assert.lengthOf(yield* readSymbols("daily_prices", key), daysPerSymbol)
        }
      }
    }))

  it.effect("is looked up by index in a load of thousands of new symbols, however few were stored before (D41)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const symbols = 2_000
      const readScannedRows = Effect.map(
        sql<{ readonly rows: number }>`
          select seq_tup_read::float8 as rows from pg_stat_xact_user_tables where relname = 'symbol_spellings'
        `,
        ([table]) => table?.rows ?? NaN,
      )
      yield* sql`insert into daily_prices values ('FEW.A', '2026-06-01', 1)`
      yield* sql`analyze symbol_spellings`
      const scanned = yield* Effect.gen(function* () {
        const before = yield* readScannedRows
        yield* sql`
          insert into daily_prices select 'MANY' || n || '.A', '2026-06-01', 1 from generate_series(1, ${symbols}::int) as n
        `
        return (yield* readScannedRows) - before
      }).pipe(sql.withTransaction)
      // A sequential scan for each symbol would read half of the stored symbols on average.
      assert.isBelow(scanned, symbols)
    }))

  it.effect("never changes its spelling, because the history contains it (D41)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* load("daily_prices", [priceHeader, "KEEP.A,2026-06-01,1"])
      for (const change of ["update symbol_spellings set spelling = 'KEEP-A'", "delete from symbol_spellings"]) {
        assert.match(
          String((yield* Effect.flip(sql.unsafe(change))).reason.cause),
          /spelling of a symbol cannot change/,
        )
      }
    }))

  it.effect("joins prices with splits and the screener in each spelling (D41, resources: gap-stats)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* insertRows("split_status", {
        id: "split",
        ticker: "HEQ.A",
        action_type: "split_effective",
        split_from: "10",
        split_to: "1",
        effective_date: "2026-06-02",
        executed: true,
        filed_at: "2026-06-02",
        form_type: "8-K",
        last_updated: "2026-06-02 10:00:00",
      })
      yield* insertRows("screener", {
        ticker: "HEQ-A",
        outstanding: "100",
        is_adr: false,
        pending_s1: false,
        last_updated: "2026-01-01 10:00:00",
      })
      yield* ingest(["HEQ-A,2026-06-01,1,1,1,1,100", "HEQ.A,2026-06-02,10,10,10,10,100"])
      const rows = yield* sql`select ticker, price, gain_1_day from screener where ticker ~ 'HEQ'`
      assert.deepStrictEqual(rows, [{ ticker: "HEQ.A", price: "10.0000", gain_1_day: "0.0000" }])
    }))

  it.effect("is found, and found once, in each spelling after random loads and ingests (D41)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate: key } = yield* Service.TestKeys
      const rounds = getInputCount(60)
      for (let seed = 1; seed <= rounds; seed += 1) {
        yield* sql`truncate float_outstanding, daily_prices, price_periods, screener`
        const choose = makeRandomChooser(seed)
        const model = yield* writeRandomly(choose, `S${seed}`)
        const floats = yield* sql<{ readonly ticker: string; readonly outstanding: bigint }>`
          select ticker, outstanding from float_outstanding
        `
        assert.deepStrictEqual(
          new Map(floats.map(({ outstanding, ticker }) => [ticker, Number(outstanding)])),
          new Map(model.floats.entries().map(([symbol, count]) => [model.spell(symbol), count])),
          `seed ${seed}`,
        )
        const prices = yield* sql<{ readonly ticker: string; readonly date: string; readonly close: string }>`
          select ticker, date::text, close from daily_prices
        `
        assert.deepStrictEqual(
          new Map(prices.map(({ close, date, ticker }) => [`${ticker} ${date}`, Number(close)])),
          new Map(
            model.closes.entries().map(([symbolAndDate, close]) => {
              const [symbol = "", date = ""] = symbolAndDate.split(" ")
              return [`${model.spell(symbol)} ${date}`, close]
            }),
          ),
          `seed ${seed}`,
        )
        assert.deepStrictEqual([floats.length, prices.length], [model.floats.size, model.closes.size])
        for (const symbol of model.symbols) {
          const queried = respell(choose, symbol)
          const { body, text } = yield* requestJson(`/v1/float-outstanding?ticker=${queried}`, { key })
          const count = model.floats.get(symbol)
          assert.deepStrictEqual(
            getResultRows(body).map((row) => [valueAt(row, "ticker"), valueAt(row, "outstanding")]),
            count === undefined ? [] : [[model.spell(symbol), count]],
            `seed ${seed}: ${queried} ${text}`,
          )
        }
      }
    }))
})

/** Returns a symbol with up to three parts after the root. The model always uses hyphens as separators. */
const makeSymbol = (choose: RandomChooser, root: string) =>
  [root, ...Array.from({ length: choose([0, 1, 1, 1, 2, 3]) }, () => choose(["A", "B", "AB"]))].join("-")

/** Returns the symbol with each separator replaced by a random dot or hyphen. */
const respell = (choose: RandomChooser, symbol: string) => symbol.replaceAll("-", () => choose([".", "-"]))

/**
 * Writes random rows both to the database, by loads, ingests and inserts, and to a model. The model contains the shares
 * by symbol (`floats`), the closes by symbol and date, and the first stored spelling of each symbol.
 */
const writeRandomly = Effect.fnUntraced(function* (choose: RandomChooser, root: string) {
  const [writes, otherSymbols, maxRows] = [8, 5, 5]
  const makeOne = () => makeSymbol(choose, root)
  const symbols: Choices<string> = [makeOne(), ...Array.from({ length: otherSymbols }, makeOne)]
  const spellings = new Map<string, string>()
  const [floats, closes] = [new Map<string, number>(), new Map<string, number>()]
  const keepFirst = (symbol: string, spelling: string) => {
    if (!spellings.has(symbol)) spellings.set(symbol, spelling)
  }
  for (let write = 0; write < writes; write += 1) {
    const rows = Array.from({ length: choose([1, 2, 3, maxRows]) }, () => {
      const symbol = choose(symbols)
      return { symbol, spelling: respell(choose, symbol), number: choose([1, 2, 3]), day: choose([1, 2, 3]) }
    })
    const lines = [floatHeader, ...rows.map(({ number, spelling }) => toFloatLine(spelling, number))]
    switch (choose(["append", "replace", "check", "ingest", "insert"])) {
      case "append":
      case "replace": {
        const append = choose([true, false])
        yield* load("float_outstanding", lines, { append })
        if (!append) floats.clear()
        for (const { number, spelling, symbol } of rows) {
          keepFirst(symbol, spelling)
          floats.set(symbol, number)
        }
        break
      }
      case "check": {
        yield* load("float_outstanding", lines, { check: true, append: choose([true, false]) })
        break
      }
      case "ingest": {
        yield* ingest(
          rows.map(({ day, number, spelling }) =>
            `${spelling},2026-06-0${day},${number},${number},${number},${number},100`
          ),
        )
        for (const { day, number, symbol } of rows) {
          keepFirst(symbol, symbol)
          closes.set(`${symbol} 2026-06-0${day}`, number)
        }
        break
      }
      case "insert": {
        const sql = yield* SqlClient.SqlClient
        for (const { number, spelling, symbol } of rows) {
          yield* sql`
            insert into float_outstanding (ticker, outstanding, is_adr, last_updated)
            values (${spelling}, ${String(number)}::bigint, false, '2026-06-01 10:00:00')
            on conflict (ticker) do update set outstanding = excluded.outstanding
          `
          keepFirst(symbol, spelling)
          floats.set(symbol, number)
        }
      }
    }
  }
  return { symbols, floats, closes, spell: (symbol: string) => spellings.get(symbol) ?? symbol }
})
