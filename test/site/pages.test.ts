/** Tests the documentation over HTTP: §4.5 (documentation), §9.4 (deprecations) and SECURITY.md. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { getDefaultOpenApiDocument } from "../../src/api/catalogue/OpenApiDocument.ts"
import { BaseUrl } from "../../src/api/BaseUrl.ts"
import { tiers } from "../../src/contract/rules/EndpointAnnotations.ts"
import { renderGuide } from "../../src/site/Markdown.ts"
import { errorCodeReference } from "../../src/site/ReferenceTables.ts"
import { listNonNullSchemaAlternatives } from "../../src/site/SchemaDescriptions.ts"
import { getDocumentedResponses } from "../support/DocumentedEndpoints.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import * as Service from "../support/Service.ts"

const { valueAt } = Service

const open = (path: string, more: Service.TestRequestOptions = {}) => Service.requestJson(path, { key: null, ...more })

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const guides = ["", "/lineage", "/timestamps", "/errors", "/paging", "/caching", "/cost", "/deprecations", "/changelog"]
  .concat(["/first-steps", "/explorer", "/reference", "/reference/news"])

layer(Service.layer, { excludeTestServices: true })("The documentation", (it) => {
  it.effect.each(guides)(
    'forbids foreign scripts and frames on page "%s" (SECURITY.md)',
    (page) =>
      Effect.gen(function* () {
        for (const method of ["GET", "HEAD"] as const) {
          const { headers, status, text } = yield* open(`/v1/docs${page}`, { method })
          assert.strictEqual(status, 200)
          assert.strictEqual(headers["content-type"], "text/html; charset=utf-8")
          assert.strictEqual(headers["content-security-policy"], policy)
          assert.strictEqual(headers["x-frame-options"], "DENY")
          assert.strictEqual(headers["referrer-policy"], "no-referrer")
          assert.strictEqual(headers["cross-origin-opener-policy"], "same-origin")
          if (method === "HEAD") continue
          // The Content-Security-Policy would block inline scripts and styles.
          assert.notMatch(text, /<script(?![^>]*\ssrc=)/)
          assert.notMatch(text, /<style|\sstyle="|\son[a-z]+="|javascript:/i)
        }
      }),
  )

  it.effect.each(guides)(
    'has a title, a language, one h1 and a skip link on page "%s" (§4.5)',
    (page) =>
      Effect.gen(function* () {
        const { text } = yield* open(`/v1/docs${page}`)
        assert.match(text, /^<!doctype html>\n<html lang="en">/)
        assert.lengthOf(text.match(/<h1[ >]/g) ?? [], 1)
        assert.match(text, /<title>[^<]*Tickerline<\/title>/)
        assert.match(text, /<meta name="description" content="[^"]{20,}">/)
        assert.include(text, `<a class="skip" href="#page-content">`)
        assert.include(text, `aria-current="page"`)
        const ids = Array.from(text.matchAll(/\sid="([^"]+)"/g), ([, id]) => id)
        assert.deepStrictEqual(ids.filter((id, index) => ids.indexOf(id) !== index), [], "duplicate ids")
      }),
  )

  it.effect("renders every page of the navigation (§4.5)", () =>
    Effect.gen(function* () {
      const { text } = yield* open("/v1/docs")
      const paths = new Set(Array.from(text.matchAll(/<a href="(\/v1\/docs[^"#]*)"/g), ([, path = ""]) => path))
      assertFoundMoreThan(40, "pages", paths)
      for (const path of paths) assert.strictEqual((yield* open(path)).status, 200, path)
    }))

  it.effect("lists deprecated endpoints with their successors and a link to the migration guide (§9.4, D24)", () =>
    Effect.gen(function* () {
      const { body } = yield* open("/endpoints")
      const rows = Array.from({ length: Number(valueAt(body, "count")) }, (_, index) => valueAt(body, "results", index))
      const deprecated = rows.filter((row) => valueAt(row, "deprecated") === true)
      assert.isAbove(deprecated.length, 0)
      for (const path of ["/v1/docs", "/v1/docs/deprecations"]) {
        const { text } = yield* open(path)
        for (const row of deprecated) {
          assert.include(text, String(valueAt(row, "path")))
          assert.include(text, String(valueAt(row, "successor")))
        }
      }
      assert.include((yield* open("/v1/docs")).text, `href="/v1/docs/deprecations"`)
    }))

  it.effect("sends a strong ETag, and an empty 304 if the client's ETag matches (D17)", () =>
    Effect.gen(function* () {
      for (const path of ["/v1/docs", "/v1/docs/reference", "/v1/docs/assets/style.css", "/v1/docs/assets/dom.js"]) {
        const first = yield* open(path)
        const { etag = "" } = first.headers
        assert.match(etag, /^"[^"]+"$/, path)
        assert.strictEqual(first.headers["cache-control"], "no-cache")
        const again = yield* open(path, { headers: { "If-None-Match": `"other", W/${etag}` } })
        assert.strictEqual(again.status, 304, path)
        assert.strictEqual(again.text, "")
        assert.strictEqual(again.headers["etag"], etag)
        assert.strictEqual((yield* open(path, { headers: { "If-None-Match": `"other"` } })).status, 200)
      }
    }))

  it.effect("ignores query parameters (D4)", () =>
    Effect.gen(function* () {
      const [plain, more] = [
        yield* open("/v1/docs/errors"),
        yield* open("/v1/docs/errors?utm_source=mail&utm_source=x"),
      ]
      assert.strictEqual(more.status, 200)
      assert.strictEqual(more.text, plain.text)
    }))

  it.effect("responds to other methods with 405 on existing pages and 404 elsewhere (D10)", () =>
    Effect.gen(function* () {
      for (const path of ["/v1/docs", "/v1/docs/lineage", "/v1/docs/reference", "/v1/docs/assets/style.css"]) {
        const { body, headers, status } = yield* open(path, { method: "POST" })
        assert.strictEqual(status, 405, path)
        assert.strictEqual(headers["allow"], "GET, HEAD")
        assert.strictEqual(valueAt(body, "error", "code"), "method_not_allowed")
        assert.include(String(valueAt(body, "error", "message")), path)
      }
      const hidden = [
        "nowhere",
        "assets",
        "assets/",
        "assets/tsconfig.json",
        "assets/../index.md",
        "index.md",
        "lineage.md",
      ]
      for (const path of hidden.map((name) => `/v1/docs/${name}`)) {
        for (const method of ["GET", "POST"] as const) {
          const { body, headers, status } = yield* open(path, { method })
          assert.strictEqual(status, 404, `${method} ${path}`)
          assert.strictEqual(valueAt(body, "error", "code"), "not_found")
          assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
        }
      }
    }))

  it.effect("redirects / and /docs, with the headers that every response has (D14, README.md)", () =>
    Effect.gen(function* () {
      const port = yield* Service.servicePort
      for (const path of ["/", "/docs", "/docs/"]) {
        for (const method of ["GET", "HEAD"] as const) {
          for (const accept of ["text/html", "application/json"]) {
            const response = yield* Effect.promise(() =>
              fetch(`http://127.0.0.1:${port}${path}`, { method, headers: { accept }, redirect: "manual" })
            )
            assert.strictEqual(response.status, 302, `${method} ${path}`)
            assert.strictEqual(response.headers.get("location"), "/v1/docs")
            assert.strictEqual(response.headers.get("x-api-version"), "v1")
            assert.isNotNull(response.headers.get("x-request-id"))
          }
        }
      }
      for (const path of ["/", "/docs"]) {
        const { body, status } = yield* open(path, { method: "POST" })
        assert.strictEqual(status, 405)
        assert.strictEqual(valueAt(body, "error", "code"), "method_not_allowed")
      }
    }))

  it.effect("suggests similar pages to browsers, and sends JSON to other clients (README.md)", () =>
    Effect.gen(function* () {
      const browser = { Accept: "text/html,application/xhtml+xml,*/*;q=0.8" }
      const nearest = [
        ["/v1/docs/linage", "/v1/docs/lineage"],
        ["/v1/docs/errors.md", "/v1/docs/errors"],
        ["/v1/docs/reference/newss", "/v1/docs/reference/news"],
        ["/v1/docs/gap-stats", "/v1/docs/reference/gap-stats"],
      ] as const
      for (const [path, page] of nearest) {
        const { headers, status, text } = yield* open(path, { headers: browser })
        assert.strictEqual(status, 404, path)
        assert.strictEqual(headers["content-type"], "text/html; charset=utf-8")
        assert.strictEqual(headers["content-security-policy"], policy)
        assert.strictEqual(headers["x-api-version"], "v1")
        assert.include(headers["vary"] ?? "", "Accept")
        const main = text.slice(text.indexOf("<main"), text.indexOf("</main>"))
        assert.include(main, `<a href="${page}">`)
      }
      const { text } = yield* open("/v1/docs/%3Cscript%3E", { headers: browser })
      assert.notInclude(text, "<script>")
      const { body, status } = yield* open("/v1/docs/linage")
      assert.strictEqual(status, 404)
      assert.strictEqual(valueAt(body, "error", "code"), "not_found")
    }))

  it.effect("lists every declared error code with its status (§7.2, D13)", () =>
    Effect.gen(function* () {
      const { text } = yield* open("/v1/docs/errors")
      const listed = errorCodeReference.map(({ code, status }) => `${status} ${code}`)
      const declared = new Set<string>()
      for (const path of Object.keys(getDefaultOpenApiDocument().paths)) {
        for (const [status, response] of getDocumentedResponses(path)) {
          if (Number(status) < 400) continue
          const schema = valueAt(response, "content", "application/json", "schema")
          const errors = listNonNullSchemaAlternatives(schema)
            .flatMap((body) => listNonNullSchemaAlternatives(valueAt(body, "properties", "error")))
          for (const error of errors) {
            declared.add(`${status} ${String(valueAt(error, "properties", "code", "enum", 0))}`)
          }
        }
      }
      assertFoundMoreThan(10, "declared errors", declared)
      // The text below the table lists the responses to malformed requests.
      const malformed = ["408 bad_request", "413 bad_request", "431 bad_request"]
      for (const one of malformed) assert.include(text, one.slice(0, 3))
      assert.includeMembers([...listed, ...malformed], Array.from(declared))
      const plain = text.replaceAll("<wbr>", "")
      for (const { code } of errorCodeReference) assert.include(plain, `<code>${code}</code>`)
    }))
})

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true })(
  "The documentation of one service",
  (it) => {
    it.effect("keeps the path of BASE_URL in redirects (D10)", () =>
      Effect.gen(function* () {
        const port = yield* Effect.provideService(
          ServiceInstances.startServiceInstance(),
          BaseUrl,
          "https://api.example.com/market",
        )
        const { headers, status } = yield* ServiceInstances.requestOverWire(port, "/docs", "")
        assert.strictEqual(status, 302)
        assert.strictEqual(headers["location"], "/market/v1/docs")
      }).pipe(Effect.scoped))

    it.effect("shows the configured limits and prices (D18, D27)", () =>
      Effect.gen(function* () {
        const settings = { RATE_LIMIT_BASIC: "77", RATE_LIMIT_PRO: "1234", ENDPOINT_PRICES: "/v1/news=20000000" }
        const port = yield* ServiceInstances.startServiceInstance(settings)
        const { text } = yield* ServiceInstances.requestOverWire(port, "/v1/docs/cost", "")
        const plain = text.replaceAll("<wbr>", "")
        assert.match(plain, /<code>basic<\/code><\/th><td[^>]*>77<\/td>/)
        assert.match(plain, /<code>pro<\/code><\/th><td[^>]*>1,234<\/td>/)
        assert.match(plain, /<code>\/v1\/news<\/code><\/th><td[^>]*>\$20.00<\/td>/)
        for (const tier of tiers) assert.include(text, `<code>${tier}</code>`)
      }).pipe(Effect.scoped))

    it.effect("compresses pages once per encoding, each with its own strong ETag (operations/caching)", () =>
      Effect.gen(function* () {
        const port = yield* ServiceInstances.startServiceInstance()
        const plain = yield* ServiceInstances.requestOverWire(port, "/v1/docs/reference", "")
        for (const encoding of ["zstd", "br", "gzip"]) {
          const headers = { "Accept-Encoding": encoding }
          const [first, again] = [
            yield* ServiceInstances.requestOverWire(port, "/v1/docs/reference", "", { headers }),
            yield* ServiceInstances.requestOverWire(port, "/v1/docs/reference", "", { headers }),
          ]
          assert.strictEqual(first.headers["content-encoding"], encoding)
          assert.strictEqual(first.headers["vary"], "Accept-Encoding")
          assert.strictEqual(first.text, plain.text)
          assert.isBelow(first.bytes.length, plain.bytes.length / 3)
          assert.deepStrictEqual(again.bytes, first.bytes)
          assert.strictEqual(first.headers["etag"], `${plain.headers["etag"]?.slice(0, -1)}-${encoding}"`)
          const known = { ...headers, "If-None-Match": first.headers["etag"] ?? "" }
          assert.strictEqual(
            (yield* ServiceInstances.requestOverWire(port, "/v1/docs/reference", "", { headers: known })).status,
            304,
          )
        }
      }).pipe(Effect.scoped))
  },
)

