/**
 * A load first fills a table in the schema `loading`. This table then replaces the dataset's table in one transaction,
 * or its rows are merged into the dataset's table (D31, load).
 */
import { Array, Console, Effect, Schedule, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { tableLoadLockName, tableSwapLockName } from "../db/AdvisoryLocks.ts"
import { arrayParameter, OID } from "../db/ArrayParameters.ts"
import { isLockTimeout } from "../db/SqlState.ts"
import type { LoadableDataset } from "./Datasets.ts"
import type { RowCells } from "./FileReader.ts"
import type { ValidRow } from "./RowValidation.ts"

export interface LoadColumn {
  readonly name: string
  /** The PostgreSQL type, such as `numeric(18,4)`. */
  readonly type: string
  readonly is_list: boolean
  readonly is_nullable: boolean
  /** The default as an SQL expression. */
  readonly default_value: string | null
}

/** Reads a table's columns that accept values. */
export const readTableColumns = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<LoadColumn>`
    select attname as name, format_type(atttypid, atttypmod) as type, atttypid::regtype::text like '%[]' as is_list,
      not attnotnull as is_nullable, pg_get_expr(adbin, adrelid) as default_value
    from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
      and attgenerated = '' and attidentity <> 'a'
    order by attnum
  `
})

/** Waits until no other load of the table is running. Disables the session's timeouts, which are meant for reads. */
export const acquireLoadLock = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local lock_timeout = 0`
  const [attempt] = yield* sql<
    { readonly acquired: boolean }
  >`select pg_try_advisory_xact_lock(hashtext(${tableLoadLockName(table)})) as acquired`
  if (attempt?.acquired === true) return
  yield* Console.error(`Another load of ${table} is running. Waiting for it to finish.`)
  yield* sql`select pg_advisory_xact_lock(hashtext(${tableLoadLockName(table)}))`
})

/** Runs the statements that a query of PostgreSQL's catalogs generates. */
const runGenerated = Effect.fnUntraced(
  function* (generated: Effect.Effect<ReadonlyArray<{ readonly statement: string }>, SqlError.SqlError>) {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.forEach(yield* generated, ({ statement }) => sql.unsafe(statement), { discard: true })
  },
)

/**
 * Creates an empty copy of the table with its triggers, which count the load as a change (D17, caching), and with its
 * constraints. A constraint that is `not valid` on the original table is checked for every loaded row.
 */
export const createReplacementTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    create table ${sql("loading")}.${sql(table)} (like ${sql("public")}.${sql(table)} including all excluding indexes)
  `
  yield* runGenerated(sql`
    select format('alter table loading.%I add constraint %I %s', ${table}::text, conname, pg_get_constraintdef(oid))
      as statement
    from pg_constraint where conrelid = ${`public.${table}`}::regclass and contype in ('p', 'u')
  `)
  yield* runGenerated(sql`
    select regexp_replace(pg_get_triggerdef(oid), ' ON public\\.', ' ON loading.') as statement
    from pg_trigger where tgrelid = ${`public.${table}`}::regclass and not tgisinternal
    union all
    select format('alter table loading.%I %s trigger %I', ${table}::text,
      case tgenabled when 'A' then 'enable always' when 'R' then 'enable replica' when 'D' then 'disable' end, tgname)
    from pg_trigger where tgrelid = ${`public.${table}`}::regclass and not tgisinternal and tgenabled <> 'O'
  `)
})

