/**
 * The change feed: what each recorded transaction changed in the rows that endpoints show, oldest first
 * (docs/decisions/0115-change-feed.md, 0121-feed-shows-endpoint-rows.md). Transactions become visible in the order of
 * `recorded_at`, so a reader never misses a change before its position.
 */
import { Context, Data, Effect, Layer, Metric, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { type CompiledStatement, makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodePositionalRows } from "../../postgres/DecodeRows.ts"
import { Reader } from "../../postgres/Reader.ts"
import { initializeCounters, makeCounter } from "../../postgres/metrics/CallbackMetrics.ts"
import { countRowsToRead, cutPage } from "../../contract/rules/Cursors.ts"
import { makeHistoryTimestampSql } from "../../contract/rules/Dates.ts"
import {
  CursorExpired,
  type DatabasePoolTimeout,
  type DataRefreshing,
  makeDataRefreshingError,
  makeFieldError,
} from "../../contract/rules/Errors.ts"
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

/** The history changed while a page was being read: either months were dropped, or another server took over. */
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
 * Maximum number of additional changes to examine for a page, in batches, when endpoints do not show some of the
 * changes.
 */
const maxHiddenChanges = 5_000
const hiddenChangeBatch = 1_000

/**
 * The transaction after which a page starts and the last transaction on the page. Times are text such as
 * `2026-03-01T10:00:00.123456-05:00`.
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

type ReadRows<A> = (found: FoundChanges) => Effect.Effect<ReadonlyArray<ReadChange<A>>, HistoryMoved | FeedReadError>

/** All pages are read from the primary and share one partition of the connection pool. */
const source = { partition: "changes", from: "primary" } as const

const makeChangeFeedReader = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const database = yield* Reader
  const readers = makeChangedRowReaders(sql)
  yield* initializeCounters(changesWithoutRow)

  const read = (statement: Statement.Statement<object>) => {
    const [text, parameters] = statement.compile()
    return database.read({ text, parameters, isPrepared: false }, source)
  }

  const textArray = (values: ReadonlyArray<string>) => sql`${makeArrayParameter(values, OID.text)}::text[]`
  const toMoment = (time: string) => sql.literal(makeHistoryTimestampSql(time))
  const literal = (text: string) => sql.literal(`'${text}'`)

  /**
   * Returns a query for the transaction at which a page starts: the cursor's transaction, or the newest transaction at
   * or before the requested time.
   */
  const startOf = (place: ChangeFeedStart | undefined) => {
    if (place?._tag === "Cursor") {
      const { mark, transaction } = place
      return sql`
        select id, mark, recorded_at, null::timestamptz as moment from history.transactions
        where id = ${transaction}::text::bigint and mark = ${mark}::text::uuid and recorded_at is not null
      `
    }
    const moment = place === undefined
      ? sql`beginning.earliest`
      : place._tag === "Now"
      ? sql`greatest(beginning.earliest, clock_timestamp())`
      : sql`${place.moment}::text::timestamptz`
    return sql`
      select coalesce(newest.id, 0) as id, mark, coalesce(recorded_at, earliest) as recorded_at, moment
      from (select earliest, ${moment} as moment from beginning) as requested left join lateral (
        select id, mark, recorded_at from history.transactions
        where transactions.recorded_at <= moment order by transactions.recorded_at desc limit 1
      ) as newest on true
    `
  }

  /**
   * Finds the transactions that a page examines. All of them are from one month, so that the next statement reads only
   * one partition. The cursor may refer to a dropped transaction if no later transaction has been dropped.
   */
  const readBounds = Effect.fnUntraced(function* (place: ChangeFeedStart | undefined) {
    // `upcoming` contains the transactions from the start onward: one more than a page examines. `last` is the last
    // transaction on the page. It is limited to the first month and to `maxTransactions` transactions.
    //
    // The selected columns have the same order as the fields of `Bounds`. The second column is whether the history
    // still contains everything since the start. If the start is a time, it must not be before the earliest time in the
    // history. If the start is a transaction, it must be later than the earliest time in the history; an earlier one is
    // accepted only if the reader has finished it and no later transaction has been dropped.
    const isUnfinished = place?._tag === "Cursor" && place.position !== undefined
    const [bounds] = yield* decodeBounds(read(sql`
      with beginning as materialized (
        select earliest from history.beginning
      ), start as materialized (
        ${startOf(place)}
      ), upcoming as materialized (
        select *, row_number() over (order by recorded_at) as place,
          first_value(month) over (order by recorded_at) as first_month
        from (
          select transactions.id, transactions.mark, month, transactions.recorded_at from history.transactions
          where transactions.recorded_at >= (select recorded_at from start)
            ${isUnfinished ? sql.literal("") : sql`and transactions.id <> (select id from start)`}
          order by transactions.recorded_at limit ${sql.literal(String(countRowsToRead(maxTransactions)))}
        ) as later
      ), last as (
        select * from upcoming
        where place <= ${sql.literal(String(maxTransactions))}
          and place < coalesce((select min(place) from upcoming where month <> first_month), place + 1)
        order by place desc limit 1
      )
      select ${toMoment("earliest")},
        coalesce(case
          when moment is not null then moment >= earliest
          when start.recorded_at > earliest then true
          else ${literal(String(!isUnfinished))}::boolean and not exists (
            select from history.transactions
            where transactions.recorded_at > start.recorded_at and transactions.recorded_at <= earliest
          )
        end, false),
        coalesce(moment > clock_timestamp(), false),
        start.id, start.mark::text, ${toMoment("start.recorded_at")},
        last.id, last.mark::text, ${toMoment("last.recorded_at")}, last.month::text,
        coalesce(last.place < (select count(*) from upcoming), false)
      from beginning left join start on true left join last on true
    `))
    if (bounds === undefined) return yield* Effect.die(new Error("history.beginning has no row"))
    if (bounds.is_future) return yield* makeFieldError("after", "must not be in the future")
    const { earliest, start_id, start_mark, starts_at } = bounds
    if (!bounds.is_available || start_id === null || starts_at === null) return yield* makeExpiredError(earliest)
    return { ...bounds, start_id, start_mark, starts_at }
  })

  /**
   * Returns the condition that a change has a wanted kind. If endpoints show only some of a dataset's rows, clients may
   * see a corrected row as added or removed. Such corrections also match. `isOf` builds the condition for a set of
   * kinds.
   */
  const hasWantedKind = (
    { datasets, kinds = changeKinds }: ChangeFeedFilter,
    isOf: (kinds: ReadonlyArray<ChangeKind>) => Statement.Fragment,
  ) => {
    const reinterpreted = kinds.includes("corrected") ? [] : datasets.filter(isPartlyShown)
    return reinterpreted.length === 0
      ? isOf(kinds)
      : sql`(${isOf(kinds)} or (${isOf(["corrected"])} and dataset = any(${textArray(reinterpreted)})))`
  }

  /**
   * Returns the condition that a transaction has changes of the wanted kinds in the wanted datasets, regardless of the
   * symbol.
   */
  const hasWanted = (filter: ChangeFeedFilter) => {
    const { datasets, kinds } = filter
    if (kinds === undefined) return sql`changes ?| ${textArray(datasets)}`
    return sql`exists (
      select from jsonb_each(changes) as counted (dataset, numbers)
      where dataset = any(${textArray(datasets)})
        and ${hasWantedKind(filter, (kinds) => sql`numbers ?| ${textArray(kinds)}`)}
    )`
  }

  /** Returns a query for a transaction's changes that match the filter, ordered by `position`. */
  const changesOf = (
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
    const select = (ticker: ReadonlyArray<Statement.Fragment>) =>
      sql`
        select position, dataset, kind, ticker, other_ticker from history.changes
        where ${
        sql.and([
          sql`transaction = later.id and month = date ${literal(month)}
            and position > case later.id when ${String(startId)}::text::bigint then ${position}::text::bigint
              else 0 end`,
          sql`dataset = any(${textArray(datasets)})`,
          ...kindConditions,
          ...ticker,
        ])
      }
        order by position limit ${sql.literal(String(limit))}
      `
    if (tickers === undefined) return select([])
    const symbols = sql`
      (select array(select distinct stored_symbol(given) from unnest(${textArray(tickers)}) as given))::text[]
    `
    // Two index scans per symbol, each ordered by `position` and limited. A single scan for all symbols would read a
    // large transaction to the end for every page.
    return sql`
      select found.* from unnest(${symbols}) as symbol cross join lateral (
        (${select([sql`ticker = symbol`])})
        union all
        (${select([sql`other_ticker = symbol and ticker <> all(${symbols})`])})
      ) as found
      order by position limit ${sql.literal(String(limit))}
    `
  }

  /** Reads at most `limit` changes within the bounds. */
  const readChanges = Effect.fnUntraced(function* (
    place: ChangeFeedStart | undefined,
    filter: ChangeFeedFilter,
    limit: number,
    bounds: Effect.Success<ReturnType<typeof readBounds>>,
  ) {
    const { earliest, last_at, month, start_id, start_mark, starts_at } = bounds
    if (last_at === null || month === null) return []
    // The first column checks that the earliest time and the starting transaction are still those that `readBounds`
    // found. The left join returns that column even if there are no changes.
    const found = yield* decodeChanges(read(sql`
      select earliest = ${earliest}::text::timestamptz and (
          select mark from history.transactions where transactions.id = ${String(start_id)}::text::bigint
        ) is not distinct from ${start_mark}::text::uuid,
        id, mark::text, position,
        ${toMoment("recorded_at")}, dataset, kind,
        ticker, other_ticker
      from history.beginning left join (
        select later.id, later.mark, later.recorded_at, found.*
        from (
          select id, mark, recorded_at from history.transactions
          where recorded_at >= ${starts_at}::text::timestamptz and recorded_at <= ${last_at}::text::timestamptz
            and ${hasWanted(filter)}
          order by recorded_at
        ) as later
        cross join lateral (${changesOf(filter, place, start_id, month, limit)}) as found
        order by recorded_at, position limit ${sql.literal(String(limit))}
      ) as page on true
      order by page.recorded_at, position
    `))
    if (found.some(({ is_current }) => !is_current)) return yield* new HistoryMoved()
    return found.flatMap(({ dataset, kind, mark, other_ticker, position, recorded_at, ticker, transaction }) => {
      if (transaction === null || mark === null || position === null || recorded_at === null) return []
      if (dataset === null || kind === null) return []
      const cursor = formatChangeFeedCursor({ transaction: String(transaction), position: String(position), mark })
      const change: ChangeWithoutRows = { transaction, position, month, kind, cursor, recordedAt: recorded_at }
      const tickers = [ticker, other_ticker].filter((symbol) => symbol !== null)
      return [{ dataset, tickers, change }]
    })
  })

  /** The datasets for which a missing row has already been logged. */
  const damaged = new Set<string>()

  const reportLostRow = Effect.fnUntraced(
    function* (dataset: string, { position, transaction }: ChangeWithoutRows) {
      yield* Metric.update(changesWithoutRow, 1)
      if (damaged.has(dataset)) return
      damaged.add(dataset)
      yield* Effect.logError(
        `The history lacks a row of ${dataset}, for change ${position} of transaction ${transaction}. ` +
          "/v1/changes sends such changes without the row. " +
          `\`${tickerlineCommand} doctor\` checks the triggers that keep rows.`,
      )
    },
  )

  /**
   * Reads the rows of the changes, with one statement per dataset, and maps those that endpoints show. Fails if a
   * change has disappeared since it was found.
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
      const changes = found.flatMap((one) => one.dataset === dataset ? [one.change] : [])
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
   * and which columns changed.
   */
  const describeChanges = Effect.fnUntraced(function* (found: FoundChanges) {
    const isRead = ({ change: { kind }, dataset }: FoundChanges[number]) =>
      kind === "corrected" || isPartlyShown(dataset)
    const described = yield* mapRows(
      found.filter(isRead),
      (reader, changes) => reader.compileWithDelay(changes),
      (reader, _, shown, values) => ({
        kind: shown.kind,
        correction: shown.kind === "corrected" ? reader.describeCorrection(shown, values) : undefined,
      }),
    )
    return found.flatMap((one): ReadonlyArray<ReadChange<RowChangeSummary>> => {
      const { change, dataset, tickers } = one
      const { cursor, kind, recordedAt } = change
      const shown = isRead(one) ? described.get(change) : { kind, correction: undefined }
      return shown === undefined ? [] : [{ change, value: { ...shown, dataset, tickers, cursor, recordedAt } }]
    })
  })

  /**
   * Returns the first changes, with at most `limit` changes from datasets whose rows endpoints always show. Those rows
   * may be large, so only as many of them are read as the page can show.
   */
  const takeAlwaysShown = (found: FoundChanges, limit: number) => {
    let count = 0
    const end = found.findIndex(({ dataset }) => !isPartlyShown(dataset) && ++count > limit)
    return end < 0 ? found : found.slice(0, end)
  }

  /**
   * Examines at most `batch` changes, and drops those that endpoints do not show. `limit` applies to changes that are
   * certain to be shown.
   */
  const readOnce = Effect.fnUntraced(function* <A>(
    place: ChangeFeedStart | undefined,
    filter: ChangeFeedFilter,
    limit: number,
    batch: number,
    readRows: ReadRows<A>,
  ) {
    const bounds = yield* readBounds(place)
    const found = yield* readChanges(place, filter, countRowsToRead(batch), bounds)
    const examined = takeAlwaysShown(cutPage(found, batch).rows, limit)
    const read = yield* readRows(examined)
    const changes = read.filter(({ value }) => filter.kinds?.includes(value.kind) !== false)
    const last = examined.at(-1)?.change
    if (found.length > examined.length && last !== undefined) {
      return { changes, cursor: last.cursor, end: toPosition(last), hasMore: true, isFull: true }
    }
    const { has_more: hasMore, last_at, last_id, last_mark, start_id, start_mark, starts_at } = bounds
    const [id, mark] = last_id === null ? [start_id, start_mark] : [last_id, last_mark]
    // If there is no transaction up to this position, the cursor cannot refer to one, so it is a time instead.
    const cursor = mark === null
      ? starts_at
      : formatChangeFeedCursor({ transaction: String(id), position: undefined, mark })
    const end = { recordedAt: toMicros(last_at ?? starts_at), position: Infinity }
    return { changes, cursor, end, hasMore, isFull: false }
  })

  /**
   * Reads a page. If endpoints do not show some of the changes, skips those and reads on, so that a page is rarely
   * empty.
   */
  const readShown = Effect.fnUntraced(function* <A>(
    place: ChangeFeedStart | undefined,
    filter: ChangeFeedFilter,
    limit: number,
    readRows: ReadRows<A>,
  ) {
    let page = yield* readOnce(place, filter, limit, limit, readRows)
    const changes = [...page.changes]
    for (let hidden = 0; page.isFull && changes.length < limit && hidden < maxHiddenChanges;) {
      const next = parseChangeFeedStart(page.cursor)
      page = yield* readOnce(next, filter, limit - changes.length, hiddenChangeBatch, readRows)
      changes.push(...page.changes)
      hidden += hiddenChangeBatch
    }
    const { last, rows } = cutPage(changes, limit)
    const { cursor, end, hasMore } = last === undefined
      ? page
      : { cursor: last.change.cursor, end: toPosition(last.change), hasMore: true }
    return { changes: rows.map(({ value }) => value), cursor, end, hasMore }
  })

  const readWith =
    <A>(readRows: ReadRows<A>) => (place: ChangeFeedStart | undefined, filter: ChangeFeedFilter, limit: number) =>
      readShown(place, filter, limit, readRows).pipe(
        Effect.retry({ while: (error) => error._tag === "HistoryMoved", times: 3 }),
        Effect.catchTag("HistoryMoved", () => Effect.fail(makeDataRefreshingError())),
      )
  return {
    /**
     * Reads at most `limit` changes after `place` from the primary. If `place` is undefined, starts at the earliest
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
