/**
 * Serves the documentation. Each page is rendered on its first request, then cached together with its compressed
 * versions. Pages may load scripts and data only from their own origin.
 */
import { Effect, Exit, Function, Layer, Option } from "effect"
import { cacheCompressedBodies } from "../api/Compression.ts"
import { makeStaticPage } from "../api/StaticPages.ts"
import { CorrectionCountReader } from "../query/history/CorrectionCounts.ts"
import { BaseUrl, getBasePath } from "../api/BaseUrl.ts"
import { DocumentationPages } from "../api/SiteRoutes.ts"
import { EndpointDirectory, makeEmptyResponse, makeUnknownPathResult } from "../api/UnroutedResponses.ts"
import type { PlainResponse } from "../contract/rules/EndpointResult.ts"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"
import { findNearestName } from "../contract/rules/NameSuggestions.ts"
import { markup } from "./browser/markup.js"
import { type Asset, loadAssets } from "./Assets.ts"
import { changelogPage } from "./ChangelogPage.ts"
import { correctionsPageWithoutCounts, makeCorrectionsPageWithCounts } from "./CorrectionsPage.ts"
import { makeGuidePages } from "./Guides.ts"
import { renderHtmlPage } from "./Layout.ts"
import { getAssetPath, getPagePath, type SitePage } from "./SitePage.ts"
import { makeReferencePages } from "./ReferencePages.ts"
import { makeSearchIndexEntries } from "./SearchIndex.ts"
import { interactivePages } from "./InteractivePages.ts"

interface SiteFile {
  readonly path: `/${string}`
  readonly contentType: string
  readonly render: Effect.Effect<string>
  readonly headers: Readonly<Record<string, string>>
}

const htmlType = "text/html; charset=utf-8"

const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ")

/**
 * Security headers. They block scripts from other origins, embedding in frames, referrer information, and access from
 * windows of other origins.
 */
const securityHeaders = {
  "content-security-policy": contentSecurityPolicy,
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-frame-options": "DENY",
}

/** Creates all pages of the documentation, in the order in which the navigation lists them. */
const loadPages = Effect.gen(function* () {
  const pages: ReadonlyArray<SitePage> = [
    ...(yield* makeGuidePages),
    ...interactivePages,
    changelogPage,
    correctionsPageWithoutCounts,
    ...(yield* makeReferencePages),
  ]
  return pages
})

const assetFile = ({ contentType, name, text }: Asset): SiteFile => ({
  path: getAssetPath(name),
  contentType,
  render: Effect.succeed(text),
  headers: {},
})

const pageFile = (page: SitePage, pages: ReadonlyArray<SitePage>): SiteFile => ({
  path: page.path,
  contentType: htmlType,
  render: Effect.sync(() => renderHtmlPage(page, pages)),
  headers: securityHeaders,
})

/**
 * The search index. Creating it requires rendering all pages, which takes a while, so the fiber yields between pages to
 * let other requests run.
 */
const searchIndexFile = (pages: ReadonlyArray<SitePage>): SiteFile => ({
  path: getAssetPath("search.json"),
  contentType: "application/json",
  render: Effect.map(
    Effect.forEach(pages, (page) => Effect.andThen(Effect.yieldNow, Effect.sync(() => makeSearchIndexEntries(page)))),
    (entries) => JSON.stringify({ entries: entries.flat() }),
  ),
  headers: {},
})

const makeTextPage = (text: string, { contentType, headers }: Pick<SiteFile, "contentType" | "headers">) => {
  const allHeaders = { "cache-control": "no-cache", vary: "Accept-Encoding", ...headers }
  return makeStaticPage(cacheCompressedBodies(new TextEncoder().encode(text)), contentType, allHeaders)
}

/** Returns the route of a file. The file is rendered on the first request; later requests get the same response. */
const fileRoute = Effect.fnUntraced(function* (file: SiteFile) {
  const page = yield* Effect.cached(Effect.map(file.render, (text) => makeTextPage(text, file)))
  return { path: file.path, respond: () => page }
})

/**
 * Returns the route of the corrections page. Each request reads the counts, which `CorrectionCountReader` itself caches
 * for a while. The page is rendered only once per result: as long as the reader returns the same object, visitors get
 * the same page. If the counts cannot be read, the page says so.
 */
const correctionsRoute = Effect.fnUntraced(function* (pages: ReadonlyArray<SitePage>) {
  const { read } = yield* CorrectionCountReader
  const render = (page: SitePage) =>
    makeTextPage(renderHtmlPage(page, pages), { contentType: htmlType, headers: securityHeaders })
  const renderCounts = Function.memoize((counts: Effect.Success<typeof read>) =>
    render(makeCorrectionsPageWithCounts(counts))
  )
  const result = Effect.match(read, {
    onSuccess: renderCounts,
    onFailure: () => render(makeCorrectionsPageWithCounts(undefined)),
  })
  return { path: correctionsPageWithoutCounts.path, respond: () => result }
})

