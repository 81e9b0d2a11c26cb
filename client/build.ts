/**
 * Builds `client/dist`, or the folder given as the argument:
 *
 * - `tickerline/client` is compiled as it is and imports `effect`, its peer dependency;
 * - `tickerline` and `tickerline/promise` are one file with the parts of Effect that they use, and types without Effect.
 */
import { execFileSync } from "node:child_process"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join, relative } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { rolldown } from "rolldown"
import { endpointTypes } from "./EndpointTypes.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const [folder = join(root, "client/dist")] = process.argv.slice(2)
const promise = join(folder, "client/Promise.js")

rmSync(folder, { recursive: true, force: true })
execFileSync(join(root, "node_modules/.bin/tsc"), [
  "--project",
  "client/tsconfig.json",
  "--outDir",
  folder,
], {
  cwd: root,
  stdio: "inherit",
})
writeFileSync(join(folder, "client/Endpoints.d.ts"), endpointTypes())

const bundle = await rolldown({
  input: join(root, "src/client/PromiseClient.ts"),
  platform: "neutral",
  cwd: root,
})
const { output: [chunk] } = await bundle.generate({
  format: "esm",
  codeSplitting: false,
  // The documentation of Effect's modules is half of their size.
  comments: { legal: true, annotation: true, jsdoc: false },
})
await bundle.close()

const packages = new Set(
  chunk.moduleIds.flatMap((id) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(relative(root, id))?.[1] ?? []),
)
const licences = [...packages].map((name) =>
  `Contains parts of the npm package ${name}:\n\n${readFileSync(join(root, "node_modules", name, "LICENSE"), "utf8")}`
)
writeFileSync(
  promise,
  `/*! @license\n${licences.join("\n").trim()}\n*/\n${chunk.code}`,
)
