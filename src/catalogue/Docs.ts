/** The reference: a page that can try requests and works without the internet; it runs its own scripts alone. */
import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiScalar } from "effect/http-api"
import { hash } from "node:crypto"
import { documentation } from "../policy/Lifecycle.ts"
import { DocumentedApi } from "./OpenApi.ts"

/** Three bars, inside the page as everything else. */
export const favicon = "data:image/svg+xml," + encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path stroke="#07c" stroke-width="3" ` +
    `d="M3 15V9M8 15V2M13 15V6"/></svg>`,
)

export const path = `${documentation}/reference` as const

const settings = {
  favicon,
  withDefaultFonts: false,
  authentication: { preferredSecurityScheme: "apiKey" },
  // What leads to its makers' pages.
  showDeveloperTools: "never",
  hideClientButton: true,
}

const scalar = HttpApiScalar.layer(DocumentedApi, { path, scalar: settings })

/** The way back to the other pages; Scalar makes room for a header of that height. */
const header = `<style>
:root { --scalar-custom-header-height: 44px }
.back { position: sticky; top: 0; z-index: 10; box-sizing: border-box; height: 44px; padding: 11px 20px;
  font: 16px/22px system-ui, sans-serif; background: var(--scalar-background-1, #fff);
  border-bottom: 1px solid var(--scalar-border-color, #ccc) }
.back a { color: var(--scalar-color-1, #06c) }
</style>
<nav class="back" aria-label="Documentation"><a href="${documentation}">← Tickerline documentation</a></nav>`

const withHeader = (html: string) => {
  const body = "<body>"
  const at = html.indexOf(body)
  if (at < 0 || at > html.indexOf("<script>")) throw new Error("The reference page has no place for its header.")
  const before = html.slice(0, at).replace("<html>", `<html lang="en">`)
  return `${before}${body}\n${header}${html.slice(at + body.length)}`
}

/** The page's scripts stand in it, and are known by their digests. Styles Scalar makes while it runs. */
const policyOf = (html: string) => {
  const scripts = Array.from(html.matchAll(/<script>([\s\S]*?)<\/script>/g), ([, script = ""]) => script)
  return [
    "default-src 'none'",
    ["script-src", ...scripts.map((script) => `'sha256-${hash("sha256", script, "base64")}'`)].join(" "),
    "style-src 'unsafe-inline'",
    "img-src data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ")
}

/** The page as Scalar's own layer answers it, and the policy under which it works. */
export const reference = Effect.promise(async () => {
  const { dispose, handler } = HttpRouter.toWebHandler(scalar, { disableLogger: true })
  const html = withHeader(await (await handler(new Request(`http://localhost${path}`))).text())
  await dispose()
  return { html, policy: policyOf(html) }
})
