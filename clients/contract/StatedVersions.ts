/**
 * Keeps the version number consistent in files that repeat the version from `package.json` because they cannot read it.
 */
import { readFileSync, writeFileSync } from "node:fs"

/** Matches the version in the name of a container image or of an npm package archive. */
export const namedVersion = /(?<=\btickerline[:-])\d+\.\d+\.\d+\b/g

/** The pattern for each file, by file path. It matches only this project's version. */
const patterns: Readonly<Record<string, RegExp>> = {
  "package-lock.json": /(?<="name": "tickerline",\n +"version": ")[^"]+/g,
  "clients/typescript/package.json": /(?<=^ {2}"version": ")[^"]+/gm,
  "src/client/EndpointCaller.ts": /(?<=\bclientVersion = ")[^"]+/g,
  "clients/python/src/tickerline/_version.py": /(?<=^__version__ = ")[^"]+/gm,
  "ops/compose.yaml": namedVersion,
  "ops/helm/tickerline/Chart.yaml": /(?<=^(?:version|appVersion): "?)\d+\.\d+\.\d+/gm,
  "clients/typescript/README.md": namedVersion,
  "docs/guides/client.md": namedVersion,
  "docs/operations/deployment.md": namedVersion,
}

const locate = (file: string) => new URL(`../../${file}`, import.meta.url)

/** Returns the versions found in each file. */
export const readStatedVersions = (): Readonly<Record<string, ReadonlyArray<string>>> =>
  Object.fromEntries(
    Object.entries(patterns).map(([file, pattern]) => [file, readFileSync(locate(file), "utf8").match(pattern) ?? []]),
  )

export const writeStatedVersions = (version: string) => {
  for (const [file, pattern] of Object.entries(patterns)) {
    writeFileSync(locate(file), readFileSync(locate(file), "utf8").replaceAll(pattern, version))
  }
}
