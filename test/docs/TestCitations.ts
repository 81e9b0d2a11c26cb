/** Finds the tests that documents cite in tables. */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { repositoryRoot } from "../support/CodeBlocks.ts"

/** A reference from a document to a test. */
interface Citation {
  readonly file: string
  /** The test title, or undefined if the document cites the whole file. */
  readonly title: string | undefined
}

/** Returns the rows of all Markdown tables, without header rows and separator rows. */
export const findTableRows = (document: string) =>
  document.split("\n").filter((line, at, lines) =>
    line.startsWith("| ") && !line.startsWith("| -") && lines[at + 1]?.startsWith("| -") !== true
  )

/** Finds the citations in a table row: a test file formatted as code, optionally followed by a test title in quotes. */
export const findCitations = (row: string): ReadonlyArray<Citation> =>
  Array.from(
    row.matchAll(/`(test\/[\w./-]+\.test\.ts)`(?: "(.+?)"(?= *(?:<br>|\|)))?/g),
    ([, file = "", title]) => ({ file, title }),
  )

/** Returns the citations whose file does not exist or does not contain the title. */
export const findMissingCitations = (citations: ReadonlyArray<Citation>) =>
  citations.filter(({ file, title }) => {
    const path = join(repositoryRoot, file)
    return !existsSync(path) || (title !== undefined && !readFileSync(path, "utf8").includes(`"${title}"`))
  }).map(({ file, title = "" }) => `${file} ${title}`)
