import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { createHash } from "node:crypto"
import { DocumentedApi } from "../../src/catalogue/OpenApi.ts"
import * as Service from "../support/Service.ts"

const page = Service.ask("/v1/docs/reference", { key: null })

/** `script-src 'x' 'y'` as `["script-src", ["'x'", "'y'"]]`. */
const directives = (policy: string | undefined) =>
  new Map(
    (policy ?? "").split("; ").map((directive) => {
      const [name = "", ...sources] = directive.split(" ")
      return [name, sources] as const
    }),
  )

/** As a browser reads: a script ends where the first end tag stands, whatever else is in it. */
const scriptsIn = (html: string, from = 0): ReadonlyArray<string> => {
  const start = html.indexOf("<script>", from)
  if (start < 0) return []
  const end = html.indexOf("</script>", start)
  return [html.slice(start + "<script>".length, end), ...scriptsIn(html, end)]
}

layer(Service.layer, { excludeTestServices: true })("The reference page", (it) => {
  it.effect("SECURITY.md, the reference: its own scripts run and no others, each known by its digest", () =>
    Effect.gen(function* () {
      const { headers, status, text } = yield* page
      assert.strictEqual(status, 200)
      const scripts = scriptsIn(text)
      assert.lengthOf(scripts, 2)
      assert.isAbove(scripts[0]?.length ?? 0, 1_000_000)
      assert.include(scripts[1], "createApiReference")
      // What a browser puts into another form before it takes the digest.
      assert.notMatch(text, /[\r\0]/)
      assert.deepStrictEqual(
        directives(headers["content-security-policy"]).get("script-src"),
        scripts.map((script) => `'sha256-${createHash("sha256").update(script).digest("base64")}'`),
      )
      const markup = scripts.reduce((rest, script) => rest.replace(script, () => ""), text)
      assert.isBelow(markup.length, 5_000)
      assert.include(markup, `<a href="/v1/docs">`)
      assert.lengthOf(markup.match(/<script/gi) ?? [], 2)
      assert.notMatch(markup, /\son[a-z]+\s*=|javascript:/i)
    }))

  it.effect("SECURITY.md, the reference: it talks to its own origin alone, and nobody frames it or learns where it was read", () =>
    Effect.gen(function* () {
      for (const method of ["GET", "HEAD"] as const) {
        const { headers } = yield* Service.ask("/v1/docs/reference", { key: null, method })
        const { "script-src": scripts, ...others } = Object.fromEntries(directives(headers["content-security-policy"]))
        assert.isDefined(scripts)
        assert.deepStrictEqual(others, {
          "default-src": ["'none'"],
          "style-src": ["'unsafe-inline'"],
          "img-src": ["data:"],
          "connect-src": ["'self'"],
          "base-uri": ["'none'"],
          "form-action": ["'none'"],
          "frame-ancestors": ["'none'"],
        })
        assert.strictEqual(headers["x-frame-options"], "DENY")
        assert.strictEqual(headers["referrer-policy"], "no-referrer")
        assert.strictEqual(headers["cross-origin-opener-policy"], "same-origin")
        assert.strictEqual(headers["x-content-type-options"], "nosniff")
      }
    }))

  it.effect("SECURITY.md, the reference: what it tries is of its own origin, since its document names no other server", () =>
    Effect.sync(() => {
      const { servers } = OpenApi.fromApi(DocumentedApi)
      assert.isUndefined(servers)
    }))
})
