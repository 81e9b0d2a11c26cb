/**
 * Tests that every session of the service sets what its statements need, regardless of the server's settings. A login
 * trigger, available since PostgreSQL 17, writes the settings of each new session to the server log.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { clientSettings, sessionSettings } from "../../../src/postgres/pool/ConnectionSettings.ts"
import { DedicatedPostgres, migratedDedicatedLayer } from "../../support/DedicatedPostgres.ts"
import { installedPostgresPrograms } from "../../support/PostgresCluster.ts"
import { runCommandProcess } from "../../support/Processes.ts"
import { requestOverWire, startServiceProcess } from "../../support/ServiceInstances.ts"

// @module-tag slow

/** The settings that each session must have. */
const needed: Readonly<Record<string, string>> = { ...sessionSettings, ...clientSettings }

const Session = Schema.Struct({ program: Schema.String, settings: Schema.Record(Schema.String, Schema.String) })
const decodeSession = Schema.decodeUnknownSync(Schema.fromJsonString(Session))

/** For each setting, a value that differs from the service's own. */
const unusual = {
  lock_timeout: "7s",
  statement_timeout: "77s",
  jit: "on",
  default_transaction_isolation: "serializable",
  timezone: "Asia/Kolkata",
  datestyle: "SQL, DMY",
  search_path: "unusual",
  quote_all_identifiers: "on",
  standard_conforming_strings: "off",
}

/** SQL statements that create the login trigger. */
const logSessions = [
  `create function log_session() returns event_trigger language plpgsql as $$ begin
    raise log 'session %', json_build_object('program', current_setting('application_name'), 'settings', (
      select json_object_agg(name, current_setting(name)) from unnest('{${Object.keys(needed).join()}}'::text[]) as name
    ))::text;
  end $$`,
  "create event trigger log_session on login execute function log_session()",
  "alter event trigger log_session enable always",
]

/** Reads the application name and settings of each session from the server log. */
const readSessions = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const log = yield* fs.readFileString((yield* DedicatedPostgres).logFile)
  return Array.from(log.matchAll(/LOG: {2}session (.*)/g), ([, text]) => decodeSession(text))
})

const skipped = installedPostgresPrograms === undefined ? "" : " (skipped: needs login triggers of PostgreSQL 17)"

layer(migratedDedicatedLayer, { excludeTestServices: true, timeout: "180 seconds" })(
  `Every session${skipped}`,
  (it) => {
    it.effect.skipIf(skipped !== "")(
      "of the service and its commands states the settings that statements need (§8, operations/deployment)",
      () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          assert.sameMembers(Object.keys(unusual), Object.keys(needed), "each setting has an unusual value")
          for (const [name, value] of Object.entries(unusual)) {
            yield* sql.unsafe(`alter role current_user set ${name} = '${value}'`)
          }
          for (const statement of logSessions) yield* sql.unsafe(statement)
          const { url } = yield* DedicatedPostgres
          const before = (yield* readSessions).length
          const adminPort = yield* chooseFreePort
          const { port } = yield* startServiceProcess(url, { ADMIN_PORT: String(adminPort), DATABASE_READ_URLS: url })
          assert.strictEqual((yield* requestOverWire(port, "/health/ready", "")).status, 200)
          for (const command of [["doctor"], ["accounts", "list"], ["migrate"], ["datasets"]]) {
            const { code, err, out } = yield* runCommandProcess(command, { DATABASE_URL: url })
            // `doctor` may report the unusual settings as problems.
            if (command[0] !== "doctor") assert.strictEqual(code, 0, `${command.join(" ")}: ${out}${err}`)
          }
          const sessions = (yield* readSessions).slice(before).filter(({ program }) => program.startsWith("tickerline"))
          const programs = new Set(sessions.map(({ program }) => program))
          assert.includeMembers(Array.from(programs), ["tickerline", "tickerline-admin", "tickerline-doctor"])
          for (const { program, settings } of sessions) {
            // `doctor` uses shorter time limits than the service.
            const own = program === "tickerline-doctor" ? { lock_timeout: "1s", statement_timeout: "5s" } : {}
            assert.deepStrictEqual(settings, { ...needed, ...own }, program)
          }
        }).pipe(Effect.scoped),
    )
  },
)
