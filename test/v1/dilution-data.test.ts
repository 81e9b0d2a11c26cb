import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Predicate, Ref } from "effect"
import { SqlClient } from "effect/sql"
import { load } from "../../src/load/Load.ts"
import { todayInNewYork } from "../../src/policy/Dates.ts"
import * as Service from "../support/Service.ts"

const { ask, at, insert } = Service

/** What a row cannot do without. */
const security = (fields: Readonly<Record<string, unknown>> & { readonly id: string }) => ({
  ticker: "ZYXA",
  security_type: "warrant",
  details: "Series A",
  filed_at: "2025-07-01",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const rowsOf = (body: unknown): ReadonlyArray<unknown> => {
  const results = at(body, "results")
  return Array.isArray(results) ? results : []
}

const paths = ["/v1/dilution-data", "/v1/dilution-data-advanced"] as const

const idsOf = (path: string, query: string) =>
  Effect.map(ask(`${path}?${query}`), ({ body }) => rowsOf(body).map((row) => at(row, "id")))

const advanced = (query: string) => idsOf("/v1/dilution-data-advanced", query)

const refused = Effect.fnUntraced(function* (path: string, query: string) {
  const { body, status, text } = yield* ask(`${path}?${query}`)
  assert.strictEqual(status, 422, `${path}?${query}: ${text}`)
  assert.strictEqual(at(body, "error", "code"), "validation_error")
  return {
    message: String(at(body, "error", "message")),
    field: at(body, "error", "details", "fields", 0, "field"),
  }
})

const keysOf = (row: unknown) => Predicate.isObject(row) ? Object.keys(row) : []

const loaded = Effect.fnUntraced(function* (csv: string) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-dilution-data-" })}/rows.csv`
  yield* fs.writeFileString(file, csv)
  return yield* load({ dataset: "dilution-data", file, append: false, check: false }, yield* Ref.make(0))
})

const fullWarrant = {
  id: "full warrant",
  ticker: "DFULL",
  security_type: "prefunded_warrant",
  details: 'Series "A", 50%',
  floor_price: "123456789012345.678",
  registered: true,
  filed_at: "2025-01-04",
  form_type: "8-K",
  accession_number: "0001234567-25-000001",
  document_url: "https://example.com/a?b=c&d",
  last_updated: "2025-07-02 09:30:00",
  warrants_amount: "9007199254740991",
  warrants_remaining: "0",
  warrants_exercise_price: "12345678901234.5678",
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
  maturity_date: "2999-03-04",
  underlying_shares_remaining: "12",
}

const warrantText = `{"id":"full warrant","ticker":"DFULL","security_type":"prefunded_warrant",` +
  `"details":"Series \\"A\\", 50%","floor_price":123456789012345.678,"registered":true,"filed_at":"2025-01-04",` +
  `"form_type":"8-K","accession_number":"0001234567-25-000001","document_url":"https://example.com/a?b=c&d",` +
  `"last_updated":"2025-07-02T08:30:00-05:00","warrants_amount":9007199254740991,"warrants_remaining":0,` +
  `"warrants_exercise_price":12345678901234.5678,"prefunded_cost":0.0001,"exercisable_date":"2025-02-03",` +
  `"expiration_date":"2030-02-03","underlying_shares_remaining":9007199254740990`

const convertibleText = `{"id":"full convertible","ticker":"DFULL","security_type":"convertible_note",` +
  `"details":"Note","floor_price":0.29,"registered":false,"filed_at":"2025-01-03","form_type":null,` +
  `"accession_number":null,"document_url":null,"last_updated":"2025-01-02T09:30:00-05:00","conversion_price":0.3,` +
  `"conversion_price_type":"variable","offering_amount":999999999999999999.99,` +
  `"convertible_debt_remaining":123456789012345678.91,"interest_rate_percentage":8.1,` +
  `"convertible_date":"2025-03-04","maturity_date":"2999-03-04","underlying_shares_remaining":12`

const advancedOfWarrant = `,"bank":"Übelacker & Sons","owners":["Alpha, LP","Beta \\"B\\""],` +
  `"price_protection":"full ratchet","price_protection_clause":"Section 3(b)\\nand 4","reset_date":"2026-02-03",` +
  `"beneficial_ownership_blocker_percentage":4.99,"registration_file_no":"333-123456"`

const advancedOfConvertible = `,"bank":null,"owners":[],"price_protection":null,"price_protection_clause":null,` +
  `"reset_date":null,"beneficial_ownership_blocker_percentage":null,"registration_file_no":null`

layer(Service.layer, { excludeTestServices: true })("GET /v1/dilution-data and /v1/dilution-data-advanced", (it) => {
  it.effect("§2.5 §2.1 D16 print warrants and convertibles, each with its own fields only, exactly as stored", () =>
    Effect.gen(function* () {
      yield* insert("dilution_data", fullWarrant, fullConvertible)
      const answer = (warrant: string, convertible: string) =>
        `{"count":2,"results":[${warrantText}${warrant}},${convertibleText}${convertible}}],` +
        `"page":1,"limit":10,"has_more":false}`
      const basic = yield* ask("/v1/dilution-data?ticker=DFULL")
      assert.strictEqual(basic.status, 200)
      assert.match(String(basic.headers["content-type"]), /^application\/json/)
      assert.strictEqual(basic.text, answer("", ""))
      const more = yield* ask("/v1/dilution-data-advanced?ticker=DFULL")
      assert.strictEqual(more.status, 200)
      assert.strictEqual(more.text, answer(advancedOfWarrant, advancedOfConvertible))
    }))

  it.effect("§2.5 D16 what is missing is null; fields of the other kind are not there", () =>
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
      const more = [
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
        yield* insert("dilution_data", security({ id: `null ${security_type}`, ticker: "DNULL", security_type }))
        for (const path of paths) {
          const { body } = yield* ask(`${path}?ticker=DNULL&security_type=${security_type}`)
          const row = rowsOf(body)[0]
          const missing = keysOf(row).filter((name) => at(row, name) === null)
          const expected = [...common, ...own, "underlying_shares_remaining", ...(path === paths[1] ? more : [])]
          assert.deepStrictEqual(missing, expected)
          assert.deepStrictEqual(keysOf(row).filter((name) => foreign.some((other) => other === name)), [])
        }
      }
    }))

  it.effect("§2.5 floor_price has up to three decimals", () =>
    Effect.gen(function* () {
      const floors = ["0.001", "0.29", "1", "1.005", "999999999999999.999"]
      yield* insert(
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
      for (const path of paths) {
        const { text } = yield* ask(`${path}?ticker=DFLOOR`)
        assert.deepStrictEqual(Array.from(text.matchAll(/"floor_price":([^,]*)/g), ([, digits]) => digits), floors)
      }
    }))

  it.effect("§2.1.4 D15 last_updated is New York's clock: an hour earlier in daylight time", () =>
    Effect.gen(function* () {
      const clocks = [
        ["2025-01-15 16:00:00", "2025-01-15T16:00:00-05:00"],
        ["2025-07-15 16:00:00.250", "2025-07-15T15:00:00.250-05:00"],
        ["2025-03-09 02:30:00", "2025-03-09T02:30:00-05:00"],
        ["2025-11-02 01:30:00", "2025-11-02T01:30:00-05:00"],
      ] as const
      yield* insert(
        "dilution_data",
        ...clocks.map(([last_updated], number) => security({ id: `clock ${number}`, ticker: "DCLOCK", last_updated })),
      )
      for (const path of paths) {
        const { body } = yield* ask(`${path}?ticker=DCLOCK`)
        assert.deepStrictEqual(rowsOf(body).map((row) => at(row, "last_updated")), clocks.map(([, printed]) => printed))
      }
    }))

  it.effect("§4.5 §7.3 ticker is required on dilution-data and optional on dilution-data-advanced", () =>
    Effect.gen(function* () {
      yield* insert("dilution_data", security({ id: "dot", ticker: "D.DOT" }))
      for (const query of ["", "security_type=warrant", "registered=true&limit=5"]) {
        assert.deepStrictEqual(yield* refused(paths[0], query), { field: "ticker", message: "ticker is required" })
        assert.strictEqual((yield* ask(`${paths[1]}?${query}`)).status, 200)
      }
      assert.isAbove((yield* advanced("")).length, 0)
      for (const path of paths) {
        for (const sent of ["@@", "", ","]) {
          const { field, message } = yield* refused(path, `ticker=${sent}`)
          assert.strictEqual(field, "ticker")
          assert.match(message, /^Invalid ticker\(s\): /)
        }
        const { body, headers } = yield* ask(`${path}?ticker=@@,d.%20dot`)
        assert.deepStrictEqual(rowsOf(body).map((row) => at(row, "id")), ["dot"])
        assert.strictEqual(headers["x-dropped-tickers"], "%40%40")
      }
    }))

  it.effect("§4.5 rows are ordered by filed_at descending, then by id, whatever their kind", () =>
    Effect.gen(function* () {
      const note = { security_type: "convertible_note" }
      yield* insert(
        "dilution_data",
        security({ id: "order c", ticker: "DORDA", filed_at: "2025-02-03" }),
        security({ id: "order b", ticker: "DORDB", filed_at: "2025-02-04" }),
        security({ id: "order a", ticker: "DORDA", filed_at: "2025-02-04", ...note }),
        security({ id: "order d", ticker: "DORDB", filed_at: "2024-12-31", ...note }),
        security({ id: "order e", ticker: "DORDA", filed_at: "2025-02-05" }),
      )
      const ordered = ["order e", "order a", "order b", "order c", "order d"]
      for (const path of paths) assert.deepStrictEqual(yield* idsOf(path, "ticker=DORDB,DORDA"), ordered)
      const everything = yield* advanced("limit=100")
      assert.deepStrictEqual(everything.filter((id) => ordered.includes(String(id))), ordered)
    }))

  it.effect("D8 following Link to its end shows each row once, in order", () =>
    Effect.gen(function* () {
      const rows = Array.from({ length: 23 }, (_, number) =>
        security({
          id: `page ${String(number).padStart(2, "0")}`,
          ticker: "DPAGE",
          security_type: number % 3 === 0 ? "convertible_note" : "warrant",
        }))
      yield* insert("dilution_data", ...rows.toReversed())
      for (const [path, limit] of [[paths[0], 7], [paths[0], 100], [paths[1], 1], [paths[1], 23]] as const) {
        const seen: Array<unknown> = []
        let next: string | undefined = `${path}?ticker=DPAGE&limit=${limit}`
        while (next !== undefined) {
          const { body, headers }: Effect.Success<ReturnType<typeof ask>> = yield* ask(next)
          seen.push(...rowsOf(body).map((row) => at(row, "id")))
          next = /^<([^>]*)>; rel="next"$/.exec(headers["link"] ?? "")?.[1]
          assert.strictEqual(at(body, "has_more"), next !== undefined)
        }
        assert.deepStrictEqual(seen, rows.map(({ id }) => id))
      }
    }))

  it.effect.each(paths)("§4.5 security_type is one of its words, or several: %s", (path) =>
    Effect.gen(function* () {
      const words = ["convertible_note", "convertible_preferred", "prefunded_warrant", "warrant"]
      const ticker = path === paths[0] ? "DTYPE" : "DTYPF"
      yield* insert(
        "dilution_data",
        ...words.map((word) => security({ id: `${ticker} ${word}`, ticker, security_type: word })),
      )
      for (const word of words) {
        assert.deepStrictEqual(yield* idsOf(path, `ticker=${ticker}&security_type=${word}`), [`${ticker} ${word}`])
      }
      assert.deepStrictEqual(
        yield* idsOf(path, `ticker=${ticker}&security_type=warrant,%20convertible_note`),
        [`${ticker} convertible_note`, `${ticker} warrant`],
      )
      for (const sent of ["", "note", "Warrant", "warrant,", "warrant,x"]) {
        const { field, message } = yield* refused(path, `ticker=${ticker}&security_type=${sent}`)
        assert.strictEqual(field, "security_type")
        assert.include(message, "warrant, prefunded_warrant, convertible_note, convertible_preferred")
      }
    }))

  it.effect.each(paths)("§4.5 registered is true or false, and null is neither: %s", (path) =>
    Effect.gen(function* () {
      const ticker = path === paths[0] ? "DREG" : "DREH"
      yield* insert(
        "dilution_data",
        security({ id: `${ticker} yes`, ticker, registered: true }),
        security({ id: `${ticker} no`, ticker, registered: false }),
        security({ id: `${ticker} unknown`, ticker }),
      )
      assert.deepStrictEqual(yield* idsOf(path, `ticker=${ticker}&registered=true`), [`${ticker} yes`])
      assert.deepStrictEqual(yield* idsOf(path, `ticker=${ticker}&registered=false`), [`${ticker} no`])
      for (const sent of ["", "1", "yes", "TRUE"]) {
        assert.strictEqual((yield* refused(path, `ticker=${ticker}&registered=${sent}`)).field, "registered")
      }
    }))

  it.effect.each(paths)(
    "D9 floor_price and underlying_shares_remaining have inclusive, exact bounds: %s",
    (path) =>
      Effect.gen(function* () {
        const ticker = path === paths[0] ? "DMIN" : "DMAX"
        const floors = ["0", "0.29", "0.3", "999999999999.999"]
        const shares = ["0", "1", "75000000", "9007199254740991"]
        yield* insert(
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
        const asked = (query: string) =>
          Effect.map(idsOf(path, `ticker=${ticker}&${query}`), (ids) => ids.map((id) => Number(String(id).at(-1))))
        assert.deepStrictEqual(yield* asked("min_floor_price=0"), [0, 1, 2, 3])
        assert.deepStrictEqual(yield* asked("max_floor_price=0.29"), [0, 1])
        assert.deepStrictEqual(yield* asked("min_floor_price=0.3&max_floor_price=0.3"), [2])
        assert.deepStrictEqual(yield* asked("min_floor_price=0.2901&max_floor_price=0.2999"), [])
        assert.deepStrictEqual(yield* asked("min_floor_price=1e300"), [])
        assert.deepStrictEqual(yield* asked("max_underlying_shares_remaining=1e300"), [0, 1, 2, 3])
        assert.deepStrictEqual(yield* asked("min_underlying_shares_remaining=0.5"), [1, 2, 3])
        assert.deepStrictEqual(yield* asked("max_underlying_shares_remaining=0"), [0])
        assert.deepStrictEqual(yield* asked("min_underlying_shares_remaining=9007199254740991"), [3])
        for (const name of ["floor_price", "underlying_shares_remaining"]) {
          const { field, message } = yield* refused(path, `ticker=${ticker}&min_${name}=2&max_${name}=1`)
          assert.strictEqual(field, `min_${name}`)
          assert.strictEqual(message, `min_${name} must not be greater than max_${name}`)
          assert.strictEqual((yield* refused(path, `ticker=${ticker}&max_${name}=x`)).field, `max_${name}`)
        }
      }),
  )

  it.effect.each(
    [
      ["filed_at", "warrant"],
      ["expiration_date", "warrant"],
      ["maturity_date", "convertible_note"],
    ] as const,
  )(
    "D7 %s_from and _to include their day, never match what is missing, and keep their order",
    ([name, security_type]) =>
      Effect.gen(function* () {
        const ticker = `D${name.replaceAll("_", "").toUpperCase()}`
        const days = ["2025-04-10", "2025-04-09", "2025-04-08", "2025-04-07"]
        yield* insert(
          "dilution_data",
          ...days.map((day) => security({ id: `${name} ${day}`, ticker, security_type, filed_at: day, [name]: day })),
          ...(name === "filed_at" ? [] : [security({ id: `${name} null`, ticker })]),
        )
        for (const path of paths) {
          const daysOf = (query: string) =>
            Effect.map(ask(`${path}?ticker=${ticker}&${query}`), ({ body }) => rowsOf(body).map((row) => at(row, name)))
          assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-09`), days.slice(0, 2))
          assert.deepStrictEqual(yield* daysOf(`${name}_to=2025-04-08`), days.slice(2))
          assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-08&${name}_to=2025-04-09`), days.slice(1, 3))
          assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-08&${name}_to=2025-04-08`), ["2025-04-08"])
          assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-11`), [])
          const query = `ticker=${ticker}&${name}_from=2025-04-02&${name}_to=2025-04-01`
          const { field, message } = yield* refused(path, query)
          assert.strictEqual(field, `${name}_from`)
          assert.strictEqual(message, `${name}_from must not be greater than ${name}_to`)
          for (const sent of ["2025-02-29", "20250101", "x", ""]) {
            assert.strictEqual((yield* refused(path, `ticker=A&${name}_to=${sent}`)).field, `${name}_to`)
          }
        }
      }),
  )

  it.effect.each(paths)(
    "§7.2 D7 filed_at lies in the past, expiration_date and maturity_date may lie in the future: %s",
    (path) =>
      Effect.gen(function* () {
        const ticker = path === paths[0] ? "DFUT" : "DFUU"
        const today = yield* todayInNewYork
        yield* insert(
          "dilution_data",
          security({ id: `${ticker} expiration_date`, ticker, expiration_date: "2999-01-01" }),
          security({
            id: `${ticker} maturity_date`,
            ticker,
            security_type: "convertible_note",
            maturity_date: "2999-01-01",
          }),
        )
        for (const name of ["expiration_date", "maturity_date"]) {
          const range = `${name}_from=2998-12-31&${name}_to=9999-12-31`
          assert.deepStrictEqual(yield* idsOf(path, `ticker=${ticker}&${range}`), [`${ticker} ${name}`])
          assert.deepStrictEqual(yield* idsOf(path, `ticker=${ticker}&${name}_from=2999-01-02`), [])
          const wrong = `ticker=${ticker}&${name}_from=2999-01-02&${name}_to=2999-01-01`
          assert.strictEqual((yield* refused(path, wrong)).field, `${name}_from`)
        }
        for (const name of ["filed_at_from", "filed_at_to"]) {
          const { field, message } = yield* refused(path, `ticker=${ticker}&${name}=9999-12-31`)
          assert.strictEqual(field, name)
          assert.match(message, /must be in the past/)
          assert.strictEqual((yield* ask(`${path}?ticker=${ticker}&${name}=${today}`)).status, 200)
        }
      }),
  )

  it.effect.each(["bank", "price_protection"])(
    "§4.5 %s of the advanced endpoint is a part of the text in any case; %%, _, quotes and backslashes are text",
    (name) =>
      Effect.gen(function* () {
        const ticker = `D${name.replaceAll("_", "").toUpperCase()}`.slice(0, 16)
        const values = ["H.C. Wainwright", "100% Bank_of 'A' \\ B", "100x Banknof", "ÜBER Capital"]
        yield* insert(
          "dilution_data",
          ...values.map((value) => security({ id: `${name} ${value}`, ticker, [name]: value })),
          security({ id: `${name} null`, ticker }),
        )
        const asked = (text: string) =>
          Effect.map(ask(`${paths[1]}?ticker=${ticker}&${name}=${encodeURIComponent(text)}`), ({ body }) =>
            rowsOf(body).map((row) => at(row, name)))
        assert.deepStrictEqual(yield* asked("wainWRIGHT"), ["H.C. Wainwright"])
        assert.deepStrictEqual(yield* asked("100% bank_of"), ["100% Bank_of 'A' \\ B"])
        assert.deepStrictEqual(yield* asked("'a' \\ b"), ["100% Bank_of 'A' \\ B"])
        assert.deepStrictEqual(yield* asked("über"), ["ÜBER Capital"])
        for (const miss of ["%%%", "___", "W%t", "H_C", "\\\\\\", `"""`, "wainwrights"]) {
          assert.deepStrictEqual(yield* asked(miss), [], miss)
        }
        for (const sent of ["", "ab", "%20%20a", "a%00bc", "x".repeat(101)]) {
          assert.strictEqual((yield* refused(paths[1], `${name}=${sent}`)).field, name)
        }
      }),
  )

  it.effect("§4.5 owner is a part of one owner's name in any case, never of two joined", () =>
    Effect.gen(function* () {
      const lists = [
        ["Alpha Fund", "Beta Capital, LP"],
        ["100% Bank_of 'A' \\ B", 'ÜBER "Q"'],
        ["100x Banknof"],
        ["Line\nBreak Fund"],
        [],
      ]
      yield* insert(
        "dilution_data",
        ...lists.map((owners, number) => security({ id: `owner ${number}`, ticker: "DOWNER", owners })),
      )
      const asked = (text: string) =>
        Effect.map(
          advanced(`ticker=DOWNER&owner=${encodeURIComponent(text)}`),
          (ids) => ids.map((id) => Number(String(id).at(-1))),
        )
      assert.deepStrictEqual(yield* asked("ALPHA fund"), [0])
      assert.deepStrictEqual(yield* asked("a capital, l"), [0])
      assert.deepStrictEqual(yield* asked("fund"), [0, 3])
      assert.deepStrictEqual(yield* asked("100% bank_of 'a' \\ b"), [1])
      assert.deepStrictEqual(yield* asked('über "q"'), [1])
      assert.deepStrictEqual(yield* asked("e\nb"), [3])
      const misses = ["%%%", "___", "A%a", "\\\\\\", "fund\nbeta", "fund,beta", "FundBeta", "Fund Beta", '","', "{}}"]
      for (const miss of misses) assert.deepStrictEqual(yield* asked(miss), [], miss)
      for (const sent of ["", "ab", "%20%20a", "a%00bc", "x".repeat(101)]) {
        assert.strictEqual((yield* refused(paths[1], `owner=${sent}`)).field, "owner")
      }
    }))

  it.effect("§4.5 the owner filter has an index that finds parts of names", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const plan = yield* sql.withTransaction(Effect.andThen(
        sql`set local enable_seqscan = off`,
        sql`explain select id from dilution_data where joined(owners) ilike '%alpha%'`,
      ))
      assert.include(JSON.stringify(plan), "Bitmap Index Scan on dilution_data_joined_idx")
    }))

  it.effect("D4 dilution-data does not take the filters of dilution-data-advanced", () =>
    Effect.gen(function* () {
      for (const name of ["owner", "bank", "price_protection", "owners", "date", "min_conversion_price"]) {
        assert.strictEqual((yield* refused(paths[0], `ticker=A&${name}=abc`)).field, name)
      }
      for (const name of ["owners", "date", "min_conversion_price", "reset_date_from"]) {
        assert.strictEqual((yield* refused(paths[1], `${name}=abc`)).field, name)
      }
    }))

  it.effect("§4.5 filters narrow each other", () =>
    Effect.gen(function* () {
      const all = { ticker: "DMIX", registered: true, floor_price: "1", bank: "Mixed", owners: ["Zeta", "Eta One"] }
      yield* insert(
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
      assert.deepStrictEqual(yield* idsOf(paths[0], basic), ["mix", "mix bank", "mix owner"])
      assert.deepStrictEqual(yield* advanced(`${basic}&bank=mixed&owner=one`), ["mix"])
    }))

  it.effect("D31 the table itself refuses a warrant with a convertible's columns, and the reverse", () =>
    Effect.gen(function* () {
      const strays = [
        ["warrant", "maturity_date", "2025-01-01"],
        ["prefunded_warrant", "conversion_price_type", "fixed"],
        ["convertible_note", "warrants_amount", "0"],
        ["convertible_preferred", "expiration_date", "2025-01-01"],
      ] as const
      for (const [security_type, column, value] of strays) {
        const stray = insert("dilution_data", security({ id: "stray", security_type, [column]: value }))
        assert.strictEqual((yield* Effect.flip(stray)).reason._tag, "ConstraintError")
      }
    }))

  it.effect("D31 a file becomes rows of both kinds; each is searched like those that were inserted", () =>
    Effect.gen(function* () {
      const header = "id,ticker,security_type,details,floor_price,filed_at,warrants_amount,maturity_date,owners," +
        "last_updated\n"
      const line = (fields: Readonly<Record<string, string>> = {}) => {
        const cells = { id: "a", type: "warrant", details: "Series A", floor: "", amount: "", maturity: "", ...fields }
        return `${cells.id},DLOAD,${cells.type},${cells.details},${cells.floor},2025-07-01,${cells.amount},` +
          `${cells.maturity},"[""Load Fund""]",2025-07-01 20:05:00\n`
      }
      const note = { id: "note", type: "convertible_note", maturity: "2999-01-01" }
      const good = header + line({ id: "cash", amount: "5", floor: "0.125" }) + line(note)
      assert.deepStrictEqual(yield* loaded(good), { table: "dilution_data", rows: 2, dropped: 0 })
      assert.deepStrictEqual(yield* advanced("owner=load"), ["cash", "note"])
      assert.deepStrictEqual(yield* advanced("owner=load&min_floor_price=0.125"), ["cash"])
      assert.deepStrictEqual(yield* idsOf(paths[0], "ticker=DLOAD&maturity_date_from=2999-01-01"), ["note"])
      const bad = [
        [line({ type: "note" }), /line 2: security_type /],
        [line({ type: "warrant " }), /line 2: security_type /],
        [line({ details: " Series A" }), /line 2: details must not be empty and must not start or end with white/],
        [line({ details: "" }), /line 2: details must not be empty/],
        [line({ floor: "0.1255" }), /line 2: floor_price must be a decimal number .*and 3 after it/],
        [line({ maturity: "2030-01-01" }), /line 2: maturity_date must be empty in a warrant/],
        [line({ ...note, amount: "0" }), /line 2: warrants_amount must be empty in a convertible_note/],
        [line() + line(), /line 3: id repeats a row/],
      ] as const
      for (const [content, reason] of bad) {
        const { message } = yield* Effect.flip(loaded(header + content))
        assert.match(message, reason)
        assert.deepStrictEqual(yield* advanced(""), ["cash", "note"])
      }
    }))
})
