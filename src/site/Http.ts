/**
 * The documentation: pages and what they load, made once when the service starts, kept as bytes and compressed once.
 * They run scripts of this origin alone, and talk to it alone.
 */
import { Context, Effect, FileSystem, Layer, Path } from "effect"
import { HttpRouter, type HttpServerRequest } from "effect/http"
import { conditional } from "../cache/Revalidation.ts"
import * as Docs from "../catalogue/Docs.ts"
import { constant } from "../Compression.ts"
import { frame } from "./Layout.ts"
import { asset } from "./Page.ts"
import { pages } from "./Pages.ts"

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

/** What every page forbids: frames, telling others where it was read, and a window that others hold. */
const guarded = (policy: string) => ({
  "Content-Security-Policy": policy,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
})

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

const browser = new URL("./browser/", import.meta.url)

const assets = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const place = yield* path.fromFileUrl(browser)
  const names = (yield* fs.readDirectory(place)).filter((name) => path.extname(name) in types)
  return yield* Effect.forEach(names, (name) =>
    Effect.map(fs.readFileString(path.join(place, name)), (text): File => ({
      path: asset(name),
      type: types[path.extname(name)] ?? "",
      text,
      headers: {},
    })))
}).pipe(Effect.orDie)

const files = Effect.gen(function* () {
  const { all, navigation } = yield* pages
  const framed = all.map((page): File => ({
    path: page.path,
    type: html,
    text: frame(page, navigation),
    headers: guarded(policy),
  }))
  const { html: text, policy: own } = yield* Docs.reference
  return [...framed, { path: Docs.path, type: html, text, headers: guarded(own) }, ...yield* assets]
})

/** The answer to all who ask for the file; 304 to whoever has it (RFC 9110), in whatever encoding. */
const answer = ({ headers, text, type }: File) => {
  const kept = { "Cache-Control": "no-cache", Vary: "Accept-Encoding", ...headers }
  const respond = conditional(constant(new TextEncoder().encode(text)), type, kept)
  return (request: HttpServerRequest.HttpServerRequest) => Effect.succeed(respond(request))
}

/** The addresses at which there is something to read. */
export class Addresses extends Context.Service<Addresses, ReadonlySet<string>>()("tickerline/site/Addresses") {}

export const layer = Layer.effect(
  Addresses,
  Effect.gen(function* () {
    const router = yield* HttpRouter.HttpRouter
    const made = yield* files
    yield* router.addAll(made.map((file) => HttpRouter.route("GET", file.path, answer(file))))
    return new Set(made.map(({ path }) => path))
  }),
)
