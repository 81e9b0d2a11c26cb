/**
 * Decodes the SEC's daily and quarterly filing indexes, which list all filings of a day or a quarter, in the `master`
 * format: CIK, company, form, date, path.
 */
import { Result, Schema } from "effect"
import { CalendarDate } from "../../../contract/rules/Dates.ts"
import { DocumentRejected } from "./DocumentRejected.ts"

/**
 * An index entry: a filing of one company or person. A filing that involves several companies or persons has one entry
 * for each.
 */
export interface DailyIndexFiling {
  readonly cik: string
  readonly form: string
  /** The filing date. It can be long before the day of the index, because the SEC releases some filings late. */
  readonly filingDate: string
  readonly accession: string
}

const isDate = Schema.is(CalendarDate)

/** Matches the path of a filing in an index. The group is the filing's accession number. */
const pathPattern = /^edgar\/data\/\d{1,10}\/(\d{10}-\d{2}-\d{6})\.txt$/

/**
 * Parses a line such as `320193|Apple Inc.|10-Q|20260130|edgar/data/320193/0000320193-26-000006.txt`. Fields are
 * counted from the end, because the company name (the second field) may contain the separator. Returns undefined if the
 * line is not a valid entry.
 */
const parseRow = (line: string): DailyIndexFiling | undefined => {
  const cells = line.trim().split("|")
  // Reversed, the last three fields come first.
  const [path = "", date = "", form = ""] = cells.toReversed().map((cell) => cell.trim())
  const [cik = ""] = cells
  const accession = pathPattern.exec(path)?.[1]
  // Daily indexes write dates as 20200103, quarterly indexes as 2020-01-03.
  const filingDate = date.replace(/^(\d{4})(\d{2})(\d{2})$/, "$1-$2-$3")
  return cells.length >= 5 && /^\d{1,10}$/.test(cik) && form !== "" && isDate(filingDate) && accession !== undefined
    ? { cik: cik.padStart(10, "0"), form, filingDate, accession }
    : undefined
}

/**
 * Decodes an index and returns its entries. A single unreadable line rejects the whole index, because skipping the line
 * would lose a filing.
 */
export const decodeDailyIndex = (
  text: string,
  url: string,
): Result.Result<ReadonlyArray<DailyIndexFiling>, DocumentRejected> => {
  const lines = text.split(/\r?\n/)
  // A line of hyphens separates the header from the entries.
  const ruler = lines.findIndex((line) => /^-{20,}\s*$/.test(line))
  const heading = lines.slice(0, ruler).find((line) => line.startsWith("CIK|Company Name|Form Type|Date Filed|"))
  if (ruler < 0 || heading === undefined) {
    return Result.fail(new DocumentRejected({ url, reason: "is not an index in the master format" }))
  }
  const filings: Array<DailyIndexFiling> = []
  for (const [index, line] of lines.entries()) {
    if (index <= ruler || line.trim() === "") continue
    const filing = parseRow(line)
    if (filing === undefined) {
      return Result.fail(new DocumentRejected({ url, reason: `has no readable filing on line ${index + 1}` }))
    }
    filings.push(filing)
  }
  return Result.succeed(filings)
}
