/** Every block of code in the documents is run against the sample data, and what stands below it is what it prints. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Logger } from "effect"
import { globSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { BaseUrl } from "../../src/http/Middleware.ts"
import * as FirstStart from "../../src/cli/FirstStart.ts"
import { LineageReason } from "../../src/rules/Errors.ts"
import {
  findTypeErrors,
  makeReaderProject,
  normalizeOutput,
  pythonWithRequests,
  runCodeBlock,
} from "../support/DocumentExamples.ts"
import {
  type CodeBlock,
  compactJson,
  formatJson,
  readCodeBlocks,
  replaceCodeBlocks,
  repositoryRoot,
} from "../support/CodeBlocks.ts"
import * as Instances from "../support/ServiceInstances.ts"
import { findFreePort } from "../support/Processes.ts"
import { TestKeys } from "../support/Service.ts"

// @module-tag slow

const files = ["README.md", ...globSync("docs/*.md", { cwd: repositoryRoot }).toSorted()]

/** `UPDATE_EXAMPLES=1 npm test -- docs/examples` writes down what the examples print now. */
const update = process.env["UPDATE_EXAMPLES"] === "1"

/** Without it these examples are skipped, and say so; where it is required they fail. */
const skipped = pythonWithRequests === undefined && (process.env["REQUIRE_PYTHON"] ?? "") === ""
const named = (name: string) => `${name}${skipped ? " (no python3 with requests on this machine)" : ""}`

const sampled = Layer.effectDiscard(Effect.scoped(Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  yield* FirstStart.loadSampleMarket(yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-samples-" }))
}))).pipe(Layer.provide(Logger.layer([])), Layer.provideMerge(Instances.databaseWithKeys))

const asks = ({ language, text }: CodeBlock) => language === "sh" && /\bcurl\b|^export TICKERLINE_KEY/m.test(text)
const isRun = (fence: CodeBlock) => asks(fence) || fence.language === "ts" || fence.language === "python"
const isOutput = ({ language }: CodeBlock) => language === "json" || language === "text"

/** Each block that is run, with the block of its output, where the document shows one. */
const examplesOf = (file: string) =>
  readCodeBlocks(file).flatMap((fence, at, all) => {
    const next = all[at + 1]
    return isRun(fence) ? [{ fence, shown: next !== undefined && isOutput(next) ? next : undefined }] : []
  })

const same = (shown: CodeBlock, printed: string) =>
  shown.language === "text"
    ? shown.text.trimEnd() === printed
    : shown.text !== "" && normalizeOutput(compactJson(shown.text), "none:") === compactJson(printed)

layer(sampled, { excludeTestServices: true, timeout: "120 seconds" })("The documents' examples", (it) => {
  const started = Effect.gen(function* () {
    const port = yield* findFreePort
    const base = `http://127.0.0.1:${port}`
    yield* Instances.startInstance({}, { port }).pipe(Effect.provideService(BaseUrl, base))
    const { ultimate } = yield* TestKeys
    const place = yield* makeReaderProject
    writeFileSync(join(place, ".tickerline", "demo-key"), `${ultimate}\n`)
    return { base, key: ultimate, place }
  })

  const check = Effect.fnUntraced(function* (file: string, languages: ReadonlyArray<string>) {
    const { base, key, place } = yield* started
    const changes: Array<{ readonly fence: CodeBlock; readonly text: string }> = []
    for (const { fence, shown } of examplesOf(file).filter(({ fence }) => languages.includes(fence.language))) {
      const where = `${file}:${fence.line}`
      const { code, error, out } = yield* runCodeBlock(fence, place, base, key)
      assert.strictEqual(code, 0, `${where} ends with ${code}: ${error}${out}`)
      if (shown === undefined) continue
      const printed = normalizeOutput(out, base)
      if (same(shown, printed)) continue
      const text = shown.language === "json" ? formatJson(printed) : printed
      if (update) changes.push({ fence: shown, text })
      else assert.fail(`${where} prints, and ${file}:${shown.line} does not show:\n${text}`)
    }
    if (changes.length > 0) replaceCodeBlocks(file, changes)
  }, Effect.scoped)

  it.effect.each(files)("%s, its examples run, and print what stands below them", (file) => check(file, ["sh", "ts"]))

  for (const file of files.filter((file) => readCodeBlocks(file).some(({ language }) => language === "python"))) {
    it.effect.skipIf(skipped)(
      named(`${file}, its Python runs, and prints what stands below it`),
      () => check(file, ["python"]),
    )
  }

  it.effect("docs/lineage.md, each picture shows what the service answers", () =>
    Effect.gen(function* () {
      const { base, key } = yield* started
      const port = Number(new URL(base).port)
      const changes: Array<{ readonly fence: CodeBlock; readonly text: string }> = []
      const drawn = files.flatMap(readCodeBlocks).filter(({ language }) => language === "chain")
      assert.isAbove(drawn.length, 6)
      for (const fence of drawn) {
        const answer = yield* Instances.requestOverWire(
          port,
          `/v1/ticker-changes?ticker=${fence.argument.split(" ")[0]}`,
          key,
        )
        const printed = normalizeOutput(answer.text, base)
        if (fence.text !== "" && compactJson(fence.text) === compactJson(printed)) continue
        const text = formatJson(printed)
        if (update) changes.push({ fence, text })
        else assert.fail(`${fence.file}:${fence.line} draws something else than\n${text}`)
      }
      for (const file of new Set(changes.map(({ fence }) => fence.file))) {
        replaceCodeBlocks(file, changes.filter(({ fence }) => fence.file === file))
      }
    }).pipe(Effect.scoped))

  it.effect("docs, every reason to refuse a chain is drawn", () =>
    Effect.sync(() => {
      const shown = files.flatMap(readCodeBlocks).filter(({ language }) => language === "chain").map(({ text }) => text)
        .join()
      for (const reason of LineageReason.literals) assert.include(shown, `"reason": "${reason}"`)
    }))

  it.effect("docs, TypeScript in the documents has no type error", () =>
    Effect.gen(function* () {
      const fences = files.flatMap(readCodeBlocks).filter(({ language }) => language === "ts")
      assert.isAbove(fences.length, 3)
      assert.strictEqual(yield* findTypeErrors(yield* makeReaderProject, fences), "")
      const wrong = { file: "docs/wrong.md", line: 7, language: "ts", argument: "", text: "const text: string = 1" }
      assert.include(yield* findTypeErrors(yield* makeReaderProject, [wrong]), "docs/wrong.md:7(1,7): error TS2322")
    }).pipe(Effect.scoped))
})

// ---------------------------------------------------------------------------------------------------------------------
// What is not run
// ---------------------------------------------------------------------------------------------------------------------

const known = new Set(["sh", "ts", "python", "json", "text", "chain", "table", "deprecations", "converter"])

describe("The documents' blocks", () => {
  it("docs, each is of a kind that is run, drawn, filled in or shown as output; and each output is somebody's", () => {
    const wrong = files.flatMap((file) =>
      readCodeBlocks(file).filter((fence, at, all) => {
        const before = all[at - 1]
        return !known.has(fence.language) || (isOutput(fence) && (before === undefined || !isRun(before)))
      })
    )
    assert.deepStrictEqual(wrong.map(({ file, language, line }) => `${file}:${line} ${language}`), [])
  })
})
