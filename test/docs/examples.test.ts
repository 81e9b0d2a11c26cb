/**
 * Runs the code blocks in the README and the guides against the sample data, and compares their output with the output
 * shown below them.
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { BaseUrl } from "../../src/api/BaseUrl.ts"
import { LineageReason } from "../../src/contract/rules/ApiErrors.ts"
import {
  documentsWithExamples as files,
  makeReaderProject,
  normalizeOutput,
  pythonWithRequests,
  runCodeBlock,
} from "../support/DocumentExamples.ts"
import { type CodeBlock, compactJson, formatJson, readCodeBlocks, replaceCodeBlocks } from "../support/CodeBlocks.ts"
import { recordInvoicedUsage } from "../support/InvoicedUsage.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import * as Service from "../support/Service.ts"

// @module-tag slow

/** To write the current output into the documents, run `UPDATE_EXAMPLES=1 npm run test:all -- docs/examples`. */
const isUpdate = process.env["UPDATE_EXAMPLES"] === "1"

/**
 * Whether to skip the Python examples because Python or `requests` is missing. With `REQUIRE_PYTHON`, they are never
 * skipped.
 */
const isPythonMissing = pythonWithRequests === undefined && (process.env["REQUIRE_PYTHON"] ?? "") === ""
const nameWithReason = (name: string) =>
  `${name}${isPythonMissing ? " (no python3 with requests on this machine)" : ""}`

/** The service with sample data, and the folder in which a reader would run the examples. */
class Reader extends Context.Service<Reader, {
  readonly base: string
  readonly key: string
  /** The folder in which the examples run. */
  readonly folder: string
}>()("test/docs/Reader") {
  static readonly layer = Layer.effect(
    Reader,
    Effect.gen(function* () {
      const port = yield* chooseFreePort
      const base = `http://127.0.0.1:${port}`
      // The long retention is needed because the invoice example uses a fixed month.
      yield* ServiceInstances.startServiceInstance({ USAGE_RETENTION: "36500 days" }, { port }).pipe(
        Effect.provideService(BaseUrl, base),
      )
      const { ultimate: key } = yield* Service.TestKeys
      yield* recordInvoicedUsage(key)
      const folder = yield* makeReaderProject
      writeFileSync(join(folder, ".tickerline", "demo-key"), `${key}\n`)
      return { base, key, folder }
    }),
  ).pipe(
    Layer.provide(Service.TestKeys.layer),
    Layer.provide(Service.sampleDatabaseLayer),
    Layer.provide(NodeCrypto.layer),
    Layer.provideMerge(NodeServices.layer),
  )
}

/** This test runs only the guide's shell examples. `test/client/package.test.ts` runs its TypeScript examples. */
const clientGuide = "docs/guides/client.md"

const isCurl = ({ language, text }: CodeBlock) => language === "sh" && /\bcurl\b|^export TICKERLINE_KEY/m.test(text)
const isRun = (fence: CodeBlock) => isCurl(fence) || fence.language === "ts" || fence.language === "python"
/** `json settings` is a file that readers create themselves. `text recorded` is compared by another test. */
const isOutput = ({ argument, language }: CodeBlock) =>
  (language === "json" && argument !== "settings") || (language === "text" && argument !== "recorded")

/** Documents with Python examples, except `python.md`, whose examples are run by `clients/python/check`. */
const filesWithPython = files.filter((file) =>
  file !== "docs/guides/python.md" && readCodeBlocks(file).some(({ language }) => language === "python")
)

/** Returns each runnable block, with the block that shows its output if there is one. */
const examplesOf = (file: string) =>
  readCodeBlocks(file).flatMap((fence, at, all) => {
    const next = all[at + 1]
    return isRun(fence) ? [{ fence, shown: next !== undefined && isOutput(next) ? next : undefined }] : []
  })

/** Returns whether a document shows what the example prints, ignoring JSON formatting. */
const isSame = (shown: CodeBlock, printed: string) =>
  shown.language === "text"
    ? shown.text.trimEnd() === printed
    : shown.text !== "" && normalizeOutput(compactJson(shown.text), "none:") === compactJson(printed)

