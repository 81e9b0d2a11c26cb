/** D31: a row's cells once they are known to be right, or what is wrong with them, by line and column. */
import { Option, Result, Schema } from "effect"
import { nearest } from "../rules/Suggestions.ts"
import { type Reason, reasonsIn } from "../rules/ValidationMessages.ts"
import type { Dataset } from "./Datasets.ts"
import { type Cells, notAList, type Row, type WrongHeader } from "./ParsedRow.ts"

/** Reading ends after this many bad rows. */
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

  const columns = Object.keys(row.fields)

  /** The column that was probably meant: one that the file does not name as well. */
  const meant = (name: string, names: ReadonlyArray<string>) =>
    nearest(name, columns.filter((column) => !names.includes(column)))

  const unknown = (name: string, names: ReadonlyArray<string>) =>
    Option.match(meant(name, names), {
      onNone: () => words.unexpected,
      onSome: (column) => `${words.unexpected}; did you mean ${column}?`,
    })

  const wrongHeader: WrongHeader = (names) => {
    const strange = names.filter((name) => !Object.hasOwn(row.fields, name))
    // A misspelt column is one mistake, not an unknown column and a missing one.
    const misspelt = new Set(strange.flatMap((name) => Option.toArray(meant(name, names))))
    const missing = required.filter((name) => !names.includes(name) && !misspelt.has(name))
    return [
      ...strange.map((column) => ({ column, reason: unknown(column, names) })),
      ...missing.map((column) => ({ column, reason: words.missing })),
    ]
  }

  const mistakes = (cells: Cells) => ({ name, reason }: Reason) => {
    if (reason === words.unexpected) return { column: name, reason: unknown(name, Object.keys(cells)) }
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

/** An unknown column is a mistake of the file: it is named once, however many rows have it. */
const repeatsColumn = ({ column, reason }: BadRow, at: number, all: ReadonlyArray<BadRow>) =>
  reason.startsWith(words.unexpected) && all.findIndex((one) => one.column === column && one.reason === reason) < at

/** The first bad rows of the file, at most twenty, each with all that is wrong with it. */
export const refused = (path: string, table: string, bad: ReadonlyArray<ReadonlyArray<BadRow>>) => {
  const found = bad.slice(0, mostBadRows).flat()
  const shown = found.filter((one, at) => !repeatsColumn(one, at, found)).map(({ column, line, reason }) =>
    `  line ${line}: ${column === "" ? "the row" : column} ${reason}`
  )
  const rest = bad.length >= mostBadRows ? `\n  … only the first ${mostBadRows} are shown` : ""
  return new BadRows({ message: `${path} was refused and ${table} is unchanged:\n${shown.join("\n")}${rest}` })
}
