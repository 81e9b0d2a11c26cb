/** Tables that wrap if they can, become a list of cards on a phone, and otherwise scroll where the reader sees it. */
import { stripTags } from "./Html.ts"

/** HTML, one string per cell. */
type Cells = ReadonlyArray<string>

/** Long names break after their separators, so that a column is no wider than it need be. */
const breakable = (cell: string) =>
  cell.replace(/<code>[^<]*<\/code>/g, (code) => code.replace(/[/_,=?](?=[^<>]*[^<>/]<)/g, "$&<wbr>"))

/** A phone shows each row of a wide table as a card, in which the column's name precedes the value. */
const mostColumns = 2

const text = (html: string) => stripTags(html).replaceAll('"', "&quot;")

interface Options {
  readonly label?: string
  /** Attributes of each cell, by row and column. */
  readonly attributes?: (row: number, column: number) => string
}

/** Explicit roles, since some browsers forget those of a table whose cells are laid out as blocks. */
export const renderHtmlTable = (header: Cells, rows: ReadonlyArray<Cells>, options: Options = {}) => {
  const { attributes = () => "", label = "Table" } = options
  const head = header.map((cell) => `<th scope="col" role="columnheader">${cell}</th>`).join("")
  const body = rows.map((cells, row) =>
    `<tr role="row">${
      cells.map((cell, column) =>
        `<td role="cell" data-label="${text(header[column] ?? "")}"${attributes(row, column)}>${breakable(cell)}</td>`
      ).join("")
    }</tr>`
  ).join("")
  const kind = header.length > mostColumns ? ` class="cards-on-phone"` : ""
  return `<div class="scroll" tabindex="0" role="group" aria-label="${text(label)}"><table${kind} role="table">` +
    `<thead role="rowgroup"><tr role="row">${head}</tr></thead><tbody role="rowgroup">${body}</tbody></table></div>\n`
}