/** Creates an empty table for rows to merge. It has no triggers, and columns with a default accept null. */
export const createStagingTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    create unlogged table ${sql("loading")}.${sql(table)} (like ${sql("public")}.${sql(table)} including constraints)
  `
  yield* runGenerated(sql`
    select format('alter table loading.%I alter %I drop not null', ${table}::text, attname) as statement
    from pg_attribute
    where attrelid = ${`public.${table}`}::regclass and atthasdef and attnotnull and attgenerated = ''
  `)
})

/** The column for the line of a row in the file, in a table for incomplete rows. */
export const lineColumn: LoadColumn = {
  name: "line in the file",
  type: "bigint",
  is_list: false,
  is_nullable: true,
  default_value: null,
}

/** Like `createStagingTable`, for rows of a file that omits columns: every column accepts null. */
export const createIncompleteStagingTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`create unlogged table ${sql("loading")}.${sql(table)} (like ${sql("public")}.${sql(table)})`
  yield* sql`
    alter table ${sql("loading")}.${sql(table)} add column ${sql(lineColumn.name)} ${sql.literal(lineColumn.type)}
  `
  yield* runGenerated(sql`
    select format('alter table loading.%I alter %I drop not null', ${table}::text, attname) as statement
    from pg_attribute
    where attrelid = ${`public.${table}`}::regclass and attnum > 0 and attnotnull and attgenerated = ''
  `)
})

/** Drops the table that `createStagingTable` created. */
export const dropStagingTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`drop table ${sql("loading")}.${sql(table)}`
})

/** Adds a unique constraint on the dataset's key to the table in `loading`, unless it already has one. */
export const ensureUniqueKey = Effect.fnUntraced(function* ({ key, table }: LoadableDataset) {
  const sql = yield* SqlClient.SqlClient
  const indexes = yield* sql<{ readonly columns: ReadonlyArray<string> }>`
    select array_agg(attname::text) as columns
    from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey::int2[])
    where indrelid = ${`loading.${table}`}::regclass and indisunique and indpred is null and indexprs is null
    group by indexrelid
  `
  const keyColumns = new Set(key)
  if (indexes.some(({ columns }) => keyColumns.symmetricDifference(new Set(columns)).size === 0)) return
  const names = key.map((name) => `"${name}"`).join(", ")
  yield* sql.unsafe(`alter table loading."${table}" add unique nulls not distinct (${names})`)
})

const encodeCell = (cell: RowCells[string]) =>
  cell === undefined || cell === null ? null : typeof cell === "string" ? cell : JSON.stringify(cell)

const quoteColumns = (names: ReadonlyArray<string>) => names.map((name) => `"${name}"`).join(", ")

const qualifyColumns = (alias: string, names: ReadonlyArray<string>) =>
  names.map((name) => `${alias}."${name}"`).join(", ")

/** SQL that converts a cell's text to the type of its column. */
const convertCell = ({ default_value, is_list, name, type }: LoadColumn) => {
  const value = is_list
    ? `case when "${name}" is not null then array(select jsonb_array_elements_text("${name}"::jsonb)) end`
    : `"${name}"::${type}`
  return default_value === null ? value : `coalesce(${value}, ${default_value})`
}

/**
 * Returns a function that inserts a batch of rows, with one array parameter per column. If rows have the same key, the
 * last one wins (D22, corrections). Counts added keys, rows superseded by a later row, and dropped identical rows.
 */
export const makeRowInserter = Effect.fnUntraced(
  function* (target: string, columns: ReadonlyArray<LoadColumn>, { key }: LoadableDataset) {
    const sql = yield* SqlClient.SqlClient
    const names = columns.map(({ name }) => name)
    const otherNames = names.filter((name) => !key.includes(name))
    const storedNames = names.filter((name) => name !== lineColumn.name)
    const comparedNames = storedNames.filter((name) => !key.includes(name))
    const arrays = columns.map((_, index) => `$${index + 1}::text[]`).join(", ")
    const given = `select ${columns.map((column) => `${convertCell(column)} as "${column.name}"`).join(", ")}, line
    from unnest(${arrays}) with ordinality as r(${quoteColumns(names)}, line)`
    const onConflict = comparedNames.length === 0
      ? "do nothing"
      : `do update set ${otherNames.map((name) => `"${name}" = excluded."${name}"`).join(", ")}
       where (${qualifyColumns("existing", comparedNames)}) is distinct from (${
        qualifyColumns("excluded", comparedNames)
      })`
    // The comment at the start identifies the statement in pg_stat_activity, which truncates long statements.
    const insert = `/* load ${target} */ with given as (${given}),
    last as (select distinct on (${quoteColumns(key)}) * from given order by ${quoteColumns(key)}, line desc),
    inserted as (
      insert into ${target} as existing (${quoteColumns(names)}) select ${quoteColumns(names)} from last order by line
      on conflict (${quoteColumns(key)}) ${onConflict} returning xmax = 0 as added
    )
    select (select count(*)::int from last) as keys, count(*) filter (where added)::int as added,
      count(*) filter (where not added)::int as updated
    from inserted`
    const countDistinct = `with given as (${given})
    select count(*)::int as count from (select distinct ${quoteColumns(storedNames)} from given) as one`

    return Effect.fnUntraced(function* (batch: ReadonlyArray<ValidRow>) {
      const parameters = names.map((name) =>
        arrayParameter(
          batch.map(({ cells, line }) => name === lineColumn.name ? String(line) : encodeCell(cells[name])),
          OID.text,
        )
      )
      const [counts] = yield* sql.unsafe<{ readonly keys: number; readonly added: number; readonly updated: number }>(
        insert,
        parameters,
      )
      const { added, keys, updated } = counts ?? { added: 0, keys: 0, updated: 0 }
      if (keys === batch.length) return { added, superseded: updated, dropped: keys - added - updated }
      const [distinct] = yield* sql.unsafe<{ readonly count: number }>(countDistinct, parameters)
      const corrected = (distinct?.count ?? keys) - keys
      return { added, superseded: updated + corrected, dropped: batch.length - added - updated - corrected }
    })
  },
)

/** Numbers of rows that `load --append` added, updated and left unchanged. */
export interface MergeCounts {
  readonly added: number
  readonly updated: number
  readonly unchanged: number
}

/** Uses `=` for columns without nulls, because `is not distinct from` cannot use an index. */
const matchKey = (columns: ReadonlyArray<LoadColumn>, { key }: LoadableDataset) =>
  columns.filter(({ name }) => key.includes(name)).map(({ is_nullable, name }) =>
    `existing."${name}" ${is_nullable ? "is not distinct from" : "="} given."${name}"`
  ).join(" and ")

/** Returns the first lines in `source`, a table with `lineColumn`, whose keys `target` lacks. */
export const findNewLines = Effect.fnUntraced(
  function* (
    source: string,
    target: string,
    columns: ReadonlyArray<LoadColumn>,
    dataset: LoadableDataset,
    limit: number,
  ) {
    const sql = yield* SqlClient.SqlClient
    const lines = yield* sql.unsafe<{ readonly line: bigint }>(`
      select "${lineColumn.name}" as line from ${source} as given
      where not exists (select from ${target} as existing where ${matchKey(columns, dataset)})
      order by line limit ${limit}
    `)
    return lines.map(({ line }) => Number(line))
  },
)

/**
 * Merges the rows of `source` into `target` by key. Null in a column with a default means "not given": a new row gets
 * the default, and an existing row keeps its value. Existing rows also keep the values of the omitted columns.
 */
export const mergeRows = Effect.fnUntraced(
  function* (
    source: string,
    target: string,
    columns: ReadonlyArray<LoadColumn>,
    dataset: LoadableDataset,
    omitted: ReadonlyArray<string>,
  ) {
    const sql = yield* SqlClient.SqlClient
    const names = columns.map(({ name }) => name)
    const otherColumns = columns.filter(({ name }) => !dataset.key.includes(name) && !omitted.includes(name))
    const toValue = ({ default_value, name }: LoadColumn) =>
      default_value === null ? `given."${name}"` : `coalesce(given."${name}", ${default_value})`
    const toComparedValue = ({ default_value, name }: LoadColumn) =>
      default_value === null ? `given."${name}"` : `coalesce(given."${name}", existing."${name}")`
    const match = matchKey(columns, dataset)
    const existingValues = qualifyColumns("existing", otherColumns.map(({ name }) => name))
    const comparedValues = otherColumns.map(toComparedValue).join(", ")
    const updated = Array.isReadonlyArrayEmpty(otherColumns) ? 0 : yield* Effect.map(
      sql.unsafe<{ readonly count: number }>(`with updated as (
        update ${target} as existing
        set ${otherColumns.map((column) => `"${column.name}" = ${toValue(column)}`).join(", ")}
        from ${source} as given
        where ${match} and not (${dataset.keepsExisting ?? "false"})
          and (${existingValues}) is distinct from (${comparedValues})
        returning given.ctid as place
      ) select count(distinct place)::int as count from updated`),
      ([row]) => row?.count ?? 0,
    )
    const [counts] = yield* sql.unsafe<{ readonly added: number; readonly given: number }>(`with added as (
        insert into ${target} (${quoteColumns(names)}) select ${columns.map(toValue).join(", ")} from ${source} as given
        where not exists (select from ${target} as existing where ${match})
        on conflict do nothing returning 1
      ) select (select count(*)::int from added) as added, count(*)::int as given from ${source}`)
    const added = counts?.added ?? 0
    return { added, updated, unchanged: (counts?.given ?? 0) - added - updated }
  },
)

/** Copies indexes, statistics targets, owner and grants from the original. Indexing after the inserts is faster. */
export const finishReplacementTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local maintenance_work_mem = '256MB'`
  yield* runGenerated(sql`
    select regexp_replace(pg_get_indexdef(indexrelid), ' ON public\\.', ' ON loading.') as statement
    from pg_index where indrelid = ${`public.${table}`}::regclass
      and not exists (select from pg_constraint where conindid = indexrelid)
  `)
  yield* runGenerated(sql`
    select format('alter table loading.%I alter %I set statistics %s', ${table}::text, attname, attstattarget)
      as statement
    from pg_attribute where attrelid = ${`public.${table}`}::regclass and attnum > 0 and attstattarget >= 0
  `)
  yield* runGenerated(sql`
    select format('alter table loading.%I owner to %s', relname, relowner::regrole) as statement
    from pg_class where oid = ${`public.${table}`}::regclass
    union all
    select format('grant %s on loading.%I to %s%s', privilege_type, relname,
      case grantee when 0 then 'public' else grantee::regrole::text end,
      case when is_grantable then ' with grant option' else '' end)
    from pg_class, aclexplode(relacl) where oid = ${`public.${table}`}::regclass
  `)
  yield* sql`analyze ${sql("loading")}.${sql(table)}`
})

