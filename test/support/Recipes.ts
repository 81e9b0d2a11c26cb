/** Creates a copy of the project and applies the recipes in docs/recipes.md to it. */
import { assert } from "@effect/vitest"
import { Effect, FileSystem } from "effect"
import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { combinedOutput, type Environment, projectRoot, startProgram } from "./Processes.ts"

/** A code block on the recipes page: either the content of a new file, or a patch. */
interface RecipeBlock {
  readonly file: string | undefined
  readonly text: string
}

/** All code blocks on the recipes page. */
export const recipeBlocks = Array.from(
  readFileSync(join(projectRoot, "docs/recipes.md"), "utf8").matchAll(/^( *)```(\S+)(?: (\S+))?\n([\s\S]*?)^\1```$/gm),
  ([, indent = "", language, file, text = ""]): RecipeBlock => {
    assert.strictEqual(language === "diff", file === undefined, `${language} ${file}`)
    return { file, text: text.split("\n").map((line) => line.slice(indent.length)).join("\n") }
  },
)

/** The files that the service and its type check need. */
const copied = ["src", "sql", "samples", "docs", "package.json", "tsconfig.json"]

const copyProject = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-recipes-" })
  for (const path of copied) yield* fs.copy(join(projectRoot, path), join(folder, path))
  yield* fs.symlink(join(projectRoot, "node_modules"), join(folder, "node_modules"))
  return folder
})

/** Runs a program that must succeed. Returns its output. */
export const runProgram = Effect.fnUntraced(
  function* (program: string, args: ReadonlyArray<string>, environment: Environment = {}) {
    const running = yield* startProgram(program, args, environment)
    const { code, out } = yield* Effect.promise(() => running.ended)
    assert.strictEqual(code, 0, `${args.join(" ")}\n${combinedOutput(running)}`)
    return out
  },
)

const applyBlock = Effect.fnUntraced(function* (folder: string, { file, text }: RecipeBlock) {
  const fs = yield* FileSystem.FileSystem
  if (file !== undefined) {
    yield* fs.makeDirectory(dirname(join(folder, file)), { recursive: true })
    return yield* fs.writeFileString(join(folder, file), text)
  }
  const patch = join(folder, "recipe.patch")
  yield* fs.writeFileString(patch, text)
  // Git must recount the lines: the patches on the page contain no line numbers, which would soon be outdated.
  yield* runProgram("git", ["-C", folder, "apply", "--recount", patch], { GIT_CEILING_DIRECTORIES: dirname(folder) })
})

/** Copies the project to a temporary folder and applies all recipes in page order. Returns the folder. */
export const copyProjectWithRecipes = Effect.gen(function* () {
  const folder = yield* copyProject
  for (const block of recipeBlocks) yield* applyBlock(folder, block)
  return folder
})
