/**
 * Serves the documentation: pages and assets, made once when the service starts, kept as bytes and compressed once.
 * Pages run scripts of this origin alone, and talk to it alone.
 */
import { Context, Effect, FileSystem, Layer, Option, Path } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { getBasePath } from "../http/BaseUrl.ts"
import { makeConditionalResponder } from "../http/ConditionalRequests.ts"
import { cacheCompressedForms } from "../http/Compression.ts"
import { BaseUrl, respondNotFound } from "../http/Middleware.ts"
import { findNearestName } from "../rules/Suggestions.ts"
import { escapeHtml } from "./Html.ts"
import { renderLayout } from "./Layout.ts"
import { assetPath, type Page, pagePath } from "./Page.ts"
import { renderPages } from "./Pages.ts"
import { buildSearchIndex } from "./SearchIndex.ts"

interface File {
  readonly path: `/${string}`
  readonly type: string
  readonly text: string
  readonly headers: Readonly<Record<string, string>>
}

const types: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
}

const html = "text/html; charset=utf-8"

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ")

/** What every page forbids: other scripts, frames, telling where it was read, and being held by another window. */
const guarded = {
  "Content-Security-Policy": policy,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
}

const browser = new URL("./browser/", import.meta.url)

const assets = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const place = yield* path.fromFileUrl(browser)
  const names = (yield* fs.readDirectory(place)).filter((name) => path.extname(name) in types)
  return yield* Effect.forEach(names, (name) =>
    Effect.map(fs.readFileString(path.join(place, name)), (text): File => ({
      path: assetPath(name),
      type: types[path.extname(name)] ?? "",
      text,
      headers: {},
    })))
}).pipe(Effect.orDie)

/** The answer to all who ask for the file; 304 to whoever has it (RFC 9110), in whatever encoding. */
const answer = ({ headers, text, type }: File) => {
  const kept = { "Cache-Control": "no-cache", Vary: "Accept-Encoding", ...headers }
  const respond = makeConditionalResponder(cacheCompressedForms(new TextEncoder().encode(text)), type, kept)
  return (request: HttpServerRequest.HttpServerRequest) => Effect.succeed(respond(request))
}

/** The pages that an address may have meant, best first. */
const meant = (path: string, all: ReadonlyArray<Page>) => {
  const wanted = (path.replace(/\/+$/, "").split("/").at(-1) ?? "").replace(/\.(md|html?)$/, "").toLowerCase()
  const named = all.map((page) => ({ page, name: page.path.split("/").at(-1) ?? "" }))
  const closest = Option.getOrUndefined(findNearestName(wanted, named.map(({ name }) => name)))
  const among = named.filter(({ name }) => wanted.length > 2 && (name.includes(wanted) || wanted.includes(name)))
  return Array.from(new Set([...named.filter(({ name }) => name === closest), ...among]), ({ page }) => page).slice(
    0,
    5,
  )
}

const lost = (path: string, all: ReadonlyArray<Page>): Page => {
  const links = meant(path, all).map(({ path, title }) =>
    `<li><a href="${escapeHtml(path)}">${escapeHtml(title)}</a></li>`
  )
  return {
    path: pagePath("not-found"),
    title: "Page not found",
    description: "There is no page of the documentation at this address.",
    section: "Start",
    scripts: [],
    body: `<h1>Page not found</h1>
<p>The documentation has no page at <code>${escapeHtml(path.slice(0, 200))}</code>.</p>
${links.length === 0 ? "" : `<p>Did you mean:</p><ul>${links.join("")}</ul>`}
<p><a href="${
      pagePath("index")
    }">The first page</a> and the navigation lead to all pages; search finds their text.</p>`,
  }
}

/** A browser that follows a link asks for HTML by name; a program does not. */
const wantsPage = ({ headers }: HttpServerRequest.HttpServerRequest) => /\btext\/html\b/i.test(headers["accept"] ?? "")

const notFound = (all: ReadonlyArray<Page>) => (request: HttpServerRequest.HttpServerRequest) => {
  const [path = ""] = request.url.split("?", 1)
  if (!wantsPage(request)) return respondNotFound(path)
  return Effect.succeed(
    HttpServerResponse.text(renderLayout(lost(path, all), all), {
      status: 404,
      contentType: html,
      headers: { "Cache-Control": "no-store", Vary: "Accept", ...guarded },
    }),
  )
}

/** Addresses at which people expect the documentation. */
const entrances = ["/", "/docs"] as const

/** Below the path of `BASE_URL`, which a balancer may have taken off the request. */
const entrance = (base: string) => {
  const redirect = HttpServerResponse.redirect(`${getBasePath(base)}${pagePath("index")}`, {
    status: 302,
    headers: { "Cache-Control": "no-cache" },
  })
  return () => Effect.succeed(redirect)
}

/** The addresses at which there is something to read. */
export class SiteAddresses extends Context.Service<SiteAddresses, ReadonlySet<string>>()("tickerline/site/Addresses") {}

export const layer = Layer.effect(
  SiteAddresses,
  Effect.gen(function* () {
    const router = yield* HttpRouter.HttpRouter
    const base = yield* BaseUrl
    const all = yield* renderPages
    const made: ReadonlyArray<File> = [
      ...all.map((page) => ({ path: page.path, type: html, text: renderLayout(page, all), headers: guarded })),
      ...(yield* assets),
      {
        path: assetPath("search.json"),
        type: "application/json",
        text: JSON.stringify({ entries: buildSearchIndex(all) }),
        headers: {},
      },
    ]
    yield* router.addAll([
      ...made.map((file) => HttpRouter.route("GET", file.path, answer(file))),
      ...entrances.map((path) => HttpRouter.route("GET", path, entrance(base))),
      HttpRouter.route("GET", `${pagePath("index")}/:page/*`, notFound(all)),
    ])
    return new Set([...made.map(({ path }) => path), ...entrances])
  }),
)
