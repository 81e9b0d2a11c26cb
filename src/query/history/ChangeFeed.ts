/**
 * The change feed: what each recorded transaction changed in the rows that endpoints show, oldest first
 * (docs/decisions/0115-change-feed.md, 0121-feed-shows-endpoint-rows.md). Transactions become visible in the order of
 * `recorded_at`, so a reader never misses a change before its position.
 */
import { Context, Data, Effect, Layer, Metric, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { type CompiledStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { initializeCounters, makeCounter } from "../../postgres/metrics/CallbackMetrics.ts"
import { countRowsToRead, cutPage } from "../../contract/rules/Cursors.ts"
import { makeHistoryTimestampSql } from "../../contract/rules/Dates.ts"
import {
  CursorExpired,
  type DatabasePoolTimeout,
  type DataRefreshing,
  makeDataRefreshingError,
  makeFieldError,
} from "../../contract/rules/ApiErrors.ts"
import {
  changeFeedDatasets,
  type ChangeFeedStart,
  type ChangeKind,
  changeKinds,
  formatChangeFeedCursor,
  parseChangeFeedStart,
} from "../../contract/endpoints/changes.ts"
import {
  type ChangedRowReader,
  type ChangeWithoutRows,
  makeChangedRowReaders,
  type RowCorrection,
  type ShownChange,
} from "./ChangedRows.ts"
import { isPartlyShown } from "./ShownRows.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"

/** Which changes to read. */
export interface ChangeFeedFilter {
  readonly datasets: ReadonlyArray<string>
  /** The symbols to include. Undefined means all symbols. */
  readonly tickers: ReadonlyArray<string> | undefined
  /** The kinds of change to include. Undefined means all kinds. */
  readonly kinds: ReadonlyArray<ChangeKind> | undefined
}

/**
 * The position of a change in the feed. In contrast, a `ChangeFeedStart` is the position at which a client asks to
 * start.
 */
export interface ChangeFeedPosition {
  /** In microseconds since 1970. No two transactions have the same value. */
  readonly recordedAt: number
  /** The position within the transaction. `Infinity` means the end of the transaction. */
  readonly position: number
}

/** A change as the feed returns it. */
export interface ChangeFeedEntry extends ChangeFeedPosition {
  readonly dataset: string
  readonly kind: ChangeKind
  /**
   * The row's symbol. There is a second symbol if the row is a ticker change, or if the row had a different symbol
   * before.
   */
  readonly tickers: ReadonlyArray<string>
  /** The cursor for continuing after this change. */
  readonly cursor: string
  readonly json: Uint8Array
}

/** A page of the feed. */
export interface ChangeFeedPage<A = ChangeFeedEntry> {
  readonly changes: ReadonlyArray<A>
  /** The cursor for continuing after this page. */
  readonly cursor: string
  /** The position at the end of the page. Unlike `cursor`, it can be compared with other positions. */
  readonly end: ChangeFeedPosition
  /** Whether the feed continues after this page. The remaining changes may not match the filter. */
  readonly hasMore: boolean
}

/** A change without the values of its rows. */
export interface RowChangeSummary extends Pick<ChangeFeedEntry, "cursor" | "dataset" | "kind" | "tickers"> {
  /** The time of the change, formatted as in the API, with microseconds. */
  readonly recordedAt: string
  /** How the row was corrected. Undefined if the row was added or removed. */
  readonly correction: RowCorrection | undefined
}

/** A filter that matches all changes. */
export const allChangesFilter: ChangeFeedFilter = { datasets: changeFeedDatasets, tickers: undefined, kinds: undefined }

/** The changes on a page, before their rows have been read. */
type FoundChanges = ReadonlyArray<
  { readonly dataset: string; readonly tickers: ReadonlyArray<string>; readonly change: ChangeWithoutRows }
>

/**
 * The history changed between two statements that read the same page: either months were dropped, or another server
 * took over.
 */
class HistoryMoved extends Data.TaggedError("HistoryMoved")<{}> {}

/**
 * Maximum number of transactions that a page examines. Because of this limit, a page may be empty although the feed
 * continues, if few changes match the filter.
 */
const maxTransactions = 5_000

const changesWithoutRow = makeCounter(
  "tickerline_changes_without_row_total",
  "Changes that were sent or counted without one of their rows, because the history has lost it.",
)

/**
 * If endpoints do not show some of a page's changes, the maximum number of additional changes to examine for the page,
 * and the number to examine at a time.
 */
const maxHiddenChanges = 5_000
const hiddenChangeBatch = 1_000

/**
 * The transaction at which a page starts (`start_…`, `starts_at`) and the last transaction on the page (`last_…`).
 * `mark` is a UUID that distinguishes transactions with the same id before and after a failover. `month` is the first
 * day of the month whose partitions contain the page's changes. `has_more` is whether the feed continues after the
 * page. Times are text such as `2026-03-01T10:00:00.123456-05:00`.
 */
const Bounds = Schema.Struct({
  earliest: Schema.String,
  is_available: Schema.Boolean,
  is_future: Schema.Boolean,
  start_id: Schema.NullOr(Schema.BigInt),
  start_mark: Schema.NullOr(Schema.String),
  starts_at: Schema.NullOr(Schema.String),
  last_id: Schema.NullOr(Schema.BigInt),
  last_mark: Schema.NullOr(Schema.String),
  last_at: Schema.NullOr(Schema.String),
  month: Schema.NullOr(Schema.String),
  has_more: Schema.Boolean,
})

/** The bounds of a page whose start the history still contains. */
interface PageBounds extends Readonly<typeof Bounds.Type> {
  readonly start_id: bigint
  readonly starts_at: string
}

/**
 * A result row of `readChanges`. `is_current` is whether the history is still in the state that `readBounds` found. The
 * other columns are null if there are no changes.
 */
const FoundChange = Schema.Struct({
  is_current: Schema.Boolean,
  transaction: Schema.NullOr(Schema.BigInt),
  mark: Schema.NullOr(Schema.String),
  position: Schema.NullOr(Schema.BigInt),
  recorded_at: Schema.NullOr(Schema.String),
  dataset: Schema.NullOr(Schema.String),
  kind: Schema.NullOr(Schema.Literals(changeKinds)),
  ticker: Schema.NullOr(Schema.String),
  other_ticker: Schema.NullOr(Schema.String),
})

/** Converts a timestamp such as `2026-03-01T10:00:00.123456-05:00` to microseconds since 1970. */
const toMicros = (time: string) => Date.parse(time.slice(0, 19) + time.slice(26)) * 1_000 + Number(time.slice(20, 26))

const toPosition = ({ position, recordedAt }: ChangeWithoutRows): ChangeFeedPosition => ({
  recordedAt: toMicros(recordedAt),
  position: Number(position),
})

const decodeBounds = decodePositionalRows(Bounds)
const decodeChanges = decodePositionalRows(FoundChange)

/**
 * A number greater than any position within a transaction, as text, because positions are sent to PostgreSQL as text.
 */
const endPosition = "999999999999999"

const makeExpiredError = (earliest: string) =>
  new CursorExpired({
    error: {
      message: `The changes after this position are not known: either it is before ${earliest}, or the ` +
        "database was restored. Get a cursor with after=now, download the datasets again, and continue with it.",
      details: { earliest, restart: "/v1/changes?after=now" },
    },
  })

type FeedReadError = DatabasePoolTimeout | DataRefreshing

/** A change that endpoints show, and the value that represents it on a page. */
interface ReadChange<A> {
  readonly change: ChangeWithoutRows
  readonly value: A & { readonly kind: ChangeKind }
}

/** Reads the rows of the changes. Returns the changes that endpoints show, in the same order. */
type ReadRows<A> = (found: FoundChanges) => Effect.Effect<ReadonlyArray<ReadChange<A>>, HistoryMoved | FeedReadError>

/** All pages are read from the primary and share one partition of the connection pool. */
const source = { partition: "changes", from: "primary" } as const

// ---------------------------------------------------------------------------------------------------------------------
// Queries
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Creates functions that build the two queries for a page. `makeBoundsQuery` finds the transactions that the page
 * examines, as one row (`Bounds`), and `makeChangesQuery` finds the matching changes of these transactions, one row
 * each (`FoundChange`).
 *
 * The table `history.transactions` has one row per transaction: its id, its `mark`, when it was recorded, the month of
 * its changes, and their numbers. `history.changes` has one row per change, with the position within its transaction.
 * `history.beginning` has a single row: the earliest time in the history.
 */
const makeFeedQueries = (sql: SqlClient.SqlClient) => {
  const textArray = (values: ReadonlyArray<string>) => sql`${makeArrayParameter(values, OID.text)}::text[]`
  const formatTime = (time: string) => sql.literal(makeHistoryTimestampSql(time))
  const literal = (text: string) => sql.literal(`'${text}'`)

  /**
   * Returns a query for the transaction at which a page starts: the cursor's transaction, or the newest transaction at
   * or before the requested time. The query returns at most one row. `requested_at` is null for a cursor. If there is
   * no transaction at or before the requested time, `id` is 0, `mark` is null, and `recorded_at` is the earliest time
   * in the history. A cursor whose transaction has been lost returns no row.
   */
  const makeStartQuery = (start: ChangeFeedStart | undefined) => {
    if (start?._tag === "Cursor") {
      const { mark, transaction } = start
      return sql`
        select id, mark, recorded_at, null::timestamptz as requested_at from history.transactions
        where id = ${transaction}::text::bigint and mark = ${mark}::text::uuid and recorded_at is not null
      `
    }
    const requestedAt = start === undefined
      ? sql`beginning.earliest`
      : start._tag === "Now"
      ? sql`greatest(beginning.earliest, clock_timestamp())`
      : sql`${start.timestamp}::text::timestamptz`
    return sql`
      select coalesce(newest.id, 0) as id, mark, coalesce(recorded_at, earliest) as recorded_at, requested_at
      from (select earliest, ${requestedAt} as requested_at from beginning) as requested left join lateral (
        select id, mark, recorded_at from history.transactions
        where transactions.recorded_at <= requested_at order by transactions.recorded_at desc limit 1
      ) as newest on true
    `
  }

  /**
   * Returns the query for a page's bounds. Its columns have the same order as the fields of `Bounds`.
   *
   * `upcoming` contains the transactions from the start onward: one more than a page examines, which shows whether the
   * feed continues. If the cursor is at the end of its transaction, that transaction itself is left out. `last` is the
   * last transaction on the page: the latest one that is among the first `maxTransactions` and in the same month as the
   * first.
   *
   * The second column, `is_available`, is whether the history still contains everything since the start. If the start
   * is a time, it must not be before the earliest time in the history. If the start is a transaction, it must be later
   * than the earliest time in the history. An earlier transaction is accepted only if the reader has read all of its
   * changes and no later transaction has been dropped.
   *
   * `start` has no row if the cursor's transaction is unknown, and `last` has none if nothing follows the start. The
   * left joins then return null for their columns.
   */
  const makeBoundsQuery = (start: ChangeFeedStart | undefined) => {
    // Whether the cursor is at a change within its transaction, so that the transaction may have further changes.
    const isUnfinished = start?._tag === "Cursor" && start.position !== undefined
    return sql`
      with beginning as materialized (
        select earliest from history.beginning
      ), start as materialized (
        ${makeStartQuery(start)}
      ), upcoming as materialized (
        select *, row_number() over (order by recorded_at) as number,
          first_value(month) over (order by recorded_at) as first_month
        from (
          select transactions.id, transactions.mark, month, transactions.recorded_at from history.transactions
          where transactions.recorded_at >= (select recorded_at from start)
            ${isUnfinished ? sql.literal("") : sql`and transactions.id <> (select id from start)`}
          order by transactions.recorded_at limit ${sql.literal(String(countRowsToRead(maxTransactions)))}
        ) as later
      ), last as (
        select * from upcoming
        where number <= ${sql.literal(String(maxTransactions))}
          and number < coalesce((select min(number) from upcoming where month <> first_month), number + 1)
        order by number desc limit 1
      )
      select ${formatTime("earliest")},
        coalesce(case
          when requested_at is not null then requested_at >= earliest
          when start.recorded_at > earliest then true
          else ${literal(String(!isUnfinished))}::boolean and not exists (
            select from history.transactions
            where transactions.recorded_at > start.recorded_at and transactions.recorded_at <= earliest
          )
        end, false),
        coalesce(requested_at > clock_timestamp(), false),
        start.id, start.mark::text, ${formatTime("start.recorded_at")},
        last.id, last.mark::text, ${formatTime("last.recorded_at")}, last.month::text,
        coalesce(last.number < (select count(*) from upcoming), false)
      from beginning left join start on true left join last on true
    `
  }

  /**
   * Returns the condition that a change has a wanted kind. `isOf` builds the condition for a set of kinds.
   *
   * If endpoints show only some of a dataset's rows, a change that the history records as `corrected` may look to
   * clients like `added` or `removed`: for example, if a ticker change becomes confirmed. The condition therefore also
   * matches all corrections in such datasets. `readOnce` later drops those that turn out not to have a wanted kind.
   */
  const hasWantedKind = (
    { datasets, kinds = changeKinds }: ChangeFeedFilter,
    isOf: (kinds: ReadonlyArray<ChangeKind>) => Statement.Fragment,
  ) => {
    const partlyShown = kinds.includes("corrected") ? [] : datasets.filter(isPartlyShown)
    return partlyShown.length === 0
      ? isOf(kinds)
      : sql`(${isOf(kinds)} or (${isOf(["corrected"])} and dataset = any(${textArray(partlyShown)})))`
  }

  /**
   * Returns the condition that a transaction has changes of the wanted kinds in the wanted datasets, regardless of the
   * symbol. The column `history.transactions.changes` is a JSON object such as `{"news": {"added": 3}}`: the numbers of
   * changes by dataset and kind.
   */
  const hasWantedChanges = (filter: ChangeFeedFilter) => {
    const { datasets, kinds } = filter
    if (kinds === undefined) return sql`changes ?| ${textArray(datasets)}`
    return sql`exists (
      select from jsonb_each(changes) as counted (dataset, numbers)
      where dataset = any(${textArray(datasets)})
        and ${hasWantedKind(filter, (kinds) => sql`numbers ?| ${textArray(kinds)}`)}
    )`
  }

  /**
   * Returns a query for the first `limit` changes of the transaction `later.id` that match the filter, ordered by
   * `position`. In the transaction with the id `startId`, it returns only the changes after the cursor's position. If
   * the start is not a change within a transaction, that position is `endPosition`, so it returns none of that
   * transaction's changes.
   */
  const makeTransactionChangesQuery = (
    filter: ChangeFeedFilter,
    start: ChangeFeedStart | undefined,
    startId: bigint,
    month: string,
    limit: number,
  ) => {
    const { datasets, kinds, tickers } = filter
    const position = start?._tag === "Cursor" && start.position !== undefined ? start.position : endPosition
    const kindConditions = kinds === undefined
      ? []
      : [hasWantedKind(filter, (wanted) => sql`kind = any(${textArray(wanted)})`)]
    const select = (symbolConditions: ReadonlyArray<Statement.Fragment>) =>
      sql`
        select position, dataset, kind, ticker, other_ticker from history.changes
        where ${
        sql.and([
          sql`transaction = later.id and month = date ${literal(month)}
            and position > case later.id when ${String(startId)}::text::bigint then ${position}::text::bigint
              else 0 end`,
          sql`dataset = any(${textArray(datasets)})`,
          ...kindConditions,
          ...symbolConditions,
        ])
      }
        order by position limit ${sql.literal(String(limit))}
      `
    if (tickers === undefined) return select([])
    const symbols = sql`
      (select array(select distinct stored_symbol(ticker) from unnest(${textArray(tickers)}) as ticker))::text[]
    `
    // Two index scans per symbol, each ordered by `position` and limited. A single scan for all symbols would read a
    // large transaction to the end for every page. `ticker <> all (…)` prevents returning a change twice if both of its
    // symbols were requested.
    return sql`
      select found.* from unnest(${symbols}) as symbol cross join lateral (
        (${select([sql`ticker = symbol`])})
        union all
        (${select([sql`other_ticker = symbol and ticker <> all(${symbols})`])})
      ) as found
      order by position limit ${sql.literal(String(limit))}
    `
  }

  /**
   * Returns the query for the first `limit` matching changes of the transactions within the bounds, in the order of the
   * feed. `later` contains these transactions, without those that have no matching changes, and `page` the changes.
   *
   * The first column checks that the earliest time and the starting transaction are still those in the bounds. The left
   * join returns that column even if there are no changes; the other columns are then null.
   */
  const makeChangesQuery = (
    start: ChangeFeedStart | undefined,
    filter: ChangeFeedFilter,
    limit: number,
    { earliest, last_at, month, start_id, start_mark, starts_at }: PageBounds & { readonly month: string },
  ) =>
    sql`
      select earliest = ${earliest}::text::timestamptz and (
          select mark from history.transactions where transactions.id = ${String(start_id)}::text::bigint
        ) is not distinct from ${start_mark}::text::uuid,
        id, mark::text, position,
        ${formatTime("recorded_at")}, dataset, kind,
        ticker, other_ticker
      from history.beginning left join (
        select later.id, later.mark, later.recorded_at, found.*
        from (
          select id, mark, recorded_at from history.transactions
          where recorded_at >= ${starts_at}::text::timestamptz and recorded_at <= ${last_at}::text::timestamptz
            and ${hasWantedChanges(filter)}
          order by recorded_at
        ) as later
        cross join lateral (${makeTransactionChangesQuery(filter, start, start_id, month, limit)}) as found
        order by recorded_at, position limit ${sql.literal(String(limit))}
      ) as page on true
      order by page.recorded_at, position
    `

  return { makeBoundsQuery, makeChangesQuery }
}

/**
 * Creates functions that run the two queries for a page: `readBounds` determines which transactions the page examines,
 * and `readChanges` reads their changes, without the values of the changed rows.
 */
const makeFeedQueryReader = Effect.gen(function* () {
  const { makeBoundsQuery, makeChangesQuery } = makeFeedQueries(yield* SqlClient.SqlClient)
  const database = yield* DatabaseReader

  const read = (statement: Statement.Statement<object>) => {
    const [text, parameters] = statement.compile()
    return database.read({ text, parameters, isPrepared: false }, source)
  }

  /**
   * Finds the transactions that a page examines: those from the start of the page up to the returned `last_…`
   * transaction. All of them are from one month, so that `readChanges` reads only one partition of `history.changes`.
   * Fails if the history no longer contains all changes since the start, or if the start is a time in the future.
   */
  const readBounds = Effect.fnUntraced(function* (start: ChangeFeedStart | undefined) {
    const [bounds] = yield* decodeBounds(read(makeBoundsQuery(start)))
    if (bounds === undefined) return yield* Effect.die(new Error("history.beginning has no row"))
    if (bounds.is_future) return yield* makeFieldError("after", "must not be in the future")
    const { earliest, start_id, start_mark, starts_at } = bounds
    if (!bounds.is_available || start_id === null || starts_at === null) return yield* makeExpiredError(earliest)
    return { ...bounds, start_id, start_mark, starts_at } satisfies PageBounds
  })

  /**
   * Reads at most `limit` matching changes of the transactions within the bounds, in the order of the feed. Fails with
   * `HistoryMoved` if the history has changed since `readBounds`: months were dropped, or the starting transaction was
   * lost in a failover.
   */
  const readChanges = Effect.fnUntraced(function* (
    start: ChangeFeedStart | undefined,
    filter: ChangeFeedFilter,
    limit: number,
    bounds: PageBounds,
  ) {
    const { last_at, month } = bounds
    // No transaction follows the start.
    if (last_at === null || month === null) return []
    const found = yield* decodeChanges(read(makeChangesQuery(start, filter, limit, { ...bounds, month })))
    if (found.some(({ is_current }) => !is_current)) return yield* new HistoryMoved()
    return found.flatMap(({ dataset, kind, mark, other_ticker, position, recorded_at, ticker, transaction }) => {
      // If there are no changes, the only row has no values except `is_current`.
      if (transaction === null || mark === null || position === null || recorded_at === null) return []
      if (dataset === null || kind === null) return []
      const cursor = formatChangeFeedCursor({ transaction: String(transaction), position: String(position), mark })
      const change: ChangeWithoutRows = { transaction, position, month, kind, cursor, recordedAt: recorded_at }
      const tickers = [ticker, other_ticker].filter((symbol) => symbol !== null)
      return [{ dataset, tickers, change }]
    })
  })

  return { readBounds, readChanges }
})

// ---------------------------------------------------------------------------------------------------------------------
// Rows
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Creates the two functions that read the rows of the changes on a page: `encodeChanges` returns each change as JSON
 * with its rows, and `describeChanges` returns a summary of each change. Both omit changes that endpoints do not show.
 * They take the changes as `makeFeedQueryReader` finds them: each with its dataset and symbols. `readers` has, for each
 * dataset, the functions that build the statement for its rows and interpret the result.
 */
const makeChangedRowMapper = Effect.gen(function* () {
  const database = yield* DatabaseReader
  const readers = makeChangedRowReaders(yield* SqlClient.SqlClient)
  yield* initializeCounters(changesWithoutRow)

  /** The datasets for which a missing row has already been logged. */
  const reportedDatasets = new Set<string>()

  const reportLostRow = Effect.fnUntraced(
    function* (dataset: string, { position, transaction }: ChangeWithoutRows) {
      yield* Metric.update(changesWithoutRow, 1)
      if (reportedDatasets.has(dataset)) return
      reportedDatasets.add(dataset)
      yield* Effect.logError(
        `The history lacks a row of ${dataset}, for change ${position} of transaction ${transaction}. ` +
          "/v1/changes sends such changes without the row. " +
          `\`${tickerlineCommand} doctor\` checks the triggers that keep rows.`,
      )
    },
  )

  /**
   * Reads the rows of the changes, with one statement per dataset. Returns the result of `map` for each change that
   * endpoints show; changes that they do not show are missing from the returned map. Fails with `HistoryMoved` if a
   * change has disappeared since it was found.
   *
   * `compile` builds the statement with the dataset's `reader`. The statement returns one row per change, in the same
   * order. `map` gets the change as clients see it (`shown`), and the values of its row.
   */
  const mapRows = Effect.fnUntraced(function* <A>(
    found: FoundChanges,
    compile: (reader: ChangedRowReader, changes: ReadonlyArray<ChangeWithoutRows>) => CompiledStatement,
    map: (
      reader: ChangedRowReader,
      change: ChangeWithoutRows,
      shown: ShownChange,
      values: ReadonlyArray<unknown>,
    ) => A,
  ) {
    const mapped = new Map<ChangeWithoutRows, A>()
    for (const dataset of new Set(found.map(({ dataset }) => dataset))) {
      const reader = readers.get(dataset)
      if (reader === undefined) return yield* Effect.die(new Error(`There is no dataset ${dataset}`))
      const changes = found.flatMap((entry) => entry.dataset === dataset ? [entry.change] : [])
      const rows = yield* database.read(compile(reader, changes), source)
      // Changes and their rows are read in one statement, so a missing result means that the change was dropped.
      if (rows.length !== changes.length) return yield* new HistoryMoved()
      for (const [index, change] of changes.entries()) {
        const values = rows[index] ?? []
        if (reader.lacksRow(change, values)) yield* reportLostRow(dataset, change)
        const shown = reader.interpret(change, values)
        if (shown !== "hidden") mapped.set(change, map(reader, change, shown, values))
      }
    }
    return mapped
  })

  /** Encodes the changes on a page as JSON, including their rows. Omits changes that endpoints do not show. */
  const encodeChanges = Effect.fnUntraced(function* (found: FoundChanges) {
    const encoded = yield* mapRows(
      found,
      (reader, changes) => reader.compile(changes),
      (reader, change, shown, values) => ({ kind: shown.kind, json: reader.encode(change, shown, values) }),
    )
    return found.flatMap(({ change, dataset, tickers }): ReadonlyArray<ReadChange<ChangeFeedEntry>> => {
      const shown = encoded.get(change)
      if (shown === undefined) return []
      return [{ change, value: { ...toPosition(change), ...shown, dataset, tickers, cursor: change.cursor } }]
    })
  })

  /**
   * Summarizes the changes on a page without their row values. For a correction, the summary includes how late it was
   * and which columns changed. The rows must be read only for corrections, and for datasets whose rows are shown in
   * part, because there the rows determine whether and how clients see the change.
   */
  const describeChanges = Effect.fnUntraced(function* (found: FoundChanges) {
    const needsRows = ({ change: { kind }, dataset }: FoundChanges[number]) =>
      kind === "corrected" || isPartlyShown(dataset)
    const described = yield* mapRows(
      found.filter(needsRows),
      (reader, changes) => reader.compileWithDelay(changes),
      (reader, _, shown, values) => ({
        kind: shown.kind,
        correction: shown.kind === "corrected" ? reader.describeCorrection(shown, values) : undefined,
      }),
    )
    return found.flatMap((entry): ReadonlyArray<ReadChange<RowChangeSummary>> => {
      const { change, dataset, tickers } = entry
      const { cursor, kind, recordedAt } = change
      const shown = needsRows(entry) ? described.get(change) : { kind, correction: undefined }
      return shown === undefined ? [] : [{ change, value: { ...shown, dataset, tickers, cursor, recordedAt } }]
    })
  })

  return { encodeChanges, describeChanges }
})

// ---------------------------------------------------------------------------------------------------------------------
// Pages
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Returns the leading changes, up to and including the `limit`-th change that is certain to be shown because it is in
 * a dataset whose rows endpoints always show. These changes alone fill the page, and their rows may be large, so the
 * rows of later changes must not be read.
 */
const takeAlwaysShown = (found: FoundChanges, limit: number) => {
  let certainCount = 0
  const end = found.findIndex(({ dataset }) => !isPartlyShown(dataset) && ++certainCount > limit)
  return end < 0 ? found : found.slice(0, end)
}

/**
 * Creates the functions that read a page of the feed. A page is read in four steps: determine the transactions that it
 * examines (`readBounds`), find their matching changes (`readChanges`), read the rows of these changes and drop changes
 * that endpoints do not show (`readRows`), and determine where the next page starts.
 */
const makeChangeFeedReader = Effect.gen(function* () {
  const { readBounds, readChanges } = yield* makeFeedQueryReader
  const { describeChanges, encodeChanges } = yield* makeChangedRowMapper

  /**
   * Examines at most `batch` changes, and returns those that endpoints show:
   *
   * - `limit` applies only to changes that are certain to be shown, so the caller may have to truncate the result
   *   (`readShown`).
   * - `end` is the position after the last examined change, even if that change is hidden, and `cursor` is its text.
   * - `hasMore` is whether the feed continues there.
   * - `stoppedEarly` is whether matching changes within the bounds were not examined.
   */
  const readOnce = Effect.fnUntraced(function* <A>(
    start: ChangeFeedStart | undefined,
    filter: ChangeFeedFilter,
    limit: number,
    batch: number,
    readRows: ReadRows<A>,
  ) {
    const bounds = yield* readBounds(start)
    const found = yield* readChanges(start, filter, countRowsToRead(batch), bounds)
    const examined = takeAlwaysShown(cutPage(found, batch).rows, limit)
    const read = yield* readRows(examined)
    const changes = read.filter(({ value }) => filter.kinds?.includes(value.kind) !== false)
    const last = examined.at(-1)?.change
    if (found.length > examined.length && last !== undefined) {
      return { changes, cursor: last.cursor, end: toPosition(last), hasMore: true, stoppedEarly: true }
    }
    // All matching changes within the bounds were examined, so the next page starts after the last transaction.
    const { has_more: hasMore, last_at, last_id, last_mark, start_id, start_mark, starts_at } = bounds
    const [id, mark] = last_id === null ? [start_id, start_mark] : [last_id, last_mark]
    // If there is no transaction up to this position, the cursor cannot refer to one, so it is a time instead.
    const cursor = mark === null
      ? starts_at
      : formatChangeFeedCursor({ transaction: String(id), position: undefined, mark })
    // `Infinity` is later than every change of the transaction.
    const end = { recordedAt: toMicros(last_at ?? starts_at), position: Infinity }
    return { changes, cursor, end, hasMore, stoppedEarly: false }
  })

  /**
   * Reads a page of at most `limit` changes. If endpoints do not show some of the changes, reads on in larger batches,
   * so that a page is rarely empty. Stops when the page is full, when there are no further matching changes within the
   * bounds, or after `maxHiddenChanges` additional changes.
   */
  const readShown = Effect.fnUntraced(function* <A>(
    start: ChangeFeedStart | undefined,
    filter: ChangeFeedFilter,
    limit: number,
    readRows: ReadRows<A>,
  ) {
    let page = yield* readOnce(start, filter, limit, limit, readRows)
    const changes = [...page.changes]
    for (let extra = 0; page.stoppedEarly && changes.length < limit && extra < maxHiddenChanges;) {
      const next = parseChangeFeedStart(page.cursor)
      page = yield* readOnce(next, filter, limit - changes.length, hiddenChangeBatch, readRows)
      changes.push(...page.changes)
      extra += hiddenChangeBatch
    }
    // A batch may contain more shown changes than the page has room for. The page then ends at its last change instead
    // of the end of the batch.
    const { last, rows } = cutPage(changes, limit)
    const { cursor, end, hasMore } = last === undefined
      ? page
      : { cursor: last.change.cursor, end: toPosition(last.change), hasMore: true }
    return { changes: rows.map(({ value }) => value), cursor, end, hasMore }
  })

  const readWith =
    <A>(readRows: ReadRows<A>) => (start: ChangeFeedStart | undefined, filter: ChangeFeedFilter, limit: number) =>
      readShown(start, filter, limit, readRows).pipe(
        Effect.retry({ while: (error) => error._tag === "HistoryMoved", times: 3 }),
        Effect.catchTag("HistoryMoved", () => Effect.fail(makeDataRefreshingError())),
      )
  return {
    /**
     * Reads at most `limit` changes after `start` from the primary. If `start` is undefined, starts at the earliest
     * change in the history.
     */
    readPage: readWith(encodeChanges),
    /**
     * Reads a page in the same way as `readPage`, but without the row values. Instead returns how late each correction
     * was and which columns it changed.
     */
    summarizePage: readWith(describeChanges),
  }
})

/** Reads pages of the change feed. */
export class ChangeFeedReader extends Context.Service<ChangeFeedReader, Effect.Success<typeof makeChangeFeedReader>>()(
  "tickerline/query/ChangeFeedReader",
) {
  static readonly layer = Layer.effect(ChangeFeedReader, makeChangeFeedReader)
}
