/** The layout rules (ARCHITECTURE.md): which room may import which, and how long a line may be. */
import { assert, describe, it } from "@effect/vitest"
import { HttpApi } from "effect/http-api"
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path/posix"
import { fileURLToPath } from "node:url"
import { Authentication } from "../src/accounts/keys/Authentication.ts"
import { Api } from "../src/Api.ts"

const root = fileURLToPath(new URL("..", import.meta.url))

/** `src/…`, with slashes. */
const files = globSync("src/**/*.{ts,js}", { cwd: root }).map((file) => file.replaceAll("\\", "/")).toSorted()

const textOf = (file: string) => readFileSync(join(root, file), "utf8")

/** What a file names after `import`, `export … from` and `import(…)`; comments do not count, types do. */
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

const houseImports = (file: string) => imports(file).filter((name) => name.startsWith("src/"))

/** Imports that are not allowed, as `file → import`. */
const forbidden = (among: (file: string) => boolean, allowed: (name: string, file: string) => boolean) =>
  files.filter(among).flatMap((file) =>
    houseImports(file).filter((name) => !allowed(name, file)).map((name) => `${file} → ${name}`)
  )

const isContractOfEndpoint = (name: string) => /^src\/(v1\/[^/]+|catalogue|changelog)\/Api\.ts$/.test(name)
const isAccountContract = (name: string) =>
  /^src\/accounts\/(keys\/Authentication|Authorization|AccountErrors)\.ts$/.test(name)
const isClient = (name: string) => name.startsWith("src/client/")
const isDatabase = (name: string) => name.startsWith("src/db/")
/** The parts of `rules` and `rows` that contracts use are pure; the request context is data only. */
const isPure = (name: string) => /^src\/(rules|rows)\//.test(name) || name === "src/http/RequestContext.ts"

/** The room of a file: the folder below `src`, or the file itself at the top. */
const roomOf = (file: string) => file.split("/")[1] ?? ""

/** The rooms and single files that each room may import, in addition to its own files. */
const mayImport: { readonly [room: string]: ReadonlyArray<string> } = {
  "main.ts": ["cli"],
  "Api.ts": ["rules", "accounts", "v1", "catalogue", "changelog"],
  "Server.ts": [
    "accounts",
    "Api.ts",
    "catalogue",
    "changelog",
    "db",
    "http",
    "jobs",
    "lists",
    "mail",
    "observability",
    "rules",
    "site",
    "v1",
  ],
  rules: ["rows", "http/RequestContext.ts"],
  rows: ["rules"],
  observability: ["rules", "http/RequestContext.ts", "cli/terminal/Text.ts"],
  db: ["observability", "rules/Errors.ts", "http/RequestContext.ts"],
  jobs: ["db", "observability"],
  lists: [
    "rules",
    "rows",
    "db",
    "observability",
    "accounts/keys/Authentication.ts",
    "http/RequestContext.ts",
    "http/ConditionalRequests.ts",
  ],
  accounts: [
    "rules",
    "db",
    "observability",
    "jobs/Job.ts",
    "http/RequestContext.ts",
    "http/ResponseCache.ts",
  ],
  http: ["rules", "rows", "accounts", "observability", "catalogue/Endpoints.ts", "lists/QueryCache.ts"],
  v1: ["Api.ts", "rules", "rows", "accounts", "lists", "db", "http/RequestContext.ts"],
  catalogue: [
    "Api.ts",
    "rules",
    "rows",
    "accounts",
    "http",
    "lists/DatasetVersions.ts",
    "db/health/HealthProbe.ts",
  ],
  changelog: ["Api.ts", "rules", "catalogue/Endpoints.ts", "http"],
  mail: ["accounts/EmailAddress.ts", "changelog", "db", "jobs/Job.ts", "observability", "rules"],
  site: ["accounts", "catalogue", "changelog", "http", "rules", "v1/datasets/DatasetEndpoints.ts"],
  load: ["db", "rules", "v1", "observability/Progress.ts", "cli/terminal/Text.ts"],
  client: ["Api.ts", "rules", "rows", "accounts"],
  cli: [
    "Server.ts",
    "accounts",
    "catalogue",
    "client",
    "db",
    "http",
    "lists",
    "load",
    "mail",
    "observability",
    "rows",
    "rules",
  ],
}

describe("The import scanner", () => {
  it("§house finds every form of import, and every import of the house leads to a file", () => {
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
    const lost = files.flatMap(houseImports).filter((name) => !files.includes(name) && !isData(name))
    assert.deepStrictEqual(lost, [])
  })
})

