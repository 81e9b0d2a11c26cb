/** Tests GET /v1/ownership over HTTP: §2.7 (ownership). Each test has its own tickers. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"

const { valueAt, insertRows } = Service

type Fields = Readonly<Record<string, unknown>>

/** Builds a row. Without fields, the row is a placeholder. */
const row = (ticker: string, accession_number: string, fields: Fields = {}) => ({
  ticker,
  accession_number,
  filed_at: "2025-07-01",
  form_type: "DEF 14A",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const listOf = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const { requestRows, request, requestText, requestInvalid, readAllPages } = ListClients.makeListClient("/v1/ownership")

/** Formats each filing as `TICKER accession: owner, owner`. */
const shownIn = (groups: ReadonlyArray<unknown>) =>
  groups.map((group) => {
    const names = listOf(valueAt(group, "owners")).map((owner) => String(valueAt(owner, "owner_name")))
    assert.strictEqual(valueAt(group, "owner_count"), names.length)
    return `${String(valueAt(group, "ticker"))} ${String(valueAt(group, "accession_number"))}: ${names.join(", ")}`
  })

const shown = (query: string) => Effect.map(requestRows(query), shownIn)

const loaded = (csv: string) => ListClients.loadCsv("ownership", csv, "append")

const nothing = { count: 0, results: [], page: 1, limit: 10, has_more: false }

layer(Service.layer, { excludeTestServices: true })("GET /v1/ownership", (it) => {
  it.effect("returns every field exactly as stored, with owners inside their filing (§2.7, §2.1, D15, D16)", () =>
    Effect.gen(function* () {
      const filing = { reported_date: "2025-06-30", document_url: "https://example.com/def14a" }
      yield* insertRows(
        "ownership",
        row("WFULL", "0001-25-1", {
          ...filing,
          owner_name: 'Ann "A." O\'Neil',
          owner_cik: "0000000001",
          owner_type: "executive",
          title: "CEO, Chair",
          common_shares_amount: "9007199254740991",
          preferred_shares_amount: "0",
          options_amount: "1",
          warrants_amount: "2",
          shares_underlying_convertibles: "3",
          percent_of_class: "99999999999999.9999",
          sole_voting_shares: "4",
          shared_voting_shares: "5",
          event_date: "2025-06-29",
          last_updated: "2025-07-01 09:30:00",
        }),
        row("WFULL", "0001-25-1", { ...filing, title: "Director", last_updated: "2025-01-02 09:30:00" }),
      )
      assert.strictEqual(
        yield* requestText("ticker=WFULL"),
        `{"count":1,"results":[{"ticker":"WFULL","reported_date":"2025-06-30","filed_at":"2025-07-01",` +
          `"form_type":"DEF 14A","accession_number":"0001-25-1","document_url":"https://example.com/def14a",` +
          `"owner_count":2,"owners":[{"owner_name":"Ann \\"A.\\" O'Neil","owner_cik":"0000000001",` +
          `"owner_type":"executive","title":"CEO, Chair","common_shares_amount":9007199254740991,` +
          `"preferred_shares_amount":0,"options_amount":1,"warrants_amount":2,"shares_underlying_convertibles":3,` +
          `"percent_of_class":99999999999999.9999,"sole_voting_shares":4,"shared_voting_shares":5,` +
          `"event_date":"2025-06-29","last_updated":"2025-07-01T08:30:00-05:00"},{"owner_name":null,` +
          `"owner_cik":null,"owner_type":null,"title":"Director","common_shares_amount":null,` +
          `"preferred_shares_amount":null,"options_amount":null,"warrants_amount":null,` +
          `"shares_underlying_convertibles":null,"percent_of_class":null,"sole_voting_shares":null,` +
          `"shared_voting_shares":null,"event_date":null,"last_updated":"2025-01-02T09:30:00-05:00"}]}],` +
          `"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("missing values are null (§2.7, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("ownership", row("WNULL", "1", { percent_of_class: "0.1000" }))
      const [group] = yield* requestRows("ticker=WNULL")
      assert.isNull(valueAt(group, "reported_date"))
      assert.isNull(valueAt(group, "document_url"))
      assert.strictEqual(valueAt(group, "owners", 0, "percent_of_class"), 0.1)
    }))

  it.effect("an empty text is a missing value: an owner with nothing else is a placeholder (§2.7, D16)", () =>
    Effect.gen(function* () {
      const empty = { owner_name: "", owner_cik: "", title: "", document_url: "" }
      yield* insertRows(
        "ownership",
        row("WEMPTY", "old", { ...empty, common_shares_amount: "5", filed_at: "2025-06-01" }),
        row("WEMPTY", "old", { ...empty, filed_at: "2025-06-01" }),
        row("WEMPTY", "new", empty),
        row("WBLANK", "new", empty),
      )
      assert.deepStrictEqual(yield* shown("ticker=WEMPTY,WBLANK"), ["WEMPTY old: null"])
      assert.notInclude(yield* requestText("ticker=WEMPTY"), `""`)
      const timeline = yield* Service.requestJson("/v1/timeline?ticker=WEMPTY&types=ownership_filing")
      assert.strictEqual(valueAt(timeline.body, "count"), 1, timeline.text)
      assert.strictEqual(valueAt(timeline.body, "results", 0, "title"), "DEF 14A: 1 owner")
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Which filing a request returns
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("selects the newest filing by filed_at, reported_date (null is oldest) and accession number (§2.7)", () =>
    Effect.gen(function* () {
      const owner = { owner_name: "Owner" }
      const newest = (ticker: string, ...filings: ReadonlyArray<readonly [number: string, fields: Fields]>) =>
        Effect.gen(function* () {
          yield* insertRows(
            "ownership",
            ...filings.map(([number, fields]) => row(ticker, number, { ...owner, ...fields })),
          )
          assert.deepStrictEqual(yield* shown(`ticker=${ticker}`), [`${ticker} new: Owner`])
        })
      yield* newest(
        "WN1",
        ["new", { filed_at: "2025-07-02", reported_date: "2025-01-01" }],
        ["old", { filed_at: "2025-07-01", reported_date: "2025-06-30" }],
      )
      yield* newest("WN2", ["old", { reported_date: "2025-06-29" }], ["new", { reported_date: "2025-06-30" }])
      yield* newest("WN3", ["zzz", {}], ["new", { reported_date: "2020-01-01" }])
      yield* newest("WN4", ["new", { reported_date: "2025-06-30" }], ["mmm", { reported_date: "2025-06-30" }])
      yield* newest("WN5", ["mmm", {}], ["new", {}])
    }))

  it.effect("selects a newer filing that has names only, but not one of the day of a filing with amounts (§2.7)", () =>
    Effect.gen(function* () {
      const form4 = { form_type: "4", owner_name: "Officer", common_shares_amount: "5" }
      const schedule = { form_type: "SC 13G", owner_name: "Fund", owner_type: "five_percent_owner" }
      yield* insertRows(
        "ownership",
        row("WHEAD", "1", { ...form4, filed_at: "2024-09-09", reported_date: "2024-09-06" }),
        row("WHEAD", "2", { ...schedule, filed_at: "2024-09-10" }),
        row("WHDAY", "1", { ...form4, filed_at: "2024-09-10", reported_date: "2024-09-06" }),
        row("WHDAY", "2", { ...schedule, filed_at: "2024-09-10" }),
      )
      assert.deepStrictEqual(yield* shown("ticker=WHEAD,WHDAY"), ["WHDAY 1: Officer", "WHEAD 2: Fund"])
    }))

  it.effect("skips filings with placeholders only, even if that returns an earlier reported_date (§2.7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ownership",
        row("WSKIP", "3", { filed_at: "2025-09-01", reported_date: "2025-08-31" }),
        row("WSKIP", "2", { filed_at: "2025-08-01", reported_date: "2025-07-31" }),
        row("WSKIP", "1", { filed_at: "2025-07-01", reported_date: "2025-06-30", owner_name: "Owner" }),
        row("WSKIP", "0", { filed_at: "2025-06-01", reported_date: "2025-05-31", owner_name: "Earlier" }),
      )
      assert.deepStrictEqual(yield* shown("ticker=WSKIP"), ["WSKIP 1: Owner"])
      assert.strictEqual(valueAt((yield* requestRows("ticker=WSKIP"))[0], "reported_date"), "2025-06-30")
    }))

  it.effect("leaves out placeholders in the selected filing (§2.7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ownership",
        row("WPART", "2", { owner_name: "Owner" }),
        row("WPART", "2"),
        row("WPART", "1", { filed_at: "2025-01-01", owner_name: "Earlier" }),
      )
      assert.deepStrictEqual(yield* shown("ticker=WPART"), ["WPART 2: Owner"])
    }))

  it.effect("with per_holder=true returns each holder as the holder's newest filing reports it (§2.7)", () =>
    Effect.gen(function* () {
      const [ann, bob, fund] = ["Ann", "Bob", "Fund"].map((owner_name, index) => ({
        owner_name,
        owner_cik: index === 2 ? null : `000000000${index}`,
      }))
      yield* insertRows(
        "ownership",
        row("WEACH", "5", { ...ann, filed_at: "2025-09-05", common_shares_amount: "50" }),
        row("WEACH", "4", { ...bob, filed_at: "2025-09-04", owner_type: "director" }),
        row("WEACH", "4", { ...bob, filed_at: "2025-09-04", owner_type: "executive", title: "CEO" }),
        row("WEACH", "4", { ...ann, filed_at: "2025-09-04", common_shares_amount: "40" }),
        row("WEACH", "3", { ...ann, filed_at: "2025-09-03", owner_name: "ANN (formerly)" }),
        row("WEACH", "2", { ...fund, filed_at: "2025-09-02", owner_name: "FUND" }),
        row("WEACH", "2", { filed_at: "2025-09-02" }),
        row("WEACH", "1", { ...fund, filed_at: "2025-09-01" }),
        row("WEACH2", "1", { ...ann }),
      )
      const all = ["WEACH 5: Ann", "WEACH 4: Bob, Bob", "WEACH 2: FUND"]
      assert.deepStrictEqual(yield* shown("ticker=WEACH"), ["WEACH 5: Ann"])
      assert.deepStrictEqual(yield* shown("ticker=WEACH&per_holder=false"), ["WEACH 5: Ann"])
      assert.deepStrictEqual(yield* shown("ticker=WEACH&per_holder=true"), all)
      assert.deepStrictEqual(yield* shown("ticker=WEACH2,WEACH&per_holder=true"), [...all, "WEACH2 1: Ann"])
      assert.deepStrictEqual(yield* shown("ticker=WEACH&per_holder=true&limit=1&page=2"), all.slice(1, 2))
      assert.deepStrictEqual(yield* shown("ticker=WEACH&per_holder=true&owner_type=director"), ["WEACH 4: Bob"])
      // The filter applies to each holder's newest filing, not to an older one.
      assert.deepStrictEqual(yield* shown("ticker=WEACH&per_holder=true&owner_name=formerly"), [])
      assert.deepStrictEqual(
        yield* shown("ticker=WEACH&per_holder=true&accession_number=4"),
        ["WEACH 4: Ann, Bob, Bob"],
      )
    }))

  it.effect("with per_holder=true ignores punctuation and case in the name of a holder without a CIK (§2.7)", () =>
    Effect.gen(function* () {
      const [spelt, varied] = [{ owner_name: "BlackRock, Inc." }, { owner_name: "BLACKROCK INC" }]
      yield* insertRows(
        "ownership",
        row("WPUNC", "4", { ...varied, filed_at: "2025-09-04" }),
        row("WPUNC", "3", { ...spelt, filed_at: "2025-09-03" }),
        row("WPUNC", "2", { owner_name: "BlackRock Income", filed_at: "2025-09-02" }),
        row("WPUNC", "1", { ...spelt, owner_cik: "0000000001", filed_at: "2025-09-01" }),
      )
      assert.deepStrictEqual(yield* shown("ticker=WPUNC&per_holder=true"), [
        "WPUNC 4: BLACKROCK INC",
        "WPUNC 2: BlackRock Income",
        "WPUNC 1: BlackRock, Inc.",
      ])
    }))

  it.effect("with per_holder=true follows the lineage of a symbol, and returns each holder once (§2.7, §4)", () =>
    Effect.gen(function* () {
      yield* insertRows("ticker_changes", {
        old_ticker: "WPRED",
        new_ticker: "WSUCC",
        effective_date: "2025-08-01",
        status: "confirmed",
        cik: "0000777001",
      })
      yield* insertRows(
        "ownership",
        row("WSUCC", "3", { filed_at: "2025-09-01", owner_name: "Ann" }),
        row("WPRED", "2", { filed_at: "2025-07-01", owner_name: "Ann" }),
        row("WPRED", "1", { filed_at: "2025-06-01", owner_name: "Bob" }),
      )
      const followed = yield* shown("ticker=WSUCC&follow_lineage=true&per_holder=true")
      assert.sameMembers(followed, ["WSUCC 3: Ann", "WPRED 1: Bob"])
    }))

  it.effect("returns an empty list for an unknown ticker and for a ticker with placeholders only (§2.7)", () =>
    Effect.gen(function* () {
      yield* insertRows("ownership", row("WHOLD", "1"), row("WHOLD", "2", { reported_date: "2025-06-30" }))
      for (const ticker of ["WHOLD", "WNOBODY", "WHOLD,WNOBODY"]) {
        const { body, status } = yield* request(`ticker=${ticker}`)
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(body, nothing)
      }
    }))

  it.effect.each([
    ["owner_name", "Owner"],
    ["owner_cik", "0000000001"],
    ["owner_type", "director"],
    ["title", "CEO"],
    ["common_shares_amount", "0"],
    ["preferred_shares_amount", "0"],
    ["options_amount", "0"],
    ["warrants_amount", "0"],
    ["shares_underlying_convertibles", "0"],
    ["percent_of_class", "0"],
    ["sole_voting_shares", "0"],
    ["shared_voting_shares", "0"],
    ["event_date", "2025-01-01"],
  ])(
    "a row with only %s is not a placeholder, even if it is 0 (§2.7)",
    ([column = "", value = ""]) =>
      Effect.gen(function* () {
        const ticker = `W${column.replaceAll("_", "").slice(0, 14).toUpperCase()}`
        yield* insertRows(
          "ownership",
          row(ticker, "1", { [column]: value }),
          row(ticker, "2", { filed_at: "2025-08-01" }),
        )
        const [group] = yield* requestRows(`ticker=${ticker}`)
        assert.strictEqual(valueAt(group, "accession_number"), "1")
        assert.strictEqual(String(valueAt(group, "owners", 0, column)), value)
      }),
  )

  it.effect("returns a filing about two companies once for each company (§2.7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ownership",
        row("WTWOA", "same", { owner_name: "Of A" }),
        row("WTWOB", "same", { owner_name: "Of B" }),
      )
      assert.deepStrictEqual(yield* shown("ticker=WTWOB,WTWOA"), ["WTWOA same: Of A", "WTWOB same: Of B"])
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Order and pages
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("orders owners by common shares, largest first, unknown last, then by name (§2.7)", () =>
    Effect.gen(function* () {
      const owners = [
        { owner_name: "Zoe", common_shares_amount: "9007199254740991" },
        { owner_name: "Ann", common_shares_amount: "10" },
        { owner_name: "Bob", common_shares_amount: "10" },
        { owner_name: "Bob", common_shares_amount: "10", owner_cik: "1" },
        { owner_name: "Bob", common_shares_amount: "10", owner_cik: "2", title: "A" },
        { owner_name: "Bob", common_shares_amount: "10", owner_cik: "2", title: "B" },
        { owner_name: "Cid", common_shares_amount: "9" },
        { owner_name: "Abe", common_shares_amount: "0" },
        { owner_name: "Aaron" },
        { owner_name: "Beth" },
      ]
      for (const [ticker, rows] of [["WORDA", owners], ["WORDB", owners.toReversed()]] as const) {
        yield* insertRows("ownership", ...rows.map((owner) => row(ticker, "1", owner)))
        const [group] = yield* requestRows(`ticker=${ticker}`)
        const ordered = listOf(valueAt(group, "owners"))
        assert.deepStrictEqual(
          ordered.map((owner) => String(valueAt(owner, "owner_name"))),
          ["Zoe", "Ann", "Bob", "Bob", "Bob", "Bob", "Cid", "Abe", "Aaron", "Beth"],
        )
        assert.deepStrictEqual(
          ordered.slice(2, 6).map((owner) => [valueAt(owner, "owner_cik"), valueAt(owner, "title")]),
          [["1", null], ["2", "A"], ["2", "B"], [null, null]],
        )
      }
    }))

  it.effect("pages count filings, not owners, and are ordered by ticker (§2.7, D8)", () =>
    Effect.gen(function* () {
      const tickers = Array.from({ length: 23 }, (_, number) => `WP${String(number * 7 % 23).padStart(2, "0")}`)
      yield* insertRows(
        "ownership",
        ...tickers.flatMap((ticker) => ["A", "B", "C"].map((owner_name) => row(ticker, "1", { owner_name }))),
      )
      const pages = yield* readAllPages(`ticker=${tickers.join(",")}`, 5)
      assert.deepStrictEqual(shownIn(pages), tickers.toSorted().map((ticker) => `${ticker} 1: A, B, C`))
      assert.lengthOf(yield* shown(`ticker=${tickers.join(",")}&limit=100`), 23)
    }))

  it.effect("a page counts only filings with matching owners (§2.7, D8)", () =>
    Effect.gen(function* () {
      for (const number of [0, 1, 2, 3, 4, 5]) {
        const owner_name = number % 2 === 0 ? "Even Holder" : "Odd Holder"
        yield* insertRows("ownership", row(`WHALF${number}`, "1", { owner_name }))
      }
      const query = "ticker=WHALF0,WHALF1,WHALF2,WHALF3,WHALF4,WHALF5&owner_name=even&limit=2"
      assert.deepStrictEqual(yield* shown(query), ["WHALF0 1: Even Holder", "WHALF2 1: Even Holder"])
      assert.deepStrictEqual(yield* shown(`${query}&page=2`), ["WHALF4 1: Even Holder"])
      const { headers } = yield* request(query)
      assert.match(String(headers["link"]), /page=2/)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Filters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("filters select owners of the newest filing and never fall back to an older one (§2.7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ownership",
        row("WFA", "2", { owner_name: "Ann Example", owner_type: "executive", common_shares_amount: "1" }),
        row("WFA", "2", { owner_name: "Bob Example", owner_type: "director", common_shares_amount: "2" }),
        row("WFA", "2", { owner_name: "Example Fund", owner_type: "five_percent_owner" }),
        row("WFA", "2", { title: "Nameless" }),
        row("WFA", "1", { filed_at: "2024-07-01", owner_name: "Old Example", owner_type: "ten_percent_owner" }),
        row("WFB", "9", { owner_name: "Carol Person", owner_type: "director" }),
      )
      const find = (query: string) => shown(`ticker=WFA,WFB&${query}`)
      assert.deepStrictEqual(yield* find("owner_name=example"), ["WFA 2: Bob Example, Ann Example, Example Fund"])
      assert.deepStrictEqual(yield* find("owner_name=ANN%20EX"), ["WFA 2: Ann Example"])
      assert.deepStrictEqual(yield* find("owner_type=Director"), ["WFA 2: Bob Example", "WFB 9: Carol Person"])
      assert.deepStrictEqual(yield* find("owner_type=director"), ["WFA 2: Bob Example", "WFB 9: Carol Person"])
      assert.deepStrictEqual(
        yield* find("owner_type=executive,%20director"),
        ["WFA 2: Bob Example, Ann Example", "WFB 9: Carol Person"],
      )
      assert.deepStrictEqual(yield* find("owner_type=executive&owner_name=bob"), [])
      assert.deepStrictEqual(yield* find("owner_type=director&owner_name=bob"), ["WFA 2: Bob Example"])
      assert.deepStrictEqual(yield* find("owner_type=ten_percent_owner"), [])
      assert.deepStrictEqual(yield* find("owner_name=old%20example"), [])
      assert.deepStrictEqual((yield* request("ticker=WFA&owner_name=nobody")).body, nothing)
    }))

  it.effect("%, _, quotes and backslashes in owner_name are literal text (§2.7)", () =>
    Effect.gen(function* () {
      const names = ["100% Fund", "100x Fund", "a_bc", "axbc", "O'Neil's", `back\\slash`, `"quoted"`]
      yield* insertRows("ownership", ...names.map((owner_name) => row("WTEXT", "1", { owner_name })))
      const find = (part: string) => shown(`ticker=WTEXT&owner_name=${encodeURIComponent(part)}`)
      const parts = [["00%", "100% Fund"], ["a_b", "a_bc"], ["o'NEIL'", "O'Neil's"], [`k\\s`, `back\\slash`]] as const
      for (const [part, name] of [...parts, [`ed"`, `"quoted"`]] as const) {
        assert.deepStrictEqual(yield* find(part), [`WTEXT 1: ${name}`])
      }
      for (const part of ["%%%", "___", "e_' or 1=1", "\\%\\"]) assert.deepStrictEqual(yield* find(part), [])
    }))

  it.effect("accession_number selects a filing instead of the newest one, but never its placeholders (§2.7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ownership",
        row("WACC", "old", { owner_name: "Ann", owner_type: "director", filed_at: "2024-07-01" }),
        row("WACC", "old", { owner_name: "Bob", owner_type: "executive", filed_at: "2024-07-01" }),
        row("WACC", "new", { owner_name: "Cy" }),
        row("WACC", "empty", { filed_at: "2025-08-01" }),
        row("WACD", "old", { owner_name: "Di" }),
      )
      assert.deepStrictEqual(yield* shown("ticker=WACC"), ["WACC new: Cy"])
      assert.deepStrictEqual(yield* shown("ticker=WACC,WACD&accession_number=old"), [
        "WACC old: Ann, Bob",
        "WACD old: Di",
      ])
      assert.deepStrictEqual(yield* shown("ticker=WACC&accession_number=old&owner_type=executive"), ["WACC old: Bob"])
      for (const number of ["empty", "OLD", "none"]) {
        assert.deepStrictEqual(yield* shown(`ticker=WACC&accession_number=${number}`), [])
      }
      assert.strictEqual((yield* requestInvalid("ticker=WACC&accession_number=")).field, "accession_number")
    }))

  it.effect("refuses a short owner_name, an unknown owner_type and unknown parameters (§2.7, D4)", () =>
    Effect.gen(function* () {
      yield* FilterAssertions.assertInvalidTextsRefused(requestInvalid, "owner_name", "ticker=WFA&")
      for (const type of ["", "ceo", "director,ceo", "director,"]) {
        const { field, reason } = yield* requestInvalid(`ticker=WFA&owner_type=${type}`)
        assert.strictEqual(field, "owner_type")
        assert.include(reason, "executive, director, ten_percent_owner, five_percent_owner")
      }
      const names = ["title", "sort", "min_common_shares_amount", "filed_at_from", "reported_date", "latest"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names, "ticker=WFA&")
    }))

  it.effect("the parameter `ticker` is required, and invalid symbols are dropped (§7.3, D5)", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual((yield* requestInvalid("")).fields, [{ field: "ticker", reason: "is required" }])
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
      yield* insertRows("ownership", row("WTA", "1", { owner_name: "A" }), row("WTB", "1", { owner_name: "B" }))
      const { headers } = yield* request("ticker=wtb,@@,wt%20a")
      assert.strictEqual(headers["x-dropped-tickers"], "%40%40")
      assert.deepStrictEqual(yield* shown("ticker=wtb,@@,wt%20a"), ["WTA 1: A", "WTB 1: B"])
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Loading
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("a file with placeholders and namesakes is loaded; of equal rows, only one is kept (D31, D22)", () =>
    Effect.gen(function* () {
      const header = "ticker,filed_at,form_type,accession_number,owner_name,owner_type,title,common_shares_amount," +
        "last_updated\n"
      const line = (owner: string) => `WLOAD,2025-07-01,DEF 14A,0001-25-1,${owner},2025-07-01 20:05:00\n`
      const csv = header + line(",,,") + line("Ann,director,,5") + line("Ann,director,,6") + line("Ann,director,,5") +
        line(",,,")
      assert.deepStrictEqual(yield* loaded(csv), { table: "ownership", rows: 3, dropped: 2 })
      assert.deepStrictEqual(yield* shown("ticker=WLOAD"), ["WLOAD 0001-25-1: Ann, Ann"])
      const wrong = [
        ["owner_type", "Ann,chief,,5"],
        ["common_shares_amount", "Ann,director,,5.5"],
        ["common_shares_amount", "Ann,director,,9007199254740992"],
      ] as const
      for (const [column, owner] of wrong) {
        const { message } = yield* Effect.flip(loaded(header + line("Zed,director,,1") + line(owner)))
        assert.match(message, new RegExp(`line 3: ${column} `))
      }
      assert.deepStrictEqual(yield* shown("ticker=WLOAD&owner_name=Zed"), [])
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Query plans
// ---------------------------------------------------------------------------------------------------------------------

const recorded = Layer.provideMerge(Service.layer, StatementRecorder.layer)

layer(recorded, { excludeTestServices: true })("A large ownership table", (it) => {
  it.effect("needs only index lookups for a hundred tickers, with any filter (§2.7)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into ownership (ticker, filed_at, form_type, accession_number, owner_name, owner_type, last_updated)
        select 'T' || ticker, date '2020-01-01' + filing, '4', 'n' || filing, case when filing < 9 then 'owner ' || n end,
          case when filing < 9 then 'director' end, '2025-01-02'
        from generate_series(1, 400) as ticker, generate_series(1, 10) as filing, generate_series(1, 10) as n
        on conflict do nothing
      `
      yield* sql`analyze ownership`
      const tickers = Array.from({ length: 100 }, (_, number) => `T${number * 4 + 1}`).join(",")
      for (const filter of ["", "&owner_name=owner%207", "&owner_type=director", "&owner_name=nobody", "&page=3"]) {
        const plan = JSON.stringify(
          yield* StatementRecorder.explainRequest(requestRows(`ticker=${tickers}${filter}`), "as holding"),
        )
        assert.include(plan, "ownership_ticker_filed_at_reported_date_accession_number_idx", filter)
        assert.notInclude(plan, "Seq Scan", filter)
      }
      assert.deepStrictEqual(yield* shown("ticker=T7&owner_name=owner%207"), ["T7 n8: owner 7"])
    }))
})
