/** Schema checks: applied migrations, the role's privileges, database objects, and constraints on rows. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { developmentDatabase, migrationsTableName } from "../../../postgres/migrations/Migrations.ts"
import { formatMigration, listMigrationScripts, schemaId } from "../../../postgres/migrations/MigrationScripts.ts"
import {
  areSameDefinitions,
  describeSchema,
  readExpectedSchema,
} from "../../../postgres/migrations/SchemaDescription.ts"
import { tickerlineCommand } from "../../../postgres/ProjectCommands.js"
import * as Finding from "./DoctorFinding.ts"

/** Returns whether the database contains this release's schema. Without the schema, most checks would fail. */
export const isDatabaseMigrated = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly exists: boolean }>`
    select to_regclass(${migrationsTableName}) is not null and to_regclass('public.usage') is not null as exists
  `
  return row?.exists === true
})

/**
 * Compares the applied migrations with those of this release. Returns the migrations of this release (`known`), those
 * of them that are not applied (`pending`), the applied ones that this release does not have (`newer`), and whether a
 * development version created the tables: then, the migration that creates the schema is not among the applied ones.
 */
const readMigrations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const known = yield* listMigrationScripts
  const applied = yield* sql<{ readonly id: number; readonly name: string }>`
    select migration_id as id, name from ${sql(migrationsTableName)} order by migration_id
  `
  const appliedIds = new Set(applied.map(({ id }) => id))
  const knownIds = new Set(known.map(([id]) => id))
  return {
    known,
    isDevelopment: applied.length > 0 && !appliedIds.has(schemaId),
    pending: known.filter(([id]) => !appliedIds.has(id)).map(([id, name]) => formatMigration(id, name)),
    newer: applied.filter(({ id }) => !knownIds.has(id)).map(({ id, name }) => `${id}_${name}`),
  }
})

/**
 * Reports migrations that are pending, and applied migrations that this release does not know. The latter are only a
 * warning, because each release works with the tables of the next one.
 */
export const checkMigrations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql<{ readonly exists: boolean; readonly is_readable: boolean }>`
    select to_regclass(${migrationsTableName}) is not null as exists,
      coalesce(has_table_privilege(to_regclass(${migrationsTableName})::oid, 'select'), false) as is_readable
  `
  const advice =
    `Run \`${tickerlineCommand} migrate\` as the role that owns the tables, or start the service as that role.`
  if (table?.exists !== true) return Finding.warning("the database is empty", advice)
  if (!table.is_readable) {
    return Finding.skipped("this role may not read which migrations were applied")
  }
  const { isDevelopment, known, newer, pending } = yield* readMigrations
  if (isDevelopment) return Finding.failed("the tables are those of a development version", developmentDatabase)
  if (newer.length > 0) {
    return Finding.warning(
      `the database is newer than this program: ${Finding.formatNames(newer)}`,
      "This release works with the tables of the next one. Update this program soon.",
    )
  }
  return pending.length === 0
    ? Finding.passed(`all ${known.length} are applied`)
    : Finding.failed(`${pending.length} are missing: ${Finding.formatNames(pending)}`, advice)
})

interface RolePrivileges {
  readonly name: string
  readonly owns_tables: boolean
  readonly is_superuser: boolean
  /** Whether the role has a privilege that only the admin API needs. */
  readonly is_admin: boolean
  /** Required privileges that the role lacks, such as `insert on usage`. Null if it lacks none. */
  readonly missing: ReadonlyArray<string> | null
  /**
   * Operations that the role can perform although serving does not need them, such as `create tables`. Null if there
   * are none.
   */
  readonly excessive: ReadonlyArray<string> | null
}

/**
 * Reads which privileges the current role lacks, and which it has in excess. The expected privileges are in the table
 * `role_privileges`, as in a `grant` statement: `insert, update (holder, until)`.
 *
 * - `objects` has the tables, views, indexes, sequences, and functions of the schemas `public` and `history`.
 * - `needed` has one row for each privilege that the service needs. A role may read every table and view that is not
 *   listed with `no select`. `column` is null unless the privilege applies to a single column, such as `holder`.
 * - `beyond` has the operations that a role that only serves should not be able to perform, and whether the role can.
 *   The tables with the trigger `history_begin` are those of the datasets.
 */
