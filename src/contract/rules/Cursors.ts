/**
 * Cursor pagination (D8), and how any list finds out whether there is a next page: it reads one row more than the page
 * shows. A cursor is the sort key of the last row on a page, as text, and the next page starts after that row. In the
 * admin API, the cursor is that row's ID. The cursor of the MCP tool `query` is different: it contains the entire
 * request.
 */
import { Effect, Option, Schema } from "effect"

/**
 * Selects a page: at most `limit` rows after the row with the ID `after`. Without `after`, the page starts at the first
 * row; without `limit`, it contains all remaining rows.
 */
export interface PageRange<Id = number> {
  readonly after?: Id | undefined
  readonly limit?: number
}

/**
 * Returns the number of rows to read for a page: one more than the page shows, to detect whether there is a next page.
 */
export const countRowsToRead = (limit: number) => limit + 1

/**
 * Removes the extra row that was read to detect a next page. If there is a next page, `last` is the last row of this
 * page, after which the next page starts.
 */
export const cutPage = <Row>(read: ReadonlyArray<Row>, limit: number) => {
  const rows = read.slice(0, limit)
  return { rows, last: read.length > limit ? rows.at(-1) : undefined }
}

/**
 * Reads a page of at most `limit` rows. `read` is called with `limit + 1` and must not return more rows than that. The
 * result contains the rows and, if there is a next page, the last row of this page (see `cutPage`).
 */
export const readPage = <Row, E, R>(limit: number, read: (limit: number) => Effect.Effect<ReadonlyArray<Row>, E, R>) =>
  Effect.map(read(countRowsToRead(limit)), (rows) => cutPage(rows, limit))

/** A function that parses a cursor to a position in a list. Returns `None` if the text is not a valid cursor. */
export type CursorReader<Position> = (text: string) => Option.Option<Position>

/**
 * Returns a function that parses cursors. `pattern` matches the whole cursor with named groups, and `toPosition`
 * converts the groups to a position in the list, or returns undefined if they are invalid. For example,
 * `(?<usage_date>…)(?<endpoint>…)` matches a cursor that consists of a day and a path.
 */
export const makeCursorReader = <Position>(
  pattern: RegExp,
  toPosition: (groups: Readonly<Record<string, string | undefined>>) => Position | undefined,
) =>
(text: string): Option.Option<NonNullable<Position>> =>
  Option.fromUndefinedOr(pattern.exec(text)?.groups).pipe(Option.flatMapNullishOr(toPosition))

/**
 * Returns the schema of the parameter `after`. If the cursor cannot be parsed, the request fails with a 422 whose
 * reason is `message`.
 */
export const makeCursorParameter = (
  read: CursorReader<unknown>,
  message: string,
  documentation: { readonly description: string; readonly examples?: readonly [string] },
) =>
  Schema.optionalKey(
    Schema.String.annotate(documentation).pipe(Schema.decodeTo(Schema.String.check(
      Schema.makeFilter((text: string) => Option.isSome(read(text)), {
        message,
        toJsonSchema: () => [{ minLength: 1 }, true],
      }),
    ))).annotate({ filter: { operator: "statement" } }),
  )