export class TableBusy extends Schema.TaggedError<TableBusy>()("TableBusy", { message: Schema.String }) {}

/** Lock timeout of one attempt to swap. Reads that queue behind the attempt wait no longer than this. */
const swapLockTimeout = "100ms"

/** Queued reads proceed in the pauses between attempts. All retries together take about 90 seconds. */
const swapRetries = { schedule: Schedule.spaced("50 millis"), times: 600 }

/**
 * Replaces the dataset's table with the table in `loading`. Fails with `TableBusy` if the table stays in use.
 * The advisory lock blocks new exports, because overlapping exports of up to 30 seconds could occupy the table forever.
 */
export const swapInReplacementTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const busy = new TableBusy({
    message: `${table} was in use for more than a minute without a pause, so it is unchanged. ` +
      "End the queries or transactions that read it, then try again.",
  })
  yield* sql`select pg_advisory_xact_lock(hashtext(${tableSwapLockName(table)}))`
  yield* sql.unsafe(`set local lock_timeout = '${swapLockTimeout}'`)
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`drop table ${sql("public")}.${sql(table)}`
    yield* sql`alter table ${sql("loading")}.${sql(table)} set schema public`
  })).pipe(
    Effect.retry({ while: isLockTimeout, ...swapRetries }),
    Effect.mapError((error) => isLockTimeout(error) ? busy : error),
  )
})
