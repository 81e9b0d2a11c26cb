/**
 * State of the ingest in PostgreSQL: its runs (`edgar_runs`), how far each company's filings have been ingested
 * (`edgar_progress`), cache validators of documents (`edgar_validators`), and copies of the ticker list
 * (`edgar_ticker_lists`).
 */
import { Clock, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import type { RowCells } from "../../../contract/Datasets.ts"
import type { CacheValidators } from "../fetch/EdgarClient.ts"

/** Status of a finished run. `incomplete` means that the run visited all companies but many documents failed. */
export type IngestRunStatus = "succeeded" | "incomplete" | "failed" | "interrupted"

/** The progress of the ingest for one company and one dataset: which of the company's filings have been ingested. */
export const IngestDatasetProgress = Schema.Struct({
  cik: Schema.String,
  dataset: Schema.String,
  /** First filing date that was ingested. */
  since: Schema.String,
  last_accession: Schema.NullOr(Schema.String),
  last_filing_date: Schema.NullOr(Schema.String),
  /**
   * Accession numbers of the filings in the week up to `last_filing_date`. Any other filing from that week is new,
   * because it was added to the SEC's list late.
   */
  recent_accessions: Schema.Array(Schema.String),
})
export type IngestDatasetProgress = typeof IngestDatasetProgress.Type

/** A run of the ingest, with the options that stay the same when it is resumed. */
const StoredIngestRun = Schema.Struct({
  run_id: Schema.Finite,
  /** Symbols of the companies to ingest; null if the run covers all companies. */
  tickers: Schema.NullOr(Schema.Array(Schema.String)),
  datasets: Schema.Array(Schema.String),
  /** First filing date to ingest, `YYYY-MM-DD`. */
  since: Schema.String,
})

type NewIngestRun = Omit<typeof StoredIngestRun.Type, "run_id"> & { readonly scheduled: boolean }

/** The ticker list from one day (`YYYY-MM-DD`). `entries` is the JSON text received from the SEC. */
const StoredTickerListCopy = Schema.Struct({ day: Schema.String, entries: Schema.String })
export type StoredTickerListCopy = typeof StoredTickerListCopy.Type

/** Number of days for which copies of the ticker list are stored. */
const keptTickerListDays = 30

const decodeIds = decodeRows(Schema.Struct({ run_id: Schema.Finite }))
const decodeRuns = decodeRows(StoredIngestRun)
const decodeProgress = decodeRows(IngestDatasetProgress)
const decodeCopies = decodeRows(StoredTickerListCopy)
const decodeValidators = decodeRows(
  Schema.Struct({ etag: Schema.NullOr(Schema.String), last_modified: Schema.NullOr(Schema.String) }),
)

const decodeCiks = decodeRows(Schema.Struct({ cik: Schema.String }))

/** Runs a query with a `cik` column and returns the set of its values. */
export const queryCiks = <E, R>(
  makeQuery: (sql: SqlClient.SqlClient) => Effect.Effect<ReadonlyArray<object>, E, R>,
) =>
  SqlClient.SqlClient.pipe(
    Effect.flatMap(makeQuery),
    decodeCiks,
    Effect.map((rows): ReadonlySet<string> => new Set(rows.map(({ cik }) => cik))),
  )

/** An SQL expression for the current time of `Clock`. Tests can control this time, unlike `now()`. */
export const currentTimeSql = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  return sql`to_timestamp(${now / 1000}::float8)`
})

/** Records a new run and returns its `run_id`. */
export const recordIngestRunStart = Effect.fnUntraced(
  function* ({ datasets, scheduled, since, tickers }: NewIngestRun) {
    const sql = yield* SqlClient.SqlClient
    const now = yield* currentTimeSql
    const [run] = yield* decodeIds(sql`
    insert into edgar_runs (scheduled, tickers, datasets, since, started_at)
    values (${scheduled}, ${tickers}::text[], ${datasets}::text[], ${since}::text::date, ${now})
    returning run_id::float8
  `)
    return run?.run_id ?? 0
  },
)

/** Marks an unfinished run as running again and returns its `run_id`. */
export const resumeIngestRun = Effect.fnUntraced(function* (runId: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    update edgar_runs set status = 'running', finished_at = null, error = null, seen_at = now()
    where run_id = ${runId}::float8
  `
  return runId
})

/** Records that the run's process is still alive. */
export const recordIngestRunHeartbeat = Effect.fnUntraced(function* (runId: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`update edgar_runs set seen_at = now() where run_id = ${runId}::float8`
})

/** Records the end of a run. `error` states why it failed or is incomplete, and is null otherwise. */
export const recordIngestRunEnd = Effect.fnUntraced(
  function* (runId: number, status: IngestRunStatus, error: string | null) {
    const sql = yield* SqlClient.SqlClient
    const now = yield* currentTimeSql
    yield* sql`
      update edgar_runs set status = ${status}, finished_at = ${now}, error = ${error}
      where run_id = ${runId}::float8
    `
  },
)

/** Adds the counts of a batch to those of the run: documents read, rows loaded, and documents and rows that failed. */
export const addIngestRunCounts = Effect.fnUntraced(
  function* (
    runId: number,
    { documents, rejections, rows }: {
      readonly documents: number
      readonly rows: number
      readonly rejections: number
    },
  ) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      update edgar_runs set documents = documents + ${documents}::float8, rows = rows + ${rows}::float8,
        rejections = rejections + ${rejections}::float8
      where run_id = ${runId}::float8
    `
  },
)

