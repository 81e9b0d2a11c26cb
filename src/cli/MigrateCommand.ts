/** `migrate` and `grant` on the command line. */
import { Console, Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import * as Connection from "../db/Connection.ts"
import * as Migrations from "../db/migrations/Migrations.ts"
import * as Roles from "../db/migrations/ServiceRole.ts"

export const migrateCommand = Command.make(
  "migrate",
  {},
  Effect.fnUntraced(function* () {
    const applied = yield* withProgressDisplay(Migrations.runMigrations)
    yield* Console.log(applied.length === 0 ? "Up to date." : applied.map(([id, name]) => `${id}_${name}`).join("\n"))
  }),
).pipe(
  Command.withDescription("Apply the migrations that the database lacks, and print them"),
  Command.withExamples([{ command: "npm run tickerline -- migrate", description: "Bring the schema up to date" }]),
  Command.provide(Connection.commandConnectionLayer("tickerline-command")),
)

export const grantCommand = Command.make(
  "grant",
  { role: Argument.String("role").pipe(Argument.withDescription("A role of PostgreSQL that is there")) },
  Effect.fnUntraced(function* ({ role }) {
    yield* Roles.grantServiceRole(role)
    yield* Console.log(`${role} may serve, and do nothing else. Migrations to come grant it what they add.`)
  }),
).pipe(
  Command.withDescription("Let a role of PostgreSQL serve: read datasets, record usage, and nothing more"),
  Command.withExamples([{
    command: "npm run tickerline -- grant tickerline_service",
    description: "Then serve with a DATABASE_URL of that role",
  }]),
  Command.provide(Connection.migratedConnectionLayer),
)
