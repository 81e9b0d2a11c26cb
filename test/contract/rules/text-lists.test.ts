/** Tests that the service, the clients and SQL parse lists of values in one parameter by the same rule (D33). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Arbitrary, Effect, Layer, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { getDefaultOpenApiDocument } from "../../../src/api/catalogue/OpenApiDocument.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { encodeToolParameterValues } from "../../../src/site/mcp/QueryTool.ts"
import { formatTextList, parseTextList } from "../../../src/contract/rules/CommaSeparatedLists.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import { buildUrl, documentedDatasetEndpoints, valueAt } from "../../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

/** Generates texts that contain ordinary characters and characters with a special meaning in lists. */
const value = Arbitrary.map(
  Arbitrary.array(Arbitrary.schema(Schema.Literals([...'",,""aB é\t\'\\%_&+='])), { minLength: 1, maxLength: 8 }),
  (characters) => characters.join(""),
)
const list = Arbitrary.array(value, { minLength: 1, maxLength: 5 })

describe("A list of values", () => {
  it.effect.prop(
    "is split into the values that it was made of, whatever they contain (D33)",
    [list],
    ([values]) => Effect.sync(() => assert.deepStrictEqual(parseTextList(formatTextList(values)), { values })),
    { arbitrary: { runs: getInputCount(2_000) } },
  )

  it("is refused in the form that programming languages print, unless the brackets are in double quotes (D33)", () => {
    for (const text of [`["A", "B"]`, `['A', 'B']`, "[A, B]", "('A', 'B')", "{'A'}", "[A B]"]) {
      assert.include(parseTextList(text), {
        reason: "must not have brackets around its values; separate several values by commas: A,B",
      })
    }
    assert.deepStrictEqual(parseTextList(`"[A]"`), { values: ["[A]"] })
    assert.deepStrictEqual(parseTextList(formatTextList(["[A]"])), { values: ["[A]"] })
  })

  it("must not contain a missing value as programming languages print it, except in double quotes (D33)", () => {
    for (const text of ["null", "NULL", "undefined", "None", "nil", "<nil>", "NaN"]) {
      for (const list of [text, `A,${text}`, ` ${text} `]) {
        assert.include(parseTextList(list), {
          reason: `must not be ${text}; if you mean this text, write "${text}" in double quotes`,
        })
      }
      assert.deepStrictEqual(parseTextList(`"${text}",NA`), { values: [text, "NA"] })
    }
  })

  it("may have its values in double quotes, without a difference in meaning (D33)", () => {
    for (
      const [text, ...values] of [
        ["8-K", "8-K"],
        [" 8-K , 10-Q\t", "8-K", "10-Q"],
        [`"8-K","10-Q"`, "8-K", "10-Q"],
        [`"Wholesale-Drugs, Proprietaries"`, "Wholesale-Drugs, Proprietaries"],
        [`Retail, "Wholesale-Drugs, Proprietaries" ,Banks`, "Retail", "Wholesale-Drugs, Proprietaries", "Banks"],
        [`"the ""best"", again"`, `the "best", again`],
        [`Toys "R" Us`, `Toys "R" Us`],
        [`""""`, `"`],
      ] as const
    ) assert.deepStrictEqual(parseTextList(text), { values }, text)
  })

  it("is refused with advice if a value is empty or a quote is not closed (D33)", () => {
    for (const text of ["", ",", "a,", ",a", "a,,b", `""`, `a,"",b`, " "]) {
      assert.match(String(valueAt(parseTextList(text), "reason")), /^must not contain an empty value; .*double quotes/)
    }
    for (const text of [`"`, `"a`, `"a,b`, `a,"b`, `"a"b`, `"a""`, `"a" "b"`]) {
      assert.match(
        String(valueAt(parseTextList(text), "reason")),
        /begins with a double quote .* in double quotes/,
        text,
      )
    }
  })

  it("contains exactly the values of an array that a language model sends (D33, guides/mcp)", () => {
    const industry = ["Wholesale-Drugs, Proprietaries", "Retail"]
    assert.deepStrictEqual(encodeToolParameterValues({ industry, limit: 5 }), {
      industry: `"Wholesale-Drugs, Proprietaries",Retail`,
      limit: "5",
    })
  })
})

/** Every dataset filter that accepts a list of texts, with its table and column. */
const filters = documentedDatasetEndpoints.flatMap(({ path }) => {
  const table = loadableDatasets.map((dataset) =>
    dataset.table
  ).find((name) => path.replaceAll("-", "_").startsWith(`/v1/${name}`)) ?? ""
  const parameters = valueAt(getDefaultOpenApiDocument(), "paths", path, "get", "parameters")
  return (Array.isArray(parameters) ? parameters : []).flatMap((parameter) => {
    const [, text, array] = /^Rows whose (\w+) is one of |values in (\w+), ignoring case/.exec(
      String(valueAt(parameter, "description")),
    ) ?? []
    const column = text ?? array
    return column === undefined
      ? []
      : [{ path, table, column, name: String(valueAt(parameter, "name")), isArray: array !== undefined }]
  })
})

