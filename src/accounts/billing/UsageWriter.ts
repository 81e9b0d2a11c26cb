/**
 * Writes usage to the database (D27, D29). One statement records a batch of requests and deletes the reservations of
 * the exports in it. The statement does not lock accounts. Later, the database function `settle_usage` adds the batches
 * to the daily sums and charges the accounts (`UsageSettlement.ts`). Until then, queries that read a balance or a sum
 * add the unsettled batches. Counts of requests refused with 429 are written by a separate statement, which updates the
 * daily sums immediately.
 */
import { Data, DateTime, Effect, Schema, Semaphore } from "effect"
import { SqlClient, SqlError, type Statement } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { isCheckViolation } from "../../postgres/SqlState.ts"
import { requestIdSuffix } from "../../contract/rules/RequestIds.ts"
import type { UsageColumns } from "./UsageColumns.ts"
import { countUsageWindows, type EncodedUsage, encodeUsage } from "./UsageEncoding.ts"
import { isSameKind, type RequestKind, type UsageRecord } from "./UsageRecord.ts"

/**
 * A batch of requests that is written by one statement, and its sequence numbers. A process numbers the five-second
 * windows of all batches consecutively.
 */
export interface UsageBatch {
  readonly rows: UsageColumns
  /**
   * The last sequence number of the previous batch. This batch uses the numbers from `after + 1` to `last`, one per
   * window.
   */
  readonly after: number
  /** The last sequence number of this batch. */
  readonly last: number
}

/** A row of `usage` that counts requests refused with 429 in one minute, with the counts before and after the write. */
export interface ThrottledRequestCount {
  readonly id: string
  /** The first throttled request. The row stores its request id, time and other details. */
  readonly row: UsageRecord
  /** The row's counts before the write, or zeros if the row does not exist yet. */
  readonly countsBefore: { readonly requests: number; readonly bytes: number }
  readonly countsAfter: { readonly requests: number; readonly bytes: number }
}

const dayMillis = 86_400_000

/**
 * Packing many requests takes several milliseconds, so other fibers may run after this much work. One unit is the time
 * for one request; each row takes as long as four requests.
 */
const maxWork = 500
const rowWork = 4

/**
 * Builds a function that creates the missing partitions of the usage tables for the given times (Unix times in
 * milliseconds) and then runs a write. If the write fails because a partition has been dropped in the meantime, creates
 * it again and repeats the write. PostgreSQL reports a missing partition as a check violation.
 */
const makePartitionedWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const daysWithPartition = new Set<number>()

  const createPartitions = Effect.fnUntraced(function* (times: Iterable<number>) {
    for (const time of times) {
      const day = Math.floor(time / dayMillis)
      if (daysWithPartition.has(day)) continue
      yield* sql`select create_usage_partition(${DateTime.formatIso(DateTime.makeUnsafe(time))}::text::timestamptz)`
      daysWithPartition.add(day)
    }
  })

  return <A, E>(times: Iterable<number>, write: Effect.Effect<A, E | SqlError.SqlError>) => {
    const attempt = Effect.andThen(createPartitions(times), write)
    return Effect.catchIf(attempt, (error) => SqlError.isSqlError(error) && isCheckViolation(error), () => {
      daysWithPartition.clear()
      return attempt
    })
  }
})

const WrittenBatch = Schema.Struct({ is_written: Schema.Boolean })
const Writer = Schema.Struct({ writer: Schema.Int })
const StoredKind = Schema.Struct({
  kind_id: Schema.Int,
  endpoint: Schema.String,
  status_code: Schema.Int,
  cached: Schema.Boolean,
  deprecated: Schema.Boolean,
  via: Schema.NullOr(Schema.Literal("mcp")),
  price_per_gb_microdollars: Schema.Finite,
})

/**
 * The database no longer has this process's row in `usage_writers`, or one of the request kinds that this process
 * stored. This can happen after a failover to a server that had not received them yet.
 */
class WriterLost extends Data.TaggedError("WriterLost")<{
  readonly message: string
  /** The writer number, if the database still has the writer row. */
  readonly writer?: number | undefined
}> {}

/** Returns SQL for a table `sent` that contains the given rows of `usage_request_kinds`. */
const makeReadKindsSql = (sql: SqlClient.SqlClient, kinds: ReadonlyArray<object>) =>
  sql`jsonb_populate_recordset(null::usage_request_kinds, ${JSON.stringify(kinds)}::text::jsonb) as sent`

/**
 * Builds functions that store request kinds in `usage_request_kinds` and look up their ids. A request kind is what many
 * requests have in common: the endpoint, the status, the price, whether the response was cached or deprecated, and
 * whether the request came through `/mcp`. `store` adds the kinds that the database lacks, and `find` then returns a
 * kind with its id.
 */