describe("The house", () => {
  it("§house each room imports only the rooms and files that it is allowed", () => {
    assert.sameMembers(Object.keys(mayImport), Array.from(new Set(files.map(roomOf))))
    const isAllowed = (name: string, file: string) =>
      roomOf(name) === roomOf(file) ||
      (mayImport[roomOf(file)] ?? []).some((allowed) => name === `src/${allowed}` || name.startsWith(`src/${allowed}/`))
    assert.deepStrictEqual(forbidden(() => true, isAllowed), [])
  })

  it("§house src has three files at its top", () => {
    assert.sameMembers(files.filter((file) => !file.slice(4).includes("/")), [
      "src/main.ts",
      "src/Api.ts",
      "src/Server.ts",
    ])
  })

  it("§house a contract imports pure rules, the account contracts and other contracts", () => {
    const allowed = (name: string) =>
      isPure(name) || isAccountContract(name) || isContractOfEndpoint(name) ||
      name === "src/changelog/ChangelogEntry.ts"
    const isContract = (file: string) =>
      isContractOfEndpoint(file) || isAccountContract(file) || file === "src/Api.ts" ||
      file === "src/changelog/ChangelogEntry.ts"
    assert.strictEqual(files.filter(isAccountContract).length, 3)
    assert.deepStrictEqual(forbidden(isContract, allowed), [])
  })

  it("§house the client imports contracts, Effect and itself, and only the query command imports it", () => {
    assert.isAbove(files.filter(isClient).length, 5)
    const isContract = (name: string) => isPure(name) || isAccountContract(name) || name === "src/Api.ts"
    assert.deepStrictEqual(forbidden(isClient, (name) => isContract(name) || isClient(name)), [])
    const foreign = files.filter(isClient).flatMap(imports).filter((name) => !/^(src\/|effect($|\/))/.test(name))
    assert.deepStrictEqual(foreign, [])
    const isQuery = (file: string) => file.startsWith("src/cli/query/")
    assert.deepStrictEqual(forbidden((file) => !isClient(file) && !isQuery(file), (name) => !isClient(name)), [])
  })

  it("§house an Http.ts and the site are imported by Server.ts only, and Server.ts by the serve command only", () => {
    const isHttp = (name: string) => name.endsWith("/Http.ts")
    assert.deepStrictEqual(forbidden((file) => file !== "src/Server.ts", (name) => !isHttp(name)), [])
    assert.deepStrictEqual(
      forbidden((file) => file !== "src/cli/ServeCommand.ts", (name) => name !== "src/Server.ts"),
      [],
    )
    assert.deepStrictEqual(forbidden((file) => file !== "src/main.ts", (name) => name !== "src/cli/CommandLine.ts"), [])
  })

  it("§house no file imports itself through others", () => {
    const done = new Set<string>()
    const cycles: Array<string> = []
    const visit = (file: string, path: ReadonlyArray<string>): void => {
      if (path.includes(file)) return void cycles.push([...path.slice(path.indexOf(file)), file].join(" → "))
      if (done.has(file)) return
      houseImports(file).forEach((name) => visit(name, [...path, file]))
      done.add(file)
    }
    files.forEach((file) => visit(file, []))
    assert.deepStrictEqual(cycles, [])
  })

  it("§house the contract drags no server code along, by whatever detour: no db, Http.ts, Node or driver", () => {
    const contract = files.filter((file) =>
      file.endsWith("/Api.ts") || isPure(file) || isAccountContract(file) || isClient(file)
    )
    assert.isAbove(contract.length, 15)
    const isServerCode = (name: string) =>
      isDatabase(name) || name.endsWith("/Http.ts") || name.startsWith("node:") ||
      /^@effect\/(platform|sql)-/.test(name)
    const reached = new Set<string>()
    const dragged: Array<string> = []
    const walk = (file: string, path: string): void => {
      if (reached.has(file)) return
      reached.add(file)
      for (const name of imports(file)) {
        if (isServerCode(name)) dragged.push(`${path} → ${name}`)
        else if (name.startsWith("src/")) walk(name, `${path} → ${name}`)
      }
    }
    contract.forEach((file) => walk(file, file))
    assert.deepStrictEqual(dragged, [])
  })

  it("§house each folder of src/v1 is a path segment of an endpoint, and each keyed endpoint there has one", () => {
    const folders = readdirSync(join(root, "src/v1"), { withFileTypes: true })
    assert.deepStrictEqual(folders.filter((entry) => !entry.isDirectory()).map(({ name }) => name), [])
    const names = folders.map(({ name }) => name)
    const segments: Array<string> = []
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint, middleware }) => {
        const [, version, segment = ""] = endpoint.path.split("/")
        // What belongs to the catalogue, such as /estimate, lives in its folder.
        const isKeyed = Array.from(middleware).some(({ key }) => key === Authentication.key)
        if (version === "v1" && isKeyed) segments.push(segment)
      },
    })
    assert.deepStrictEqual(names.filter((name) => !segments.includes(name)), [])
    // Two siblings that show the same rows live in the folder of the shorter name.
    const homeless = segments.filter((segment) =>
      !names.some((name) => segment === name || segment.startsWith(`${name}-`))
    )
    assert.deepStrictEqual(homeless, [])
    names.forEach((name) => ["Api.ts", "Http.ts"].forEach((file) => assert.include(files, `src/v1/${name}/${file}`)))
  })

  it("§house no folder is named after a kind of thing, and there is no barrel", () => {
    const kinds = /(^|\/)(services?|repositor(y|ies)|models?|utils?|helpers?|lib|shared|common|types)(\/|$)/
    assert.deepStrictEqual(files.filter((file) => kinds.test(dirname(file)) || file.endsWith("/index.ts")), [])
  })

  it("§house the cluster is a program without vitest", () => {
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

  it("§house no line has more than 120 characters", () => {
    const long = files.flatMap((file) =>
      textOf(file).split("\n").flatMap((line, index) =>
        line.length > 120 ? [`${file}:${index + 1} (${line.length})`] : []
      )
    )
    assert.deepStrictEqual(long, [])
  })
})