const readRolePrivileges = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [role] = yield* sql<RolePrivileges>`
      with objects as (
        select pg_class.oid, format('%I.%I', nspname, relname) as object, relname as name,
          relkind in ('r', 'p', 'v') and not relispartition as is_readable
        from pg_class join pg_namespace on pg_namespace.oid = relnamespace where nspname in ('public', 'history')
        union all
        select pg_proc.oid, format('%I.%I', nspname, proname), format('%I.%I', nspname, proname), false
        from pg_proc join pg_namespace on pg_namespace.oid = pronamespace where nspname in ('public', 'history')
      ), needed (oid, name, privilege, "column") as (
        select oid, name, 'select', null from objects where is_readable and object not in (
          select object from role_privileges where purpose = 'service' and privilege = 'no select'
        )
        union all
        select oid, name, found[1], "column"
        from role_privileges join objects using (object)
          -- Splits the text into privileges: found[1] is the privilege, and found[2] its list of columns or null.
          cross join regexp_matches(privilege, '([a-z]+)(?: \\(([^)]*)\\))?', 'g') as found
          left join regexp_split_to_table(found[2], ',\\s*') as "column" on true
        where purpose = 'service' and privilege <> 'no select'
      ), beyond (what, has) as (
        select 'write ' || relname, has_table_privilege(pg_class.oid, 'insert, update, delete, truncate')
        from pg_trigger join pg_class on pg_class.oid = tgrelid where tgname = 'history_begin'
        union all
        select 'read ' || name, has_table_privilege(oid, 'select') from role_privileges join objects using (object)
        where purpose = 'service' and privilege = 'no select'
        union all values
          ('create tables', has_schema_privilege('public', 'create')),
          ('create temporary tables', has_database_privilege(current_database(), 'temporary'))
      )
      select current_user as name, rolsuper as is_superuser,
        has_table_privilege('public.credits', 'insert') as is_admin,
        (select pg_has_role(relowner, 'usage') from pg_class where oid = 'public.usage'::regclass) as owns_tables,
        (
          -- One text for each missing privilege, such as 'update of holder in leases', 'select on news', or
          -- 'execute public.settle_usage'. Null if none is missing.
          select array_agg(case privilege when 'execute' then 'execute ' || name
            else concat_ws(' ', privilege, 'of ' || "column", case when "column" is null then 'on' else 'in' end, name)
            end)
          from needed where not case when privilege = 'execute' then has_function_privilege(oid, privilege)
            when "column" is null then has_table_privilege(oid, privilege)
            else has_column_privilege(oid, "column", privilege) end
        ) as missing,
        (select array_agg(what) from beyond where has) as excessive
      from pg_roles where rolname = current_user
    `
  return role
})

/**
 * Compares the privileges of the role that the service connects as with those that the schema lists. `tickerline grant`
 * grants exactly these. Missing privileges are a failure, and others that serving does not need are a warning. A
 * superuser and the owner of the tables have all privileges, so for them, nothing else is compared. `isEmbedded` is
 * true for the embedded server: it has a single role, which may have too many privileges.
 */
export const checkRolePrivileges = (isEmbedded: boolean) =>
  Effect.gen(function* () {
    const role = yield* readRolePrivileges
    const grant = `Run \`${tickerlineCommand} grant ${role?.name ?? "ROLE"}\` as the role that owns the tables.`
    const advice = role?.is_admin === true
      ? `If the admin API uses this role, set DATABASE_URL to another role. Otherwise: ${grant}`
      : grant
    if (role?.missing != null) {
      return Finding.failed(`${role.name} lacks: ${Finding.formatNames(role.missing)}`, advice)
    }
    if (isEmbedded || role === undefined) {
      return Finding.passed("the embedded server has a single role")
    }
    if (role.is_superuser) {
      return Finding.warning(
        `${role.name} is a superuser`,
        `Let the service connect as a role with fewer privileges: \`${tickerlineCommand} grant ROLE\`.`,
      )
    }
    if (role.owns_tables) {
      return Finding.passed(`${role.name} owns the tables: it can load, migrate and serve`)
    }
    return role.excessive === null
      ? Finding.passed(`${role.name} has only the privileges to serve`)
      : Finding.warning(`${role.name} can also ${Finding.formatNames(role.excessive)}`, advice)
  })

/**
 * Removes the state from a definition: whether a trigger is enabled, an index is valid, or a constraint is validated.
 */
const withoutState = (definition = "") => definition.replace(/ (?:ALWAYS|DISABLED|REPLICA|INVALID|NOT VALID)$/, "")

/**
 * Describes what is wrong with a database object, for example `is missing`. `expected` and `found` are its definitions
 * in this release and in the database. If they differ only in their state, the state is described.
 */
const describeDifference = (object: string, expected: string, found: string | undefined) => {
  if (found === undefined) return "is missing"
  if (object.startsWith("history of ")) return `is incomplete: ${found}`
  if (!areSameDefinitions(withoutState(found), withoutState(expected))) return "differs from that of this release"
  if (found.endsWith(" DISABLED")) return "is disabled"
  if (found.endsWith(" INVALID")) return "is invalid, so no query uses it"
  return found.endsWith(" NOT VALID") ? "is not validated" : "does not fire in every session"
}