const makeRequestKindStore = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  /** All stored kinds that this process has loaded, grouped by endpoint. */
  let kinds = new Map<string, Array<typeof StoredKind.Type>>()
  const find = (wanted: RequestKind) => kinds.get(wanted.endpoint)?.find((kind) => isSameKind(kind, wanted))

  /** Stores the kinds that this process has not loaded yet, and then loads all kinds. */
  const store = Effect.fnUntraced(function* (needed: ReadonlyArray<RequestKind>) {
    const added = needed.filter((kind) => find(kind) === undefined)
    if (added.length === 0) return
    const columns = sql.literal("endpoint, status_code, cached, deprecated, via, price_per_gb_microdollars")
    const stored = yield* decodeRows(StoredKind)(sql`
      with added as (
        -- \`except\` makes conflicts rare. Each conflict would use up an id, and small ids take less space.
        insert into usage_request_kinds (${columns})
        select ${columns} from ${makeReadKindsSql(sql, added)} except select ${columns} from usage_request_kinds
        on conflict do nothing returning *
      )
      select kind_id, endpoint, status_code, cached, deprecated, via,
        price_per_gb_microdollars::float8 as price_per_gb_microdollars
      -- A statement does not see the rows that it inserts.
      from (select * from added union all select * from usage_request_kinds) as kind
    `)
    kinds = Map.groupBy(stored, ({ endpoint }) => endpoint)
  })

  /** Makes the next `store` load all kinds again. Called if the database has lost one of them. */
  const forgetAll = () => {
    kinds = new Map()
  }
  return { store, find, forgetAll }
})

/**
 * Returns a query that selects rows for `usage_batches`, without the writer number. Each row contains several requests
 * of one account (`EncodedUsage`). Each column is sent as one array, and PostgreSQL turns the arrays into rows.
 */
export const makePackedRowsSql = (sql: SqlClient.SqlClient, packed: ReadonlyArray<EncodedUsage>) => {
  const column = <Name extends keyof EncodedUsage>(name: Name, type: number) =>
    makeArrayParameter(packed.map((row) => row[name]), type)
  return sql`
    select
      unnest(${column("account_id", OID.float8)})::bigint as account_id,
      unnest(${column("moment", OID.timestamptz)}) as moment,
      unnest(${column("sequence", OID.int4)}) as sequence,
      unnest(${column("part", OID.int2)}) as part,
      unnest(${column("requests", OID.int2)}) as requests,
      unnest(${column("span_ms", OID.int4)}) as span_ms,
      unnest(${column("group_kinds", OID.bytea)}) as group_kinds,
      unnest(${column("group_keys", OID.bytea)}) as group_keys,
      unnest(${column("group_requests", OID.bytea)}) as group_requests,
      unnest(${column("group_bytes", OID.bytea)}) as group_bytes,
      unnest(${column("group_costs", OID.bytea)}) as group_costs,
      unnest(${column("groups", OID.bytea)}) as groups,
      unnest(${column("ages", OID.bytea)}) as ages,
      unnest(${column("records", OID.bytea)}) as records,
      unnest(${column("bytes", OID.bytea)}) as bytes,
      unnest(${column("costs", OID.bytea)}) as costs,
      unnest(${column("durations", OID.bytea)}) as durations,
      unnest(${column("id_numbers", OID.bytea)}) as id_numbers,
      unnest(${column("own_ids", OID.text)}) as own_ids
  `
}

const batchColumns = `account_id, moment, writer, sequence, part, requests, span_ms, group_kinds, group_keys,
  group_requests, group_bytes, group_costs, groups, ages, records, bytes, costs, durations, id_numbers, own_ids`

/**
 * Returns a statement that inserts the rows of `packed` for the writer in `numbered`. `packed` is a query from
 * `makePackedRowsSql`.
 */
export const makeInsertBatchesSql = (sql: SqlClient.SqlClient): Statement.Fragment =>
  sql.literal(`insert into usage_batches (${batchColumns}) select ${batchColumns} from packed cross join numbered`)

/** Packs the requests in a batch like `encodeUsage`, but regularly yields to other fibers. */
const packInSteps = Effect.fnUntraced(function* (rows: UsageColumns, after: number, kindIds: ReadonlyArray<number>) {
  const packed: Array<EncodedUsage> = []
  let work = 0
  for (const row of encodeUsage(rows, after, kindIds)) {
    packed.push(row)
    work += rowWork + row.requests
    if (work < maxWork) continue
    work = 0
    yield* Effect.yieldNow
  }
  return packed
})

