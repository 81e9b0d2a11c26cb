/** The package as it is published: built, packed, and put into a project that knows nothing of this repository. */
import { assert, expect, layer } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { execFileSync } from "node:child_process"
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
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { clientVersion } from "../../src/client/HttpSender.ts"
import { runProgram } from "../support/DocumentExamples.ts"
import { readCodeBlocks } from "../support/CodeBlocks.ts"
import { candidatePaths, projectRoot } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"

// @module-tag slow

const works = Effect.fnUntraced(function* (
  folder: string,
  command: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>> = {},
) {
  const { code, error, out } = yield* runProgram(command, args, folder, env)
  assert.strictEqual(code, 0, `${command} ${args.join(" ")}\n${out}${error}`)
  return out
})

/** The compiler and Deno of this project. */
const tool = (name: string) => join(projectRoot, "node_modules/.bin", name)

/** A Node of the PATH that is another one than this. */
const older = candidatePaths("node").find((node) => {
  try {
    const [major] = execFileSync(node, ["-p", "process.versions.node"], { encoding: "utf8" }).split(".")
    return Number(major) >= 20 && Number(major) < 24
  } catch {
    return false
  }
})

const Packed = Schema.Array(
  Schema.Struct({
    filename: Schema.String,
    size: Schema.Int,
    files: Schema.Array(Schema.Struct({ path: Schema.String })),
  }),
)

/** Compiles only if the types of the published Promise client are those of the contract. */
const sameTypes = (published: string) => `
import type * as Published from "${published}/dist/client/Endpoints.d.ts"
import type * as Contract from "${projectRoot}/src/client/Endpoints.ts"

type ContractDetails = { readonly [Code in Contract.Code]: [Contract.DetailsOf<Code>] }
type PublishedDetails = { readonly [Code in Contract.Code]: [Published.DetailsOf<Code>] }

export const same: ReadonlyArray<unknown> = [
  (code: Contract.Code): Published.Code => code,
  (code: Published.Code): Contract.Code => code,
  (details: ContractDetails): PublishedDetails => details,
  (details: PublishedDetails): ContractDetails => details,
  (client: Contract.TickerlineClient): Published.TickerlineClient => client,
  (client: Published.TickerlineClient): Contract.TickerlineClient => client,
]
`

class Project extends Context.Service<Project, {
  /** A folder with the package and its peer, and the consumer. */
  readonly folder: string
  /** A folder with the package alone, as npm installs it, and a consumer of the Promise client. */
  readonly plain: string
  /** Of the package, compressed. */
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
        cpSync(join(projectRoot, "client", file), join(source, file))
      }
      yield* works(projectRoot, process.execPath, ["client/build.ts", join(source, "dist")])
      const packed = yield* works(source, "npm", ["pack", "--json", "--offline", "--pack-destination", home])
      const [first] = yield* Schema.decodeUnknownEffect(Packed)(JSON.parse(packed))
      if (first === undefined) return assert.fail(packed)
      yield* works(home, "tar", ["-xzf", first.filename, "--strip-components=1", "-C", installed])
      symlinkSync(join(projectRoot, "node_modules/effect"), join(folder, "node_modules/effect"))
      writeFileSync(join(folder, "package.json"), `{ "name": "fresh", "type": "module", "private": true }`)
      writeFileSync(join(folder, "deno.json"), `{ "nodeModulesDir": "manual" }`)
      cpSync(join(projectRoot, "test/client/consumer.ts"), join(folder, "consumer.ts"))
      mkdirSync(plain)
      writeFileSync(join(plain, "package.json"), `{ "name": "plain", "type": "module", "private": true }`)
      writeFileSync(join(plain, "deno.json"), `{ "nodeModulesDir": "manual" }`)
      cpSync(join(projectRoot, "test/client/plain.ts"), join(plain, "plain.ts"))
      yield* works(plain, "npm", ["install", "--offline", "--no-audit", "--no-fund", join(home, first.filename)])
      return { folder, plain, bytes: first.size, files: first.files.map(({ path }) => path).toSorted() }
    }),
  )
}

const strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--target", "esnext"]

/** Against the package as it is published; against the sources test/docs runs them. */
const examples = Effect.gen(function* () {
  const { folder } = yield* Project
  const { ultimate } = yield* Service.TestKeys
  const env = { TICKERLINE_URL: `http://127.0.0.1:${yield* Service.servicePort}`, TICKERLINE_KEY: ultimate }
  const fences = readCodeBlocks("docs/guides/client.md")
  const programs = fences.flatMap((fence, at) =>
    fence.language === "ts" ? [{ code: fence.text, wanted: fences[at + 1]?.text ?? "" }] : []
  )
  assert.isAbove(programs.length, 3)
  const files = programs.map((_, at) => `example-${at}.ts`)
  for (const [at, { code, wanted }] of programs.entries()) {
    writeFileSync(join(folder, `example-${at}.ts`), code)
    const printed = yield* works(folder, process.execPath, [`example-${at}.ts`], env)
    assert.strictEqual(printed.trim(), wanted.trim(), `docs/guides/client.md, example ${at + 1}`)
  }
  // Node runs them without a look at their types.
  yield* works(folder, tool("deno"), ["check", "--quiet", ...files])
})

