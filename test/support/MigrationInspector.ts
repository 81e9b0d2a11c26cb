/** Uses PostgreSQL's statistics and catalogs to inspect what a migration does to a database in use. */
import { Data, Effect, Predicate } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { MigrationScript } from "../../src/postgres/migrations/MigrationScripts.ts"
import { smallRowCount } from "./MigrationDatabases.ts"

/**
 * The minimum number of rows in a table. With fewer rows, the checks might not notice that a migration touches all of
 * them.
 */
const filledRowCount = smallRowCount * 10

/**
 * Reads the tables, columns, indexes, triggers and functions on which the previous release relies. Returns a set of
 * texts, such as `table news` and `column news.title text`. Besides objects, the texts are about what the release may
 * do: `null in column …` and `insert into … without …`, if the column may be null or omitted.
 *
 * In the statement, `ours` has the project's tables, views, indexes and sequences, and `columns` their columns.
 */
const readContents = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // Returns one row instead of thousands, because this query runs hundreds of times.
  const [found] = yield* sql<{ readonly things: ReadonlyArray<string> }>`
    with ours as (
      select oid, relname, relkind from pg_class
      where relnamespace in ('public'::regnamespace, 'loading'::regnamespace) and not relispartition
    ), columns as (
      select ours.oid, relname, attname, format_type(atttypid, atttypmod) as type, attnotnull,
        atthasdef or attidentity <> '' as filled
      from ours join pg_attribute on attrelid = ours.oid
      where relkind in ('r', 'p', 'v', 'm') and attnum > 0 and not attisdropped
    )
    select array_agg(thing) as things from (
      select format('table %s', relname) as thing from ours where relkind in ('r', 'p', 'v', 'm', 'S')
      union all select format('column %s.%s %s', relname, attname, type) from columns
      union all select format('null in column %s.%s', relname, attname) from columns where not attnotnull
      union all select format('insert into %s without %s', relname, attname) from columns where filled or not attnotnull
      union all select format('index %s', regexp_replace(pg_get_indexdef(indexrelid), 'INDEX \\S+ ON', 'INDEX ON'))
        from pg_index join ours on ours.oid = indrelid where indisvalid
      union all select format('trigger %s of %s', tgname, relname)
        from pg_trigger join ours on ours.oid = tgrelid where not tgisinternal and tgenabled <> 'D'
      union all
      select format('function %s returning %s', pg_proc.oid::regprocedure, pg_get_function_result(pg_proc.oid))
        from pg_proc where pronamespace = 'public'::regnamespace
          and not exists (select from pg_depend where objid = pg_proc.oid and deptype = 'e')
    ) as listed
  `
  return new Set(found?.things)
})

/**
 * Reads the constraints that can reject a row, once for each column that they involve: columns that must have a value,
 * check, foreign key and exclusion constraints, and unique indexes, in this order. `rule` describes the constraint.
 */
const readConstraints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly table: string; readonly column: string; readonly rule: string }>`
    select relname as table, attname as column, attname || ' is required' as rule
    from pg_attribute join pg_class on pg_class.oid = attrelid
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition and attnum > 0
      and not attisdropped and attnotnull and not atthasdef and attidentity = ''
    union all
    select relname, attname, replace(pg_get_constraintdef(pg_constraint.oid), ' NOT VALID', '')
    from pg_constraint join pg_class on pg_class.oid = conrelid
      join pg_attribute on attrelid = conrelid and attnum = any (conkey)
    where relnamespace = 'public'::regnamespace and not relispartition and contype in ('c', 'f', 'x')
    union all
    select relname, attname, pg_get_indexdef(indexrelid)
    from pg_index join pg_class on pg_class.oid = indrelid
      join pg_attribute on attrelid = indrelid and attnum = any (indkey::int2[])
    where relnamespace = 'public'::regnamespace and not relispartition and indisunique
  `
})

/**
 * Reads every table and index, with the number of its file (`file`, which changes when the relation is rewritten) and
 * the number of rows in its table. Counting stops at `filledRowCount`. SQL cannot count the rows of a table whose name
 * comes from a row, so `query_to_xml` runs a `count` for each table, and `xpath` reads the number from the XML.
 */
const readRelations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<
    { readonly oid: number; readonly name: string; readonly file: number | null; readonly rows: number }
  >`
    with ours as materialized (
      select oid, relname, relkind from pg_class
      where relnamespace in ('public'::regnamespace, 'loading'::regnamespace) and relkind in ('r', 'p', 'i', 'I', 'm')
    ), counted as materialized (
      select oid, (xpath('/row/c/text()', query_to_xml(
        format('select count(*) as c from (select from %s limit %s) as limited', oid::regclass, ${filledRowCount}::int),
        false, true, '')))[1]::text::int as rows
      from ours where relkind in ('r', 'p', 'm')
    )
    select ours.oid::int, relname as name, pg_relation_filenode(ours.oid)::int as file, rows
    from ours left join pg_index on indexrelid = ours.oid join counted on counted.oid = coalesce(indrelid, ours.oid)
  `
})

