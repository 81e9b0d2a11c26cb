/** Runs the example programs in the documentation the way a reader would run them. */
import { execFile, spawnSync } from "node:child_process"
import { globSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { type CodeBlock, repositoryRoot } from "./CodeBlocks.ts"
import { compileCacheFolder } from "./Processes.ts"

/** The service URL that the examples in the documentation use. */
export const exampleBaseUrl = "http://127.0.0.1:8080"

/** The documents whose examples are executed. */
export const documentsWithExamples = [
  "README.md",
  ...globSync("docs/{guides,operations}/*.md", { cwd: repositoryRoot }).toSorted(),
]

/** The exit code and output of a program. */
export interface ProcessResult {
  readonly code: number
  readonly out: string
  readonly error: string
}

/**
 * Runs a program without the environment variables of the tests. Does not block the event loop, because the service may
 * be running in this process.
 */
export const runProgram = (
  program: string,
  args: ReadonlyArray<string>,
  cwd: string,
  env: Readonly<Record<string, string>>,
) =>
  Effect.callback<ProcessResult>((resume) => {
    const { HOME, PATH } = process.env
    const options = {
      cwd,
      env: { HOME, PATH, NODE_COMPILE_CACHE: compileCacheFolder, NO_COLOR: "1", ...env },
      timeout: 120_000,
      maxBuffer: 16 * 1024 * 1024,
    }
    const child = execFile(program, [...args], options, (failure, out, error) => {
      const code = failure === null ? 0 : typeof failure.code === "number" ? failure.code : 1
      resume(Effect.succeed({ code, out, error }))
    })
    return Effect.sync(() => child.kill())
  })

/**
 * Creates a project like a reader's: a folder from which Node can resolve all packages, including this package by its
 * name.
 */
export const makeReaderProject = Effect.acquireRelease(
  Effect.sync(() => {
    const place = mkdtempSync(join(tmpdir(), "tickerline-examples-"))
    mkdirSync(join(place, "node_modules"))
    for (const name of readdirSync(join(repositoryRoot, "node_modules"))) {
      if (!name.startsWith(".")) {
        symlinkSync(join(repositoryRoot, "node_modules", name), join(place, "node_modules", name))
      }
    }
    symlinkSync(repositoryRoot, join(place, "node_modules", "tickerline"))
    writeFileSync(join(place, "package.json"), `{ "type": "module" }\n`)
    mkdirSync(join(place, ".tickerline"))
    return place
  }),
  (place) => Effect.sync(() => rmSync(place, { recursive: true })),
)

const makeFileName = ({ file, line }: CodeBlock) => `${file.replaceAll(/\W/g, "-")}-${line}`

/**
 * Writes TypeScript blocks to a folder that also contains `files`, and type-checks everything. Returns the errors, or
 * "".
 */
export const findTypeErrors = Effect.fnUntraced(function* (
  place: string,
  files: ReadonlyArray<string>,
  fences: ReadonlyArray<CodeBlock>,
  compilerOptions: Readonly<Record<string, unknown>>,
) {
  const included = [...files, ...fences.map((fence) => `${makeFileName(fence)}.ts`)]
  const config = { extends: join(repositoryRoot, "tsconfig.json"), compilerOptions, files: included, include: [] }
  // The file is not named `tsconfig.json`, because Deno would read it as well.
  writeFileSync(join(place, "type-check.json"), JSON.stringify(config))
  for (const fence of fences) writeFileSync(join(place, `${makeFileName(fence)}.ts`), `${fence.text}\n`)
  const { code, out } = yield* runProgram(
    join(repositoryRoot, "node_modules/.bin/tsc"),
    // One checker is enough, because each additional one would check the types of Effect again.
    ["--project", "type-check.json", "--noEmit", "--pretty", "false", "--checkers", "1"],
    place,
    {},
  )
  if (code === 0) return ""
  return fences.reduce(
    (text, fence) => text.replaceAll(`${makeFileName(fence)}.ts`, `${fence.file}:${fence.line}`),
    `tsc ends with ${code}: ${out}`,
  )
})

/** Runs a code block against the service at `base`. */
export const runCodeBlock = (fence: CodeBlock, place: string, base: string, key: string) => {
  const text = fence.text.replaceAll(exampleBaseUrl, base)
  const env = { TICKERLINE_KEY: key, TICKERLINE_URL: base }
  if (fence.language === "sh") return runProgram("bash", ["-euo", "pipefail", "-c", text], place, env)
  const file = join(place, `run-${makeFileName(fence)}.${fence.language === "ts" ? "ts" : "py"}`)
  writeFileSync(file, `${text}\n`)
  return runProgram(fence.language === "ts" ? process.execPath : pythonWithRequests ?? "python3", [file], place, env)
}

/**
 * A Python interpreter with the package `requests`, if there is one. Debian's Python may not come first in the PATH.
 */
export const pythonWithRequests = ["python3", "/usr/bin/python3"].find((program) =>
  spawnSync(program, ["-c", "import requests"], { stdio: "ignore" }).status === 0
)

/** Replaces request IDs and the service URL, and removes trailing white space, so that outputs can be compared. */
export const normalizeOutput = (text: string, base: string) =>
  text.replaceAll(base, exampleBaseUrl)
    .replaceAll(/("request_id":\s*")[^"]*"/g, `$101a1f000-0000-7000-8000-000000000000"`)
    .split("\n").map((line) => line.trimEnd()).join("\n").trimEnd()