interface BatchInsertion {
  readonly batch: UsageBatch
  /** This process's number in `usage_writers`. */
  readonly writer: number
  /** The stored kinds of the batch's requests, as this process knows them. */
  readonly kinds: ReadonlyArray<typeof StoredKind.Type>
  /** The query for the batch's rows, from `makePackedRowsSql`. */
  readonly packedSql: Statement.Fragment
}

/**
 * Returns the statement that writes a batch, unless it has already been written. It does all of this at once: it stores
 * in `usage_writers` that the batch is written, adds the rows to `usage_batches` and to the list of unsettled usage,
 * and deletes the reservations of the exports in the batch.
 *
 * The batch refers to its request kinds (`rows.kinds`) by the ids of the stored kinds (`kinds`, in SQL the table `sent`
 * from `makeReadKindsSql`). `has_kinds` says whether the database still has each of them, with the same id. All changes
 * depend on `numbered`, which has one row if the batch is to be written: `recorded` and `unsettled` join it, and
 * `given_back` tests whether it has a row.
 *
 * The result has one row: whether the batch is written now (`is_written`). It is false if the database has lost a
 * request kind. There is no row if the database has lost this process's row in `usage_writers`. After a failover,
 * another process may have the same number there, but its `id_suffix` differs.
 */
const makeWriteBatchSql = (sql: SqlClient.SqlClient, { batch, kinds, packedSql, writer }: BatchInsertion) => {
  const { last, rows } = batch
  const reservations = Array.from(rows.reservations.values())
  const givenBack = reservations.length === 0 ? sql.literal("") : sql`, given_back as (
        delete from balance_reservations where reservation_id = any(${makeArrayParameter(reservations, OID.uuid)})
          and exists (select from numbered)
      )`
  return sql`
      with locked as materialized (
        -- The lock waits for an earlier attempt to end, so written is up to date. has_kinds is false if a kind was lost
        -- in a failover, in which case its id may belong to another kind.
        select written, (
          select count(*) from ${makeReadKindsSql(sql, kinds)}
          join usage_request_kinds as kind using (kind_id) where kind is not distinct from sent
        ) = ${rows.kinds.length}::int as has_kinds
        from usage_writers where writer = ${writer}::int and id_suffix = ${requestIdSuffix} for no key update
      ), numbered as (
        -- Empty if the batch has already been written or cannot be written. The following parts then change nothing.
        update usage_writers set written = ${last}::int from locked
        where writer = ${writer}::int and locked.written < ${last}::int and has_kinds
        returning writer
      ), packed as materialized (
        ${packedSql}
      ), recorded as (
        ${makeInsertBatchesSql(sql)}
      ), unsettled as (
        insert into unsettled_usage (writer, sequence, first_at, last_at, account_ids)
        select writer, sequence, min(moment), max(moment), array_agg(distinct account_id)
        from packed cross join numbered group by writer, sequence
      )${givenBack}
      select written >= ${last}::int or has_kinds as is_written from locked
    `
}

/**
 * Builds functions that assign sequence numbers to a batch and write it. Writes are idempotent, even if an earlier
 * attempt succeeded without this process learning of it. Batches must be written one at a time, in ascending order of
 * their sequence numbers: the database stores only the last number written by each process, and skips batches up to
 * that number.
 */
export const makeUsageWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const withPartitions = yield* makePartitionedWriter
  const kinds = yield* makeRequestKindStore
  let writer: number | undefined
  let sequence = 0

  /** Assigns the next sequence numbers to these rows. */
  const makeBatch = (rows: UsageColumns): UsageBatch => {
    const after = sequence
    sequence += countUsageWindows(rows)
    return { rows, after, last: sequence }
  }

  /**
   * Registers this process in `usage_writers`, and returns its writer number. Only one attempt runs at a time, because
   * a process registered twice would write a batch twice.
   */
  const findWriter = Semaphore.makeUnsafe(1).withPermits(1)(Effect.gen(function* () {
    if (writer !== undefined) return writer
    const [added] = yield* decodeRows(Writer)(sql`
      insert into usage_writers (id_suffix) values (${requestIdSuffix}) returning writer
    `)
    writer = added?.writer
    return writer ?? (yield* new WriterLost({ message: "The process could not be registered." }))
  }))

  /**
   * Packs a batch and writes it with one statement. Fails with `WriterLost` if the database has lost the writer row or
   * a request kind.
   */
  const insert = Effect.fnUntraced(function* (batch: UsageBatch) {
    const { after, rows } = batch
    const writer = yield* findWriter
    yield* kinds.store(rows.kinds)
    const used = rows.kinds.flatMap((kind) => kinds.find(kind) ?? [])
    const packed = yield* packInSteps(rows, after, used.map(({ kind_id }) => kind_id))
    const packedSql = makePackedRowsSql(sql, packed)
    // Encoding the statement's parameters takes as long as packing the requests, so let other fibers run first.
    yield* Effect.yieldNow
    const [written] = yield* decodeRows(WrittenBatch)(
      makeWriteBatchSql(sql, { batch, writer, kinds: used, packedSql }),
    )
    if (written?.is_written === true) return
    kinds.forgetAll()
    return yield* new WriterLost({
      message: "The database has lost what this process had stored.",
      writer: written === undefined ? undefined : writer,
    })
  })

  /**
   * Writes a batch. If the database has lost the writer row or a kind, stores them again and repeats the write once.
   */
  const write = (batch: UsageBatch) =>
    Effect.catchTag(insert(batch), "WriterLost", (lost) => {
      writer = lost.writer
      return insert(batch)
    })
  return {
    makeBatch,
    write: (batch: UsageBatch) => withPartitions(batch.rows.times.subarray(0, batch.rows.length), write(batch)),
    /** Returns this process's writer number, or undefined before it has been registered. */
    getWriter: () => writer,
  }
})

