/**
 * Builds the npm package in `clients/typescript/dist`, or in the folder given as an argument:
 *
 * - `tickerline/client` is compiled and imports its peer dependency `effect`;
 * - `tickerline` and `tickerline/promise` are bundled with the modules of Effect that they use. Their types do not
 *   refer to Effect's types.
 */
import { execFileSync } from "node:child_process"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join, relative } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { rolldown } from "rolldown"
import { renderPromiseContract } from "./PromiseDeclarations.ts"
import { renderPromiseSchemas } from "./PromiseSchemaModule.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const [folder = join(root, "clients/typescript/dist")] = process.argv.slice(2)

rmSync(folder, { recursive: true, force: true })
const compiler = join(root, "node_modules/.bin/tsc")
// With several checkers, each would type-check Effect again.
const compilerOptions = ["--project", "clients/typescript/tsconfig.json", "--outDir", folder, "--checkers", "1"]
execFileSync(compiler, compilerOptions, { cwd: root, stdio: "inherit" })
writeFileSync(join(folder, "client/PromiseContract.d.ts"), renderPromiseContract())

const schemaModule = join(root, "src/client/PromiseSchemas.ts")
const bundle = await rolldown({
  input: join(root, "src/client/PromiseClient.ts"),
  platform: "neutral",
  cwd: root,
  // Drops modules from which nothing is used, such as the service's error classes.
  treeshake: { moduleSideEffects: false },
  plugins: [{
    name: "generated-schemas",
    load: (id) => id === schemaModule ? renderPromiseSchemas("../contract/rows/JsonDecimals.ts") : null,
  }],
})
const { output: [chunk] } = await bundle.generate({
  format: "esm",
  codeSplitting: false,
  // Drops documentation comments. Effect's comments would make up half of the bundle.
  comments: { legal: true, annotation: true, jsdoc: false },
})
await bundle.close()

const bundledPackages = new Set(
  chunk.moduleIds.flatMap((id) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(relative(root, id))?.[1] ?? []),
)
const licences = Array.from(bundledPackages, (name) => {
  const licence = readFileSync(join(root, "node_modules", name, "LICENSE"), "utf8")
  return `Contains parts of the npm package ${name}:\n\n${licence}`
})
writeFileSync(join(folder, "client/PromiseClient.js"), `/*! @license\n${licences.join("\n").trim()}\n*/\n${chunk.code}`)
