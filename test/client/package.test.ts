/** Builds and packs the published package, installs it in projects outside the repository, and tests it there. */
import { assert, expect, layer } from "@effect/vitest"
import { Context, Effect, Layer, Predicate, Schema } from "effect"
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { createRequire, stripTypeScriptTypes } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { gzipSync } from "node:zlib"
import { rolldown } from "rolldown"
import { clientVersion } from "../../src/client/EndpointCaller.ts"
import { createClient } from "../../src/client/PromiseClient.ts"
import { toEndpointName } from "../../src/client/EndpointTypes.ts"
import * as DocumentedEndpoints from "../support/DocumentedEndpoints.ts"
import { documentsWithExamples, exampleBaseUrl, findTypeErrors, runProgram } from "../support/DocumentExamples.ts"
import { readCodeBlocks } from "../support/CodeBlocks.ts"
import { readReferenceExamples } from "../support/ReferenceExamples.ts"
import { isOlderNodeMissing, olderNodeTestSuffix, requireOlderNode } from "../support/OlderNode.ts"
import { projectRoot } from "../support/Processes.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as Service from "../support/Service.ts"

// @module-tag slow

/** Runs a command and returns its output. Fails if the command fails. */
const runOrFail = Effect.fnUntraced(function* (
  folder: string,
  command: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {},
) {
  const { code, error, out } = yield* runProgram(command, args, folder, env)
  assert.strictEqual(code, 0, `${command} ${args.join(" ")}\n${out}${error}`)
  return out
})

/** Returns the path of a program installed by this project's npm packages. */
const toolPath = (name: string) => join(projectRoot, "node_modules/.bin", name)

/** The output of `npm pack --json`. */
const Packed = Schema.Array(
  Schema.Struct({
    filename: Schema.String,
    size: Schema.Int,
    files: Schema.Array(Schema.Struct({ path: Schema.String })),
  }),
)

/** A program that compiles only if the Promise client's published types equal the types in the contract. */
const typeComparison = `
import type * as Published from "./node_modules/tickerline/dist/client/PromiseContract.d.ts"
import type * as Contract from "./contract.ts"

type ContractDetails = { readonly [Code in Contract.ErrorCode]: [Contract.DetailsOf<Code>] }
type PublishedDetails = { readonly [Code in Contract.ErrorCode]: [Published.DetailsOf<Code>] }

type ContractRows = { readonly [Name in keyof Contract.TickerlineClient]: Contract.Row<Name> }
type PublishedRows = { readonly [Name in keyof Published.TickerlineClient]: Published.Row<Name> }

export const same: ReadonlyArray<unknown> = [
  (code: Contract.ErrorCode): Published.ErrorCode => code,
  (code: Published.ErrorCode): Contract.ErrorCode => code,
  (details: ContractDetails): PublishedDetails => details,
  (details: PublishedDetails): ContractDetails => details,
  (client: Contract.TickerlineClient): Published.TickerlineClient => client,
  (client: Published.TickerlineClient): Contract.TickerlineClient => client,
  (rows: ContractRows): PublishedRows => rows,
  (rows: PublishedRows): ContractRows => rows,
]

// @ts-expect-error The comparison must fail if the types differ.
export const other = (code: Published.ErrorCode | "more"): Contract.ErrorCode => code
`

/**
 * Returns the text of `PromiseContract.ts` with imports changed to the compiled declarations, which saves about one
 * second.
 */
const contractOverDeclarations = () =>
  readFileSync(join(projectRoot, "src/client/PromiseContract.ts"), "utf8")
    .replaceAll(/ from "\.\/(\w+)\.ts"/g, ` from "./node_modules/tickerline/dist/client/$1.js"`)

/** The TypeScript examples in the client guide, each with the output that the guide shows. */
const guideExamples = readCodeBlocks("docs/guides/client.md").flatMap(({ language, text }, at, blocks) =>
  language === "ts" ? [{ code: text, output: blocks[at + 1]?.text ?? "" }] : []
)