layer(Reader.layer, { excludeTestServices: true, timeout: "120 seconds" })("In the documentation,", (it) => {
  const check = Effect.fnUntraced(function* (file: string, languages: ReadonlyArray<string>) {
    const { base, key, folder } = yield* Reader
    const changes: Array<{ readonly fence: CodeBlock; readonly text: string }> = []
    for (const { fence, shown } of examplesOf(file).filter(({ fence }) => languages.includes(fence.language))) {
      const where = `${file}:${fence.line}`
      const { code, error, out } = yield* runCodeBlock(fence, folder, base, key)
      assert.strictEqual(code, 0, `${where} ends with ${code}: ${error}${out}`)
      if (shown === undefined) continue
      const printed = normalizeOutput(out, base)
      if (isSame(shown, printed)) continue
      const text = shown.language === "json" ? formatJson(printed) : printed
      if (isUpdate) changes.push({ fence: shown, text })
      else assert.fail(`${where} prints what ${file}:${shown.line} does not show:\n${text}`)
    }
    if (changes.length > 0) replaceCodeBlocks(file, changes)
  })

  it.effect.each(files)(
    "the examples in %s run and print what the document shows (CONTRIBUTING.md)",
    (file) => check(file, file === clientGuide && !isUpdate ? ["sh"] : ["sh", "ts"]),
  )

  for (const file of filesWithPython) {
    it.effect.skipIf(isPythonMissing)(
      nameWithReason(`the Python examples in ${file} run and print what the document shows (CONTRIBUTING.md)`),
      () => check(file, ["python"]),
    )
  }

  it.effect("every drawn chain is the one that the service returns (guides/lineage)", () =>
    Effect.gen(function* () {
      const { base, key } = yield* Reader
      const port = Number(new URL(base).port)
      const changes: Array<{ readonly fence: CodeBlock; readonly text: string }> = []
      const drawn = files.flatMap(readCodeBlocks).filter(({ language }) => language === "chain")
      assertFoundMoreThan(6, "drawn chains", drawn)
      for (const fence of drawn) {
        const response = yield* ServiceInstances.requestOverWire(
          port,
          `/v1/ticker-changes?ticker=${fence.argument.split(" ")[0]}`,
          key,
        )
        const printed = normalizeOutput(response.text, base)
        if (fence.text !== "" && compactJson(fence.text) === compactJson(printed)) continue
        const text = formatJson(printed)
        if (isUpdate) changes.push({ fence, text })
        else assert.fail(`${fence.file}:${fence.line} does not draw\n${text}`)
      }
      for (const file of new Set(changes.map(({ fence }) => fence.file))) {
        replaceCodeBlocks(file, changes.filter(({ fence }) => fence.file === file))
      }
    }))

  it.effect("every reason to refuse a chain is drawn (guides/lineage)", () =>
    Effect.sync(() => {
      const shown = files.flatMap(readCodeBlocks).filter(({ language }) => language === "chain").map(({ text }) => text)
        .join()
      for (const reason of LineageReason.literals) assert.include(shown, `"reason": "${reason}"`)
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Kinds of blocks
// ---------------------------------------------------------------------------------------------------------------------

/**
 * The allowed kinds of code blocks: examples and their output, blocks that the site renders, and settings of other
 * programs.
 */
const knownLanguages = new Set(
  "sh ts python json text chain table deprecations converter ini haproxy yaml".split(" "),
)

describe("The documents", () => {
  it("have only known kinds of code blocks, and output only after runnable blocks (CONTRIBUTING.md)", () => {
    const wrong = files.flatMap((file) =>
      readCodeBlocks(file).filter((fence, at, all) => {
        const before = all[at - 1]
        return !knownLanguages.has(fence.language) || (isOutput(fence) && (before === undefined || !isRun(before)))
      })
    )
    assert.deepStrictEqual(wrong.map(({ file, language, line }) => `${file}:${line} ${language}`), [])
    const settings = files.flatMap(readCodeBlocks).filter(({ argument }) => argument === "settings")
    assert.isAbove(settings.length, 0)
    for (const { text } of settings) assert.doesNotThrow(() => JSON.parse(text))
  })
})
