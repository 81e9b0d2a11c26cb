/**
 * The queue of SEC documents that still have to be read (`edgar_work`). Either an earlier attempt to read the document
 * failed (decision 0105), or the document has been deferred: a first load reads all companies' filing lists before it
 * reads this kind of document (decision 0128). An entry is deleted in the transaction that loads the rows built from
 * its document.
 */
import { Clock, Duration, Effect, Schedule, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { doublingSchedule, getRetryDelay } from "../../../postgres/jobs/RetryDelay.ts"
import { currentTimeSql, queryCiks } from "./IngestState.ts"
import type { DocumentRejected } from "../fetch/DocumentRejected.ts"
import { findCikInUrl } from "../fetch/EdgarUrls.ts"
import type { IngestedDataset } from "../schedule/IngestedDatasets.ts"

/**
 * Version of the decoders in `read/`. Increase it when they accept more documents: the next run then requests all
 * documents again that an older version permanently rejected.
 */
const parserVersion = 1

/** A document, or one row of a dataset, that failed. It is queued and attempted again later. */
export interface SetAside {
  readonly rejection: DocumentRejected
  /** The dataset of the row that failed; empty if the whole document failed. */
  readonly dataset: string
  /**
   * `absent`: the SEC did not send the document, or the document does not yet contain everything expected.
   * `rejected`: the SEC sent the document, but it is damaged or its rows are invalid.
   */
  readonly kind: "absent" | "rejected"
}

/** The properties of a filing that are needed to read its form. They are stored with the queue entry. */
export const FormFiling = Schema.Struct({
  accession: Schema.String,
  form: Schema.String,
  fileNumber: Schema.NullOr(Schema.String),
  filingDate: Schema.String,
  acceptedAt: Schema.NullOr(Schema.DateTimeUtcFromString),
  primaryDocument: Schema.String,
})
export type FormFiling = typeof FormFiling.Type

/**
 * A document that is only queued when its company is visited. The run requests it after it has visited all companies.
 */
export interface DeferredDocument {
  readonly url: string
  /** The filing, if the document is an ownership form or belongs to a registration. Null for an XBRL instance. */
  readonly filing: FormFiling | null
}

/** A deferred document of an ownership form or a registration statement. */
const DeferredForm = Schema.Struct({
  url: Schema.String,
  cik: Schema.String,
  filing: Schema.fromJsonString(FormFiling),
})
export type DeferredForm = typeof DeferredForm.Type

/**
 * Identifies a queue entry: the URL of a document and, if only a single row built from it failed, the row's dataset.
 * `dataset` is empty if the entry concerns the whole document.
 */
const WorkKey = Schema.Struct({ url: Schema.String, dataset: Schema.String })
export type WorkKey = typeof WorkKey.Type

/**
 * The reason why a document is queued:
 *
 * - `form` and `instance`: it has been deferred without an attempt to read it.
 * - `decided`: it has been read, but must be read again because an operator has decided about one of its values.
 * - `absent` and `rejected`: it could not be read (see `SetAside.kind`).
 */
const WorkKind = Schema.Literals(["form", "instance", "decided", "absent", "rejected"])

/** A queue entry for a document of a company. */
const CompanyWork = Schema.Struct({
  ...WorkKey.fields,
  kind: WorkKind,
  /** Whether the time of the next attempt to read the document has come. */
  isDue: Schema.Boolean,
})
export type CompanyWork = typeof CompanyWork.Type

/** The failed attempts to read a document. Times are in milliseconds since 1970. */
interface Attempts {
  readonly attempts: number
  readonly firstFailedAt: number
}

const absentSchedule = doublingSchedule("1 hour", "3 days")

/**
 * Delays between attempts to read a document, by kind of failure. The delays double from 1 hour to at most 3 days. A
 * rejected document is given up after three attempts.
 */
const schedules = { absent: absentSchedule, rejected: Schedule.upTo(absentSchedule, { times: 2 }) }

/**
 * An absent document is given up after this many attempts, provided that the first one failed at least this long ago.
 */
const [minAbsences, minAbsence] = [10, Duration.days(14)]

/**
 * Returns when to request a document again after a failure, in milliseconds since 1970. Returns null if the document is
 * given up: its entry is then final, that is, it remains in the queue but is no longer requested.
 */
export const planNextTry = Effect.fnUntraced(
  function* (kind: SetAside["kind"], { attempts, firstFailedAt }: Attempts, now: number) {
    const isGivenUp = attempts >= minAbsences && now - firstFailedAt >= Duration.toMillis(minAbsence)
    const delay = isGivenUp ? undefined : yield* getRetryDelay(schedules[kind], attempts)
    return delay === undefined ? null : now + Duration.toMillis(delay)
  },
)

/** A row of `edgar_work` for a failed document. `next_try_at` is null if the entry is final. */
const StoredWork = Schema.Struct({
  ...WorkKey.fields,
  reason: Schema.String,
  kind: WorkKind,
  attempts: Schema.Finite,
  next_try_at: Schema.NullOr(Schema.Finite),
  first_failed_at: Schema.Finite,
})

const decodeStored = decodeRows(StoredWork)
const decodeCompanyWork = decodeRows(CompanyWork)
const decodeUrls = decodeRows(Schema.Struct({ url: Schema.String }))
const decodeForms = decodeRows(DeferredForm)
const decodeCounts = decodeRows(Schema.Struct({ cik: Schema.String, count: Schema.Finite }))

/** Returns the key of a queue entry as text, for use in maps and sets. */
const formatKey = ({ dataset, url }: WorkKey) => `${url} ${dataset}`

/**
 * Returns the number of failed attempts, the time of the first one, and the time of the next attempt for a document
 * that has just failed. `known` is its queue entry, if there is one.
 *
 * The count restarts at 1 if the kind of failure has changed, or if the entry was final and the reason has changed. For
 * example, company facts that were given up because they lacked one report may now lack a newer one. A failure before
 * the next attempt is due does not count; otherwise, several runs within an hour would use up all attempts.
 */
const countAttempt = Effect.fnUntraced(function* (
  { kind, rejection: { reason } }: SetAside,
  known: typeof StoredWork.Type | undefined,
  now: number,
) {
  const isSame = known?.kind === kind && (known.next_try_at !== null || known.reason === reason)
  const { attempts, first_failed_at: firstFailedAt, next_try_at: nextTryAt } = isSame
    ? known
    : { attempts: 0, first_failed_at: now, next_try_at: null }
  if (nextTryAt !== null && nextTryAt > now) return { attempts, firstFailedAt, nextTryAt }
  const next: Attempts = { attempts: attempts + 1, firstFailedAt }
  return { ...next, nextTryAt: yield* planNextTry(kind, next, now) }
})

/**
 * Queues documents and rows that failed, with the time of the next attempt. If they are already queued, counts another
 * failed attempt.
 */
const addFailedWork = Effect.fnUntraced(function* (setAside: ReadonlyArray<SetAside>) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const urls = setAside.map(({ rejection: { url } }) => url)
  const stored = yield* decodeStored(sql`
    select url, dataset, reason, kind, attempts::float8, extract(epoch from next_try_at)::float8 * 1000 as next_try_at,
      extract(epoch from first_failed_at)::float8 * 1000 as first_failed_at
    from edgar_work
    where reason is not null and url in (select jsonb_array_elements_text(${JSON.stringify(urls)}::text::jsonb))
  `)
  const storedByKey = new Map(stored.map((work) => [formatKey(work), work]))
  // `attempt` contains the number of attempts, the time of the first failure, and the time of the next attempt.
  const rows = yield* Effect.forEach(setAside, (failed) => {
    const { dataset, kind, rejection: { reason, url } } = failed
    return Effect.map(
      countAttempt(failed, storedByKey.get(formatKey({ url, dataset })), now),
      (attempt) => ({ url, dataset, cik: findCikInUrl(url), reason, kind, ...attempt }),
    )
  })
  // A single statement cannot update a row twice.
  const unique = Array.from(new Map(rows.map((row) => [formatKey(row), row])).values())
  yield* sql`
    insert into edgar_work (
      url, dataset, cik, reason, kind, attempts, next_try_at, first_failed_at, last_failed_at, parser_version
    )
    select url, dataset, cik, reason, kind, attempts,
      to_timestamp("nextTryAt" / 1000), to_timestamp("firstFailedAt" / 1000),
      to_timestamp(${now / 1000}::float8), ${parserVersion}::int
    from jsonb_to_recordset(${JSON.stringify(unique)}::text::jsonb) as work (
      url text, dataset text, cik text, reason text, kind text, attempts int, "nextTryAt" float8, "firstFailedAt" float8
    )
    on conflict (url, dataset) do update set cik = excluded.cik, reason = excluded.reason, kind = excluded.kind,
      filing = null, attempts = excluded.attempts, next_try_at = excluded.next_try_at,
      first_failed_at = excluded.first_failed_at, last_failed_at = excluded.last_failed_at,
      parser_version = excluded.parser_version
  `
})

