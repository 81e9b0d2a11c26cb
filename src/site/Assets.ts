/** Loads the scripts and style sheets in `browser/`, and the search library that the scripts import. */
import { Effect, FileSystem, Path } from "effect"

/** A file that documentation pages load. */
export interface Asset {
  /** The file name, such as `style.css`. */
  readonly name: string
  readonly contentType: string
  readonly text: string
}

const assetTypes: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
}

const browserFolder = new URL("./browser/", import.meta.url)

/**
 * The library that the site search uses. Scripts in `browser/` import it by its package name, which works in Node,
 * where tests run. Browsers cannot resolve package names, so in the files sent to them, the name is replaced with a
 * relative path.
 */
const searchLibrary = { packageName: "minisearch", asset: "minisearch.js" }

/** Reads the search library's script and puts the library's license in front of it. */
const loadSearchLibrary = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const script = new URL(import.meta.resolve(searchLibrary.packageName))
  const license = yield* fs.readFileString(yield* path.fromFileUrl(new URL("../../LICENSE.txt", script)))
  const code = yield* fs.readFileString(yield* path.fromFileUrl(script))
  // The comment that refers to a source map is removed, because the source map is not served.
  return `/*!\n${license.trim()}\n*/\n${code.replace(/^\/\/# sourceMappingURL=.*$/m, "")}`
})

/**
 * Loads the scripts and style sheets that pages refer to, including the search library. Scripts import the library by
 * the name of its npm package, which browsers cannot resolve, so the name is replaced by the library's file name.
 */
export const loadAssets = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = yield* path.fromFileUrl(browserFolder)
  const asset = (name: string, text: string): Asset => ({
    name,
    contentType: assetTypes[path.extname(name)] ?? "",
    text: text.replace(`from "${searchLibrary.packageName}"`, `from "./${searchLibrary.asset}"`),
  })
  const names = (yield* fs.readDirectory(directory)).filter((name) => path.extname(name) in assetTypes)
  const files = yield* Effect.forEach(
    names,
    (name) => Effect.map(fs.readFileString(path.join(directory, name)), (text) => asset(name, text)),
  )
  return [...files, asset(searchLibrary.asset, yield* loadSearchLibrary)]
}).pipe(Effect.orDie)
