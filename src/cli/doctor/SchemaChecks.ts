/** Whether tables, rights, triggers and indexes are what the program expects. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { migrationsTable } from "../../db/migrations/Migrations.ts"
import { listMigrationScripts } from "../../db/migrations/MigrationScripts.ts"
import { datasets } from "../../load/Datasets.ts"
import { failed, passed, skipped, warned } from "./Finding.ts"

const tables = datasets.map(({ table }) => table)

const listed = (names: ReadonlyArray<string>) =>
  names.length <= 6 ? names.join(", ") : `${names.slice(0, 6).join(", ")} and ${names.length - 6} more`

export const isMigrated = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly there: boolean }>`
    select to_regclass(${migrationsTable}) is not null and to_regclass('public.usage') is not null as there
  `
  return found?.there === true
})

/** A connection may read the record of migrations, or it is no role of ours. */
export const checkMigrations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const known = yield* listMigrationScripts
  const [found] = yield* sql<{ readonly there: boolean; readonly may: boolean }>`
    select to_regclass(${migrationsTable}) is not null as there,
      coalesce(has_table_privilege(to_regclass(${migrationsTable})::oid, 'select'), false) as may
  `
  const run = "Run `tickerline migrate` as the role that owns the tables; a start as that role does it too."
  if (found?.there !== true) return warned("migrations", "the database is empty", run)
  if (!found.may) return skipped("migrations", "this role may not read which were applied")
  const applied = yield* sql<{ readonly id: number; readonly name: string }>`
    select migration_id as id, name from ${sql(migrationsTable)} order by migration_id
  `
  const ids = new Set(applied.map(({ id }) => id))
  const pending = known.filter(([id]) => !ids.has(id)).map(([id, name]) => `${id}_${name}`)
  const newer = applied.filter(({ id }) => !known.some(([one]) => one === id)).map(({ id, name }) => `${id}_${name}`)
  if (newer.length > 0) {
    const advice = "A release works with the tables of the next one; run the newer program, now or soon."
    return warned("migrations", `the database is newer than this program: ${listed(newer)}`, advice)
  }
  return pending.length === 0
    ? passed("migrations", `all ${known.length} are applied`)
    : failed("migrations", `${pending.length} are missing: ${listed(pending)}`, run)
})

interface Rights {
  readonly name: string
  readonly owns: boolean
  readonly superuser: boolean
  readonly lacks: ReadonlyArray<string> | null
  readonly exceeds: ReadonlyArray<string> | null
}

export const checkRole = (embedded: boolean) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [role] = yield* sql<Rights>`
      with needed (what, has) as (
        select 'select on ' || t, has_table_privilege('public.' || t, 'select')
        from unnest(string_to_array(${tables.join(",")}, ',')) as t where to_regclass('public.' || t) is not null
        union all values
          ('insert on usage', has_table_privilege('public.usage', 'insert')),
          ('update of counts in usage', (
            select has_column_privilege(attrelid, attnum, 'update') from pg_attribute
            where attrelid = 'public.usage'::regclass and attname = 'request_count'
          )),
          ('insert, update on usage_daily', has_table_privilege('public.usage_daily', 'insert')
            and has_table_privilege('public.usage_daily', 'update')),
          ('insert, update on rate_limit_buckets',
            has_table_privilege(to_regclass('public.rate_limit_buckets'), 'insert')
            and has_table_privilege(to_regclass('public.rate_limit_buckets'), 'update')),
          ('select on api_keys', has_table_privilege('public.api_keys', 'select')),
          ('select on accounts', has_table_privilege('public.accounts', 'select')),
          ('update of last_used_at', has_column_privilege('public.api_keys', 'last_used_at', 'update')),
          ('update of balances', has_column_privilege('public.accounts', 'balance_microdollars', 'update'))
      ), beyond (what, has) as (
        select 'write ' || t, has_table_privilege('public.' || t, 'insert, update, delete, truncate')
        from unnest(string_to_array(${tables.join(",")}, ',')) as t where to_regclass('public.' || t) is not null
        union all values
          ('read what was paid', has_table_privilege('public.credits', 'select')),
          ('make tables', has_schema_privilege('public', 'create')),
          ('make temporary tables', has_database_privilege(current_database(), 'temporary'))
      )
      select current_user as name, rolsuper as superuser,
        (select pg_has_role(relowner, 'usage') from pg_class where oid = 'public.usage'::regclass) as owns,
        (select array_agg(what) from needed where not has) as lacks,
        (select array_agg(what) from beyond where has) as exceeds
      from pg_roles where rolname = current_user
    `
    const grant = `Run \`tickerline grant ${role?.name ?? "ROLE"}\` as the role that owns the tables.`
    if (role?.lacks != null) return failed("role", `${role.name} lacks: ${listed(role.lacks)}`, grant)
    if (embedded || role === undefined) return passed("role", "the embedded server has one for all")
    if (role.superuser) {
      return warned(
        "role",
        `${role.name} is a superuser`,
        "Serve with a role that can do less: `tickerline grant ROLE`.",
      )
    }
    if (role.owns) return passed("role", `${role.name} owns the tables: it may load and migrate, and serve`)
    return role.exceeds === null
      ? passed("role", `${role.name} may serve, and nothing more`)
      : warned("role", `${role.name} may also ${listed(role.exceeds)}`, grant)
  })

