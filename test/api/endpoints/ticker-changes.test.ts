/** Tests GET /v1/ticker-changes over HTTP: §2.2, §4.1, D6, D19 to D22. Each test has its own symbols and chains. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { skipHistory } from "../../support/GeneratedRows.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"

const { requestJson, valueAt: at, insertRows } = Service

const change = (
  old_ticker: string,
  new_ticker: string,
  effective_date: string,
  fields: Readonly<Record<string, unknown>> = {},
) => ({ old_ticker, new_ticker, effective_date, status: "confirmed", ...fields })

const event = (old_ticker: string, new_ticker: string, effective_date: string) => ({
  old_ticker,
  new_ticker,
  effective_date,
})

const requestTicker = (ticker: string) => requestJson(`/v1/ticker-changes?ticker=${ticker}`)

const makeUnchangedBody = (query_ticker: string) => ({
  count: 0,
  results: [{ query_ticker, has_changes: false, current_ticker: null, history: [] }],
})

const makeChangedBody = (query_ticker: string, ...history: ReadonlyArray<ReturnType<typeof event>>) => ({
  count: history.length,
  results: [{ query_ticker, has_changes: true, current_ticker: history.at(-1)?.new_ticker, history }],
})

const requestConflict = Effect.fnUntraced(function* (ticker: string) {
  const { body, headers, status, text } = yield* requestTicker(ticker)
  assert.strictEqual(status, 409, text)
  assert.strictEqual(at(body, "error", "code"), "ambiguous_ticker_lineage")
  assert.isString(at(body, "error", "message"))
  assert.strictEqual(at(body, "request_id"), headers["x-request-id"])
  assert.isUndefined(headers["retry-after"])
  return at(body, "error", "details")
})

/**
 * Requests a symbol that gets a 409, and checks the counts in `details`. Returns the rest of `details`, without counts
 * and events.
 */
const requestConflictReason = (ticker: string) =>
  Effect.map(requestConflict(ticker), (details) => {
    const { candidate_count, event_count, events, ticker_count, ...others } = Object(details)
    assert.strictEqual(at(others, "tickers", "length"), ticker_count)
    assert.strictEqual(at(events, "length"), Math.min(Number(event_count), 100))
    assert.strictEqual(at(others, "candidates", "length"), Math.min(Number(candidate_count), 100))
    return others
  })

/**
 * Builds consecutive changes, one per year. With the prefix `P`, the symbol changes from `P00` to `P01`, then to `P02`.
 */
const chain = (prefix: string, length: number) =>
  Array.from({ length }, (_, number) => {
    const [before, after] = [String(number).padStart(2, "0"), String(number + 1).padStart(2, "0")]
    return event(`${prefix}${before}`, `${prefix}${after}`, `${2001 + number}-06-01`)
  })

const storeEvents = (...events: ReadonlyArray<ReturnType<typeof event>>) =>
  insertRows("ticker_changes", ...events.map((one) => ({ ...one, status: "confirmed" })))