/**
 * Returns the newest run that failed, was interrupted, or was killed, so that it can be resumed. Returns undefined if
 * there is none. `scheduled` selects between runs of the schedule and runs that a person has started. Skips a run if a
 * later one covers the same companies and at least the same datasets.
 */
export const findUnfinishedIngestRun = Effect.fnUntraced(function* (scheduled: boolean) {
  const sql = yield* SqlClient.SqlClient
  const [run] = yield* decodeRuns(sql`
    select run_id::float8, tickers, datasets, since::text from edgar_runs as run
    where scheduled = ${scheduled} and status not in ('succeeded', 'incomplete') and not exists (
      select from edgar_runs as later where later.scheduled = run.scheduled and later.run_id > run.run_id
        and later.tickers is not distinct from run.tickers and later.datasets @> run.datasets
    )
    order by run_id desc limit 1
  `)
  return run
})

/** Reads the CIKs of companies whose documents this run has read and whose rows it has loaded. */
export const readCompaniesCompletedByRun = (runId: number) =>
  queryCiks((sql) => sql`select distinct cik from edgar_progress where run_id = ${runId}::float8`)

/** Reads the CIKs of companies whose filings have been ingested from `since` on for all of these datasets. */
export const readIngestedCompanies = (datasets: ReadonlyArray<string>, since: string) =>
  queryCiks((sql) =>
    sql`
    select cik from edgar_progress
    where dataset = any(${datasets}::text[]) and since <= ${since}::text::date
    group by cik having count(*) = ${datasets.length}::int
  `
  )

/**
 * Records the day through which the bulk archives that a run uses contain all filings. If a resumed run uses newer
 * archives, the earlier day remains, because the run has already read some companies from the older archives.
 */
export const recordArchiveDay = Effect.fnUntraced(function* (runId: number, day: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    update edgar_runs set archive_day = least(archive_day, ${day}::text::date) where run_id = ${runId}::float8
  `
})

/** Reads the CIKs of companies with an ingested filing dated after this day. */
export const readCompaniesWithFilingsAfter = (day: string) =>
  queryCiks((sql) => sql`select distinct cik from edgar_progress where last_filing_date > ${day}::text::date`)

/**
 * Returns the last day that the most recent run over all companies covers for these datasets. This is the day of the
 * run's archives or, without archives, the New York date on which it started.
 */
export const findLastRunDayOfAllCompanies = Effect.fnUntraced(function* (datasets: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* decodeRows(Schema.Struct({ day: Schema.String }))(sql`
    select coalesce(archive_day, (started_at at time zone 'America/New_York')::date)::text as day from edgar_runs
    where status in ('succeeded', 'incomplete') and tickers is null and datasets @> ${datasets}::text[]
    order by run_id desc limit 1
  `)
  return row?.day
})

/** Reads how far a company's filings have been ingested, by dataset. */
export const readIngestProgress = Effect.fnUntraced(function* (cik: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeProgress(sql`
    select cik, dataset, since::text, last_accession, last_filing_date::text, recent_accessions
    from edgar_progress where cik = ${cik}
  `)
  return new Map(rows.map((progress) => [progress.dataset, progress]))
})

/**
 * Stores how far this run has ingested the filings of companies: for each company and dataset, the first filing date
 * (`since`), the last filing, and the accession numbers of the filings in the week before it.
 */
export const saveIngestProgress = Effect.fnUntraced(
  function* (runId: number, progress: ReadonlyArray<IngestDatasetProgress>) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
    insert into edgar_progress
      (cik, dataset, since, last_accession, last_filing_date, recent_accessions, run_id)
    select cik, dataset, since, last_accession, last_filing_date,
      array(select jsonb_array_elements_text(recent_accessions)), ${runId}::float8
    from jsonb_to_recordset(${JSON.stringify(progress)}::text::jsonb) as progress (
      cik text, dataset text, since date, last_accession text, last_filing_date date, recent_accessions jsonb
    )
    on conflict (cik, dataset) do update set since = excluded.since, last_accession = excluded.last_accession,
      last_filing_date = excluded.last_filing_date, recent_accessions = excluded.recent_accessions,
      run_id = excluded.run_id
  `
  },
)

/**
 * Reads the validators of the last response for a document, which make the next request conditional. Returns undefined
 * if none are stored.
 */
export const readCacheValidators = Effect.fnUntraced(function* (url: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* decodeValidators(sql`select etag, last_modified from edgar_validators where url = ${url}`)
  return row === undefined ? undefined : { etag: row.etag, lastModified: row.last_modified }
})

