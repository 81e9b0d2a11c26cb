/** Tests `explain=true`, which reports why a list is empty (D40). */
import { assert, it, layer } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { makeEmptyReasonFinder } from "../../../src/query/lists/EmptyReasonFinder.ts"
import {
  describeEmptyReason,
  emptyReasonCodes,
  formatEmptyReason,
  parseEmptyReasonHeader,
} from "../../../src/contract/rules/EmptyListReasons.ts"
import { waitUntilOldDataExpires } from "../../support/Pauses.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { beginTransaction } from "../../support/HeldTransactions.ts"
import { makeSessionRow } from "../../support/SessionRows.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount, skipUnlessThorough } from "../../support/Thoroughness.ts"

const { insertRows, requestJson, valueAt } = Service

const explain = Effect.fnUntraced(function* (query: string, path = "/v1/premarket-stats") {
  const { body, headers, status, text } = yield* requestJson(`${path}?explain=true&${query}`)
  assert.strictEqual(status, 200, text)
  return { reason: headers["x-empty-reason"], message: valueAt(body, "message"), text, headers }
})

const reasonOf = (query: string, path?: string) => Effect.map(explain(query, path), ({ reason }) => reason)

layer(Service.layer, { excludeTestServices: true })("explain=true", (it) => {
  it.effect("states the first reason that applies, and the same one in every format (D40)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "premarket_stats",
        makeSessionRow("EXA", "2026-03-02"),
        makeSessionRow("EXA", "2026-03-03", 900),
      )
      yield* insertRows("afterhours_stats", makeSessionRow("EXB", "2026-03-02"))
      assert.strictEqual(yield* reasonOf("ticker=EXA&page=2"), "page_beyond_end")
      assert.strictEqual(yield* reasonOf("ticker=EXA&min_volume=901"), `filtered;without="min_volume"`)
      assert.strictEqual(
        yield* reasonOf("ticker=EXA&min_volume=500&date_to=2026-03-02"),
        `filtered;without="date_to"`,
      )
      assert.strictEqual(
        yield* reasonOf("ticker=EXA&min_volume=901&date_from=2026-03-04&page=3"),
        `filtered;without="date_from min_volume"`,
      )
      assert.strictEqual(yield* reasonOf("ticker=EXB"), "no_rows_for_symbol")
      assert.strictEqual(yield* reasonOf("ticker=EXB,EXC&min_volume=5"), "no_rows_for_symbol")
      assert.strictEqual(yield* reasonOf("ticker=EXC,EXD"), "unknown_symbol")
      assert.strictEqual(yield* reasonOf("", "/v1/intraday-runners"), "no_rows")
      assert.strictEqual(yield* reasonOf("ticker=EXA", "/v1/intraday-runners"), "no_rows_for_symbol")

      const json = yield* explain("ticker=EXA&min_volume=901")
      assert.strictEqual(json.message, "There are rows without the filter min_volume.")
      for (const format of ["csv", "ndjson", "csv&limit=all", "ndjson&limit=all", "parquet&limit=all"]) {
        assert.strictEqual(yield* reasonOf(`ticker=EXA&min_volume=901&format=${format}`), json.reason, format)
      }
      assert.strictEqual(
        yield* reasonOf("ticker=EXA&date_from=2026-03-04&date_to=2026-03-05&min_volume=901&max_volume=902"),
        `filtered;without="date_from date_to min_volume max_volume"`,
      )
      const head = yield* requestJson("/v1/premarket-stats?explain=true&ticker=EXC&format=csv&limit=all", {
        method: "HEAD",
      })
      assert.strictEqual(head.headers["x-empty-reason"], "unknown_symbol")
    }))

  it.effect("knows the filters of lists that have a statement of their own (D40)", () =>
    Effect.gen(function* () {
      yield* insertRows("news", {
        id: "exn",
        ticker: "EXN",
        form_type: "news",
        title: "News",
        filed_at: "2026-01-02",
        created_at: "2026-01-02",
        last_updated: "2026-01-02",
      })
      assert.strictEqual(yield* reasonOf("ticker=EXN&types=gap", "/v1/timeline"), `filtered;without="types"`)
      assert.strictEqual(
        yield* reasonOf("ticker=EXN&date_from=2026-01-03", "/v1/timeline"),
        `filtered;without="date_from"`,
      )
      yield* Effect.repeat(requestJson("/v1/usage"), {
        until: ({ body }) => Number(valueAt(body, "count")) > 0,
        schedule: Schedule.spaced("50 millis"),
      })
      assert.strictEqual(yield* reasonOf("status_code=418", "/v1/usage"), `filtered;without="status_code"`)
      assert.strictEqual(yield* reasonOf("endpoint=/v1/openapi.json", "/v1/usage/daily"), `filtered;without="endpoint"`)
    }))

  it.effect("changes nothing if there are rows, or without explain=true (D40)", () =>
    Effect.gen(function* () {
      yield* insertRows("premarket_stats", makeSessionRow("EXF", "2026-03-02"))
      const plain = yield* requestJson("/v1/premarket-stats?ticker=EXF")
      const explained = yield* explain("ticker=EXF")
      assert.strictEqual(explained.text, plain.text)
      assert.isUndefined(explained.reason)
      assert.strictEqual(explained.headers["x-cost-microdollars"], plain.headers["x-cost-microdollars"])
      // A file with `as_of` does not contain the dataset version, which could change between the two requests.
      const moment = encodeURIComponent(yield* Service.readDatabaseClock)
      const file = `ticker=EXF&limit=all&format=parquet&as_of=${moment}`
      const plainFile = yield* requestJson(`/v1/premarket-stats?${file}`)
      assert.strictEqual((yield* explain(file)).text, plainFile.text)
      for (const query of ["ticker=EXG", "ticker=EXG&explain=false"]) {
        const { headers, text } = yield* requestJson(`/v1/premarket-stats?${query}`)
        assert.isUndefined(headers["x-empty-reason"])
        assert.strictEqual(text, `{"count":0,"results":[],"page":1,"limit":10,"has_more":false}`)
      }
    }))

  it.effect("says that the only rows are from days on which the company did not use the symbol (D35, D40)", () =>
    Effect.gen(function* () {
      yield* insertRows("ticker_changes", {
        old_ticker: "EXH",
        new_ticker: "EXI",
        effective_date: "2026-02-01",
        status: "confirmed",
      })
      yield* insertRows("ticker_changes", {
        old_ticker: "EXO",
        new_ticker: "EXP",
        effective_date: "2026-02-01",
        status: "confirmed",
      })
      yield* insertRows(
        "premarket_stats",
        makeSessionRow("EXI", "2026-01-05"),
        makeSessionRow("EXI", "2026-03-05"),
        makeSessionRow("EXO", "2026-03-05"),
      )
      assert.strictEqual(yield* reasonOf("ticker=EXO&follow_lineage=true&min_volume=99"), "symbol_not_used")
      const query = "ticker=EXI&follow_lineage=true&date_to=2026-01-31"
      const { headers, reason } = yield* explain(query)
      assert.strictEqual(reason, "symbol_not_used")
      assert.strictEqual(headers["x-lineage"], "EXH..2026-02-01, EXI;outside=1")
      assert.strictEqual(yield* reasonOf(`${query}&format=csv&limit=all`), reason)
      assert.strictEqual(
        yield* reasonOf("ticker=EXI&follow_lineage=true&date_to=2026-01-01"),
        `filtered;without="date_to"`,
      )
    }))

  it.effect("no longer calls a symbol unknown once another list has it (D17, D40)", () =>
    Effect.gen(function* () {
      for (let request = 0; request < 3; request += 1) {
        assert.strictEqual(yield* reasonOf("ticker=EXJ"), "unknown_symbol")
      }
      const past = yield* explain(`ticker=EXJ&as_of=${encodeURIComponent(new Date().toISOString())}`)
      assert.strictEqual(past.reason, "no_rows_for_symbol")
      yield* insertRows("afterhours_stats", makeSessionRow("EXJ", "2026-03-02"))
      yield* waitUntilOldDataExpires
      assert.strictEqual(yield* reasonOf("ticker=EXJ"), "no_rows_for_symbol")
    }))

  it.effect("gives up after two seconds, so that expensive filters do not keep the database busy (D40)", () =>
    Effect.gen(function* () {
      const find = makeEmptyReasonFinder(yield* SqlClient.SqlClient)
      const search = find({
        query: { page: 1, limit: 10, tag: "slow" },
        filterNames: ["tag"],
        hasOmittedRows: () => Effect.succeed(false),
        hasRows: () => Effect.never,
        read: () => Effect.never,
      })
      const fibers = yield* Effect.forEach([1, 2, 3, 4], () => Effect.forkChild(search))
      yield* TestClock.adjust("2 seconds")
      const found = yield* Fiber.joinAll(fibers)
      assert.deepStrictEqual(found.map(({ code }) => code), Array(4).fill("undetermined"))
    }).pipe(Effect.provide(TestClock.layer())))

  it.effect("caches no response whose reason was not found in time (D17, D40)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      const request = "ticker=EXQ"
      const { commit } = yield* beginTransaction(sql`lock table afterhours_stats in access exclusive mode`)
      const busy = yield* Effect.forEach([1, 2], () => explain(request))
      yield* commit
      for (const { headers, message, reason } of busy) {
        assert.strictEqual(reason, "undetermined")
        assert.strictEqual(message, "The reason was not found in time. Send fewer filters.")
        assert.deepStrictEqual([headers["etag"], headers["cache-control"]], [undefined, "private, no-store"])
      }
      assert.strictEqual(yield* reasonOf(request), "unknown_symbol")
    }))

  it.effect("names the first filter without which there are rows, or all filters if no single one is enough (D40)", () =>
    Effect.gen(function* () {
      const rows = ["EXK", "EXL"].flatMap((ticker) => [1, 2, 3].map((day) => ({ ticker, day })))
      yield* insertRows(
        "afterhours_stats",
        ...rows.map(({ day, ticker }) => makeSessionRow(ticker, `2026-04-0${day}`, day * 10)),
      )
      const filters: Readonly<Record<string, (day: number, limit: number) => boolean>> = {
        date_from: (day, limit) => day >= limit,
        date_to: (day, limit) => day <= limit,
        min_volume: (day, limit) => day >= limit,
        max_volume: (day, limit) => day <= limit,
      }
      /**
       * Returns the parameter value for a limit: that day in April, or a volume of ten times the limit, as in the rows.
       */
      const toValue = (name: string, limit: number) =>
        name.startsWith("date") ? `2026-04-0${limit}` : String(limit * 10)
      for (let seed = 1; seed <= getInputCount(60); seed += 1) {
        const choose = makeRandomChooser(seed)
        const tickers = choose([["EXK"], ["EXL"], ["EXK", "EXL"], ["EXZ"]])
        const page = choose([1, 1, 2])
        const sent = Object.keys(filters).flatMap((name) => {
          const limit = choose([0, 1, 2, 3, 4])
          return limit === 0 ? [] : [{ name, limit }]
        })
        const [from = 0, to = 9] = ["date_from", "date_to"].map((name) => sent.find((one) => one.name === name)?.limit)
        const [low = 0, high = 9] = ["min_volume", "max_volume"].map((name) =>
          sent.find((one) => one.name === name)?.limit
        )
        // The service rejects inverted ranges (D9).
        if (from > to || low > high) continue
        const countWithout = (names: ReadonlyArray<string>) =>
          rows.filter(({ day, ticker }) =>
            tickers.includes(ticker) &&
            sent.every(({ limit, name }) => names.includes(name) || filters[name]?.(day, limit) === true)
          ).length
        const names = sent.map(({ name }) => name)
        const found = countWithout([])
        const single = names.find((name) => countWithout([name]) > 0)
        const defaultLimit = 10
        const expected = found > defaultLimit * (page - 1)
          ? undefined
          : found > 0
          ? "page_beyond_end"
          : single !== undefined
          ? `filtered;without="${single}"`
          : countWithout(names) > 0
          ? `filtered;without="${names.join(" ")}"`
          : "unknown_symbol"
        const query = new URLSearchParams([
          ...sent.map(({ limit, name }) => [name, toValue(name, limit)]),
          ["ticker", tickers.join(",")],
          ["page", String(page)],
        ])
        assert.strictEqual(yield* reasonOf(query.toString(), "/v1/afterhours-stats"), expected, query.toString())
      }
    }))
})

it("a client reads each reason from the header as the service wrote it, and each has a sentence (D40)", () => {
  for (const code of emptyReasonCodes) {
    const reason = code === "filtered" ? { code, without: ["min_gap", "tag"] } : { code }
    assert.deepStrictEqual(parseEmptyReasonHeader(formatEmptyReason(reason)), reason)
    assert.match(describeEmptyReason(reason), /^[A-Z].*\.$/)
  }
  assert.isUndefined(parseEmptyReasonHeader(""))
  assert.isUndefined(parseEmptyReasonHeader("later"))
})
