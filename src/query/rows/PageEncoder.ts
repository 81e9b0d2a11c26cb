/** Encodes a page of a list (§1, D8) as JSON with an envelope, or as CSV or NDJSON. */
import type { PageFormat } from "../../contract/rows/ListFormats.ts"
import { cutPage } from "../../contract/rules/Cursors.ts"
import type { PagingQuery, ResponseContent } from "../../contract/rules/Paging.ts"
import type { BinaryRecord } from "../../postgres/BinaryRecord.ts"
import { rowOutputBuffer } from "./OutputBuffer.ts"
import { groupRowsIntoResults, makeCsvOrNdjsonWriter, type ResultEncoder, writeJsonResults } from "./ResultWriter.ts"

interface Page {
  /** Groups the rows into results, and encodes the results. */
  readonly results: ResultEncoder
  readonly format: PageFormat
  /**
   * The rows in the range from `getPageRowRange`. If there is a next page, these include one more result than the page
   * shows.
   */
  readonly rows: ReadonlyArray<BinaryRecord>
  /** Returns the position in the list of the row with this index, as text, if the list has the parameter `after`. */
  readonly getRowPosition?: ((row: number) => string) | undefined
  /** Returns the `message` in the envelope for the rows on the page. */
  readonly message?: ((rows: ReadonlyArray<BinaryRecord>) => string | undefined) | undefined
}

/**
 * Encodes a page as JSON with an envelope, or as CSV or NDJSON, which have neither an envelope nor a `message`. Returns
 * the body, the number of results in it (`records`), the paging parameters of the next page if there is one, and for
 * CSV and NDJSON the format and number of rows of the file. A CSV file has one row for each database row, and an NDJSON
 * file one for each result.
 */
export const encodeListPage = (
  { limit, page }: PagingQuery,
  { format, getRowPosition, message, results, rows }: Page,
): ResponseContent => {
  const resultsRead = groupRowsIntoResults(results, rows)
  // `resultsRead` has one more result than the page shows if there is a next page. `last` is the last result on this
  // page, and undefined if there is no next page.
  const { last, rows: pageResults } = cutPage(resultsRead, limit === "all" ? resultsRead.length : limit)
  const has_more = last !== undefined
  // In a list with the parameter `after`, each result is a single row, so the last result's index is also a row index.
  const nextPage = !has_more
    ? undefined
    : { page: page + 1, ...(getRowPosition !== undefined && { after: getRowPosition(pageResults.length - 1) }) }
  const records = pageResults.length
  const pageRows = pageResults.flat()
  if (format !== "json") {
    const writeFile = makeCsvOrNdjsonWriter(results, format)
    // The page is a complete file, so there are no further rows that could continue the last result.
    const isLast = true
    const { bytes: body } = writeFile(pageRows, isLast)
    return { body, records, nextPage, file: { format, rows: format === "csv" ? pageRows.length : records } }
  }
  const messageText = message?.(pageRows)
  const messageProperty = messageText === undefined ? "" : `"message":${JSON.stringify(messageText)},`
  const start = rowOutputBuffer.writeText(`{"count":${records},"results":[`, 0)
  const end = rowOutputBuffer.writeText(
    `],${messageProperty}"page":${page},"limit":${limit},"has_more":${has_more}}`,
    writeJsonResults(results, pageResults, ",", start),
  )
  return { body: rowOutputBuffer.take(end), records, nextPage }
}