/**
 * Queues documents that are to be read later in the run. Existing entries of the same documents, which may have failed
 * attempts, do not change.
 */
const addDeferredWork = Effect.fnUntraced(function* (deferred: ReadonlyArray<DeferredDocument>) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* currentTimeSql
  const rows = deferred.map((document) => ({ ...document, cik: findCikInUrl(document.url) }))
  yield* sql`
    insert into edgar_work (url, cik, kind, filing, next_try_at, parser_version)
    select url, cik, case when filing is null then 'instance' else 'form' end, filing, ${now}, ${parserVersion}::int
    from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) as deferred (url text, cik text, filing jsonb)
    on conflict do nothing
  `
})

/**
 * Updates the queue: deletes the entries in `done` unless they are also in `setAside`, and adds documents and rows that
 * failed (`setAside`) or were deferred.
 */
export const updateWork = Effect.fnUntraced(
  function* (
    done: ReadonlyArray<WorkKey>,
    setAside: ReadonlyArray<SetAside>,
    deferred: ReadonlyArray<DeferredDocument> = [],
  ) {
    const sql = yield* SqlClient.SqlClient
    const failed = new Set(setAside.map(({ dataset, rejection: { url } }) => formatKey({ url, dataset })))
    const deleted = done.filter((key) => !failed.has(formatKey(key)))
    if (deleted.length > 0) {
      yield* sql`
        delete from edgar_work
        where (url, dataset) in (
          select url, dataset
          from jsonb_to_recordset(${JSON.stringify(deleted)}::text::jsonb) as done (url text, dataset text)
        )
      `
    }
    if (setAside.length > 0) yield* addFailedWork(setAside)
    if (deferred.length > 0) yield* addDeferredWork(deferred)
  },
)