layer(Service.layer, { excludeTestServices: true })("GET /v1/ticker-changes", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // The history and current symbol that a chain of changes yields
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("returns the same complete history and current_ticker for every symbol of a chain (§2.2, D20)", () =>
    Effect.gen(function* () {
      const history = [
        event("CHA", "CHB", "2015-03-01"),
        event("CHB", "CHC", "2018-09-10"),
        event("CHC", "CHD", "2021-01-04"),
      ]
      yield* storeEvents(...history.toReversed())
      for (const symbol of ["CHA", "CHB", "CHC", "CHD"]) {
        const { body, status } = yield* requestTicker(symbol)
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(body, makeChangedBody(symbol, ...history))
      }
    }))

  it.effect("the body has exactly the specified fields (§2.2)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("FLDA", "FLDB", "2020-02-29", { cik: "0000000001", company_name: "Secret Inc", source: "x" }),
      )
      assert.strictEqual(
        (yield* requestTicker("flda")).text,
        `{"count":1,"results":[{"query_ticker":"FLDA","has_changes":true,"current_ticker":"FLDB",` +
          `"history":[{"old_ticker":"FLDA","new_ticker":"FLDB","effective_date":"2020-02-29"}]}]}`,
      )
    }))

  it.effect("accepts a chain that returns to an earlier symbol (D21)", () =>
    Effect.gen(function* () {
      const there = event("RETA", "RETB", "2019-01-01")
      const back = event("RETB", "RETA", "2020-01-01")
      yield* storeEvents(there, back)
      for (const symbol of ["RETA", "RETB"]) {
        assert.deepStrictEqual((yield* requestTicker(symbol)).body, makeChangedBody(symbol, there, back))
      }
    }))

  it.effect("treats a missing CIK as unknown, not as different (D21)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("UNKA", "UNKB", "2019-01-01", { cik: "0000000007" }),
        change("UNKB", "UNKC", "2020-01-01"),
        change("UNKC", "UNKD", "2021-01-01", { cik: "0000000007" }),
      )
      assert.strictEqual((yield* requestTicker("UNKC")).status, 200)
    }))

  it.effect("is the same if a change is recorded with a CIK and without, also at an earlier moment and for other endpoints (D20)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("RPA", "RPB", "2011-01-03", { cik: "0000000031", company_name: "Repeated Inc" }),
        change("RPA", "RPB", "2011-01-03"),
        change("RPB", "RPC", "2012-01-03"),
      )
      const body = makeChangedBody("RPA", event("RPA", "RPB", "2011-01-03"), event("RPB", "RPC", "2012-01-03"))
      // A response with `as_of=now` may be up to a second old.
      yield* Effect.repeat(requestTicker("RPA&as_of=now"), { until: (response) => at(response.body, "count") === 2 })
      for (const query of ["", "&cik=31", "&as_of=now"]) {
        assert.deepStrictEqual<unknown>((yield* requestTicker(`RPA${query}`)).body, body, query)
      }
      const historical = yield* requestJson("/v1/historical-tickers?ticker=RPC")
      assert.strictEqual(at(historical.body, "count"), 2)
      for (const query of ["", "&follow_lineage=true", "&as_of=now"]) {
        const timeline = yield* requestJson(`/v1/timeline?ticker=RPB&types=ticker_change${query}`)
        assert.strictEqual(at(timeline.body, "count"), 2, timeline.text)
      }
    }))

  it.effect("accepts twelve links, queried by any of their symbols (§8)", () =>
    Effect.gen(function* () {
      const history = chain("TW", 12)
      yield* storeEvents(...history)
      for (const symbol of ["TW00", "TW06", "TW12"]) {
        const { body, status } = yield* requestTicker(symbol)
        assert.strictEqual(status, 200)
        assert.strictEqual(at(body, "count"), 12)
        assert.deepStrictEqual(body, makeChangedBody(symbol, ...history))
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // The `ticker` parameter, and who may send the request
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("query_ticker is the normalized symbol: upper case, without surrounding white space (§4.1, D6)", () =>
    Effect.gen(function* () {
      const only = event("CASA", "CAS.B", "2019-05-05")
      yield* storeEvents(only)
      for (
        const sent of ["casa", "CaSa", "%20casa", "casa%20", "%09%0A%20Casa%0D%20", "+casa+", "%C2%A0casa%E2%80%83"]
      ) {
        const { body, status } = yield* requestTicker(sent)
        assert.strictEqual(status, 200, sent)
        assert.deepStrictEqual(body, makeChangedBody("CASA", only), sent)
      }
      assert.deepStrictEqual((yield* requestTicker("cas.b")).body, makeChangedBody("CAS.B", only))
    }))

  it.effect("responds to an unknown symbol with 200 and no changes, never with 404 (§4.1.1)", () =>
    Effect.gen(function* () {
      for (const symbol of ["X", "NOSUCH", "A.B-C^", "1", "..", "-", "^"]) {
        const { body, status } = yield* requestTicker(symbol)
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(body, makeUnchangedBody(symbol))
      }
    }))

  it.effect.each([
    "",
    "%20",
    "SEVENCH",
    "A,B",
    ",",
    "A%20B",
    "A%09B",
    "A+B",
    "A_B",
    "@",
    "A%00",
    "A/B",
    "%C3%A9",
    "%C4%B1",
    "%C5%BF",
    "%EF%BC%A1",
    "A%2CB",
    "*",
    "%25",
    "'",
    "A%0A%0AB",
    "S%CC%81",
  ])("refuses anything but one symbol of 1 to 6 characters: %j (§4.1, D6)", (sent) =>
    Effect.gen(function* () {
      const { body, status } = yield* requestTicker(sent)
      assert.strictEqual(status, 422)
      assert.strictEqual(at(body, "error", "code"), "validation_error")
      assert.strictEqual(at(body, "error", "details", "fields", 0, "field"), "ticker")
      assert.match(String(at(body, "error", "message")), /ticker/i)
    }))

  it.effect("the parameter `ticker` is required, and unknown parameters and unknown CIKs are refused (§4.1)", () =>
    Effect.gen(function* () {
      const missing = yield* requestJson("/v1/ticker-changes")
      assert.strictEqual(missing.status, 422)
      assert.deepStrictEqual(at(missing.body, "error", "details", "fields"), [{
        field: "ticker",
        reason: "is required",
      }])
      for (const name of ["page", "limit", "date", "tickers", "cik"]) {
        const { body, status } = yield* requestJson(`/v1/ticker-changes?ticker=META&${name}=1`)
        assert.strictEqual(status, 422, name)
        assert.strictEqual(at(body, "error", "details", "fields", 0, "field"), name)
      }
    }))

  it.effect("all tiers can read it, and it has no pages (§4.1)", () =>
    Effect.gen(function* () {
      for (const { body, headers } of yield* ListClients.requestOnAllTiers("/v1/ticker-changes?ticker=TIERS")) {
        assert.isUndefined(headers["link"])
        assert.isUndefined(at(body, "has_more"))
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Which events count as changes
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("ignores estimated, backfilled, reverted and blocked events (§2.2, D19)", () =>
    Effect.gen(function* () {
      const confirmed = event("STA", "STB", "2018-01-01")
      yield* storeEvents(confirmed)
      yield* insertRows(
        "ticker_changes",
        change("STB", "STC", "2019-01-01", { status: "estimated" }),
        change("STB", "STD", "2019-01-01", { status: "backfill" }),
        change("STZ", "STA", "2017-01-01", { status: "reverted" }),
        change("STA", "STE", "2018-01-01", { status: "blocked", cik: "0000000009" }),
      )
      for (const symbol of ["STA", "STB"]) {
        assert.deepStrictEqual((yield* requestTicker(symbol)).body, makeChangedBody(symbol, confirmed))
      }
      for (const symbol of ["STC", "STD", "STE", "STZ"]) {
        assert.deepStrictEqual((yield* requestTicker(symbol)).body, makeUnchangedBody(symbol))
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Ambiguous symbols: the 409 response
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("multiple_cik_lineages has one candidate per company, by first date (§4.1.3, D21)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("MCB", "MCC", "2021-05-05", { cik: "0000000100", company_name: "Later Corp" }),
        change("MCA", "MCB", "2019-05-05", { cik: "0000000200", company_name: "Earlier Corp" }),
      )
      for (const symbol of ["MCA", "MCB", "MCC"]) {
        assert.deepStrictEqual(yield* requestConflictReason(symbol), {
          query_ticker: symbol,
          reason: "multiple_cik_lineages",
          reasons: ["multiple_cik_lineages"],
          tickers: ["MCA", "MCB", "MCC"],
          candidates: [
            {
              cik: "0000000200",
              company_name: "Earlier Corp",
              history: [event("MCA", "MCB", "2019-05-05")],
              current_ticker: "MCB",
            },
            {
              cik: "0000000100",
              company_name: "Later Corp",
              history: [event("MCB", "MCC", "2021-05-05")],
              current_ticker: "MCC",
            },
          ],
        })
      }
    }))

  it.effect("a 409 has no candidates if the events of one company are not a chain, or an event has no CIK (D21)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("NCA", "NCB", "2019-05-05", { cik: "0000000100" }),
        change("NCB", "NCC", "2020-05-05", { cik: "0000000200" }),
        change("NCC", "NCD", "2021-05-05"),
        change("NDA", "NDB", "2019-05-05", { cik: "0000000100" }),
        change("NDA", "NDC", "2020-05-05", { cik: "0000000100" }),
        change("NDC", "NDD", "2021-05-05", { cik: "0000000200" }),
      )
      const withoutCik = yield* requestConflictReason("NCA")
      assert.deepStrictEqual(at(withoutCik, "reasons"), ["multiple_cik_lineages"])
      assert.deepStrictEqual(at(withoutCik, "candidates"), [])
      const split = yield* requestConflictReason("NDD")
      assert.strictEqual(at(split, "reason"), "multiple_cik_lineages")
      assert.deepStrictEqual(at(split, "candidates"), [])
    }))

  it.effect("a 409 lists the events by date, each with the reasons that it contributes to (§4.1.3, §9.3, D21)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("EVC", "EVD", "2022-05-05", { cik: "0000000200" }),
        change("EVA", "EVB", "2019-05-05", { cik: "0000000100", company_name: "First Corp", source: "secret" }),
        change("EVA", "EVC", "2021-05-05"),
        change("EVD", "EVE", "2023-05-05", { status: "estimated" }),
      )
      const { event_count, events } = Object(yield* requestConflict("EVD"))
      assert.strictEqual(event_count, 3)
      assert.deepStrictEqual(events, [
        {
          ...event("EVA", "EVB", "2019-05-05"),
          cik: "0000000100",
          company_name: "First Corp",
          reasons: ["multiple_cik_lineages", "competing_destinations"],
        },
        {
          ...event("EVA", "EVC", "2021-05-05"),
          cik: null,
          company_name: null,
          reasons: ["competing_destinations", "broken_chain"],
        },
        {
          ...event("EVC", "EVD", "2022-05-05"),
          cik: "0000000200",
          company_name: null,
          reasons: ["multiple_cik_lineages"],
        },
      ])
    }))

  it.effect("the parameter `cik` selects a candidate, with or without leading zeros; another CIK gets 422 (D35)", () =>
    Effect.gen(function* () {
      const fund = event("CIKA", "CIKB", "2022-01-31")
      const company = event("CIKC", "CIKA", "2022-06-09")
      yield* insertRows(
        "ticker_changes",
        change("CIKA", "CIKB", "2022-01-31", { cik: "0001683471", company_name: "The fund" }),
        change("CIKC", "CIKA", "2022-06-09", { cik: "0001326801" }),
      )
      for (const cik of ["0001326801", "1326801"]) {
        assert.deepStrictEqual((yield* requestTicker(`CIKA&cik=${cik}`)).body, makeChangedBody("CIKA", company), cik)
      }
      assert.deepStrictEqual((yield* requestTicker("CIKA&cik=0001683471")).body, makeChangedBody("CIKA", fund))
      const { body, status } = yield* requestTicker("CIKA&cik=7")
      assert.strictEqual(status, 422)
      assert.deepStrictEqual(at(body, "error", "details", "fields"), [{
        field: "cik",
        reason: "must be a CIK in the history of CIKA: 0001683471 (The fund), 0001326801; not 0000000007",
      }])
      // These queries pair symbols with the wrong company: the company never used CIKB, and the fund never used CIKC.
      for (
        const [ticker, cik, possible] of [["CIKB", "0001326801", "0001683471 (The fund)"], [
          "CIKC",
          "0001683471",
          "0001326801",
        ]]
      ) {
        const { body, status } = yield* requestTicker(`${ticker}&cik=${cik}`)
        assert.strictEqual(status, 422)
        assert.strictEqual(
          at(body, "error", "message"),
          `cik must be a CIK in the history of ${ticker}: ${possible}; not ${cik}`,
        )
        assert.strictEqual((yield* requestTicker(`${ticker}&cik=${possible?.slice(0, 10)}`)).status, 200)
      }
      for (const cik of ["", "x", "12345678901", "-1", "META:1"]) {
        const { body, status } = yield* requestTicker(`CIKA&cik=${cik}`)
        assert.strictEqual(status, 422, cik)
        assert.include(String(at(body, "error", "message")), "must be a CIK of one to ten digits")
      }
    }))

  it.effect("a request with `cik` gets 422 for a symbol without changes, and 409 for a conflict without candidates (D35)", () =>
    Effect.gen(function* () {
      const { body, status } = yield* requestTicker("CIKN&cik=1")
      assert.strictEqual(status, 422)
      assert.include(String(at(body, "error", "message")), "no recorded change of CIKN has a CIK")
      yield* storeEvents(event("CIKX", "CIKY", "2020-01-01"), event("CIKX", "CIKZ", "2021-01-01"))
      assert.strictEqual(at(yield* requestConflict("CIKX&cik=1"), "reason"), "competing_destinations")
    }))

  it.effect("a 409 lists at most a hundred events and their total number (§4.1.3, D21)", () =>
    Effect.gen(function* () {
      const days = Array.from(
        { length: 130 },
        (_, at) => new Date(Date.UTC(2001, 0, 1 + at)).toISOString().slice(0, 10),
      )
      yield* storeEvents(...days.map((day, at) => event(`EM${at}`, `EM${at + 1}`, day)))
      const { event_count, events } = Object(yield* requestConflict("EM60"))
      assert.strictEqual(event_count, days.length)
      assert.deepStrictEqual(
        events,
        days.slice(0, 100).map((day, at) => ({
          ...event(`EM${at}`, `EM${at + 1}`, day),
          cik: null,
          company_name: null,
          reasons: at < 12 ? [] : ["max_hops_exceeded"],
        })),
      )
    }))

  it.effect("a 409 lists at most a hundred candidates and their total number (§4.1.3, §9.3, D21)", () =>
    Effect.gen(function* () {
      const days = Array.from(
        { length: 130 },
        (_, at) => new Date(Date.UTC(2001, 0, 1 + at)).toISOString().slice(0, 10),
      )
      const ciks = days.map((_, at) => String(1000 - at).padStart(10, "0"))
      yield* insertRows("ticker_changes", ...days.map((day, at) => change(`CM${at}`, "CMHUB", day, { cik: ciks[at] })))
      const { candidate_count, candidates, ticker_count, tickers } = Object(yield* requestConflict("CMHUB"))
      assert.strictEqual(candidate_count, days.length)
      assert.strictEqual(ticker_count, days.length + 1, "the old tickers and CMHUB")
      assert.deepStrictEqual(tickers, [...days.map((_, at) => `CM${at}`), "CMHUB"].toSorted())
      assert.deepStrictEqual(
        candidates,
        days.slice(0, 100).map((day, at) => ({
          cik: ciks[at],
          company_name: null,
          history: [event(`CM${at}`, "CMHUB", day)],
          current_ticker: "CMHUB",
        })),
      )
    }))

  it.effect("reports two changes on one day as same_date_events (§4.1.3, D21)", () =>
    Effect.gen(function* () {
      yield* storeEvents(event("SDA", "SDB", "2020-01-01"), event("SDB", "SDC", "2020-01-01"))
      assert.deepStrictEqual(yield* requestConflictReason("SDC"), {
        query_ticker: "SDC",
        reason: "same_date_events",
        reasons: ["same_date_events"],
        tickers: ["SDA", "SDB", "SDC"],
        candidates: [],
      })
    }))

  it.effect("reports a symbol that changes twice as competing_destinations, even if it returns in between (§4.1.3, D21)", () =>
    Effect.gen(function* () {
      yield* storeEvents(
        event("CDA", "CDB", "2020-01-01"),
        event("CDB", "CDA", "2021-01-01"),
        event("CDA", "CDC", "2022-01-01"),
      )
      assert.deepStrictEqual(yield* requestConflictReason("CDB"), {
        query_ticker: "CDB",
        reason: "competing_destinations",
        reasons: ["competing_destinations"],
        tickers: ["CDA", "CDB", "CDC"],
        candidates: [],
      })
      yield* storeEvents(event("CEA", "CEB", "2020-01-01"), event("CEA", "CEC", "2021-01-01"))
      const both = yield* requestConflictReason("CEC")
      assert.strictEqual(at(both, "reason"), "competing_destinations")
      assert.deepStrictEqual(at(both, "reasons"), ["competing_destinations", "broken_chain"])
    }))

  it.effect("reports links that do not connect as broken_chain (§4.1.3, D21)", () =>
    Effect.gen(function* () {
      yield* storeEvents(event("BRA", "BRC", "2020-01-01"), event("BRB", "BRC", "2021-01-01"))
      assert.deepStrictEqual(yield* requestConflictReason("BRA"), {
        query_ticker: "BRA",
        reason: "broken_chain",
        reasons: ["broken_chain"],
        tickers: ["BRA", "BRB", "BRC"],
        candidates: [],
      })
    }))

  it.effect("reports thirteen links as max_hops_exceeded, with all their symbols (§4.1.3, §8, D21)", () =>
    Effect.gen(function* () {
      const history = chain("TH", 13)
      yield* storeEvents(...history)
      for (const symbol of ["TH00", "TH07", "TH13"]) {
        assert.deepStrictEqual(yield* requestConflictReason(symbol), {
          query_ticker: symbol,
          reason: "max_hops_exceeded",
          reasons: ["max_hops_exceeded"],
          tickers: ["TH00", ...history.map(({ new_ticker }) => new_ticker)],
          candidates: [],
        })
      }
    }))

  it.effect("the field `reason` is the first of `reasons`, which are in the specified order (D21)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("ALA", "ALB", "2020-01-01", { cik: "0000000001" }),
        change("ALA", "ALC", "2020-01-01", { cik: "0000000002" }),
        ...chain("AL", 12).map((one) => ({
          ...one,
          old_ticker: one.old_ticker.replace("AL00", "ALB"),
          status: "confirmed",
        })),
      )
      const details = yield* requestConflictReason("AL12")
      assert.strictEqual(at(details, "reason"), "multiple_cik_lineages")
      assert.deepStrictEqual(at(details, "reasons"), [
        "multiple_cik_lineages",
        "same_date_events",
        "competing_destinations",
        "broken_chain",
        "max_hops_exceeded",
      ])
    }))

  it.effect("the field `tickers` is sorted, has no duplicates, and comes from eligible events only (D21)", () =>
    Effect.gen(function* () {
      yield* storeEvents(
        event("TKZ", "TK.A", "2020-01-01"),
        event("TKZ", "TK-B", "2021-01-01"),
        event("TK-B", "TKZ", "2022-01-01"),
      )
      yield* insertRows("ticker_changes", change("TKZ", "TKNOT", "2023-01-01", { status: "estimated" }))
      assert.deepStrictEqual(at(yield* requestConflictReason("TKZ"), "tickers"), ["TK-B", "TK.A", "TKZ"])
    }))

  it.effect("responds to HEAD for an ambiguous symbol with 409 and no body (D10)", () =>
    Effect.gen(function* () {
      yield* storeEvents(event("HDA", "HDB", "2020-01-01"), event("HDA", "HDC", "2021-01-01"))
      const { status, text } = yield* requestJson("/v1/ticker-changes?ticker=HDA", { method: "HEAD" })
      assert.strictEqual(status, 409)
      assert.strictEqual(text, "")
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Tens of thousands of conflicting events for one symbol
  // -------------------------------------------------------------------------------------------------------------------

  const hubs = [
    ["left 20,000 times", "HBO", "'HBO'", "'O' || n"],
    ["taken 20,000 times", "HBN", "'N' || n", "'HBN'"],
    ["in a ring of 20,000", "R1", "'R' || n", "'R' || (n % 20000 + 1)"],
  ] as const

  it.effect.each(hubs)(
    "responds to a symbol %s with 409, from either side of a change (§4.1.2, D21)",
    ([, hub, from, to]) =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const sql = yield* SqlClient.SqlClient
        const insert = sql`
          insert into ticker_changes (old_ticker, new_ticker, effective_date, status)
          select ${sql.literal(from)}, ${sql.literal(to)}, date '1960-01-01' + n, 'confirmed'
          from generate_series(1, 20000) as n
        `
        yield* skipHistory("ticker_changes", insert)
        // Updates the statistics, as `load` does. Otherwise a connection may keep using a query plan that suits a small
        // table.
        yield* sql`analyze ticker_changes`
        const leaf = hub === "HBO" ? "O777" : hub === "HBN" ? "N777" : "R777"
        for (const symbol of [hub, leaf]) {
          const details = yield* requestConflictReason(symbol)
          assert.strictEqual(at(details, "query_ticker"), symbol)
          const expected = hub === "HBO"
            ? "competing_destinations"
            : hub === "HBN"
            ? "broken_chain"
            : "max_hops_exceeded"
          assert.include(at(details, "reasons"), expected)
          assert.include(at(details, "reasons"), "max_hops_exceeded")
          assert.include(at(details, "tickers"), symbol)
        }
      }),
  )

  it.effect("reads the whole component: one different CIK among 20,000 events decides the reason (D20, D21)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const insert = sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, status, cik)
        select 'HBC', 'C' || n, date '1960-01-01' + n, 'confirmed',
          case n when 15000 then '0000000002' else '0000000001' end
        from generate_series(1, 20000) as n
      `
      yield* skipHistory("ticker_changes", insert)
      for (const symbol of ["HBC", "C1", "C15000"]) {
        assert.strictEqual(at(yield* requestConflictReason(symbol), "reason"), "multiple_cik_lineages", symbol)
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Rows that the table `ticker_changes` refuses to store
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("the table refuses an event with equal symbols, and a repeated event (D22)", () =>
    Effect.gen(function* () {
      const refuses = Effect.fnUntraced(function* (row: ReturnType<typeof change>, constraint: RegExp) {
        const error = yield* Effect.flip(insertRows("ticker_changes", row))
        assert.match(String(error.reason.cause), constraint)
      })
      yield* refuses(change("EQA", "EQA", "2020-01-01"), /check/)
      yield* insertRows(
        "ticker_changes",
        change("RPA", "RPB", "2020-01-01"),
        change("RPA", "RPB", "2020-01-01", { cik: "0000000001" }),
      )
      yield* refuses(change("RPA", "RPB", "2020-01-01"), /unique|duplicate/)
      yield* refuses(change("RPA", "RPB", "2020-01-01", { cik: "0000000001", status: "estimated" }), /unique|duplicate/)
      yield* insertRows("ticker_changes", change("RPA", "RPB", "2020-01-01", { cik: "0000000002" }))
      yield* refuses(change("RPC", "RPD", "2020-01-01", { cik: "1" }), /check/)
      yield* refuses(change("rpc", "RPD", "2020-01-01"), /check/)
      yield* refuses(change("RPC", "RPD", "2020-01-01", { status: "maybe" }), /check/)
    }))
})

/** Midnight in Chicago, in daylight and in standard time. New York is an hour ahead. */
const midnights = [
  ["2026-07-01T05:00:00Z", "2026-07-01"],
  ["2027-01-01T06:00:00Z", "2027-01-01"],
  // The days on which the clock changes, and the days after them.
  ["2026-11-01T05:00:00Z", "2026-11-01"],
  ["2026-11-02T06:00:00Z", "2026-11-02"],
  ["2027-03-14T06:00:00Z", "2027-03-14"],
  ["2027-03-15T05:00:00Z", "2027-03-15"],
] as const

midnights.forEach(([instant, day]) =>
  layer(Service.layerAt(Date.parse(instant) - 10_000))(`GET /v1/ticker-changes at ${instant}`, (it) => {
    it.effect("current_ticker changes on the effective day of a change, in US Central time (§2.2, D19)", () =>
      Effect.gen(function* () {
        const [before, on] = [event("FUA", "FUB", "2020-01-01"), event("FUB", "FUC", day)]
        yield* storeEvents(before, on, event("FUC", "FUD", "2099-01-01"))
        yield* TestClock.setTime(Date.parse(instant) - 1)
        for (const symbol of ["FUA", "FUB"]) {
          assert.deepStrictEqual((yield* requestTicker(symbol)).body, makeChangedBody(symbol, before))
        }
        for (const symbol of ["FUC", "FUD"]) {
          assert.deepStrictEqual((yield* requestTicker(symbol)).body, makeUnchangedBody(symbol))
        }
        yield* TestClock.setTime(Date.parse(instant))
        for (const symbol of ["FUA", "FUB", "FUC"]) {
          assert.deepStrictEqual((yield* requestTicker(symbol)).body, makeChangedBody(symbol, before, on))
        }
        assert.deepStrictEqual((yield* requestTicker("FUD")).body, makeUnchangedBody("FUD"))
      }))
  })
)
