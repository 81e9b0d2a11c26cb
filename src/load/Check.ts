/** D31: a row's cells once they are known to be right, or what is wrong with them, by line and column. */
import { Result, Schema } from "effect"
import { reasonsIn } from "../policy/Reasons.ts"
import type { Cells, Dataset } from "./Datasets.ts"
import type { Row } from "./Rows.ts"

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

const reasons = reasonsIn({
  missing: "is missing",
  unexpected: "is not a column of this table",
  wrongType: "must not be empty",
})

export const checker = ({ row, wrong }: Dataset) => {
  const decode = Schema.decodeUnknownResult(row, { onExcessProperty: "error", errors: "all" })
  const nulls = Object.fromEntries(
    Object.entries(row.fields).filter(([, field]) => Schema.is(field)(null)).map(([name]) => [name, null]),
  )
  return ({ cells, line, problem }: Row): Result.Result<Checked, ReadonlyArray<BadRow>> => {
    if (problem !== undefined) return Result.fail([{ line, ...problem }])
    return decode({ ...nulls, ...cells }).pipe(
      Result.mapError(({ issue }) => reasons(issue).map(({ name, reason }) => ({ line, column: name, reason }))),
      Result.flatMap((checked) => {
        const mistake = wrong?.(checked)
        return mistake === undefined ? Result.succeed({ line, cells: checked }) : Result.fail([{ line, ...mistake }])
      }),
    )
  }
}

export const refused = (path: string, table: string, bad: ReadonlyArray<BadRow>) => {
  const shown = bad.slice(0, mostBadRows).map(({ column, line, reason }) =>
    `  line ${line}: ${column === "" ? "the row" : column} ${reason}`
  )
  const rest = bad.length >= mostBadRows ? `\n  … only the first ${mostBadRows} are shown` : ""
  return new BadRows({ message: `${path} was refused and ${table} is unchanged:\n${shown.join("\n")}${rest}` })
}
