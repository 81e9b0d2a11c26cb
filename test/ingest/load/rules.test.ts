/**
 * Tests the rules that loaded rows must satisfy: CHECK constraints, column bounds, dates in the past, and prices within
 * their session's range. If a row violates a rule, `load` reports the line, the columns, the values and the rule (D31,
 * D34, D42).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Array as Arr, Effect, FileSystem, Layer, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { tomorrowInNewYork } from "../../../src/contract/rules/Dates.ts"
import { loadDatasetFile, type LoadTask } from "../../../src/ingest/load/DatasetLoad.ts"
import { maxReportedBadRows } from "../../../src/ingest/load/RowValidation.ts"
import * as Service from "../../support/Service.ts"

type Cells = Readonly<Record<string, unknown>>

/** A CHECK constraint of a table or of a column's domain. */
interface Constraint {
  readonly name: string
  readonly columns: ReadonlyArray<string>
  readonly types: ReadonlyArray<string>
}

/**
 * Cells that violate a constraint on several columns, by constraint name. For constraints on one column, see
 * `makeViolatingCell`.
 */
const violatingCells: Readonly<Record<string, Cells>> = {
  ticker_changes_check: { old_ticker: "SAME", new_ticker: "SAME" },
  dilution_data_check: { security_type: "warrant", conversion_price: "1" },
  dilution_data_check1: { security_type: "convertible_note", conversion_price: "1", warrants_amount: "1" },
}

/** Returns a cell that violates the constraint `name` on a column of this type. */
const makeViolatingCell = (name: string, type: string): unknown => {
  if (type.endsWith("[]")) return [null]
  if (type === "bigint") return name === "quantity_check" ? "-1" : "9007199254740992"
  if (name === "price_check" || name === "floor_price_check" || name === "ratio_check") return "0"
  if (name === "dollars_check") return "-1"
  if (type === "date") return "1899-12-31"
  // An empty text means null, which `load` refuses before the table's constraint is checked.
  if (name === "filled_text_check") return ""
  if (type.startsWith("numeric")) return "NaN"
  return type.startsWith("timestamp") ? "infinity" : "no such value!"
}

const readConstraints = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Constraint>`
    select conname as name, array_agg(attname::text) as columns, array_agg(format_type(atttypid, atttypmod)) as types
    from pg_constraint join pg_attribute on attrelid = conrelid and attnum = any (conkey)
    where conrelid = ${table}::regclass and contype = 'c' group by conname
    union all
    select conname, array[attname::text], array[format_type(typbasetype, typtypmod)]
    from pg_attribute join pg_type on pg_type.oid = atttypid join pg_constraint on contypid = pg_type.oid
    where attrelid = ${table}::regclass and attnum > 0 and contype = 'c'
    order by 1, 2
  `
})

const writeRows = Effect.fnUntraced(function* (name: string, rows: ReadonlyArray<Cells>) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-rules-" })}/${name}.ndjson`
  yield* fs.writeFileString(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
  return file
})

const loadRows = Effect.fnUntraced(
  function* (dataset: string, rows: ReadonlyArray<Cells>, options: Partial<LoadTask> = {}) {
    const file = yield* writeRows(dataset, rows)
    return yield* loadDatasetFile({ dataset, file, append: false, ...options }, yield* Ref.make(0))
  },
)

/** Reads one row of the table with the given columns, in a form that `load` accepts. */
const readRow = Effect.fnUntraced(function* (table: string, columns: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql.unsafe<{ readonly row: Cells }>(`select to_jsonb(t) as row from ${table} as t limit 1`)
  const instant = /^\d{4}-.*\+00:00$/
  return Object.fromEntries(
    Object.entries(found?.row ?? {}).filter(([name]) => columns.includes(name)).map(([name, value]) => [
      name,
      typeof value === "string" && instant.test(value) ? value.replace("+00:00", "Z") : value,
    ]),
  )
})

const getColumns = (name: string) =>
  loadableDatasets.flatMap(({ row, table }) => table === name ? Object.keys(row.fields) : [])

/**
 * Returns the other prices of the session that has its high in the given column. All are 12.3, which is between the low
 * and the high.
 */
