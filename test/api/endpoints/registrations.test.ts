import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { valueAt, insertRows } = Service

/** Builds a row with only the required columns, plus the given fields. */
const registration = (fields: Readonly<Record<string, unknown>> & { readonly id: string }) => ({
  ticker: "ZYXA",
  headline: "A shelf",
  type: "shelf",
  form_type: "S-3",
  file_no: "333-000001",
  filed_at: "2025-07-01",
  effective_status: true,
  is_atm: false,
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const { requestColumn, requestRows, request, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  "/v1/registrations",
)

const idsOf = (query: string) => requestColumn("id", query)

const loaded = (csv: string) => ListClients.loadCsv("registrations", csv, "replace")

/** Derives a ticker from a column name. */
const tickerFor = (name: string) => `R${name.replaceAll("_", "").toUpperCase()}`.slice(0, 16)

layer(Service.layer, { excludeTestServices: true })("GET /v1/registrations", (it) => {
  it.effect("returns every field exactly as stored, with the right type (§2.1, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("registrations", {
        id: "full",
        ticker: "RFULL",
        headline: 'The "big" shelf, 50%',
        type: "equity_line",
        form_type: "S-1/A",
        file_no: "333-123456",
        filed_at: "2025-01-04",
        effective_date: "2025-02-04",
        effective_status: true,
        expiration_date: "2028-02-04",
        offering_amount: "999999999999999999.99",
        shares_registered: "9007199254740991",
        is_atm: true,
        bank: "Übelacker & Sons",
        amount_remaining_atm: "0.10",
        total_raised: "123456789012345678.91",
        amount_sold_to_date: "0",
        amount_sold_12_months: "100.00",
        high_60_day: "9999998.5678",
        baby_shelf_raisable_amount: "0.30",
        calculated_raisable_amount: "-1.5",
        over_baby_shelf: false,
        price_to_exceed_baby_shelf: "0.2900",
        details: "Line one\nline two",
        document_url: "https://example.com/a?b=c&d",
        last_updated: "2025-07-02 09:30:00",
      })
      assert.strictEqual(
        yield* requestText("ticker=RFULL"),
        `{"count":1,"results":[{"id":"full","ticker":"RFULL","headline":"The \\"big\\" shelf, 50%",` +
          `"type":"equity_line","form_type":"S-1/A","file_no":"333-123456","filed_at":"2025-01-04",` +
          `"effective_date":"2025-02-04","effective_status":true,"expiration_date":"2028-02-04",` +
          `"offering_amount":999999999999999999.99,"shares_registered":9007199254740991,"is_atm":true,` +
          `"bank":"Übelacker & Sons","amount_remaining_atm":0.1,"total_raised":123456789012345678.91,` +
          `"amount_sold_to_date":0,"amount_sold_12_months":100,"high_60_day":9999998.5678,` +
          `"baby_shelf_raisable_amount":0.3,"calculated_raisable_amount":-1.5,"over_baby_shelf":false,` +
          `"price_to_exceed_baby_shelf":0.29,"details":"Line one\\nline two",` +
          `"document_url":"https://example.com/a?b=c&d","last_updated":"2025-07-02T08:30:00-05:00"}],` +
          `"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("missing values are null, never 0 or false (D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("registrations", registration({ id: "null", ticker: "RNULL" }))
      const [row] = yield* requestRows("ticker=RNULL")
      assert.deepStrictEqual(ListClients.getNullFieldNames(row), [
        "effective_date",
        "expiration_date",
        "offering_amount",
        "shares_registered",
        "bank",
        "amount_remaining_atm",
        "total_raised",
        "amount_sold_to_date",
        "amount_sold_12_months",
        "high_60_day",
        "baby_shelf_raisable_amount",
        "calculated_raisable_amount",
        "over_baby_shelf",
        "price_to_exceed_baby_shelf",
        "details",
        "document_url",
      ])
    }))

  it.effect("last_updated is New York time printed at -05:00, an hour earlier in daylight saving time (§2.1.4, D15)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "registrations",
        ...ListClients.newYorkTimestampSamples.map(([last_updated], number) =>
          registration({ id: `clock ${number}`, ticker: "RCLOCK", last_updated })
        ),
      )
      assert.deepStrictEqual(
        yield* requestColumn("last_updated", "ticker=RCLOCK"),
        ListClients.newYorkTimestampSamples.map(([, printed]) => printed),
      )
    }))

  it.effect("the parameter `ticker` is optional, but a list without a valid symbol is refused (§7.3)", () =>
    Effect.gen(function* () {
      yield* insertRows("registrations", registration({ id: "dot", ticker: "R.DOT" }))
      assert.isAbove((yield* requestRows("")).length, 0)
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
      assert.deepStrictEqual(yield* idsOf("ticker=@@,r.%20dot"), ["dot"])
      assert.strictEqual((yield* request("ticker=@@,r.%20dot")).headers["x-dropped-tickers"], "%40%40")
    }))

  it.effect("rows are ordered by filed_at descending, then by id (§4.4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "registrations",
        registration({ id: "order c", ticker: "RORDA", filed_at: "2025-02-03" }),
        registration({ id: "order b", ticker: "RORDB", filed_at: "2025-02-04" }),
        registration({ id: "order a", ticker: "RORDA", filed_at: "2025-02-04" }),
        registration({ id: "order d", ticker: "RORDB", filed_at: "2024-12-31" }),
        registration({ id: "order e", ticker: "RORDA", filed_at: "2025-02-05" }),
      )
      const ordered = ["order e", "order a", "order b", "order c", "order d"]
      assert.deepStrictEqual(yield* idsOf("ticker=RORDB,RORDA"), ordered)
      const everything = yield* idsOf("limit=100")
      assert.deepStrictEqual(everything.filter((id) => ordered.includes(String(id))), ordered)
    }))

  it.effect("following Link to the end shows each row once, in order (D8)", () =>
    Effect.gen(function* () {
      const rows = Array.from(
        { length: 23 },
        (_, number) => registration({ id: `page ${String(number).padStart(2, "0")}`, file_no: "333-PAGE" }),
      )
      yield* insertRows("registrations", ...rows.toReversed())
      for (const limit of [1, 7, 23, 100]) {
        const seen = yield* readAllPages("file_no=333-PAGE", limit)
        assert.deepStrictEqual(seen.map((row) => valueAt(row, "id")), rows.map(({ id }) => id))
      }
    }))

  it.effect("the parameter `type` takes one or several of its values (§4.4)", () =>
    Effect.gen(function* () {
      const words = ["equity_line", "offering", "resale", "shelf"]
      yield* insertRows("registrations", ...words.map((type) => registration({ id: type, ticker: "RTYPE", type })))
      const find = (query: string) => idsOf(`ticker=RTYPE&${query}`)
      yield* FilterAssertions.assertEnumFilter(
        { find, requestInvalid },
        "type",
        "shelf, equity_line, offering, resale",
        words.map((word) => [word, word]),
      )
    }))

  it.effect("form_type and file_no take one or several exact values (§4.4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "registrations",
        registration({ id: "form 1", ticker: "RFORM", form_type: "S-1", file_no: "333-1" }),
        registration({ id: "form 2", ticker: "RFORM", form_type: "S-1/A", file_no: "333-2" }),
        registration({ id: "form 3", ticker: "RFORM", form_type: "O'Neil\\%_", file_no: "333-3" }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=RFORM&form_type=S-1"), ["form 1"])
      assert.deepStrictEqual(yield* idsOf("ticker=RFORM&form_type=S-1/A,%20S-1"), ["form 1", "form 2"])
      assert.deepStrictEqual(yield* idsOf("ticker=RFORM&form_type=s-1"), ["form 1"])
      assert.deepStrictEqual(yield* idsOf("ticker=RFORM&form_type=S%25"), [])
      assert.deepStrictEqual(yield* idsOf("ticker=RFORM&form_type=O'Neil%5C%25_"), ["form 3"])
      assert.deepStrictEqual(yield* idsOf("ticker=RFORM&file_no=333-3,333-2"), ["form 2", "form 3"])
      assert.deepStrictEqual(yield* idsOf("ticker=RFORM&file_no=333"), [])
      for (const name of ["form_type", "file_no"]) {
        for (const sent of ["", "S-1,", "%00"]) {
          assert.strictEqual((yield* requestInvalid(`${name}=${sent}`)).field, name)
        }
      }
    }))

  it.effect("the parameter `bank` matches part of the text, ignoring case; %, _, quotes and backslashes are literal (§4.4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "registrations",
        ...FilterAssertions.sampleTexts.map((bank) => registration({ id: bank, ticker: "RBANK", bank })),
        registration({ id: "bank null", ticker: "RBANK" }),
      )
      const find = (bank: string) => idsOf(`ticker=RBANK&bank=${encodeURIComponent(bank)}`)
      yield* FilterAssertions.assertContainsFilter({ find, requestInvalid }, "bank")
    }))

  it.effect.each(["effective_status", "is_atm", "over_baby_shelf"])(
    "the parameter %s takes true or false (§4.4)",
    (name) =>
      Effect.gen(function* () {
        const ticker = tickerFor(name)
        yield* insertRows(
          "registrations",
          registration({ id: `${name} no`, ticker, [name]: false }),
          registration({ id: `${name} yes`, ticker, [name]: true }),
        )
        const find = (query: string) => idsOf(`ticker=${ticker}&${query}`)
        yield* FilterAssertions.assertBooleanFilter({ find, requestInvalid }, name, {
          yes: [`${name} yes`],
          no: [`${name} no`],
        })
      }),
  )

  it.effect("over_baby_shelf takes true or false, and null matches neither (D9, §4.4)", () =>
    Effect.gen(function* () {
      yield* insertRows("registrations", registration({ id: "unknown", ticker: "ROVER" }))
      assert.deepStrictEqual(yield* idsOf("ticker=ROVER&over_baby_shelf=true"), [])
      assert.deepStrictEqual(yield* idsOf("ticker=ROVER&over_baby_shelf=false"), [])
    }))

  it.effect.each(["offering_amount", "total_raised", "amount_sold_to_date", "calculated_raisable_amount"])(
    "the bounds of %s are inclusive and compare exact decimals, and null never matches (D9)",
    (name) =>
      Effect.gen(function* () {
        const ticker = tickerFor(name)
        // Only the calculated amount can be negative (D34).
        const least = name === "calculated_raisable_amount" ? "-0.01" : "0.01"
        const values = [least, "0.02", "0.3", "75000000", "999999999999999999.99"]
        const keys = values.map((_, number) => `${name} ${number}`)
        yield* insertRows(
          "registrations",
          ...values.map((value, number) => registration({ id: `${name} ${number}`, ticker, [name]: value })),
          registration({ id: `${name} null`, ticker }),
        )
        const find = (query: string) => idsOf(`ticker=${ticker}&${query}`)
        yield* FilterAssertions.assertRangeFilter({ find, requestInvalid }, name, { values, keys })
        assert.deepStrictEqual(yield* find(`min_${name}=0.30001&max_${name}=7.5e7`), [keys[3]])
        assert.deepStrictEqual(yield* find(`min_${name}=-1e300&max_${name}=${least}`), [keys[0]])
        assert.deepStrictEqual(yield* find(`min_${name}=999999999999999999.991`), [])
      }),
  )

  it.effect.each(["filed_at", "effective_date", "expiration_date"])(
    "the range of %s is inclusive and must be in order, and null never matches (D7, §4.4)",
    (name) =>
      Effect.gen(function* () {
        const ticker = tickerFor(name)
        yield* insertRows(
          "registrations",
          ...FilterAssertions.sampleDays.map((day) =>
            registration({ id: `${name} ${day}`, ticker, filed_at: day, [name]: day })
          ),
          ...(name === "filed_at" ? [] : [registration({ id: `${name} null`, ticker })]),
        )
        const find = (query: string) => requestColumn(name, `ticker=${ticker}&${query}`)
        yield* FilterAssertions.assertDayRangeFilter({ find, requestInvalid }, name)
      }),
  )

  it.effect("expiration_date may be in the future, and a reversed range is still refused (§4.4, §7.2)", () =>
    Effect.gen(function* () {
      yield* insertRows("registrations", registration({ id: "future", ticker: "RFUT", expiration_date: "2199-01-01" }))
      const find = (query: string) => idsOf(`ticker=RFUT&${query}`)
      yield* FilterAssertions.assertFutureDaysFound({ find, requestInvalid }, "expiration_date", "future")
    }))

  it.effect.each(["filed_at_from", "filed_at_to", "effective_date_from", "effective_date_to"])(
    "%s refuses future days with the reason and accepts today (§4.4, §7.2, D7)",
    (name) =>
      Effect.gen(function* () {
        yield* FilterAssertions.assertFutureDaysRefused({ requestRows, requestInvalid }, [name])
      }),
  )

  it.effect("refuses the parameter `date`, and the filters of other endpoints (D4)", () =>
    Effect.gen(function* () {
      const names = ["date", "min_shares_registered", "headline", "lock_up_expiration_from", "sort"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))

  it.effect("filters are combined with AND (§4.4)", () =>
    Effect.gen(function* () {
      const all = { ticker: "RMIX", type: "resale", bank: "Mixed Bank", is_atm: true, total_raised: "10" }
      yield* insertRows(
        "registrations",
        registration({ id: "mix", ...all }),
        registration({ id: "mix ticker", ...all, ticker: "RMIY" }),
        registration({ id: "mix type", ...all, type: "shelf" }),
        registration({ id: "mix bank", ...all, bank: "Fixed Bank" }),
        registration({ id: "mix atm", ...all, is_atm: false }),
        registration({ id: "mix raised", ...all, total_raised: "9.99" }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=RMIX&type=resale&bank=mixed&is_atm=true&min_total_raised=10"), [
        "mix",
      ])
    }))

  it.effect("a file is loaded; unknown enum values are refused (D31)", () =>
    Effect.gen(function* () {
      const header = "id,ticker,headline,type,form_type,file_no,filed_at,effective_status,is_atm,offering_amount," +
        "last_updated\n"
      const line = (id: string, type = "shelf", form = "S-3", amount = "1.5") =>
        `${id},RLOAD,A shelf,${type},${form},333-1,2025-07-01,true,false,${amount},2025-07-01 20:05:00\n`
      assert.deepStrictEqual(yield* loaded(header + line("one") + line("two", "resale", "S-1", "")), {
        table: "registrations",
        rows: 2,
        dropped: 0,
      })
      assert.deepStrictEqual(yield* idsOf("ticker=RLOAD"), ["one", "two"])
      assert.deepStrictEqual(yield* idsOf("ticker=RLOAD&min_offering_amount=1.5"), ["one"])
      const bad = [
        [line("a", "atm"), /line 2: type /],
        [line("a", "shelf", "S-3", "1.555"), /line 2: offering_amount must be a decimal number/],
        [line(" ", "shelf"), /line 2: id must not be empty$/m],
      ] as const
      for (const [content, reason] of bad) {
        const { message } = yield* Effect.flip(loaded(header + content))
        assert.match(message, reason)
        assert.deepStrictEqual(yield* idsOf("ticker=RLOAD"), ["one", "two"])
      }
    }))
})
