/** The `audit` command: prints who changed what, as a table or as one JSON object per line. */
import { Console, Effect, Option, Schema, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { TrimmedName } from "../../accounts/TrimmedName.ts"
import {
  type AuditRow,
  auditSubjectTypes,
  AuditTime,
  readAuditEntries,
  streamAuditEntries,
} from "../../postgres/AuditLog.ts"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { makeBooleanFlag, makeFlag, withPipeableExamples } from "./CommandParts.ts"
import { formatTimeCell, printTextTable } from "./terminal/TextTable.ts"

const formatValues = (values: AuditRow["after"]) => values === null ? "-" : JSON.stringify(values)

/**
 * Prints changes from the audit log as a table. The columns `before` and `after` show the values that a change has
 * replaced. The account is mentioned only if it is not itself the subject of the change.
 */
const printTable = (rows: ReadonlyArray<AuditRow>) =>
  printTextTable({
    columns: ["time (UTC-5)", "who", "from", "operation", "subject", "change", "before", "after"].map((name) => ({
      name,
    })),
    rows: rows.map((row) => [
      formatTimeCell(row.recorded_at),
      row.actor,
      row.origin ?? "-",
      row.operation ?? "-",
      `${row.subject_type} ${row.subject}${
        row.account === null || row.account === row.subject ? "" : ` of ${row.account}`
      }`,
      row.change,
      formatValues(row.before),
      formatValues(row.after),
    ]),
  })

const filterFlag = (name: string, description: string) => Flag.optional(makeFlag(name, TrimmedName, description))

/** `audit`: prints the audit log. */
export const auditCommand = Command.make(
  "audit",
  {
    since: Flag.optional(makeFlag("since", AuditTime, "Only changes from this date or time on, at -05:00")),
    until: Flag.optional(makeFlag("until", AuditTime, "Only changes before this date or time, at -05:00")),
    actor: filterFlag("actor", "Only changes by this user, admin or role"),
    account: filterFlag("account", "Only changes of this account and its keys"),
    subject_type: Flag.Literals("type", auditSubjectTypes).pipe(
      Flag.withDescription("Only this type of subject"),
      Flag.optional,
    ),
    subject: filterFlag("subject", "Only this subject: the name of an account, the ID of a key"),
    limit: Flag.Int("limit").pipe(
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))),
      Flag.withDescription("Without --since, how many of the newest changes are printed (default: 100)"),
      Flag.withDefault(100),
    ),
    json: makeBooleanFlag("json", "Print one JSON object per line"),
  },
  Effect.fnUntraced(function* ({ json, limit, ...flags }) {
    const filter = Object.fromEntries(
      Object.entries(flags).flatMap(([name, value]) => Option.isSome(value) ? [[name, value.value]] : []),
    )
    const newest = Option.isNone(flags.since) ? yield* readAuditEntries(filter, { limit }) : undefined
    const rows = newest === undefined ? streamAuditEntries(filter) : Stream.fromIterable(newest.toReversed())
    if (json) return yield* Stream.runForEach(rows, (row) => Console.log(JSON.stringify(row)))
    yield* printTable(yield* Stream.runCollect(rows))
  }),
).pipe(
  Command.withDescription("Show who changed accounts, keys, credits, data and settings; oldest change first"),
  withPipeableExamples({
    "audit": "Show the newest 100 changes in a table",
    "audit --since 2026-11-01 --json > audit.ndjson": "Export all changes of a time",
    "audit --account acme --type key": "Show what happened to the keys of an account",
  }),
  Command.provide(migratedDatabaseClientLayer),
)