describe("The guide renderer", () => {
  const renderBody = (source: string) => renderGuide("x.md", source, {}).body.toString()

  it("rejects HTML, and escapes code (maintaining.md)", () => {
    assert.throws(() => renderGuide("x.md", "# X\n\n<b>no</b>\n", {}), "docs/x.md: guides must not contain HTML: <b>")
    assert.throws(() => renderGuide("x.md", "# X\n\n<!-- no -->\n", {}), "docs/x.md")
    const body = renderBody('# X\n\n```ts\nconst a = "</code><script>"\n```\n\n`<i>` \\<i>\n')
    assert.notMatch(body, /<script|<i>/)
    assert.include(body, "&lt;/code&gt;&lt;script&gt;")
  })

  it("rejects guides without a title or with duplicate anchors (maintaining.md)", () => {
    assert.throws(() => renderGuide("x.md", "text\n", {}), "the first line must be the title")
    assert.throws(() => renderGuide("x.md", "# X\n\n## A\n\n## A\n", {}), "two headings have the anchor #a")
  })

  it("resolves links between guides, and leaves other links unchanged (maintaining.md)", () => {
    const body = renderBody("# X\n\n[a](lineage.md#a-chain) [b](index.md) [c](/v1/openapi.json)\n")
    assert.include(body, `href="/v1/docs/lineage#a-chain"`)
    assert.include(body, `href="/v1/docs"`)
    assert.include(body, `href="/v1/openapi.json"`)
    const outside = renderBody("# X\n\n[d](https://example.com/)\n")
    assert.include(outside, `<a href="https://example.com/" rel="noreferrer">`)
  })
})
