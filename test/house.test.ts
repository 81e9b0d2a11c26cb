/** The layout rules (ARCHITECTURE.md): which folder of `src` may import which, and how long a line may be. */
import { assert, describe, it } from "@effect/vitest"
import { HttpApi } from "effect/http-api"
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path/posix"
import { fileURLToPath } from "node:url"
import { AuthenticationMiddleware } from "../src/accounts/keys/Authentication.ts"
import { Api } from "../src/Api.ts"

const root = fileURLToPath(new URL("..", import.meta.url))

/** Paths of all source files, such as `src/Api.ts`. */
const files = globSync("src/**/*.{ts,js}", { cwd: root }).map((file) => file.replaceAll("\\", "/")).toSorted()

const textOf = (file: string) => readFileSync(join(root, file), "utf8")

/** Returns the module names in imports (also of types), dynamic imports and `export … from`. Ignores comments. */
const specifiersOf = (text: string) => {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "")
  const patterns = [
    /^(?:import|export)\b[^"';]*?\bfrom\s*"([^"]+)"/gm,
    /^import\s*"([^"]+)"/gm,
    /\bimport\(\s*"([^"]+)"\s*\)/g,
  ]
  return patterns.flatMap((pattern) => Array.from(code.matchAll(pattern), ([, specifier = ""]) => specifier))
}

const importsOf = new Map(files.map((file) => [
  file,
  specifiersOf(textOf(file)).map((name) => name.startsWith(".") ? join(dirname(file), name) : name),
]))

const imports = (file: string) => importsOf.get(file) ?? []

const sourceImports = (file: string) => imports(file).filter((name) => name.startsWith("src/"))

/** Returns the imports that are not allowed, in the format `file → import`. */
const forbidden = (isChecked: (file: string) => boolean, isAllowed: (name: string, file: string) => boolean) =>
  files.filter(isChecked).flatMap((file) =>
    sourceImports(file).filter((name) => !isAllowed(name, file)).map((name) => `${file} → ${name}`)
  )

const isContractOfEndpoint = (name: string) => /^src\/(v1\/[^/]+|catalogue|changelog)\/Api\.ts$/.test(name)
const isAccountContract = (name: string) =>
  /^src\/accounts\/(keys\/Authentication|Authorization|AccountErrors)\.ts$/.test(name)
const isClient = (name: string) => name.startsWith("src/client/")
const isDatabase = (name: string) => name.startsWith("src/db/")
/** Whether any contract may import the file. */
const isPure = (name: string) => /^src\/(rules|rows)\//.test(name)
const isContract = (name: string) =>
  isContractOfEndpoint(name) || isAccountContract(name) || name === "src/changelog/ChangelogEntry.ts"

/** Returns the folder directly below `src` that contains the file, or the name of a file directly in `src`. */
const topFolderOf = (file: string) => file.split("/")[1] ?? ""

/**
 * The arrows of ARCHITECTURE.md, from bottom to top. A file may import files of its own folder and of the levels below.
 * "contract" is what clients know of endpoints and accounts: the files `Api.ts`, and those that they need.
 */
const levels: ReadonlyArray<ReadonlyArray<string>> = [
  ["rules", "rows"],
  ["contract"],
  ["observability"],
  ["db"],
  ["jobs"],
  ["audit"],
  ["load"],
  ["lineage", "accounts"],
  ["lists", "history"],
  ["http"],
  ["v1"],
  ["Api.ts"],
  ["catalogue", "client"],
  ["changelog"],
  ["mail", "site", "webhooks"],
  ["mcp", "ingest", "backups"],
  ["admin"],
  ["console"],
  ["Server.ts"],
  ["cli"],
  ["main.ts"],
]

const levelOf = (file: string) =>
  levels.findIndex((names) => names.includes(isContract(file) ? "contract" : topFolderOf(file)))

