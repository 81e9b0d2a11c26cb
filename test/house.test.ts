/**
 * Tests the rules for the source layout (ARCHITECTURE.md): which folders may import which, the maximum line length, and
 * which files may build HTML.
 */
import { assert, describe, it } from "@effect/vitest"
import { HttpApi } from "effect/http-api"
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path/posix"
import { fileURLToPath } from "node:url"
import { parseAst } from "rolldown/parseAst"
import { AuthenticationMiddleware } from "../src/contract/Authentication.ts"
import { Api } from "../src/contract/Api.ts"
import { assertFoundMoreThan } from "./support/ScanAssertions.ts"

const root = fileURLToPath(new URL("..", import.meta.url))

/**
 * The project's folders and files. A file may import files from its own folder and from folders above it in this list.
 */
const order = [
  "src/contract",
  "src/client",
  "src/postgres",
  "samples/generator",
  "src/accounts",
  "src/query",
  "src/api",
  "src/ingest",
  "src/site",
  "src/outbox",
  "src/Server.ts",
  "src/operate",
  "src/main.ts",
  "clients/contract",
  "clients/typescript",
  "bench",
  "test",
]

/** Returns the list entry that contains the file. */
const folderOf = (file: string) => order.find((name) => file === name || file.startsWith(`${name}/`))

/** The paths of all source files, such as `src/contract/Api.ts`. */
const files = globSync(["src", "samples", "clients", "test", "bench"].map((folder) => `${folder}/**/*.{ts,js}`), {
  cwd: root,
  exclude: ["**/node_modules/**", "**/.*/**", "clients/typescript/dist/**", "test/judges/programs/**"],
}).map((file) => file.replaceAll("\\", "/")).toSorted()

const sourceFiles = files.filter((file) => file.startsWith("src/"))

const textOf = (file: string) => readFileSync(join(root, file), "utf8")

/**
 * Returns the module names in imports (including type imports), dynamic imports and `export … from`. Ignores comments.
 */
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

/** Returns the imports that resolve to a file of the project. */
const fileImports = (file: string) => imports(file).filter((name) => files.includes(name))