/**
 * Returns the dataset whose history the object belongs to, such as `news` for `function history.keep_news()`, or
 * undefined. `history.track` recreates such objects.
 */
const findTrackedDataset = (object: string) =>
  /^(?:history of public\.|trigger (?:history_\w+|note_change) of public\.|function history\.keep_)(\w+)/.exec(object)
    ?.[1]

/**
 * Returns the statements that repair an extension, domain, or sequence, which belong to no table. Returns an empty
 * string if the definition alone is not enough to repair it: for a domain with another type, whose columns would have
 * to be converted, and for a missing sequence.
 */
const makeRepairWithoutTable = (kind: string, name: string, expected: string, found: string | undefined) => {
  if (kind === "extension") return `create extension ${name}`
  if (kind === "domain") {
    if (found === undefined) return `create domain ${name} as ${expected}`
    // The definition of a domain is its type and a constraint, such as `text CHECK ((VALUE <> ''))`.
    const [type = "", check = ""] = expected.split(/ (?=CHECK )/)
    if (!`${found} `.startsWith(`${type} `)) return ""
    const constraint = name.replace(/.*\./, "") + "_check"
    return `alter domain ${name} drop constraint if exists ${constraint}; ` +
      `alter domain ${name} add constraint ${constraint} ${check}`
  }
  if (kind === "sequence" && found !== undefined) return `alter sequence ${name} increment 1 no cycle`
  return ""
}

/**
 * Returns the statements that create a function from its last definition in the migrations' statements (`scripts`), or
 * an empty string if they do not define the function. The definition of a function in `expected` is only a digest, so
 * it cannot be used. `for all` in it means that every role may execute the function.
 */
