/**
 * Describes a database's schema: the name and definition of each object, read from PostgreSQL's catalogs.
 *
 * `sql/description.txt` is the description of the schema that the scripts in `sql/` create.
 */
import { Effect, FileSystem, Path, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../DecodeRows.ts"

/** Maps each object's name, such as `column public.news.title`, to its definition. */
export type SchemaDescription = ReadonlyMap<string, string>

/**
 * Selects the name and definition of every object. Omits partitions, because different databases have partitions for
 * different months. Replaces long definitions with digests, except where `doctor` needs the text to repair the object.
 * All supported versions of PostgreSQL print the same definitions.
 */
const descriptionQuery = `
  with relations as materialized (
    select pg_class.oid, relkind, relpersistence, reloptions, format('%I.%I', nspname, relname) as name
    from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where nspname in ('public', 'history') and not relispartition and relkind in ('r', 'p', 'v', 'S', 'c')
      and relname <> 'tickerline_migrations'
      and not exists (select from pg_depend where pg_depend.objid = pg_class.oid and deptype = 'e')
  ), objects (object, definition, state) as (
    select 'schema ' || nspname, '', '' from pg_namespace where nspname in ('public', 'history', 'loading')
    union all
    select 'extension ' || extname, '', '' from pg_extension where extname = 'pg_trgm'
    union all
    select case relkind when 'v' then 'view ' when 'S' then 'sequence ' when 'c' then 'type ' else 'table ' end || name,
      concat_ws(' ', case relpersistence when 'u' then 'unlogged' end, 'partition by ' || pg_get_partkeydef(oid),
        array_to_string(reloptions, ' '),
        case relkind when 'v' then md5(translate(pg_get_viewdef(oid), '()', '')) end,
        'increment ' || nullif(seqincrement, 1), case when seqcycle then 'cycle' end), ''
    from relations left join pg_sequence on seqrelid = oid
    union all
    select format('column %s.%I', name, attname), concat_ws(' ', format_type(atttypid, atttypmod),
      case when attnotnull then 'not null' end, case when attidentity <> '' then 'identity ' || attidentity::text end,
      case when attgenerated <> '' then 'generated' end, 'default ' || pg_get_expr(adbin, adrelid),
      case when attstorage <> typstorage then 'storage ' || attstorage::text end,
      case when attstattarget > 0 then 'statistics ' || attstattarget end), ''
    from relations join pg_attribute on attrelid = relations.oid and attnum > 0 and not attisdropped
      join pg_type on pg_type.oid = atttypid left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where relkind <> 'S'
    union all
    select format('constraint %I of %s', conname, name),
      regexp_replace(pg_get_constraintdef(pg_constraint.oid), ' NOT VALID$', ''),
      case when convalidated then '' else ' NOT VALID' end
    from relations join pg_constraint on conrelid = relations.oid where contype in ('c', 'f', 'p', 'u', 'x')
    union all
    select format('index %I of %s', relname, name),
      pg_get_indexdef(indexrelid), case when indisvalid then '' else ' INVALID' end
    from relations join pg_index on indrelid = relations.oid join pg_class on pg_class.oid = indexrelid
    union all
    select format('trigger %I of %s', tgname, name), pg_get_triggerdef(pg_trigger.oid), case tgenabled
      when 'O' then '' when 'A' then ' ALWAYS' when 'R' then ' REPLICA' else ' DISABLED' end
    from relations join pg_trigger on tgrelid = relations.oid where not tgisinternal
    union all
    select 'function ' || pg_proc.oid::regprocedure, concat_ws(' ', pg_get_function_result(pg_proc.oid), lanname,
      provolatile::text, proparallel::text, case when prosecdef then 'definer' end,
      case when proisstrict then 'strict' end, array_to_string(proconfig, ' '), 'rows ' || nullif(prorows, 0),
      case when has_function_privilege('public', pg_proc.oid, 'execute') then 'for all' end,
      md5(translate(coalesce(pg_get_function_sqlbody(pg_proc.oid), prosrc), '()', ''))), ''
    from pg_proc join pg_language on pg_language.oid = prolang join pg_namespace on pg_namespace.oid = pronamespace
    where nspname in ('public', 'history')
      and not exists (select from pg_depend where pg_depend.objid = pg_proc.oid and deptype = 'e')
    union all
    select format('domain %I.%I', nspname, typname), concat_ws(' ', format_type(typbasetype, typtypmod), (
      select string_agg(pg_get_constraintdef(oid), ' ' order by conname)
      from pg_constraint where contypid = pg_type.oid and contype = 'c'
    )), ''
    from pg_type join pg_namespace on pg_namespace.oid = typnamespace
    where typtype = 'd' and nspname in ('public', 'history')
    union all
    -- The columns of a dataset that its history does not record.
    select format('history of public.%I', dataset), (
      select string_agg('without ' || live.attname, ', ' order by live.attnum) from pg_attribute as live
      where live.attrelid = to_regclass(format('public.%I', dataset)) and live.attnum > 0
        and not live.attisdropped and (
        not exists (
          select from pg_attribute as kept where kept.attrelid = to_regclass(format('history.%I', dataset))
            and kept.attname = live.attname and not kept.attisdropped
        ) or (live.attgenerated = '' and live.attname <> 'recorded_in' and live.attname <> all (columns))
      )
    ), ''
    from history.datasets
    union all
    select format('privileges of %s on %s', purpose, object),
      string_agg(regexp_replace(privilege, '\\s+', ' ', 'g'), ', ' order by privilege), ''
    from public.role_privileges group by purpose, object
  )
  select object, case
    when length(definition) > 300 and object !~ '^(constraint|index|trigger) ' then md5(translate(definition, '()', ''))
    else regexp_replace(coalesce(definition, ''), '\\s+', ' ', 'g') end || state as definition
  from objects order by object collate "C"`

/**
 * Returns whether two definitions are equal, ignoring parentheses. After a restore, PostgreSQL may print `a or b or c`
 * with different parentheses. Digests ignore parentheses for the same reason.
 */
export const areSameDefinitions = (one: string, other: string) =>
  one.replaceAll(/[()]/g, "") === other.replaceAll(/[()]/g, "")

const decodeObjects = decodeRows(Schema.Struct({ object: Schema.String, definition: Schema.String }))

/** Describes the schema of the connected database. A service role has sufficient privileges. */
export const describeSchema = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const objects = yield* sql.withTransaction(Effect.gen(function* () {
    // The text of the definitions depends on these settings. With an empty search path, all names are schema-qualified.
    yield* sql`
      select set_config(name, value, true)
      from (values ('search_path', 'pg_catalog'), ('datestyle', 'ISO'), ('intervalstyle', 'postgres'),
        ('timezone', 'UTC'), ('extra_float_digits', '1')) as settings (name, value)
    `
    return yield* decodeObjects(sql.unsafe(descriptionQuery))
  }))
  const description: SchemaDescription = new Map(objects.map(({ definition, object }) => [object, definition]))
  return description
})

const separator = ": "

/** Formats a description as text, with one line per object. */
export const formatSchemaDescription = (description: SchemaDescription) =>
  Array.from(description, ([object, definition]) => `${object}${separator}${definition}`.trimEnd() + "\n").join("")

/** Reads the description of the schema that the scripts in `sql/` create. */
export const readExpectedSchema = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = yield* path.fromFileUrl(new URL("../../../sql/description.txt", import.meta.url))
  const lines = (yield* fs.readFileString(file)).trimEnd().split("\n")
  const description: SchemaDescription = new Map(lines.map((line) => {
    const [object = "", ...definition] = line.split(separator)
    return [object.replace(/:$/, ""), definition.join(separator)]
  }))
  return description
}).pipe(Effect.orDie)
