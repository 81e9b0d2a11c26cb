/** Splits CSV (RFC 4180) into records and cells. The cells stay encoded and keep their quotes. */
import { byteOrderMark, csvNewline } from "../rows/CsvCells.ts"

const countQuotes = (text: string) => text.split('"').length - 1

/** Splits text at each separator that is outside quotes. */
const splitOutsideQuotes = (text: string, separator: string) => {
  const parts: Array<string> = []
  let open: Array<string> = []
  let quotes = 0
  for (const piece of text.split(separator)) {
    open.push(piece)
    quotes += countQuotes(piece)
    if (quotes % 2 === 1) continue
    parts.push(open.join(separator))
    open = []
  }
  return parts
}

/** Returns the header and the records of a CSV file, without line ends. */
export const splitCsvRecords = (csv: string) => {
  const [header = "", ...records] = splitOutsideQuotes(csv.replace(byteOrderMark, ""), csvNewline)
  return { header, records: records.filter((record) => record !== "") }
}

export const splitCsvCells = (record: string) => splitOutsideQuotes(record, ",")

/** Joins cells into a record. If a cell was cut inside its quotes, adds the missing closing quote. */
export const joinCsvCells = (cells: ReadonlyArray<string>) =>
  cells.map((cell) => countQuotes(cell) % 2 === 1 ? `${cell}"` : cell).join(",")
