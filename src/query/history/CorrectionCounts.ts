/**
 * Counts the changes in the feed for each dataset: how many rows were corrected, how late, and in which fields
 * (docs/decisions/0118-counts-of-corrections.md). A background job maintains the counts, and requests read them.
 */
import { Array, Context, Duration, Effect, Exit, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { decodePositionalRows, decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job } from "../../postgres/jobs/Job.ts"
import { makeHistoryTimestampSql } from "../../contract/rules/Dates.ts"
import { changeFeedDatasets, changeKinds, parseChangeFeedStart } from "../../contract/endpoints/changes.ts"
import {
  classifyCorrectionDelay,
  type CorrectionDelayClass,
  correctionDelayClasses,
  CorrectionsResponse,
} from "../../contract/endpoints/corrections.ts"
import { allChangesFilter, type ChangeFeedPage, ChangeFeedReader, type RowChangeSummary } from "./ChangeFeed.ts"
import { describeFailure } from "../../postgres/FailureText.ts"

// ---------------------------------------------------------------------------------------------------------------------
// Counting
// ---------------------------------------------------------------------------------------------------------------------

/** Maximum number of changes that one statement counts. */
const maxBatch = 1_000

const decodeCountingPosition = decodeRows(Schema.Struct({ cursor: Schema.NullOr(Schema.String) }))
const decodeCounted = decodeRows(Schema.Struct({ counted: Schema.Boolean }))

/**
 * Counts equal keys. Returns JSON for `jsonb_to_recordset`: each distinct key, with its count in the field `number`.
 */
const countKeys = <A extends object>(keys: ReadonlyArray<A>) => {
  const groups = Object.values(Array.groupBy(keys, (key) => JSON.stringify(key)))
  return JSON.stringify(groups.map((group) => ({ ...group[0], number: group.length })))
}

/** Counts the changes by dataset, day, kind and delay. Changes that are not corrections have an empty delay. */
const countChanges = (changes: ReadonlyArray<RowChangeSummary>) =>
  countKeys(changes.map(({ correction, dataset, kind, recordedAt }) => ({
    dataset,
    day: recordedAt.slice(0, 10),
    kind,
    delay: correction === undefined ? "" : classifyCorrectionDelay(correction.delaySeconds),
  })))

/** Counts the corrections by dataset, month and corrected field. */
const countFields = (changes: ReadonlyArray<RowChangeSummary>) =>
  countKeys(
    changes.flatMap(({ correction, dataset, recordedAt }) =>
      (correction?.changed ?? []).map((field) => ({ dataset, month: `${recordedAt.slice(0, 7)}-01`, field }))
    ),
  )

/**
 * Adds the counts of a page's changes to the tables `history.change_counts` and `history.corrected_fields`, and moves
 * the counting position in `history.counting_place` from `cursor` to the end of the page. Returns false, without having
 * changed anything, if another process has already moved the position.
 *
 * All of this is a single statement, so no change is counted twice or lost, even if two processes run it at the same
 * time.
 */
const addPageCounts = Effect.fnUntraced(function* (page: ChangeFeedPage<RowChangeSummary>, cursor: string | null) {
  const sql = yield* SqlClient.SqlClient
  // `advanced` has a row if this statement advanced the cursor, and none if another process had already done so. In
  // that case the CTEs that insert rows insert nothing. `counted` holds the counts to add, and `stored` the existing
  // rows that they are added to.
  const [result] = yield* decodeCounted(sql`
    with advanced as (
      update history.counting_place set cursor = ${page.cursor}::text,
        counted_until = coalesce(${page.changes.at(-1)?.recordedAt ?? null}::text::timestamptz, counted_until)
      where cursor is not distinct from ${cursor}::text
      returning true
    ), changes as (
      insert into history.change_counts as stored (dataset, day, kind, delay, changes)
      select * from jsonb_to_recordset(${countChanges(page.changes)}::text::jsonb)
        as counted (dataset text, day date, kind text, delay text, number bigint)
      where exists (select from advanced)
      on conflict (dataset, day, kind, delay) do update set changes = stored.changes + excluded.changes
    ), fields as (
      insert into history.corrected_fields as stored (dataset, month, field, corrections)
      select * from jsonb_to_recordset(${countFields(page.changes)}::text::jsonb)
        as counted (dataset text, month date, field text, number bigint)
      where exists (select from advanced)
      on conflict (dataset, month, field) do update set corrections = stored.corrections + excluded.corrections
    )
    select exists (select from advanced) as counted
  `)
  return result?.counted === true
})

/**
 * Counts up to `limit` changes in the feed, beginning after the last change that any process has counted.
 * Returns whether there may be more changes to count. Also returns false if another process has counted the same
 * changes in the meantime, because that process continues.
 *
 * `history.counting_place` has one row with the cursor after the last counted change (null if nothing has been counted
 * yet).
 */
export const countNextFeedChanges = Effect.fnUntraced(function* (limit = maxBatch) {
  const sql = yield* SqlClient.SqlClient
  const { summarizePage } = yield* ChangeFeedReader
  const [counting] = yield* decodeCountingPosition(sql`select cursor from history.counting_place`)
  if (counting === undefined) return yield* Effect.die(new Error("history.counting_place has no row"))
  const { cursor } = counting
  // Without a cursor, the page starts at the earliest change in the history. The same happens if the history no longer
  // contains the changes after the cursor: those that have been dropped remain uncounted.
  const page = yield* summarizePage(cursor === null ? undefined : parseChangeFeedStart(cursor), allChangesFilter, limit)
    .pipe(
      Effect.catchTag("CursorExpired", ({ error }) =>
        Effect.andThen(
          Effect.logWarning(`The counts of corrections lack changes before ${error.details.earliest}.`),
          summarizePage(undefined, allChangesFilter, limit),
        )),
    )
  // Nothing was added to the feed since the last count.
  if (page.cursor === cursor) return false
  const isCounted = yield* addPageCounts(page, cursor)
  return page.hasMore && isCounted
})

const countAllChanges = Effect.suspend(() => countNextFeedChanges()).pipe(
  Effect.repeat({ while: (hasMore) => hasMore }),
  Effect.asVoid,
  Effect.mapError((error) => ({ message: describeFailure(error) })),
)

/**
 * Counts new changes in the feed. Continues where the last run ended, even if that run failed or was in another
 * process.
 */
export const correctionCountsJob = {
  name: "corrections",
  every: Duration.minutes(1),
  prepare: () => Effect.succeedSome(countAllChanges),
} satisfies Job<never, ChangeFeedReader | SqlClient.SqlClient>

// ---------------------------------------------------------------------------------------------------------------------
// Reading
// ---------------------------------------------------------------------------------------------------------------------

/**
 * The result row of `countsQuery`: when counting began, the time of the last counted change, the number of changes by
 * dataset, kind and delay, and the number of corrections by dataset and field.
 */
const Counts = Schema.Struct({
  since: CorrectionsResponse.fields.since,
  counted_until: CorrectionsResponse.fields.counted_until,
  changes: Schema.Array(Schema.Struct({
    dataset: Schema.String,
    kind: Schema.Literals(changeKinds),
    delay: Schema.Literals(["", ...correctionDelayClasses]),
    total: Schema.Int,
    last_30_days: Schema.Int,
  })),
  fields: Schema.Array(
    Schema.Struct({ dataset: Schema.String, field: Schema.String, corrections: Schema.Int }),
  ),
})

const decodeCounts = decodePositionalRows(Counts)

/**
 * Selects one row (`Counts`): the times in `history.counting_place`, and two JSON arrays with the sums of
 * `history.change_counts` and `history.corrected_fields`. Days are those at UTC-05:00, which is Etc/GMT+5.
 */
const countsQuery = `
  select ${makeHistoryTimestampSql("since")}, ${makeHistoryTimestampSql("counted_until")},
    (
      select coalesce(jsonb_agg(counted), '[]') from (
        select dataset, kind, delay, sum(changes) as total, coalesce(sum(changes) filter (
          where day > (now() at time zone 'Etc/GMT+5')::date - 30
        ), 0) as last_30_days
        from history.change_counts group by dataset, kind, delay
      ) as counted
    ),
    (
      select coalesce(jsonb_agg(counted order by corrections desc, field), '[]') from (
        select dataset, field, sum(corrections) as corrections from history.corrected_fields group by dataset, field
      ) as counted
    )
  from history.counting_place`

/** How long a process reuses the counts that it has read from the database. Failed reads are not cached. */
const ttl = Duration.seconds(5)

/**
 * Adds up a dataset's counts for the last 30 days or for all time. Each entry of `changes` counts the changes of one
 * kind (`added`, `corrected` or `removed`). Corrections have one entry per delay class, which tells how late they were.
 * So a delay class needs no addition, and all of them add up to `corrected`.
 */
const summarizeCounts = (changes: typeof Counts.Type["changes"], period: "last_30_days" | "total") => {
  const count = (kind: string) => changes.reduce((sum, change) => change.kind === kind ? sum + change[period] : sum, 0)
  const countDelay = (delay: CorrectionDelayClass) => changes.find((change) => change.delay === delay)?.[period] ?? 0
  return {
    added: count("added"),
    corrected: count("corrected"),
    removed: count("removed"),
    delays: {
      within_hour: countDelay("within_hour"),
      within_day: countDelay("within_day"),
      within_week: countDelay("within_week"),
      within_30_days: countDelay("within_30_days"),
      later: countDelay("later"),
      unknown: countDelay("unknown"),
    },
  }
}

/**
 * Creates the reader of the counts that the job `correctionCountsJob` maintains. It reads all datasets with one
 * statement, and reuses the result for `ttl`.
 */
const makeCorrectionCountReader = Effect.gen(function* () {
  const reader = yield* DatabaseReader

  /** Reads the counts. Returns one result per dataset in the feed, even if none of its rows has changed. */
  const readCounts = Effect.gen(function* () {
    const [counts] = yield* decodeCounts(
      reader.read(
        { text: countsQuery, parameters: [], isPrepared: false },
        { partition: "corrections", from: "primary" },
      ),
    )
    if (counts === undefined) return yield* Effect.die(new Error("history.counting_place has no row"))
    const { changes, counted_until, fields, since } = counts
    const results = changeFeedDatasets.map((dataset) => {
      const datasetChanges = changes.filter((change) => change.dataset === dataset)
      return {
        dataset,
        last_30_days: summarizeCounts(datasetChanges, "last_30_days"),
        total: summarizeCounts(datasetChanges, "total"),
        fields: fields.filter((counted) => counted.dataset === dataset)
          .map(({ corrections, field }) => ({ field, corrections })),
      }
    })
    return { count: results.length, results, since, counted_until }
  })

  const read = yield* Effect.cachedWithTTL(readCounts, (exit) => Exit.isSuccess(exit) ? ttl : Duration.zero)
  return {
    /** Returns the counts for all datasets. They may be a few seconds old. */
    read,
  }
})

/** Reads the counts of changes and corrections. */
export class CorrectionCountReader
  extends Context.Service<CorrectionCountReader, Effect.Success<typeof makeCorrectionCountReader>>()(
    "tickerline/query/CorrectionCountReader",
  ) {
  static readonly layer = Layer.effect(CorrectionCountReader, makeCorrectionCountReader)
}
