/**
 * Staging tables (D31, load). A load first writes the rows of its file to a table in the schema `loading`. It then
 * merges them into the dataset's table by key. If it replaces the dataset, it also deletes all rows that are not in the
 * file. In this file's SQL, `incoming` is a row of the staging table, and `existing` is a row of the dataset's table.
 * See docs/decisions/0116-load-merges-rows.md.
 */
import { Array, Console, Data, Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { isCheckViolation } from "../../postgres/SqlState.ts"
import type { LoadableDataset, RowCells } from "../../contract/Datasets.ts"
import type { ValidRow } from "./RowValidation.ts"

/** A column of a dataset's table that a file can fill, as described by PostgreSQL's catalogs. */
export interface LoadableColumn {
  readonly name: string
  /** The PostgreSQL type, such as `numeric(18,4)`. For a domain, this is the base type. */
  readonly type: string
  readonly is_list: boolean
  readonly is_nullable: boolean
  /** Whether the column contains symbols. All tables spell a symbol in the same way (D41). */
  readonly is_symbol: boolean
  /** The column's default as an SQL expression, such as `now()`, or null if it has none. */
  readonly default_value: string | null
}

/** Reads the columns of a table that a file can fill, in table order. `table` is the table's name in SQL. */
export const readLoadableColumns = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  // `plain` contains the column's type or, if that is a domain (`typtype` is `d`), the domain's base type. The
  // condition excludes columns that PostgreSQL fills itself (generated columns, and `generated always as identity`),
  // and `recorded_in`, in which the history stores the transaction that wrote the row.
  return yield* sql<LoadableColumn>`
    select attname as name, type, type like '%[]' as is_list, not attnotnull as is_nullable,
      atttypid = 'public.ticker'::regtype as is_symbol, pg_get_expr(adbin, adrelid) as default_value
    from pg_attribute join pg_type on pg_type.oid = atttypid
      left join pg_attrdef on adrelid = attrelid and adnum = attnum
      cross join lateral (
        select case typtype when 'd' then format_type(typbasetype, typtypmod) else format_type(atttypid, atttypmod) end
      ) as plain (type)
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
      and attgenerated = '' and attidentity <> 'a' and attname <> 'recorded_in'
    order by attnum
  `
})

/**
 * Reads the names of the columns of a table that a file cannot fill: generated columns, and `recorded_in`, which the
 * history sets.
 */
export const readUnloadableColumns = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly name: string }>`
    select attname as name from pg_attribute
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
      and (attgenerated <> '' or attidentity = 'a' or attname = 'recorded_in')
  `
  return rows.map(({ name }) => name)
})

/**
 * Reads the names of columns whose whole text is stored in an index, because this limits the length of the text.
 * Columns used in index expressions, such as `lower(name)`, are included. Trigram indexes do not count, because they
 * store only short pieces of the text.
 */
export const readIndexedColumns = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  // `indkey` lists only the columns that are indexed directly. The columns of an index expression are found in
  // `pg_depend`, as columns on which the index depends. The last condition excludes trigram indexes, whether they are
  // on a column or on an expression.
  const rows = yield* sql<{ readonly name: string }>`
    select distinct attname as name from pg_index join pg_attribute on attrelid = indrelid and (
      attnum = any (indkey::int2[]) or indexprs is not null and exists (
        select from pg_depend where classid = 'pg_class'::regclass and objid = indexrelid and refobjid = indrelid
          and refobjsubid = attnum
      )
    )
    where indrelid = ${table}::regclass
      and not exists (select from pg_opclass where oid = any (indclass::oid[]) and opcname = 'gin_trgm_ops')
    order by 1
  `
  return rows.map(({ name }) => name)
})

/**
 * Returns the name of the advisory lock that a load takes on a table. A second load of the table waits for this lock.
 */
export const formatLoadLockName = (table: string) => `load ${table}`

/** Takes the load lock of one table. If it must wait and `isSilent` is false, it first prints that it is waiting. */
const acquireTableLoadLock = Effect.fnUntraced(function* (table: string, isSilent: boolean) {
  const sql = yield* SqlClient.SqlClient
  const [attempt] = yield* sql<
    { readonly acquired: boolean }
  >`select pg_try_advisory_xact_lock(hashtext(${formatLoadLockName(table)})) as acquired`
  if (attempt?.acquired === true) return
  if (!isSilent) yield* Console.error(`Another load of ${table} is running. Waiting for it to finish.`)
  yield* sql`select pg_advisory_xact_lock(hashtext(${formatLoadLockName(table)}))`
})

/**
 * Waits until no other load of the tables is running, and keeps other loads from starting until the transaction ends.
 * Also disables the transaction's timeouts, which are meant for reads. A transaction that loads several tables must
 * lock all of them in one call. The locks are taken in alphabetical order, so that two such transactions cannot
 * deadlock. Unless `isSilent` is true, prints the name of the table that it is waiting for.
 */
