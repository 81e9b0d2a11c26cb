/** Reads and replaces the fenced code blocks in Markdown files. */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

/** The root folder of the repository. */
export const repositoryRoot = fileURLToPath(new URL("../../", import.meta.url))

/** A fenced code block. */
export interface CodeBlock {
  /** The path relative to the repository root. */
  readonly file: string
  /** The line number of the opening fence, counted from 1. */
  readonly line: number
  readonly language: string
  readonly argument: string
  readonly text: string
}

/**
 * Reads all code blocks in a Markdown file. `line` is the number of the line that opens the block, from 1. The rest of
 * that line is the `language`, such as `sh`, and the `argument` after it.
 */
export const readCodeBlocks = (file: string): ReadonlyArray<CodeBlock> => {
  const lines = readFileSync(repositoryRoot + file, "utf8").split("\n")
  const found: Array<CodeBlock> = []
  let open: { readonly at: number; readonly info: string } | undefined
  lines.forEach((line, at) => {
    if (open === undefined) {
      const [, info] = /^```(.*)$/.exec(line) ?? []
      if (info !== undefined) open = { at, info: info.trim() }
    } else if (line === "```") {
      const [language = "", ...rest] = open.info.split(" ")
      const text = lines.slice(open.at + 1, at).join("\n")
      found.push({ file, line: open.at + 1, language, argument: rest.join(" "), text })
      open = undefined
    }
  })
  if (open !== undefined) throw new Error(`${file}:${open.at + 1}: this fence does not end`)
  return found
}

/**
 * Replaces the text of code blocks in one file. Starts with the last block, so the line numbers of the remaining blocks
 * stay valid.
 */
export const replaceCodeBlocks = (
  file: string,
  changes: ReadonlyArray<{ readonly fence: CodeBlock; readonly text: string }>,
) => {
  const lines = readFileSync(repositoryRoot + file, "utf8").split("\n")
  for (const { fence, text } of changes.toSorted((left, right) => right.fence.line - left.fence.line)) {
    const length = fence.text === "" && lines[fence.line] === "```" ? 0 : fence.text.split("\n").length
    lines.splice(fence.line, length, ...text.split("\n"))
  }
  writeFileSync(repositoryRoot + file, lines.join("\n"))
}

/** Parses JSON without losing digits of its numbers. */
const parseJsonWithDigits = (text: string): unknown =>
  JSON.parse(
    text,
    (_, value, { source } = { source: "" }) =>
      typeof value === "number" && source !== undefined ? JSON.rawJSON(source) : value,
  )

/** Formats JSON without white space and without losing digits of its numbers. */
export const compactJson = (text: string) => JSON.stringify(parseJsonWithDigits(text))

const maxLineLength = 100

const isLeaf = (value: unknown) => value === null || typeof value !== "object" || JSON.isRawJSON(value)

/** Formats JSON for readers. A value that fits on one line stays on one line. */
export const formatJson = (text: string) => {
  const print = (value: unknown, indent: string): string => {
    if (value === null || typeof value !== "object" || isLeaf(value)) return JSON.stringify(value)
    const isList = Array.isArray(value)
    const items = Object.entries(value).map(([key, item]) => ({ name: isList ? "" : `${JSON.stringify(key)}: `, item }))
    const [open, close, space] = isList ? ["[", "]", ""] : ["{", "}", " "]
    if (items.length === 0) return open + close
    const short = items.map(({ item, name }) => name + print(item, "")).join(", ")
    if (indent.length + short.length < maxLineLength && !short.includes("\n")) {
      return `${open}${space}${short}${space}${close}`
    }
    const lines = items.map(({ item, name }) => `${indent}  ${name}${print(item, `${indent}  `)}`)
    return `${open}\n${lines.join(",\n")}\n${indent}${close}`
  }
  return print(parseJsonWithDigits(text), "")
}