/** Stores the validators (`ETag` and `Last-Modified`) of a response, if it has any. */
export const saveCacheValidators = Effect.fnUntraced(function* (url: string, { etag, lastModified }: CacheValidators) {
  const sql = yield* SqlClient.SqlClient
  if (etag === null && lastModified === null) return
  yield* sql`
    insert into edgar_validators (url, etag, last_modified) values (${url}, ${etag}, ${lastModified})
    on conflict (url) do update set etag = excluded.etag, last_modified = excluded.last_modified
  `
})

/** Reads the stored copies of the ticker list, oldest first. */
export const readTickerListCopies = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeCopies(sql`select day::text, entries from edgar_ticker_lists order by day`)
})

/** Stores the day's copy of the ticker list and deletes old copies. */
export const saveTickerListCopy = Effect.fnUntraced(
  function* ({ day, entries }: StoredTickerListCopy, rowCount: number) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
    insert into edgar_ticker_lists (day, row_count, entries) values (${day}::text::date, ${rowCount}::int, ${entries})
    on conflict (day) do update set row_count = excluded.row_count, entries = excluded.entries
  `
    yield* sql`delete from edgar_ticker_lists where day < ${day}::text::date - ${keptTickerListDays}::int`
  },
)

/**
 * Returns the symbol changes that are not yet in `ticker_changes`. A stored row counts as the same change if it has the
 * same two symbols and the same CIK or none, even if its date and status differ.
 */
export const excludeStoredTickerChanges = Effect.fnUntraced(function* (changes: ReadonlyArray<RowCells>) {
  const sql = yield* SqlClient.SqlClient
  // Returns the positions of the changes that are not stored, in the array `changes`. SQL counts from 1.
  const unknown = yield* decodeRows(Schema.Struct({ index: Schema.Finite }))(sql`
    select (ordinal - 1)::float8 as index
    from jsonb_array_elements(${JSON.stringify(changes)}::text::jsonb) with ordinality as inferred (change, ordinal)
    where not exists (
      select from ticker_changes as known
      where known.old_ticker = change ->> 'old_ticker' and known.new_ticker = change ->> 'new_ticker'
        and (known.cik is null or lpad(known.cik, 10, '0') = lpad(change ->> 'cik', 10, '0'))
    )
  `)
  const unknownIndexes = new Set(unknown.map(({ index }) => index))
  return changes.filter((_, index) => unknownIndexes.has(index))
})

/** A run started by the schedule (INGEST_EDGAR). */
const ScheduledRun = Schema.Struct({
  /** Start time in milliseconds since 1970. */
  started_at: Schema.Finite,
  /** End time in milliseconds since 1970. Null while the run is in progress, or if its process was killed. */
  finished_at: Schema.NullOr(Schema.Finite),
  status: Schema.String,
  /** The reason why the run failed or is incomplete; null otherwise. */
  error: Schema.NullOr(Schema.String),
})

/** Reads the newest run started by the schedule (INGEST_EDGAR). Returns undefined if there is none. */
export const readLastScheduledIngestRun = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [run] = yield* decodeRows(ScheduledRun)(sql`
    select extract(epoch from started_at)::float8 * 1000 as started_at,
      extract(epoch from finished_at)::float8 * 1000 as finished_at, status, error
    from edgar_runs where scheduled order by run_id desc limit 1
  `)
  return run
})

/** Metrics of all runs started by the schedule (INGEST_EDGAR). */
const ScheduledIngestMetrics = Schema.Struct({
  /** End of the last successful run, in seconds since 1970; 0 if none succeeded. */
  success_at: Schema.Finite,
  /**
   * Time at which the process of the current run was last known to be alive, in seconds since 1970; 0 if no run is in
   * progress.
   */
  seen_at: Schema.Finite,
  /** Total number of documents read by all runs. */
  documents: Schema.Finite,
  /** Total number of documents and rows that failed in all runs. */
  rejections: Schema.Finite,
})

/** Reads the metrics of scheduled runs for the service's `/metrics`, in a single row. */
export const readScheduledIngestMetrics = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(ScheduledIngestMetrics)(sql`
    select coalesce(extract(epoch from max(finished_at) filter (where status = 'succeeded')), 0)::float8 as success_at,
      coalesce(extract(epoch from
        (array_agg(seen_at order by run_id desc) filter (where status = 'running'))[1]), 0)::float8 as seen_at,
      coalesce(sum(documents), 0)::float8 as documents, coalesce(sum(rejections), 0)::float8 as rejections
    from edgar_runs where scheduled
  `)
})

/**
 * Marks the scheduled run that is still recorded as running as failed. Its process could not do so, for example because
 * it was killed.
 */
export const failRunningScheduledRun = Effect.fnUntraced(function* (error: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    update edgar_runs set status = 'failed', finished_at = now(), error = ${error}
    where scheduled and status = 'running'
  `
})
