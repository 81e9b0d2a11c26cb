/** Formats the results of `run.ts` for one dataset as Markdown tables. */
import type { RequestTiming } from "./latency.ts"
import type { LoadTiming } from "./loading.ts"
import type { FillTiming, TableSize } from "./tables.ts"

/** The results of `npm run growth` for one dataset. They are saved as JSON. */
export interface GrowthResult {
  readonly date: string
  readonly dataset: string
  readonly rows: number
  readonly fillings: ReadonlyArray<
    FillTiming & { readonly sizes: ReadonlyArray<TableSize> }
  >
  readonly requests: ReadonlyArray<RequestTiming>
  /** The results for SQL statements that might be faster than the statements that the service sends. */
  readonly alternatives: ReadonlyArray<
    {
      readonly name: string
      readonly best: number
      readonly touched: number
      readonly plan: string
    }
  >
  /** The results of loading rows with `copy`. */
  readonly copied: ReadonlyArray<LoadTiming>
  /** The results of loading rows with the `load` command. */
  readonly loaded: ReadonlyArray<LoadTiming>
}

/** The content of a table cell. Undefined is shown as a dash. */
export type Cell = string | number | undefined

const formatCell = (cell: Cell) =>
  cell === undefined ? "–" : typeof cell === "string" ? cell : cell.toLocaleString("en", {
    maximumFractionDigits: cell < 10 ? 2 : cell < 100 ? 1 : 0,
  })

/** Formats a Markdown table. Returns an empty string if there are no rows. */
export const formatTable = (
  head: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>,
) =>
  rows.length === 0 ? "" : [
    `| ${head.join(" | ")} |`,
    `| ${head.map((_, at) => at === 0 ? "---" : "--:").join(" | ")} |`,
    ...rows.map((row) => `| ${row.map(formatCell).join(" | ")} |`),
    "",
    "",
  ].join("\n")

/** Formats the report. Sections that have not been measured yet are left out. */
export const formatGrowthReport = (
  {
    alternatives,
    copied,
    dataset,
    date,
    fillings,
    loaded,
    requests,
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
      formatTable(["filling", "s"], times.map(({ seconds, what }) => [what, seconds]))
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
      requests.map((one) => [
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
      alternatives.map((one) => [one.name, one.best, one.touched, one.plan]),
    ),
    formatTable(
      [
        "loading",
        "rows",
        "file, MiB",
        "s",
        "rows/s",
        "PostgreSQL's CPU, µs per row",
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
