/** Writes the section "Speed" of the project's README from the newest report, so that the two cannot differ. */
import { globSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Mode } from "./cases.ts"
import { formatMarkdownTable, medianOf, type Outcome, pairRatios, type Result } from "./outcome.ts"
import { median } from "./statistics.ts"

type ServerName = Result["server"]

/** A report as `writeBenchmarkReport` stores it. */
export interface Report extends Pick<Outcome, "results"> {
  readonly about: { readonly date: string; readonly cores: number; readonly rounds: number }
}

/** The rows of the table. Each has its own server of Tickerline, because lineages come from memory or from the table. */
const requests: ReadonlyArray<
  { readonly title: string; readonly case: string; readonly mode: Mode; readonly server: ServerName }
> = [
  { title: "10 rows of 36 columns, repeated", case: "runners-10", mode: "hit", server: "tickerline" },
  {
    title: "The same 10 rows, revalidated by the client: 304",
    case: "runners-10",
    mode: "304",
    server: "tickerline",
  },
  { title: "100 rows, not requested before", case: "runners-100", mode: "miss", server: "tickerline" },
  { title: "10 rows, not requested before", case: "runners-10", mode: "miss", server: "tickerline" },
  { title: "0 rows, not requested before", case: "runners-0", mode: "miss", server: "tickerline" },
  { title: "A lineage of 12 events, from memory", case: "lineage-12", mode: "miss", server: "tickerline-lineage" },
  { title: "A lineage of 3 events, from memory", case: "lineage-3", mode: "miss", server: "tickerline-lineage" },
  { title: "A lineage of 3 events, from the table", case: "lineage-3", mode: "miss", server: "tickerline" },
  { title: "Floats with market caps", case: "float", mode: "miss", server: "tickerline" },
  { title: "A screener with five filters", case: "screener", mode: "miss", server: "tickerline" },
]

/** The rivals, with their columns. */
const rivals: ReadonlyArray<{ readonly server: ServerName; readonly title: string }> = [
  { server: "fastify", title: "Fastify" },
  { server: "fastify-our-sql", title: "Fastify with our SQL" },
  { server: "fastify-postgres-js", title: "Fastify with postgres.js" },
  { server: "floor-headers", title: "bare `node:http`" },
]

/** Returns the sentence that names each rival that is faster, and by how much. */
const nameWinners = (winners: ReadonlyArray<{ readonly rival: string; readonly title: string; readonly by: number }>) =>
  winners.length === 0
    ? "In each pair of measurements, Tickerline is the faster one in the median."
    : `Rivals are faster for ${
      winners.map(({ by, rival, title }) =>
        `${title.charAt(0).toLowerCase()}${title.slice(1)} (${rival}, by ${Math.round(100 * by)}%)`
      ).join("; ")
    }. These are medians of pairs that were measured one after the other.`

/**
 * Returns the Markdown of the section, without its heading: a table of the requests per second of Tickerline (`own`)
 * and the other servers (`others`), and a sentence about the requests for which another is faster. A request that was
 * not measured with a server has an empty cell. `name` is that of the report's file without its ending.
 */
export const makeSpeedSection = (name: string, { about, results }: Report) => {
  const find = (server: ServerName, { case: of, mode }: typeof requests[number]) =>
    results.find((result) =>
      result.server === server && result.case === of && result.mode === mode && result.connections === 32 &&
      result.failures.length === 0
    )
  const measured = requests.map((request) => ({
    request,
    own: find(request.server, request),
    others: rivals.map(({ server, title }) => ({ title, result: find(server, request) })),
  }))
  const format = (result: Result | undefined) =>
    result === undefined ? "" : Math.round(medianOf(result, "perSecond")).toLocaleString("en")
  const winners = measured.flatMap(({ others, request }) =>
    others.flatMap(({ result, title }) => {
      const ratio = result === undefined ? Number.NaN : median(pairRatios(request.server, result))
      return ratio < 1 ? [{ rival: title, title: request.title, by: 1 / ratio - 1 }] : []
    })
  )
  return [
    `Requests per second over 32 connections, measured on ${about.date.slice(0, 10)} in ${about.rounds} rounds ` +
    `([report](bench/results/${name}.md)). The other servers are hand-written, without accounts, metering or a cache. ` +
    `All servers, PostgreSQL and the load generator shared a machine with ${about.cores} cores.`,
    formatMarkdownTable(
      ["Request", "Tickerline", ...rivals.map(({ title }) => title)],
      measured.map(({ others, own, request }) => [
        request.title,
        format(own),
        ...others.map(({ result }) => format(result)),
      ]),
    ),
    `${nameWinners(winners)} [bench/README.md](bench/README.md) has the method, the goals, and where the time goes; ` +
    "[SCALING.md](docs/SCALING.md) shows which machines you need for which request rate.",
  ].join("\n\n")
}

/** Returns the name of the newest report of `npm run bench`, without its ending, and the report. */
const readNewestReport = (): { readonly name: string; readonly report: Report } => {
  const folder = join(import.meta.dirname, "results")
  const name = globSync("????-??-??T??-??-??Z.json", { cwd: folder }).toSorted().at(-1)?.replace(/\.json$/, "")
  if (name === undefined) throw new Error(`${folder} has no report. First run: npm run bench`)
  return { name, report: JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) }
}

/** Returns the text of the README with the section of the newest report. */
export const replaceSpeedSection = (readme: string) => {
  const { name, report } = readNewestReport()
  return readme.replace(/(?<=^## Speed\n\n).*?(?=\n\n## )/ms, () => makeSpeedSection(name, report))
}

/** Writes the section into the README of the project. */
export const writeSpeedSection = () => {
  const file = join(import.meta.dirname, "../README.md")
  writeFileSync(file, replaceSpeedSection(readFileSync(file, "utf8")))
}
