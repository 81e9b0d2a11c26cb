/**
 * Tests that no test depends on the speed of the machine: tests must not set an upper bound on elapsed time, or pause
 * instead of waiting for a condition.
 */
import { assert, describe, it } from "@effect/vitest"
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path/posix"
import { projectRoot } from "./support/Processes.ts"
import { assertFoundMoreThan } from "./support/ScanAssertions.ts"

/**
 * The only functions that may pause or limit elapsed time, for the reasons given in `test/README.md`. There may be at
 * most five.
 */
const exceptions: Readonly<Record<string, ReadonlyArray<string>>> = {
  "test/support/Pauses.ts": ["holdFault", "paceWorkload", "waitUntilOldDataExpires", "waitAtMost"],
  "test/support/Service.ts": ["waitForResponseStatus"],
}

/** The minimum timeout in seconds. A timeout this long only ends waits that would otherwise last forever. */
const minTimeoutSeconds = 20

interface Finding {
  readonly offset: number
  readonly found: string
}

const findAll = (text: string, pattern: RegExp): ReadonlyArray<Finding> =>
  Array.from(text.matchAll(pattern), ({ 0: found, index }) => ({ offset: index, found }))

/** Returns the top-level arguments of a call. `offset` is the position after the opening parenthesis. */
const readArguments = (text: string, offset: number): ReadonlyArray<string> => {
  const found = [""]
  let depth = 0
  for (const letter of text.slice(offset)) {
    if ("([{".includes(letter)) depth += 1
    if (")]}".includes(letter)) depth -= 1
    if (depth < 0) break
    if (letter === "," && depth === 0) found.push("")
    else found[found.length - 1] += letter
  }
  return found
}

const clockCall = /performance\.now\(\)|Date\.now\(\)|currentTimeMillis|process\.hrtime/

/** Finds the names of variables that contain a time or duration measured with the machine's clock. */
const findClockNames = (text: string) => {
  const names = new Set(["seconds", "milliseconds", "elapsed", "taken", "slowest", "longest"])
  for (const [, name = ""] of text.matchAll(/\[(\w+)[^\]\n]*\] = yield\* Effect\.timed\(/g)) names.add(name)
  const assignments = Array.from(text.matchAll(/(?:(?:const|let) )?\b(\w+) (?:=|\+=) ([^\n;]*)/g))
  for (const _ of [1, 2, 3]) {
    for (const [, name = "", value = ""] of assignments) if (holdsTime(value, names)) names.add(name)
  }
  return names
}

/**
 * Returns whether an expression is a time or a difference between times. Calls that only take a time as an argument do
 * not count.
 */
const holdsTime = (expression: string, names: ReadonlySet<string>) =>
  clockCall.test(expression) ||
  (expression.replaceAll(/"[^"]*"/g, "").match(/(?<![\w:])[\w.]+(?![\w(:])/g) ?? []).some((word) =>
    names.has(word.split(".").at(-1) ?? "")
  )

