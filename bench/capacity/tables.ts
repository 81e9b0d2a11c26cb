/** `npm run capacity` prints the tables of SCALING.md. `--write` writes them between the comments that name them. */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import {
  computeNeed,
  computeNeedOfCores,
  type Figure,
  figuresByName,
  hitShares,
  listCeilings,
  rates,
  type ResourceNeed,
  totalCores,
} from "./model.ts"

const document = fileURLToPath(new URL("../../docs/SCALING.md", import.meta.url))

const rounded = (value: number) =>
  value >= 1e6
    ? `${(value / 1e6).toPrecision(2)} million`
    : value >= 100
    ? Number(value.toPrecision(3)).toLocaleString("en")
    : value >= 10
    ? String(Math.round(value))
    : value === 0
    ? "0"
    : value.toPrecision(2)

/** Columns of text are left-aligned, others right-aligned. */
const isText = (name: string) => /^(Figure|Unit|Kind|How|When|What .*)$/.test(name)

const table = (
  head: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<string>>,
) => [head, head.map((name) => isText(name) ? "---" : "--:"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n")

const scenarios = rates.flatMap((rate) => hitShares.map((hits) => computeNeed(rate, hits)))

const named = (
  { hits, rate }: ResourceNeed,
) => [rate.toLocaleString("en"), `${100 * hits}%`]

const one = (figure: Figure) => [
  figure.name,
  figure.value === null ? "not measured yet" : figure.value.toLocaleString("en", { maximumFractionDigits: 4 }),
  figure.unit,
  figure.kind,
  figure.how,
  figure.when,
]

/** Tables by their names in the document. */
export const tables = (): Readonly<Record<string, string>> => ({
  inputs: table(
    ["Figure", "Value", "Unit", "Kind", "How", "When"],
    Object.values(figuresByName).filter(({ kind }) => kind === "assumed").map(one),
  ),
  figures: table(
    ["Figure", "Value", "Unit", "Kind", "How", "When"],
    Object.values(figuresByName).filter(({ kind }) => kind !== "assumed").map(one),
  ),
  busy: table(
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
      ...named(found),
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
      ].map(rounded),
    ]),
  ),
  bought: table(
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
      ...named(found),
      ...[
        found.services,
        found.primaries,
        found.replicas,
        found.loadBalancers,
      ].map(({ count, size }) => `${count} × ${size}`),
      ...[found.computing, found.storing, found.sending].map((dollars) => `$${dollars.toFixed(3)}`),
    ]),
  ),
  cores: table(
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
          ...[rate, processes, service, reading, writing, limiting, balancing, connections].map(rounded),
        ]
      })
    ),
  ),
  ceilings: table(
    [
      "What is exhausted",
      ...hitShares.map((hits) => `${100 * hits}% hits`),
      "What to add",
    ],
    listCeilings().map(({ add, at, what }) => [what, ...at.map(rounded), add]),
  ),
})

/** Returns the text of the document with current tables. */
export const replaceTables = (text: string) =>
  Object.entries(tables()).reduce((whole, [name, made]) => {
    const place = new RegExp(
      `(<!-- table ${name} -->)[\\s\\S]*?(<!-- end -->)`,
    )
    if (!place.test(whole)) {
      throw new Error(`SCALING.md has no place for the table ${name}`)
    }
    return whole.replace(
      place,
      (_, before: string, after: string) => `${before}\n\n${made}\n\n${after}`,
    )
  }, text)

/** Prints all tables, and writes them into the document if `isWritten`. */
export const printTables = (isWritten: boolean) => {
  for (const [name, made] of Object.entries(tables())) console.log(`## ${name}\n\n${made}\n`)
  if (isWritten) writeFileSync(document, replaceTables(readFileSync(document, "utf8")))
}