describe("The import scanner", () => {
  it("finds every form of import, and every relative import in src leads to a file (ARCHITECTURE.md)", () => {
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
    assertFoundMoreThan(30, "files", files)
    assertFoundMoreThan(100, "imports", Array.from(importsOf.values()).flat())
    const isData = (name: string) => name.endsWith(".json") && existsSync(join(root, name))
    const missing = sourceFiles.flatMap(imports)
      .filter((name) => /^(src|samples)\//.test(name) && !files.includes(name) && !isData(name))
    assert.deepStrictEqual(missing, [])
  })
})

describe("By the layout rules,", () => {
  it("a file imports only its own folder and those above it in the list (ARCHITECTURE.md)", () => {
    assert.sameMembers(Array.from(new Set(files.map(folderOf))), order)
    const levelOf = (file: string) => order.indexOf(folderOf(file) ?? "")
    const forbidden = files.flatMap((file) =>
      fileImports(file).filter((name) => levelOf(name) > levelOf(file)).map((name) => `${file} → ${name}`)
    )
    assert.deepStrictEqual(forbidden, [])
  })

  it("no imports are circular (ARCHITECTURE.md)", () => {
    const done = new Set<string>()
    const cycles: Array<string> = []
    const visit = (file: string, path: ReadonlyArray<string>): void => {
      if (path.includes(file)) return void cycles.push([...path.slice(path.indexOf(file)), file].join(" → "))
      if (done.has(file)) return
      fileImports(file).forEach((name) => visit(name, [...path, file]))
      done.add(file)
    }
    files.forEach((file) => visit(file, []))
    assert.deepStrictEqual(cycles, [])
  })

  it("contract and client import only Effect and each other (ARCHITECTURE.md)", () => {
    const pure = files.filter((file) => /^src\/(contract|client)\//.test(file))
    assertFoundMoreThan(50, "files of contract and client", pure)
    const foreign = pure.flatMap((file) =>
      imports(file).filter((name) => !/^(src\/|effect($|\/))/.test(name)).map((name) => `${file} → ${name}`)
    )
    assert.deepStrictEqual(foreign, [])
  })

  it("each endpoint with a key has one declaration and one handler of the same name (ARCHITECTURE.md)", () => {
    const namesIn = (folder: string) =>
      files.flatMap((file) => file.startsWith(folder) ? [file.slice(folder.length, -3)] : [])
    const handlers = namesIn("src/api/endpoints/").filter((name) => /^[a-z-]+$/.test(name))
    const declarations = namesIn("src/contract/endpoints/")
    const segments: Array<string> = []
    const withKey: Array<string> = []
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint, middleware }) => {
        const [, version, segment = ""] = endpoint.path.split("/")
        if (version !== "v1") return
        segments.push(segment)
        // Collects only endpoints that need a key. Some of the others, such as /v1/changelog, are in other folders.
        if (Array.from(middleware).some(({ key }) => key === AuthenticationMiddleware.key)) withKey.push(segment)
      },
    })
    assertFoundMoreThan(20, "handlers", handlers)
    assert.deepStrictEqual(handlers.filter((name) => !segments.includes(name)), [])
    assert.deepStrictEqual(handlers.filter((name) => !declarations.includes(name)), [])
    // Endpoints with the same rows share a file. It is named after the shorter path.
    const withoutFile = withKey.filter((segment) =>
      !handlers.some((name) => segment === name || segment.startsWith(`${name}-`))
    )
    assert.deepStrictEqual(withoutFile, [])
  })

  it("no folder is called utils, models or the like, and there is no barrel file (ARCHITECTURE.md)", () => {
    const kinds = /(^|\/)(services?|repositor(y|ies)|models?|utils?|helpers?|lib|shared|common|types)(\/|$)/
    assert.deepStrictEqual(sourceFiles.filter((file) => kinds.test(dirname(file)) || file.endsWith("/index.ts")), [])
  })

  it("the cluster test does not import vitest (ARCHITECTURE.md)", () => {
    const found = globSync("test/cluster/**/*.ts", { cwd: root }).map((file) => file.replaceAll("\\", "/"))
    assertFoundMoreThan(10, "files of the cluster test", found)
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

  it("errors are Schema.Error in responses and Data.TaggedError elsewhere (ARCHITECTURE.md)", () => {
    const other = /\bclass \w+(?:<[^>]*>)?\s+extends\s+(?!Data\.TaggedError\(|Schema\.Error<)[\w.]*Error\b/
    // Users of the Promise client need not know Effect, so the client's only error is a class that extends `Error`.
    assert.deepStrictEqual(sourceFiles.filter((file) => other.test(textOf(file))), ["src/client/TickerlineError.ts"])
  })

  it("the key of a service names the folder that the service is in (ARCHITECTURE.md)", () => {
    const keys = sourceFiles.flatMap((file) =>
      Array.from(textOf(file).matchAll(/"tickerline\/(\w+)\//g), ([, folder]) => [file, folder])
    )
    assertFoundMoreThan(50, "keys of services", keys)
    assert.deepStrictEqual(keys.filter(([file, folder]) => !file?.startsWith(`src/${folder}/`)), [])
  })

  it("no line has more than 120 characters (ARCHITECTURE.md)", () => {
    const long = sourceFiles.flatMap((file) =>
      textOf(file).split("\n").flatMap((line, index) =>
        line.length > 120 ? [`${file}:${index + 1} (${line.length})`] : []
      )
    )
    assert.deepStrictEqual(long, [])
  })
})

/**
 * Returns the strings in a file, including the literal parts of template strings. Excludes templates tagged `markup`.
 */
const stringsOf = (file: string) => {
  const strings: Array<string> = []
  const visit = (node: unknown): void => {
    const { quasi, tag, type, value } = Object(node)
    if (type === "Literal" && typeof value === "string") strings.push(value)
    if (type === "TemplateElement") strings.push(value.cooked)
    const isMarkup = type === "TaggedTemplateExpression" && tag.name === "markup"
    if (typeof node === "object" && node !== null) Object.values(isMarkup ? quasi.expressions : node).forEach(visit)
  }
  visit(parseAst(textOf(file), { lang: file.endsWith(".ts") ? "ts" : "js" }))
  return strings
}

describe("HTML", () => {
  const filesWith = (pattern: RegExp) => sourceFiles.filter((file) => pattern.test(textOf(file)))
  const markupModule = "src/site/browser/markup.js"
  /** The feed is XML. It is written in a folder that is above `src/site` in the list and cannot import from it. */
  const feed = "src/api/changelog/AtomFeed.ts"

  it("is written only in templates that escape every value (SECURITY.md)", () => {
    const tag = /(?<!\(\?)<\/?[a-z][a-z0-9-]*(?=\s|\/?>|$)|<!doctype/i
    // A placeholder for an API key in messages. Named groups in regular expressions are not HTML tags, either.
    const placeholder = "<key>"
    const found = sourceFiles.filter((file) => file !== markupModule && file !== feed).flatMap((file) =>
      stringsOf(file).filter((text) => tag.test(text.replaceAll(placeholder, ""))).map((text) => `${file}: ${text}`)
    )
    assert.deepStrictEqual(found, [])
  })

  it("is escaped by one function, which nothing but the templates can call (SECURITY.md)", () => {
    const escapes = sourceFiles.filter((file) => stringsOf(file).some((text) => /&(lt|#60|#x3c);/i.test(text)))
    assert.deepStrictEqual(escapes, [feed, markupModule])
    assert.notMatch(textOf(markupModule), /export const escape/)
  })

  it("is taken from text only where a library or a page has built it (SECURITY.md)", () => {
    assert.deepStrictEqual(filesWith(/\bnew Html\(/), ["src/site/Layout.ts", "src/site/Markdown.ts", markupModule])
  })

  it("gets into a page only as the result of a template (SECURITY.md)", () => {
    const sinks = /\b(?:innerHTML|outerHTML|srcdoc|insertAdjacentHTML|createContextualFragment|setHTML\w*|writeln?)\b/
    const scripts = sourceFiles.filter((file) => file.endsWith(".js"))
    assert.deepStrictEqual(scripts.filter((file) => sinks.test(textOf(file))), [])
    assert.deepStrictEqual(filesWith(/\bparseFromString\b/), ["src/site/browser/dom.js"])
  })
})
