import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Predicate, Ref } from "effect"
import { load } from "../../src/load/Load.ts"
import { todayInNewYork } from "../../src/policy/Dates.ts"
import * as Service from "../support/Service.ts"

const { ask, at, insert } = Service

/** What a row cannot do without. */
const split = (fields: Readonly<Record<string, unknown>> & { readonly id: string }) => ({
  ticker: "ZYXA",
  action_type: "split_announced",
  executed: false,
  filed_at: "2025-07-01",
  form_type: "8-K",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const rowsOf = (body: unknown): ReadonlyArray<unknown> => {
  const results = at(body, "results")
  return Array.isArray(results) ? results : []
}

const list = (query: string) => ask(`/v1/split-status?${query}`)

const idsOf = (query: string) => Effect.map(list(query), ({ body }) => rowsOf(body).map((row) => at(row, "id")))

const refused = Effect.fnUntraced(function* (query: string) {
  const { body, status, text } = yield* list(query)
  assert.strictEqual(status, 422, `${query}: ${text}`)
  assert.strictEqual(at(body, "error", "code"), "validation_error")
  return {
    message: String(at(body, "error", "message")),
    field: at(body, "error", "details", "fields", 0, "field"),
  }
})

const loaded = Effect.fnUntraced(function* (csv: string) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-split-status-" })}/rows.csv`
  yield* fs.writeFileString(file, csv)
  return yield* load({ dataset: "split-status", file, append: false, check: false }, yield* Ref.make(0))
})

layer(Service.layer, { excludeTestServices: true })("GET /v1/split-status", (it) => {
  it.effect("§2.1 D15 D16 prints every field, exactly as stored, each with the right kind", () =>
    Effect.gen(function* () {
      yield* insert("split_status", {
        id: "full",
        ticker: "SFULL",
        action_type: "split_effective",
        split_from: "12345678901234.5678",
        split_to: "1.0000",
        split_ratio_min: "0.3",
        split_ratio_max: "100.2900",
        vote_date: "2025-01-02",
        approved_date: "2025-01-03",
        authority_expires_date: "2027-01-02",
        effective_date: "2026-12-31",
        executed: true,
        details: 'One for "a hundred"\n50% _',
        filed_at: "2025-01-04",
        form_type: "DEF 14A",
        document_url: "https://example.com/a?b=c&d",
        last_updated: "2025-07-02 09:30:00",
      })
      const { headers, status, text } = yield* list("ticker=SFULL")
      assert.strictEqual(status, 200)
      assert.match(String(headers["content-type"]), /^application\/json/)
      assert.strictEqual(
        text,
        `{"count":1,"results":[{"id":"full","ticker":"SFULL","action_type":"split_effective",` +
          `"split_from":12345678901234.5678,"split_to":1,"split_ratio_min":0.3,"split_ratio_max":100.29,` +
          `"vote_date":"2025-01-02","approved_date":"2025-01-03","authority_expires_date":"2027-01-02",` +
          `"effective_date":"2026-12-31","executed":true,"details":"One for \\"a hundred\\"\\n50% _",` +
          `"filed_at":"2025-01-04","form_type":"DEF 14A","document_url":"https://example.com/a?b=c&d",` +
          `"last_updated":"2025-07-02T08:30:00-05:00"}],"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("D16 what is missing is null", () =>
    Effect.gen(function* () {
      yield* insert("split_status", split({ id: "null", ticker: "SNULL" }))
      const row = rowsOf((yield* list("ticker=SNULL")).body)[0]
      const missing = Predicate.isObject(row) ? Object.keys(row).filter((name) => at(row, name) === null) : []
      assert.deepStrictEqual(missing, [
        "split_from",
        "split_to",
        "split_ratio_min",
        "split_ratio_max",
        "vote_date",
        "approved_date",
        "authority_expires_date",
        "effective_date",
        "details",
        "document_url",
      ])
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
        "split_status",
        ...clocks.map(([last_updated], number) => split({ id: `clock ${number}`, ticker: "SCLOCK", last_updated })),
      )
      const { body } = yield* list("ticker=SCLOCK")
      assert.deepStrictEqual(rowsOf(body).map((row) => at(row, "last_updated")), clocks.map(([, printed]) => printed))
    }))

  it.effect("§4.4 §7.2 §7.3 at least one valid ticker is required; invalid ones beside it are dropped", () =>
    Effect.gen(function* () {
      yield* insert("split_status", split({ id: "dot", ticker: "S.DOT" }), split({ id: "hat", ticker: "S^HAT" }))
      for (const query of ["", "executed=true", "action_type=withdrawn&limit=5"]) {
        assert.deepStrictEqual(yield* refused(query), { field: "ticker", message: "ticker is required" })
      }
      for (const sent of ["@@", "@@,a_b", "", ",", "%20", "toolongtoolong123"]) {
        const { field, message } = yield* refused(`ticker=${sent}`)
        assert.strictEqual(field, "ticker")
        assert.match(message, /^Invalid ticker\(s\): .*uppercase letters, numbers, dots, hyphens or carets/)
      }
      const { body, headers } = yield* list("ticker=@@,s.%20dot,S%5Ehat")
      assert.deepStrictEqual(rowsOf(body).map((row) => at(row, "id")), ["dot", "hat"])
      assert.strictEqual(headers["x-dropped-tickers"], "%40%40")
      assert.deepStrictEqual(yield* idsOf("ticker=SNONE"), [])
    }))

  it.effect("§4.4 rows are ordered by filed_at descending, then by id", () =>
    Effect.gen(function* () {
      yield* insert(
        "split_status",
        split({ id: "order c", ticker: "SORDA", filed_at: "2025-02-03" }),
        split({ id: "order b", ticker: "SORDB", filed_at: "2025-02-04" }),
        split({ id: "order a", ticker: "SORDA", filed_at: "2025-02-04" }),
        split({ id: "order d", ticker: "SORDB", filed_at: "2024-12-31" }),
        split({ id: "order e", ticker: "SORDA", filed_at: "2025-02-05" }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=SORDB,SORDA"), [
        "order e",
        "order a",
        "order b",
        "order c",
        "order d",
      ])
    }))

  it.effect("D8 following Link to its end shows each row once, in order", () =>
    Effect.gen(function* () {
      const rows = Array.from(
        { length: 23 },
        (_, number) => split({ id: `page ${String(number).padStart(2, "0")}`, ticker: "SPAGE" }),
      )
      yield* insert("split_status", ...rows.toReversed())
      for (const limit of [1, 7, 23, 100]) {
        const seen: Array<unknown> = []
        let path: string | undefined = `/v1/split-status?ticker=SPAGE&limit=${limit}`
        while (path !== undefined) {
          const { body, headers }: Effect.Success<ReturnType<typeof ask>> = yield* ask(path)
          seen.push(...rowsOf(body).map((row) => at(row, "id")))
          path = /^<([^>]*)>; rel="next"$/.exec(headers["link"] ?? "")?.[1]
          assert.strictEqual(at(body, "has_more"), path !== undefined)
        }
        assert.deepStrictEqual(seen, rows.map(({ id }) => id))
      }
    }))

  it.effect("§4.4 action_type is one of its words, or several", () =>
    Effect.gen(function* () {
      const words = ["pending_vote", "vote_approved", "split_announced", "split_effective", "withdrawn"]
      yield* insert("split_status", ...words.map((word) => split({ id: word, ticker: "SWORD", action_type: word })))
      for (const word of words) assert.deepStrictEqual(yield* idsOf(`ticker=SWORD&action_type=${word}`), [word])
      assert.deepStrictEqual(yield* idsOf("ticker=SWORD&action_type=withdrawn,%20pending_vote"), [
        "pending_vote",
        "withdrawn",
      ])
      for (const sent of ["", "split", "Withdrawn", "withdrawn,", "withdrawn,x"]) {
        const { field, message } = yield* refused(`ticker=SWORD&action_type=${sent}`)
        assert.strictEqual(field, "action_type")
        assert.include(message, words.join(", "))
      }
    }))

  it.effect("§4.4 executed is true or false", () =>
    Effect.gen(function* () {
      yield* insert(
        "split_status",
        split({ id: "yes", ticker: "SEXEC", executed: true }),
        split({ id: "no", ticker: "SEXEC", executed: false }),
      )
      assert.deepStrictEqual(yield* idsOf("ticker=SEXEC&executed=true"), ["yes"])
      assert.deepStrictEqual(yield* idsOf("ticker=SEXEC&executed=false"), ["no"])
      for (const sent of ["", "1", "yes", "TRUE"]) {
        assert.strictEqual((yield* refused(`ticker=SEXEC&executed=${sent}`)).field, "executed")
      }
    }))

  it.effect.each(["filed_at", "vote_date", "effective_date"])(
    "D7 %s_from and _to include their day, never match what is missing, and keep their order",
    (name) =>
      Effect.gen(function* () {
        const ticker = `S${name.replaceAll("_", "").toUpperCase()}`
        const days = ["2025-04-10", "2025-04-09", "2025-04-08", "2025-04-07"]
        yield* insert(
          "split_status",
          ...days.map((day) => split({ id: `${name} ${day}`, ticker, filed_at: day, [name]: day })),
          ...(name === "filed_at" ? [] : [split({ id: `${name} null`, ticker })]),
        )
        const daysOf = (query: string) =>
          Effect.map(list(`ticker=${ticker}&${query}`), ({ body }) => rowsOf(body).map((row) => at(row, name)))
        assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-09`), days.slice(0, 2))
        assert.deepStrictEqual(yield* daysOf(`${name}_to=2025-04-08`), days.slice(2))
        assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-08&${name}_to=2025-04-09`), days.slice(1, 3))
        assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-08&${name}_to=2025-04-08`), ["2025-04-08"])
        assert.deepStrictEqual(yield* daysOf(`${name}_from=2025-04-11`), [])
        const { field, message } = yield* refused(`ticker=${ticker}&${name}_from=2025-04-02&${name}_to=2025-04-01`)
        assert.strictEqual(field, `${name}_from`)
        assert.strictEqual(message, `${name}_from must not be greater than ${name}_to`)
        for (const sent of ["2025-02-29", "20250101", "x", ""]) {
          assert.strictEqual((yield* refused(`ticker=${ticker}&${name}_to=${sent}`)).field, `${name}_to`)
        }
      }),
  )

  it.effect("§4.4 §7.2 D7 filed_at lies in the past, vote_date and effective_date may lie in the future", () =>
    Effect.gen(function* () {
      const today = yield* todayInNewYork
      yield* insert(
        "split_status",
        split({ id: "future", ticker: "SFUT", vote_date: "2999-01-01", effective_date: "2999-01-02" }),
      )
      for (const name of ["vote_date", "effective_date"]) {
        assert.deepStrictEqual(yield* idsOf(`ticker=SFUT&${name}_from=2998-12-31&${name}_to=9999-12-31`), ["future"])
        assert.deepStrictEqual(yield* idsOf(`ticker=SFUT&${name}_from=2999-01-03`), [])
        const { field } = yield* refused(`ticker=SFUT&${name}_from=2999-01-02&${name}_to=2999-01-01`)
        assert.strictEqual(field, `${name}_from`)
      }
      for (const name of ["filed_at_from", "filed_at_to"]) {
        const { field, message } = yield* refused(`ticker=SFUT&${name}=9999-12-31`)
        assert.strictEqual(field, name)
        assert.match(message, /must be in the past/)
        assert.strictEqual((yield* list(`ticker=SFUT&${name}=${today}`)).status, 200)
      }
    }))

  it.effect("§4.4 filters narrow each other", () =>
    Effect.gen(function* () {
      const both = { executed: true, action_type: "withdrawn", vote_date: "2025-05-05" }
      yield* insert(
        "split_status",
        split({ id: "mix", ticker: "SMIX", ...both }),
        split({ id: "mix ticker", ticker: "SMIY", ...both }),
        split({ id: "mix executed", ticker: "SMIX", ...both, executed: false }),
        split({ id: "mix action", ticker: "SMIX", ...both, action_type: "pending_vote" }),
        split({ id: "mix vote", ticker: "SMIX", ...both, vote_date: "2025-05-06" }),
      )
      assert.deepStrictEqual(
        yield* idsOf("ticker=SMIX&executed=true&action_type=withdrawn&vote_date_to=2025-05-05"),
        ["mix"],
      )
    }))

  it.effect("D31 a file becomes rows; a wrong word, stray white space and a repeated id refuse it", () =>
    Effect.gen(function* () {
      const header = "id,ticker,action_type,split_from,split_to,executed,details,filed_at,form_type,last_updated\n"
      const line = (id: string, action = "withdrawn", form = "8-K") =>
        `${id},SLOAD,${action},100,1,true,,2025-07-01,${form},2025-07-01 20:05:00\n`
      assert.deepStrictEqual(yield* loaded(header + line("one") + line("two")), {
        table: "split_status",
        rows: 2,
        dropped: 0,
      })
      assert.deepStrictEqual(yield* idsOf("ticker=SLOAD"), ["one", "two"])
      const bad = [
        [line("a", "split"), /line 2: action_type /],
        [line("a", " withdrawn"), /line 2: action_type /],
        [line("a", "withdrawn", "8-K "), /line 2: form_type must not be empty and must not start or end with white/],
        [line("a ", "withdrawn"), /line 2: id must not be empty and must not start or end with white space/],
        [line("a") + line("a"), /line 3: id repeats a row/],
        [line("a").replace("100", "1e2"), /line 2: split_from must be a decimal number/],
      ] as const
      for (const [content, reason] of bad) {
        const { message } = yield* Effect.flip(loaded(header + content))
        assert.match(message, reason)
        assert.deepStrictEqual(yield* idsOf("ticker=SLOAD"), ["one", "two"])
      }
    }))
})
