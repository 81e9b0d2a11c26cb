/**
 * Tests that docs/specification.md defines every code that the repository cites, and that every code it defines is
 * cited.
 */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { repositoryRoot } from "../support/CodeBlocks.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"

const readText = (file: string) => readFileSync(join(repositoryRoot, file), "utf8")

interface Rule {
  /** The code of a section or decision, such as `§7.3` or `D22`. */
  readonly code: string
  readonly text: string
}

const rules: ReadonlyArray<Rule> = readText("docs/specification.md").split(/^(?=#+ )/m).flatMap((section) => {
  const [, code] = /^#+ (§\d+(?:\.\d+)?(?= )|D\d+$)/m.exec(section) ?? []
  return code === undefined ? [] : [{ code, text: section }]
})

/** Returns the code of a rule and the codes of its numbered items: `§7.3`, `§7.3.1`, … */
const definedCodes = ({ code, text }: Rule) => [
  code,
  ...Array.from(text.matchAll(/^(\d+)\. /gm), ([, part = ""]) => `${code}.${part}`),
]

/**
 * Finds citations such as `§7.3.2` and `D22`. Ignores data, such as the symbol "D1" and the percent-encoded byte %D0.
 */
const findCodes = (text: string) => text.match(/§\d+(?:\.\d+)*|(?<![\w%"'])D\d{1,2}\b(?!["'])/g) ?? []

const files = globSync(
  [
    "{src,sql,test,clients,samples/generator}/**/*.{ts,js,py,sql}",
    "{docs,test}/**/*.md",
    "*.md",
  ],
  { cwd: repositoryRoot, exclude: (name) => name === "node_modules" || name.startsWith(".") },
).filter((file) => file !== "docs/specification.md" && file !== "test/docs/specification.test.ts")

const citations = files.flatMap((file) => findCodes(readText(file)).map((code) => ({ code, file })))

describe("docs/specification.md", () => {
  it("defines every code that code, tests or documents cite (CONTRIBUTING.md)", () => {
    assertFoundMoreThan(2_000, "citations", citations)
    const defined = new Set(rules.flatMap(definedCodes))
    assert.deepStrictEqual(citations.filter(({ code }) => !defined.has(code)), [])
  })

  it("has no rule that neither code nor a test cites (CONTRIBUTING.md)", () => {
    assertFoundMoreThan(60, "rules", rules)
    const cited = new Set(citations.filter(({ file }) => !file.endsWith(".md")).map(({ code }) => code))
    const isCited = ({ code }: Rule) => cited.has(code) || Array.from(cited).some((one) => one.startsWith(`${code}.`))
    assert.deepStrictEqual(rules.filter((rule) => !isCited(rule)).map(({ code }) => code), [])
  })

  it("defines each code once, the decisions without gaps (CONTRIBUTING.md)", () => {
    const codes = rules.map(({ code }) => code)
    assert.deepStrictEqual(codes, Array.from(new Set(codes)))
    const decisions = codes.filter((code) => code.startsWith("D"))
    assert.deepStrictEqual(decisions, decisions.map((_, index) => `D${index + 1}`))
  })

  it("links each rule to code that exists (CONTRIBUTING.md)", () => {
    for (const { code, text } of rules) {
      const links = Array.from(text.matchAll(/\]\(\.\.\/([^)#]+)\)/g), ([, path = ""]) => path)
      // §9 is only a chapter heading and needs no link to code.
      if (code !== "§9") assert.isNotEmpty(links, code)
      assert.deepStrictEqual(links.filter((path) => !existsSync(join(repositoryRoot, path))), [], code)
    }
  })
})
