/** The `migrate` and `grant` commands: apply migrations, and grant a role the privileges that the service needs. */
import { Console, Effect, Schema } from "effect"
import { Command } from "effect/cli"
import { commandDatabaseClientLayer, migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { runMigrations } from "../../postgres/migrations/Migrations.ts"
import { formatMigration } from "../../postgres/migrations/MigrationScripts.ts"
import { grantRolePrivileges } from "../../postgres/migrations/ServiceRole.ts"
import { makeArgument, makeBooleanFlag, withExamples } from "./CommandParts.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"

/** `migrate`: applies migrations. */
export const migrateCommand = Command.make(
  "migrate",
  {},
  Effect.fnUntraced(function* () {
    const applied = yield* withProgressDisplay(runMigrations)
    yield* Console.log(
      applied.length === 0
        ? "The schema is up to date."
        : applied.map(([id, name]) => formatMigration(id, name)).join("\n"),
    )
  }),
).pipe(
  Command.withDescription("Apply the missing migrations, and print their names"),
  withExamples({ "migrate": "Bring the schema up to date" }),
  Command.provide(commandDatabaseClientLayer("tickerline-command")),
)

/** `grant`: grants a role the privileges that the service needs. */
export const grantPrivilegesCommand = Command.make(
  "grant",
  {
    role: makeArgument("role", Schema.String, "An existing PostgreSQL role"),
    isAdmin: makeBooleanFlag("admin", "The role is for the admin API (ADMIN_DATABASE_URL), not for the service"),
  },
  Effect.fnUntraced(function* ({ isAdmin, role }) {
    yield* grantRolePrivileges(role, isAdmin ? "admin" : "service")
    const purpose = isAdmin ? "of the admin API" : "to serve"
    yield* Console.log(`Granted ${role} the privileges ${purpose}, and no others. Later migrations extend them.`)
  }),
).pipe(
  Command.withDescription("Grant a PostgreSQL role only the privileges to serve: read datasets and record usage"),
  withExamples({
    "grant tickerline_service": "Grant the privileges, then serve with a DATABASE_URL of that role",
  }),
  Command.provide(migratedDatabaseClientLayer),
)