/** Two projects in which the built package is installed. */
class Project extends Context.Service<Project, {
  /** The folder that contains the package, its peer dependency, `consumer.ts` and the examples from the guide. */
  readonly folder: string
  /** The folder that contains only the package, installed by npm, and `plain.ts`. */
  readonly plain: string
  /** The size of the compressed package. */
  readonly bytes: number
  readonly files: ReadonlyArray<string>
}>()("test/client/Project") {
  static readonly layer = Layer.effect(
    Project,
    Effect.gen(function* () {
      const home = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "tickerline-client-"))),
        (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true })),
      )
      const [source, folder, plain] = [join(home, "source"), join(home, "project"), join(home, "plain")]
      const installed = join(folder, "node_modules/tickerline")
      mkdirSync(source)
      mkdirSync(installed, { recursive: true })
      for (const file of ["package.json", "README.md", "LICENSE"]) {
        cpSync(join(projectRoot, "clients/typescript", file), join(source, file))
      }
      yield* runOrFail(projectRoot, process.execPath, ["clients/typescript/build.ts", join(source, "dist")])
      const packed = yield* runOrFail(source, "npm", ["pack", "--json", "--offline", "--pack-destination", home])
      const [first] = yield* Schema.decodeUnknownEffect(Packed)(JSON.parse(packed))
      if (first === undefined) return assert.fail(packed)
      yield* runOrFail(home, "tar", ["-xzf", first.filename, "--strip-components=1", "-C", installed])
      symlinkSync(join(projectRoot, "node_modules/effect"), join(folder, "node_modules/effect"))
      writeFileSync(join(folder, "package.json"), `{ "name": "fresh", "type": "module", "private": true }`)
      writeFileSync(join(folder, "deno.json"), `{ "nodeModulesDir": "manual" }`)
      cpSync(join(projectRoot, "test/client/consumer.ts"), join(folder, "consumer.ts"))
      mkdirSync(plain)
      writeFileSync(join(plain, "package.json"), `{ "name": "plain", "type": "module", "private": true }`)
      writeFileSync(join(plain, "deno.json"), `{ "nodeModulesDir": "manual" }`)
      cpSync(join(projectRoot, "test/client/plain.ts"), join(plain, "plain.ts"))
      yield* runOrFail(plain, "npm", ["install", "--offline", "--no-audit", "--no-fund", join(home, first.filename)])
      for (const [at, { code }] of guideExamples.entries()) writeFileSync(join(folder, `example-${at}.ts`), code)
      return { folder, plain, bytes: first.size, files: first.files.map(({ path }) => path).toSorted() }
    }),
  )
}

/** Flags for the strictest checks that a user of the package might enable. */
const strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--target", "esnext"]

/**
 * Flags for a single checker. Several checkers would each check Effect's types, and together would use more than twice
 * the CPU time.
 */
const oneChecker = ["--checkers", "1"]

/** The line that the program prints after each example. */
const separator = "--- end of example ---"

/** Runs the guide's examples with the published package in one process. `test/docs` runs them with the source code. */
const runGuideExamples = Effect.gen(function* () {
  const { folder } = yield* Project
  const { ultimate } = yield* Service.TestKeys
  const env = { TICKERLINE_URL: `http://127.0.0.1:${yield* Service.servicePort}`, TICKERLINE_KEY: ultimate }
  assertFoundMoreThan(3, "examples", guideExamples)
  const all = guideExamples.map((_, at) => `await import("./example-${at}.ts")\nconsole.log("${separator}")\n`)
  writeFileSync(join(folder, "examples.ts"), all.join(""))
  const printed = (yield* runOrFail(folder, process.execPath, ["examples.ts"], env)).split(separator)
  for (const [at, { output }] of guideExamples.entries()) {
    assert.strictEqual(printed[at]?.trim(), output.trim(), `docs/guides/client.md, example ${at + 1}`)
  }
})

/** Parses a response body. Each number is returned as the text of its digits, as the client returns decimals. */
const parseWithTextNumbers = (body: string): unknown =>
  JSON.parse(
    body,
    (...[, value, context]: ReadonlyArray<unknown>) =>
      typeof value === "number" ? Service.valueAt(context, "source") : value,
  )

/**
 * Runs the TypeScript examples from all reference pages in one process, and compares their output with the response to
 * the corresponding curl request.
 */