/**
 * Reads the schema before a migration. Tests that roll back call this only once, because it takes longer than a
 * migration.
 */
export const readSchema = Effect.all({ contents: readContents, refusals: readConstraints, relations: readRelations })

type Schema = Effect.Success<typeof readSchema>

/** Reads the filenode of each relation. Rewriting a relation gives it a new filenode. */
const readRelationFiles = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly oid: number; readonly name: string; readonly file: number | null }>`
    select oid::int, relname as name, pg_relation_filenode(oid)::int as file from pg_class
    where relnamespace in ('public'::regnamespace, 'loading'::regnamespace) and relkind in ('r', 'p', 'i', 'I', 'm')
  `
})

/** Matches tables that stay small. */
const smallTables =
  /^(account_erasures|dataset_versions|edgar_(access|placement)|role_privileges|\w+_migrations|webhook_feed)(_|$)/

/** Finds tables with too few rows. Any migration of such a table would pass the checks. */
export const findUnderfilledTables = Effect.map(
  readRelations,
  (found) => found.filter(({ name, rows }) => rows < filledRowCount && !smallTables.test(name)).map(({ name }) => name),
)

/**
 * Reads what the current transaction has done so far: its locks on the relations `relationIds` that block writes of
 * other transactions, the number of rows that it has read or written in any table (`touched`), and the number of rows
 * that it has updated or deleted in these relations (`changed`).
 */
const readTransactionState = Effect.fnUntraced(function* (relationIds: ReadonlyArray<number>) {
  const sql = yield* SqlClient.SqlClient
  const ids = `{${relationIds.join(",")}}`
  const locks = yield* sql<{ readonly name: string; readonly mode: string }>`
    select distinct relation::regclass::text as name, mode from pg_locks
    where pid = pg_backend_pid() and locktype = 'relation' and relation = any (${ids}::text::oid[])
      and mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    order by 1, 2
  `
  const [rows] = yield* sql<{ readonly touched: number; readonly changed: number }>`
    select sum(seq_tup_read + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del)::int as touched,
      coalesce(sum(n_tup_upd + n_tup_del) filter (where relid = any (${ids}::text::oid[])), 0)::int as changed
    from pg_stat_xact_user_tables
  `
  return { locks, touched: rows?.touched ?? 0, changed: rows?.changed ?? 0 }
})

const shorten = (statement: string) => statement.replace(/\s+/g, " ").slice(0, 80)

/**
 * Runs the statements of a migration in an open transaction. `before` are the relations that existed before it. Returns
 * one line for each statement that would block writes for long: because it touches many rows while the transaction
 * holds a lock that blocks writes, changes many rows, or locks a table explicitly, or because a large table was
 * rewritten.
 */
const findLongLocks = Effect.fnUntraced(function* ({ statements }: MigrationScript, before: Schema["relations"]) {
  const sql = yield* SqlClient.SqlClient
  const existingIds = before.map(({ oid }) => oid)
  const found: Array<string> = []
  let last = yield* readTransactionState(existingIds)
  for (const statement of statements) {
    yield* sql.unsafe(statement)
    const now = yield* readTransactionState(existingIds)
    const touched = now.touched - last.touched
    const held = now.locks.map(({ mode, name }) => `${mode} on ${name}`).join(", ")
    if (held !== "" && touched > smallRowCount) {
      found.push(`reads or writes ${touched} rows while it holds ${held}: ${shorten(statement)}`)
    }
    if (now.changed - last.changed > smallRowCount) {
      found.push(`changes too many rows in one transaction: ${shorten(statement)}`)
    }
    // An explicit `lock` serves only to block other sessions, and no migration should need one.
    if (/^lock\b/i.test(statement)) found.push(`locks a table explicitly: ${shorten(statement)}`)
    last = now
  }
  const files = new Map((yield* readRelationFiles).map(({ file, oid }) => [oid, file]))
  const rewritten = before.filter(({ file, oid, rows }) =>
    rows > smallRowCount && files.has(oid) && files.get(oid) !== file
  )
  return [...found, ...rewritten.map(({ name }) => `rewrites ${name}`)]
})

/**
 * Reports removed objects on which the previous release relies, and new constraints that may reject the rows that it
 * writes.
 */