/**
 * Reads a company's queue entries, except deferred forms (see `readDeferredForms`). With `ignoresDelays`, every entry
 * that is not final counts as due, so that a run over selected companies requests everything that is missing.
 */
export const readCompanyWork = Effect.fnUntraced(function* (cik: string, ignoresDelays: boolean) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* currentTimeSql
  return yield* decodeCompanyWork(sql`
    select url, dataset, kind,
      next_try_at is not null and (${ignoresDelays}::boolean or next_try_at <= ${now}) as "isDue"
    from edgar_work where cik = ${cik} and kind <> 'form'
  `)
})

/** Reads the CIKs of companies with a queue entry of one of these kinds that is due. */
export const readCompaniesWithDueWork = (...kinds: ReadonlyArray<typeof WorkKind.Type>) =>
  Effect.flatMap(currentTimeSql, (now) =>
    queryCiks((sql) =>
      sql`
      select distinct cik from edgar_work
      where cik is not null and kind = any(${kinds}::text[]) and next_try_at <= ${now}
    `
    ))

/**
 * SQL condition for deferred ownership forms and registration statements that belong to these datasets. Registration
 * statements, such as S-1 or F-3, belong to `registrations`, and all others to `ownership`.
 */
const isFormOf = (sql: SqlClient.SqlClient, datasets: ReadonlyArray<IngestedDataset>) =>
  sql`
    kind = 'form' and
      case when filing ->> 'form' ~ '^[SF]-' then 'registrations' else 'ownership' end = any(${datasets}::text[])
  `

/** Counts the deferred ownership forms and registration statements that belong to these datasets, by company. */
export const countDeferredForms = Effect.fnUntraced(function* (datasets: ReadonlyArray<IngestedDataset>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeCounts(sql`
    select cik, count(*)::float8 as count from edgar_work where ${isFormOf(sql, datasets)} group by cik
  `)
  return new Map(rows.map(({ cik, count }) => [cik, count]))
})

/**
 * Reads up to `limit` deferred ownership forms and registration statements of these companies that belong to these
 * datasets, newest first.
 */
export const readDeferredForms = Effect.fnUntraced(
  function* (ciks: ReadonlyArray<string>, datasets: ReadonlyArray<IngestedDataset>, limit: number) {
    const sql = yield* SqlClient.SqlClient
    return yield* decodeForms(sql`
      select url, cik, filing::text from edgar_work where cik = any(${ciks}::text[]) and ${isFormOf(sql, datasets)}
      order by filing ->> 'filingDate' desc, filing ->> 'accession' desc, cik limit ${limit}::int
    `)
  },
)