/** Finds assertions that something took less than a time that was not measured in the same run. */
const findBounds = (text: string): ReadonlyArray<Finding> => {
  const names = findClockNames(text)
  return findAll(text, /\bassert\.(?:isBelow|isAtMost|approximately|closeTo)\(/g).filter(({ found, offset }) => {
    const [actual = "", limit = ""] = readArguments(text, offset + found.length)
    return holdsTime(actual, names) && !holdsTime(limit, names)
  })
}

/** Finds timeouts that are too short to be mere safeguards against waiting forever. */
const findShortTimeouts = (text: string) =>
  findAll(text, /\bEffect\.timeout\w*\(/g).filter(({ found, offset }) => {
    const argument = readArguments(text, offset + found.length).at(-1)?.trim() ?? ""
    const last = new RegExp(`const ${argument.replaceAll(/\\W/g, "")} = ("[^"]*")`).exec(text)?.[1] ?? argument
    const [, count = "", unit = ""] = /^"(\d+) (milli|second)s?"$/.exec(last) ?? []
    const isUnknown = /^\w+$/.test(last)
    return isUnknown || (count !== "" && Number(count) / (unit === "milli" ? 1000 : 1) < minTimeoutSeconds)
  })

/** Finds pauses. Ignores files in which all tests use a test clock, and steps of loops that advance a test clock. */
const findPauses = (text: string) => {
  const hasTestClock = text.includes("TestClock") && !/excludeTestServices|it\.live\b/.test(text)
  const step = /TestClock\.withLive\(Effect\.sleep\("\d\d? millis"\)\)/g
  return hasTestClock
    ? []
    : findAll(text.replaceAll(step, (found) => " ".repeat(found.length)), /\bEffect\.(?:sleep|delay)\(|\bsetTimeout\(/g)
}

const findAllUses = (text: string) =>
  [findBounds, findShortTimeouts, findPauses].flatMap((find) => find(text)).map(({ found, offset }) => ({
    found,
    line: text.slice(0, offset).split("\n").length,
    name: Array.from(text.slice(0, offset + found.length).matchAll(/^export const (\w+)/gm)).at(-1)?.[1] ?? "",
  }))

// Skips these folders, because their programs measure a cluster's outages and poll third-party tools.
const files = globSync("test/**/*.ts", { cwd: projectRoot }).map((file) => file.replaceAll("\\", "/")).filter((file) =>
  !/node_modules|^test\/(cluster|judges)\/|^test\/wall-clock/.test(file)
)

describe("The search for uses of the clock", () => {
  it.each([
    `assert.isBelow(performance.now() - began, 2_000)`,
    `const taken = performance.now() - began; assert.isAtMost(taken, limit)`,
    `let last = 0; const sent = (yield* Clock.currentTimeMillis) - start; last = sent; assert.isBelow(last, 1000)`,
    `const [time, row] = yield* Effect.timed(read); assert.isBelow(Duration.toMillis(time), 9)`,
    `assert.isBelow(all.slowest, 12_000)`,
    `Effect.timeout(close, "4 seconds")`,
    `read.pipe(Effect.timeout("1900 millis"))`,
    `yield* Effect.sleep("1 second")`,
    `Effect.delay(read, "1 second") // excludeTestServices, TestClock`,
    `await new Promise((resolve) => setTimeout(resolve, 100))`,
  ])("finds %s (CONTRIBUTING.md)", (text) => assert.strictEqual(findAllUses(text).length, 1))

  it.each([
    `assert.isBelow(performance.now() - rejectedAt, silence / 2); const silence = performance.now() - stalledAt`,
    `assert.isAtMost(Date.parse(written), Date.now())`,
    `assert.isAtMost(rows.length, 3)`,
    `assert.isAbove(performance.now() - began, 500)`,
    `wait.pipe(Effect.timeout("60 seconds"))`,
    `Effect.repeat(look, { until: isDone, schedule: Schedule.spaced("20 millis") })`,
    `Effect.andThen(TestClock.adjust("1 second"), TestClock.withLive(Effect.sleep("10 millis")))`,
    `yield* TestClock.adjust("1 second"); Effect.sleep("1 second")`,
  ])("accepts %s (CONTRIBUTING.md)", (text) => assert.deepStrictEqual(findAllUses(text), []))
})

describe("Tests", () => {
  it("do not bound elapsed time and do not pause, except in the listed functions (CONTRIBUTING.md)", () => {
    assertFoundMoreThan(300, "test files", files)
    const uses = files.flatMap((file) =>
      findAllUses(readFileSync(join(projectRoot, file), "utf8")).map((use) => ({ file, ...use }))
    )
    const others = uses.filter(({ file, name }) => !(exceptions[file] ?? []).includes(name))
    assert.deepStrictEqual(others.map(({ file, found, line }) => `${file}:${line} ${found}`), [])
    const used = new Set(uses.map(({ name }) => name))
    assert.deepStrictEqual(Object.values(exceptions).flat().filter((name) => !used.has(name)), [], "no longer needed")
  })

  it("have at most five exceptions, with reasons in test/README.md (CONTRIBUTING.md)", () => {
    const names = Object.values(exceptions).flat()
    assert.isAtMost(names.length, 5)
    const [, section = ""] = readFileSync(join(projectRoot, "test/README.md"), "utf8").split("## Exceptions")
    const listed = Array.from(section.matchAll(/^\| `(\w+)`/gm), ([, name]) => name)
    assert.deepStrictEqual(listed, names)
  })
})
