import { assert, layer } from "@effect/vitest"
import { Effect, Predicate } from "effect"
import { SqlClient } from "effect/sql"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { valueAt, insertRows } = Service

/** Builds a row with only the required columns, plus the given fields. */
const security = (fields: Readonly<Record<string, unknown>> & { readonly id: string }) => ({
  ticker: "ZYXA",
  security_type: "warrant",
  details: "Series A",
  filed_at: "2025-07-01",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const paths = ["/v1/dilution-data", "/v1/dilution-data-advanced"] as const

const [base, more] = [ListClients.makeListClient(paths[0]), ListClients.makeListClient(paths[1])]

const clients = [base, more]

/** Both endpoints, each with its own client and a number for separate tickers. */
const each = [{ path: paths[0], client: base, number: 0 }, { path: paths[1], client: more, number: 1 }]

const advanced = (query: string) => more.requestColumn("id", query)

/** Returns query helpers that always send the `ticker` parameter, which one of the two endpoints requires. */
const makeTickerQueries = (client: typeof base, ticker: string, name = "id") => ({
  find: (query: string) => client.requestColumn(name, `ticker=${ticker}&${query}`),
  requestRows: (query: string) => client.requestRows(`ticker=${ticker}&${query}`),
  requestInvalid: (query: string) => client.requestInvalid(`ticker=${ticker}&${query}`),
})

const keysOf = (row: unknown) => Predicate.isObject(row) ? Object.keys(row) : []

const loaded = (csv: string) => ListClients.loadCsv("dilution-data", csv, "replace")

const fullWarrant = {
  id: "full warrant",
  ticker: "DFULL",
  security_type: "prefunded_warrant",
  details: 'Series "A", 50%',
  floor_price: "9999998.678",
  registered: true,
  filed_at: "2025-01-04",
  form_type: "8-K",
  accession_number: "0001234567-25-000001",
  document_url: "https://example.com/a?b=c&d",
  last_updated: "2025-07-02 09:30:00",
  warrants_amount: "9007199254740991",
  warrants_remaining: "0",
  warrants_exercise_price: "9999998.5678",
  prefunded_cost: "0.0001",
  exercisable_date: "2025-02-03",
  expiration_date: "2030-02-03",
  underlying_shares_remaining: "9007199254740990",
  bank: "Übelacker & Sons",
  owners: ["Alpha, LP", 'Beta "B"'],
  price_protection: "full ratchet",
  price_protection_clause: "Section 3(b)\nand 4",
  reset_date: "2026-02-03",
  beneficial_ownership_blocker_percentage: "4.9900",
  registration_file_no: "333-123456",
}

const fullConvertible = {
  id: "full convertible",
  ticker: "DFULL",
  security_type: "convertible_note",
  details: "Note",
  floor_price: "0.290",
  registered: false,
  filed_at: "2025-01-03",
  last_updated: "2025-01-02 09:30:00",
  conversion_price: "0.3000",
  conversion_price_type: "variable",
  offering_amount: "999999999999999999.99",
  convertible_debt_remaining: "123456789012345678.91",
  interest_rate_percentage: "8.1",
  convertible_date: "2025-03-04",
  maturity_date: "2199-03-04",
  underlying_shares_remaining: "12",
}

const warrantText = `{"id":"full warrant","ticker":"DFULL","security_type":"prefunded_warrant",` +
  `"details":"Series \\"A\\", 50%","floor_price":9999998.678,"registered":true,"filed_at":"2025-01-04",` +
  `"form_type":"8-K","accession_number":"0001234567-25-000001","document_url":"https://example.com/a?b=c&d",` +
  `"last_updated":"2025-07-02T08:30:00-05:00","warrants_amount":9007199254740991,"warrants_remaining":0,` +
  `"warrants_exercise_price":9999998.5678,"prefunded_cost":0.0001,"exercisable_date":"2025-02-03",` +
  `"expiration_date":"2030-02-03","underlying_shares_remaining":9007199254740990`

const convertibleText = `{"id":"full convertible","ticker":"DFULL","security_type":"convertible_note",` +
  `"details":"Note","floor_price":0.29,"registered":false,"filed_at":"2025-01-03","form_type":null,` +
  `"accession_number":null,"document_url":null,"last_updated":"2025-01-02T09:30:00-05:00","conversion_price":0.3,` +
  `"conversion_price_type":"variable","offering_amount":999999999999999999.99,` +
  `"convertible_debt_remaining":123456789012345678.91,"interest_rate_percentage":8.1,` +
  `"convertible_date":"2025-03-04","maturity_date":"2199-03-04","underlying_shares_remaining":12`

const advancedOfWarrant = `,"bank":"Übelacker & Sons","owners":["Alpha, LP","Beta \\"B\\""],` +
  `"price_protection":"full ratchet","price_protection_clause":"Section 3(b)\\nand 4","reset_date":"2026-02-03",` +
  `"beneficial_ownership_blocker_percentage":4.99,"registration_file_no":"333-123456"`

const advancedOfConvertible = `,"bank":null,"owners":[],"price_protection":null,"price_protection_clause":null,` +
  `"reset_date":null,"beneficial_ownership_blocker_percentage":null,"registration_file_no":null`

layer(Service.layer, { excludeTestServices: true })("GET /v1/dilution-data and /v1/dilution-data-advanced", (it) => {
  it.effect("return warrants and convertibles exactly as stored, each type with only its own fields (§2.5, §2.1, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("dilution_data", fullWarrant, fullConvertible)
      const response = (warrant: string, convertible: string) =>
        `{"count":2,"results":[${warrantText}${warrant}},${convertibleText}${convertible}}],` +
        `"page":1,"limit":10,"has_more":false}`
      assert.strictEqual(yield* base.requestText("ticker=DFULL"), response("", ""))
      assert.strictEqual(yield* more.requestText("ticker=DFULL"), response(advancedOfWarrant, advancedOfConvertible))
    }))

  it.effect("missing values are null, and fields of the other type are absent (§2.5, D16)", () =>
    Effect.gen(function* () {
      const common = ["floor_price", "registered", "form_type", "accession_number", "document_url"]
      const ofWarrant = [
        "warrants_amount",
        "warrants_remaining",
        "warrants_exercise_price",
        "prefunded_cost",
        "exercisable_date",
        "expiration_date",
      ]
      const ofConvertible = [
        "conversion_price",
        "conversion_price_type",
        "offering_amount",
        "convertible_debt_remaining",
        "interest_rate_percentage",
        "convertible_date",
        "maturity_date",
      ]
      const ofAdvanced = [
        "bank",
        "price_protection",
        "price_protection_clause",
        "reset_date",
        "beneficial_ownership_blocker_percentage",
        "registration_file_no",
      ]
      const kinds = [
        ["warrant", ofWarrant, ofConvertible],
        ["prefunded_warrant", ofWarrant, ofConvertible],
        ["convertible_note", ofConvertible, ofWarrant],
        ["convertible_preferred", ofConvertible, ofWarrant],
      ] as const
      for (const [security_type, own, foreign] of kinds) {
        yield* insertRows("dilution_data", security({ id: `null ${security_type}`, ticker: "DNULL", security_type }))
        for (const client of clients) {
          const [row] = yield* client.requestRows(`ticker=DNULL&security_type=${security_type}`)
          const expected = [...common, ...own, "underlying_shares_remaining", ...(client === more ? ofAdvanced : [])]
          assert.deepStrictEqual(ListClients.getNullFieldNames(row), expected)
          assert.deepStrictEqual(keysOf(row).filter((name) => foreign.some((other) => other === name)), [])
        }
      }
    }))

  it.effect("floor_price has up to three decimals (§2.5)", () =>
    Effect.gen(function* () {
      const floors = ["0.001", "0.29", "1", "1.005", "9999999"]
      yield* insertRows(
        "dilution_data",
        ...floors.map((floor_price, number) =>
          security({
            id: `floor ${number}`,
            ticker: "DFLOOR",
            security_type: number % 2 === 0 ? "warrant" : "convertible_preferred",
            floor_price,
          })
        ),
      )
      for (const client of clients) {
        const text = yield* client.requestText("ticker=DFLOOR")
        assert.deepStrictEqual(Array.from(text.matchAll(/"floor_price":([^,]*)/g), ([, digits]) => digits), floors)
      }
    }))

  it.effect("last_updated is New York time printed at -05:00, an hour earlier in daylight saving time (§2.1.4, D15)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "dilution_data",
        ...ListClients.newYorkTimestampSamples.map(([last_updated], number) =>
          security({ id: `clock ${number}`, ticker: "DCLOCK", last_updated })
        ),
      )
      for (const client of clients) {
        assert.deepStrictEqual(
          yield* client.requestColumn("last_updated", "ticker=DCLOCK"),
          ListClients.newYorkTimestampSamples.map(([, printed]) => printed),
        )
      }
    }))

  it.effect("the parameter `ticker` is required on dilution-data and optional on dilution-data-advanced (§4.5, §7.3)", () =>
    Effect.gen(function* () {
      yield* insertRows("dilution_data", security({ id: "dot", ticker: "D.DOT" }))
      for (const query of ["", "security_type=warrant", "registered=true&limit=5"]) {
        const { fields, message } = yield* base.requestInvalid(query)
        assert.deepStrictEqual(fields, [{ field: "ticker", reason: "is required" }])
        assert.strictEqual(message, "ticker is required")
        yield* more.requestRows(query)
      }
      assert.isAbove((yield* advanced("")).length, 0)
      for (const { requestColumn, request, requestInvalid } of clients) {
        yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
        assert.deepStrictEqual(yield* requestColumn("id", "ticker=@@,d.%20dot"), ["dot"])
        assert.strictEqual((yield* request("ticker=@@,d.%20dot")).headers["x-dropped-tickers"], "%40%40")
      }
    }))

  it.effect("rows of both types are ordered by filed_at descending, then by id (§4.5)", () =>
    Effect.gen(function* () {
      const note = { security_type: "convertible_note" }
      yield* insertRows(
        "dilution_data",
        security({ id: "order c", ticker: "DORDA", filed_at: "2025-02-03" }),
        security({ id: "order b", ticker: "DORDB", filed_at: "2025-02-04" }),
        security({ id: "order a", ticker: "DORDA", filed_at: "2025-02-04", ...note }),
        security({ id: "order d", ticker: "DORDB", filed_at: "2024-12-31", ...note }),
        security({ id: "order e", ticker: "DORDA", filed_at: "2025-02-05" }),
      )
      const ordered = ["order e", "order a", "order b", "order c", "order d"]
      for (const { requestColumn } of clients) {
        assert.deepStrictEqual(yield* requestColumn("id", "ticker=DORDB,DORDA"), ordered)
      }
      const everything = yield* advanced("limit=100")
      assert.deepStrictEqual(
        everything.filter((id) => ordered.includes(String(id))),
        ordered,
      )
    }))

  it.effect("following Link to the end shows each row once, in order (D8)", () =>
    Effect.gen(function* () {
      const rows = Array.from({ length: 23 }, (_, number) =>
        security({
          id: `page ${String(number).padStart(2, "0")}`,
          ticker: "DPAGE",
          security_type: number % 3 === 0 ? "convertible_note" : "warrant",
        }))
      yield* insertRows("dilution_data", ...rows.toReversed())
      for (const [client, limit] of [[base, 7], [base, 100], [more, 1], [more, 23]] as const) {
        const seen = yield* client.readAllPages("ticker=DPAGE", limit)
        assert.deepStrictEqual(seen.map((row) => valueAt(row, "id")), rows.map(({ id }) => id))
      }
    }))

  it.effect.each(each)(
    "security_type takes one or several of its values: $path (§4.5)",
    ({ number, client }) =>
      Effect.gen(function* () {
        const words = ["convertible_note", "convertible_preferred", "prefunded_warrant", "warrant"]
        const ticker = `DTYPE${number}`
        yield* insertRows(
          "dilution_data",
          ...words.map((word) => security({ id: `${ticker} ${word}`, ticker, security_type: word })),
        )
        yield* FilterAssertions.assertEnumFilter(
          makeTickerQueries(client, ticker),
          "security_type",
          "warrant, prefunded_warrant, convertible_note, convertible_preferred",
          words.map((word) => [word, `${ticker} ${word}`]),
        )
      }),
  )

  it.effect.each(each)(
    "the parameter `registered` takes true or false, and null matches neither: $path (§4.5)",
    ({ number, client }) =>
      Effect.gen(function* () {
        const ticker = `DREG${number}`
        yield* insertRows(
          "dilution_data",
          security({ id: `${ticker} yes`, ticker, registered: true }),
          security({ id: `${ticker} no`, ticker, registered: false }),
          security({ id: `${ticker} unknown`, ticker }),
        )
        yield* FilterAssertions.assertBooleanFilter(makeTickerQueries(client, ticker), "registered", {
          yes: [`${ticker} yes`],
          no: [`${ticker} no`],
        })
      }),
  )

  it.effect.each(each)(
    "floor_price and underlying_shares_remaining have inclusive, exact bounds: $path (D9)",
    ({ number, client }) =>
      Effect.gen(function* () {
        const ticker = `DMIN${number}`
        const floors = ["0.001", "0.29", "0.3", "9999998.999"]
        const shares = ["0", "1", "75000000", "9007199254740991"]
        yield* insertRows(
          "dilution_data",
          ...floors.map((floor_price, number) =>
            security({
              id: `${ticker} ${number}`,
              ticker,
              security_type: number < 2 ? "warrant" : "convertible_note",
              floor_price,
              underlying_shares_remaining: shares[number],
            })
          ),
          security({ id: `${ticker} null`, ticker }),
        )
        const keys = floors.map((_, number) => `${ticker} ${number}`)
        const rows = makeTickerQueries(client, ticker)
        yield* FilterAssertions.assertRangeFilter(rows, "floor_price", { values: floors, keys })
        yield* FilterAssertions.assertRangeFilter(rows, "underlying_shares_remaining", { values: shares, keys })
        assert.deepStrictEqual(yield* rows.find("min_floor_price=0.2901&max_floor_price=0.2999"), [])
        assert.deepStrictEqual(yield* rows.find("min_underlying_shares_remaining=0.5"), keys.slice(1))
      }),
  )

  it.effect.each(
    [
      ["filed_at", "warrant"],
      ["expiration_date", "warrant"],
      ["maturity_date", "convertible_note"],
    ] as const,
  )(
    "the range of %s is inclusive and must be in order, and null never matches (D7)",
    ([name, security_type]) =>
      Effect.gen(function* () {
        const ticker = `D${name.replaceAll("_", "").toUpperCase()}`
        yield* insertRows(
          "dilution_data",
          ...FilterAssertions.sampleDays.map((day) =>
            security({ id: `${name} ${day}`, ticker, security_type, filed_at: day, [name]: day })
          ),
          ...(name === "filed_at" ? [] : [security({ id: `${name} null`, ticker })]),
        )
        for (const client of clients) {
          yield* FilterAssertions.assertDayRangeFilter(makeTickerQueries(client, ticker, name), name)
        }
      }),
  )

  it.effect.each(each)(
    "filed_at must not be in the future; expiration_date and maturity_date may be: $path (§7.2, D7)",
    ({ number, client }) =>
      Effect.gen(function* () {
        const ticker = `DFUT${number}`
        yield* insertRows(
          "dilution_data",
          security({ id: `${ticker} expiration_date`, ticker, expiration_date: "2199-01-01" }),
          security({
            id: `${ticker} maturity_date`,
            ticker,
            security_type: "convertible_note",
            maturity_date: "2199-01-01",
          }),
        )
        for (const name of ["expiration_date", "maturity_date"]) {
          yield* FilterAssertions.assertFutureDaysFound(makeTickerQueries(client, ticker), name, `${ticker} ${name}`)
        }
        yield* FilterAssertions.assertFutureDaysRefused(makeTickerQueries(client, ticker), [
          "filed_at_from",
          "filed_at_to",
        ])
      }),
  )

  it.effect.each(["bank", "price_protection"])(
    "the parameter %s matches part of the text, ignoring case; %%, _, quotes and backslashes are literal (§4.5)",
    (name) =>
      Effect.gen(function* () {
        const ticker = `D${name.replaceAll("_", "").toUpperCase()}`.slice(0, 16)
        yield* insertRows(
          "dilution_data",
          ...FilterAssertions.sampleTexts.map((text) => security({ id: `${name} ${text}`, ticker, [name]: text })),
          security({ id: `${name} null`, ticker }),
        )
        const find = (part: string) => more.requestColumn(name, `ticker=${ticker}&${name}=${encodeURIComponent(part)}`)
        yield* FilterAssertions.assertContainsFilter({ find, requestInvalid: more.requestInvalid }, name)
      }),
  )

  it.effect("the parameter `owner` matches part of one name, ignoring case, and never spans two names (§4.5)", () =>
    Effect.gen(function* () {
      const lists = [
        ["Alpha Fund", "Beta Capital, LP"],
        ["100% Bank_of 'A' \\ B", 'ÜBER "Q"'],
        ["100x Banknof"],
        ["Line\nBreak Fund"],
        [],
      ]
      yield* insertRows(
        "dilution_data",
        ...lists.map((owners, number) => security({ id: `owner ${number}`, ticker: "DOWNER", owners })),
      )
      const find = (text: string) =>
        Effect.map(
          advanced(`ticker=DOWNER&owner=${encodeURIComponent(text)}`),
          (ids) => ids.map((id) => Number(String(id).at(-1))),
        )
      assert.deepStrictEqual(yield* find("ALPHA fund"), [0])
      assert.deepStrictEqual(yield* find("a capital, l"), [0])
      assert.deepStrictEqual(yield* find("fund"), [0, 3])
      assert.deepStrictEqual(yield* find("100% bank_of 'a' \\ b"), [1])
      assert.deepStrictEqual(yield* find('über "q"'), [1])
      assert.deepStrictEqual(yield* find("e\nb"), [3])
      const misses = ["%%%", "___", "A%a", "\\\\\\", "fund\nbeta", "fund,beta", "FundBeta", "Fund Beta", '","', "{}}"]
      for (const miss of misses) assert.deepStrictEqual(yield* find(miss), [], miss)
      yield* FilterAssertions.assertInvalidTextsRefused(more.requestInvalid, "owner")
    }))

  it.effect("the owner filter uses an index for parts of names (§4.5)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const plan = yield* sql.withTransaction(Effect.andThen(
        sql`set local enable_seqscan = off`,
        sql`explain select id from dilution_data where joined(owners) ilike '%alpha%'`,
      ))
      assert.include(JSON.stringify(plan), "Bitmap Index Scan on dilution_data_joined_idx")
    }))

  it.effect("dilution-data refuses the filters of dilution-data-advanced (D4)", () =>
    Effect.gen(function* () {
      const names = ["owner", "bank", "price_protection", "owners", "date", "min_conversion_price"]
      yield* FilterAssertions.assertUnknownParametersRefused(base.requestInvalid, names, "ticker=A&")
      yield* FilterAssertions.assertUnknownParametersRefused(more.requestInvalid, [
        "owners",
        "date",
        "min_conversion_price",
        "reset_date_from",
      ])
    }))

  it.effect("filters are combined with AND (§4.5)", () =>
    Effect.gen(function* () {
      const all = { ticker: "DMIX", registered: true, floor_price: "1", bank: "Mixed", owners: ["Zeta", "Eta One"] }
      yield* insertRows(
        "dilution_data",
        security({ id: "mix", ...all }),
        security({ id: "mix ticker", ...all, ticker: "DMIY" }),
        security({ id: "mix type", ...all, security_type: "convertible_note" }),
        security({ id: "mix registered", ...all, registered: false }),
        security({ id: "mix floor", ...all, floor_price: "0.999" }),
        security({ id: "mix bank", ...all, bank: "Fixed" }),
        security({ id: "mix owner", ...all, owners: ["Zeta"] }),
      )
      const basic = "ticker=DMIX&security_type=warrant&registered=true&min_floor_price=1"
      assert.deepStrictEqual(yield* base.requestColumn("id", basic), ["mix", "mix bank", "mix owner"])
      assert.deepStrictEqual(yield* advanced(`${basic}&bank=mixed&owner=one`), ["mix"])
    }))

  it.effect("the table refuses a warrant with a convertible's columns, and a convertible with a warrant's columns (D31)", () =>
    Effect.gen(function* () {
      const strays = [
        ["warrant", "maturity_date", "2025-01-01"],
        ["prefunded_warrant", "conversion_price_type", "fixed"],
        ["convertible_note", "warrants_amount", "0"],
        ["convertible_preferred", "expiration_date", "2025-01-01"],
      ] as const
      for (const [security_type, column, value] of strays) {
        const stray = insertRows("dilution_data", security({ id: "stray", security_type, [column]: value }))
        assert.strictEqual((yield* Effect.flip(stray)).reason._tag, "ConstraintError")
      }
    }))

  it.effect("a loaded file becomes rows of both types, which filters find (D31)", () =>
    Effect.gen(function* () {
      const header = "id,ticker,security_type,details,floor_price,filed_at,warrants_amount,maturity_date,owners," +
        "last_updated\n"
      const line = (fields: Readonly<Record<string, string>> = {}) => {
        const cells = { id: "a", type: "warrant", details: "Series A", floor: "", amount: "", maturity: "", ...fields }
        return `${cells.id},DLOAD,${cells.type},${cells.details},${cells.floor},2025-07-01,${cells.amount},` +
          `${cells.maturity},"[""Load Fund""]",2025-07-01 20:05:00\n`
      }
      const note = { id: "note", type: "convertible_note", maturity: "2199-01-01" }
      const good = header + line({ id: "cash", amount: "5", floor: "0.125" }) + line(note)
      assert.deepStrictEqual(yield* loaded(good), { table: "dilution_data", rows: 2, dropped: 0 })
      assert.deepStrictEqual(yield* advanced("owner=load"), ["cash", "note"])
      assert.deepStrictEqual(yield* advanced("owner=load&min_floor_price=0.125"), ["cash"])
      assert.deepStrictEqual(yield* base.requestColumn("id", "ticker=DLOAD&maturity_date_from=2199-01-01"), ["note"])
      const bad = [
        [line({ type: "note" }), /line 2: security_type /],
        [line({ details: " " }), /line 2: details must not be empty/],
        [line({ floor: "0.1255" }), /line 2: floor_price must be a decimal number .*and 3 after it/],
        [line({ maturity: "2030-01-01" }), /line 2: maturity_date must be empty in a warrant, but is "2030-01-01"$/m],
        [line({ ...note, amount: "0" }), /line 2: warrants_amount must be empty in a convertible_note/],
      ] as const
      for (const [content, reason] of bad) {
        const { message } = yield* Effect.flip(loaded(header + content))
        assert.match(message, reason)
        assert.deepStrictEqual(yield* advanced(""), ["cash", "note"])
      }
    }))
})
