/** D31: how a new table takes the place of the old one, in one moment and with everything that hung on it. */
import { Console, Effect, Schedule, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { isLockTimeout } from "../db/SqlState.ts"
import { loadLockName, swapLockName } from "../db/AdvisoryLocks.ts"
import type { Dataset } from "./Datasets.ts"

/** For how long the swap may stand in line for the table before it steps back and lets readers pass. */
const swapPatience = "100ms"

export class TableBusy extends Schema.TaggedError<TableBusy>()("TableBusy", { message: Schema.String }) {}

const busy = (table: string) =>
  new TableBusy({
    message:
      `${table} was in use without a gap for more than a minute, so it is unchanged. End what reads it, and try again.`,
  })

/**
 * Waits its turn in short looks, so that it never holds up the readers behind it for longer than one look. Those who
 * read a whole list take half a minute, and one could follow the other for ever: they are kept out meanwhile.
 */
export const swapTables = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select pg_advisory_xact_lock(hashtext(${swapLockName(table)}))`
  yield* sql.unsafe(`set local lock_timeout = '${swapPatience}'`)
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`drop table ${sql("public")}.${sql(table)}`
    yield* sql`alter table ${sql("loading")}.${sql(table)} set schema public`
  })).pipe(
    Effect.retry({ while: isLockTimeout, schedule: Schedule.spaced("50 millis"), times: 600 }),
    Effect.mapError((error) => isLockTimeout(error) ? busy(table) : error),
  )
})

/** One load of a table at a time; a second one waits. The session's limits are for readers. */
export const acquireLoadLock = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local lock_timeout = 0`
  const [first] = yield* sql<
    { readonly free: boolean }
  >`select pg_try_advisory_xact_lock(hashtext(${loadLockName(table)})) as free`
  if (first?.free === true) return
  yield* Console.error(`Another load of ${table} is running; waiting for it.`)
  yield* sql`select pg_advisory_xact_lock(hashtext(${loadLockName(table)}))`
})

/** Runs the statements that a query makes of PostgreSQL's own catalogue. */
const perform = Effect.fnUntraced(
  function* (made: Effect.Effect<ReadonlyArray<{ readonly statement: string }>, SqlError.SqlError>) {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.forEach(yield* made, ({ statement }) => sql.unsafe(statement), { discard: true })
  },
)

/** Adds a unique constraint over the dataset's key, unless the table in `loading` has one. */
export const ensureUniqueKey = Effect.fnUntraced(function* ({ key, table }: Dataset) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ readonly columns: ReadonlyArray<string> }>`
    select array_agg(attname::text) as columns
    from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey::int2[])
    where indrelid = ${`loading.${table}`}::regclass and indisunique and indpred is null and indexprs is null
    group by indexrelid
  `
  const wanted = new Set(key)
  if (found.some(({ columns }) => wanted.symmetricDifference(new Set(columns)).size === 0)) return
  const names = key.map((name) => `"${name}"`).join(", ")
  yield* sql.unsafe(`alter table loading."${table}" add unique nulls not distinct (${names})`)
})

/**
 * Creates an empty table of the same shape in the schema `loading`, with its rules and keys, which find repeated rows,
 * and its triggers, which count filling it as a change (D17). A rule that is not validated yet holds for all its rows.
 */
export const createReplacementTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    create table ${sql("loading")}.${sql(table)} (like ${sql("public")}.${sql(table)} including all excluding indexes)
  `
  yield* perform(sql`
    select format('alter table loading.%I add constraint %I %s', ${table}::text, conname, pg_get_constraintdef(oid))
      as statement
    from pg_constraint where conrelid = ${`public.${table}`}::regclass and contype in ('p', 'u')
  `)
  yield* perform(sql`
    select regexp_replace(pg_get_triggerdef(oid), ' ON public\\.', ' ON loading.') as statement
    from pg_trigger where tgrelid = ${`public.${table}`}::regclass and not tgisinternal
    union all
    select format('alter table loading.%I %s trigger %I', ${table}::text,
      case tgenabled when 'A' then 'enable always' when 'R' then 'enable replica' when 'D' then 'disable' end, tgname)
    from pg_trigger where tgrelid = ${`public.${table}`}::regclass and not tgisinternal and tgenabled <> 'O'
  `)
})

/**
 * Creates an empty table in `loading` for rows that are merged into the dataset's table afterwards. It has no triggers,
 * and a column with a default may be null in it.
 */
export const createStagingTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    create unlogged table ${sql("loading")}.${sql(table)} (like ${sql("public")}.${sql(table)} including constraints)
  `
  yield* perform(sql`
    select format('alter table loading.%I alter %I drop not null', ${table}::text, attname) as statement
    from pg_attribute
    where attrelid = ${`public.${table}`}::regclass and atthasdef and attnotnull and attgenerated = ''
  `)
})

/** Drops what `stage` created. */
export const dropStagingTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`drop table ${sql("loading")}.${sql(table)}`
})

/** What the filled table lacks: its indexes, far faster made now than row by row, its owner and who may do what. */
export const finishReplacementTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local maintenance_work_mem = '256MB'`
  yield* perform(sql`
    select regexp_replace(pg_get_indexdef(indexrelid), ' ON public\\.', ' ON loading.') as statement
    from pg_index where indrelid = ${`public.${table}`}::regclass
      and not exists (select from pg_constraint where conindid = indexrelid)
  `)
  yield* perform(sql`
    select format('alter table loading.%I alter %I set statistics %s', ${table}::text, attname, attstattarget)
      as statement
    from pg_attribute where attrelid = ${`public.${table}`}::regclass and attnum > 0 and attstattarget >= 0
  `)
  yield* perform(sql`
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