const makeSessionPrices = (table: string, high: string) => {
  const session = high.startsWith("premarket")
    ? /^$/
    : high.startsWith("afterhours")
    ? /^afterhours_close$/
    : /^(?:market_open|market_close|open_price|close_price)$/
  return Object.fromEntries(getColumns(table).filter((name) => session.test(name)).map((name) => [name, "12.3"]))
}

/** The number of constraints that one file violates. It is low enough for a load to report all violations. */
const constraintsPerLoad = 6

const millisecondsPerDay = 86_400_000

const [newsColumns, dilutionColumns] = [getColumns("news"), getColumns("dilution_data")]

layer(Layer.provideMerge(Service.sampleDatabaseLayer, NodeServices.layer), { excludeTestServices: true })(
  "load",
  (it) => {
    it.effect.each(loadableDatasets.map(({ row, table }) => ({ table, columns: Object.keys(row.fields) })))(
      "reports line, column and value of each row of $table that violates a CHECK constraint (D31, D34)",
      ({ columns, table }) =>
        Effect.gen(function* () {
          const row = yield* readRow(table, columns)
          const constraints = yield* readConstraints(table)
          assert.isNotEmpty(constraints)
          for (const constraintsOfFile of Arr.chunksOf(constraints, constraintsPerLoad)) {
            const violations = constraintsOfFile.map(
              ({ columns: [column = "", ...others], name, types: [type = ""] }) => {
                assert.isTrue(others.length === 0 || name in violatingCells, `Add cells that violate ${name}.`)
                const cells = violatingCells[name] ?? { [column]: makeViolatingCell(name, type) }
                return { names: [column, ...others], name, type, cells }
              },
            )
            const rows = [row, ...violations.map(({ cells }) => ({ ...row, ...cells }))]
            const outcome = yield* Effect.result(loadRows(table, rows, { check: true }))
            const message = outcome._tag === "Success" ? "" : outcome.failure.message
            for (const [at, { cells, name, names: [column = "", ...others], type }] of violations.entries()) {
              const line = message.split("\n").find((text) => text.startsWith(`  line ${at + 2}: `))
              if (line === undefined) return assert.fail(`Add cells that violate ${name}. ${message}`)
              // A price beyond its column's bounds is also outside the session's range, so the error may name a
              // different price column.
              assert.isTrue([column, ...others].some((name) => line.includes(` ${name}`)), `${name}: ${message}`)
              assert.notMatch(message, /constraint|relation|Query failed/, name)
              const cell = String(cells[column])
              // The message must show the cell as it is in the file, not as PostgreSQL would print it, such as "-1.00".
              const shown = line.includes("violates the rule") ? `: ${JSON.stringify(cell)}` : cell
              if (!type.endsWith("[]")) assert.include(line, shown, name)
            }
          }
        }),
    )

    it.effect.each(loadableDatasets)(
      "refuses a value beyond each bound of every number, day and time of $table, which all have bounds (D42)",
      ({ row: { fields }, table }) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const columns = Object.keys(fields)
          const row = yield* readRow(table, columns)
          // Reads the values just below and just above the bounds of each column. `step` is the smallest decimal step
          // of the column, which PostgreSQL stores in the low bits of the type modifier.
          const beyond = yield* sql<{ readonly name: string; readonly below: string | null; readonly above: string }>`
            select attname as name,
              case type when 'bigint' then (least::numeric - 1)::text when 'numeric' then (least::numeric - step)::text
                when 'date' then (least::date - 1)::text
                else replace((least::timestamp - interval '1 ms')::text, ' ', 'T') end
                || case type when 'timestamp with time zone' then 'Z' else '' end as below,
              case type when 'bigint' then (greatest::numeric + 1)::text
                when 'numeric' then (greatest::numeric + step)::text when 'date' then (greatest::date + 1)::text
                else replace((greatest::timestamp + interval '1 ms')::text, ' ', 'T') end
                || case type when 'timestamp with time zone' then 'Z' else '' end as above
            from pg_attribute join pg_type on pg_type.oid = atttypid left join domain_bounds on domain = atttypid
              cross join lateral (
                select format_type(coalesce(nullif(typbasetype, 0), atttypid), null) as type,
                  power(10::numeric, -((greatest(typtypmod, 4) - 4) & 2047)) as step
              ) as base
            where attrelid = ${table}::regclass and attnum > 0 and attname = any (${columns}::text[])
              and type in ('bigint', 'numeric', 'date', 'timestamp without time zone', 'timestamp with time zone')
          `
          const values = beyond.flatMap(({ above, below, name }) => {
            assert.isNotNull(below, `${table}.${name} has no bounds`)
            return [{ name, value: below }, { name, value: above }]
          })
          for (const valuesOfFile of Arr.chunksOf(values, maxReportedBadRows)) {
            const rows = valuesOfFile.map(({ name, value }) => ({ ...row, [name]: value }))
            const { message } = yield* Effect.flip(loadRows(table, [row, ...rows], { check: true }))
            for (const [at, { name, value }] of valuesOfFile.entries()) {
              const line = message.split("\n").find((text) => text.startsWith(`  line ${at + 2}: ${name} `))
              assert.isDefined(line, `${name} = ${value}: ${message}`)
              assert.include(line, JSON.stringify(value), name)
              assert.notInclude(line, "violates", name)
            }
          }
        }),
    )

    it.effect.each([
      ["gap_stats", "date"],
      ["premarket_stats", "date"],
      ["afterhours_stats", "date"],
      ["intraday_runners", "date"],
      ["daily_prices", "date"],
      ["nasdaq_compliance", "date"],
      ["nasdaq_compliance", "added_date"],
      ["news", "filed_at"],
      ["dilution_data", "filed_at"],
      ["registrations", "filed_at"],
      ["registrations", "effective_date"],
      ["split_status", "filed_at"],
      ["historical_float_pro", "filed_at"],
      ["historical_float_pro", "reported_date"],
      ["float_outstanding", "filed_at"],
      ["ownership", "filed_at"],
      ["pump_and_dump_tracker", "ipo_date"],
      ["pump_and_dump_tracker", "last_liquidation_date"],
      ["screener", "ipo_date"],
      ["research_reports", "created_at"],
    ])(
      "refuses days after tomorrow in New York in %s.%s, but accepts tomorrow (D42)",
      ([table = "", column = ""]) =>
        Effect.gen(function* () {
          const row = yield* readRow(table, getColumns(table))
          const tomorrow = yield* tomorrowInNewYork
          const later = new Date(Date.parse(tomorrow) + millisecondsPerDay).toISOString().slice(0, 10)
          const clock = column === "created_at" ? "T23:59:00-05:00" : ""
          const rows = [tomorrow, later].map((day) => ({ ...row, [column]: `${day}${clock}` }))
          const { message } = yield* Effect.flip(loadRows(table, rows, { append: true, check: true }))
          const reason = `must not be after tomorrow, ${tomorrow}, in New York, but is "${later}${clock}"`
          assert.include(message, `line 2: ${column} ${reason}`)
          assert.notInclude(message, "line 1:")
        }),
    )

    it.effect("accepts future days where filters accept them, such as the day of a split or a symbol change (D42)", () =>
      Effect.gen(function* () {
        for (
          const [table, column] of [["split_status", "effective_date"], ["ticker_changes", "effective_date"]] as const
        ) {
          const row = yield* readRow(table, getColumns(table))
          yield* loadRows(table, [{ ...row, [column]: "2199-12-31" }], { append: true, check: true })
        }
      }))

    it.effect.each([
      ["intraday_runners", "market_open", "high_price"],
      ["intraday_runners", "premarket_low", "premarket_high"],
      ["gap_stats", "market_close", "high_price"],
      ["gap_stats", "afterhours_close", "afterhours_high"],
      ["premarket_stats", "close_price", "high_price"],
      ["afterhours_stats", "open_price", "high_price"],
      ["screener", "low_365", "high_365"],
    ])(
      "refuses a row of %s whose %s is a hundred times as high, above its %s (D34)",
      ([table = "", column = "", high = ""]) =>
        Effect.gen(function* () {
          const row = {
            ...(yield* readRow(table, getColumns(table))),
            [high]: "12.5",
            [high.replace("high", "low")]: "12",
          }
          const inside = { ...row, ...makeSessionPrices(table, high) }
          // Odd-lot trades count toward the VWAP but not toward the high and low, so a VWAP may be outside the range.
          const vwaps = getColumns(table).filter((name) => /^(premarket_)?vwap$/.test(name)).map((name) => [name, "99"])
          yield* loadRows(table, [{ ...inside, ...Object.fromEntries(vwaps) }], { check: true })
          const { message } = yield* Effect.flip(
            loadRows(table, [inside, { ...inside, [column]: "1230" }], { check: true }),
          )
          assert.include(message, `line 2: ${high} must not be below ${column}, which is 1230, but is "12.5"`)
          if (column.includes("low")) return
          const below = yield* Effect.flip(loadRows(table, [{ ...inside, [column]: "0.123" }], { check: true }))
          assert.include(
            below.message,
            `line 1: ${high.replace("high", "low")} must not be above ${column}, which is 0.123`,
          )
        }),
    )

    it.effect("reports a violated constraint on several columns that the operator has added, in each kind of load (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`delete from float_outstanding`
        yield* sql`
        alter table float_outstanding add constraint own_rule check (tradable_float <= "float" or ticker = 'ANY')
      `
        const row = { is_adr: "false", last_updated: "2026-06-01 20:05:00", float: "10", tradable_float: "9" }
        yield* loadRows("float_outstanding", [{ ...row, ticker: "GOOD" }])
        const wrong = { ...row, ticker: "BAD", tradable_float: "11" }
        for (const append of [false, true]) {
          const rows = [{ ...row, ticker: "GOOD" }, { ...row, ticker: "FINE" }, wrong]
          const { message } = yield* Effect.flip(loadRows("float_outstanding", rows, { append }))
          assert.match(message.replaceAll(`"float"`, "float"), /line 3: /)
          assert.include(message, `tradable_float "11"`)
          assert.include(message, `ticker "BAD"`)
          assert.match(message, /violate the rule tradable_float <= "?float"? OR ticker = 'ANY'/)
        }
        const partial = [{ ticker: "GOOD", tradable_float: "12" }]
        const { message } = yield* Effect.flip(
          loadRows("float_outstanding", partial, { append: true, keepOmitted: true }),
        )
        assert.match(message, /line 1: .*violate the rule .*tradable_float "12"/)
        assert.strictEqual((yield* sql`select 1 from float_outstanding where ticker = 'GOOD'`).length, 1)
      }))

    it.effect("reports rows that violate constraints and rows with invalid cells together, in the order of the file (D31)", () =>
      Effect.gen(function* () {
        const row = { is_adr: "false", last_updated: "2026-06-01 20:05:00", cik: "1", filed_at: "2026-06-01" }
        const rows = [
          { ...row, ticker: "A", float: "-5", restricted_shares: "-3" },
          { ...row, ticker: "B", float: "x" },
          { ...row, ticker: "C", float: "-6" },
        ]
        const { message } = yield* Effect.flip(loadRows("historical_float_pro", rows))
        assert.deepStrictEqual(
          Array.from(message.matchAll(/^ {2}line (\d): (\w+)/gm), ([, line, column]) => `${line} ${column}`),
          ["1 float", "1 restricted_shares", "2 float", "3 float"],
        )
      }))

    it.effect("refuses a row that violates a constraint even if a later row in the file has the same key (D31)", () =>
      Effect.gen(function* () {
        const row = { ticker: "TWICE", is_adr: "false", last_updated: "2026-06-01 20:05:00", filed_at: "2026-06-01" }
        const rows = [{ ...row, float: "-5" }, { ...row, float: "5" }]
        for (const check of [false, true]) {
          const { message } = yield* Effect.flip(loadRows("historical_float_pro", rows, { append: true, check }))
          assert.match(message, /\n {2}line 1: float .*-5[^\n]*$/)
        }
      }))

    it.effect("reports an error only once if several elements of an array have it (D31)", () =>
      Effect.gen(function* () {
        const row = yield* readRow("news", newsColumns)
        const { message } = yield* Effect.flip(loadRows("news", [{ ...row, tags: ["", "a", " "] }], { append: true }))
        assert.strictEqual(message.match(/line 1: tags /g)?.length, 1, message)
      }))

    it.effect("refuses long text in indexed columns together with other bad rows, also with --check (D31)", () =>
      Effect.gen(function* () {
        // A text may have 1,000 bytes, and each \u00E9 takes two.
        const longest = "\u00E9".repeat(500)
        const tooLong = `x${longest}`
        const row = yield* readRow("news", newsColumns)
        const rows = [
          { ...row, id: "a", form_type: longest, tags: [longest] },
          { ...row, id: "b", form_type: tooLong },
          { ...row, id: "c", tags: ["short", tooLong] },
          { ...row, id: "d", title: tooLong, created_at: "soon" },
        ]
        const rule = "must have at most 1000 bytes, because the column is indexed, but is "
        for (const check of [false, true]) {
          const { message } = yield* Effect.flip(loadRows("news", rows, { append: true, check }))
          const [, second = "", third = "", fourth = "", ...others] = message.split("\n")
          assert.include(second, `line 2: form_type ${rule}"x\u00E9`)
          assert.include(third, `line 3: tags ${rule}["short","x\u00E9`)
          assert.include(fourth, "line 4: created_at must be")
          assert.deepStrictEqual(others, [])
        }
        yield* loadRows("news", rows.slice(0, 1), { append: true })
        const key = { ...yield* readRow("dilution_data", dilutionColumns), id: tooLong }
        const { message } = yield* Effect.flip(loadRows("dilution_data", [key], { append: true, check: true }))
        assert.include(message, `line 1: id ${rule}"x\u00E9`)
      }))

    it.effect("matches the key of a row in which another program has stored empty text instead of null (D16, D22)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const row = { ticker: "EMPT", filed_at: "2026-06-01", is_adr: "false", last_updated: "2026-06-01 20:05:00" }
        const rows = [{ ...row, form_type: null, document_url: null, float: "7" }]
        yield* sql`delete from historical_float_pro`
        yield* loadRows("historical_float_pro", rows)
        yield* sql`update historical_float_pro set form_type = '', document_url = ''`
        for (const options of [{ append: true }, { append: true, keepOmitted: true }, { append: false }]) {
          const { merged } = yield* loadRows("historical_float_pro", rows, options)
          assert.deepInclude(merged, { added: 0, updated: 0, unchanged: 1 })
        }
        assert.strictEqual((yield* sql`select 1 from historical_float_pro`).length, 1)
      }))

    it.effect("keeps one of the rows whose keys differ only by null and empty text, in a replacement and its check (D16, D22)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const row = { ticker: "EMPT", filed_at: "2026-06-01", is_adr: "false", last_updated: "2026-06-01 20:05:00" }
        const rows = [{ ...row, form_type: null, document_url: null, float: "7" }]
        yield* sql`delete from historical_float_pro`
        yield* loadRows("historical_float_pro", rows)
        yield* sql`
          insert into historical_float_pro (ticker, filed_at, is_adr, last_updated, form_type, document_url, "float")
          select ticker, filed_at, is_adr, last_updated, '', '', "float" from historical_float_pro
        `
        for (const check of [true, false]) {
          const { merged } = yield* loadRows("historical_float_pro", rows, { check })
          assert.deepInclude(merged, { added: 0, updated: 0, unchanged: 1, removed: 1 })
        }
        assert.strictEqual((yield* sql`select 1 from historical_float_pro`).length, 1)
      }))

    it.effect("removes white space at both ends of text, and stores null instead of empty text (D39)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const fs = yield* FileSystem.FileSystem
        const header = "old_ticker,new_ticker,effective_date,status,company_name,source"
        const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-rules-" })}/changes.csv`
        yield* fs.writeFileString(file, `${header}\n"AA ", BB ,2025-03-03\t, confirmed,"\u00A0Acme Inc \n"," "\n`)
        yield* loadDatasetFile({ dataset: "ticker_changes", file, append: false }, yield* Ref.make(0))
        const stored = sql`select old_ticker, new_ticker, status, company_name, source from ticker_changes`
        const expected = {
          old_ticker: "AA",
          new_ticker: "BB",
          status: "confirmed",
          company_name: "Acme Inc",
          source: null,
        }
        assert.deepStrictEqual(yield* stored, [expected])
        const cells = { old_ticker: " AA", new_ticker: "BB ", effective_date: "2025-03-03", status: " confirmed" }
        yield* loadRows("ticker_changes", [{ ...cells, company_name: " Acme Inc", source: " " }])
        assert.deepStrictEqual(yield* stored, [expected])
      }))
  },
)