const runReferenceExamples = Effect.gen(function* () {
  const { folder } = yield* Project
  const { ultimate } = yield* Service.TestKeys
  const base = `http://127.0.0.1:${yield* Service.servicePort}`
  const examples = (yield* readReferenceExamples).filter(({ typeScript }) => typeScript !== "")
  const print = "(body) => print(JSON.stringify(body, (_, value) => typeof value === 'number' ? String(value) : value))"
  const program = [`const print = console.log\nconsole.log = ${print}\n`]
  for (const [at, { typeScript }] of examples.entries()) {
    writeFileSync(join(folder, `reference-${at}.ts`), typeScript.replaceAll(exampleBaseUrl, base))
    program.push(`await import("./reference-${at}.ts")\n`)
  }
  writeFileSync(join(folder, "reference.js"), program.join(""))
  const output = yield* runOrFail(folder, process.execPath, ["reference.js"], { TICKERLINE_KEY: ultimate })
  const printed = output.trim().split("\n").map((line): unknown => JSON.parse(line))
  assert.strictEqual(printed.length, examples.length)
  for (const [at, { path, request }] of examples.entries()) {
    const { text } = yield* Service.requestJson(request, { key: ultimate })
    const expected = parseWithTextNumbers(text)
    if (request !== path) assert.deepStrictEqual(printed[at], expected, request)
    // A request without parameters returns data about the account or the service, which changes with every request.
    else assert.hasAllKeys(printed[at], Object.keys(Object(expected)), request)
  }
})

/** Runs `plain.ts` and checks its output. */
const runPlainProgram = Effect.fnUntraced(function* (command: string, args: ReadonlyArray<string>) {
  const { plain } = yield* Project
  const { ultimate } = yield* Service.TestKeys
  const env = { BASE_URL: `http://127.0.0.1:${yield* Service.servicePort}`, API_KEY: ultimate }
  const output: unknown = JSON.parse(yield* runOrFail(plain, command, args, env))
  assert.strictEqual(Service.valueAt(output, "current"), "NXH")
  assert.deepStrictEqual(Service.valueAt(output, "refused"), [
    "Roundhill Ball Metaverse ETF",
    "Meta Platforms Inc. Class A Common Stock",
  ])
  assert.match(String(Service.valueAt(output, "days", 0)), /^\d{4}-\d\d-\d\d [\d.]+ \d{4}-\d\d-\d\dT[\d:]{8}-05:00$/)
  assert.deepStrictEqual(Service.valueAt(output, "tickers"), ["GAP7", true])
  assert.isTrue(Service.valueAt(output, "isSame"))
})