describe("The import scanner", () => {
  it("finds every form of import, and every import within src leads to a file (ARCHITECTURE.md)", () => {
    const found = specifiersOf([
      `import "a"`,
      `import b from "b"`,
      `import {\n  type C,\n  c\n} from "c"`,
      `import type { D } from "d"`,
      `import * as E from "e"`,
      `export * from "f"`,
      `export { g } from "g"`,
      `const h = () => import("h")`,
      `import i from "i" with { type: "json" }`,
      `// import "no"`,
      `/* import "no" */`,
    ].join("\n"))
    assert.sameMembers(found, ["a", "b", "c", "d", "e", "f", "g", "h", "i"])
    assert.isAbove(files.length, 30)
    assert.isAbove(Array.from(importsOf.values()).flat().length, 100)
    const isData = (name: string) => name.endsWith(".json") && existsSync(join(root, name))
    const missing = files.flatMap(sourceImports).filter((name) => !files.includes(name) && !isData(name))
    assert.deepStrictEqual(missing, [])
  })
})

describe("By the layout rules,", () => {
  it("imports point down only (ARCHITECTURE.md)", () => {
    assert.sameMembers(
      levels.flat().filter((name) => name !== "contract"),
      Array.from(new Set(files.map(topFolderOf))),
    )
    const isAllowed = (name: string, file: string) =>
      topFolderOf(name) === topFolderOf(file) || levelOf(name) < levelOf(file) || (isPure(name) && isPure(file)) ||
      (isContract(name) && isContract(file))
    assert.deepStrictEqual(forbidden(() => true, isAllowed), [])
  })

  it("only three files are directly in src (ARCHITECTURE.md)", () => {
    assert.sameMembers(files.filter((file) => !file.slice(4).includes("/")), [
      "src/main.ts",
      "src/Api.ts",
      "src/Server.ts",
    ])
  })

  it("a contract imports only pure rules, the account contracts and other contracts (ARCHITECTURE.md)", () => {
    const allowed = (name: string) => isPure(name) || isContract(name)
    assert.strictEqual(files.filter(isAccountContract).length, 3)
    assert.deepStrictEqual(forbidden((file) => isContract(file) || file === "src/Api.ts", allowed), [])
  })

  it("the client imports only contracts, Effect and itself, and only two places import the client (ARCHITECTURE.md)", () => {
    assert.isAbove(files.filter(isClient).length, 5)
    const isAllowed = (name: string) => isPure(name) || isAccountContract(name) || name === "src/Api.ts"
    assert.deepStrictEqual(forbidden(isClient, (name) => isAllowed(name) || isClient(name)), [])
    const foreign = files.filter(isClient).flatMap(imports).filter((name) => !/^(src\/|effect($|\/))/.test(name))
    assert.deepStrictEqual(foreign, [])
    // The reference pages show how the client is called.
    const mayImport = (file: string) =>
      isClient(file) || file.startsWith("src/cli/query/") || file === "src/site/ReferencePages.ts"
    assert.deepStrictEqual(forbidden((file) => !mayImport(file), (name) => !isClient(name)), [])
  })

  it("only Server.ts imports an Http.ts, and only the serve command imports Server.ts (ARCHITECTURE.md)", () => {
    const isHttp = (name: string) => name.endsWith("/Http.ts")
    assert.deepStrictEqual(forbidden((file) => file !== "src/Server.ts", (name) => !isHttp(name)), [])
    assert.deepStrictEqual(
      forbidden((file) => file !== "src/cli/ServeCommand.ts", (name) => name !== "src/Server.ts"),
      [],
    )
    assert.deepStrictEqual(forbidden((file) => file !== "src/main.ts", (name) => name !== "src/cli/CommandLine.ts"), [])
  })

  it("no imports are circular (ARCHITECTURE.md)", () => {
    const done = new Set<string>()
    const cycles: Array<string> = []
    const visit = (file: string, path: ReadonlyArray<string>): void => {
      if (path.includes(file)) return void cycles.push([...path.slice(path.indexOf(file)), file].join(" → "))
      if (done.has(file)) return
      sourceImports(file).forEach((name) => visit(name, [...path, file]))
      done.add(file)
    }
    files.forEach((file) => visit(file, []))
    assert.deepStrictEqual(cycles, [])
  })

  it("contract and client import no db, Http.ts, Node or driver, not even indirectly (ARCHITECTURE.md)", () => {
    const contract = files.filter((file) =>
      file.endsWith("/Api.ts") || isPure(file) || isAccountContract(file) || isClient(file)
    )
    assert.isAbove(contract.length, 15)
    const isServerCode = (name: string) =>
      isDatabase(name) || name.endsWith("/Http.ts") || name.startsWith("node:") ||
      /^@effect\/(platform|sql)-/.test(name)
    const reached = new Set<string>()
    const violations: Array<string> = []
    const walk = (file: string, path: string): void => {
      if (reached.has(file)) return
      reached.add(file)
      for (const name of imports(file)) {
        if (isServerCode(name)) violations.push(`${path} → ${name}`)
        else if (name.startsWith("src/")) walk(name, `${path} → ${name}`)
      }
    }
    contract.forEach((file) => walk(file, file))
    assert.deepStrictEqual(violations, [])
  })

  it("each folder of src/v1 is a path segment, and each /v1 endpoint with a key has a folder (ARCHITECTURE.md)", () => {
    const folders = readdirSync(join(root, "src/v1"), { withFileTypes: true })
    assert.deepStrictEqual(folders.filter((entry) => !entry.isDirectory()).map(({ name }) => name), [])
    const names = folders.map(({ name }) => name)
    const segments: Array<string> = []
    const withKey: Array<string> = []
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint, middleware }) => {
        const [, version, segment = ""] = endpoint.path.split("/")
        if (version !== "v1") return
        segments.push(segment)
        // Some endpoints without a key, such as /v1/changelog, are in other folders.
        if (Array.from(middleware).some(({ key }) => key === AuthenticationMiddleware.key)) withKey.push(segment)
      },
    })
    assert.deepStrictEqual(names.filter((name) => !segments.includes(name)), [])
    // Endpoints with the same rows share a folder, whose name is that of the shorter path.
    const withoutFolder = withKey.filter((segment) =>
      !names.some((name) => segment === name || segment.startsWith(`${name}-`))
    )
    assert.deepStrictEqual(withoutFolder, [])
    names.forEach((name) => ["Api.ts", "Http.ts"].forEach((file) => assert.include(files, `src/v1/${name}/${file}`)))
  })

  it("no folder is called utils, models or the like, and there is no barrel file (ARCHITECTURE.md)", () => {
    const kinds = /(^|\/)(services?|repositor(y|ies)|models?|utils?|helpers?|lib|shared|common|types)(\/|$)/
    assert.deepStrictEqual(files.filter((file) => kinds.test(dirname(file)) || file.endsWith("/index.ts")), [])
  })

  it("the cluster test does not import vitest (ARCHITECTURE.md)", () => {
    const found = globSync("test/cluster/**/*.ts", { cwd: root }).map((file) => file.replaceAll("\\", "/"))
    assert.isAbove(found.length, 10)
    const reached = new Set<string>()
    const walk = (file: string): ReadonlyArray<string> => {
      if (reached.has(file) || !file.endsWith(".ts")) return []
      reached.add(file)
      const names = specifiersOf(textOf(file))
      const tests = names.filter((name) => name.endsWith("vitest")).map((name) => `${file} → ${name}`)
      return [
        ...tests,
        ...names.filter((name) => name.startsWith(".")).flatMap((name) => walk(join(dirname(file), name))),
      ]
    }
    assert.deepStrictEqual(found.flatMap(walk), [])
  })

  it("no line has more than 120 characters (ARCHITECTURE.md)", () => {
    const long = files.flatMap((file) =>
      textOf(file).split("\n").flatMap((line, index) =>
        line.length > 120 ? [`${file}:${index + 1} (${line.length})`] : []
      )
    )
    assert.deepStrictEqual(long, [])
  })
})