const makeFunctionRepair = (name: string, expected: string, scripts: ReadonlyArray<string>) => {
  const plainName = name.replace(/^public\.|\(.*/g, "")
  const definition = scripts.findLast((statement) =>
    /^create (?:or replace )?function ([\w.]+)/.exec(statement)?.[1] === plainName
  )
  if (definition === undefined) return ""
  const privilege = expected.includes(" for all")
    ? `grant execute on function ${name} to`
    : `revoke execute on function ${name} from`
  return `${definition.replace(/^create (?:or replace )?/, "create or replace ")}; ${privilege} public`
}

/**
 * Returns the statements that repair an object by restoring its expected definition, or an empty string if that is not
 * possible. `object` is a name from `describeSchema`, such as `index news_pkey of public.news`, and `expected` and
 * `found` are its definitions in this release and in the database. If only the state differs, such as a disabled
 * trigger, the object is not created again. `scripts` are the statements of the migrations.
 */
const makeRepair = (
  object: string,
  expected: string,
  found: string | undefined,
  scripts: ReadonlyArray<string>,
) => {
  const dataset = findTrackedDataset(object)
  if (dataset !== undefined) return `select history.track('${dataset}')`
  const [, kindWithoutTable, objectName = ""] = /^(extension|domain|sequence|function) (.+)$/.exec(object) ?? []
  if (kindWithoutTable === "function") return makeFunctionRepair(objectName, expected, scripts)
  if (kindWithoutTable !== undefined) return makeRepairWithoutTable(kindWithoutTable, objectName, expected, found)
  const [, kind, name = "", table = ""] = /^(\w+) (\S+) of (\S+)$/.exec(object) ?? []
  const definition = withoutState(expected)
  const isInWrongState = areSameDefinitions(withoutState(found), definition)
  /** Joins statements. The first one drops the object, and is left out if the object does not exist. */
  const join = (...statements: ReadonlyArray<string>) => statements.slice(found === undefined ? 1 : 0).join("; ")
  if (kind === "trigger") {
    const enable = `alter table ${table} enable ${expected.endsWith(" ALWAYS") ? "always " : ""}trigger ${name}`
    return isInWrongState ? enable : join(`drop trigger ${name} on ${table}`, definition, enable)
  }
  if (kind === "index") {
    const index = `${table.replace(/\..*/, "")}.${name}`
    if (isInWrongState) return `reindex index concurrently ${index}`
    // `create index concurrently` does not work for an index on a partitioned table.
    return definition.includes(" ON ONLY ")
      ? join(`drop index ${index}`, definition.replace(" ON ONLY ", " ON "))
      : join(`drop index concurrently ${index}`, definition.replace(" INDEX ", " INDEX CONCURRENTLY "))
  }
  if (kind !== "constraint") return ""
  const validate = `alter table ${table} validate constraint ${name}`
  if (isInWrongState) return validate
  const drop = `alter table ${table} drop constraint ${name}`
  const add = `alter table ${table} add constraint ${name} ${definition}`
  // Adding such a constraint as `not valid` and then validating it does not block writes while the rows are checked.
  return /^(?:CHECK|FOREIGN)/.test(definition) ? join(drop, `${add} not valid`, validate) : join(drop, add)
}

/**
 * Compares the database objects with the schema of this release. Returns a description and the repair of each object
 * that is missing or differs. Additional objects in the database are ignored, and so are the columns, constraints,
 * indexes, and triggers of a missing table, because the table itself is reported. `expected` and `live` map the name of
 * each object, such as `column public.news.id`, to its definition.
 */
const findSchemaProblems = Effect.gen(function* () {
  const expected = yield* readExpectedSchema
  const live = yield* describeSchema
  const migrations = yield* Effect.forEach(yield* listMigrationScripts, ([, , script]) => script)
  const migrationStatements = migrations.flatMap(({ statements }) => statements)
  const missingTables = Array.from(expected.keys()).filter((object) => !live.has(object))
    .flatMap((object) => /^(?:table|view) (.*)/.exec(object)?.[1] ?? [])
  /** Whether the object belongs to a table that is missing, such as `index news_pkey of public.news`. */
  const isOfMissingTable = (object: string) =>
    missingTables.some((table) => object.endsWith(` of ${table}`) || object.startsWith(`column ${table}.`))
  /**
   * The history trigger and function of each dataset to which an operator has added a column. They are expected to
   * differ.
   */
  const extended = new Set(
    Array.from(live.keys()).flatMap((object) => {
      const [, table] = expected.has(object) ? [] : /^column public\.(\w+)\./.exec(object) ?? []
      return table === undefined ? [] : [`trigger history_stamp of public.${table}`, `function history.keep_${table}()`]
    }),
  )
  return Array.from(expected).flatMap(([object, definition]) => {
    const found = live.get(object)
    const isAsExpected = found !== undefined && (areSameDefinitions(found, definition) || extended.has(object))
    if (isAsExpected || isOfMissingTable(object)) return []
    return [{
      found: `${object.replaceAll("public.", "")} ${describeDifference(object, definition, found)}`,
      repair: makeRepair(object, definition, found, migrationStatements),
      /** Whether row changes go unrecorded until the object is repaired. */
      isUnrecorded: findTrackedDataset(object) !== undefined || object.endsWith(" of history.transactions"),
    }]
  })
})

/**
 * Reports schema objects that are missing, different, or in the wrong state, and how to repair them. Objects with the
 * same repair are reported together: for example, one `history.track` recreates all objects of a dataset's history.
 */
export const checkSchema = Effect.gen(function* () {
  const { newer, pending } = yield* readMigrations
  if (newer.length + pending.length > 0) {
    return [Finding.skipped("the migrations of this release and of the database differ")]
  }
  const problems = yield* findSchemaProblems
  if (problems.length === 0) return [Finding.passed("all objects are those of this release")]
  return Array.from(Map.groupBy(problems, ({ repair }) => repair), ([repair, same]) => {
    // Until the repair, the history does not record changes of rows.
    const isUnrecorded = same.some((problem) => problem.isUnrecorded)
    const found = Finding.formatNames(same.map((problem) => problem.found)) +
      (isUnrecorded ? "; as_of and /v1/changes miss what is written meanwhile, and responses may be outdated" : "")
    const then = isUnrecorded ? ' Then see "Repair the history" in docs/operations/history.md.' : ""
    return Finding.failed(
      found,
      // The repair is "" if no statements can restore the object.
      repair === ""
        ? "Create it as the folder sql of this release does, as the role that owns the tables, or restore a backup: " +
          "docs/operations/backups.md."
        : `As the role that owns the tables, run: ${repair}.${then}`,
    )
  })
})

/**
 * Finds constraints that are not validated, including constraints that an operator has added (D34, stored values). A
 * request for a row that violates such a constraint fails.
 */
export const checkConstraints = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const notValidated = yield* sql<{ readonly dataset: string; readonly name: string; readonly expression: string }>`
    select dataset, conname as name, pg_get_expr(conbin, conrelid) as expression
    from history.datasets join pg_constraint on conrelid = to_regclass('public.' || dataset)
    where contype = 'c' and not convalidated order by 1, 2
  `
  if (notValidated.length === 0) return [Finding.passed("all rows of the datasets satisfy the constraints")]
  return notValidated.map(({ dataset, expression, name }) =>
    Finding.warning(
      `${name} is not validated; requests for rows of ${dataset} that violate it fail`,
      `Find the rows: select * from ${dataset} where not (${expression}). Correct them, then run: ` +
        `alter table ${dataset} validate constraint ${name}. Or load ${dataset} again.`,
    )
  )
})