/**
 * Builds a function that writes counts of throttled requests: it inserts or updates one row of `usage` per count, and
 * adds the additional requests to the daily sums. Its writes are idempotent. The requests cost nothing and return no
 * records, so those columns are 0.
 */
export const makeThrottledRequestCountWriter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const withPartitions = yield* makePartitionedWriter

  const write = (batch: ReadonlyArray<ThrottledRequestCount>) => {
    const floats = (get: (count: ThrottledRequestCount) => number) => makeArrayParameter(batch.map(get), OID.float8)
    const texts = (get: (count: ThrottledRequestCount) => string | null) => makeArrayParameter(batch.map(get), OID.text)
    // A row is updated only if its count is still `countsBefore`, so a retry does not count requests twice.
    return sql`
      with sent as materialized (
        select * from unnest(
          ${makeArrayParameter(batch.map(({ id }) => id), OID.uuid)},
          ${makeArrayParameter(batch.map(({ row }) => row.requested_at), OID.timestamptz)},
          ${floats(({ row }) => row.account_id)}::bigint[], ${floats(({ row }) => row.key_id)}::bigint[],
          ${texts(({ row }) => row.request_id)}, ${texts(({ row }) => row.endpoint)},
          ${floats(({ row }) => row.status_code)}::smallint[], ${floats(({ row }) => row.duration_ms)}::integer[],
          ${makeArrayParameter(batch.map(({ row }) => row.deprecated), OID.bool)}, ${texts(({ row }) => row.via)},
          ${floats(({ countsBefore }) => countsBefore.requests)}::bigint[], ${
      floats(({ countsBefore }) => countsBefore.bytes)
    }::bigint[],
          ${floats(({ countsAfter }) => countsAfter.requests)}::bigint[], ${
      floats(({ countsAfter }) => countsAfter.bytes)
    }::bigint[]
        ) as refused (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code, duration_ms,
          deprecated, via, requests_before, bytes_before, requests_after, bytes_after)
      ), locked as materialized (
        -- Locks accounts in a fixed order, to prevent deadlocks.
        select account_id from accounts where account_id in (select account_id from sent)
        order by account_id for no key update
      ), recorded as (
        insert into usage as existing (usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          records_returned, bytes, cost_microdollars, duration_ms, cached, deprecated, via, request_count)
        select usage_id, requested_at, account_id, key_id, request_id, endpoint, status_code,
          0, bytes_after, 0, duration_ms, false, deprecated, via, requests_after
        -- Always true, but makes PostgreSQL lock the accounts first.
        from sent where (select count(*) from locked) >= 0
        on conflict (account_id, requested_at, usage_id) do update
        set request_count = excluded.request_count, bytes = excluded.bytes
        where existing.request_count = (select requests_before from sent where sent.usage_id = excluded.usage_id)
        returning usage_id
      )
      -- Only rows that were written are added to the daily sums.
      select add_daily_sums(array_agg((
        account_id, (requested_at at time zone 'America/New_York')::date, endpoint, 'refused', 0,
        requests_after - requests_before, requests_after - requests_before, bytes_after - bytes_before, 0
      )::usage_sum))
      from sent join recorded using (usage_id)
    `
  }

  return (batch: ReadonlyArray<ThrottledRequestCount>) =>
    withPartitions(batch.map(({ row }) => row.requested_at), write(batch))
})
