/**
 * Formats the results of `usage.ts` as Markdown tables. Each figure is a median, followed by the lowest and highest
 * values over all rounds.
 */
import { median } from "../statistics.ts"
import type { RequestTiming } from "./latency.ts"
import { formatTable } from "./report.ts"
import type { WritingCosts, WritingScenario } from "./usageWriting.ts"

interface OfVersion {
  readonly version: string
}

/** The measurement of one request, for one version and account. */
export interface UsageReading extends OfVersion, RequestTiming {
  readonly account: string
}

/** The measurement of one writing scenario, for one version. */
export interface UsageWriting extends OfVersion, Omit<WritingScenario, "isSettled">, WritingCosts {}

/** How long it took to read a balance while usage was unsettled. */
export interface UnsettledReading extends OfVersion {
  /** The number of unsettled batches. */
  readonly batches: number
  readonly milliseconds: number
}

/** The results of `npm run usage`. They are saved as JSON. */
export interface UsageResult {
  readonly date: string
  readonly rows: number
  readonly readings: ReadonlyArray<UsageReading>
  readonly writings: ReadonlyArray<UsageWriting>
  readonly unsettled: ReadonlyArray<UnsettledReading>
}

const formatNumber = (value: number) =>
  value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 })

const summarize = (values: ReadonlyArray<number>) =>
  values.length === 0
    ? "–"
    : `${formatNumber(median(values))} (${formatNumber(Math.min(...values))}–${formatNumber(Math.max(...values))})`

/** Formats a figure for both versions, and the ratio of the second version to the first. */
const compare = <Row extends OfVersion>(rows: ReadonlyArray<Row>, get: (row: Row) => number) => {
  const [before = [], after = []] = ["before", "after"].map((version) =>
    rows.filter((row) => row.version === version).map(get)
  )
  const ratio = before.length === 0 ? "–" : formatNumber(median(after) / median(before))
  return [summarize(before), summarize(after), ratio]
}

const writingFigures = {
  "requests/s": ({ requestsPerSecond }: UsageWriting) => requestsPerSecond,
  "PostgreSQL's CPU, µs": ({ database }: UsageWriting) => database,
  "of which settling, elapsed µs": ({ settling }: UsageWriting) => settling,
  "writer's CPU, µs": ({ writer }: UsageWriting) => writer,
  "WAL, bytes": ({ wal }: UsageWriting) => wal,
  "of which settling": ({ settlingWal }: UsageWriting) => settlingWal,
  "disk, bytes": ({ disk }: UsageWriting) => disk,
}

const readingFigures = {
  "warm, ms": ({ median }: UsageReading) => median,
  "cold, ms": ({ cold }: UsageReading) => cold,
  "PostgreSQL's CPU, ms": ({ database }: UsageReading) => database,
}

const versions = ["before", "after", "× before"]

/**
 * Formats the report. Each table compares two versions of the service, with the columns `versions`: `writings` has one
 * table per scenario with a row for each figure, `readings` one table per account and figure with a row for each
 * request, and `unsettled` one row for each number of batches. Sections that were not measured are left out.
 */
export const formatUsageReport = ({ date, readings, rows, unsettled, writings }: UsageResult) =>
  [
    `# Usage, ${rows.toLocaleString("en")} requests of the fastest account\n\n`,
    `${date}. Medians, and the lowest and the highest of all rounds.\n\n`,
    ...Array.from(
      Map.groupBy(writings, ({ accounts, requestsPerBatch, writers }) =>
        `${
          writers === 1 ? "one writer" : `${writers} writers`
        }, accounts: ${accounts}, batches of ${requestsPerBatch}`),
      ([scenario, found]) =>
        formatTable(
          [scenario, ...versions],
          Object.entries(writingFigures).map(([name, get]) => [name, ...compare(found, get)]),
        ),
    ),
    ...Array.from(
      Map.groupBy(readings, ({ account }) => account),
      ([account, ofAccount]) =>
        Object.entries(readingFigures).map(([figure, get]) =>
          formatTable(
            [`${account}; ${figure}`, ...versions],
            Array.from(Map.groupBy(ofAccount, ({ name }) => name), ([name, found]) => [name, ...compare(found, get)]),
          )
        ).join(""),
    ),
    formatTable(
      ["batches of 500 that are not settled; balance, ms", ...versions],
      Array.from(
        Map.groupBy(unsettled, ({ batches }) => batches),
        ([batches, found]) => [String(batches), ...compare(found, ({ milliseconds }) => milliseconds)],
      ),
    ),
  ].join("").replace(/\n{3,}/g, "\n\n")
