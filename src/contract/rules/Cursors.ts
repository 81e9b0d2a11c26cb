/**
 * Cursor pagination (D8). Every list uses these functions to find out whether there is a next page. This applies both
 * to lists with numbered pages and to lists whose pages start after a given row. A cursor is the sort key of the last
 * row on a page, as text. In the admin API, it is that row's ID. The cursor of the MCP tool `query` is different: it
 * contains the entire request.
 */
import { Effect, Option, Schema } from "effect"

/** Selects a page: at most `limit` rows after the row with the ID `after`. If both are omitted, selects all rows. */
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

/** Reads a page. `read` must return no more rows than the number it is called with. */
export const readPage = <Row, E, R>(limit: number, read: (limit: number) => Effect.Effect<ReadonlyArray<Row>, E, R>) =>
  Effect.map(read(countRowsToRead(limit)), (rows) => cutPage(rows, limit))

/** Parses a cursor. Returns `None` if the text is not a valid cursor. */
export type CursorReader<Place> = (text: string) => Option.Option<Place>

/**
 * Returns a cursor parser for a pattern with named groups. `toPlace` converts the matched groups to a position in the
 * list, or returns undefined if they are invalid.
 */
export const makeCursorReader =
  <Place>(pattern: RegExp, toPlace: (parts: Readonly<Record<string, string | undefined>>) => Place | undefined) =>
  (text: string): Option.Option<NonNullable<Place>> =>
    Option.fromUndefinedOr(pattern.exec(text)?.groups).pipe(Option.flatMapNullishOr(toPlace))

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
