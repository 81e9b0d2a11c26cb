/** The documentation: a page that can try requests and works without the internet; it runs its own scripts alone. */
import { Effect, Function, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiScalar } from "effect/http-api"
import { hash } from "node:crypto"
import { documentation } from "../policy/Lifecycle.ts"
import { DocumentedApi } from "./OpenApi.ts"

/** Three bars, inside the page as everything else. */
const favicon = "data:image/svg+xml," + encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path stroke="#07c" stroke-width="3" ` +
    `d="M3 15V9M8 15V2M13 15V6"/></svg>`,
)

const page = HttpApiScalar.layer(DocumentedApi, {
  path: documentation,
  scalar: { favicon, withDefaultFonts: false, authentication: { preferredSecurityScheme: "apiKey" } },
})

/** The page's scripts stand in it, and are known by their digests. Styles Scalar makes while it runs. */
const policy = (html: string) => {
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

const textOf = ({ body }: HttpServerResponse.HttpServerResponse) =>
  body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : ""

/** The page is one response for all, so this is done once. */
const guarded = Function.memoize((response: HttpServerResponse.HttpServerResponse) =>
  HttpServerResponse.setHeaders(response, {
    "Content-Security-Policy": policy(textOf(response)),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
  })
)

export const layer = page.pipe(Layer.provide(HttpRouter.middleware(Effect.map(guarded)).layer))
