/** Tests that the generated sample files are valid, fictional, reproducible and consistent. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, FileSystem, Layer, Result, Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { makeRowValidator } from "../../src/ingest/load/RowValidation.ts"
import { loadableDatasets } from "../../src/contract/Datasets.ts"
import { readFileRows } from "../../src/ingest/load/FileReader.ts"
import { type MarketFilesOptions, writeMarketFiles } from "../../samples/generator/MarketFiles.ts"
import { sampleRowBuilders, type TableName } from "../../samples/generator/Tables.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"

/** The last day for which the market has data. */
const today = "2026-11-13"

const lists = new Set(["tickers", "tags", "filing_types", "all_tags", "owners"])

/** Returns the name of the nullable column that contains links to a row's documents. */
const getSourceColumn = (table: string) => table === "ticker_changes" ? "source_links" : "source"

const getListColumns = (table: string) => new Set([...lists, getSourceColumn(table)])

type Cells = { readonly [column: string]: string | ReadonlyArray<string> | null | undefined }

const folder = Effect.flatMap(
  FileSystem.FileSystem,
  (fs) => fs.makeTempDirectoryScoped({ prefix: "tickerline-market-" }),
)

const generateMarketFiles = Effect.fnUntraced(
  function* (options: Partial<MarketFilesOptions> & { readonly seed: number }) {
    const home = yield* folder
    return { home, counts: yield* writeMarketFiles({ folder: home, scale: 1, ...options }) }
  },
)

const readTable = (home: string, table: string) =>
  Effect.map(
    Stream.runCollect(readFileRows(`${home}/${table}.csv`, getListColumns(table))),
    (rows): ReadonlyArray<Cells> => rows.map(({ cells }) => cells),
  )

/** Provides the small market, generated and parsed once for all tests. */
class Market extends Context.Service<
  Market,
  { readonly home: string; readonly counts: object; readonly rows: (table: string) => ReadonlyArray<Cells> }
>()("test/samples/Market") {
  static readonly layer = Layer.effect(
    Market,
    Effect.gen(function* () {
      const { counts, home } = yield* generateMarketFiles({ seed: 1 })
      const read = yield* Effect.forEach(
        Object.keys(sampleRowBuilders),
        (table) => Effect.map(readTable(home, table), (rows) => [table, rows] as const),
      )
      const all = new Map<string, ReadonlyArray<Cells>>(read)
      return { home, counts, rows: (table) => all.get(table) ?? [] }
    }),
  ).pipe(Layer.provideMerge(NodeServices.layer))
}

/** Returns a cell's text. The text is empty if the cell is null. */
const getText = (row: Cells | undefined, column: string) => {
  const cell = row?.[column]
  return typeof cell === "string" ? cell : ""
}

const getList = (row: Cells, column: string) => {
  const cell = row[column]
  return typeof cell === "object" && cell !== null ? cell : []
}

/** Parses a decimal exactly, into an integer scaled by 10^digits. */
const parseDecimal = (decimal: string, digits = 4) => {
  const [integer = "0", part = ""] = decimal.replace("-", "").split(".")
  const count = BigInt(integer + part.padEnd(digits, "0"))
  return decimal.startsWith("-") ? -count : count
}

const getScaledInteger = (row: Cells | undefined, column: string, digits = 4) =>
  parseDecimal(getText(row, column) || "0", digits)

/** Divides integers, rounding half away from zero. */
const divideRounded = (dividend: bigint, divisor: bigint): bigint =>
  dividend < 0n ? -divideRounded(-dividend, divisor) : (2n * dividend + divisor) / (2n * divisor)

/** Returns the change from `reference` to `value`, in ten-thousandths of a percent. */
const computePercentChange = (value: bigint, reference: bigint) =>
  divideRounded((value - reference) * 1_000_000n, reference)

const computeValueInCents = (ticks: bigint, shares: bigint) => divideRounded(ticks * shares, 100n)

const subtractDays = (date: string, days: number) =>
  new Date(Date.parse(date) - days * 86_400_000).toISOString().slice(0, 10)

/** Returns a function that maps any symbol of a company to the company's current symbol. */
const makeCurrentSymbol = (changes: ReadonlyArray<Cells>) => {
  const next = new Map(
    changes.filter((row) => row["status"] === "confirmed" && getText(row, "effective_date") <= today)
      .map((row) => [getText(row, "old_ticker"), getText(row, "new_ticker")]),
  )
  const follow = (symbol: string): string => {
    const successor = next.get(symbol)
    return successor === undefined ? symbol : follow(successor)
  }
  return follow
}

