/** Tests that all test titles cite rules in the same forms, and only documents that exist. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseAst } from "rolldown/parseAst"
import { repositoryRoot } from "../support/CodeBlocks.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"

/** Returns the name with which a chain of calls and properties begins: `it` for `it.effect.each(cases)`. */
const firstName = (node: unknown): string => {
  const { callee, name, object } = Object(node)
  return name ?? (callee !== undefined ? firstName(callee) : object !== undefined ? firstName(object) : "")
}

/** Returns the texts in an expression. In a template, `$value` stands for each value. */
const findTexts = (node: unknown): ReadonlyArray<string> => {
  const { quasis, type, value } = Object(node)
  if (type === "Literal" && typeof value === "string") return [value]
  if (type === "TemplateLiteral") return [quasis.map((part: typeof node) => Object(part).value.cooked).join("$value")]
  return typeof node === "object" && node !== null ? Object.values(node).flatMap(findTexts) : []
}

/** Finds the titles of the calls of `it` and its methods. */
const findTitles = (file: string) => {
  const titles: Array<string> = []
  const visit = (node: unknown): void => {
    const { arguments: values = [], callee, type } = Object(node)
    if (type === "CallExpression" && firstName(callee) === "it" && values.length > 1) {
      titles.push(...findTexts(values[0]))
    }
    if (typeof node === "object" && node !== null) Object.values(node).forEach(visit)
  }
  visit(parseAst(readFileSync(join(repositoryRoot, file), "utf8"), { lang: "ts" }))
  return titles
}

/** Returns what a title cites in the parentheses at its end: `["§4", "D17"]` for `finds news (§4, D17)`. */
const findCitedRules = (title: string) => /\(((?:[^()]|\([^()]*\))+)\)$/.exec(title)?.[1]?.split(/, (?!\d)/) ?? []

/** Returns whether the text is a file of the project, or a page of the guides or operations without `.md`. */
const isDocument = (text: string) =>
  /^(guides|operations)\/[\w-]+$/.test(text)
    ? existsSync(join(repositoryRoot, `docs/${text}.md`))
    : /^(?!docs\/)[\w/-]+\.md$/.test(text) &&
      ["", "docs"].some((folder) => existsSync(join(repositoryRoot, folder, text)))

const forms = [
  /^§\d+(\.\d+)*$/,
  /^D\d+$/,
  /^decision \d{4}$/,
  /^pitfall \d+$/,
  /^resources: [\w/-]+$/,
  // Section numbers of an RFC and of the SEC's rules.
  /^RFC \d+(, \d+(\.\d+)*)?$/,
  /^Rule \d+/,
]

const isWellFormed = (rule: string) => forms.some((form) => form.test(rule)) || isDocument(rule)

describe("Test titles", () => {
  it("cite rules in the forms of test/README.md, and only existing documents (CONTRIBUTING.md)", () => {
    const titles = globSync("test/**/*.test.ts", { cwd: repositoryRoot, exclude: (name) => name === "node_modules" })
      .flatMap((file) => findTitles(file).map((title) => ({ file, title })))
    assertFoundMoreThan(2_000, "test titles", titles)
    assert.deepStrictEqual(titles.filter(({ title }) => !findCitedRules(title).every(isWellFormed)), [])
  })

  it.each(["0114", "decisions/0114", "docs/operations/webhooks.md", "operations/missing", "README", "SECURITY"])(
    "may not cite a rule as %j (CONTRIBUTING.md)",
    (rule) => assert.isFalse(isWellFormed(rule)),
  )
})