export const acquireTableLoadLocks = Effect.fnUntraced(function* (tables: ReadonlyArray<string>, isSilent = false) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local lock_timeout = 0`
  // The transaction is idle while a person decides whether to confirm the load.
  yield* sql`set local idle_in_transaction_session_timeout = 0`
  yield* Effect.forEach(tables.toSorted(), (table) => acquireTableLoadLock(table, isSilent), { discard: true })
})

/** Runs a catalog query whose rows are SQL statements, such as `alter table …`, and then runs those statements. */
const runGeneratedStatements = Effect.fnUntraced(
  function* (query: Effect.Effect<ReadonlyArray<{ readonly statement: string }>, SqlError.SqlError>) {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.forEach(yield* query, ({ statement }) => sql.unsafe(statement), { discard: true })
  },
)

/**
 * The column for the line on which a row starts in the file. Only staging tables for files with omitted columns have
 * it. The name contains spaces, so no dataset can have a column with this name.
 */
export const lineNumberColumn: LoadableColumn = {
  name: "line in the file",
  type: "bigint",
  is_list: false,
  is_nullable: true,
  is_symbol: false,
  default_value: null,
}

/** A staging table and the dataset's table into which its rows are merged. */
export interface StagedRows {
  /** The staging table's name in SQL, such as `loading.news`. */
  readonly source: string
  /** The name of the dataset's table in SQL, such as `public.news`. */
  readonly target: string
  /** The columns of the dataset's table that a file can fill. */
  readonly columns: ReadonlyArray<LoadableColumn>
  readonly dataset: LoadableDataset
}

/**
 * Creates an empty staging table for a dataset: `loading.news` for `public.news`. It has the same columns, a unique key
 * and no triggers. Columns with a default accept null, which means that the file has no value. The staging table
 * enforces all CHECK constraints of the dataset's table, even those that are `not valid` because existing rows have not
 * been checked.
 *
 * `isIncomplete` must be true if the file may omit columns. Every column then accepts null, and the table has
 * `lineNumberColumn` instead of CHECK constraints. The constraints can only be checked during the merge, which fills
 * the omitted columns.
 */
export const createStagingTable = Effect.fnUntraced(function* (dataset: LoadableDataset, isIncomplete: boolean) {
  const sql = yield* SqlClient.SqlClient
  const { key, table } = dataset
  const [source, target] = [`loading.${table}`, `public.${table}`]
  const columns = yield* readLoadableColumns(target)
  yield* sql.unsafe(`create table ${source} (like ${target} ${isIncomplete ? "" : "including constraints"})`)
  if (isIncomplete) {
    yield* sql.unsafe(`alter table ${source} add column "${lineNumberColumn.name}" ${lineNumberColumn.type}`)
  }
  // `create table … like` has also copied the `not null` constraints, which must not reject missing values yet.
  yield* runGeneratedStatements(sql`
    select format('alter table loading.%I alter %I drop not null', ${table}::text, attname) as statement
    from pg_attribute
    where attrelid = ${target}::regclass and attnum > 0 and attnotnull and attgenerated = ''
      and (atthasdef or ${isIncomplete})
  `)
  yield* sql.unsafe(`alter table ${source} add unique nulls not distinct (${quoteColumns(key)})`)
  const staged: StagedRows = { source, target, columns, dataset }
  return staged
})

/** Drops a staging table after its rows have been merged. */
export const dropStagingTable = Effect.fnUntraced(function* ({ source }: StagedRows) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`drop table ${source}`)
})

/**
 * Returns whether the table still has a valid unique index on the dataset's key. The database owner may have dropped
 * it. An invalid index, which a failed `create unique index concurrently` leaves behind, proves nothing about the rows.
 */
const hasUniqueKey = Effect.fnUntraced(function* (table: string, { key }: LoadableDataset) {
  const sql = yield* SqlClient.SqlClient
  const indexes = yield* sql<{ readonly columns: ReadonlyArray<string> }>`
    select array_agg(attname::text) as columns
    from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey::int2[])
    where indrelid = ${table}::regclass and indisunique and indisvalid and indpred is null and indexprs is null
    group by indexrelid
  `
  const keyColumns = new Set(key)
  return indexes.some(({ columns }) => keyColumns.symmetricDifference(new Set(columns)).size === 0)
})

/** Encodes a cell as text for a `text[]` parameter. A list is encoded as JSON. */
const encodeCell = (cell: RowCells[string]) => {
  if (cell === undefined || cell === null) return null
  return typeof cell === "string" ? cell : JSON.stringify(cell)
}

const quoteColumns = (names: ReadonlyArray<string>) => names.map((name) => `"${name}"`).join(", ")

const qualifyColumns = (alias: string, names: ReadonlyArray<string>) =>
  names.map((name) => `${alias}."${name}"`).join(", ")

/** Returns SQL that converts the result of `encodeCell` to the column's type. Null becomes the column's default. */
const makeCellSql = ({ default_value, is_list, name, type }: LoadableColumn) => {
  const value = is_list
    ? `case when "${name}" is not null then array(select jsonb_array_elements_text("${name}"::jsonb)) end`
    : `"${name}"::${type}`
  return default_value === null ? value : `coalesce(${value}, ${default_value})`
}

/** A CHECK constraint of a dataset's table or of one of its column domains. */
interface CheckConstraint {
  readonly name: string
  /** The condition, as an SQL expression. */
  readonly expression: string
  readonly columns: ReadonlyArray<string>
}

/** Reads the CHECK constraints of a dataset's table and of the domains of its columns. */
const readCheckConstraints = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  // The first part of the union reads the constraints of the table itself. The second part has one row for each column
  // whose domain has a constraint. A domain's condition, such as `VALUE > 0`, applies to any column, so VALUE is
  // replaced by the column name.
  return yield* sql<CheckConstraint>`
    select conname as name, pg_get_expr(conbin, conrelid, true) as expression,
      (select array_agg(attname::text order by attnum) from pg_attribute
        where attrelid = conrelid and attnum = any (conkey)) as columns
    from pg_constraint where conrelid = ${`public.${table}`}::regclass and contype = 'c'
    union all
    select format('%s of %s', conname, attname),
      regexp_replace(pg_get_expr(conbin, 0, true), '\\mVALUE\\M', quote_ident(attname), 'g'), array[attname::text]
    from pg_attribute join pg_constraint on contypid = atttypid
    where attrelid = ${`public.${table}`}::regclass and attnum > 0 and contype = 'c'
    order by 1
  `
})

/** A row that violates a CHECK constraint. */
export interface CheckViolation extends Omit<CheckConstraint, "name"> {
  /** The line on which the row starts in the file. */
  readonly line: number
  /** The values of `columns` as text, as written in the file if possible, or otherwise as PostgreSQL prints them. */
  readonly values: ReadonlyArray<string | null>
}

/**
 * Evaluates the CHECK constraints of a table and its domains for the rows returned by `query`, which has `parameters`.
 * The query must return the columns of the table and a column `line`. Returns the first `limit` violations in line
 * order. A row that violates two constraints counts as two violations.
 */
const findCheckViolations = Effect.fnUntraced(
  function* (table: string, query: string, parameters: ReadonlyArray<unknown>, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const constraints = yield* readCheckConstraints(table)
    // For each constraint, an element of the `values` list below: its index, whether the row violates it, and the row's
    // cells in the constraint's columns. As in PostgreSQL, a constraint whose result is null is satisfied.
    const checks = constraints.map(({ columns, expression }, index) =>
      `(${index}, (${expression}) is false, array[${columns.map((name) => `"${name}"::text`).join(", ")}])`
    )
    if (checks.length === 0) return []
    const found = yield* sql.unsafe<{
      readonly line: bigint
      readonly index: number
      readonly cells: ReadonlyArray<string | null>
    }>(
      `select checked.line, evaluated.index, evaluated.cells
      from (${query}) as checked, lateral (values ${checks.join(", ")}) as evaluated (index, is_violated, cells)
      where evaluated.is_violated order by checked.line, evaluated.index limit ${limit}`,
      parameters,
    )
    return found.flatMap(({ cells, index, line }): ReadonlyArray<CheckViolation> => {
      const constraint = constraints[index]
      return constraint === undefined ? [] : [{ ...constraint, line: Number(line), values: cells }]
    })
  },
)

/** Rows violate CHECK constraints of the table that single-cell validation does not cover. Nothing was written. */
export class RowsViolateChecks extends Data.TaggedError("RowsViolateChecks")<{
  readonly violations: ReadonlyArray<CheckViolation>
}> {}

/**
 * Runs statements within a savepoint. If they violate a CHECK constraint, rolls back to the savepoint and fails with
 * the violations that `find` returns. PostgreSQL's own error describes only the first violation and does not contain
 * its line. If `find` returns no violation, the constraint is one that `find` does not know, and PostgreSQL's error is
 * returned.
 */
const explainCheckViolations = Effect.fnUntraced(function* <A, E, R, E2, R2>(
  statements: Effect.Effect<A, E, R>,
  find: Effect.Effect<ReadonlyArray<CheckViolation>, E2, R2>,
) {
  const sql = yield* SqlClient.SqlClient
  const explain = Effect.fnUntraced(function* (error: E | SqlError.SqlError) {
    const violations = isCheckViolation(error) ? yield* find : []
    return yield* violations.length > 0 ? new RowsViolateChecks({ violations }) : Effect.fail(error)
  })
  return yield* Effect.catch(sql.withTransaction(statements), explain)
})

/** Returns whether an empty string in the column counts as null. */
const isEmptyTextNull = ({ is_nullable, type }: LoadableColumn) => is_nullable && type === "text"

/**
 * Returns SQL for the value that is used to compare a key column of an existing row. An empty string counts as null,
 * because responses return it as null (D16). Only other programs can have stored an empty string.
 */
const makeComparedKeySql = (column: LoadableColumn) =>
  isEmptyTextNull(column) ? `nullif(existing."${column.name}", '')` : `existing."${column.name}"`

/**
 * Returns the SQL condition that `existing` and `incoming` have the same key. Columns that cannot be null are compared
 * with `=`, because PostgreSQL cannot use an index for `is not distinct from`.
 */
const makeKeyCondition = ({ columns, dataset: { key } }: Pick<StagedRows, "columns" | "dataset">) =>
  columns.filter(({ name }) => key.includes(name)).map((column) =>
    `${makeComparedKeySql(column)} ${column.is_nullable ? "is not distinct from" : "="} incoming."${column.name}"`
  ).join(" and ")

/**
 * Returns the SQL condition that a row is provisional. A provisional row replaces only other provisional rows (D22,
 * corrections). `row` is the row's alias. The condition is false if the column that marks provisional rows is null, as
 * it is if the file omits this column.
 */
const makeProvisionalCondition = (row: string, { provisional }: LoadableDataset) =>
  provisional === undefined
    ? "false"
    : `((${row}."${provisional.column}" in (${provisional.values.map((value) => `'${value}'`).join(", ")})) is true)`

/**
 * Returns a query whose parameters are a batch of rows, as one `text[]` per column. It returns these rows, with the
 * columns converted to their types. Its column `line` is the row's position in the batch, starting at 1, and not yet
 * the line in the file.
 */
const makeBatchQuery = (columns: ReadonlyArray<LoadableColumn>) => {
  const arrays = columns.map((_, index) => `$${index + 1}::text[]`).join(", ")
  return `select ${columns.map((column) => `${makeCellSql(column)} as "${column.name}"`).join(", ")}, line
    from unnest(${arrays}) with ordinality as r(${quoteColumns(columns.map(({ name }) => name))}, line)`
}

/**
 * Returns a query for the rows of a batch that may be stored in `target`. In most datasets, these are all rows. In a
 * dataset with provisional rows, such as a ticker change with an estimated date, a provisional row must not replace a
 * final one (D22, corrections). It is therefore left out if `target`, or an earlier line of the batch, has a final row
 * with the same key. A provisional row before the final one stays: the later row replaces it, so it counts as
 * superseded.
 */
const makeAcceptedRowsQuery = (target: string, columns: ReadonlyArray<LoadableColumn>, dataset: LoadableDataset) => {
  const batch = makeBatchQuery(columns)
  if (dataset.provisional === undefined) return batch
  return `select * from (
      select *, min(line) filter (where not ${makeProvisionalCondition("batch", dataset)})
        over (partition by ${quoteColumns(dataset.key)}) as "first final line"
      from (${batch}) as batch
    ) as incoming
    where not ${makeProvisionalCondition("incoming", dataset)} or (
      coalesce(line < "first final line", true) and not exists (
        select from ${target} as existing
        where ${makeKeyCondition({ columns, dataset })} and not ${makeProvisionalCondition("existing", dataset)}
      )
    )`
}

/** Returns the `on conflict` action for a key that an earlier batch already inserted: update the row if it differs. */
const makeConflictAction = (columns: ReadonlyArray<LoadableColumn>, key: ReadonlyArray<string>) => {
  const names = columns.map(({ name }) => name).filter((name) => !key.includes(name))
  // Line numbers are not compared, so that the same row on another line counts as identical.
  const comparedNames = names.filter((name) => name !== lineNumberColumn.name)
  if (comparedNames.length === 0) return "do nothing"
  return `do update set ${names.map((name) => `"${name}" = excluded."${name}"`).join(", ")}
       where (${qualifyColumns("existing", comparedNames)}) is distinct from (${
    qualifyColumns("excluded", comparedNames)
  })`
}

/** The counts that the statement from `makeInsertStatement` returns for one batch. */
interface InsertedCounts {
  /** The number of rows, except provisional rows that were left out. */
  readonly accepted: number
  /** The number of different accepted rows. Identical rows count as one. */
  readonly distinct_rows: number
  /** The number of distinct keys among the accepted rows. */
  readonly keys: number
  readonly added: number
  readonly updated: number
}

/**
 * Returns a statement that inserts a batch, passed as its parameters, into `target`. A row whose key an earlier batch
 * has inserted replaces that batch's row. The result is one row with the columns of `InsertedCounts`.
 */
const makeInsertStatement = (target: string, columns: ReadonlyArray<LoadableColumn>, dataset: LoadableDataset) => {
  const names = columns.map(({ name }) => name)
  const keyColumns = quoteColumns(dataset.key)
  const storedColumns = quoteColumns(names.filter((name) => name !== lineNumberColumn.name))
  // The parameter `$1`, like all others, has one element per row of the batch. Usually, `last` has as many rows,
  // because all rows of the batch are accepted and have different keys. Then every count is this number, and the scan
  // that `count` needs is skipped.
  const ifRepeated = (count: string) =>
    `case when (select count(*) from last) < cardinality($1::text[]) then (${count}) else cardinality($1::text[]) end`
  // - The comment at the start identifies the statement in pg_stat_activity, which truncates long statements.
  // - `incoming` is referenced several times. Without `not materialized`, PostgreSQL would always store its rows,
  //   although usually only `last` reads them.
  // - `last` contains only the last row with each key, because a statement must not update the same row twice.
  // - `xmax` is 0 if a row was inserted, and nonzero if it was updated.
  return `/* load ${target} */ with incoming as not materialized (${makeAcceptedRowsQuery(target, columns, dataset)}),
    last as (select distinct on (${keyColumns}) * from incoming order by ${keyColumns}, line desc),
    inserted as (
      insert into ${target} as existing (${quoteColumns(names)}) select ${quoteColumns(names)} from last order by line
      on conflict (${keyColumns}) ${makeConflictAction(columns, dataset.key)} returning xmax = 0 as added
    )
    select (select count(*)::int from last) as keys,
      ${ifRepeated("select count(*)::int from incoming")} as accepted,
      ${ifRepeated(`select count(*)::int from (select distinct ${storedColumns} from incoming) as one`)}
        as distinct_rows,
      count(*) filter (where added)::int as added, count(*) filter (where not added)::int as updated
    from inserted`
}

/** Encodes a batch as the parameters of `makeBatchQuery`: one text array per column. */
const encodeBatch = (columns: ReadonlyArray<LoadableColumn>, batch: ReadonlyArray<ValidRow>) =>
  columns.map(({ name }) =>
    makeArrayParameter(
      batch.map(({ cells, line }) => name === lineNumberColumn.name ? String(line) : encodeCell(cells[name])),
      OID.text,
    )
  )

/**
 * Converts a violation within a batch, whose `line` is a position in the batch, to a violation with the file's line
 * number and texts.
 */
const toFileViolation = (violation: CheckViolation, batch: ReadonlyArray<ValidRow>): CheckViolation => {
  const { cells = {}, line = 0 } = batch[violation.line - 1] ?? {}
  const values = violation.values.map((value, index) => {
    const cell = cells[violation.columns[index] ?? ""]
    return typeof cell === "string" ? cell : value
  })
  return { ...violation, line, values }
}

/**
 * Returns a function that inserts a batch of rows into the staging table `target`. If several rows have the same key,
 * the last one is stored, except that a provisional row replaces only provisional rows (D22, corrections). The function
 * returns the number of new keys (`added`), of rows that a later row replaced (`superseded`), of identical rows
 * (`dropped`), and of provisional rows that were left out in favor of an earlier row (`kept`). If any row violates a
 * CHECK constraint, the function fails with the first `limit` violations. The staging table may then contain rows of
 * the batch, but the load never merges it.
 */
export const makeRowInserter = Effect.fnUntraced(
  function* (target: string, columns: ReadonlyArray<LoadableColumn>, dataset: LoadableDataset, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const insert = makeInsertStatement(target, columns, dataset)
    return Effect.fnUntraced(function* (batch: ReadonlyArray<ValidRow>) {
      const parameters = encodeBatch(columns, batch)
      const findViolations = Effect.map(
        findCheckViolations(dataset.table, makeBatchQuery(columns), parameters, limit),
        (violations) => violations.map((violation) => toFileViolation(violation, batch)),
      )
      const [counts] = yield* explainCheckViolations(sql.unsafe<InsertedCounts>(insert, parameters), findViolations)
      const { accepted, added, distinct_rows, keys, updated } = counts ??
        { accepted: 0, added: 0, distinct_rows: 0, keys: 0, updated: 0 }
      // PostgreSQL has checked only the last row for each key, but an invalid row before it also makes the file
      // invalid.
      const violations = keys === batch.length ? [] : yield* findViolations
      if (violations.length > 0) return yield* new RowsViolateChecks({ violations })
      // `updated` counts rows of earlier batches that this batch replaced. Within the batch, all different rows with a
      // key except the last one were replaced.
      const superseded = updated + (distinct_rows - keys)
      return { added, superseded, dropped: accepted - added - superseded, kept: batch.length - accepted }
    })
  },
)

/** The number of rows in the dataset's table that a load added, updated and left unchanged. */
export interface MergedRowCounts {
  readonly added: number
  readonly updated: number
  readonly unchanged: number
  /** The number of provisional rows in the file that differ from an existing row, which was kept (D22, corrections). */
  readonly kept: number
}

/** The number of rows in the dataset's table that a replacement added, updated, left unchanged and removed. */
export interface ReplacedRowCounts extends MergedRowCounts {
  readonly removed: number
}

/** Returns the first `limit` lines of the file, in order, whose keys do not exist in the dataset's table. */
export const findLinesWithNewKeys = Effect.fnUntraced(
  function* (staged: StagedRows, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const lines = yield* sql.unsafe<{ readonly line: bigint }>(`
      select "${lineNumberColumn.name}" as line from ${staged.source} as incoming
      where not exists (select from ${staged.target} as existing where ${makeKeyCondition(staged)})
      order by line limit ${limit}
    `)
    return lines.map(({ line }) => Number(line))
  },
)

/**
 * How a merge handles columns that are missing in the file, and whether other programs may write to the table during
 * the merge.
 */
export interface StagedRowMergeOptions {
  /**
   * Columns that are missing in the file because API responses include them only on request, if at all. An existing row
   * that differs only in these columns is left unchanged, so that an export can be loaded again.
   */
  readonly hidden: ReadonlyArray<string>
  /** Columns in which existing rows keep their values. */
  readonly omitted: ReadonlyArray<string>
  /**
   * Whether the rows are appended. If so, provisional rows do not replace final ones, and other programs may write to
   * the table during the merge.
   */
  readonly isAppend: boolean
}

/**
 * Returns SQL for the value that an existing row must have in a column to count as equal to the file's row. In a hidden
 * column, any value counts as equal. Null in a column with a default means that the file has no value, so any value
 * counts as equal there, too.
 */
const makeExpectedValueSql = ({ default_value, name }: LoadableColumn, hidden: ReadonlyArray<string>) => {
  if (hidden.includes(name)) return `existing."${name}"`
  return default_value === null ? `incoming."${name}"` : `coalesce(incoming."${name}", existing."${name}")`
}

/** SQL conditions on a row of the dataset's table (`existing`) and a row of the file (`incoming`). */
interface MergeConditions {
  /** The two rows have the same key. */
  readonly isMatch: string
  /** The merge changes the existing row. */
  readonly isChanged: string
  /** The existing row is kept because `incoming` is provisional and the existing row is not. */
  readonly isKept: string
  /** The columns that an update changes. */
  readonly updatedColumns: ReadonlyArray<LoadableColumn>
}

/**
 * Returns the conditions of a merge of a file (`incoming`) into a table (`existing`), as SQL: which rows have the same
 * key (`isMatch`), which existing rows the merge changes (`isChanged`), and which ones it keeps although the file has
 * other values (`isKept`). `load --check` and undo use the same conditions to count rows.
 */
const makeMergeConditions = (
  { columns, dataset }: StagedRows,
  { hidden, isAppend, omitted }: StagedRowMergeOptions,
): MergeConditions => {
  const updatedColumns = columns.filter(({ name }) => !dataset.key.includes(name) && !omitted.includes(name))
  // An appended provisional row, such as a ticker change with an estimated date, does not replace a final one.
  const isKept = isAppend
    ? `(${makeProvisionalCondition("incoming", dataset)} and not ${makeProvisionalCondition("existing", dataset)})`
    : "false"
  const existingValues = qualifyColumns("existing", updatedColumns.map(({ name }) => name))
  const expectedValues = updatedColumns.map((column) => makeExpectedValueSql(column, hidden)).join(", ")
  const isChanged = Array.isReadonlyArrayEmpty(updatedColumns)
    ? "false"
    : `(not ${isKept} and (${existingValues}) is distinct from (${expectedValues}))`
  return { isMatch: makeKeyCondition({ columns, dataset }), isChanged, isKept, updatedColumns }
}

/** SQL conditions on a row of the dataset's table, with the alias `existing`. A replacement deletes such rows. */
interface RemovalConditions {
  /** Another row of the table has the same key. The condition is false for one row of each key, which is kept. */
  readonly isRepeated: string
  /** The file does not contain the row's key, or `isRepeated` is true. */
  readonly isRemoved: string
}

/**
 * Returns the SQL condition `isRepeated` of `RemovalConditions`: of the rows with the same key, it is true for all but
 * the first.
 */
const makeRepeatedKeyCondition = Effect.fnUntraced(
  function* ({ columns, dataset, target }: StagedRows) {
    const keyColumns = columns.filter(({ name }) => dataset.key.includes(name))
    // Rows that satisfy one of these conditions may have the same key as another row. Normally, the table has a unique
    // index on its key. It accepts two rows whose keys differ only in that one contains null and the other an empty
    // string, which counts as null here, so only rows with such keys must be numbered. If the database owner has
    // dropped the index, any row may be repeated.
    const mayBeRepeated = (yield* hasUniqueKey(target, dataset))
      ? keyColumns.filter(isEmptyTextNull).map((column) => `${makeComparedKeySql(column)} is null`)
      : ["true"]
    if (mayBeRepeated.length === 0) return "false"
    // `ctid`, the physical location of a row, distinguishes rows with the same key.
    return `existing.ctid in (
      select row_id from (
        select ctid as row_id,
          row_number() over (partition by ${keyColumns.map(makeComparedKeySql).join(", ")} order by ctid) as copy
        from ${target} as existing where ${mayBeRepeated.join(" or ")}
      ) as rows where copy > 1
    )`
  },
)

/**
 * Returns the conditions that select the rows that a replacement deletes from the dataset's table: rows whose keys the
 * file does not contain, and all but one of several rows with the same key.
 */
const makeRemovalConditions = Effect.fnUntraced(
  function* (staged: StagedRows) {
    const isRepeated = yield* makeRepeatedKeyCondition(staged)
    const isMissing = `not exists (select from ${staged.source} as incoming where ${makeKeyCondition(staged)})`
    const conditions: RemovalConditions = { isRepeated, isRemoved: `(${isMissing} or ${isRepeated})` }
    return conditions
  },
)

/** Runs a statement that returns one row, and returns its column `count`. */
const readCount = Effect.fnUntraced(function* (statement: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql.unsafe<{ readonly count: number }>(statement)
  return row?.count ?? 0
})

/**
 * Counts the rows of a table. `from` is the table's name in SQL, optionally followed by an alias and a `where` clause.
 */
export const countRows = (from: string) => readCount(`select count(*)::int as count from ${from}`)

/**
 * Returns SQL for the value that the merge stores in a column: the file's value, or the default if the file's value is
 * null.
 */
const makeStoredValueSql = ({ default_value, name }: LoadableColumn) =>
  default_value === null ? `incoming."${name}"` : `coalesce(incoming."${name}", ${default_value})`

/** A row of the file could not be merged, so nothing was loaded. The message contains the row's key. */
export class RowNotMerged extends Data.TaggedError("RowNotMerged")<{ readonly message: string }> {}

/**
 * Updates the existing rows that differ from the file. Returns the number of rows of the file that caused an update.
 */
const updateChangedRows = (
  { source, target }: StagedRows,
  { isChanged, isMatch, updatedColumns }: MergeConditions,
) => {
  if (Array.isReadonlyArrayEmpty(updatedColumns)) return Effect.succeed(0)
  const assignments = updatedColumns.map((column) => `"${column.name}" = ${makeStoredValueSql(column)}`).join(", ")
  // One row of the file may update several existing rows, because an existing key with null and an existing key with an
  // empty string count as equal.
  return readCount(`with updated as (
      update ${target} as existing set ${assignments}
      from ${source} as incoming
      where ${isMatch} and ${isChanged}
      returning incoming.ctid as row_id
    ) select count(distinct row_id)::int as count from updated`)
}

/** Nested loops are disabled for tables with fewer rows than this. */
const minRowsForLookUps = 1_000

/**
 * Runs an insert that compares a file with the table. If PostgreSQL believes the table to be empty, it plans to scan
 * the table for each row of the file, which becomes slower and slower as the table grows. Nested loops are therefore
 * disabled if the table is small.
 */
const withoutRepeatedScans = Effect.fnUntraced(function* <A, E, R>(target: string, insert: Effect.Effect<A, E, R>) {
  const sql = yield* SqlClient.SqlClient
  const isSmall = (yield* countRows(`(select from ${target} limit ${minRowsForLookUps}) as rows`)) < minRowsForLookUps
  if (!isSmall) return yield* insert
  yield* sql`set local enable_nestloop = off`
  const inserted = yield* insert
  yield* sql`set local enable_nestloop to default`
  return inserted
})

/**
 * Inserts the rows of the file whose keys are new. Returns the number of inserted rows and the total number of rows in
 * the file.
 */
const insertNewRows = Effect.fnUntraced(
  function* ({ columns, source, target }: StagedRows, { isMatch }: MergeConditions) {
    const sql = yield* SqlClient.SqlClient
    // `on conflict` skips a key that another program has added since this statement started. If PostgreSQL believes the
    // table to be empty, it would plan to scan it for each row of the file.
    const [counts] = yield* withoutRepeatedScans(
      target,
      sql.unsafe<{ readonly added: number; readonly total: number }>(`with added as (
        insert into ${target} (${quoteColumns(columns.map(({ name }) => name))})
        select ${columns.map(makeStoredValueSql).join(", ")}
        from ${source} as incoming
        where not exists (select from ${target} as existing where ${isMatch})
        on conflict do nothing returning 1
      ) select (select count(*)::int from added) as added, count(*)::int as total from ${source}`),
    )
    return counts ?? { added: 0, total: 0 }
  },
)

/**
 * Returns the key, as text, of a row of the file that was neither merged nor left out as provisional. Returns undefined
 * if there is none.
 */
const findUnmergedKey = Effect.fnUntraced(
  function* ({ dataset, source, target }: StagedRows, { isChanged, isMatch }: MergeConditions) {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql.unsafe<{ readonly key: string }>(
      `select row(${qualifyColumns("incoming", dataset.key)})::text as key from ${source} as incoming
      where not exists (select from ${target} as existing where ${isMatch} and not ${isChanged}) limit 1`,
    )
    return row?.key
  },
)

/** Creates the error for a row of the file that could not be merged. `unmergedKey` is the row's key as text. */
const makeRowNotMerged = ({ key, table }: LoadableDataset, unmergedKey: string) =>
  new RowNotMerged({
    message: `The row with the key (${key.join(", ")}) = ${unmergedKey} could not be merged into ` +
      `${table}, so nothing was loaded. The table has a constraint, index or trigger that load does not ` +
      "know, and that keeps the row out or changes it. Remove that, or remove the row from the file.",
  })

/**
 * Maximum number of times that a merge updates and inserts rows. It is sufficient for any number of concurrent writers,
 * because a merged row stays locked until the commit.
 */
const maxMergePasses = 10

/**
 * Merges the rows of `source` into `target` by key: updates the existing rows that differ, and inserts the rows with
 * new keys. Null in a column with a default means that the file has no value: new rows, and rows that differ in another
 * column, get the default. Identical rows are not written. Returns the counts of `MergedRowCounts`. Fails with
 * `RowNotMerged` if something unknown to load, such as a trigger, keeps a row out of the table.
 */
export const mergeStagedRows = Effect.fnUntraced(
  function* (staged: StagedRows, options: StagedRowMergeOptions) {
    const { dataset, source, target } = staged
    const conditions = makeMergeConditions(staged, options)
    const { isKept, isMatch } = conditions
    let [updated, added] = [0, 0]
    for (let pass = 1;; pass += 1) {
      updated += yield* updateChangedRows(staged, conditions)
      const inserted = yield* insertNewRows(staged, conditions)
      added += inserted.added
      // Between these two statements, another program may have added a row with a key from the file. The update ran
      // before the row existed, and the insert skipped the row, so the next pass updates it. This cannot happen in a
      // replacement, because it has locked the table.
      const unmergedKey = options.isAppend ? yield* findUnmergedKey(staged, conditions) : undefined
      if (unmergedKey === undefined) {
        // The rows of the file that are in the table neither as they are nor as an update: an existing final row was
        // kept instead of the file's provisional one.
        const kept = options.isAppend && dataset.provisional !== undefined
          ? yield* countRows(`${source} as incoming
              where not exists (select from ${target} as existing where ${isMatch} and not ${isKept})`)
          : 0
        return { added, updated, unchanged: inserted.total - added - updated - kept, kept }
      }
      if (pass === maxMergePasses) return yield* makeRowNotMerged(dataset, unmergedKey)
    }
  },
)

/**
 * Runs `merge`, which merges a file that omits the columns `omitted`. A row of such a file is complete only together
 * with the values of an existing row or the defaults, so only then can it violate CHECK constraints. If rows violate
 * them, undoes the merge and fails with the first `limit` violations.
 */
export const explainMergeCheckViolations = <A, E, R>(
  merge: Effect.Effect<A, E, R>,
  staged: StagedRows,
  omitted: ReadonlyArray<string>,
  limit: number,
) => {
  const { columns, dataset: { table }, source, target } = staged
  const makeMergedValueSql = (column: LoadableColumn) => {
    const [name, value] = [column.name, makeStoredValueSql(column)]
    // If no existing row has this key, `existing.ctid` is null, and the merge adds a row with the default value.
    // Otherwise, the existing row keeps its value in a column that the file omits.
    return `${
      omitted.includes(name) ? `case when existing.ctid is null then ${value} else existing."${name}" end` : value
    } as "${name}"`
  }
  const mergedRows = `select ${columns.map(makeMergedValueSql).join(", ")}, incoming."${lineNumberColumn.name}" as line
    from ${source} as incoming left join ${target} as existing on ${makeKeyCondition(staged)}`
  return explainCheckViolations(merge, findCheckViolations(table, mergedRows, [], limit))
}

/**
 * Counts the changes that a replacement would make: the rows that it would add, update, leave unchanged and remove. If
 * several rows of the table have the same key, the replacement removes all but the first (`isRepeated`). It keeps no
 * row that differs from the file (`kept`), which only an append does. Takes no locks, so other programs may change the
 * table before the replacement runs.
 */
export const countReplacement = Effect.fnUntraced(
  function* (staged: StagedRows, hidden: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    const { source, target } = staged
    const { isChanged, isMatch } = makeMergeConditions(staged, { hidden, omitted: [], isAppend: false })
    const { isRepeated } = yield* makeRemovalConditions(staged)
    const [counts] = yield* sql.unsafe<{ readonly total: number; readonly matched: number; readonly updated: number }>(`
      select (select count(*)::int from ${source}) as total, count(*)::int as matched,
        count(*) filter (where ${isChanged})::int as updated
      from ${source} as incoming join ${target} as existing on ${isMatch} and not ${isRepeated}
    `)
    const removed = yield* countRemovedRows(staged)
    // `total` is the number of rows in the file. `matched` of them have the key of a row that stays in the table.
    const { matched, total, updated } = counts ?? { total: 0, matched: 0, updated: 0 }
    return { added: total - matched, updated, unchanged: matched - updated, kept: 0, removed }
  },
)

/**
 * Returns the keys of rows that a replacement would add, update and remove. Returns at most `limit` keys of each kind,
 * as text such as `(ABC,2026-03-02)`.
 */
export const findReplacedKeys = Effect.fnUntraced(
  function* (staged: StagedRows, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const { dataset, source, target } = staged
    const { isChanged, isMatch } = makeMergeConditions(staged, { hidden: [], omitted: [], isAppend: false })
    const { isRemoved, isRepeated } = yield* makeRemovalConditions(staged)
    /** Reads the keys of the rows with the given alias in a `from` clause. */
    const findKeys = (alias: "existing" | "incoming", from: string) => {
      const keyRow = `row(${qualifyColumns(alias, dataset.key)})`
      return Effect.map(
        sql.unsafe<{ readonly key: string }>(
          `select ${keyRow}::text as key from ${from} order by ${keyRow} limit ${limit}`,
        ),
        (found) => found.map(({ key }) => key),
      )
    }
    // The table has the key of the file's row, in a row that the replacement does not delete.
    const isStored = `${isMatch} and not ${isRepeated}`
    return yield* Effect.all({
      added: findKeys(
        "incoming",
        `${source} as incoming where not exists (select from ${target} as existing where ${isStored})`,
      ),
      updated: findKeys(
        "incoming",
        `${source} as incoming join ${target} as existing on ${isStored} where ${isChanged}`,
      ),
      removed: findKeys("existing", `${target} as existing where ${isRemoved}`),
    })
  },
)

/** Counts the rows that `deleteRemovedRows` would delete. */
export const countRemovedRows = Effect.fnUntraced(
  function* (staged: StagedRows) {
    const { isRemoved } = yield* makeRemovalConditions(staged)
    return yield* countRows(`${staged.target} as existing where ${isRemoved}`)
  },
)

/**
 * Locks the dataset's table against other writers until the transaction ends. Without the lock, rows that other
 * programs add during a replacement would remain in the table. Readers are not blocked.
 */
export const lockTableAgainstWriters = Effect.fnUntraced(function* ({ target }: StagedRows) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`lock table ${target} in share row exclusive mode`)
})

/**
 * Deletes the rows of `target` whose keys are not in `source`, and all but one of several rows with the same key.
 * Returns the number of deleted rows. `condition` is an SQL condition on `existing`; only rows that satisfy it are
 * deleted.
 */
export const deleteRemovedRows = Effect.fnUntraced(
  function* (staged: StagedRows, condition = "true") {
    const { isRemoved } = yield* makeRemovalConditions(staged)
    return yield* readCount(`with deleted as (
        delete from ${staged.target} as existing where ${condition} and ${isRemoved} returning 1
      ) select count(*)::int as count from deleted`)
  },
)

/**
 * Deletes rows of `target` that an earlier ingest has built from the same documents as the staged rows, but that are no
 * longer among these rows, because the documents are now read differently. Keeps rows with a value in a column of
 * `omitted`, because another source has supplied that value. Returns the number of deleted rows. The dataset must have
 * a column `document_url`.
 */
export const deleteFormerRows = (staged: StagedRows, omitted: ReadonlyArray<string>) =>
  // - `source` is an array. It contains a URL of the SEC if the ingest has built the row.
  // - `num_nonnulls` counts the values in the omitted columns. It needs at least one argument, so if no column is
  //   omitted, it gets null, which it does not count.
  readCount(`with deleted as (
      delete from ${staged.target} as existing
      where (existing.ticker, existing.document_url) in (select ticker, document_url from ${staged.source})
        and array_to_string(existing.source, ' ') like '%://%.sec.gov/%'
        and num_nonnulls(null, ${qualifyColumns("existing", omitted) || "null"}) = 0
        and not exists (select from ${staged.source} as incoming where ${makeKeyCondition(staged)})
      returning 1
    ) select count(*)::int as count from deleted`)

/** The result of removing the rows of a file from a dataset's table. */
export interface RemovedRowCounts {
  readonly removed: number
  /**
   * The number of rows that have the same key as a row of the file but different values, and were therefore not
   * removed.
   */
  readonly changed: number
}

/** Options for removing the rows of a file from a dataset's table. */
export interface StagedRowRemovalOptions {
  /**
   * An SQL condition on `incoming`, a row of the file. Only rows that satisfy it are removed. By default, all rows are
   * removed.
   */
  readonly condition?: string
  /** Whether to remove existing rows that have the same key as a row of the file but different values. */
  readonly includesChanged?: boolean
}

/**
 * Removes the rows of a file, which have been staged, from the dataset's table: deletes the rows of `target` that are
 * still the same as in the file, apart from the columns in `hidden`. Rows with the same key but other values are
 * counted as `changed`. They are deleted only if `includesChanged` is true, and then count as `removed`. `condition` is
 * an SQL condition that restricts which rows of the table (`existing`) are considered at all.
 */
export const deleteStagedRows = Effect.fnUntraced(
  function* (
    staged: StagedRows,
    hidden: ReadonlyArray<string>,
    { condition = "true", includesChanged = false }: StagedRowRemovalOptions,
  ) {
    const sql = yield* SqlClient.SqlClient
    const { source, target } = staged
    const conditions = makeMergeConditions(staged, { hidden, omitted: [], isAppend: false })
    const isChanged = includesChanged ? "false" : conditions.isChanged
    const isSelected = `${condition} and ${conditions.isMatch}`
    // Both subqueries see the table as it was before the deletion.
    const [counts] = yield* sql.unsafe<RemovedRowCounts>(`with deleted as (
        delete from ${target} as existing using ${source} as incoming
        where ${isSelected} and not ${isChanged} returning 1
      )
      select (select count(*)::int from deleted) as removed, count(*) filter (where ${isChanged})::int as changed
      from ${source} as incoming join ${target} as existing on ${isSelected}`)
    return counts ?? { removed: 0, changed: 0 }
  },
)

/**
 * Validates a table's constraints that are still `not valid`. A replacement calls this after it has removed the rows
 * that violated them.
 */
export const validateConstraints = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* runGeneratedStatements(sql`
    select format('alter table %s validate constraint %I', conrelid::regclass, conname) as statement
    from pg_constraint where conrelid = ${table}::regclass and not convalidated
  `)
})

/** Updates the statistics that the planner uses for a table that was just filled. Autovacuum would do this too late. */
export const analyzeTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`analyze ${table}`)
})
