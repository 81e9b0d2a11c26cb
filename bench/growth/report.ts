/** Formats the results of a dataset as Markdown tables. */
import type { RequestTiming } from "./latency.ts"
import type { LoadTiming } from "./loading.ts"
import type { FillTiming, TableSize } from "./tables.ts"

export interface GrowthResult {
  readonly date: string
  readonly dataset: string
  readonly rows: number
  readonly fillings: ReadonlyArray<
    FillTiming & { readonly sizes: ReadonlyArray<TableSize> }
  >
  readonly answers: ReadonlyArray<RequestTiming>
  readonly others: ReadonlyArray<
    {
      readonly name: string
      readonly best: number
      readonly touched: number
      readonly plan: string
    }
  >
  readonly copied: ReadonlyArray<LoadTiming>
  readonly loaded: ReadonlyArray<LoadTiming>
}

export type Cell = string | number | undefined

const shown = (cell: Cell) =>
  cell === undefined ? "–" : typeof cell === "string" ? cell : cell.toLocaleString("en", {
    maximumFractionDigits: cell < 10 ? 2 : cell < 100 ? 1 : 0,
  })

export const formatTable = (
  head: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>,
) =>
  rows.length === 0 ? "" : [
    `| ${head.join(" | ")} |`,
    `| ${head.map((_, at) => at === 0 ? "---" : "--:").join(" | ")} |`,
    ...rows.map((row) => `| ${row.map(shown).join(" | ")} |`),
    "",
    "",
  ].join("\n")

export const formatGrowthReport = (
  {
    answers,
    copied,
    dataset,
    date,
    fillings,
    loaded,
    others,
    rows,
  }: GrowthResult,
) =>
  [
    `# ${dataset}, ${rows.toLocaleString("en")} rows\n\n${date}. Times without a unit are elapsed milliseconds.\n\n`,
    ...fillings.map(({ sizes, table: name, times }) =>
      formatTable(
        [name, "MiB", "bytes per row"],
        sizes.map(({ bytes, name }) => [name, bytes / 2 ** 20, bytes / rows]),
      ) +
      formatTable(["made", "s"], times.map(({ seconds, what }) => [what, seconds]))
    ),
    formatTable(
      [
        "request",
        "status",
        "bytes",
        "cold",
        "then, median",
        "best",
        "PostgreSQL's CPU",
        "pages",
        "read cold",
        "plan",
      ],
      answers.map((one) => [
        `[${one.name}](${one.path.length > 100 ? `${one.path.slice(0, 90)}…` : one.path})`,
        String(one.status),
        one.bytes,
        one.cold,
        one.median,
        one.best,
        one.database,
        one.touched,
        one.read,
        one.plan,
      ]),
    ),
    formatTable(
      ["statement", "best", "pages", "plan"],
      others.map((one) => [one.name, one.best, one.touched, one.plan]),
    ),
    formatTable(
      [
        "rows coming in",
        "rows",
        "file, MiB",
        "s",
        "rows/s",
        "PostgreSQL's CPU µs a row",
      ],
      [...copied, ...loaded].map((
        one,
      ) => [
        one.what,
        one.rows,
        one.bytes / 2 ** 20,
        one.seconds,
        one.rows / one.seconds,
        one.database,
      ]),
    ),
  ].join("").replace(/\n{3,}/g, "\n\n")
