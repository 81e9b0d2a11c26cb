/** Formats the results of a dataset as Markdown tables. */
import type { RequestTiming } from "./latency.ts"
import type { LoadTiming } from "./loading.ts"
import type { FillTiming, TableSize } from "./tables.ts"
import type { WritingResult } from "./usageWriting.ts"

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
  readonly written: ReadonlyArray<WritingResult>
  readonly dropped: {
    readonly names: ReadonlyArray<string>
    readonly milliseconds: number
  } | undefined
  readonly copied: ReadonlyArray<LoadTiming>
  readonly loaded: ReadonlyArray<LoadTiming>
}

type Cell = string | number | undefined

const shown = (cell: Cell) =>
  cell === undefined ? "–" : typeof cell === "string" ? cell : cell.toLocaleString("en", {
    maximumFractionDigits: cell < 10 ? 2 : cell < 100 ? 1 : 0,
  })

const table = (
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
    dropped,
    fillings,
    loaded,
    others,
    rows,
    written,
  }: GrowthResult,
) =>
  [
    `# ${dataset}, ${rows.toLocaleString("en")} rows\n\n${date}. Times without a unit are elapsed milliseconds.\n\n`,
    ...fillings.map(({ sizes, table: name, times }) =>
      table(
        [name, "MiB", "bytes per row"],
        sizes.map(({ bytes, name }) => [name, bytes / 2 ** 20, bytes / rows]),
      ) +
      table(["made", "s"], times.map(({ seconds, what }) => [what, seconds]))
    ),
    table(
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
    table(
      ["statement", "best", "pages", "plan"],
      others.map((one) => [one.name, one.best, one.touched, one.plan]),
    ),
    table(
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
    table(
      [
        "writers",
        "accounts",
        "rows a batch",
        "rows/s",
        "PostgreSQL's CPU µs a row",
        "writer's CPU µs a row",
        "WAL bytes a row",
      ],
      written.map((
        one,
      ) => [
        String(one.writers),
        one.accounts,
        one.rowsABatch,
        one.rows / one.seconds,
        one.database,
        one.writer,
        one.wal,
      ]),
    ),
    dropped === undefined ? "" : `Dropped ${dropped.names.join(", ")} in ${shown(dropped.milliseconds)} ms.\n`,
  ].join("").replace(/\n{3,}/g, "\n\n")
