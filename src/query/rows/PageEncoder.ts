/** Encodes a page of a list (§1, D8) as JSON with an envelope, or as CSV or NDJSON. */
import type { PageFormat } from "../../contract/rows/ListFormats.ts"
import { cutPage } from "../../contract/rules/Cursors.ts"
import type { PagingQuery, ResponseContent } from "../../contract/rules/Paging.ts"
import type { BinaryRecord } from "../../postgres/BinaryRecord.ts"
import { rowOutputBuffer } from "./OutputBuffer.ts"
import { groupRowsIntoResults, makeCsvOrNdjsonWriter, type ResultEncoder, writeJsonResults } from "./ResultWriter.ts"

interface Page {
  readonly results: ResultEncoder
  readonly format: PageFormat
  /**
   * The rows in the range from `getPageRowRange`. If there is a next page, this is one more row than the page shows.
   */
  readonly rows: ReadonlyArray<BinaryRecord>
  /** Returns the position in the list of the row with this index, as text, if the list has the parameter `after`. */
  readonly getRowPosition?: ((row: number) => string) | undefined
  /** Returns the `message` in the envelope for the rows on the page. */
  readonly message?: ((rows: ReadonlyArray<BinaryRecord>) => string | undefined) | undefined
}

/**
 * Encodes a page as JSON with an envelope, or as CSV or NDJSON. CSV and NDJSON have neither an envelope nor a
 * `message`.
 */
export const encodeListPage = (
  { limit, page }: PagingQuery,
  { format, getRowPosition, message, results, rows }: Page,
): ResponseContent => {
  const all = groupRowsIntoResults(results, rows)
  const { last, rows: shown } = cutPage(all, limit === "all" ? all.length : limit)
  const has_more = last !== undefined
  const nextPage = !has_more
    ? undefined
    : { page: page + 1, ...(getRowPosition !== undefined && { after: getRowPosition(shown.length - 1) }) }
  if (format !== "json") {
    const records = shown.length
    const rows = shown.flat()
    const { bytes: body } = makeCsvOrNdjsonWriter(results, format)(rows, true)
    return { body, records, nextPage, file: { format, rows: format === "csv" ? rows.length : records } }
  }
  const disclaimer = message?.(shown.flat())
  const messageProperty = disclaimer === undefined ? "" : `"message":${JSON.stringify(disclaimer)},`
  const start = rowOutputBuffer.writeText(`{"count":${shown.length},"results":[`, 0)
  const end = rowOutputBuffer.writeText(
    `],${messageProperty}"page":${page},"limit":${limit},"has_more":${has_more}}`,
    writeJsonResults(results, shown, ",", start),
  )
  return { body: rowOutputBuffer.take(end), records: shown.length, nextPage }
}