const stored = ["Drugs, Proprietaries", `the "best"`, "Drugs", "Proprietaries", "Hiver, Été"]

const requested = [[0], [1], [2, 3], [0, 4], [0, 1, 2, 3, 4]].map((indexes) =>
  indexes.map((index) => stored[index] ?? "")
)

const service = Layer.effectDiscard(GeneratedRows.fillAllTables(60)).pipe(Layer.provideMerge(Service.layer))

layer(service, { excludeTestServices: true, timeout: "60 seconds" })("A filter by text", (it) => {
  it("is tested on every dataset that has one (D33)", () => assertFoundMoreThan(20, "filters by text", filters))

  it.effect.each(filters)(
    "finds the rows that have one of several values, in any case: $name of $path (D33)",
    ({ column, isArray, name, path, table }) =>
      Effect.gen(function* () {
        const { ultimate } = yield* Service.TestKeys
        const sql = yield* SqlClient.SqlClient
        const checks = yield* sql<{ readonly name: string }>`
          select conname as name from pg_constraint where conrelid = ${table}::regclass and contype = 'c'
        `
        for (const check of checks) yield* sql`alter table ${sql(table)} drop constraint ${sql(check.name)}`
        // In this table, countries are stored in capital letters. File numbers contain no lower-case letters.
        const isCapital = table === "pump_and_dump_tracker" || column === "file_no"
        const values = stored.map((text) => isCapital ? text.toUpperCase() : text)
        const nth = (index: Statement.Fragment) => sql`(${values}::text[])[1 + ${index} % ${values.length}::int]`
        const number = sql`(ctid::text::point)[1]::int`
        yield* sql`
          update ${sql(table)} set ${sql(column)} = ${
          isArray ? sql`array[${nth(number)}, ${nth(sql`${number} / 2`)}]` : nth(number)
        }
        `
        for (const [index, wanted] of requested.entries()) {
          const sent = formatTextList(wanted.map((text) => index % 2 === 0 ? text.toUpperCase() : text.toLowerCase()))
          const response = yield* Service.requestJson(buildUrl(path, [[name, sent], ["limit", "100"]]), {
            key: ultimate,
          })
          assert.strictEqual(response.status, 200, response.text)
          const element = isArray ? sql`unnest(${sql(column)})` : sql`unnest(array[${sql(column)}])`
          const expected = yield* sql<{ readonly value: unknown }>`
            select to_jsonb(${sql(column)}) as value from ${sql(table)}
            where exists (select from ${element} as element where lower(element) in (
              select lower(text) from unnest(${wanted}::text[]) as text
            ))
          `
          assert.isAbove(expected.length, 0)
          const results = valueAt(response.body, "results")
          const found = Array.isArray(results) ? results.map((row) => JSON.stringify(valueAt(row, column))) : []
          assert.sameMembers(found, expected.map(({ value }) => JSON.stringify(value)), sent)
        }
      }),
  )

  it.effect("is refused with advice if its quotes are wrong (D33)", () =>
    Effect.gen(function* () {
      const { basic } = yield* Service.TestKeys
      for (const target of ["/v1/screener?industry=%22Drugs", "/estimate?endpoint=/v1/screener&industry=%22Drugs"]) {
        const { body, status } = yield* Service.requestJson(target, { key: basic })
        assert.strictEqual(status, 422)
        assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), "industry")
        assert.match(String(valueAt(body, "error", "message")), /^industry has a value that begins with a double quote/)
      }
      const repeated = yield* Service.requestJson("/v1/screener?industry=a,,b", { key: basic })
      assert.match(String(valueAt(repeated.body, "error", "message")), /^industry must not contain an empty value/)
    }))

  it.effect("of the account's usage takes several values in any case (D33)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* Service.ensureAccountWithKey("text lists", "basic")
      const { account_id } = yield* CustomerUsage.findAccountAndKeyIds(key)
      for (const path of ["/v1/account", "/v1/datasets", "/v1/overview"]) yield* Service.requestJson(path, { key })
      yield* CustomerUsage.waitForRecordedRequests(account_id, 3)
      const recorded = yield* sql<{ readonly endpoint: string }>`
        select distinct endpoint from usage_requests where account_id = ${account_id} and endpoint = '/v1/datasets'
      `
      for (const path of ["/v1/usage", "/v1/usage/daily"]) {
        const target = buildUrl(path, [["endpoint", `/V1/DATASETS,"/v1/none"`]])
        const { body, status } = yield* Service.requestJson(target, { key })
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(valueAt(body, "results", 0, "endpoint"), "/v1/datasets")
        assert.strictEqual(valueAt(body, "count"), recorded.length)
      }
      const statuses = yield* Service.requestJson(`/v1/usage?status_code=200,"404"`, { key })
      assert.isAtLeast(Number(valueAt(statuses.body, "count")), 3)
    }))
})
