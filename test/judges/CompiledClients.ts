/**
 * Generates Go and Java clients from the OpenAPI document with public generators. The clients must compile, decode
 * every number exactly, send filter values with all digits, and accept both a number and `all` for `limit`.
 */
import { appendFile, cp, mkdir, readdir, writeFile } from "node:fs/promises"
import { delimiter, join } from "node:path"
import { type Judge, type JudgedService, judgesFolder, runForFindings, runSteps } from "./Judge.ts"

const programs = join(judgesFolder, "programs")

/** Disables documentation and test generation in openapi-generator. */
const withoutDocumentation = "modelDocs=false,apiDocs=false,apiTests=false,modelTests=false"

/** Runs openapi-generator. If it fails, returns its output as a finding. */
const generate = (document: string, generator: string, cwd: string, ...options: ReadonlyArray<string>) =>
  runForFindings("openapi-generator-cli", ["generate", "-i", document, "-g", generator, ...options], { cwd })

/**
 * For all endpoints, ogen generates 300,000 lines. Unless the run is full, it therefore generates only the endpoints
 * that the test program calls.
 */
const ogenFilter = "  filters: { path_regex: ^/v1/(dilution-data-advanced|intraday-runners|screener)$ }\n"

/** Generates three Go clients and runs `programs/go` with them. */
const checkGo = async ({ documentFile, folder, isFull, key, origin }: JudgedService) => {
  const cwd = join(folder, "go")
  await cp(join(programs, "go"), cwd, { recursive: true })
  await mkdir(join(cwd, "oapicodegen"))
  if (!isFull) await appendFile(join(cwd, "ogen.yml"), ogenFilter)
  const env = { TICKERLINE_URL: origin, TICKERLINE_KEY: key, GOFLAGS: "-buildvcs=false", GOTOOLCHAIN: "local" }
  const oapiCodegen = ["-generate", "types,client", "-package", "oapicodegen", "-o", "oapicodegen/api.go", documentFile]
  const ogen = ["--config", "ogen.yml", "--target", "ogen", "--package", "ogen", documentFile]
  const files = "apis,models,supportingFiles=client.go:configuration.go:utils.go:response.go"
  const options = ["--global-property", `${files},${withoutDocumentation}`, "--package-name", "openapigenerator"]
  return await runSteps([
    () => generate(documentFile, "go", cwd, "-o", "openapigenerator", ...options),
    () => runForFindings("go", ["tool", "oapi-codegen", ...oapiCodegen], { cwd, env }),
    () => runForFindings("go", ["tool", "ogen", ...ogen], { cwd, env }),
    () => runForFindings("go", ["run", "."], { cwd, env }),
  ])
}

const listFiles = async (folder: string, extension: string) =>
  (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(extension)).map((name) =>
    join(folder, name)
  )

/** Generates a Java client and runs `programs/java` with it. */
const checkJava = async ({ documentFile, folder, key, origin }: JudgedService) => {
  const cwd = join(folder, "java")
  await cp(join(programs, "java"), cwd, { recursive: true })
  const env = { TICKERLINE_URL: origin, TICKERLINE_KEY: key }
  const files = ["--global-property", `apis,models,supportingFiles,${withoutDocumentation}`]
  const options = ["--library", "native", "--additional-properties", "useSingleRequestParameter=true"]
  const libraries = (await listFiles(join(judgesFolder, ".java"), ".jar")).join(delimiter)
  return await runSteps([
    () => generate(documentFile, "java", cwd, "-o", ".", ...files, ...options),
    async () => {
      await writeFile(join(cwd, "sources"), (await listFiles(cwd, ".java")).join("\n"))
      return await runForFindings("javac", ["-nowarn", "-d", "compiled", "-cp", libraries, "@sources"], { cwd })
    },
    () => runForFindings("java", ["-cp", `compiled${delimiter}${libraries}`, "CompareValues"], { cwd, env }),
  ])
}

/** Checks generated clients in compiled languages. */
export const compiledClients: Judge = {
  name: "compiled-clients",
  programs: ["go", "java", "javac", "openapi-generator-cli"],
  run: async (target) => [...await checkGo(target), ...await checkJava(target)],
}