const groupRows = (rows: ReadonlyArray<Cells>, keyOf: (row: Cells) => string) => {
  const groups = new Map<string, Array<Cells>>()
  for (const row of rows) {
    const group = groups.get(keyOf(row))
    if (group === undefined) groups.set(keyOf(row), [row])
    else group.push(row)
  }
  return groups
}

/** Closing prices by company in chronological order, with functions that look up prices by symbol and date. */
const prices = Effect.map(Market, ({ rows }) => {
  const company = makeCurrentSymbol(rows("ticker_changes"))
  const closes = groupRows(rows("daily_prices"), (row) => company(getText(row, "ticker")))
  const closesOf = (symbol: string) => closes.get(company(symbol)) ?? []
  const indexOn = (symbol: string, date: string) => closesOf(symbol).findIndex((row) => row["date"] === date)
  return { company, closesOf, indexOn, symbols: closes }
})

const hashFolder = (home: string) => {
  const hash = createHash("sha256")
  readdirSync(home).toSorted().forEach((name) => hash.update(name).update(readFileSync(`${home}/${name}`)))
  return hash.digest("hex")
}

const readSample = (path: string) =>
  readFileSync(fileURLToPath(new URL(`../../samples/${path}`, import.meta.url)), "utf8")

layer(Market.layer)("the fictional market", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Files
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("generates identical files for the same seed and other files for another seed (samples/README.md)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const { home } = yield* Market
      const [again, other] = [yield* generateMarketFiles({ seed: 1 }), yield* generateMarketFiles({ seed: 2 })]
      assert.strictEqual(hashFolder(again.home), hashFolder(home))
      assert.notStrictEqual(hashFolder(other.home), hashFolder(home))
    }))

  it.effect("writes one file per dataset, in total 20,000 to 40,000 rows and less than 3 MB (samples/README.md)", () =>
    Effect.gen(function* () {
      const { counts, home } = yield* Market
      const names = readdirSync(home).map((name) => name.replace(/\.csv$/, "")).toSorted()
      assert.deepStrictEqual(names, loadableDatasets.map(({ table }) => table).toSorted())
      assert.deepStrictEqual(Object.keys(counts).toSorted(), names)
      const size = readdirSync(home).reduce((sum, name) => sum + readFileSync(`${home}/${name}`).length, 0)
      assert.isBelow(size, 3_000_000)
      const total = Object.values(counts).reduce((sum, rows) => sum + rows, 0)
      assert.isAbove(total, 20_000)
      assert.isBelow(total, 40_000)
    }))

  it.effect.each(loadableDatasets)(
    "generates $table rows that pass the checks of load, with unique keys (D31)",
    (dataset) =>
      Effect.gen(function* () {
        const { counts, home } = yield* Market
        const { checkHeader, validateRow } = makeRowValidator(dataset)
        const rows = yield* Stream.runCollect(
          readFileRows(`${home}/${dataset.table}.csv`, getListColumns(dataset.table), { checkHeader }),
        )
        assert.deepStrictEqual(rows.map(validateRow).filter(Result.isFailure).slice(0, 3), [])
        const keys = rows.map(({ cells }) => JSON.stringify(dataset.key.map((column) => cells[column] ?? null)))
        assert.strictEqual(new Set(keys).size, rows.length)
        assert.strictEqual(Reflect.get(counts, dataset.table), rows.length)
        assert.isAbove(rows.length, 0)
      }),
  )

  it.effect.each(loadableDatasets)(
    "fills every column of $table, and leaves every nullable column empty in some row (samples/README.md)",
    (dataset) =>
      Effect.gen(function* () {
        const { rows } = yield* Market
        const all = rows(dataset.table)
        const isEmpty = (row: Cells, column: string) => getText(row, column) === "" && getList(row, column).length === 0
        const columns = Object.keys(dataset.row.fields)
        assert.deepStrictEqual(columns.filter((column) => all.every((row) => isEmpty(row, column))), [])
        const always = dataset.table === "ticker_changes" ? ["source", "recorded_at"] : []
        const nullable = Object.entries(dataset.row.fields).filter(([, field]) => Schema.is(field)(null))
          .map(([column]) => column)
        assert.deepStrictEqual(nullable.filter((column) => !all.some((row) => isEmpty(row, column))), always)
        const arrays = columns.filter((column) => lists.has(column))
        assert.deepStrictEqual(arrays.filter((column) => !all.some((row) => getList(row, column).length > 1)), [])
        assert.deepStrictEqual(arrays.filter((column) => !all.some((row) => isEmpty(row, column))), [])
      }),
  )

  it.effect("uses every value of every enum (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const levels = ["high", "medium", "low"]
      const enums: ReadonlyArray<readonly [TableName, string, ReadonlyArray<string>]> = [
        ["dilution_data", "security_type", [
          "warrant",
          "prefunded_warrant",
          "convertible_note",
          "convertible_preferred",
        ]],
        ["dilution_data", "conversion_price_type", ["fixed", "variable"]],
        ["registrations", "type", ["shelf", "equity_line", "offering", "resale"]],
        ["pump_and_dump_tracker", "liquidation_history", levels],
        ["pump_and_dump_tracker", "underwriter_risk", levels],
        ["pump_and_dump_tracker", "country_risk", levels],
        ["pump_and_dump_tracker", "float_risk", levels],
        ["pump_and_dump_tracker", "scam_risk", levels],
        ["ownership", "owner_type", ["executive", "director", "ten_percent_owner", "five_percent_owner"]],
        ["nasdaq_compliance", "deficiency_type", [
          "bid_price",
          "market_value_listed_securities",
          "market_value_public_shares",
          "stockholders_equity",
          "public_holders",
          "late_filing",
          "audit_committee",
          "annual_meeting",
          "other",
        ]],
        ["nasdaq_compliance", "notice_type", [
          "deficiency",
          "plan_required",
          "staff_determination",
          "public_reprimand",
          "compliance_regained",
        ]],
        ["nasdaq_compliance", "risk", levels],
        ["nasdaq_compliance", "status", ["active", "extended", "appealed", "resolved", "delisted"]],
        ["split_status", "action_type", [
          "pending_vote",
          "vote_approved",
          "split_announced",
          "split_effective",
          "withdrawn",
        ]],
        ["ticker_changes", "status", ["confirmed", "estimated", "backfill", "reverted", "blocked"]],
      ]
      for (const [table, column, expected] of enums) {
        const found = new Set(rows(table).map((row) => getText(row, column)).filter((word) => word !== ""))
        assert.deepStrictEqual([...found].toSorted(), expected.toSorted(), `${table}.${column}`)
      }
    }))

  it.effect("marks symbols, names, CIKs and URLs as fictional (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const used = new Set(
        ["facts/ticker_changes.csv", "fictional/ticker_changes.csv"].flatMap((path) =>
          readSample(path).split("\n").slice(1).flatMap((line) => line.split(",").slice(0, 2))
        ),
      )
      const columns = ["ticker", "old_ticker", "new_ticker", "former_ticker"]
      for (const row of Object.keys(sampleRowBuilders).flatMap((table) => rows(table))) {
        const symbols = [...columns.map((column) => getText(row, column)).filter(Boolean), ...getList(row, "tickers")]
        for (const symbol of symbols) {
          if (!/^(?=.*[0-9])[A-Z0-9.-]{1,6}$/.test(symbol) || used.has(symbol)) assert.fail(symbol)
        }
        for (const column of ["company", "company_name"]) assert.match(getText(row, column), /^$| \(fictional\)$/)
        for (const column of ["cik", "owner_cik"]) assert.match(getText(row, column), /^$|^(?:9990|0999)\d{6}$/)
        for (const [column, cell] of Object.entries(row)) {
          if (/url$|website/.test(column)) assert.match(String(cell ?? ""), /^$|^https:\/\/example\.com\//)
        }
      }
      const symbols = rows("screener").map((row) => getText(row, "ticker"))
      assert.isTrue(symbols.some((symbol) => symbol.includes(".")))
      assert.isTrue(symbols.some((symbol) => symbol.includes("-")))
    }))

  it.effect("gives every company of a larger market its own symbols (samples/README.md)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const { rows } = yield* Market
      const { counts, home } = yield* generateMarketFiles({ seed: 1, scale: 12, only: ["screener"] })
      const large = yield* readTable(home, "screener")
      const symbols = new Set(large.map((row) => getText(row, "ticker")))
      assert.strictEqual(symbols.size, 12 * rows("screener").length)
      assert.strictEqual(counts["screener"], symbols.size)
      assert.deepStrictEqual([...symbols].filter((symbol) => !/^(?=.*[0-9])[A-Z0-9.-]{1,6}$/.test(symbol)), [])
      // The small market is a subset of every larger market.
      assert.deepStrictEqual(large.slice(0, rows("screener").length), rows("screener"))
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Days
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("has sessions only on trading days, both in January and in July (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const days = new Set(rows("daily_prices").map((row) => getText(row, "date")))
      const closed = [
        "2024-11-28",
        "2024-12-25",
        "2025-01-01",
        "2025-01-20",
        "2025-02-17",
        "2025-04-18",
        "2025-05-26",
        "2025-06-19",
        "2025-07-04",
        "2025-09-01",
        "2026-04-03",
        "2026-06-19",
        "2026-07-03",
      ]
      assert.deepStrictEqual(closed.filter((day) => days.has(day)), [])
      assert.deepStrictEqual([...days].filter((day) => [0, 6].includes(new Date(day).getUTCDay())), [])
      for (const table of ["gap_stats", "premarket_stats", "afterhours_stats", "intraday_runners"] as const) {
        const dates = rows(table).map((row) => getText(row, "date"))
        assert.deepStrictEqual(dates.filter((date) => !days.has(date)), [])
        assert.isTrue(
          dates.some((date) => date.slice(5, 7) === "01") && dates.some((date) => date.slice(5, 7) === "07"),
        )
      }
    }))

  it.effect("writes future dates only to columns that allow them (§4.4)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const allowed = new Set([
        "registrations.expiration_date",
        "pump_and_dump_tracker.lock_up_expiration",
        "dilution_data.expiration_date",
        "dilution_data.maturity_date",
        "dilution_data.reset_date",
        "split_status.vote_date",
        "split_status.authority_expires_date",
        "nasdaq_compliance.compliance_deadline",
        "ticker_changes.effective_date",
      ])
      const future = Object.keys(sampleRowBuilders).flatMap((table) =>
        rows(table).flatMap((row) =>
          Object.entries(row).filter(([, cell]) =>
            typeof cell === "string" && /^\d{4}-\d{2}-\d{2}($|[ T])/.test(cell) && cell > `${today}T99`
          ).map(([column]) => `${table}.${column}`)
        )
      )
      assert.deepStrictEqual([...new Set(future)].toSorted(), [...allowed].toSorted())
    }))

  it.effect("includes reported dates on weekends and missing reported dates (§2.6)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const days = new Set(rows("daily_prices").map((row) => getText(row, "date")))
      const reported = rows("historical_float_pro").map((row) => getText(row, "reported_date"))
      assert.isTrue(reported.some((date) => date === ""))
      assert.isTrue(reported.some((date) => date !== "" && !days.has(date)))
      assert.isTrue(
        rows("historical_float_pro").every((row) => getText(row, "reported_date") <= getText(row, "filed_at")),
      )
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Sessions
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("takes the closes of gap_stats from daily_prices, and computes its percentages exactly (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const { closesOf, indexOn } = yield* prices
      for (const row of rows("gap_stats")) {
        const [symbol, date] = [getText(row, "ticker"), getText(row, "date")]
        const index = indexOn(symbol, date)
        assert.strictEqual(getText(row, "market_close"), getText(closesOf(symbol)[index], "close"), `${symbol} ${date}`)
        assert.strictEqual(
          getText(row, "previous_day_close"),
          getText(closesOf(symbol)[index - 1], "close"),
          `${symbol} ${date}`,
        )
        assert.strictEqual(symbol, getText(closesOf(symbol)[index], "ticker"))
        const [open, high, low, close, previous] = [
          getScaledInteger(row, "market_open"),
          getScaledInteger(row, "high_price"),
          getScaledInteger(row, "low_price"),
          getScaledInteger(row, "market_close"),
          getScaledInteger(row, "previous_day_close"),
        ]
        assert.isTrue(low <= open && low <= close && open <= high && close <= high)
        assert.strictEqual(getScaledInteger(row, "gap_percentage"), computePercentChange(open, previous))
        assert.strictEqual(getScaledInteger(row, "percentage_gain"), computePercentChange(high, previous))
        assert.strictEqual(getScaledInteger(row, "open_to_high_pct"), computePercentChange(high, open))
        assert.strictEqual(getScaledInteger(row, "open_to_low_pct"), computePercentChange(low, open))
        assert.strictEqual(getText(row, "close_under_50pct_of_range"), String(2n * close < high + low))
        assert.strictEqual(getText(row, "gap_filled"), String(open > previous ? low <= previous : high >= previous))
        for (const column of ["high_time", "low_time", "spike_start_time", "gap_fill_time"]) {
          const time = getText(row, column)
          assert.isTrue(time === "" || (time >= `${date} 09:30:00` && time < `${date} 16:00:00`), `${column} ${time}`)
        }
        assert.isTrue(getText(row, "high_time") === "" || getText(row, "spike_start_time") <= getText(row, "high_time"))
        assert.strictEqual(
          getScaledInteger(row, "volume", 0),
          getScaledInteger(row, "premarket_volume", 0) + getScaledInteger(row, "rth_volume", 0) +
            getScaledInteger(row, "afterhours_volume", 0),
        )
      }
    }))

  it.effect("copies the figures of gap_stats to intraday_runners, with exact sums of dollar volumes (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const gaps = new Map(rows("gap_stats").map((row) => [`${row["ticker"]} ${row["date"]}`, row]))
      for (const row of rows("intraday_runners")) {
        const gap = gaps.get(`${row["ticker"]} ${row["date"]}`) ?? {}
        for (const column of Object.keys(row).filter((name) => name in gap && name !== "last_updated")) {
          if (getText(row, column) === "" && /volume|dollar/.test(column)) continue
          assert.deepStrictEqual(row[column], gap[column], `${row["ticker"]} ${row["date"]} ${column}`)
        }
        if (getText(row, "dollar_volume") === "") continue
        assert.strictEqual(
          getScaledInteger(row, "dollar_volume", 2),
          getScaledInteger(row, "premarket_dollar_volume", 2) + getScaledInteger(row, "rth_dollar_volume", 2) +
            getScaledInteger(row, "afterhours_dollar_volume", 2),
        )
      }
      const ratios = rows("intraday_runners").map((row) => getText(row, "daily_volume_ratio"))
      assert.isTrue(ratios.includes("9"))
      assert.isTrue(ratios.some((ratio) => Number(ratio) < 9))
      assert.isTrue(
        rows("intraday_runners").some((row) =>
          getText(row, "anomaly_flagged") === "false" && Number(getText(row, "daily_volume_ratio")) > 9
        ),
      )
    }))

  it.effect("has the same premarket and after-hours figures in gap_stats as in their own tables (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const { closesOf, indexOn } = yield* prices
      const gaps = new Map(rows("gap_stats").map((row) => [`${row["ticker"]} ${row["date"]}`, row]))
      let eveningRuns = 0
      for (const table of ["premarket_stats", "afterhours_stats"] as const) {
        const part = table.replace("_stats", "")
        for (const row of rows(table)) {
          const [symbol, date] = [getText(row, "ticker"), getText(row, "date")]
          const index = indexOn(symbol, date)
          const reference = closesOf(symbol)[part === "premarket" ? index - 1 : index]
          assert.strictEqual(getText(row, "reference_close"), getText(reference, "close"), `${table} ${symbol} ${date}`)
          const close = getScaledInteger(row, "reference_close")
          assert.strictEqual(
            getScaledInteger(row, "percentage_gain"),
            computePercentChange(getScaledInteger(row, "high_price"), close),
          )
          if (getText(row, "close_price") !== "") {
            assert.strictEqual(
              getScaledInteger(row, "change_percentage"),
              computePercentChange(getScaledInteger(row, "close_price"), close),
            )
            assert.strictEqual(
              getScaledInteger(row, "dollar_volume", 2),
              computeValueInCents(getScaledInteger(row, "vwap"), getScaledInteger(row, "volume", 0)),
            )
          }
          const gap = gaps.get(`${symbol} ${date}`)
          if (gap === undefined) {
            eveningRuns++
            // If there was no gap on this day, the row describes after-hours trading on the evening before a gap.
            assert.isTrue(gaps.has(`${symbol} ${getText(closesOf(symbol)[index + 1], "date")}`))
            continue
          }
          if (gap[`${part}_high`] === null) continue
          assert.strictEqual(getText(row, "high_price"), getText(gap, `${part}_high`))
          assert.strictEqual(getText(row, "low_price"), getText(gap, `${part}_low`))
          assert.strictEqual(getText(row, "volume"), getText(gap, `${part}_volume`))
        }
      }
      assert.isAbove(eveningRuns, 10)
    }))

  it.effect("takes the forms and tags of a session from the news of that day and the day before (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const { company, closesOf, indexOn } = yield* prices
      const news = groupRows(rows("news"), (row) => company(getText(row, "ticker")))
      let filed = 0
      for (const row of rows("gap_stats")) {
        const [symbol, date] = [getText(row, "ticker"), getText(row, "date")]
        const dayBefore = getText(closesOf(symbol)[indexOn(symbol, date) - 1], "date")
        const near = (news.get(company(symbol)) ?? []).filter((item) =>
          getText(item, "filed_at") >= dayBefore && getText(item, "filed_at") <= date
        )
        const forms = new Set(near.map((item) => getText(item, "form_type")).filter((form) => form !== "news"))
        assert.sameMembers([...getList(row, "filing_types")], [...forms])
        assert.sameMembers([...getList(row, "all_tags")], [...new Set(near.flatMap((item) => getList(item, "tags")))])
        filed += forms.size
      }
      assert.isAbove(filed, 50)
    }))

  it.effect("copies the figures of a session to its research report (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const gaps = groupRows(rows("gap_stats"), (row) => `${row["ticker"]} ${row["percentage_gain"]}`)
      for (const report of rows("research_reports")) {
        const [gap] = gaps.get(`${report["ticker"]} ${report["gain_percentage"]}`) ?? []
        assert.strictEqual(getText(report, "created_at").slice(0, 10), getText(gap, "date"))
        assert.isTrue([null, gap?.["volume"]].includes(report["volume"]))
        assert.isTrue([null, gap?.["market_close"]].includes(report["price"]))
        assert.deepStrictEqual(report["tradable_float"], gap?.["tradable_float"])
        assert.include(getText(report, "report_text"), `**`)
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Companies
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("shows current figures in the screener (D44, samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const { company, closesOf } = yield* prices
      const floats = new Map(rows("float_outstanding").map((row) => [row["ticker"], row]))
      const split = new Set(
        rows("split_status").filter((row) => row["executed"] === "true").map((row) => company(getText(row, "ticker"))),
      )
      const mine = (table: TableName, symbol: string) =>
        rows(table).filter((row) => company(getText(row, "ticker")) === symbol)
      for (const row of rows("screener")) {
        const symbol = getText(row, "ticker")
        const closes = closesOf(symbol)
        assert.strictEqual(getText(row, "price"), getText(closes.at(-1), "close"), symbol)
        const shared = [
          "float",
          "outstanding",
          "tradable_float",
          "market_cap",
          "insider_percent",
          "affiliate_percent",
          "institutions_percent",
          "ownership_source_url",
          "is_adr",
          "company",
          "exchange",
        ]
        shared.forEach((column) =>
          assert.deepStrictEqual(row[column], floats.get(symbol)?.[column], `${symbol} ${column}`)
        )
        if (closes.length === 0 || row["outstanding"] === null) assert.isNull(row["market_cap"])
        else {
          const sharesPerReceipt = getScaledInteger(floats.get(symbol), "ads_ratio") || 10_000n
          const value = getScaledInteger(row, "price") * getScaledInteger(row, "outstanding", 0) * 100n
          assert.strictEqual(getScaledInteger(row, "market_cap", 2), divideRounded(value, sharesPerReceipt))
        }
        const gaps = mine("gap_stats", symbol)
        assert.strictEqual(getText(row, "num_gaps"), String(gaps.length))
        const shown = mine("intraday_runners", symbol).filter((runner) =>
          runner["anomaly_flagged"] === "true" && Number(getText(runner, "daily_volume_ratio")) > 9
        )
        assert.strictEqual(getText(row, "num_runners"), String(shown.length))
        // The gains, the high and the low are adjusted for splits, but the closes that they are compared with are not.
        // Companies with splits are therefore skipped.
        if (split.has(symbol) || closes.length === 0) continue
        const year = closes.filter((price) => getText(price, "date") > subtractDays(today, 365)).map((price) =>
          getScaledInteger(price, "close")
        )
        assert.strictEqual(getScaledInteger(row, "high_365"), year.reduce((most, close) => close > most ? close : most))
        assert.strictEqual(
          getScaledInteger(row, "low_365"),
          year.reduce((least, close) => close < least ? close : least),
        )
        for (const days of [1, 2, 3, 7, 14, 30, 60, 90, 180, 365]) {
          const then = closes.findLast((price) => getText(price, "date") <= subtractDays(today, days))
          if (then === undefined) assert.isNull(row[`gain_${days}_day`])
          else {
            assert.strictEqual(
              getScaledInteger(row, `gain_${days}_day`),
              computePercentChange(getScaledInteger(row, "price"), getScaledInteger(then, "close")),
            )
          }
        }
      }
    }))

  it.effect("copies the newest row of historical_float_pro to float_outstanding and subtracts restricted shares (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const { company } = yield* prices
      const history = groupRows(rows("historical_float_pro"), (row) => company(getText(row, "ticker")))
      for (const row of rows("float_outstanding")) {
        const [newest] = (history.get(getText(row, "ticker")) ?? []).toSorted((one, other) =>
          getText(other, "reported_date").localeCompare(getText(one, "reported_date")) ||
          getText(other, "filed_at").localeCompare(getText(one, "filed_at"))
        )
        const pairs = [["float", "float"], ["outstanding", "outstanding_shares"], ["reported_date", "reported_date"], [
          "filed_at",
          "filed_at",
        ], ["insider_percent", "insider_percent"]] as const
        if (newest === undefined) {
          assert.isNull(row["outstanding"])
          continue
        }
        pairs.forEach(([one, other]) => assert.deepStrictEqual(row[one], newest[other], `${row["ticker"]} ${one}`))
        if (row["tradable_float"] === null) {
          assert.isTrue(newest["float"] === null || newest["restricted_shares"] === null)
        } else {
          assert.strictEqual(
            getScaledInteger(row, "tradable_float", 0),
            getScaledInteger(newest, "float", 0) - getScaledInteger(newest, "restricted_shares", 0),
          )
        }
      }
      const known = rows("historical_float_pro").filter((row) => row["float"] !== null)
      known.forEach((row) =>
        assert.strictEqual(
          getScaledInteger(row, "float", 0),
          getScaledInteger(row, "outstanding_shares", 0) - getScaledInteger(row, "insider_shares", 0) -
            getScaledInteger(row, "affiliate_shares", 0),
        )
      )
      const fractions = ["insider_percent", "affiliate_percent", "institutions_percent"]
      fractions.slice(1).forEach((column) =>
        assert.isTrue(rows("float_outstanding").some((row) => row[column] === "0"))
      )
    }))

  it.effect("adjusts closes and share counts by the split ratio, and counts the split in pump_and_dump_tracker (§2.6)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const { company, closesOf, indexOn } = yield* prices
      const splits = rows("split_status").filter((row) => row["action_type"] === "split_effective")
      assert.isAbove(splits.length, 4)
      for (const row of splits) {
        const [symbol, date] = [getText(row, "ticker"), getText(row, "effective_date")]
        const ratio = Number(getText(row, "split_from")) / Number(getText(row, "split_to"))
        const index = indexOn(symbol, date)
        const [was, is] = [closesOf(symbol)[index - 1], closesOf(symbol)[index]].map((price) =>
          Number(getText(price, "close"))
        )
        assert.approximately((is ?? 0) / (was ?? 1) / ratio, 1, 0.2, symbol)
        const floats = rows("historical_float_pro").filter((float) =>
          company(getText(float, "ticker")) === company(symbol) && float["outstanding_shares"] !== null &&
          float["reported_date"] !== null
        )
        const shares = (float: Cells | undefined) => Number(getText(float, "outstanding_shares"))
        const earlier = floats.findLast((float) => getText(float, "reported_date") < date)
        const later = floats.find((float) => getText(float, "reported_date") >= date)
        assert.approximately(shares(earlier) / shares(later) / ratio, 1, 0.35, symbol)
        const tracked = rows("pump_and_dump_tracker").find((suspect) => suspect["ticker"] === company(symbol))
        assert.deepStrictEqual([tracked?.["num_splits"], tracked?.["last_split_date"]], ["1", date])
      }
    }))

  it.effect("reports a bid-price deficiency after thirty closes below a dollar, and compliance after ten at or above (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const { closesOf, indexOn } = yield* prices
      const notices = rows("nasdaq_compliance").filter((row) => row["deficiency_type"] === "bid_price")
      assert.isAbove(notices.length, 8)
      for (const row of notices) {
        const [symbol, kind] = [getText(row, "ticker"), getText(row, "notice_type")]
        const index = indexOn(symbol, getText(row, "date"))
        const closes = (count: number) =>
          closesOf(symbol).slice(index - count, index).map((price) => Number(getText(price, "close")))
        if (kind === "deficiency") assert.isTrue(closes(30).every((close) => close < 1), symbol)
        if (kind === "compliance_regained") assert.isTrue(closes(10).every((close) => close >= 1), symbol)
      }
    }))

  it.effect("gives warrants, convertibles and owners the date and form of their filing in `news` (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const filings = new Map(rows("news").map((row) => [getText(row, "accession_number"), row]))
      const referring = rows("dilution_data").concat(rows("ownership")).filter((row) =>
        row["accession_number"] !== null
      )
      assert.isAbove(referring.length, 500)
      for (const row of referring) {
        const filing = filings.get(getText(row, "accession_number"))
        for (const column of ["ticker", "filed_at", "form_type"]) assert.strictEqual(row[column], filing?.[column])
      }
    }))

  it.effect("accumulates shelf sales filing by filing (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const { company } = yield* prices
      const shelves = rows("registrations").filter((row) => row["type"] === "shelf")
      assert.isTrue(shelves.some((row) => row["over_baby_shelf"] === "true"))
      assert.isTrue(shelves.some((row) => row["over_baby_shelf"] === "false"))
      for (const shelf of shelves) {
        const sales = rows("registrations").filter((row) =>
          row["file_no"] === shelf["file_no"] && row["type"] === "offering" &&
          company(getText(row, "ticker")) === company(getText(shelf, "ticker"))
        )
        let sum = 0n
        for (const sale of sales) {
          sum += getScaledInteger(sale, "total_raised", 2)
          assert.strictEqual(getScaledInteger(sale, "amount_sold_to_date", 2), sum)
        }
        assert.strictEqual(getScaledInteger(shelf, "amount_sold_to_date", 2), sum)
        assert.isTrue(getScaledInteger(shelf, "offering_amount", 2) >= sum)
      }
    }))

  it.effect("uses the new symbol in all rows from the day of a rename (samples/README.md)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const changes = rows("ticker_changes").filter((row) =>
        row["status"] === "confirmed" && getText(row, "effective_date") <= today
      )
      assert.isAbove(changes.length, 8)
      const dated = [
        ["daily_prices", "date"],
        ["gap_stats", "date"],
        ["news", "filed_at"],
        ["ownership", "filed_at"],
        ["historical_float_pro", "filed_at"],
        ["registrations", "filed_at"],
        ["dilution_data", "filed_at"],
      ] as const
      for (const change of changes) {
        const day = getText(change, "effective_date")
        for (const [table, column] of dated) {
          const [old, next] = ["old_ticker", "new_ticker"].map((side) =>
            rows(table).filter((row) => row["ticker"] === change[side]).map((row) => getText(row, column))
          )
          assert.isTrue((old ?? []).every((date) => date < day), `${table} ${change["old_ticker"]}`)
          assert.isTrue((next ?? []).every((date) => date >= day), `${table} ${change["new_ticker"]}`)
        }
      }
    }))

  it.effect("includes tickers with placeholder owners only, and tickers whose newest filing has only placeholders (§2.7)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const fields = [
        "owner_name",
        "owner_cik",
        "owner_type",
        "title",
        "common_shares_amount",
        "preferred_shares_amount",
        "options_amount",
        "warrants_amount",
        "shares_underlying_convertibles",
        "percent_of_class",
        "sole_voting_shares",
        "shared_voting_shares",
        "event_date",
      ]
      const isPlaceholder = (row: Cells) => fields.every((field) => row[field] === null)
      const tickers = [...groupRows(rows("ownership"), (row) => getText(row, "ticker")).values()]
      assert.isTrue(tickers.some((all) => all.every(isPlaceholder)))
      const newest = (all: ReadonlyArray<Cells>) =>
        all.filter((row) => row["filed_at"] === all.map((one) => getText(one, "filed_at")).toSorted().at(-1))
      assert.isTrue(tickers.some((all) => newest(all).every(isPlaceholder) && !all.every(isPlaceholder)))
      for (const row of rows("ownership").filter((one) => one["sole_voting_shares"] !== null)) {
        assert.strictEqual(
          getScaledInteger(row, "sole_voting_shares", 0) + getScaledInteger(row, "shared_voting_shares", 0),
          getScaledInteger(row, "common_shares_amount", 0),
        )
      }
    }))

  it.effect("includes text with special characters, and prices that floating point cannot represent exactly (D16)", () =>
    Effect.gen(function* () {
      const { rows } = yield* Market
      const banks = rows("dilution_data").map((row) => getText(row, "bank")).join("\n")
      for (const mark of ["%", "_", "'", '"', "&"]) assert.include(banks, mark)
      const closes = rows("daily_prices").map((row) => getText(row, "close"))
      // Prices have at most four decimals. A product that is not an integer shows that a float cannot represent the
      // price exactly.
      assert.isTrue(closes.some((close) => !Number.isInteger(Number(close) * 10_000)))
      const suspects = rows("pump_and_dump_tracker").map((row) => getText(row, "lock_up_expiration"))
      assert.isTrue(suspects.some((date) => date > today) && suspects.some((date) => date !== "" && date < today))
      assert.isTrue(rows("screener").some((row) => row["price"] === null && row["market_cap"] === null))
    }))
})