/**
 * Finds up to five pages whose names are similar to that in an unknown path. The name is the last segment of a path,
 * such as `lineage` in `/v1/docs/lineage`. The page with the most similar spelling comes first. It is followed by pages
 * whose name contains the requested name or is contained in it, such as `errors` for `errors-and-retries`.
 */
const findSimilarPages = (unknownPath: string, pages: ReadonlyArray<SitePage>) => {
  const getLastSegment = (path: string) => path.split("/").at(-1) ?? ""
  const requestedName = getLastSegment(unknownPath.replace(/\/+$/, "")).replace(/\.(md|html?)$/, "").toLowerCase()
  const nearestName = Option.getOrUndefined(
    findNearestName(requestedName, pages.map(({ path }) => getLastSegment(path))),
  )
  const nearest = pages.filter(({ path }) => getLastSegment(path) === nearestName)
  const overlapping = pages.filter(({ path }) => {
    const name = getLastSegment(path)
    // One or two letters would be contained in too many names.
    return requestedName.length > 2 && (name.includes(requestedName) || requestedName.includes(name))
  })
  return Array.from(new Set([...nearest, ...overlapping])).slice(0, 5)
}

/** Returns the page to show with status 404 for an unknown path. It contains links to pages with similar names. */
const notFoundPage = (path: string, pages: ReadonlyArray<SitePage>): SitePage => {
  const links = findSimilarPages(path, pages).map(({ path, title }) => markup`<li><a href="${path}">${title}</a></li>`)
  return {
    path: getPagePath("not-found"),
    title: "Page not found",
    section: "Start",
    scripts: [],
    render: () => ({
      description: "The documentation has no page at this address.",
      body: markup`<h1>Page not found</h1>
<p>The documentation has no page at <code>${path.slice(0, 200)}</code>.</p>
${links.length > 0 && markup`<p>Did you mean:</p><ul>${links}</ul>`}
<p>Go to the <a href="${getPagePath("index")}">start page</a>, or use the search.</p>`,
    }),
  }
}

/** Returns whether the client accepts `text/html`. Browsers do when they follow a link, but API clients do not. */
const acceptsHtml = (request: ApiRequest) => /\btext\/html\b/i.test(getHeader(request, "accept") ?? "")

/**
 * Returns the 404 response for an unknown path below `/v1/docs`: a page for browsers, and the API's usual JSON error
 * for other clients.
 */
const makeUnknownPageResult = (
  directory: EndpointDirectory["Service"],
  request: ApiRequest,
  pages: ReadonlyArray<SitePage>,
) => {
  const [path = ""] = request.target.split("?", 1)
  if (!acceptsHtml(request)) return makeUnknownPathResult(directory, path)
  const response: PlainResponse = {
    _tag: "Plain",
    status: 404,
    contentType: htmlType,
    headers: { "cache-control": "no-store", vary: "Accept", ...securityHeaders },
    body: new TextEncoder().encode(renderHtmlPage(notFoundPage(path, pages), pages)),
  }
  return response
}

/** Paths that redirect to the documentation. */
const redirects = ["/", "/docs"] as const

/**
 * Returns a redirect to the documentation's home page. The location includes the path of `BASE_URL`, because a load
 * balancer may have removed it from the request path.
 */
const redirectToStart = (baseUrl: string) =>
  makeEmptyResponse(302, {
    location: `${getBasePath(baseUrl)}${getPagePath("index")}`,
    "cache-control": "no-cache",
  })

/**
 * Provides the routes of the documentation: all pages, scripts and style sheets, the search index, the redirects, and a
 * route that responds with 404 to every other path below `/v1/docs`.
 */
export const layer = Layer.effect(
  DocumentationPages,
  Effect.gen(function* () {
    const directory = yield* EndpointDirectory
    const redirect = Exit.succeed(redirectToStart(yield* BaseUrl))
    const pages = yield* loadPages
    // The page of corrections is not a file: its route adds the current counts to it.
    const files = [
      ...pages.flatMap((page) => page === correctionsPageWithoutCounts ? [] : [pageFile(page, pages)]),
      ...(yield* loadAssets).map(assetFile),
      searchIndexFile(pages),
    ]
    return DocumentationPages.of({
      routes: [
        ...(yield* Effect.forEach(files, fileRoute)),
        yield* correctionsRoute(pages),
        ...redirects.map((path) => ({ path, respond: () => redirect })),
        {
          path: `${getPagePath("index")}/:page/*`,
          respond: (request: ApiRequest) => Effect.sync(() => makeUnknownPageResult(directory, request, pages)),
        },
      ],
      paths: new Set([...files.map(({ path }) => path), correctionsPageWithoutCounts.path, ...redirects]),
    })
  }),
)
