/** The rules of the house (README, the tour): which file may import which, and how long a line may be. */
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

/** `file → import` for each import of the house that is not allowed. */
const strangers = (among: (file: string) => boolean, allowed: (name: string, file: string) => boolean) =>
  files.filter(among).flatMap((file) =>
    houseImports(file).filter((name) => !allowed(name, file)).map((name) => `${file} → ${name}`)
  )

const isPolicy = (name: string) => name.startsWith("src/policy/")
const isV1 = (name: string) => name.startsWith("src/v1/")
const isContractOfEndpoint = (name: string) => /^src\/(v1\/[^/]+|catalogue|changelog)\/Api\.ts$/.test(name)
/** What an entry of the changelog tells is the same for the contract and for whoever reads it. */
const isChangelogEntry = (name: string) => name === "src/changelog/Entry.ts"
const isAccountContract = (name: string) => /^src\/account\/(Authentication|Admission|Errors)\.ts$/.test(name)
const isDatabase = (name: string) => name.startsWith("src/db/")
const isCache = (name: string) => name.startsWith("src/cache/")
const isObservability = (name: string) => name.startsWith("src/observability/")
const isTerminal = (name: string) => name.startsWith("src/terminal/")
/** Where work notes how far it is; nothing is shown by it. */
const isProgress = (name: string) => name === "src/observability/Progress.ts"
const isAccount = (name: string) => name.startsWith("src/account/")
const isClient = (name: string) => name.startsWith("src/client/")
const isLists = (name: string) => name.startsWith("src/lists/")
/** How a job is declared, wherever it is done. */
const isJob = (name: string) => name === "src/jobs/Job.ts"
const isSite = (name: string) => name.startsWith("src/site/")
const isChangelog = (name: string) => name.startsWith("src/changelog/")

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
  it("§house policy imports nothing of the house but policy", () => {
    assert.deepStrictEqual(strangers(isPolicy, isPolicy), [])
  })

  it("§house an Api.ts imports policy, the account's contracts, and the Api.ts of a sibling of its shape", () => {
    const allowed = (name: string) => isPolicy(name) || isAccountContract(name) || isContractOfEndpoint(name)
    assert.deepStrictEqual(strangers(isContractOfEndpoint, (name) => allowed(name) || isChangelogEntry(name)), [])
    assert.deepStrictEqual(strangers(isChangelogEntry, isPolicy), [])
  })

  it("§house the account's contracts import policy and each other only", () => {
    assert.strictEqual(files.filter(isAccountContract).length, 3)
    assert.deepStrictEqual(strangers(isAccountContract, (name) => isPolicy(name) || isAccountContract(name)), [])
  })

  it("§house Api.ts imports contracts only", () => {
    assert.deepStrictEqual(
      strangers(
        (file) => file === "src/Api.ts",
        (name) => isContractOfEndpoint(name) || isPolicy(name) || isAccountContract(name),
      ),
      [],
    )
  })

  it("§house the client imports the contract and itself, and nothing imports the client", () => {
    assert.isAbove(files.filter(isClient).length, 5)
    const isContract = (name: string) => isPolicy(name) || isAccountContract(name) || name === "src/Api.ts"
    assert.deepStrictEqual(strangers(isClient, (name) => isContract(name) || isClient(name)), [])
    assert.deepStrictEqual(strangers((file) => !isClient(file), (name) => !isClient(name)), [])
    const foreign = files.filter(isClient).flatMap(imports).filter((name) => !/^(src\/|effect($|\/))/.test(name))
    assert.deepStrictEqual(foreign, [])
  })

  it("§house what serves an endpoint imports Api.ts, policy, db, cache, lists, account and v1, never another Http.ts", () => {
    assert.deepStrictEqual(
      strangers(
        (file) => isV1(file) && !isContractOfEndpoint(file),
        (name) =>
          name === "src/Api.ts" || isPolicy(name) || isDatabase(name) || isCache(name) || isLists(name) ||
          isAccount(name) || (isV1(name) && !name.endsWith("/Http.ts")),
      ),
      [],
    )
  })

  it("§house observability imports policy; db that and observability; account and cache also db; lists also cache", () => {
    const isBelow = (name: string) => isPolicy(name) || isObservability(name)
    assert.deepStrictEqual(strangers(isObservability, isBelow), [])
    // What is a command shows how far it is.
    const allowed = (name: string, file: string) =>
      isBelow(name) || isDatabase(name) || isProgress(name) || (file === "src/cli/MigrateCommand.ts" && isTerminal(name))
    assert.deepStrictEqual(strangers(isDatabase, allowed), [])
    assert.deepStrictEqual(
      strangers(
        isAccount,
        (name, file) =>
          isBelow(name) || isDatabase(name) || isAccount(name) || isJob(name) ||
          (file.endsWith("Command.ts") && isTerminal(name)),
      ),
      [],
    )
    assert.deepStrictEqual(strangers(isCache, (name) => isBelow(name) || isDatabase(name) || isCache(name)), [])
    assert.deepStrictEqual(
      strangers(isLists, (name) => isBelow(name) || isDatabase(name) || isCache(name) || isLists(name)),
      [],
    )
  })

  it("§house terminal imports nothing of the house; doctor and query are commands, imported by Commands.ts only", () => {
    assert.deepStrictEqual(strangers(isTerminal, isTerminal), [])
    const isCommand = (name: string) => /^src\/(doctor|query)\//.test(name)
    // The doctor knows all settings, those of query too.
    const others = strangers((file) => !isCommand(file) && file !== "src/cli/CommandLine.ts", (name) => !isCommand(name))
    assert.deepStrictEqual(others, [])
  })

  it("§house changelog imports policy, cache, catalogue and what stands around responses; mail that, db and account", () => {
    const isMail = (name: string) => name.startsWith("src/mail/")
    const told = (name: string) => isPolicy(name) || isChangelog(name) || name === "src/catalogue/Endpoints.ts"
    assert.deepStrictEqual(
      strangers(
        isChangelog,
        (name, file) =>
          told(name) || (file.endsWith("/Http.ts") && (isCache(name) || ["src/Api.ts", "src/http/Middleware.ts"].includes(name))),
      ),
      [],
    )
    const below = (name: string) =>
      isMail(name) || isPolicy(name) || isObservability(name) || isDatabase(name) || isJob(name)
    const used = /^src\/(changelog\/(Atom|Changelog|Entry)|account\/Email|Base|terminal\/Text)\.ts$/
    assert.deepStrictEqual(strangers(isMail, (name) => below(name) || used.test(name)), [])
    // The doctor reads all settings.
    const allowed = /^src\/(mail\/.*|Commands|Server|doctor\/Settings)\.ts$/
    const outside = (file: string) => !allowed.test(file)
    assert.deepStrictEqual(strangers(outside, (name) => !isMail(name)), [])
  })

  it("§house jobs import db and what is below it, and know none of the work; Server.ts alone lists them", () => {
    const isJobs = (name: string) => name.startsWith("src/jobs/")
    assert.isAbove(files.filter(isJobs).length, 3)
    const allowed = (name: string) => isJobs(name) || isDatabase(name) || isObservability(name) || isPolicy(name)
    assert.deepStrictEqual(strangers(isJobs, allowed), [])
    const others = strangers(
      (file) => !isJobs(file) && file !== "src/Server.ts",
      (name) => !isJobs(name) || isJob(name),
    )
    assert.deepStrictEqual(others, [])
  })

  it("§house the site reads what the code declares, and asks no database; nothing but Server.ts imports it", () => {
    const declared =
      /^src\/(v1\/datasets\/Readers|catalogue\/(Endpoints|OpenApi|Schemas)|cache\/Revalidation|account\/(Errors|Prices|RateLimit)|Base|Edge|Compression)\.ts$/
    assert.deepStrictEqual(
      strangers(isSite, (name) => isSite(name) || isPolicy(name) || isChangelog(name) || declared.test(name)),
      [],
    )
    assert.deepStrictEqual(strangers((file) => file !== "src/Server.ts" && !isSite(file), (name) => !isSite(name)), [])
  })

  it("§house Server.ts is imported by what starts it, an Http.ts by Server.ts only", () => {
    assert.deepStrictEqual(
      strangers((file) => file !== "src/cli/ServeCommand.ts", (name) => name !== "src/Server.ts"),
      [],
    )
    assert.deepStrictEqual(strangers((file) => file !== "src/Server.ts", (name) => !name.endsWith("/Http.ts")), [])
  })

  it("§house nothing imports main.ts, and that alone the commands", () => {
    assert.deepStrictEqual(strangers(() => true, (name) => name !== "src/main.ts"), [])
    assert.deepStrictEqual(strangers((file) => file !== "src/main.ts", (name) => name !== "src/cli/CommandLine.ts"), [])
  })

  it("§house no file imports itself by a detour", () => {
    const done = new Set<string>()
    const circles: Array<string> = []
    const visit = (file: string, path: ReadonlyArray<string>): void => {
      if (path.includes(file)) return void circles.push([...path.slice(path.indexOf(file)), file].join(" → "))
      if (done.has(file)) return
      houseImports(file).forEach((name) => visit(name, [...path, file]))
      done.add(file)
    }
    files.forEach((file) => visit(file, []))
    assert.deepStrictEqual(circles, [])
  })

  it("§house the contract drags no server code along, by whatever detour: no db, Http.ts, Node or driver", () => {
    const contract = files.filter((file) =>
      file.endsWith("/Api.ts") || isPolicy(file) || isAccountContract(file) || isClient(file)
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