export const checkTriggers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const right = yield* sql<{ readonly dataset: string }>`
    select relname as dataset from pg_trigger join pg_class on pg_class.oid = tgrelid
    where relnamespace = 'public'::regnamespace and tgname = 'note_change' and tgenabled = 'A'
  `
  const lacking = tables.filter((table) => !right.some(({ dataset }) => dataset === table))
  if (lacking.length === 0) return passed("triggers", "every change of a dataset is noticed")
  return failed(
    "triggers",
    `note_change is missing or not always on: ${listed(lacking)}; answers may be old, or never kept`,
    lacking.length > 1
      ? "See 0021_dataset_versions.sql."
      : `alter table ${lacking[0]} enable always trigger note_change`,
  )
})

export const checkIndexes = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const broken = yield* sql<{ readonly name: string }>`
    select indexrelid::regclass::text as name from pg_index join pg_class on pg_class.oid = indrelid
    where relnamespace = 'public'::regnamespace and not indisvalid order by 1
  `
  const names = broken.map(({ name }) => name)
  return names.length === 0 ? passed("indexes", "all are valid") : failed(
    "indexes",
    `invalid, so no query uses them: ${listed(names)}`,
    `reindex index concurrently ${names[0]}`,
  )
})

/** D34: rules that were added when rows already broke them. Requests for such rows fail. */
export const checkConstraints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const broken = yield* sql<{ readonly dataset: string; readonly name: string; readonly rule: string }>`
    select relname as dataset, conname as name, pg_get_expr(conbin, conrelid) as rule
    from pg_constraint join pg_class on pg_class.oid = conrelid
    where relnamespace = 'public'::regnamespace and contype = 'c' and not convalidated
      and relname = any (string_to_array(${tables.join(",")}, ','))
    order by 1, 2
  `
  const [first] = broken
  if (first === undefined) return passed("rules", "hold for all rows of the datasets")
  return warned(
    "rules",
    `not validated: ${listed(broken.map(({ name }) => name))}; requests fail for rows that break them`,
    `Find the rows: select * from ${first.dataset} where not (${first.rule}). Correct them, then ` +
      `alter table ${first.dataset} validate constraint ${first.name}. Or load the dataset again.`,
  )
})

/** §2.5: what is in the tables, and since when. */
export const checkDatasetRows = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* Effect.forEach(tables, (table) =>
    Effect.map(
      sql<{ readonly has: boolean }>`select exists (select from ${sql("public")}.${sql(table)}) as has`,
      ([row]) => ({ table, has: row?.has === true }),
    ))
  const [age] = yield* sql<{ readonly days: number | null }>`
    select floor(extract(epoch from now() - max(changed_at)) / 86400)::int as days from dataset_versions
    where dataset = any (string_to_array(${tables.join(",")}, ','))
  `
  const never = yield* sql<{ readonly name: string }>`
    select relname as name from pg_stat_user_tables
    where schemaname = 'public' and relname = any (string_to_array(${tables.join(",")}, ','))
      and last_analyze is null and last_autoanalyze is null and n_live_tup > 1000
  `
  const empty = found.filter(({ has }) => !has).map(({ table }) => table)
  const days = age?.days ?? null
  const since = days === null ? "" : `; changed ${days < 1 ? "within a day" : `${days} days ago`} last`
  const full = `${found.length - empty.length} of ${found.length} have rows${since}`
  return [
    empty.length > 0
      ? warned("datasets", `${full}; empty: ${listed(empty)}`, "Fill them: `tickerline load DATASET FILE`.")
      : days !== null && days > 7
      ? warned("datasets", full, "See whether the loads still run.")
      : passed("datasets", full),
    ...(never.length === 0 ? [] : [
      warned("statistics", `never analysed: ${listed(never.map(({ name }) => name))}`, "Run `analyze` once."),
    ]),
  ]
})
