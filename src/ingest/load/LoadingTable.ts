/**
 * Staging tables (D31, load). A load first writes the rows of its file to a table in the schema `loading`. Then it
 * merges them into the dataset's table by key and, if it replaces the dataset, deletes all rows that are not in the
 * file. In the SQL of this file, `incoming` is a row of the staging table, and `existing` is one of the dataset's
 * table.
 * docs/decisions/0116-load-merges-rows.md
 */
import { Array, Console, Data, Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { isCheckViolation } from "../../postgres/SqlState.ts"
import type { LoadableDataset, RowCells } from "../../contract/Datasets.ts"
import type { ValidRow } from "./RowValidation.ts"

/** A column of a dataset's table that a file can fill, as PostgreSQL's catalogs describe it. */
export interface LoadableColumn {
  readonly name: string
  /** The PostgreSQL type, such as `numeric(18,4)`. For a domain, this is its base type. */
  readonly type: string
  readonly is_list: boolean
  readonly is_nullable: boolean
  /** Whether the column contains symbols. All tables spell a symbol the same way (D41). */
  readonly is_symbol: boolean
  /** The column's default as an SQL expression, such as `now()`. Null if it has none. */
  readonly default_value: string | null
}

/** Reads the columns of a table that a file can fill, in the order of the table. `table` is its name in SQL. */
export const readLoadableColumns = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
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
 * history fills.
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
 * Reads the names of the columns of a table whose text is stored whole in an index, which limits its length. Columns in
 * an expression, such as `lower(name)`, are included. Trigram indexes do not count, because they store only short
 * pieces of the text.
 */
export const readIndexedColumns = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  // `indkey` has the columns that are indexed as they are. Those in an expression are only known from `pg_depend`,
  // where the index depends on each.
  const rows = yield* sql<{ readonly name: string }>`
    select distinct attname as name from pg_index join pg_attribute on attrelid = indrelid and (
      attnum = any (indkey::int2[]) or indexprs is not null
        and not exists (select from pg_opclass where oid = any (indclass::oid[]) and opcname = 'gin_trgm_ops')
        and exists (
          select from pg_depend where classid = 'pg_class'::regclass and objid = indexrelid and refobjid = indrelid
            and refobjsubid = attnum
        )
    )
    where indrelid = ${table}::regclass order by 1
  `
  return rows.map(({ name }) => name)
})

/** Returns the name of the advisory lock that a load holds on a table, so that a second load waits for it. */
export const formatLoadLockName = (table: string) => `load ${table}`

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
 * Waits until no other load of the tables is running, and prevents others from starting until the transaction ends.
 * Also disables the timeouts of the transaction, which are meant for reads. A transaction that loads several tables
 * must lock all of them in one call: the call locks them in alphabetical order, so that two such transactions cannot
 * deadlock. Unless `isSilent` is true, prints which table it is waiting for.
 */
