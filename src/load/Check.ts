/** D31: a row's cells once they are known to be right, or what is wrong with them, by line and column. */
import { Result, Schema } from "effect"
import { type Reason, reasonsIn } from "../policy/Reasons.ts"
import type { Dataset } from "./Datasets.ts"
import { type Cells, notAList, type Row, type WrongHeader } from "./Row.ts"

/** No more than these are shown, and none beyond them is looked for. */
export const mostBadRows = 20

export interface BadRow {
  readonly line: number
  readonly column: string
  readonly reason: string
}

export class BadRows extends Schema.TaggedError<BadRows>()("BadRows", { message: Schema.String }) {}

/** A row that may be inserted, and where it stands in the file. */
export interface Checked {
  readonly line: number
  readonly cells: Cells
}

const words = {
  missing: "is missing",
  unexpected: "is not a column of this table",
  wrongType: "must not be empty",
}

const reasons = reasonsIn(words)

/** A cell of the other sort decodes as badly as an empty one, but that is not what is wrong with it. */
const ofTheOtherSort = (cell: Cells[string]) => Array.isArray(cell) ? "must be text, not an array" : notAList

/** What a row holds in the columns that may be empty, before anything is said of them. */
const nullsOf = ({ fields }: Dataset["row"]) =>
  Object.fromEntries(Object.entries(fields).filter(([, field]) => Schema.is(field)(null)).map(([name]) => [name, null]))

/** The columns that every row must fill. */
export const requiredIn = (row: Dataset["row"]): ReadonlyArray<string> =>
  Result.match(Schema.decodeUnknownResult(row, { errors: "all" })(nullsOf(row)), {
    onSuccess: () => [],
    onFailure: ({ issue }) => reasons(issue).map(({ name }) => name),
  })

/** How the rows of a dataset are checked, and before them the names of its columns. */
export const checker = ({ row, wrong }: Dataset) => {
  const decode = Schema.decodeUnknownResult(row, { onExcessProperty: "error", errors: "all" })
  const nulls = nullsOf(row)
  const required = requiredIn(row)

  const wrongHeader: WrongHeader = (names) => [
    ...names.filter((name) => !Object.hasOwn(row.fields, name)).map((column) => ({ column, reason: words.unexpected })),
    ...required.filter((name) => !names.includes(name)).map((column) => ({ column, reason: words.missing })),
  ]

  const mistakes = (cells: Cells) => ({ name, reason }: Reason) => {
    const cell = Object.hasOwn(cells, name) ? cells[name] : null
    const sort = reason === words.wrongType && cell !== null ? ofTheOtherSort(cell) : reason
    return { column: name, reason: sort }
  }

  const checkRow = ({ cells, line, problem }: Row): Result.Result<Checked, ReadonlyArray<BadRow>> => {
    if (problem !== undefined) return Result.fail([{ line, ...problem }])
    return decode({ ...nulls, ...cells }).pipe(
      Result.mapError(({ issue }) => reasons(issue).map(mistakes(cells)).map((mistake) => ({ line, ...mistake }))),
      Result.flatMap((checked) => {
        const mistake = wrong?.(checked)
        return mistake === undefined ? Result.succeed({ line, cells: checked }) : Result.fail([{ line, ...mistake }])
      }),
    )
  }
  return { checkRow, wrongHeader }
}

/** The file's bad rows, at most twenty of them, each with all that is wrong with it. */
export const refused = (path: string, table: string, bad: ReadonlyArray<ReadonlyArray<BadRow>>) => {
  const shown = bad.slice(0, mostBadRows).flat().map(({ column, line, reason }) =>
    `  line ${line}: ${column === "" ? "the row" : column} ${reason}`
  )
  const rest = bad.length >= mostBadRows ? `\n  … only the first ${mostBadRows} are shown` : ""
  return new BadRows({ message: `${path} was refused and ${table} is unchanged:\n${shown.join("\n")}${rest}` })
}
