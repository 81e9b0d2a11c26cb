/** Assertions and random inputs for the site's SVG figures. */
import { assert } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"

/** An arbitrary integer in a range. */
export const arbitraryInteger = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

/** Arbitrary text that tries to inject markup. */
export const arbitraryHostileText = Arbitrary.map(
  Arbitrary.all({ at: arbitraryInteger(0, 8), more: Arbitrary.schema(Schema.String) }),
  ({ at, more }) => {
    const evil = [
      `<script>alert(1)</script>`,
      `"><img src=x onerror=alert(1)>`,
      `'/><svg/onload=alert(1)>`,
      `</title></svg><a href="javascript:alert(1)">x</a>`,
      `&lt;script&gt;&#x3c;`,
      `]]><!--`,
      `\u0000\ud800\u202e\ufffe`,
      "W".repeat(10_000),
      "",
    ]
    return `${evil[at] ?? ""}${more}`
  },
)

/** An arbitrary JSON value. */
export const arbitraryJson = Arbitrary.schema(Schema.Json)

/**
 * Asserts that all elements are closed, all attributes are quoted, and all entities are known. Removes each correct
 * tag, and keeps the names of the open elements in a stack, so that afterwards the text must have no `<` or `>` left.
 */
export const assertWellFormedMarkup = (markup: string) => {
  const open: Array<string> = []
  const text = markup.replace(
    /<(\/?)([a-zA-Z][a-zA-Z0-9]*)((?:\s[\w:-]+(?:="[^"<>]*")?)*)\s*(\/?)>/g,
    (_, end, name, __, empty) => {
      if (end === "/") assert.strictEqual(open.pop(), name, markup)
      else if (empty === "") open.push(name)
      return ""
    },
  )
  assert.deepStrictEqual(open, [])
  assert.notMatch(text, /[<>]/)
  assert.notMatch(text, /&(?!(amp|lt|gt|quot|#39);)/)
  assert.isTrue(markup.isWellFormed())
}

/** The width of a character in the widest 13 px font of `style.css`, in pixels. */
const letterWidth = 8

const parseNumbers = (text: string) =>
  Array.from(text.matchAll(/-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi), ([number]) => Number(number))

const getAttribute = (attributes: string, name: string) => {
  const found = new RegExp(`\\s${name}="([^"]*)"`).exec(attributes)?.[1]
  return found === undefined ? undefined : Number(found)
}

/** Returns the points of an SVG path that uses the commands M, V, H, h, l and z. */
const parsePathPoints = (d: string) => {
  let [x, y] = [0, 0]
  return Array.from(d.matchAll(/([MVHhlz])([^MVHhlz]*)/g), ([, kind, rest = ""]) => {
    const [first = 0, second = 0] = parseNumbers(rest)
    if (kind === "M") [x, y] = [first, second]
    if (kind === "V") y = first
    if (kind === "H") x = first
    if (kind === "h") x += first
    if (kind === "l") [x, y] = [x + first, y + second]
    return [x, y] as const
  })
}

/**
 * Finds the elements of all SVG images in a page that lie outside of the view box or have no valid position. An element
 * is inside if its corners are; a missing coordinate is NaN, which is never inside. The width of a text is estimated
 * from its number of letters.
 */
export const findElementsOutsideViewBox = (html: string) =>
  Array.from(html.matchAll(/<svg([^>]*)>([\s\S]*?)<\/svg>/g), ([, attributes = "", inner = ""]) => {
    const [, width = 0, height = 0] = /viewBox="0 0 (\S+) (\S+)"/.exec(attributes)?.map(Number) ?? []
    const isIn = (x: number, y: number) => x >= -0.1 && x <= width + 0.1 && y >= -0.1 && y <= height + 0.1
    return Array.from(inner.matchAll(/<(rect|circle|path|text)((?:\s[\w-]+="[^"]*")*)\/?>(?:([^<]*)<)?/g), (found) => {
      const [element, kind = "", attributes = "", content = ""] = found
      const of = (name: string) => getAttribute(attributes, name)
      const points = (): ReadonlyArray<readonly [number, number]> => {
        if (kind === "path") return parsePathPoints(/\sd="([^"]*)"/.exec(attributes)?.[1] ?? "")
        if (kind === "circle") {
          const [x, y, r] = [of("cx") ?? NaN, of("cy") ?? NaN, of("r") ?? NaN]
          return [[x - r, y - r], [x + r, y + r]]
        }
        const [x, y] = [of("x") ?? NaN, of("y") ?? NaN]
        if (kind === "rect") return [[x, y], [x + (of("width") ?? NaN), y + (of("height") ?? NaN)]]
        const wide = content.replace(/&[a-z#0-9]+;/g, "x").length * letterWidth
        const anchor = /text-anchor="(\w+)"/.exec(attributes)?.[1] ?? "start"
        const start = anchor === "middle" ? x - wide / 2 : anchor === "end" ? x - wide : x
        return [[start, y], [start + wide, y]]
      }
      return points().every(([x, y]) => isIn(x, y)) ? [] : [element]
    }).flat()
  }).flat()

const elementPattern =
  /^(figure|figcaption|p|ol|ul|li|time|b|strong|code|svg|title|desc|g|path|rect|circle|text|details|summary|div|table|thead|tbody|tr|th|td)$/

/** Finds elements with a forbidden name or attribute. */
export const findForbiddenElements = (html: string) =>
  Array.from(html.matchAll(/<([a-zA-Z]+)([^>]*)>/g), ([element, name = "", attributes = ""]) => {
    const names = Array.from(attributes.matchAll(/\s([\w:-]+)="[^"]*"/g), ([, attribute = ""]) => attribute)
    return elementPattern.test(name) && !names.some((name) => /^(on|href|src|style)/.test(name)) ? [] : [element]
  }).flat()