/** Reads the URLs of due documents that do not belong to a company: daily indexes and the ticker list. */
export const readDueWorkWithoutCompany = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = yield* currentTimeSql
  const rows = yield* decodeUrls(sql`select distinct url from edgar_work where cik is null and next_try_at <= ${now}`)
  return rows.map(({ url }) => url)
})

/** Makes all entries that meet an SQL condition due now, and resets their number of attempts. */
const requeueWork = Effect.fnUntraced(
  function* (makeCondition: (sql: SqlClient.SqlClient) => Statement.Fragment) {
    const sql = yield* SqlClient.SqlClient
    const now = yield* currentTimeSql
    yield* sql`update edgar_work set next_try_at = ${now}, attempts = 0 where ${makeCondition(sql)}`
  },
)

/**
 * Makes the entries due that an older version of the decoders has given up, because the current version may accept
 * their documents.
 */
export const requeueWorkOfOlderParsers = requeueWork((sql) =>
  sql`next_try_at is null and parser_version < ${parserVersion}::int`
)

/**
 * Makes all queue entries due, including those that were given up. If `ciks` is not null, only entries of these
 * companies become due.
 */
export const requeueAllWork = (ciks: ReadonlyArray<string> | null) =>
  requeueWork((sql) => sql`${ciks}::text[] is null or cik = any(${ciks}::text[])`)

/**
 * Queues a document to be read again although it has been read successfully, because the rows built from it depend on
 * something that has changed, such as an operator's decision.
 */
export const requeueDocument = Effect.fnUntraced(function* (url: string) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* currentTimeSql
  yield* sql`
    insert into edgar_work (url, cik, kind, next_try_at, parser_version)
    values (${url}, ${findCikInUrl(url) ?? null}, 'decided', ${now}, ${parserVersion}::int)
    on conflict (url, dataset) do update set next_try_at = excluded.next_try_at
  `
})

/** A document that could not be read, as presented to operators. */
const FailedDocument = Schema.Struct({
  url: Schema.String,
  /** Datasets whose rows failed; empty if the whole document failed. */
  datasets: Schema.Array(Schema.String),
  cik: Schema.NullOr(Schema.String),
  reason: Schema.String,
  attempts: Schema.Finite,
  /**
   * Time of the next attempt; null if the entry is final. This time and those below are in UTC, such as
   * `2026-06-15T02:15:00Z`.
   */
  next_try_at: Schema.NullOr(Schema.String),
  first_failed_at: Schema.String,
  last_failed_at: Schema.String,
})

/** Returns SQL that formats a timestamp in UTC, such as `2026-06-15T02:15:00Z`. */
const formatTimeInSql = (expression: string) =>
  `to_char(${expression} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`

/** Lists the documents that could not be read, oldest first. */
export const listWork = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(FailedDocument)(sql`
    select url, coalesce(array_agg(dataset order by dataset) filter (where dataset <> ''), '{}') as datasets,
      min(cik) as cik, min(reason) as reason, max(attempts)::float8 as attempts,
      ${sql.literal(formatTimeInSql("min(next_try_at)"))} as next_try_at,
      ${sql.literal(formatTimeInSql("min(first_failed_at)"))} as first_failed_at,
      ${sql.literal(formatTimeInSql("max(last_failed_at)"))} as last_failed_at
    from edgar_work where reason is not null group by url order by min(edgar_work.first_failed_at), url
  `)
})

/** The number of failed documents in the queue. */
const WorkSize = Schema.Struct({
  /** Number of failed documents that will be requested again. */
  waiting: Schema.Finite,
  /** Number of failed documents that will not be requested again. */
  final: Schema.Finite,
  /** Time since the earliest failure among the waiting documents, in hours; null if no document is waiting. */
  oldest_hours: Schema.NullOr(Schema.Finite),
})

/**
 * Reads the number of failed documents in the queue. Deferred documents, which have not been attempted yet, do not
 * count.
 */
export const readWorkSize = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [size = { waiting: 0, final: 0, oldest_hours: null }] = yield* decodeRows(WorkSize)(sql`
    select (count(distinct url) filter (where next_try_at is not null))::float8 as waiting,
      (count(distinct url) filter (where next_try_at is null))::float8 as final,
      floor(extract(epoch from now() - min(first_failed_at) filter (where next_try_at is not null)) / 3600)::float8
        as oldest_hours
    from edgar_work where reason is not null
  `)
  return size
})
