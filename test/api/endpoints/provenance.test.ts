/**
 * Tests `provenance=true`, which lists the source documents of each row, for every list that supports it and in every
 * format.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { buildUrl, documentedEndpoints, makeRequiredQuery } from "../../support/DocumentedEndpoints.ts"
import { download, parseCsv } from "../../support/ListDownloads.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import { chooseParameterValue, makeRandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const { insertRows, requestJson, valueAt } = Service

const service = Layer.effectDiscard(GeneratedRows.fillAllTables(300)).pipe(Layer.provideMerge(Service.layer))

const hasParameter = (parameters: ReadonlyArray<{ readonly name: string }>, name: string) =>
  parameters.some((parameter) => parameter.name === name)

const sourcedLists = documentedEndpoints.filter(({ parameters }) => hasParameter(parameters, "provenance"))

const get = Effect.fnUntraced(function* (target: string, headers: Readonly<Record<string, string>> = {}) {
  const { ultimate } = yield* Service.TestKeys
  return yield* download(yield* Service.servicePort, target, ultimate, headers)
})

/** Matches the `source` field in JSON text. */
const sourceField = /,"source":(?:null|\[(?:"(?:[^"\\]|\\.)*",?)*\])/g

const omitCells = (row: ReadonlyArray<string>, index: number) => row.filter((_, at) => at !== index)

/**
 * Removes the sources from a response. Returns the remaining content and the number of rows that had a `source` field.
 */
const removeSources = Effect.fnUntraced(function* (format: string, text: string) {
  if (format !== "csv") return { rest: text.replaceAll(sourceField, ""), count: text.match(sourceField)?.length ?? 0 }
  const { header, records } = yield* parseCsv(text)
  const index = header.indexOf("source")
  assert.isAtLeast(index, 0, "the header has no source")
  return {
    rest: { header: omitCells(header, index), records: records.map((record) => omitCells(record, index)) },
    count: records.length,
  }
})

/** Chooses valid values for some of the filters. */
const chooseFilters = ({ parameters }: typeof sourcedLists[number], seed: number) => {
  const choose = makeRandomChooser(seed)
  const symbols = choose(["T1,T2,T7,T50,T299", "T7", "T1,@@"])
  const isFollowed = choose([true, false, false])
  return parameters.flatMap((parameter) => {
    const { name } = parameter
    if (["provenance", "page", "limit", "cik"].includes(name)) return []
    if (name === "follow_lineage") return isFollowed ? [[name, "true"] as const] : []
    if (name === "ticker") return isFollowed || parameter.required ? [[name, symbols] as const] : []
    const isSent = name === "sort" || choose([true, ...Array.from({ length: parameters.length }, () => false)])
    return isSent ? [[name, chooseParameterValue(parameter, choose, choose)] as const] : []
  })
}

const pages = [
  ["json", [["limit", "100"]]],
  ["json", [["limit", "3"], ["page", "2"]]],
  ["csv", [["format", "csv"], ["limit", "100"]]],
  ["csv", [["format", "csv"], ["limit", "all"]]],
  ["ndjson", [["format", "ndjson"], ["limit", "7"]]],
  ["ndjson", [["format", "ndjson"], ["limit", "all"]]],
] as const

layer(service, { excludeTestServices: true, timeout: "180 seconds" })("The parameter `provenance`", (it) => {
  it.effect("exists for exactly the lists whose tables have sources (decision 0106)", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(sourcedLists.map(({ path }) => path).toSorted(), [
        "/v1/float-outstanding",
        "/v1/historical-float-pro",
        "/v1/news",
        "/v1/news-basic",
        "/v1/ownership",
        "/v1/registrations",
        "/v1/screener",
      ])
      for (const endpoint of documentedEndpoints) {
        const { parameters, path } = endpoint
        if (hasParameter(parameters, "provenance") || !hasParameter(parameters, "ticker")) continue
        const target = buildUrl(path, [...makeRequiredQuery(endpoint), ["provenance", "true"]])
        const { ultimate } = yield* Service.TestKeys
        const { body, status } = yield* requestJson(target, { key: ultimate })
        assert.strictEqual(status, 422, target)
        assert.strictEqual(valueAt(body, "error", "details", "fields", 0, "field"), "provenance", target)
      }
    }))

  it.effect.each(sourcedLists)(
    "adds only the field named source, in all formats: $path (D8, D16, D35)",
    (list) =>
      Effect.gen(function* () {
        let sourced = 0
        for (let seed = 1; seed <= getInputCount(10); seed += 1) {
          const filters = chooseFilters(list, seed)
          // Tests each choice of filters with every other kind of page.
          for (const [format, paging] of pages.filter((_, index) => index % 2 === seed % 2)) {
            const target = buildUrl(list.path, [...filters, ...paging])
            const plain = yield* get(target)
            const withSources = yield* get(target.replace("?", "?provenance=true&"))
            assert.strictEqual(withSources.status, plain.status, target)
            // The service refuses randomly chosen bounds that contradict each other.
            if (plain.status === 422) continue
            const { count, rest } = yield* removeSources(format, withSources.text)
            assert.deepStrictEqual(rest, format === "csv" ? yield* parseCsv(plain.text) : plain.text, target)
            assert.notInclude(plain.text, 'source"')
            const names = ["x-row-count", "x-lineage", "content-type"]
            assert.deepStrictEqual(
              names.map((name) => withSources.headers[name]),
              names.map((name) => plain.headers[name]),
            )
            assert.strictEqual(withSources.headers["link"]?.replace("provenance=true&", ""), plain.headers["link"])
            sourced += count
          }
        }
        assert.isAbove(sourced, getInputCount(50))
      }),
  )

  it.effect.each(sourcedLists)(
    "works with estimates, HEAD and conditional requests: $path (D17, D28)",
    (list) =>
      Effect.gen(function* () {
        const { ultimate: key } = yield* Service.TestKeys
        const target = buildUrl(list.path, makeRequiredQuery(list).map(([name]) => [name, "T1,T2,T7"] as const))
        const query = target.includes("?") ? `${target}&` : `${target}?`
        const plain = yield* get(query)
        const page = yield* get(`${query}provenance=true`)
        assert.strictEqual((yield* get(`${query}provenance=false`)).text, plain.text)
        const repeated = yield* get(`${query}provenance=true`, { "If-None-Match": page.headers["etag"] ?? "" })
        assert.deepStrictEqual([repeated.status, repeated.text], [304, ""])
        assert.strictEqual(
          (yield* get(`${query}provenance=true`, { "If-None-Match": plain.headers["etag"] ?? "" })).status,
          200,
        )
        const head = yield* requestJson(`${query}provenance=true&limit=all&format=csv`, { method: "HEAD", key })
        assert.strictEqual(head.status, 200)
        const [path = "", parameters = ""] = `${query}provenance=true`.split("?")
        const { body } = yield* requestJson(`/estimate?endpoint=${path}&${parameters}`, { key })
        assert.strictEqual(valueAt(body, "results", 0, "estimated_bytes"), page.bytes.length)
        assert.isAbove(page.bytes.length, plain.bytes.length)
      }),
  )

  it.effect("adds the links of each row and of each owner, or null (D8)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const links = [`https://filings.example/a#"x"`, "http://filings.example/ü,2"]
      const filing = {
        ticker: "SRC",
        filed_at: "2026-05-01",
        form_type: "DEF 14A",
        accession_number: "9990001000-26-000001",
        last_updated: "2026-05-01 10:00:00",
      }
      yield* insertRows(
        "ownership",
        { ...filing, owner_name: "First", common_shares_amount: 2, source: links },
        { ...filing, owner_name: "Second", common_shares_amount: 1 },
      )
      const { body } = yield* requestJson("/v1/ownership?ticker=SRC&provenance=true")
      const owners = [0, 1].map((index) => valueAt(body, "results", 0, "owners", index))
      assert.deepStrictEqual(owners.map((owner) => valueAt(owner, "source")), [links, null])
      assert.isUndefined(valueAt(body, "results", 0, "source"))

      const csv = yield* get("/v1/ownership?ticker=SRC&provenance=true&format=csv")
      const { header, records } = yield* parseCsv(csv.text)
      assert.strictEqual(header.at(-1), "source")
      assert.deepStrictEqual(records.map((record) => record.at(-1)), [JSON.stringify(links), ""])

      yield* sql`update news set source = ${links} where ticker = 'T7'`
      for (const path of ["/v1/news", "/v1/news-basic"]) {
        const { body } = yield* requestJson(`${path}?ticker=T7&provenance=true&follow_lineage=true`)
        assert.deepStrictEqual(Object.keys(Object(valueAt(body, "results", 0))).slice(-2), ["source", "lineage_ticker"])
        assert.deepStrictEqual(valueAt(body, "results", 0, "source"), links)
      }
    }))

  it.effect("accepts only true and false (D11)", () =>
    Effect.gen(function* () {
      const { body, status } = yield* requestJson("/v1/news?provenance=yes")
      assert.strictEqual(status, 422)
      assert.deepStrictEqual(valueAt(body, "error", "details", "fields"), [
        { field: "provenance", reason: "must be true or false" },
      ])
    }))
})
