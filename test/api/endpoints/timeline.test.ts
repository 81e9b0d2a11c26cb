import { assert, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { CurrentAccount } from "../../../src/contract/Authentication.ts"
import { RequiredTier } from "../../../src/contract/rules/EndpointAnnotations.ts"
import { fullRowEndpointsByEventType, timelineEventTypes } from "../../../src/contract/endpoints/timeline.ts"
import { splitEventTypesByAccess } from "../../../src/api/endpoints/timeline.ts"
import { GapStatsApiGroup } from "../../../src/contract/endpoints/gap-stats.ts"
import * as ListClients from "../../support/ListClients.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const { insertRows, requestJson, valueAt } = Service

const { requestColumn, requestRows, request, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  "/v1/timeline",
)

// ---------------------------------------------------------------------------------------------------------------------
// Expected events
// ---------------------------------------------------------------------------------------------------------------------

interface ExpectedEvent {
  readonly at: string
  readonly type: string
  readonly title: string
  readonly endpoint: string
  /** The row from the event's endpoint, as JSON. */
  readonly row: string
}

const textAt = (row: unknown, name: string) => {
  const value = valueAt(row, name)
  return value === null || value === undefined ? undefined : String(value)
}

const round = (row: unknown, name: string, digits: number) => Number(Number(valueAt(row, name)).toFixed(digits))

const capitalize = (words: string) => `${words.slice(0, 1).toUpperCase()}${words.slice(1).replaceAll("_", " ")}`

const addFormName = (row: unknown, title: string | undefined) => {
  const form = textAt(row, "form_type") ?? ""
  return title === undefined ? form : title.startsWith(form) ? title : `${form}: ${title}`
}

const formatSplit = (row: unknown) => {
  const [to, from, min, max] = ["split_to", "split_from", "split_ratio_min", "split_ratio_max"]
    .map((name) => textAt(row, name))
  const ratio = to !== undefined && from !== undefined
    ? `, ${to}-for-${from}`
    : min !== undefined && max !== undefined
    ? `, 1-for-${min} to 1-for-${max}`
    : ""
  return `${capitalize(textAt(row, "action_type") ?? "")}${ratio}`
}

const formatOwners = (row: unknown) => {
  const count = valueAt(row, "owner_count")
  return `${textAt(row, "form_type")}: ${count} owner${count === 1 ? "" : "s"}`
}

/**
 * The lists whose rows are events. Each has the column with the event's time, and functions that return the event's
 * type and title.
 */
const lists: ReadonlyArray<{
  readonly path: string
  readonly at: string
  readonly typeOf: (row: unknown) => string
  readonly titleOf: (row: unknown) => string
}> = [
  {
    path: "/v1/news",
    at: "created_at",
    typeOf: (row) => valueAt(row, "form_type") === "news" ? "news" : "filing",
    titleOf: (row) =>
      valueAt(row, "form_type") === "news" ? textAt(row, "title") ?? "News" : addFormName(row, textAt(row, "title")),
  },
  {
    path: "/v1/registrations",
    at: "filed_at",
    typeOf: () => "registration",
    titleOf: (row) => addFormName(row, textAt(row, "headline")),
  },
  {
    path: "/v1/dilution-data",
    at: "filed_at",
    typeOf: () => "dilution",
    titleOf: (row) => textAt(row, "details") ?? "",
  },
  { path: "/v1/split-status", at: "filed_at", typeOf: () => "split", titleOf: formatSplit },
  {
    path: "/v1/nasdaq-compliance",
    at: "date",
    typeOf: () => "compliance_notice",
    titleOf: (row) => `${capitalize(textAt(row, "notice_type") ?? "")}: ${textAt(row, "deficiency")}`,
  },
  {
    path: "/v1/gap-stats",
    at: "date",
    typeOf: () => "gap",
    titleOf: (row) =>
      `Gap of ${round(row, "gap_percentage", 2)} %: opened at $${textAt(row, "market_open")}, ` +
      `closed at $${textAt(row, "market_close")}`,
  },
  {
    path: "/v1/intraday-runners",
    at: "date",
    typeOf: () => "runner",
    titleOf: (row) =>
      `Change to the high of ${round(row, "percentage_gain", 2)} %, ` +
      `volume ${round(row, "daily_volume_ratio", 1) > 9 ? round(row, "daily_volume_ratio", 1) : "more than 9"} ` +
      "times the usual",
  },
]

const readList = (path: string, ticker: string) =>
  ListClients.makeListClient(path).readAllPages(`ticker=${encodeURIComponent(ticker)}`, 100)

/** Reads all rows of a list. Handles an empty list separately, because `walk` refuses empty pages. */
const readAll = Effect.fnUntraced(function* (path: string, ticker: string) {
  const { body } = yield* requestJson(`${path}?ticker=${encodeURIComponent(ticker)}&limit=1`)
  return valueAt(body, "count") === 0 ? [] : yield* readList(path, ticker)
})

/** Returns an event for each float report that differs from the previous report. */
const readFloatChanges = Effect.fnUntraced(function* (ticker: string) {
  const reports = (yield* readAll("/v1/historical-float-pro", ticker)).filter((row) =>
    valueAt(row, "reported_date") !== null && valueAt(row, "float") !== null
  )
  return reports.flatMap((row, index): ReadonlyArray<ExpectedEvent> => {
    const [float, previous] = [valueAt(row, "float"), valueAt(reports[index + 1], "float")]
    if (previous === undefined || previous === float) return []
    return [{
      at: textAt(row, "reported_date") ?? "",
      type: "float_change",
      title: `Float changed from ${String(previous)} to ${String(float)}`,
      endpoint: "/v1/historical-float-pro",
      row: JSON.stringify(row),
    }]
  })
})

const readOwnershipFilings = Effect.fnUntraced(function* (ticker: string) {
  const sql = yield* SqlClient.SqlClient
  const filings = yield* sql<{ readonly accession_number: string }>`
    select distinct accession_number from ownership where ticker = ${ticker}
  `
  const found = yield* Effect.forEach(filings, ({ accession_number }) =>
    Effect.map(
      requestJson(`/v1/ownership?ticker=${ticker}&accession_number=${encodeURIComponent(accession_number)}`),
      ({ body }) => ListClients.getResultRows(body),
    ))
  return found.flat().map((row): ExpectedEvent => ({
    at: textAt(row, "filed_at") ?? "",
    type: "ownership_filing",
    title: formatOwners(row),
    endpoint: "/v1/ownership",
    row: JSON.stringify(row),
  }))
})

const toArray = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

/**
 * Formats a ticker change as JSON, with only the fields that occur in a chain. In a 409 response, a change has more
 * fields.
 */
const formatChange = (change: unknown) =>
  JSON.stringify(["old_ticker", "new_ticker", "effective_date"].map((name) => valueAt(change, name)))

/**
 * Returns the ticker changes of a symbol as events. Reads them from the symbol's chain or, if the symbol is ambiguous,
 * from the 409 response.
 */
const readTickerChanges = Effect.fnUntraced(function* (ticker: string) {
  const { body } = yield* requestJson(`/v1/ticker-changes?ticker=${ticker}`)
  const changes = [
    ...toArray(valueAt(body, "results", 0, "history")),
    ...toArray(valueAt(body, "error", "details", "events")),
  ]
  const own = changes.filter((change) =>
    valueAt(change, "old_ticker") === ticker || valueAt(change, "new_ticker") === ticker
  )
  return own.map((change): ExpectedEvent => ({
    at: textAt(change, "effective_date") ?? "",
    type: "ticker_change",
    title: `${textAt(change, "old_ticker")} became ${textAt(change, "new_ticker")}`,
    endpoint: "/v1/ticker-changes",
    row: formatChange(change),
  }))
})

/** Computes all events of a symbol from the underlying lists. */
const readExpectedEvents = Effect.fnUntraced(function* (ticker: string) {
  const ofLists = yield* Effect.forEach(
    lists,
    ({ at, path, titleOf, typeOf }) =>
      Effect.map(readAll(path, ticker), (rows) =>
        rows.map((row): ExpectedEvent => ({
          at: textAt(row, at) ?? "",
          type: typeOf(row),
          title: titleOf(row),
          endpoint: path,
          row: JSON.stringify(row),
        }))),
  )
  return [
    ...ofLists.flat(),
    ...(yield* readFloatChanges(ticker)),
    ...(yield* readOwnershipFilings(ticker)),
    ...(yield* readTickerChanges(ticker)),
  ]
})

/** Returns the rows found by an event's `endpoint` and `key`. */
const readSourceRow = Effect.fnUntraced(function* (event: unknown) {
  const path = `${textAt(event, "endpoint")}?${textAt(event, "key")}`
  const { body, status } = yield* requestJson(path)
  assert.include([200, 409], status, path)
  const rows = status === 409
    ? toArray(valueAt(body, "error", "details", "events"))
    : valueAt(event, "type") === "ticker_change"
    ? toArray(valueAt(body, "results", 0, "history"))
    : ListClients.getResultRows(body)
  return rows
})

/** Formats an event without its ticker, key and tier. */
const describe = (event: unknown) =>
  ["at", "type", "title", "endpoint"].map((name) => textAt(event, name) ?? "").join(" | ")

// ---------------------------------------------------------------------------------------------------------------------
// The timelines of the companies in the sample market
// ---------------------------------------------------------------------------------------------------------------------

/**
 * One company with every kind of event, companies with some kinds, symbols with ambiguous chains, and an unknown
 * symbol.
 */
const tickers = ["GAP7", "NVQ7", "QRK8", "SNK1", "BYON", "META", "GOOG", "BMR1", "NONE0"] as const

layer(Service.sampleServiceLayer, { excludeTestServices: true, timeout: "180 seconds" })("GET /v1/timeline", (it) => {
  const expectedByTicker = new Map<string, ReadonlyArray<ExpectedEvent>>()
  const readExpected = Effect.fnUntraced(function* (ticker: string) {
    const known = expectedByTicker.get(ticker)
    if (known !== undefined) return known
    const read = yield* readExpectedEvents(ticker)
    expectedByTicker.set(ticker, read)
    return read
  })

  it.effect.prop(
    "has exactly the rows of the other lists, newest first, for any types, dates and pages (D8)",
    [Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 }))],
    ([seed]) =>
      Effect.gen(function* () {
        const choose = makeRandomChooser(seed)
        const ticker = choose(tickers)
        const types = choose([[], timelineEventTypes.filter(() => choose([true, false]))])
        const date_from = choose([undefined, undefined, "2023-11-06", "2025-01-31", "2025-08-01"])
        const date_to = choose([undefined, undefined, "2025-08-29", "2026-03-13", "2026-06-25"])
        const expected = (yield* readExpected(ticker)).filter(({ at, type }) =>
          (types.length === 0 || types.some((chosen) => chosen === type)) &&
          (date_from === undefined || at.slice(0, 10) >= date_from) &&
          (date_to === undefined || at.slice(0, 10) <= date_to)
        )
        const query = [
          `ticker=${ticker}`,
          ...(types.length === 0 ? [] : [`types=${types.join(",")}`]),
          ...(date_from === undefined ? [] : [`date_from=${date_from}`]),
          ...(date_to === undefined ? [] : [`date_to=${date_to}`]),
        ].join("&")
        const events = expected.length === 0
          ? yield* requestRows(query)
          : yield* readAllPages(query, choose([1, 3, 7, 10, 100]))
        assert.sameMembers(events.map(describe), expected.map(describe), query)
        const times = events.map((event) => textAt(event, "at") ?? "")
        assert.deepStrictEqual(times, times.toSorted().toReversed(), query)
        assert.isTrue(events.every((event) => valueAt(event, "ticker") === ticker), query)
      }),
    { arbitrary: { runs: getInputCount(80) } },
  )

  it.effect("gives the request that returns the full row of each event, of any type (§2)", () =>
    Effect.gen(function* () {
      const seen = new Set<string>()
      for (const ticker of ["GAP7", "SNK1", "META", "BYON"]) {
        const expected = yield* readExpected(ticker)
        for (const event of yield* readAllPages(`ticker=${ticker}`, 100)) {
          const isChange = valueAt(event, "type") === "ticker_change"
          const rows = new Set(
            (yield* readSourceRow(event)).map(isChange ? formatChange : (row) => JSON.stringify(row)),
          )
          const own = expected.filter((one) => describe(one) === describe(event))
          assert.isTrue(own.some(({ row }) => rows.has(row)), `${ticker}: ${JSON.stringify(event)}`)
          seen.add(textAt(event, "type") ?? "")
        }
      }
      assert.sameMembers(Array.from(seen), [...timelineEventTypes])
    }))

  it.effect("prints the same events in each format, as pages and as an export (D8)", () =>
    Effect.gen(function* () {
      const events = yield* readAllPages("ticker=GAP7", 100)
      const lines = yield* request("ticker=GAP7&format=ndjson&limit=all")
      assert.deepStrictEqual(lines.text.trimEnd().split("\n").map((line) => JSON.parse(line)), events)
      const page = yield* request("ticker=GAP7&format=ndjson&limit=100")
      assert.strictEqual(page.text, lines.text)
      const csv = yield* request("ticker=GAP7&format=csv&limit=all")
      const records = csv.text.trimEnd().split("\r\n")
      assert.strictEqual(records[0], "at,ticker,type,title,endpoint,key,tier")
      assert.lengthOf(records, events.length + 1)
      assert.strictEqual(csv.headers["content-disposition"], `attachment; filename="timeline.csv"`)
      const inJson = yield* requestJson("/v1/timeline?ticker=GAP7&limit=all")
      assert.strictEqual(inJson.status, 422)
    }))

  it.effect("supports HEAD and 304, and its estimate equals its cost (D10, D17, D28)", () =>
    Effect.gen(function* () {
      const path = "/v1/timeline?ticker=GAP7&limit=20"
      const { headers: { etag = "", "x-cost-microdollars": cost }, text } = yield* requestJson(path)
      const head = yield* requestJson(path, { method: "HEAD" })
      assert.deepStrictEqual([head.status, head.text, head.headers["etag"]], [200, "", etag])
      const again = yield* requestJson(path, { headers: { "If-None-Match": etag } })
      assert.deepStrictEqual([again.status, again.text], [304, ""])
      const { body } = yield* requestJson(`/estimate?endpoint=${path.replace("?", "&")}`)
      const total = (yield* readAllPages("ticker=GAP7", 100)).length
      assert.strictEqual(valueAt(body, "results", 0, "estimated_bytes"), Buffer.byteLength(text))
      assert.strictEqual(String(valueAt(body, "results", 0, "estimated_cost_microdollars")), cost)
      assert.strictEqual(valueAt(body, "results", 0, "records_returned"), 20)
      assert.strictEqual(valueAt(body, "results", 0, "records_total"), total)
      assert.strictEqual(valueAt(body, "results", 0, "ticker_count"), 1)
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Single-rule tests, each with its own rows
// ---------------------------------------------------------------------------------------------------------------------

const newsItem = <Fields extends object>(id: string, fields: Fields) => ({
  id,
  form_type: "news",
  filed_at: "2025-05-01",
  created_at: "2025-05-01 09:30:00",
  last_updated: "2025-05-01 09:30:00",
  ...fields,
})

const report = (ticker: string, reported_date: string | null, float: number | null, filed_at = "2025-12-31") => ({
  ticker,
  filed_at,
  reported_date,
  float,
  is_adr: false,
  last_updated: "2025-05-01 09:30:00",
})

const gap = (ticker: string, date: string) => ({
  ticker,
  date,
  previous_day_close: 1,
  market_open: "1.5000",
  gap_percentage: "50.1250",
  high_price: 2,
  low_price: 1,
  market_close: "1.2300",
  volume: 1,
  dollar_volume: 1,
  premarket_volume: 1,
  premarket_dollar_volume: 1,
  open_to_high_pct: 1,
  open_to_low_pct: 1,
  percentage_gain: 1,
  rth_volume: 1,
  rth_dollar_volume: 1,
  close_under_50pct_of_range: false,
  gap_filled: false,
  last_updated: "2025-05-01 09:30:00Z",
})

const holder = (ticker: string, accession_number: string, fields: Readonly<Record<string, unknown>>) => ({
  ticker,
  accession_number,
  filed_at: "2025-05-01",
  form_type: "DEF 14A",
  last_updated: "2025-05-01 09:30:00",
  ...fields,
})

const unrestricted: typeof CurrentAccount.Service = {
  account_id: 1,
  tier: "basic",
  spendable_microdollars: null,
  is_limited_by_budget: false,
  key_id: 1,
  endpoints: null,
  networks: null,
}

layer(Service.layer, { excludeTestServices: true })("GET /v1/timeline", (it) => {
  it.effect("formats times as in their source; an event with only a date follows those with a time that day (§2.1, D15)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "news",
        newsItem("a", { ticker: "^VIX", title: "First", created_at: "2025-07-01 00:00:00" }),
        newsItem("b", { ticker: "^VIX", title: null, form_type: "S-1/A", created_at: "2025-07-01 09:30:00.250" }),
        newsItem("c", { ticker: "^VIX", title: "x".repeat(300), created_at: "2025-07-01 09:30:00" }),
      )
      yield* insertRows("gap_stats", gap("^VIX", "2025-07-01"))
      const tail = `"endpoint":"/v1/news","key":"ticker=%5e%56%49%58&date=2025-05-01&hide_`
      assert.strictEqual(
        yield* requestText("ticker=^vix"),
        `{"count":4,"results":[` +
          `{"at":"2025-07-01T09:30:00.250-05:00","ticker":"^VIX","type":"filing","title":"S-1/A",` +
          `${tail}news=true&limit=100","tier":"basic"},` +
          `{"at":"2025-07-01T09:30:00-05:00","ticker":"^VIX","type":"news","title":"${"x".repeat(199)}…",` +
          `${tail}filings=true&limit=100","tier":"basic"},` +
          `{"at":"2025-07-01T00:00:00-05:00","ticker":"^VIX","type":"news","title":"First",` +
          `${tail}filings=true&limit=100","tier":"basic"},` +
          `{"at":"2025-07-01","ticker":"^VIX","type":"gap",` +
          `"title":"Gap of 50.13 %: opened at $1.5, closed at $1.23","endpoint":"/v1/gap-stats",` +
          `"key":"ticker=%5e%56%49%58&date=2025-07-01","tier":"basic"}` +
          `],"page":1,"limit":10,"has_more":false}`,
      )
      for (const event of yield* requestRows("ticker=^VIX")) assert.isNotEmpty(yield* readSourceRow(event))
    }))

  it.effect("compares each float with the previous known float, even if it is outside the dates (§2.5)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "historical_float_pro",
        report("TFLT", "2025-01-31", 100),
        report("TFLT", "2025-02-28", 100),
        report("TFLT", "2025-03-31", null),
        report("TFLT", null, 900),
        report("TFLT", "2025-04-30", 250, "2025-05-01"),
        report("TFLT", "2025-04-30", 300, "2025-05-02"),
        report("TFLT", "2025-05-31", 0),
      )
      const changes = (query: string) => requestColumn("title", `ticker=TFLT&types=float_change${query}`)
      const [toZero, to300, to250] = ["from 300 to 0", "from 250 to 300", "from 100 to 250"].map((words) =>
        `Float changed ${words}`
      )
      assert.deepStrictEqual(yield* changes(""), [toZero, to300, to250])
      assert.deepStrictEqual(yield* changes("&date_from=2025-04-30&date_to=2025-04-30"), [to300, to250])
      assert.deepStrictEqual(yield* changes("&limit=1&page=3"), [to250])
    }))

  it.effect("counts the owners that each ownership filing lists, and the event's key finds the filing (§2.7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ownership",
        holder("TOWN", "a b&c", { owner_name: "One" }),
        holder("TOWN", "a b&c", { owner_name: "Two" }),
        holder("TOWN", "a b&c", {}),
        holder("TOWN", "0001-25-2", { owner_name: "Three", filed_at: "2025-06-01", form_type: "SC 13G" }),
        holder("TOWN", "placeholder", { filed_at: "2025-07-01" }),
      )
      const events = yield* requestRows("ticker=TOWN")
      assert.deepStrictEqual(events.map((event) => [valueAt(event, "at"), valueAt(event, "title")]), [
        ["2025-06-01", "SC 13G: 1 owner"],
        ["2025-05-01", "DEF 14A: 2 owners"],
      ])
      const filings = yield* Effect.forEach(events, readSourceRow)
      assert.deepStrictEqual(
        filings.map((rows) => rows.map((row) => [valueAt(row, "accession_number"), valueAt(row, "owner_count")])),
        [[["0001-25-2", 1]], [["a b&c", 2]]],
      )
    }))

  it.effect("shows eligible ticker changes, under either symbol (D19, D35)", () =>
    Effect.gen(function* () {
      const change = (old_ticker: string, new_ticker: string, effective_date: string, more = {}) => ({
        old_ticker,
        new_ticker,
        effective_date,
        status: "confirmed",
        ...more,
      })
      yield* insertRows(
        "ticker_changes",
        change("TCA", "TCB", "2020-01-02", { cik: "0000000007" }),
        change("TCB", "TCLONGNAME", "2021-01-04"),
        change("TCB", "TCX", "2099-01-02"),
        change("TCB", "TCY", "2022-01-03", { status: "estimated" }),
      )
      const shown = (ticker: string) =>
        Effect.map(requestRows(`ticker=${ticker}`), (events) =>
          events.map((event) =>
            ["at", "ticker", "title", "key"].map((name) => textAt(event, name)).join(" ")
          ))
      assert.deepStrictEqual(yield* shown("TCB"), [
        "2021-01-04 TCB TCB became TCLONGNAME ticker=TCB",
        "2020-01-02 TCB TCA became TCB ticker=TCB&cik=0000000007",
      ])
      assert.deepStrictEqual(yield* shown("TCLONGNAME"), ["2021-01-04 TCLONGNAME TCB became TCLONGNAME ticker=TCB"])
      assert.deepStrictEqual(yield* shown("TCX"), [])
    }))

  it.effect("has a total order, in which pages neither repeat nor skip a row (D8)", () =>
    Effect.gen(function* () {
      const items = Array.from({ length: 30 }, (_, index) =>
        newsItem(`order ${String(index).padStart(2, "0")}`, {
          ticker: "TORD",
          title: String(index),
          form_type: index % 3 === 0 ? "8-K" : "news",
        }))
      yield* insertRows("news", ...items.toReversed())
      yield* insertRows("gap_stats", gap("TORD", "2025-05-01"), gap("TORD", "2025-05-02"))
      const titles = items.map(({ form_type, title }) => form_type === "news" ? title : `${form_type}: ${title}`)
      for (const limit of [1, 4, 31, 100]) {
        const events = yield* readAllPages("ticker=TORD", limit)
        assert.lengthOf(events, 32)
        assert.deepStrictEqual(events.slice(1, 31).map((event) => valueAt(event, "title")), titles)
        assert.deepStrictEqual([valueAt(events[0], "at"), valueAt(events[31], "at")], ["2025-05-02", "2025-05-01"])
      }
      const filings = titles.filter((title) => title.startsWith("8-K"))
      const filed = yield* readAllPages("ticker=TORD&types=filing", 3)
      assert.deepStrictEqual(filed.map((event) => valueAt(event, "title")), filings)
    }))

  it.effect("follows a company through its symbols, each in its own period (D20, D35)", () =>
    Effect.gen(function* () {
      const change = (old_ticker: string, new_ticker: string, effective_date: string) => ({
        old_ticker,
        new_ticker,
        effective_date,
        status: "confirmed",
      })
      yield* insertRows("ticker_changes", change("TLA", "TLB", "2024-01-10"), change("TLB", "TLA", "2025-01-10"))
      yield* insertRows(
        "gap_stats",
        ...["TLA", "TLB"].flatMap((ticker) =>
          ["2024-01-09", "2024-01-10", "2025-01-09", "2025-01-10"].map((date) => gap(ticker, date))
        ),
      )
      yield* insertRows(
        "news",
        // `filed_at` determines the period of a row. `late` was filed before the change but created after it.
        newsItem("late", {
          ticker: "TLA",
          title: "Late",
          filed_at: "2024-01-09",
          created_at: "2024-01-10 00:05:00",
        }),
        newsItem("early", { ticker: "TLB", title: "Early", filed_at: "2024-01-10", created_at: "2024-01-10 00:05:00" }),
      )
      yield* insertRows(
        "historical_float_pro",
        report("TLA", "2024-01-02", 100, "2024-01-02"),
        report("TLB", "2024-03-31", 200, "2024-04-01"),
        report("TLB", "2025-02-28", 300, "2025-03-01"),
        report("TLA", "2025-03-31", 400, "2025-04-01"),
      )
      for (const ticker of ["TLA", "TLB"]) {
        const { body, headers } = yield* request(`ticker=${ticker}&follow_lineage=true&limit=100`)
        assert.strictEqual(headers["x-lineage"], "TLA..2024-01-10, TLB..2025-01-10, TLA;outside=4")
        const events = ListClients.getResultRows(body)
        assert.deepStrictEqual(
          events.map((event) => ["at", "ticker", "title"].map((name) => textAt(event, name)).join(" ")),
          [
            "2025-03-31 TLA Float changed from 200 to 400",
            "2025-01-10 TLA Gap of 50.13 %: opened at $1.5, closed at $1.23",
            "2025-01-10 TLA TLB became TLA",
            "2025-01-09 TLB Gap of 50.13 %: opened at $1.5, closed at $1.23",
            "2024-03-31 TLB Float changed from 100 to 200",
            "2024-01-10T00:05:00-05:00 TLB Early",
            "2024-01-10T00:05:00-05:00 TLA Late",
            "2024-01-10 TLB Gap of 50.13 %: opened at $1.5, closed at $1.23",
            "2024-01-10 TLB TLA became TLB",
            "2024-01-09 TLA Gap of 50.13 %: opened at $1.5, closed at $1.23",
          ],
        )
        assert.isTrue(events.every((event) => valueAt(event, "lineage_ticker") === "TLA"))
        assert.deepStrictEqual(yield* readAllPages(`ticker=${ticker}&follow_lineage=true`, 3), events)
        for (const event of events) assert.isNotEmpty(yield* readSourceRow(event))
      }
      const plain = yield* request("ticker=TLB&follow_lineage=false&limit=100")
      assert.isUndefined(plain.headers["x-lineage"])
      assert.lengthOf(ListClients.getResultRows(plain.body), 8)
      assert.notInclude(plain.text, "lineage_ticker")
      const csv = yield* request("ticker=TLB&follow_lineage=true&format=csv")
      assert.match(csv.text, /^at,ticker,type,title,endpoint,key,tier,lineage_ticker\r\n/)
    }))

  it.effect("counts the omitted events of the company's symbols, except ticker changes (D35)", () =>
    Effect.gen(function* () {
      const symbols = ["TOA", "TOB", "TOC"] as const
      const periods = [["TOA", "", "2024-02-01"], ["TOB", "2024-02-01", "2024-03-01"], [
        "TOC",
        "2024-03-01",
        "~",
      ]] as const
      const days = ["2024-01-15", "2024-02-01", "2024-02-29", "2024-03-01", "2024-04-15"]
      yield* insertRows(
        "ticker_changes",
        ...periods.slice(1).map(([new_ticker, effective_date], index) => ({
          old_ticker: symbols[index],
          new_ticker,
          effective_date,
          status: "confirmed",
        })),
      )
      for (const ticker of symbols) {
        yield* insertRows("gap_stats", ...days.map((date) => gap(ticker, date)))
        yield* insertRows(
          "ownership",
          ...days.flatMap((filed_at) =>
            ["One", "Two"].map((owner_name) => holder(ticker, `${ticker} ${filed_at}`, { filed_at, owner_name }))
          ),
        )
        yield* insertRows(
          "news",
          ...days.map((filed_at, index) =>
            newsItem(`${ticker} ${filed_at}`, {
              ticker,
              form_type: index % 2 === 0 ? "news" : "8-K",
              filed_at,
              created_at: `${filed_at} 10:00:00`,
            })
          ),
        )
      }
      for (const filter of ["", "&types=gap,news", "&types=filing&date_from=2024-02-29", "&date_to=2024-02-10"]) {
        const plain = yield* Effect.forEach(symbols, (ticker) => readAllPages(`ticker=${ticker}${filter}`, 100))
        const outside = plain.flat().filter((event) => {
          const [ticker, day] = [textAt(event, "ticker"), (textAt(event, "at") ?? "").slice(0, 10)]
          const isShown = periods.some(([symbol, from, until]) => symbol === ticker && from <= day && day < until)
          return valueAt(event, "type") !== "ticker_change" && !isShown
        })
        assert.isAbove(outside.length, 0)
        for (const page of ["", "&page=100", "&format=csv&limit=all"]) {
          const { headers } = yield* request(`ticker=TOA&follow_lineage=true${filter}${page}`)
          assert.strictEqual(
            headers["x-lineage"],
            `TOA..2024-02-01, TOB..2024-03-01, TOC;outside=${outside.length}`,
            filter,
          )
        }
      }
      const changes = yield* request("ticker=TOA&follow_lineage=true&types=ticker_change")
      assert.strictEqual(changes.headers["x-lineage"], "TOA..2024-02-01, TOB..2024-03-01, TOC")
      // A report between two periods of its symbol is compared only with other reports between the same two periods.
      yield* insertRows(
        "historical_float_pro",
        report("TOA", "2024-02-01", 1, "2024-02-05"),
        report("TOB", "2024-02-02", 2, "2024-03-05"),
        report("TOA", "2024-02-03", 3, "2024-03-10"),
      )
      const floats = yield* request("ticker=TOA&follow_lineage=true&types=float_change")
      assert.strictEqual(floats.headers["x-lineage"], "TOA..2024-02-01, TOB..2024-03-01, TOC;outside=1")
      yield* insertRows(
        "gap_stats",
        ...Array.from(
          { length: 120 },
          (_, day) => gap("TOA", new Date(Date.UTC(2025, 0, day)).toISOString().slice(0, 10)),
        ),
      )
      const many = yield* request("ticker=TOA&follow_lineage=true&types=gap")
      assert.strictEqual(many.headers["x-lineage"], "TOA..2024-02-01, TOB..2024-03-01, TOC;outside=100+")
    }))

  it.effect("refuses to follow an ambiguous symbol, unless a CIK selects a company (D21, D35)", () =>
    Effect.gen(function* () {
      const change = (old_ticker: string, new_ticker: string, cik: string) => ({
        old_ticker,
        new_ticker,
        effective_date: old_ticker === "TAM" ? "2020-01-02" : "2021-01-04",
        status: "confirmed",
        cik,
      })
      yield* insertRows("ticker_changes", change("TAM", "TAN", "0000000007"), change("TAO", "TAM", "0000000008"))
      const ambiguous = yield* request("ticker=TAM&follow_lineage=true")
      assert.strictEqual(ambiguous.status, 409)
      assert.deepStrictEqual(valueAt(ambiguous.body, "error", "code"), "ambiguous_ticker_lineage")
      assert.isUndefined(ambiguous.headers["x-lineage"])
      const selected = yield* request("ticker=TAM&follow_lineage=true&cik=8")
      assert.strictEqual(selected.headers["x-lineage"], "TAO..2021-01-04, TAM")
      assert.deepStrictEqual(
        ListClients.getResultRows(selected.body).map((event) => [
          valueAt(event, "title"),
          valueAt(event, "lineage_ticker"),
          valueAt(event, "key"),
        ]),
        [["TAO became TAM", "TAM", "ticker=TAM&cik=0000000008"]],
      )
      for (const event of yield* requestRows("ticker=TAM")) assert.isNotEmpty(yield* readSourceRow(event))
      assert.match((yield* requestInvalid("ticker=TAM&follow_lineage=true&cik=9")).reason, /0000000007.*0000000008/)
      const alone = yield* requestInvalid("ticker=TAM&cik=8")
      assert.deepStrictEqual([alone.field, alone.reason], ["cik", "needs follow_lineage=true"])
    }))

  it.effect("refuses an unknown type, a missing or invalid ticker, and dates in the wrong order (D4, D6, D7)", () =>
    Effect.gen(function* () {
      const unknown = yield* requestInvalid("ticker=GAP7&types=news,merger")
      assert.deepStrictEqual([unknown.field, unknown.reason], [
        "types",
        `must be one of: ${timelineEventTypes.join(", ")}`,
      ])
      assert.deepStrictEqual((yield* requestInvalid("types=news")).fields, [{ field: "ticker", reason: "is required" }])
      assert.strictEqual((yield* requestInvalid("ticker=A,B")).field, "ticker")
      const dates = yield* requestInvalid("ticker=GAP7&date_from=2025-02-01&date_to=2025-01-31")
      assert.deepStrictEqual([dates.field, dates.reason], ["date_from", "must not be greater than date_to"])
      assert.match((yield* requestInvalid("ticker=GAP7&date_to=2199-01-01")).reason, /must be in the past/)
      assert.strictEqual((yield* requestInvalid("ticker=GAP7&date=2025-01-31")).field, "date")
      assert.deepStrictEqual(yield* requestRows("ticker=GAP7&types= GAP,gap"), [])
    }))

  it.effect("omits the types whose endpoint requires a higher tier (D3)", () =>
    Effect.sync(() => {
      const endpoints = {
        ...fullRowEndpointsByEventType,
        gap: GapStatsApiGroup.endpoints.list.annotate(RequiredTier, "pro"),
      }
      const omitted = (account: Partial<typeof CurrentAccount.Service>, types?: ReadonlyArray<"gap" | "news">) =>
        splitEventTypesByAccess({ ...unrestricted, ...account }, types, endpoints)
      assert.deepStrictEqual(omitted({}), {
        types: timelineEventTypes.filter((type) => type !== "gap"),
        omitted: ["gap"],
      })
      assert.deepStrictEqual(omitted({}, ["news", "gap"]), { types: ["news"], omitted: ["gap"] })
      assert.deepStrictEqual(omitted({ tier: "ultimate" }), { types: [...timelineEventTypes], omitted: [] })
      assert.deepStrictEqual(omitted({ tier: "pro", endpoints: ["/v1/gap-stats", "/v1/timeline"] }, ["news", "gap"]), {
        types: ["gap"],
        omitted: ["news"],
      })
    }))

  it.effect("never titles a runner with 9 times the usual volume, because the ratio is above 9 (§2.4)", () =>
    Effect.gen(function* () {
      const ratios = [9.0001, 9.049, 9.05, 12.34]
      yield* insertRows(
        "intraday_runners",
        ...ratios.map((daily_volume_ratio, index) => ({
          ticker: "TRATIO",
          date: `2025-05-0${index + 1}`,
          daily_volume_ratio,
          gap_percentage: "25.5",
          market_open: "1.255",
          previous_day_close: "1",
          percentage_gain: "80",
          open_to_high_pct: "43.4263",
          high_price: "1.8",
          low_price: "1.1",
          market_close: "1.2",
          close_under_50pct_of_range: true,
          last_updated: "2025-07-01 20:05:00",
          anomaly_flagged: true,
        })),
      )
      const { body } = yield* requestJson("/v1/timeline?ticker=TRATIO&types=runner")
      const titles = ListClients.getResultRows(body).map((event) => textAt(event, "title")?.split("volume ")[1])
      const usual = (ratio: string) => `${ratio} times the usual`
      assert.deepStrictEqual(titles, [usual("12.3"), usual("9.1"), usual("more than 9"), usual("more than 9")])
    }))

  it.effect("omits the types whose endpoint the key may not use, and names them in a header (D3)", () =>
    Effect.gen(function* () {
      yield* insertRows("news", newsItem("narrow", { ticker: "TNARROW", title: "Seen" }))
      yield* insertRows("gap_stats", gap("TNARROW", "2025-05-01"))
      const narrow = yield* Service.ensureAccountWithKey("test narrow", "ultimate", {
        endpoints: ["/v1/timeline", "/v1/news"],
      })
      const read = (query: string, key: string | undefined = undefined) =>
        requestJson(`/v1/timeline?ticker=TNARROW${query}`, key === undefined ? {} : { key })
      const typesIn = (body: unknown) => ListClients.getResultRows(body).map((event) => valueAt(event, "type"))
      const full = yield* read("")
      assert.deepStrictEqual(typesIn(full.body), ["news", "gap"])
      assert.isUndefined(full.headers["x-omitted-types"])
      const some = yield* read("", narrow)
      assert.deepStrictEqual(typesIn(some.body), ["news"])
      assert.strictEqual(some.headers["x-omitted-types"], timelineEventTypes.slice(2).join(","))
      const none = yield* read("&types=gap", narrow)
      assert.deepStrictEqual([none.status, typesIn(none.body), none.headers["x-omitted-types"]], [200, [], "gap"])
      assert.isUndefined((yield* read("&types=news,filing", narrow)).headers["x-omitted-types"])
      const csv = yield* read("&types=gap&format=csv&limit=all", narrow)
      assert.strictEqual(csv.text, "at,ticker,type,title,endpoint,key,tier\r\n")
      const unchanged = yield* requestJson("/v1/timeline?ticker=TNARROW", {
        key: narrow,
        headers: { "If-None-Match": some.headers["etag"] ?? "" },
      })
      assert.deepStrictEqual([unchanged.status, unchanged.headers["x-omitted-types"]], [
        304,
        timelineEventTypes.slice(2).join(","),
      ])
      const { body } = yield* requestJson("/estimate?endpoint=/v1/timeline&ticker=TNARROW", {
        key: yield* Service.ensureAccountWithKey("test narrow", "ultimate", {
          endpoints: ["/v1/timeline", "/v1/news", "/estimate"],
        }),
      })
      assert.strictEqual(valueAt(body, "results", 0, "records_total"), 1)
    }))
})

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })("The caches of /v1/timeline", (it) => {
  it.effect("never give an account events that only another account may see (D3, D17)", () =>
    Effect.gen(function* () {
      yield* insertRows("news", newsItem("cached", { ticker: "TCACHE", title: "Seen" }))
      yield* insertRows("gap_stats", gap("TCACHE", "2025-05-01"))
      const { ultimate } = yield* Service.TestKeys
      const narrow = yield* Service.ensureAccountWithKey("test cached", "ultimate", {
        endpoints: ["/v1/timeline", "/v1/news"],
      })
      const port = yield* ServiceInstances.startServiceInstance()
      const count = (key: string) =>
        Effect.map(
          ServiceInstances.requestOverWire(port, "/v1/timeline?ticker=TCACHE&types=news,gap", key),
          ({ headers, text }) => [valueAt(JSON.parse(text), "count"), headers["x-omitted-types"]],
        )
      // The second request fills the query cache, and the third fills the response cache.
      for (const _ of [1, 2, 3, 4]) assert.deepStrictEqual(yield* count(ultimate), [2, undefined])
      for (const _ of [1, 2, 3, 4]) assert.deepStrictEqual(yield* count(narrow), [1, "gap"])
      assert.deepStrictEqual(yield* count(ultimate), [2, undefined])
    }).pipe(Effect.scoped))
})
