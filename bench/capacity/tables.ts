/**
 * `npm run capacity` prints the tables of SCALING.md. With `--write`, it also updates each table in the document,
 * between the comments `<!-- table NAME -->` and `<!-- end -->`.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import {
  computeNeed,
  computeNeedOfCores,
  type Figure,
  figuresByName,
  hitShares,
  listCeilings,
  requestRates,
  type ResourceNeed,
  totalCores,
} from "./model.ts"

const document = fileURLToPath(new URL("../../docs/SCALING.md", import.meta.url))

/** Formats a number with two or three significant digits. */
const formatRounded = (value: number) =>
  value >= 1e6
    ? `${(value / 1e6).toPrecision(2)} million`
    : value >= 100
    ? Number(value.toPrecision(3)).toLocaleString("en")
    : value >= 10
    ? String(Math.round(value))
    : value === 0
    ? "0"
    : value.toPrecision(2)

/** Returns whether a column contains text. Text columns are left-aligned, and number columns are right-aligned. */
const isText = (name: string) => /^(Figure|Unit|Kind|How|When|What .*)$/.test(name)

const formatTable = (
  head: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<string>>,
) => [head, head.map((name) => isText(name) ? "---" : "--:"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n")

const scenarios = requestRates.flatMap((rate) => hitShares.map((hits) => computeNeed(rate, hits)))

/** Returns the first two cells of a row: the request rate and the hit rate. */
const nameCells = (
  { hits, rate }: ResourceNeed,
) => [rate.toLocaleString("en"), `${100 * hits}%`]

const figureCells = (figure: Figure) => [
  figure.name,
  figure.value === null ? "not measured yet" : figure.value.toLocaleString("en", { maximumFractionDigits: 4 }),
  figure.unit,
  figure.kind,
  figure.how,
  figure.when,
]

/**
 * Formats all tables of SCALING.md. The keys are the table names used in the document: the figures that the model
 * assumes (`inputs`) and that were measured (`figures`), the busy cores for each request rate (`busy`), the machines to
 * buy for them and their cost (`bought`), the request rate of a number of cores (`cores`), and what limits it
 * (`ceilings`).
 */
export const formatTables = (): Readonly<Record<string, string>> => ({
  inputs: formatTable(
    ["Figure", "Value", "Unit", "Kind", "How", "When"],
    Object.values(figuresByName).filter(({ kind }) => kind === "assumed").map(figureCells),
  ),
  figures: formatTable(
    ["Figure", "Value", "Unit", "Kind", "How", "When"],
    Object.values(figuresByName).filter(({ kind }) => kind !== "assumed").map(figureCells),
  ),
  busy: formatTable(
    [
      "Requests per second",
      "Hits",
      "Service",
      "PostgreSQL, reading",
      "PostgreSQL, usage",
      "PostgreSQL, rate limits",
      "Load balancer",
      "Connections",
      "Gbit/s",
      "Compressed",
      "WAL, MB/s",
      "Usage, GB per day",
    ],
    scenarios.map((found) => [
      ...nameCells(found),
      ...[
        found.service,
        found.reading,
        found.writing,
        found.limiting,
        found.balancing,
        found.connections,
        found.network,
        found.compressed,
        found.wal,
        found.usage,
      ].map(formatRounded),
    ]),
  ),
  bought: formatTable(
    [
      "Requests per second",
      "Hits",
      "Service",
      "Primaries",
      "Replicas",
      "Load balancers",
      "Compute",
      "Usage storage",
      "Traffic",
    ],
    scenarios.map((found) => [
      ...nameCells(found),
      ...[
        found.services,
        found.primaries,
        found.replicas,
        found.loadBalancers,
      ].map(({ count, size }) => `${count} × ${size}`),
      ...[found.computing, found.storing, found.sending].map((dollars) => `$${dollars.toFixed(3)}`),
    ]),
  ),
  cores: formatTable(
    [
      "Cores in total",
      "Hits",
      "Requests per second",
      "Processes",
      "Service",
      "PostgreSQL, reading",
      "PostgreSQL, usage",
      "PostgreSQL, rate limits",
      "Load balancer",
      "Connections",
    ],
    totalCores.flatMap((count) =>
      hitShares.map((hits) => {
        const { balancing, connections, limiting, processes, rate, reading, service, writing } = computeNeedOfCores(
          count,
          hits,
        )
        return [
          String(count),
          `${100 * hits}%`,
          ...[rate, processes, service, reading, writing, limiting, balancing, connections].map(formatRounded),
        ]
      })
    ),
  ),
  ceilings: formatTable(
    [
      "What is exhausted",
      ...hitShares.map((hits) => `${100 * hits}% hits`),
      "What to add",
    ],
    listCeilings().map(({ add, at, what }) => [what, ...at.map(formatRounded), add]),
  ),
})

/**
 * Replaces the tables in the text of SCALING.md with current ones. Throws if the text has no markers for one of the
 * tables.
 */
export const replaceTables = (text: string) =>
  Object.entries(formatTables()).reduce((whole, [name, table]) => {
    const place = new RegExp(
      `(<!-- table ${name} -->)[\\s\\S]*?(<!-- end -->)`,
    )
    if (!place.test(whole)) {
      throw new Error(`SCALING.md has no place for the table ${name}`)
    }
    return whole.replace(
      place,
      (_, before: string, after: string) => `${before}\n\n${table}\n\n${after}`,
    )
  }, text)

/** Prints all tables. If `isWritten` is true, also writes them to the document. */
export const printTables = (isWritten: boolean) => {
  for (const [name, table] of Object.entries(formatTables())) console.log(`## ${name}\n\n${table}\n`)
  if (isWritten) writeFileSync(document, replaceTables(readFileSync(document, "utf8")))
}