/** What the program without Effect prints, whatever runs it. */
const printsPlainly = Effect.fnUntraced(function* (command: string, args: ReadonlyArray<string>) {
  const { plain } = yield* Project
  const { ultimate } = yield* Service.TestKeys
  const env = { BASE_URL: `http://127.0.0.1:${yield* Service.servicePort}`, API_KEY: ultimate }
  const said: unknown = JSON.parse(yield* works(plain, command, args, env))
  assert.strictEqual(Service.valueAt(said, "current"), "NXH")
  assert.deepStrictEqual(Service.valueAt(said, "refused"), [
    "Roundhill Ball Metaverse ETF",
    "Meta Platforms Inc. Class A Common Stock",
  ])
  assert.match(String(Service.valueAt(said, "days", 0)), /^\d{4}-\d\d-\d\d [\d.]+ \d{4}-\d\d-\d\dT[\d:]{8}-05:00$/)
  assert.isTrue(Service.valueAt(said, "isSame"))
})

/** The files that one of the package imports, itself included. */
const reached = (folder: string, file: string, found: ReadonlySet<string> = new Set()): ReadonlySet<string> => {
  if (found.has(file)) return found
  const names = Array.from(
    readFileSync(join(folder, file), "utf8").matchAll(/^(?:import|export)\b[^"';]*?\bfrom "([^"]+)";?$/gm),
    ([, name = ""]) => name,
  )
  return names.reduce<ReadonlySet<string>>(
    (known, name) =>
      reached(folder, name.startsWith(".") ? `${join(file, "..", name).replace(/\.[jt]s$/, "")}.d.ts` : name, known),
    new Set([...found, file]),
  )
}

/** Whatever runs it, it prints the same. */
const prints = Effect.fnUntraced(function* (command: string, args: ReadonlyArray<string>) {
  const { folder } = yield* Project
  const { ultimate } = yield* Service.TestKeys
  const port = yield* Service.servicePort
  const env = { BASE_URL: `http://127.0.0.1:${port}`, API_KEY: ultimate }
  const said: unknown = JSON.parse(yield* works(folder, command, args, env))
  assert.strictEqual(Service.valueAt(said, "current"), "NXH")
  assert.strictEqual(Service.valueAt(said, "count"), 3)
  const refused = Service.valueAt(said, "refused")
  assert.isTrue(Array.isArray(refused) && refused.length === 2)
  const times = Service.valueAt(said, "inEffect", "times")
  assert.isTrue(Array.isArray(times) && times.length === 3)
  assert.strictEqual(Service.valueAt(said, "inEffect", "reason"), "multiple_cik_lineages")
})

const service = Layer.provideMerge(Project.layer, Service.sampleDataLayer)

layer(service, { excludeTestServices: true })("docs/client.md, package", (it) => {
  it.effect("docs/client.md holds these files and no others (`npm test -- package -u` renews the list)", () =>
    Effect.gen(function* () {
      const { files } = yield* Project
      yield* Effect.promise(() => expect(`${files.join("\n")}\n`).toMatchFileSnapshot("package-files.txt"))
    }))

  it.effect("docs/client.md holds no server code, no data and nothing of a runtime: it imports itself and effect", () =>
    Effect.gen(function* () {
      const { bytes, files, folder } = yield* Project
      const strange = /(^|\/)(db|load|cache|samples|observability|sql)\/|Http\.|Server|main\.|\.json$|\.ts$/
      assert.deepStrictEqual(
        files.filter((file) => strange.test(file.replace(/\.d\.ts$/, ""))),
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
      assert.isAbove(imported.length, 100)
      assert.deepStrictEqual(imported.filter((name) => !/^(\.{1,2}\/.*\.js|effect(\/[a-z-]+)?)$/.test(name)), [])
      assert.isBelow(bytes, 300_000)
    }))

  it.effect("docs/client.md the Promise client and its types take less than 1 MB, and import nothing", () =>
    Effect.gen(function* () {
      const { plain } = yield* Project
      assert.deepStrictEqual(readdirSync(join(plain, "node_modules")).filter((name) => !name.startsWith(".")), [
        "tickerline",
      ])
      const dist = join(plain, "node_modules/tickerline/dist/client")
      const types = Array.from(reached(dist, "Promise.d.ts"))
      assert.includeMembers(types, ["Endpoints.d.ts", "Errors.d.ts", "Resource.d.ts", "Told.d.ts"])
      // A package that is imported would be read as a file, and is none.
      for (const file of types) assert.isTrue(existsSync(join(dist, file)), file)
      const bytes = ["Promise.js", ...types].reduce((sum, file) => sum + statSync(join(dist, file)).size, 0)
      assert.isBelow(bytes, 1_000_000)
      const code = readFileSync(join(dist, "Promise.js"), "utf8")
      assert.notMatch(code, /^import\b|^export\b.*\bfrom\b|\bimport\(|\brequire\(/m)
      assert.match(code, /^\/\*! @license\nContains parts of the npm package effect:\n\nMIT License\n/)
    }))

  it.effect("docs/client.md the published types of the Promise client are those of the contract", () =>
    Effect.gen(function* () {
      const { folder } = yield* Project
      const program = sameTypes("./node_modules/tickerline")
      const args = [...strict, "--module", "nodenext", "--skipLibCheck", "--allowImportingTsExtensions", "--noEmit"]
      writeFileSync(join(folder, "same.ts"), program)
      yield* works(folder, tool("tsc"), [...args, "--types", "", "same.ts"])
      // It would notice a difference.
      writeFileSync(join(folder, "other.ts"), program.replace(/code: Published\.Code/, `code: Published.Code | "more"`))
      const { code } = yield* runProgram(tool("tsc"), [...args, "--types", "", "other.ts"], folder, {})
      assert.notStrictEqual(code, 0)
    }))

  it.effect("docs/client.md the package's version is the one it tells, its peer the one it is tested with", () =>
    Effect.sync(() => {
      const require = createRequire(import.meta.url)
      const [client, service] = [require("../../client/package.json"), require("../../package.json")]
      assert.strictEqual(Service.valueAt(client, "version"), clientVersion)
      assert.strictEqual(Service.valueAt(service, "version"), clientVersion)
      assert.deepStrictEqual(Service.valueAt(client, "dependencies"), undefined)
      const peer = String(Service.valueAt(service, "dependencies", "effect")).replace(/\.\d+$/, ".0")
      assert.deepStrictEqual(Service.valueAt(client, "peerDependencies"), { effect: `~${peer}` })
      assert.deepStrictEqual(Service.valueAt(client, "peerDependenciesMeta"), { effect: { optional: true } })
      const text = (file: string) => readFileSync(join(projectRoot, file), "utf8")
      assert.strictEqual(text("client/LICENSE"), text("LICENSE"))
    }))

  it.effect.each(["nodenext", "bundler"])(
    "docs/client.md its types resolve in a fresh project: %s",
    (resolution) =>
      Effect.gen(function* () {
        const { folder } = yield* Project
        const modules = [
          "--module",
          resolution === "bundler" ? "esnext" : resolution,
          "--moduleResolution",
          resolution,
        ]
        const args = [...strict, ...modules, "--skipLibCheck", String(resolution === "bundler"), "--types", ""]
        yield* works(folder, tool("tsc"), [...args, "--noEmit", "consumer.ts"])
        // Without Effect there is no library to be lenient with.
        const { plain } = yield* Project
        yield* works(plain, tool("tsc"), [
          ...strict,
          ...modules,
          "--lib",
          "esnext,dom",
          "--types",
          "",
          "--noEmit",
          "plain.ts",
        ])
      }),
  )

  it.effect("docs/client.md import from tickerline runs without effect, on Node and on Deno", () =>
    Effect.gen(function* () {
      yield* printsPlainly(process.execPath, ["plain.ts"])
      yield* printsPlainly(tool("deno"), ["run", "--quiet", "--check", "--allow-net", "--allow-env", "plain.ts"])
    }))

  it.effect("docs/client.md runs on this Node, types stripped", () => prints(process.execPath, ["consumer.ts"]))

  it.effect("docs/client.md runs on Deno, which checks its types first", () =>
    prints(tool("deno"), ["run", "--quiet", "--check", "--allow-net", "--allow-env", "consumer.ts"]))

  const missing = older === undefined && (process.env["REQUIRE_OLDER_NODE"] ?? "") === ""
  const name = "docs/client.md runs on Node 20 or 22, compiled"
  it.effect.skipIf(missing)(
    missing ? `${name} (skipped: the PATH has neither)` : name,
    () =>
      Effect.gen(function* () {
        if (older === undefined) {
          return assert.fail("REQUIRE_OLDER_NODE: no Node 20 or 22 on the PATH")
        }
        const { folder } = yield* Project
        const modules = ["--module", "nodenext", "--skipLibCheck", "--types", "", "--outDir", "out"]
        yield* works(folder, tool("tsc"), [...strict, ...modules, "consumer.ts"])
        yield* prints(older, ["out/consumer.js"])
        const { plain } = yield* Project
        yield* works(plain, tool("tsc"), [...strict, ...modules, "plain.ts"])
        yield* printsPlainly(older, ["out/plain.js"])
      }),
  )

  it.effect("docs/client.md each example prints what stands below it", () => examples)
})
