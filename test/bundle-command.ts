/**
 * Bundles `src/main.ts` into the folder given as the argument. With `TEST_COMMAND=<folder>/main.js`, tests start this
 * bundle, which uses half the CPU time of starting from source.
 */
import process from "node:process"
import { pathToFileURL } from "node:url"
import { rolldown } from "rolldown"

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error("Usage: node test/bundle-command.ts FOLDER")

const bundle = await rolldown({
  input: "src/main.ts",
  platform: "node",
  plugins: [{
    name: "keep-urls",
    // Preserves the original module URLs, because modules locate files such as migrations and guides relative to them.
    transform: (code, id) =>
      code.includes("import.meta.url")
        ? code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href))
        : undefined,
  }],
})
await bundle.write({ dir: folder, format: "esm", comments: false })
await bundle.close()