export const acquireTableLoadLocks = Effect.fnUntraced(function* (tables: ReadonlyArray<string>, isSilent = false) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local lock_timeout = 0`
  // The load may ask a person for confirmation, who may take a while to reply.
  yield* sql`set local idle_in_transaction_session_timeout = 0`
  yield* Effect.forEach(tables.toSorted(), (table) => acquireTableLoadLock(table, isSilent), { discard: true })
})

/** Runs a query of PostgreSQL's catalogs that returns statements, and then runs these statements. */
const runGeneratedStatements = Effect.fnUntraced(
  function* (query: Effect.Effect<ReadonlyArray<{ readonly statement: string }>, SqlError.SqlError>) {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.forEach(yield* query, ({ statement }) => sql.unsafe(statement), { discard: true })
  },
)

/**
 * The column for the line of the file on which a row starts. Only staging tables for files that omit columns have it.
 * No dataset can have a column of this name, because it contains spaces.
 */
export const lineNumberColumn: LoadableColumn = {
  name: "line in the file",
  type: "bigint",
  is_list: false,
  is_nullable: true,
  is_symbol: false,
  default_value: null,
}

/** A staging table, and the dataset's table into which its rows will be merged. */
export interface StagedRows {
  /** Name of the staging table in SQL, such as `loading.news`. */
  readonly source: string
  /** Name of the dataset's table in SQL, such as `public.news`. */
  readonly target: string
  /** The columns of the dataset's table that a file can fill. */
  readonly columns: ReadonlyArray<LoadableColumn>
  readonly dataset: LoadableDataset
}

/**
 * Creates an empty staging table for a dataset, with a unique key and no triggers. Columns with a default accept null,
 * which means that the file has no value. The table enforces all CHECK constraints of the dataset's table, even those
 * that the existing rows have not been checked against (`not valid`).
 *
 * If the file may omit columns, `isIncomplete` must be true: then every column accepts null, and the table has
 * `lineNumberColumn` instead of CHECK constraints. The merge fills the omitted columns, so only it can check them.
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

/** Drops a staging table once its rows are merged. */
export const dropStagingTable = Effect.fnUntraced(function* ({ source }: StagedRows) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`drop table ${source}`)
})

/** Whether the table still has a unique index on the dataset's key. The owner of the database may have dropped it. */
const hasUniqueKey = Effect.fnUntraced(function* (table: string, { key }: LoadableDataset) {
  const sql = yield* SqlClient.SqlClient
  const indexes = yield* sql<{ readonly columns: ReadonlyArray<string> }>`
    select array_agg(attname::text) as columns
    from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey::int2[])
    where indrelid = ${table}::regclass and indisunique and indpred is null and indexprs is null
    group by indexrelid
  `
  const keyColumns = new Set(key)
  return indexes.some(({ columns }) => keyColumns.symmetricDifference(new Set(columns)).size === 0)
})

/** Encodes a cell as text, for a parameter of type `text[]`. A list becomes JSON. */
const encodeCell = (cell: RowCells[string]) =>
  cell === undefined || cell === null ? null : typeof cell === "string" ? cell : JSON.stringify(cell)

const quoteColumns = (names: ReadonlyArray<string>) => names.map((name) => `"${name}"`).join(", ")

const qualifyColumns = (alias: string, names: ReadonlyArray<string>) =>
  names.map((name) => `${alias}."${name}"`).join(", ")

/** Returns SQL that converts the text of `encodeCell` to the type of its column, or to the default if it is null. */
const makeCellSql = ({ default_value, is_list, name, type }: LoadableColumn) => {
  const value = is_list
    ? `case when "${name}" is not null then array(select jsonb_array_elements_text("${name}"::jsonb)) end`
    : `"${name}"::${type}`
  return default_value === null ? value : `coalesce(${value}, ${default_value})`
}

/** A CHECK constraint of a dataset's table, or of the domain of one of its columns. */
interface CheckConstraint {
  readonly name: string
  /** The condition as an SQL expression. */
  readonly expression: string
  readonly columns: ReadonlyArray<string>
}

const readCheckConstraints = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  // The condition of a domain calls the value VALUE; it becomes a condition on the column, such as `price > 0`.
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
  /** The line of the file on which the row starts. */
  readonly line: number
  /**
   * The values of `columns` as text: as they are written in the file if possible, otherwise as PostgreSQL prints them.
   */
  readonly values: ReadonlyArray<string | null>
}

/**
 * Evaluates the CHECK constraints of a table and of its domains for the rows of an SQL query. Besides the columns of
 * the table, the query returns the column `line`. Returns the first `limit` violations by line.
 */
const findCheckViolations = Effect.fnUntraced(
  function* (table: string, query: string, parameters: ReadonlyArray<unknown>, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const constraints = yield* readCheckConstraints(table)
    // One row per constraint: its index, whether it is violated (null counts as satisfied), and the cells.
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

/**
 * Rows violate CHECK constraints of the table that the validation of single cells does not cover. Nothing was written.
 */
export class RowsViolateChecks extends Data.TaggedError("RowsViolateChecks")<{
  readonly violations: ReadonlyArray<CheckViolation>
}> {}

/**
 * Runs statements in a savepoint. If they violate a CHECK constraint, rolls back to the savepoint and fails with the
 * rows that `find` returns, because PostgreSQL's own error names only the first one, without its line.
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

const isEmptyTextNull = ({ is_nullable, type }: LoadableColumn) => is_nullable && type === "text"

/**
 * Returns SQL for the value by which a key column of an existing row is compared. Empty text, which only another
 * program can have stored, counts as null, because responses print it as null (D16).
 */
const makeComparedKeySql = (column: LoadableColumn) =>
  isEmptyTextNull(column) ? `nullif(existing."${column.name}", '')` : `existing."${column.name}"`

/**
 * Returns the SQL condition that `existing` and `incoming` have the same key. Columns that cannot be null are compared
 * by `=`, because PostgreSQL cannot use an index for `is not distinct from`.
 */
const makeKeyCondition = ({ columns, dataset: { key } }: Pick<StagedRows, "columns" | "dataset">) =>
  columns.filter(({ name }) => key.includes(name)).map((column) =>
    `${makeComparedKeySql(column)} ${column.is_nullable ? "is not distinct from" : "="} incoming."${column.name}"`
  ).join(" and ")

/**
 * Returns the SQL condition that a row is provisional: such a row replaces only other provisional rows (D22,
 * corrections). `row` is the row's alias. The condition is false if the column is null: a file that omits the column
 * does not change the existing value.
 */
const makeProvisionalCondition = (row: string, { provisional }: LoadableDataset) =>
  provisional === undefined
    ? "false"
    : `((${row}."${provisional.column}" in (${provisional.values.map((value) => `'${value}'`).join(", ")})) is true)`

/**
 * Returns the query that reads a batch from its parameters, one `text[]` per column. The column `line` is the position
 * of the row in the batch, starting at 1.
 */
const makeBatchQuery = (columns: ReadonlyArray<LoadableColumn>) => {
  const arrays = columns.map((_, index) => `$${index + 1}::text[]`).join(", ")
  return `select ${columns.map((column) => `${makeCellSql(column)} as "${column.name}"`).join(", ")}, line
    from unnest(${arrays}) with ordinality as r(${quoteColumns(columns.map(({ name }) => name))}, line)`
}

/**
 * Returns the query for the rows of a batch that may be stored. It leaves out a provisional row if `target`, or an
 * earlier line of the batch, has a row with the same key that is not provisional (D22, corrections). A provisional row
 * before such a line stays: the later row replaces it, so it counts as superseded.
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

/** Returns the `on conflict` action for a key that an earlier batch has inserted: update the row, if it differs. */
const makeConflictAction = (columns: ReadonlyArray<LoadableColumn>, key: ReadonlyArray<string>) => {
  const names = columns.map(({ name }) => name).filter((name) => !key.includes(name))
  // The same row on another line of the file is an identical row.
  const comparedNames = names.filter((name) => name !== lineNumberColumn.name)
  if (comparedNames.length === 0) return "do nothing"
  return `do update set ${names.map((name) => `"${name}" = excluded."${name}"`).join(", ")}
       where (${qualifyColumns("existing", comparedNames)}) is distinct from (${
    qualifyColumns("excluded", comparedNames)
  })`
}

/** What the statement of `makeInsertStatement` counts in one batch. */
interface InsertedCounts {
  /** Rows without the provisional ones that were left out. */
  readonly accepted: number
  /** Accepted rows, counting identical ones once. */
  readonly distinct_rows: number
  /** Distinct keys of the accepted rows. */
  readonly keys: number
  readonly added: number
  readonly updated: number
}

/** Returns the statement that inserts a batch into `target` and counts what it did. */
const makeInsertStatement = (target: string, columns: ReadonlyArray<LoadableColumn>, dataset: LoadableDataset) => {
  const names = columns.map(({ name }) => name)
  const keyColumns = quoteColumns(dataset.key)
  const storedColumns = quoteColumns(names.filter((name) => name !== lineNumberColumn.name))
  // Usually, all rows of a batch are accepted and have different keys. Then the further passes are skipped.
  const ifRepeated = (count: string) =>
    `case when (select count(*) from last) < cardinality($1::text[]) then (${count}) else cardinality($1::text[]) end`
  // - The comment at the start identifies the statement in pg_stat_activity, which truncates long statements.
  // - `incoming` is mentioned several times. Without `not materialized`, PostgreSQL would always store its rows,
  //   although usually only `last` reads them.
  // - `last` has the last row with each key, because a statement must not update the same row twice.
  // - `xmax` is 0 in a row that was inserted, and not 0 in one that was updated.
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

/** Returns the batch as parameters of `makeBatchQuery`: one array of texts per column. */
const encodeBatch = (columns: ReadonlyArray<LoadableColumn>, batch: ReadonlyArray<ValidRow>) =>
  columns.map(({ name }) =>
    makeArrayParameter(
      batch.map(({ cells, line }) => name === lineNumberColumn.name ? String(line) : encodeCell(cells[name])),
      OID.text,
    )
  )

/**
 * Converts a violation that was found in a batch, whose `line` is the position in the batch, to one that has the line
 * and the texts of the file.
 */
const toFileViolation = (batch: ReadonlyArray<ValidRow>) => (violation: CheckViolation): CheckViolation => {
  const { cells = {}, line = 0 } = batch[violation.line - 1] ?? {}
  const values = violation.values.map((value, index) => {
    const cell = cells[violation.columns[index] ?? ""]
    return typeof cell === "string" ? cell : value
  })
  return { ...violation, line, values }
}

/**
 * Returns a function that inserts a batch of rows into the staging table `target`. If several rows have the same key,
 * the last one is stored, but a provisional row replaces only provisional ones (D22, corrections). The function returns
 * the numbers of new keys (`added`), of rows that a later row replaced (`superseded`), of identical rows (`dropped`),
 * and of provisional rows for which an earlier row was kept (`kept`). If rows violate CHECK constraints, it inserts
 * none and fails with the first `limit` violations.
 */
export const makeRowInserter = Effect.fnUntraced(
  function* (target: string, columns: ReadonlyArray<LoadableColumn>, dataset: LoadableDataset, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const insert = makeInsertStatement(target, columns, dataset)
    return Effect.fnUntraced(function* (batch: ReadonlyArray<ValidRow>) {
      const parameters = encodeBatch(columns, batch)
      const findViolations = Effect.map(
        findCheckViolations(dataset.table, makeBatchQuery(columns), parameters, limit),
        (violations) => violations.map(toFileViolation(batch)),
      )
      const [counts] = yield* explainCheckViolations(sql.unsafe<InsertedCounts>(insert, parameters), findViolations)
      const { accepted, added, distinct_rows, keys, updated } = counts ??
        { accepted: 0, added: 0, distinct_rows: 0, keys: 0, updated: 0 }
      // PostgreSQL has checked only the last row with each key, but an invalid row before it also refuses the file.
      const violations = keys === batch.length ? [] : yield* findViolations
      if (violations.length > 0) return yield* new RowsViolateChecks({ violations })
      const superseded = updated + distinct_rows - keys
      return { added, superseded, dropped: accepted - added - superseded, kept: batch.length - accepted }
    })
  },
)

/** How many rows of the dataset's table a load added, updated and left unchanged. */
export interface MergedRowCounts {
  readonly added: number
  readonly updated: number
  readonly unchanged: number
  /** Rows of the file that are provisional and differ from an existing row, which was kept (D22, corrections). */
  readonly kept: number
}

/** How many rows of the dataset's table a replacement added, updated, left unchanged and removed. */
export interface ReplacedRowCounts extends MergedRowCounts {
  readonly removed: number
}

/** Returns the first `limit` lines of the file, in order, whose rows have a key that the dataset's table lacks. */
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

/** How a merge treats columns that the file lacks, and whether it shares the table with other writers. */
export interface StagedRowMergeOptions {
  /**
   * Columns that the file lacks because API responses show them only on request or never. An existing row that differs
   * only in them is left unchanged, so that an export can be loaded again.
   */
  readonly hidden: ReadonlyArray<string>
  /** Columns in which existing rows keep their values. */
  readonly omitted: ReadonlyArray<string>
  /** Whether rows are appended: `provisional` applies, and other programs may write to the table during the merge. */
  readonly isAppend: boolean
}

/** Returns SQL for the value that an existing row must have to count as unchanged by the row of the file. */
const makeExpectedValueSql = (hidden: ReadonlyArray<string>) => ({ default_value, name }: LoadableColumn) =>
  hidden.includes(name)
    ? `existing."${name}"`
    : default_value === null
    ? `incoming."${name}"`
    : `coalesce(incoming."${name}", existing."${name}")`

/** SQL conditions on a row `existing` of the dataset's table and a row `incoming` of the file. */
interface MergeConditions {
  /** Both rows have the same key. */
  readonly isMatch: string
  /** The merge changes the existing row. */
  readonly isChanged: string
  /** The existing row is kept, because only `incoming` is provisional. */
  readonly isKept: string
  /** The columns that an update sets. */
  readonly updatedColumns: ReadonlyArray<LoadableColumn>
}

/** Returns the conditions of a merge. `load --check` and the undo count rows by the same conditions. */
const makeMergeConditions = (
  { columns, dataset }: StagedRows,
  { hidden, isAppend, omitted }: StagedRowMergeOptions,
): MergeConditions => {
  const updatedColumns = columns.filter(({ name }) => !dataset.key.includes(name) && !omitted.includes(name))
  const isKept = isAppend
    ? `(${makeProvisionalCondition("incoming", dataset)} and not ${makeProvisionalCondition("existing", dataset)})`
    : "false"
  const existingValues = qualifyColumns("existing", updatedColumns.map(({ name }) => name))
  const expectedValues = updatedColumns.map(makeExpectedValueSql(hidden)).join(", ")
  const isChanged = Array.isReadonlyArrayEmpty(updatedColumns)
    ? "false"
    : `(not ${isKept} and (${existingValues}) is distinct from (${expectedValues}))`
  return { isMatch: makeKeyCondition({ columns, dataset }), isChanged, isKept, updatedColumns }
}

/** SQL conditions on a row `existing` that a replacement deletes. */
interface RemovalConditions {
  /** Another existing row has the same key. One row for each key is kept, for which this condition is false. */
  readonly isRepeated: string
  /** The row's key is not in the file, or the row is repeated. */
  readonly isRemoved: string
}

const makeRemovalConditions = Effect.fnUntraced(
  function* (staged: StagedRows) {
    const { columns, dataset, source, target } = staged
    const keyColumns = columns.filter(({ name }) => dataset.key.includes(name))
    const comparedKey = keyColumns.map(makeComparedKeySql).join(", ")
    // With a unique index, only rows with null or empty text in the key can have equal keys, so the others need not be
    // sorted.
    const repeatable = (yield* hasUniqueKey(target, dataset))
      ? keyColumns.filter(isEmptyTextNull).map((column) => `${makeComparedKeySql(column)} is null`)
      : ["true"]
    // `ctid`, the physical place of a row, distinguishes rows with equal keys.
    const isRepeated = repeatable.length === 0 ? "false" : `existing.ctid in (
      select row_id from (
        select ctid as row_id, row_number() over (partition by ${comparedKey} order by ctid) as copy
        from ${target} as existing where ${repeatable.join(" or ")}
      ) as rows where copy > 1
    )`
    const isMissing = `not exists (select from ${source} as incoming where ${makeKeyCondition(staged)})`
    const conditions: RemovalConditions = { isRepeated, isRemoved: `(${isMissing} or ${isRepeated})` }
    return conditions
  },
)

/** Runs a statement that returns one row, and returns the number in its column `count`. */
const readCount = Effect.fnUntraced(function* (statement: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql.unsafe<{ readonly count: number }>(statement)
  return row?.count ?? 0
})

/** Counts the rows of a table. `from` is its name in SQL, which an alias and a `where` clause may follow. */
export const countRows = (from: string) => readCount(`select count(*)::int as count from ${from}`)

/** Returns SQL for the value that the merge stores in a column: the file's value or, if it is null, the default. */
const makeStoredValueSql = ({ default_value, name }: LoadableColumn) =>
  default_value === null ? `incoming."${name}"` : `coalesce(incoming."${name}", ${default_value})`

/** A row of the file could not be merged, so nothing was loaded. The message names its key. */
export class RowNotMerged extends Data.TaggedError("RowNotMerged")<{ readonly message: string }> {}

/** Updates the existing rows that differ from the file. Returns the number of the file's rows that were used. */
const updateChangedRows = (
  { source, target }: StagedRows,
  { isChanged, isMatch, updatedColumns }: MergeConditions,
) => {
  if (Array.isReadonlyArrayEmpty(updatedColumns)) return Effect.succeed(0)
  const assignments = updatedColumns.map((column) => `"${column.name}" = ${makeStoredValueSql(column)}`).join(", ")
  // One row of the file may update several existing rows: their keys may differ only in that one has null where another
  // has empty text.
  return readCount(`with updated as (
      update ${target} as existing set ${assignments}
      from ${source} as incoming
      where ${isMatch} and ${isChanged}
      returning incoming.ctid as row_id
    ) select count(distinct row_id)::int as count from updated`)
}

/** Tables with fewer rows are hashed to compare them with a file. */
const minRowsForLookUps = 1_000

/**
 * Runs an insert that compares a file with the table. If PostgreSQL knows the table to be empty, it would plan to scan
 * it for each row of the file, which takes ever longer while the table grows. So it must not plan so for a small table.
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

/** Inserts the rows of the file whose keys are new. Returns their number, and the number of all rows of the file. */
const insertNewRows = Effect.fnUntraced(
  function* ({ columns, source, target }: StagedRows, { isMatch }: MergeConditions) {
    const sql = yield* SqlClient.SqlClient
    // `on conflict` skips a key that another program has added since this statement began.
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

/** Returns the key, as text, of a row of the file that was neither merged nor kept out; undefined if there is none. */
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

const makeRowNotMerged = ({ key, table }: LoadableDataset, unmergedKey: string) =>
  new RowNotMerged({
    message: `The row with the key (${key.join(", ")}) = ${unmergedKey} could not be merged into ` +
      `${table}, so nothing was loaded. The table has a constraint, index or trigger that load does not ` +
      "know, and that keeps the row out or changes it. Remove that, or remove the row from the file.",
  })

/** Enough for any number of concurrent writers, because a merged row stays locked until the commit. */
const maxMergePasses = 10

/**
 * Merges the rows of `source` into `target` by key. Null in a column with a default means that the file has no value
 * for it: new rows, and rows that differ in another column, get the default. Rows that do not differ are not written.
 * Fails with `RowNotMerged` if something that load does not know, such as a trigger, keeps a row out of the table.
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
      // Between the two statements, another program may have added a row with a key of the file. The update was too
      // early for it and the insert skipped it, so the next pass updates it. A replacement has locked the table.
      const unmergedKey = options.isAppend ? yield* findUnmergedKey(staged, conditions) : undefined
      if (unmergedKey === undefined) {
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
 * Runs the merge of a file that omits columns. Its rows are complete, and can violate CHECK constraints, only with the
 * values of existing rows or defaults. If they do, undoes the merge and fails with the first `limit` violations.
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
    // `existing.ctid` is null if no existing row has the key, so the merge would add the row.
    return `${
      omitted.includes(name) ? `case when existing.ctid is null then ${value} else existing."${name}" end` : value
    } as "${name}"`
  }
  const mergedRows = `select ${columns.map(makeMergedValueSql).join(", ")}, incoming."${lineNumberColumn.name}" as line
    from ${source} as incoming left join ${target} as existing on ${makeKeyCondition(staged)}`
  return explainCheckViolations(merge, findCheckViolations(table, mergedRows, [], limit))
}

/** Counts what a replacement would do. Takes no locks, so other programs may change the table before it runs. */
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
    const { matched, total, updated } = counts ?? { total: 0, matched: 0, updated: 0 }
    return { added: total - matched, updated, unchanged: matched - updated, kept: 0, removed }
  },
)

/**
 * Returns keys of the rows that a replacement would add, update and remove: the first `limit` of each, as text such as
 * `(ABC,2026-03-02)`.
 */
export const findReplacedKeys = Effect.fnUntraced(
  function* (staged: StagedRows, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const { dataset: { key }, source, target } = staged
    const { isChanged, isMatch } = makeMergeConditions(staged, { hidden: [], omitted: [], isAppend: false })
    const { isRemoved, isRepeated } = yield* makeRemovalConditions(staged)
    const findKeys = (alias: "existing" | "incoming", from: string) => {
      const keyRow = `row(${qualifyColumns(alias, key)})`
      return Effect.map(
        sql.unsafe<{ readonly key: string }>(
          `select ${keyRow}::text as key from ${from} order by ${keyRow} limit ${limit}`,
        ),
        (found) => found.map(({ key }) => key),
      )
    }
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
 * Locks the dataset's table against other writers until the end of the transaction. Without the lock, rows that they
 * add during a replacement would stay in the table. Readers do not wait.
 */
export const lockTableAgainstWriters = Effect.fnUntraced(function* ({ target }: StagedRows) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`lock table ${target} in share row exclusive mode`)
})

/**
 * Deletes the rows of `target` whose keys are not in `source`, and all but one of the rows with the same key. Returns
 * the number of deleted rows. `condition` is an SQL condition on `existing`; rows that do not meet it stay.
 */
export const deleteRemovedRows = Effect.fnUntraced(
  function* (staged: StagedRows, condition = "true") {
    const { isRemoved } = yield* makeRemovalConditions(staged)
    return yield* readCount(`with deleted as (
        delete from ${staged.target} as existing where ${condition} and ${isRemoved} returning 1
      ) select count(*)::int as count from deleted`)
  },
)

/** What removing the rows of a file from a dataset's table did. */
export interface RemovedRowCounts {
  readonly removed: number
  /** Rows that have the key of a row in the file but other values, so they stayed. */
  readonly changed: number
}

/** Which rows of a file are removed from a dataset's table. */
export interface StagedRowRemovalOptions {
  /**
   * SQL condition on a row `incoming` of the file. Rows that do not meet it are not removed. The default is all rows.
   */
  readonly condition?: string
  /** Whether existing rows that have the key of a row in the file, but other values, are removed too. */
  readonly includesChanged?: boolean
}

/**
 * Deletes the rows of `target` that a merge of `source` would leave unchanged, because they are still as in the file.
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
    // Both parts of the statement see the table as it was before the deletion.
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
 * Validates the constraints of a table that are still `not valid`. A replacement calls this once the rows that violated
 * them are gone.
 */
export const validateConstraints = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* runGeneratedStatements(sql`
    select format('alter table %s validate constraint %I', conrelid::regclass, conname) as statement
    from pg_constraint where conrelid = ${table}::regclass and not convalidated
  `)
})

/**
 * Updates the statistics with which PostgreSQL plans queries on a table that was just filled. Autovacuum would do so
 * too late.
 */
export const analyzeTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`analyze ${table}`)
})
