/**
 * Generates TypeScript and Python clients from the OpenAPI document with public generators. The clients must compile,
 * and must return a typed response and a typed error.
 */
import { cp, mkdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { atomContentType } from "../../src/contract/endpoints/changelog.ts"
import { type Judge, type JudgedService, judgesFolder, runForFindings, runSteps } from "./Judge.ts"

const projectRoot = join(judgesFolder, "../..")
const programs = join(judgesFolder, "programs")

const compilerOptions = {
  target: "esnext",
  module: "nodenext",
  lib: ["esnext", "dom", "dom.iterable"],
  types: ["node"],
  typeRoots: [join(projectRoot, "node_modules/@types")],
  strict: true,
  noUncheckedIndexedAccess: true,
  outDir: "compiled",
}

const checkTypeScript = async ({ documentFile, folder, key, origin }: JudgedService) => {
  const cwd = join(folder, "typescript")
  await mkdir(cwd)
  await symlink(join(judgesFolder, "node_modules"), join(cwd, "node_modules"))
  await cp(join(programs, "typescript"), cwd, { recursive: true })
  await writeFile(join(cwd, "package.json"), JSON.stringify({ type: "module" }))
  await writeFile(join(cwd, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts", "generated"] }))
  const env = { TICKERLINE_URL: origin, TICKERLINE_KEY: key }
  return await runSteps([
    () => runForFindings("openapi-typescript", [documentFile, "--output", "generated/openapi-typescript.ts"], { cwd }),
    () => runForFindings("openapi-ts", ["--input", documentFile, "--output", "generated/hey-api", "--silent"], { cwd }),
    () => runForFindings(join(projectRoot, "node_modules/.bin/tsc"), [], { cwd }),
    () => runForFindings("node", ["compiled/openapi-typescript.js"], { cwd, env }),
    () => runForFindings("node", ["compiled/hey-api.js"], { cwd, env }),
  ])
}

/** Makes the generator treat the changelog feed as plain text, because it does not support the Atom content type. */
const pythonConfiguration = { content_type_overrides: { [atomContentType]: "text/plain" } }

const checkPython = async ({ documentFile, folder, key, origin }: JudgedService) => {
  const cwd = join(folder, "python")
  await mkdir(cwd)
  await writeFile(join(cwd, "configuration.json"), JSON.stringify(pythonConfiguration))
  const output = ["--output-path", "generated", "--meta", "none"]
  const args = ["generate", "--path", documentFile, ...output, "--config", "configuration.json", "--fail-on-warning"]
  const env = { TICKERLINE_URL: origin, TICKERLINE_KEY: key, PYTHONPATH: cwd }
  return await runSteps([
    () => runForFindings("openapi-python-client", args, { cwd }),
    () => runForFindings("python", [join(programs, "openapi_python_client.py")], { cwd, env }),
  ])
}

/** Checks generated clients in TypeScript and Python. */
export const generatedClients: Judge = {
  name: "generated-clients",
  programs: ["openapi-typescript", "openapi-ts", "openapi-python-client"],
  run: async (target) => [...await checkTypeScript(target), ...await checkPython(target)],
}