const findBreakingChanges = Effect.fnUntraced(function* <E, R>(
  { contents: before, refusals: rules }: Schema,
  work: Effect.Effect<ReadonlyArray<string>, E, R>,
) {
  const known = new Set(rules.map(({ rule, table }) => `${table}: ${rule}`))
  const columns = new Set(Array.from(before, (thing) => /^column (\S+)/.exec(thing)?.[1]))
  const locks = yield* work
  const [after, now] = [yield* readContents, yield* readConstraints]
  const affectsOldRelease = ({ column, rule, table }: (typeof now)[number]) =>
    before.has(`table ${table}`) && !known.has(`${table}: ${rule}`) &&
    (rule.endsWith("is required") || columns.has(`${table}.${column}`))
  const refused = new Set(
    now.filter(affectsOldRelease).map(({ rule, table }) =>
      `may reject rows of ${table} from the previous release: ${rule}`
    ),
  )
  const gone = Array.from(before).filter((thing) => !after.has(thing)).map((thing) =>
    `removes what the previous release may use: ${thing}`
  )
  return { locks, breaks: [...gone.toSorted(), ...refused] }
})

const getSqlState = ({ reason: { cause } }: SqlError.SqlError) =>
  Predicate.hasProperty(cause, "code") ? String(cause.code) : ""

class RolledBack extends Data.TaggedError("RolledBack")<{}> {}

/** Runs an effect in a transaction and rolls it back. */
export const runAndRollBack = Effect.fnUntraced(function* <A, E, R>(work: Effect.Effect<A, E, R>) {
  const sql = yield* SqlClient.SqlClient
  let result: A | undefined
  const taken = Effect.flatMap(work, (found) => {
    result = found
    return Effect.fail(new RolledBack())
  })
  yield* Effect.catchIf(sql.withTransaction(taken), (error) => error instanceof RolledBack, () => Effect.void)
  return result
})

/** Returns whether PostgreSQL refuses to run the statement in a transaction (25001, 2D000). */
const refusesTransaction = (statement: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    runAndRollBack(sql.unsafe(statement)).pipe(
      Effect.as(false),
      Effect.catchIf(SqlError.isSqlError, (error) =>
        ["25001", "2D000"].includes(getSqlState(error)) ? Effect.succeed(true) : Effect.fail(error)),
    ))

/**
 * Checks a migration that runs outside of a transaction, so that an interruption leaves it incomplete: the next run,
 * which starts again with the first statement, must complete it. Interrupts the migration after each statement and
 * during an index build, and returns one line for each case in which the next run does not lead to the same schema.
 * Also reports statements that could run in a transaction.
 */
const findUnrepeatableSteps = Effect.fnUntraced(function* ({ statements }: MigrationScript) {
  const sql = yield* SqlClient.SqlClient
  const found: Array<string> = []
  for (const statement of statements) {
    if (!(yield* refusesTransaction(statement))) {
      found.push(`does not need to run outside a transaction: ${shorten(statement)}`)
    }
  }
  const apply = (some: ReadonlyArray<string>) =>
    Effect.forEach(some, (statement) => sql.unsafe(statement), { discard: true })
  const before = new Set((yield* readRelationFiles).map(({ name }) => name))
  yield* apply(statements)
  const expected = yield* readContents
  const made = (yield* readRelationFiles).filter(({ name }) => !before.has(name))
  const isComplete = Effect.map(readContents, (found) => found.symmetricDifference(expected).size === 0)
  const checkNextRun = (interruption: string) =>
    Effect.flatMap(Effect.result(Effect.andThen(apply(statements), isComplete)), (result) =>
      Effect.sync(() => {
        const isRestored = result._tag === "Success" && result.success
        if (!isRestored) found.push(`is not completed by the next run after an interruption ${interruption}`)
      }))
  // The number of statements after which the schema was found complete for the last time. They need not run again.
  let complete = 0
  for (let count = 1; count <= statements.length; count++) {
    yield* apply(statements.slice(complete, count)).pipe(Effect.ignore)
    // If the schema is already complete at this point, an interruption leaves nothing to do.
    if (count < statements.length && (yield* isComplete)) complete = count
    else yield* checkNextRun(`after statement ${count}`)
  }
  // An interrupted `create index concurrently` leaves an index that is not valid.
  yield* sql`
    update pg_index set indisvalid = false where indexrelid = any (${`{${made.map(({ oid }) => oid)}}`}::text::oid[])
  `
  yield* checkNextRun("during an index build")
  return found
})

/** Applies a migration and returns the problems found. */
export const inspectMigration = Effect.fnUntraced(function* (script: MigrationScript, before: Schema) {
  const sql = yield* SqlClient.SqlClient
  const work = script.inTransaction
    ? sql.withTransaction(findLongLocks(script, before.relations))
    : findUnrepeatableSteps(script)
  return yield* findBreakingChanges(before, work)
})