/** Returns a declaration file and all files that it imports, directly or indirectly. */
const listImportedFiles = (
  folder: string,
  file: string,
  found: ReadonlySet<string> = new Set(),
): ReadonlySet<string> => {
  if (found.has(file)) return found
  const names = Array.from(
    readFileSync(join(folder, file), "utf8").matchAll(/^(?:import|export)\b[^"';]*?\bfrom "([^"]+)";?$/gm),
    ([, name = ""]) => name,
  )
  return names.reduce<ReadonlySet<string>>(
    (known, name) =>
      listImportedFiles(
        folder,
        name.startsWith(".") ? `${join(file, "..", name).replace(/\.[jt]s$/, "")}.d.ts` : name,
        known,
      ),
    new Set([...found, file]),
  )
}

/** Runs `consumer.ts` and checks its output. */
const runConsumer = Effect.fnUntraced(function* (command: string, args: ReadonlyArray<string>) {
  const { folder } = yield* Project
  const { ultimate } = yield* Service.TestKeys
  const port = yield* Service.servicePort
  const env = { BASE_URL: `http://127.0.0.1:${port}`, API_KEY: ultimate }
  const output: unknown = JSON.parse(yield* runOrFail(folder, command, args, env))
  assert.strictEqual(Service.valueAt(output, "current"), "NXH")
  assert.strictEqual(Service.valueAt(output, "count"), 3)
  const refused = Service.valueAt(output, "refused")
  assert.isTrue(Array.isArray(refused) && refused.length === 2)
  const times = Service.valueAt(output, "inEffect", "times")
  assert.isTrue(Array.isArray(times) && times.length === 3)
  assert.strictEqual(Service.valueAt(output, "inEffect", "reason"), "multiple_cik_lineages")
  assert.strictEqual(Service.valueAt(output, "inEffect", "ticker"), "GAP7")
})

/** Bundles and minifies a module as a website would. Returns the compressed size in bytes. */
const measureCompressedSize = (input: string) =>
  Effect.promise(async () => {
    const bundle = await rolldown({ input, platform: "browser" })
    const { output: [{ code }] } = await bundle.generate({ format: "esm", minify: true })
    await bundle.close()
    return gzipSync(code, { level: 9 }).length
  })

/** Calls the client method for an endpoint. Returns its result, or the fields of its error. */
const callEndpoint = async (client: unknown, path: string, query: object): Promise<unknown> => {
  const get = Service.valueAt(client, toEndpointName(path), "get")
  if (!Predicate.isFunction(get)) return "no such method"
  try {
    return await get(query)
  } catch (error) {
    const [code, status, message, details] = ["code", "status", "message", "details"].map((field) =>
      Service.valueAt(error, field)
    )
    return { code, status, message, details }
  }
}

/** Ways in which a body may be damaged in transit or changed by a newer version of the service. */
const bodyChanges = [
  (body: string) => body,
  (body: string) => body.replaceAll(/:(null|true|false)/g, ":0"),
  (body: string) => body.replaceAll(/:-?[\d.]+/g, ":-1.5"),
  (body: string) => body.replaceAll(/:-?\d+\.\d+/g, ":12345678901234567.125"),
  (body: string) => body.replaceAll(/:-?\d+/g, `:"text"`),
  (body: string) => body.replaceAll(/:"[^"]*"/g, `:"newer"`),
  (body: string) => body.replaceAll(/:"[^"]*"/g, ":1"),
  (body: string) => body.replaceAll("{", `{"newer":1,`).replaceAll(",}", "}"),
  (body: string) => body.replaceAll(/"[a-z_]+":(?=["\d-])/g, (field) => `"x${field.slice(1)}`),
]

const service = Layer.provideMerge(Project.layer, Service.sampleServiceLayer)

layer(service, { excludeTestServices: true })("The npm package", (it) => {
  it.effect("contains exactly the files of a list that `npm test -- package -u` updates (guides/client)", () =>
    Effect.gen(function* () {
      const { files } = yield* Project
      yield* Effect.promise(() => expect(`${files.join("\n")}\n`).toMatchFileSnapshot("package-files.txt"))
    }))

  it.effect("contains no server code or data, and imports only itself and effect (guides/client)", () =>
    Effect.gen(function* () {
      const { bytes, files, folder } = yield* Project
      const forbidden = /(^|\/)(db|load|cache|samples|observability|sql)\/|Http\.|Server|main\.|\.json$|\.ts$/
      assert.deepStrictEqual(
        files.filter((file) => forbidden.test(file.replace(/\.d\.ts$/, ""))),
        ["package.json"],
      )
      const installed = join(folder, "node_modules/tickerline")
      const imported = files.filter((file) => file.endsWith(".js")).flatMap((file) =>
        Array.from(
          readFileSync(join(installed, file), "utf8").matchAll(
            /^(?:(?:import|export)\b[^"';=()]*\bfrom |import )"([^"]+)";?$/gm,
          ),
          ([, name = ""]) => name,
        )
      )
      assertFoundMoreThan(100, "imports", imported)
      assert.deepStrictEqual(imported.filter((name) => !/^(\.{1,2}\/.*\.js|effect(\/[a-z-]+)?)$/.test(name)), [])
      assert.isBelow(bytes, 300_000)
    }))

  it.effect("has a Promise client of less than 1 MB without imports (guides/client)", () =>
    Effect.gen(function* () {
      const { plain } = yield* Project
      assert.deepStrictEqual(readdirSync(join(plain, "node_modules")).filter((name) => !name.startsWith(".")), [
        "tickerline",
      ])
      const dist = join(plain, "node_modules/tickerline/dist/client")
      const types = Array.from(listImportedFiles(dist, "PromiseClient.d.ts"))
      assert.includeMembers(types, ["PromiseContract.d.ts", "ResponseMetadata.d.ts", "TickerlineError.d.ts"])
      // Importing another package would fail, because no other package is installed.
      for (const file of types) assert.isTrue(existsSync(join(dist, file)), file)
      const bytes = ["PromiseClient.js", ...types].reduce((sum, file) => sum + statSync(join(dist, file)).size, 0)
      assert.isBelow(bytes, 1_000_000)
      const code = readFileSync(join(dist, "PromiseClient.js"), "utf8")
      assert.notMatch(code, /^import\b|^export\b.*\bfrom\b|\bimport\(|\brequire\(/m)
      assert.match(code, /^\/\*! @license\nContains parts of the npm package effect:\n\nMIT License\n/)
    }))

  it.effect("has a Promise client of at most 80 KB, minified and compressed (guides/client)", () =>
    Effect.gen(function* () {
      const { plain } = yield* Project
      const bytes = yield* measureCompressedSize(join(plain, "node_modules/tickerline/dist/client/PromiseClient.js"))
      assert.isAtMost(bytes, 80_000)
    }))

  it.effect("has a Promise client that reads every response as its source does (§9.3, D16)", () =>
    Effect.gen(function* () {
      const { plain } = yield* Project
      const { ultimate } = yield* Service.TestKeys
      const baseUrl = `http://127.0.0.1:${yield* Service.servicePort}`
      const published: unknown = yield* Effect.promise(() =>
        import(pathToFileURL(join(plain, "node_modules/tickerline/dist/client/PromiseClient.js")).href)
      )
      const makePublished = Service.valueAt(published, "createClient")
      if (!Predicate.isFunction(makePublished)) return assert.fail("The package has no createClient")
      const codes = new Set<unknown>()
      for (const endpoint of DocumentedEndpoints.documentedEndpoints) {
        if (endpoint.path.endsWith(".atom")) continue
        const hasTicker = endpoint.parameters.some(({ name }) => name === "ticker")
        const required = Object.fromEntries(DocumentedEndpoints.makeRequiredQuery(endpoint))
        const query = hasTicker ? { ...required, ticker: "GAP7" } : required
        const url = DocumentedEndpoints.buildUrl(endpoint.path, Object.entries(query))
        // Both clients read the same response, because counters and times would differ between two responses.
        const response = yield* Effect.promise(() =>
          fetch(`${baseUrl}${url}`, { headers: { authorization: `Bearer ${ultimate}` } })
        )
        const body = yield* Effect.promise(() => response.text())
        for (const change of bodyChanges) {
          const fetchChanged: typeof fetch = () => Promise.resolve(new Response(change(body), response))
          const options = { baseUrl, apiKey: ultimate, fetch: fetchChanged, retries: 0, onDeprecated: () => {} }
          const [expected, actual] = yield* Effect.promise(() =>
            Promise.all(
              [createClient(options), makePublished(options)].map((client) =>
                callEndpoint(client, endpoint.path, query)
              ),
            )
          )
          assert.deepStrictEqual(actual, expected, endpoint.path)
          codes.add(Service.valueAt(expected, "code"))
        }
      }
      assert.includeMembers([...codes], [undefined, "unreadable_answer"])
    }))

  it.effect("documents every column and parameter, so that editors show it (guides/client)", () =>
    Effect.gen(function* () {
      const { plain } = yield* Project
      const file = join(plain, "node_modules/tickerline/dist/client/PromiseContract.d.ts")
      const [contract = ""] = readFileSync(file, "utf8").split("interface Details")
      const lines = contract.split("\n")
      const isProperty = (line: string) => /^ +readonly \w+\??:/.test(line)
      assertFoundMoreThan(1_000, "properties", lines.filter(isProperty))
      const undocumented = lines.filter((line, at) => isProperty(line) && !/^ *\/\*\* /.test(lines[at - 1] ?? ""))
      assert.deepStrictEqual(undocumented, [])
    }))

  it.effect("has the version that the client sends, and the tested peer dependency (guides/client)", () =>
    Effect.sync(() => {
      const require = createRequire(import.meta.url)
      const [client, service] = [require("../../clients/typescript/package.json"), require("../../package.json")]
      assert.strictEqual(Service.valueAt(client, "version"), clientVersion)
      assert.strictEqual(Service.valueAt(service, "version"), clientVersion)
      assert.deepStrictEqual(Service.valueAt(client, "dependencies"), undefined)
      const peer = String(Service.valueAt(service, "dependencies", "effect")).replace(/\.\d+$/, ".0")
      assert.deepStrictEqual(Service.valueAt(client, "peerDependencies"), { effect: `~${peer}` })
      assert.deepStrictEqual(Service.valueAt(client, "peerDependenciesMeta"), { effect: { optional: true } })
      const text = (file: string) => readFileSync(join(projectRoot, file), "utf8")
      assert.strictEqual(text("clients/typescript/LICENSE"), text("LICENSE"))
    }))

  // Checks all programs in a folder together, so that TypeScript reads Effect's types only once.
  it.effect("has types that resolve with moduleResolution nodenext and equal those of the contract (guides/client)", () =>
    Effect.gen(function* () {
      const { folder, plain } = yield* Project
      const args = [...strict, ...oneChecker, "--module", "nodenext", "--types", "", "--noEmit"]
      writeFileSync(join(folder, "contract.ts"), contractOverDeclarations())
      writeFileSync(join(folder, "same.ts"), typeComparison)
      yield* runOrFail(folder, toolPath("tsc"), [...args, "--allowImportingTsExtensions", "consumer.ts", "same.ts"])
      yield* runOrFail(plain, toolPath("tsc"), [...args, "--lib", "esnext,dom", "plain.ts"])
    }))

  it.effect("has types that resolve with moduleResolution bundler, in a new project and in the examples of all documents and reference pages (§4.5, guides/client)", () =>
    Effect.gen(function* () {
      const { folder, plain } = yield* Project
      const bundler = { module: "esnext", moduleResolution: "bundler" }
      const fences = documentsWithExamples.flatMap(readCodeBlocks).filter(({ language }) => language === "ts")
      assertFoundMoreThan(10, "examples", fences)
      const referenceFences = (yield* readReferenceExamples).filter(({ typeScript }) => typeScript !== "")
        .map(({ path, typeScript: text }) => ({ file: path, line: 1, language: "ts", argument: "", text }))
      assertFoundMoreThan(30, "examples of the reference", referenceFences)
      // A code block with a type error, which the check must report.
      const wrong = {
        file: "docs/guides/wrong.md",
        line: 7,
        language: "ts",
        argument: "",
        text: "export const text: string = 1",
      }
      for (const name of ["@modelcontextprotocol", "standardwebhooks"]) {
        symlinkSync(join(projectRoot, "node_modules", name), join(folder, "node_modules", name))
      }
      const found = yield* findTypeErrors(folder, ["consumer.ts"], [...fences, ...referenceFences, wrong], {
        ...bundler,
        typeRoots: [join(projectRoot, "node_modules/@types")],
      })
      assert.match(found, /^tsc ends with \d: docs\/guides\/wrong\.md:7\(1,14\): error TS2322: [^\n]+\n$/)
      const args = [...strict, ...oneChecker, "--module", "esnext", "--moduleResolution", "bundler", "--noEmit"]
      yield* runOrFail(plain, toolPath("tsc"), [...args, "--types", "", "--lib", "esnext,dom", "plain.ts"])
    }))

  it.effect("runs the Promise client without effect on Node and Deno (guides/client)", () =>
    Effect.gen(function* () {
      yield* runPlainProgram(process.execPath, ["plain.ts"])
      yield* runPlainProgram(toolPath("deno"), ["run", "--quiet", "--check", "--allow-net", "--allow-env", "plain.ts"])
    }))

  it.effect("runs on the current Node with stripped types (guides/client)", () =>
    runConsumer(process.execPath, ["consumer.ts"]))

  it.effect("runs on Deno with type checks (guides/client)", () =>
    runConsumer(toolPath("deno"), ["run", "--quiet", "--check", "--allow-net", "--allow-env", "consumer.ts"]))

  it.effect.skipIf(isOlderNodeMissing)(
    `runs as JavaScript on a Node without TypeScript${olderNodeTestSuffix} (guides/client)`,
    () =>
      Effect.gen(function* () {
        const node = requireOlderNode()
        const { folder, plain } = yield* Project
        for (const [place, program] of [[folder, "consumer"], [plain, "plain"]] as const) {
          const source = readFileSync(join(place, `${program}.ts`), "utf8")
          writeFileSync(join(place, `${program}.js`), stripTypeScriptTypes(source))
        }
        yield* runConsumer(node, ["consumer.js"])
        yield* runPlainProgram(node, ["plain.js"])
      }),
  )

  it.effect("prints the documented output of every example (guides/client)", () => runGuideExamples)

  it.effect("prints the same as curl in every example of a reference page (§4.5)", () => runReferenceExamples)
})
