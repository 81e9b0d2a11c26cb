/**
 * A load first fills a table in the schema `loading`. Then it merges these rows into the dataset's table, and a
 * replacement also deletes the other rows (D31, load).
 */
import { Array, Console, Data, Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { isCheckViolation } from "../../postgres/SqlState.ts"
import type { LoadableDataset, RowCells } from "../../contract/Datasets.ts"
import type { ValidRow } from "./RowValidation.ts"

export interface LoadableColumn {
  readonly name: string
  /** The PostgreSQL type, such as `numeric(18,4)`; the base type of a domain. */
  readonly type: string
  readonly is_list: boolean
  readonly is_nullable: boolean
  /** Whether the column contains symbols, which have one spelling in all tables (D41). */
  readonly is_symbol: boolean
  /** The default as an SQL expression. */
  readonly default_value: string | null
}

/** Reads a table's columns that accept values from a file. */
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

/** Reads the names of a table's columns that accept no values from a file: generated ones, and the ledger's. */
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
 * Reads the names of a table's columns that an index contains, as they are or in lower case. An index of trigrams
 * contains parts of a text.
 */
export const readIndexedColumns = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
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

/** Returns the name of the advisory lock that a load of the table holds, so that a second load waits. */
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
 * Waits until no other load of the tables is running. Disables the transaction's timeouts, which are for reads. A
 * transaction that loads several tables must lock all of them at once: in alphabetical order, two such transactions
 * cannot deadlock. Unless `isSilent` is true, prints for which table it waits.
 */
export const acquireTableLoadLocks = Effect.fnUntraced(function* (tables: ReadonlyArray<string>, isSilent = false) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local lock_timeout = 0`
  // A person may take a while to answer a question.
  yield* sql`set local idle_in_transaction_session_timeout = 0`
  yield* Effect.forEach(tables.toSorted(), (table) => acquireTableLoadLock(table, isSilent), { discard: true })
})

/** Runs the statements that a query of PostgreSQL's catalogs returns. */
const runGenerated = Effect.fnUntraced(
  function* (generated: Effect.Effect<ReadonlyArray<{ readonly statement: string }>, SqlError.SqlError>) {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.forEach(yield* generated, ({ statement }) => sql.unsafe(statement), { discard: true })
  },
)

/** Column with a row's line number in the file. Only a staging table for incomplete rows has it. */
export const lineNumberColumn: LoadableColumn = {
  name: "line in the file",
  type: "bigint",
  is_list: false,
  is_nullable: true,
  is_symbol: false,
  default_value: null,
}

/** A staging table, and the dataset's table into which its rows are merged. */
export interface StagedRows {
  /** Name of the staging table in SQL, such as `loading.news`. */
  readonly source: string
  /** Name of the dataset's table in SQL, such as `public.news`. */
  readonly target: string
  readonly columns: ReadonlyArray<LoadableColumn>
  readonly dataset: LoadableDataset
}

/**
 * Creates an empty table for rows to merge, which has no triggers, and whose key is unique. Columns with a default
 * accept null. It enforces even the constraints that are not validated on the dataset's table. If `isIncomplete`, for a
 * file that omits columns, every column accepts null, and the table has a line number instead of check constraints.
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
  yield* runGenerated(sql`
    select format('alter table loading.%I alter %I drop not null', ${table}::text, attname) as statement
    from pg_attribute
    where attrelid = ${target}::regclass and attnum > 0 and attnotnull and attgenerated = ''
      and (atthasdef or ${isIncomplete})
  `)
  yield* sql.unsafe(`alter table ${source} add unique nulls not distinct (${quoteColumns(key)})`)
  const staged: StagedRows = { source, target, columns, dataset }
  return staged
})

export const dropStagingTable = Effect.fnUntraced(function* ({ source }: StagedRows) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`drop table ${source}`)
})

/** Whether the table has a unique index on the dataset's key. A database owner may have dropped it. */
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

const encodeCell = (cell: RowCells[string]) =>
  cell === undefined || cell === null ? null : typeof cell === "string" ? cell : JSON.stringify(cell)

const quoteColumns = (names: ReadonlyArray<string>) => names.map((name) => `"${name}"`).join(", ")

const qualifyColumns = (alias: string, names: ReadonlyArray<string>) =>
  names.map((name) => `${alias}."${name}"`).join(", ")

/** Returns SQL that converts a cell's text to the type of its column. */
const convertCell = ({ default_value, is_list, name, type }: LoadableColumn) => {
  const value = is_list
    ? `case when "${name}" is not null then array(select jsonb_array_elements_text("${name}"::jsonb)) end`
    : `"${name}"::${type}`
  return default_value === null ? value : `coalesce(${value}, ${default_value})`
}

/** A CHECK constraint of a dataset's table, or of the domain of one of its columns. */
interface TableRule {
  readonly name: string
  /** The condition as an SQL expression. */
  readonly expression: string
  readonly columns: ReadonlyArray<string>
}

const readTableRules = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<TableRule>`
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

export interface ViolatedRule extends Omit<TableRule, "name"> {
  readonly line: number
  /** The values of `columns` as text, if possible as the file has it. */
  readonly values: ReadonlyArray<string | null>
}

/**
 * Evaluates the CHECK constraints of the table and its domains on the rows of an SQL query, which has the column
 * `line`. Returns the first `limit` violations.
 */
const findViolations = Effect.fnUntraced(
  function* (table: string, rows: string, parameters: ReadonlyArray<unknown>, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const rules = yield* readTableRules(table)
    const checks = rules.map(({ columns, expression }, index) =>
      `(${index}, (${expression}) is false, array[${columns.map((name) => `"${name}"::text`).join(", ")}])`
    )
    if (checks.length === 0) return []
    const found = yield* sql.unsafe<{
      readonly line: bigint
      readonly rule: number
      readonly cells: ReadonlyArray<string | null>
    }>(
      `select given.line, violated.rule, violated.cells
      from (${rows}) as given, lateral (values ${checks.join(", ")}) as violated (rule, broken, cells)
      where violated.broken order by given.line, violated.rule limit ${limit}`,
      parameters,
    )
    return found.flatMap(({ cells, line, rule }): ReadonlyArray<ViolatedRule> => {
      const violated = rules[rule]
      return violated === undefined ? [] : [{ ...violated, line: Number(line), values: cells }]
    })
  },
)

/** Rows violate CHECK constraints that the validation of cells does not know. Nothing was inserted. */
export class ViolatedRules extends Data.TaggedError("ViolatedRules")<{
  readonly violations: ReadonlyArray<ViolatedRule>
}> {}

/** Runs statements in a savepoint. If they violate a CHECK constraint, `find` finds the rows after the rollback. */
const explainViolations = Effect.fnUntraced(function* <A, E, R, E2, R2>(
  statements: Effect.Effect<A, E, R>,
  find: Effect.Effect<ReadonlyArray<ViolatedRule>, E2, R2>,
) {
  const sql = yield* SqlClient.SqlClient
  const explain = Effect.fnUntraced(function* (error: E | SqlError.SqlError) {
    const violations = isCheckViolation(error) ? yield* find : []
    return yield* violations.length > 0 ? new ViolatedRules({ violations }) : Effect.fail(error)
  })
  return yield* Effect.catch(sql.withTransaction(statements), explain)
})

const isComparedAsNull = ({ is_nullable, type }: LoadableColumn) => is_nullable && type === "text"

/**
 * SQL for the value by which a column of the key is compared. Empty text that another program stored equals null,
 * because responses contain null (D16).
 */
const toComparedKey = (row: string, column: LoadableColumn) =>
  isComparedAsNull(column) ? `nullif(${row}."${column.name}", '')` : `${row}."${column.name}"`

/**
 * SQL condition for equal keys. Compares columns without nulls by `=`, because PostgreSQL uses no index for
 * `is not distinct from`.
 */
const matchKey = ({ columns, dataset: { key } }: Pick<StagedRows, "columns" | "dataset">) =>
  columns.filter(({ name }) => key.includes(name)).map((column) =>
    `${toComparedKey("existing", column)} ${column.is_nullable ? "is not distinct from" : "="} given."${column.name}"`
  ).join(" and ")

/**
 * SQL condition of provisional rows, which replace only other provisional rows (D22, corrections). It is false if the
 * column is null, because a file that omits the column keeps the existing value.
 */
const isProvisional = (row: string, { provisional }: LoadableDataset) =>
  provisional === undefined
    ? "false"
    : `((${row}."${provisional.column}" in (${provisional.values.map((value) => `'${value}'`).join(", ")})) is true)`

interface InsertedCounts {
  /** Rows of the batch without those for which an earlier row was kept. */
  readonly given: number
  readonly distinct_rows: number
  readonly keys: number
  readonly added: number
  readonly updated: number
}

/**
 * Returns a function that inserts a batch of rows. Of rows with the same key, the last one wins, but a provisional row
 * replaces only provisional ones (D22, corrections). The function returns the numbers of added keys, of rows superseded
 * by a later row, of dropped identical rows, and of provisional rows for which an earlier row was kept.
 */
export const makeRowInserter = Effect.fnUntraced(
  function* (target: string, columns: ReadonlyArray<LoadableColumn>, dataset: LoadableDataset, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const { key, provisional, table } = dataset
    const names = columns.map(({ name }) => name)
    const otherNames = names.filter((name) => !key.includes(name))
    const storedNames = names.filter((name) => name !== lineNumberColumn.name)
    const comparedNames = storedNames.filter((name) => !key.includes(name))
    const arrays = columns.map((_, index) => `$${index + 1}::text[]`).join(", ")
    const read = `select ${columns.map((column) => `${convertCell(column)} as "${column.name}"`).join(", ")}, line
    from unnest(${arrays}) with ordinality as r(${quoteColumns(names)}, line)`
    const given = provisional === undefined ? read : `select * from (
      select *, min(line) filter (where not ${isProvisional("read", dataset)})
        over (partition by ${quoteColumns(key)}) as "first line to keep"
      from (${read}) as read
    ) as given
    where not ${isProvisional("given", dataset)} or (coalesce(line < "first line to keep", true) and not exists (
      select from ${target} as existing where ${matchKey({ columns, dataset })} and not ${
      isProvisional("existing", dataset)
    }
    ))`
    const onConflict = comparedNames.length === 0
      ? "do nothing"
      : `do update set ${otherNames.map((name) => `"${name}" = excluded."${name}"`).join(", ")}
       where (${qualifyColumns("existing", comparedNames)}) is distinct from (${
        qualifyColumns("excluded", comparedNames)
      })`
    // Rows without equal keys need no further count.
    const ifRepeated = (count: string) =>
      `case when (select count(*) from last) < cardinality($1::text[]) then (${count}) else cardinality($1::text[]) end`
    // The comment at the start identifies the statement in pg_stat_activity, which truncates long statements.
    const insert = `/* load ${target} */ with given as not materialized (${given}),
    last as (select distinct on (${quoteColumns(key)}) * from given order by ${quoteColumns(key)}, line desc),
    inserted as (
      insert into ${target} as existing (${quoteColumns(names)}) select ${quoteColumns(names)} from last order by line
      on conflict (${quoteColumns(key)}) ${onConflict} returning xmax = 0 as added
    )
    select (select count(*)::int from last) as keys,
      ${ifRepeated("select count(*)::int from given")} as given,
      ${ifRepeated(`select count(*)::int from (select distinct ${quoteColumns(storedNames)} from given) as one`)}
        as distinct_rows,
      count(*) filter (where added)::int as added, count(*) filter (where not added)::int as updated
    from inserted`

    return Effect.fnUntraced(function* (batch: ReadonlyArray<ValidRow>) {
      const parameters = names.map((name) =>
        makeArrayParameter(
          batch.map(({ cells, line }) => name === lineNumberColumn.name ? String(line) : encodeCell(cells[name])),
          OID.text,
        )
      )
      const findInvalid = Effect.map(
        findViolations(table, read, parameters, limit),
        (violations) =>
          violations.map((violation): ViolatedRule => {
            const { cells = {}, line = 0 } = batch[violation.line - 1] ?? {}
            const values = violation.values.map((value, index) => {
              const cell = cells[violation.columns[index] ?? ""]
              return typeof cell === "string" ? cell : value
            })
            return { ...violation, line, values }
          }),
      )
      const [counts] = yield* explainViolations(
        sql.unsafe<InsertedCounts>(insert, parameters),
        findInvalid,
      )
      const { added, distinct_rows, given, keys, updated } = counts ??
        { added: 0, distinct_rows: 0, given: 0, keys: 0, updated: 0 }
      // The table has not seen the rows that other ones replace or outrank.
      const violations = keys === batch.length ? [] : yield* findInvalid
      if (violations.length > 0) return yield* new ViolatedRules({ violations })
      const superseded = updated + distinct_rows - keys
      return { added, superseded, dropped: given - added - superseded, kept: batch.length - given }
    })
  },
)

/** Numbers of rows that a load added, updated and left unchanged. */
export interface MergedRowCounts {
  readonly added: number
  readonly updated: number
  readonly unchanged: number
  /** Existing rows that stayed although the file has other values, because those are provisional (D22, corrections). */
  readonly kept: number
}

/** The effects of a replacement. */
export interface ReplacedRowCounts extends MergedRowCounts {
  readonly removed: number
}

/** Returns the line numbers of the first `limit` rows in `source` whose keys are not in `target`. */
export const findLinesWithNewKeys = Effect.fnUntraced(
  function* (staged: StagedRows, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const lines = yield* sql.unsafe<{ readonly line: bigint }>(`
      select "${lineNumberColumn.name}" as line from ${staged.source} as given
      where not exists (select from ${staged.target} as existing where ${matchKey(staged)})
      order by line limit ${limit}
    `)
    return lines.map(({ line }) => Number(line))
  },
)

export interface StagedRowMergeOptions {
  /** A row that differs only in these columns stays unchanged, because the file does not have them. */
  readonly hidden: ReadonlyArray<string>
  /** Existing rows keep the values of these columns. */
  readonly omitted: ReadonlyArray<string>
  /** Whether rows are appended: `provisional` applies, and other programs may write to the table during the merge. */
  readonly isAppend: boolean
}

/** Returns the SQL value that a row of the file gives an existing row, if it differs in another column. */
const makeComparedValue = (hidden: ReadonlyArray<string>) => ({ default_value, name }: LoadableColumn) =>
  hidden.includes(name)
    ? `existing."${name}"`
    : default_value === null
    ? `given."${name}"`
    : `coalesce(given."${name}", existing."${name}")`

/**
 * Returns the SQL conditions of a merge: which row `existing` of the table a row `given` of the file belongs to, and
 * whether it changes that row. A check counts with the same conditions.
 */
const makeMergeConditions = (staged: StagedRows, { hidden, isAppend, omitted }: StagedRowMergeOptions) => {
  const { columns, dataset } = staged
  const otherColumns = columns.filter(({ name }) => !dataset.key.includes(name) && !omitted.includes(name))
  const isKept = isAppend
    ? `(${isProvisional("given", dataset)} and not ${isProvisional("existing", dataset)})`
    : "false"
  const isChanged = Array.isReadonlyArrayEmpty(otherColumns)
    ? "false"
    : `(not ${isKept} and (${qualifyColumns("existing", otherColumns.map(({ name }) => name))}) is distinct from (${
      otherColumns.map(makeComparedValue(hidden)).join(", ")
    }))`
  return { match: matchKey(staged), isChanged, isKept, otherColumns }
}

/**
 * Returns the SQL conditions of the rows `existing` that a replacement removes: those whose keys are not in the file,
 * and all but one of the rows with the same key.
 */
const makeRemovalConditions = Effect.fnUntraced(
  function* (staged: StagedRows) {
    const { columns, dataset, source, target } = staged
    const keyColumns = columns.filter(({ name }) => dataset.key.includes(name))
    const comparedKeys = keyColumns.map((column) => toComparedKey("existing", column))
    // With a unique index, only rows whose key is null or empty text can have the same key.
    const ambiguous = (yield* hasUniqueKey(target, dataset))
      ? keyColumns.filter(isComparedAsNull).map((column) => `${toComparedKey("existing", column)} is null`)
      : ["true"]
    const isRepeated = ambiguous.length === 0 ? "false" : `existing.ctid in (
      select row_id from (
        select ctid as row_id, row_number() over (partition by ${comparedKeys.join(", ")} order by ctid) as copy
        from ${target} as existing where ${ambiguous.join(" or ")}
      ) as rows where copy > 1
    )`
    const isMissing = `not exists (select from ${source} as given where ${matchKey(staged)})`
    return { isRepeated, isRemoved: `(${isMissing} or ${isRepeated})` }
  },
)

/** Runs a statement whose only row has a number in the column `count`. */
const readCount = Effect.fnUntraced(function* (statement: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql.unsafe<{ readonly count: number }>(statement)
  return row?.count ?? 0
})

/** Counts the rows of a table. `from` is its name, and may continue with a condition. */
export const countRows = (from: string) => readCount(`select count(*)::int as count from ${from}`)

/** Returns SQL for the value that a row of the file gives a column: its own or, without one, the default. */
const toStoredValue = ({ default_value, name }: LoadableColumn) =>
  default_value === null ? `given."${name}"` : `coalesce(given."${name}", ${default_value})`

/** A row of the file could not be merged, so nothing was loaded. */
export class RowNotMerged extends Data.TaggedError("RowNotMerged")<{ readonly message: string }> {}

/** Enough for any number of concurrent writers, because a merged row stays locked until the commit. */
const maxMergePasses = 10

/**
 * Merges the rows of `source` into `target` by key. Null in a column with a default means that the file has no value:
 * new rows, and rows that differ in another column, get the default. Rows that do not differ stay unchanged.
 */
export const mergeStagedRows = Effect.fnUntraced(
  function* (staged: StagedRows, options: StagedRowMergeOptions) {
    const sql = yield* SqlClient.SqlClient
    const { columns, dataset, source, target } = staged
    const names = columns.map(({ name }) => name)
    const { isChanged, isKept, match, otherColumns } = makeMergeConditions(staged, options)
    const update = Array.isReadonlyArrayEmpty(otherColumns) ? Effect.succeed(0) : readCount(`with updated as (
        update ${target} as existing
        set ${otherColumns.map((column) => `"${column.name}" = ${toStoredValue(column)}`).join(", ")}
        from ${source} as given
        where ${match} and ${isChanged}
        returning given.ctid as row_id
      ) select count(distinct row_id)::int as count from updated`)
    const insert = sql.unsafe<{ readonly added: number; readonly given: number }>(`with added as (
        insert into ${target} (${quoteColumns(names)}) select ${columns.map(toStoredValue).join(", ")}
        from ${source} as given
        where not exists (select from ${target} as existing where ${match})
        on conflict do nothing returning 1
      ) select (select count(*)::int from added) as added, count(*)::int as given from ${source}`)
    const findUnmergedRow = Effect.map(
      sql.unsafe<{ readonly key: string }>(`select row(${qualifyColumns("given", dataset.key)})::text as key
        from ${source} as given
        where not exists (select from ${target} as existing where ${match} and not ${isChanged}) limit 1`),
      ([row]) => row?.key,
    )
    const countKept = countRows(
      `${source} as given where not exists (select from ${target} as existing where ${match} and not ${isKept})`,
    )
    let [updated, added] = [0, 0]
    for (let pass = 1;; pass += 1) {
      updated += yield* update
      const { added: newlyAdded = 0, given = 0 } = (yield* insert)[0] ?? {}
      added += newlyAdded
      // Another program may have added a row with this key between the statements, so neither merged the file's row.
      const unmerged = options.isAppend ? yield* findUnmergedRow : undefined
      if (unmerged === undefined) {
        const kept = options.isAppend && dataset.provisional !== undefined ? yield* countKept : 0
        return { added, updated, unchanged: given - added - updated - kept, kept }
      }
      if (pass < maxMergePasses) continue
      return yield* new RowNotMerged({
        message: `The row with the key (${dataset.key.join(", ")}) = ${unmerged} could not be merged into ` +
          `${dataset.table}, so nothing was loaded. The table has a constraint, index or trigger that load does not ` +
          "know, and that keeps the row out or changes it. Remove that, or remove the row from the file.",
      })
    }
  },
)

/** Finds rows that violate a CHECK constraint only after the merge, because the file omits columns. */
export const explainMergeViolations = <A, E, R>(
  merge: Effect.Effect<A, E, R>,
  staged: StagedRows,
  omitted: ReadonlyArray<string>,
  limit: number,
) => {
  const { columns, dataset: { table }, source, target } = staged
  const toMerged = (column: LoadableColumn) => {
    const [name, value] = [column.name, toStoredValue(column)]
    return `${
      omitted.includes(name) ? `case when existing.ctid is null then ${value} else existing."${name}" end` : value
    } as "${name}"`
  }
  const rows = `select ${columns.map(toMerged).join(", ")}, given."${lineNumberColumn.name}" as line
    from ${source} as given left join ${target} as existing on ${matchKey(staged)}`
  return explainViolations(merge, findViolations(table, rows, [], limit))
}

/** Counts what a replacement would do, without locks. */
export const countReplacement = Effect.fnUntraced(
  function* (staged: StagedRows, hidden: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    const { source, target } = staged
    const { isChanged, match } = makeMergeConditions(staged, { hidden, omitted: [], isAppend: false })
    const { isRepeated } = yield* makeRemovalConditions(staged)
    const [counts] = yield* sql.unsafe<{ readonly given: number; readonly known: number; readonly updated: number }>(`
      select (select count(*)::int from ${source}) as given, count(*)::int as known,
        count(*) filter (where ${isChanged})::int as updated
      from ${source} as given join ${target} as existing on ${match} and not ${isRepeated}
    `)
    const removed = yield* countRemovedRows(staged)
    const { given, known, updated } = counts ?? { given: 0, known: 0, updated: 0 }
    return { added: given - known, updated, unchanged: known - updated, kept: 0, removed }
  },
)

/** Returns the keys of the first `limit` rows that a replacement would add, update and remove, as text. */
export const findReplacedKeys = Effect.fnUntraced(
  function* (staged: StagedRows, limit: number) {
    const sql = yield* SqlClient.SqlClient
    const { dataset: { key }, source, target } = staged
    const { isChanged, match } = makeMergeConditions(staged, { hidden: [], omitted: [], isAppend: false })
    const { isRemoved, isRepeated } = yield* makeRemovalConditions(staged)
    const find = (row: "existing" | "given", rows: string) =>
      Effect.map(
        sql.unsafe<{ readonly key: string }>(
          `select row(${qualifyColumns(row, key)})::text as key from ${rows} order by row(${qualifyColumns(row, key)})
          limit ${limit}`,
        ),
        (found) => found.map(({ key }) => key),
      )
    return yield* Effect.all({
      added: find(
        "given",
        `${source} as given where not exists (
        select from ${target} as existing where ${match} and not ${isRepeated}
      )`,
      ),
      updated: find(
        "given",
        `${source} as given join ${target} as existing on ${match} and not ${isRepeated}
        where ${isChanged}`,
      ),
      removed: find("existing", `${target} as existing where ${isRemoved}`),
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
 * Locks the table against other writers until the end of the transaction. Otherwise a replacement would keep the rows
 * that they add. Readers do not wait.
 */
export const lockTableAgainstWriters = Effect.fnUntraced(function* ({ target }: StagedRows) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`lock table ${target} in share row exclusive mode`)
})

/**
 * Deletes the rows of `target` whose keys are not in `source`, and duplicates of a key. Returns their number.
 * `condition` is an SQL condition that restricts the rows of `existing`.
 */
export const deleteRemovedRows = Effect.fnUntraced(
  function* (staged: StagedRows, condition = "true") {
    const { isRemoved } = yield* makeRemovalConditions(staged)
    return yield* readCount(`with deleted as (
        delete from ${staged.target} as existing where ${condition} and ${isRemoved} returning 1
      ) select count(*)::int as count from deleted`)
  },
)

/** Numbers of rows of a table, when the rows of a file were removed from it. */
export interface RemovedRowCounts {
  readonly removed: number
  /** Rows with the key of a row in the file that have other values. They stay, as do rows with other keys. */
  readonly changed: number
}

export interface StagedRowRemovalOptions {
  /** SQL condition that selects rows of the file, which it calls `given`. */
  readonly isGiven?: string
  /** Whether rows with the key of a row in the file are deleted even if they have other values. */
  readonly includesChanged?: boolean
}

/** Deletes the rows of `target` that a merge of `source` would leave unchanged. */
export const deleteStagedRows = Effect.fnUntraced(
  function* (
    staged: StagedRows,
    hidden: ReadonlyArray<string>,
    { includesChanged = false, isGiven = "true" }: StagedRowRemovalOptions,
  ) {
    const sql = yield* SqlClient.SqlClient
    const { source, target } = staged
    const conditions = makeMergeConditions(staged, { hidden, omitted: [], isAppend: false })
    const { match } = conditions
    const isChanged = includesChanged ? "false" : conditions.isChanged
    const isMatch = `${isGiven} and ${match}`
    const [counts] = yield* sql.unsafe<RemovedRowCounts>(`with deleted as (
        delete from ${target} as existing using ${source} as given where ${isMatch} and not ${isChanged} returning 1
      )
      select (select count(*)::int from deleted) as removed, count(*) filter (where ${isChanged})::int as changed
      from ${source} as given join ${target} as existing on ${isMatch}`)
    return counts ?? { removed: 0, changed: 0 }
  },
)

/** Validates the table's constraints that are not validated yet, once the rows that violated them are replaced. */
export const validateConstraints = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* runGenerated(sql`
    select format('alter table %s validate constraint %I', conrelid::regclass, conname) as statement
    from pg_constraint where conrelid = ${table}::regclass and not convalidated
  `)
})

/** Updates the planner's statistics of a table that was just filled, instead of waiting for autovacuum. */
export const analyzeTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`analyze ${table}`)
})
