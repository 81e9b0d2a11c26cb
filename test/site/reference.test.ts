/** Tests the API reference, which is generated from the OpenAPI document, against the sample data. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { catalogueEndpoints } from "../../src/api/catalogue/Endpoints.ts"
import { getDefaultOpenApiDocument } from "../../src/api/catalogue/OpenApiDocument.ts"
import { getReferencePagePath } from "../../src/site/SitePage.ts"
import { streamPaths } from "../support/DocumentedEndpoints.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as Service from "../support/Service.ts"

const { valueAt } = Service

const open = (path: string) => Service.requestJson(path, { key: null })

const textOf = (html: string) =>
  html.replaceAll("<wbr>", "").replace(/<[^>]+>/g, "").replaceAll("&quot;", `"`).replaceAll("&amp;", "&")

const documented = Object.keys(getDefaultOpenApiDocument().paths)

const isCharged = (path: string) => catalogueEndpoints.some(({ isPriced, row }) => isPriced && row.path === path)

layer(Service.sampleServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })("The API reference", (it) => {
  it.effect("has a page for every endpoint, with its parameters, statuses and error codes (§4.5)", () =>
    Effect.gen(function* () {
      const overview = (yield* open("/v1/docs/reference")).text
      assertFoundMoreThan(30, "endpoints", documented)
      for (const path of documented) {
        assert.include(overview, `href="${getReferencePagePath(path)}"`)
        const { status, text } = yield* open(getReferencePagePath(path))
        assert.strictEqual(status, 200, path)
        const page = text.replaceAll("<wbr>", "")
        const operation = valueAt(getDefaultOpenApiDocument(), "paths", path, "get")
        const parameters = valueAt(operation, "parameters")
        for (const parameter of Array.isArray(parameters) ? parameters : []) {
          const name = String(valueAt(parameter, "name"))
          if (streamPaths.has(path)) {
            // The page cannot display a stream, so it has no request form.
            assert.include(page, `<code>${name}</code> <`, path)
            assert.notInclude(page, `form="try"`, path)
            continue
          }
          assert.include(page, `<label for="p-${name}"><code>${name}</code></label>`, path)
          assert.include(page, `id="p-${name}" name="${name}" form="try"`, path)
        }
        for (const status of Object.keys(Object(valueAt(operation, "responses")))) {
          if (Number(status) >= 400) assert.include(page, `>${status}</th>`, path)
        }
        if (isCharged(path)) assert.include(page, "<code>rate_limit_exceeded</code>", path)
      }
    }))

  it.effect("explains every field, parameter and header once (§4.5)", () =>
    Effect.gen(function* () {
      for (const path of documented) {
        const { text } = yield* open(getReferencePagePath(path))
        const rows = Array.from(text.matchAll(/<tr role="row"><th scope="row".*?<\/tr>/gs), ([row]) => row)
        assert.isAbove(rows.length, 0, path)
        assert.deepStrictEqual(rows.filter((row) => /data-label="Meaning"><\/td>/.test(row)), [], path)
        assert.deepStrictEqual(rows.filter((row) => textOf(row).split("One of ").length > 2), [], path)
        assert.notInclude(textOf(text), "§", path)
        assert.notInclude(textOf(text), "One of all.", path)
      }
    }))

  it.effect("lists the fields of rows, including nested ones (§4.5)", () =>
    Effect.gen(function* () {
      const found = textOf((yield* open("/v1/docs/reference/news")).text)
      for (const field of ["count", "results[].title", "results[].filed_at_time", "has_more"]) {
        assert.include(found, field)
      }
      const lineage = textOf((yield* open("/v1/docs/reference/ticker-changes")).text)
      assert.include(lineage, "results[].history[].effective_date")
    }))

  it.effect("offers a request that returns rows of the sample data, and shows its 200 first (§4.5)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      for (const path of documented.filter((path) => !streamPaths.has(path))) {
        const { text } = yield* open(getReferencePagePath(path))
        const [, command = ""] = /<div id="request">([\s\S]*?)<\/div>/.exec(text) ?? []
        const [, request = ""] = /http:\/\/127\.0\.0\.1:8080(\/[^"]*)"/.exec(textOf(command)) ?? []
        assert.isTrue(request === path || request.startsWith(`${path}?`), request)
        const badges = Array.from(
          text.matchAll(/<span class="badge (?:good|bad)">(\d{3})<\/span>/g),
          ([, found]) => found,
        )
        if (badges.length > 0) assert.strictEqual(badges[0], "200", path)
        const { body, status } = yield* Service.requestJson(request, { key: ultimate })
        assert.strictEqual(status, 200, request)
        if (isCharged(path)) {
          assert.isAbove(badges.length, 0, path)
          assert.isAbove(Number(valueAt(body, "count")), 0, request)
        }
      }
    }))
})
