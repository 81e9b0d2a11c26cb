/**
 * Where a page of a list ends, and where the next one begins (D8). Every list uses these functions to find out whether
 * another page follows, whether its pages are numbered or begin after a row. A cursor is the sort key of the page's
 * last row, as text; in the admin API, it is the ID of that row. The cursor of the MCP tool `query` is different: it
 * holds the whole request.
 */
import { Effect, Option, Schema } from "effect"

/** Selects a page: up to `limit` rows after the row with the ID `after`. An empty range selects all rows. */
export interface PageRange<Id = number> {
  readonly after?: Id | undefined
  readonly limit?: number
}

/** Returns how many rows to read for a page: one more than it shows, to find out whether another page follows. */
export const countRowsToRead = (limit: number) => limit + 1

/**
 * Returns the rows that the page shows and, if another page follows, the `last` of them, after which that page begins.
 */
export const cutPage = <Row>(read: ReadonlyArray<Row>, limit: number) => {
  const rows = read.slice(0, limit)
  return { rows, last: read.length > limit ? rows.at(-1) : undefined }
}

/** Reads a page. `read` returns at most the given number of rows. */
export const readPage = <Row, E, R>(limit: number, read: (limit: number) => Effect.Effect<ReadonlyArray<Row>, E, R>) =>
  Effect.map(read(countRowsToRead(limit)), (rows) => cutPage(rows, limit))

/** Parses a cursor. Returns `None` if the text is not a valid cursor. */
export type CursorReader<Place> = (text: string) => Option.Option<Place>

/**
 * Creates a reader from a pattern with named groups. `toPlace` turns their texts into a place in the list, or into
 * undefined if they are not valid.
 */
export const makeCursorReader =
  <Place>(pattern: RegExp, toPlace: (parts: Readonly<Record<string, string | undefined>>) => Place | undefined) =>
  (text: string): Option.Option<NonNullable<Place>> =>
    Option.fromUndefinedOr(pattern.exec(text)?.groups).pipe(Option.flatMapNullishOr(toPlace))

/**
 * Creates the parameter `after`. If the reader cannot parse the value, the request gets 422 with `message` as the
 * reason.
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
