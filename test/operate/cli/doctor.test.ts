/** Tests what `doctor` reports about databases and settings that have one defect each, and that it changes nothing. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Effect, FileSystem, Layer, Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient, SqlError } from "effect/sql"
import { createServer, type Socket } from "node:net"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { type CheckResult, runDoctorCheck } from "../../../src/operate/cli/doctor/DoctorFinding.ts"
import * as DatabaseChecks from "../../../src/operate/cli/doctor/DatabaseChecks.ts"
import { splitStatements } from "../../../src/postgres/migrations/MigrationScripts.ts"
import * as SchemaChecks from "../../../src/operate/cli/doctor/SchemaChecks.ts"
import { settingNames } from "../../../src/operate/cli/Settings.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { type Environment, projectRoot, runCommandProcess } from "../../support/Processes.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import { copyMigratedDatabase } from "../../support/Service.ts"
import { requestOverWire, startServiceProcess } from "../../support/ServiceInstances.ts"

// @module-tag slow

const Report = Schema.fromJsonString(Schema.Struct({
  ok: Schema.Boolean,
  failed: Schema.Int,
  warnings: Schema.Int,
  checks: Schema.Array(Schema.Struct({
    section: Schema.String,
    check: Schema.String,
    state: Schema.Literals(["ok", "warning", "failed", "skipped"]),
    found: Schema.String,
    advice: Schema.optionalKey(Schema.String),
  })),
}))

/**
 * Runs `doctor` in this process, or with `run` if given. Returns the report, and a function that finds the results of
 * one check.
 */
const runDoctor = Effect.fnUntraced(function* (
  environment: Environment,
  run: typeof runCommandProcess = runCommandInProcess,
) {
  const { code, err, out } = yield* run(["doctor", "--json"], {
    PORT: String(yield* chooseFreePort),
    ...environment,
  })
  const report = yield* Schema.decodeEffect(Report)(out)
  const findingsOf = (check: string) => report.checks.filter((one) => one.check === check)
  return { code, err, out, report, findingsOf }
})

type NodeService = Layer.Success<typeof NodeServices.layer>

/** Runs one check in this process, over the same kind of connection as `doctor`. */
const runDatabaseCheck = <E>(
  url: Redacted.Redacted,
  effect: Effect.Effect<CheckResult | ReadonlyArray<CheckResult>, E, SqlClient.SqlClient | NodeService>,
) =>
  Effect.map(
    Effect.provide(runDoctorCheck({ name: "check", effect }), DatabaseChecks.doctorConnectionLayer(url)),
    ([first]) => first,
  )

/** Starts a TCP server on a loopback port that is not PostgreSQL. */
const startOtherProgram = (greet: (socket: Socket) => void) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
      const sockets = new Set<Socket>()
      const server = createServer((socket) => {
        sockets.add(socket)
        // `doctor` closes the connection after a timeout, which causes an error event here.
        socket.on("error", () => socket.destroy())
        greet(socket)
      })
      const close = () => {
        server.close()
        for (const socket of sockets) socket.destroy()
      }
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed({ port: typeof address === "object" && address !== null ? address.port : 0, close }))
      })
    }),
    ({ close }) => Effect.sync(close),
  )

/** Runs statements as the database owner. */
const runAsOwner = (url: Redacted.Redacted, ...statements: ReadonlyArray<string>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true }),
  ).pipe(Effect.provide(databaseClientLayer({ url, applicationName: "tickerline-test" })))

layer(NodeServices.layer, { excludeTestServices: true })("doctor", (it) => {
  it.effect("reports no failure for an empty database, and cannot write to it (operations/command-line)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const { code, err, findingsOf, report } = yield* runDoctor({ DATABASE_URL: Redacted.value(url) })
      assert.strictEqual(code, 0, err)
      assert.strictEqual(err, "")
      assert.isTrue(report.ok)
      for (
        const name of [
          "runtime",
          "clock",
          "clocks",
          "time zones",
          "version",
          "migrations",
          "schema",
        ]
      ) {
        assert.deepStrictEqual(findingsOf(name).map(({ state }) => state), ["ok"], name)
      }
      assert.match(findingsOf("datasets")[0]?.found ?? "", /^0 of 18 have rows/)
      assert.include(findingsOf("datasets")[0]?.advice ?? "", "tickerline -- load")
      const refused = yield* Effect.flip(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`create table mine (a int)`).pipe(
          Effect.provide(DatabaseChecks.doctorConnectionLayer(url)),
        ),
      )
      assert.include(String(SqlError.isSqlError(refused) ? refused.reason.cause : refused), "read-only")
    }))

  /**
   * Statements that damage a schema object, each with the finding that `doctor` then reports. Following
   * its advice repairs each defect.
   */
  const defects: ReadonlyArray<readonly [statement: string, found: string]> = [
    ...[
      ...["begin", "insert", "stamp", "update", "delete", "truncate", "written"].map((name) => `history_${name}`),
      "note_change",
    ]
      .flatMap((trigger) =>
        [
          [`drop trigger ${trigger} on news`, `trigger ${trigger} of news is missing`],
          [`alter table news disable trigger ${trigger}`, `trigger ${trigger} of news is disabled`],
          [`alter table news enable trigger ${trigger}`, `trigger ${trigger} of news does not fire in every session`],
          [
            `alter table news enable replica trigger ${trigger}`,
            `trigger ${trigger} of news does not fire in every session`,
          ],
        ] as const
      ),
    [
      "drop trigger record_transaction on history.transactions",
      "trigger record_transaction of history.transactions is missing",
    ],
    [
      "alter table history.transactions disable trigger record_transaction",
      "trigger record_transaction of history.transactions is disabled",
    ],
    ["alter table api_keys disable trigger audit", "trigger audit of api_keys is disabled"],
    ["drop trigger audit on credits", "trigger audit of credits is missing"],
    ["drop trigger audit_prepaid on accounts", "trigger audit_prepaid of accounts is missing"],
    [
      "create or replace trigger history_delete after delete on news for each statement execute function note_change()",
      "trigger history_delete of news differs from that of this release",
    ],
    [
      "create or replace function history.keep_news() returns trigger language plpgsql as 'begin return null; end'",
      "function history.keep_news() differs from that of this release",
    ],
    ["alter table split_status add column reason text", "history of split_status is incomplete: without reason"],
    ["drop index news_ticker_created_at_id_idx", "index news_ticker_created_at_id_idx of news is missing"],
    [
      "update pg_index set indisvalid = false where indexrelid = 'news_ticker_created_at_id_idx'::regclass",
      "index news_ticker_created_at_id_idx of news is invalid, so no query uses it",
    ],
    [
      "alter table ticker_changes drop constraint ticker_changes_check",
      "constraint ticker_changes_check of ticker_changes is missing",
    ],
    [
      "alter table ticker_changes drop constraint ticker_changes_check, add constraint ticker_changes_check " +
      "check (old_ticker <> new_ticker) not valid",
      "constraint ticker_changes_check of ticker_changes is not validated",
    ],
    ["alter domain price drop constraint price_check", "domain price differs from that of this release"],
    [
      "do $$ begin alter domain ticker drop constraint ticker_check; " +
      "alter domain ticker add constraint ticker_check check (value <> ''); end $$",
      "domain ticker differs from that of this release",
    ],
    [
      "create or replace function joined(list text[]) returns text language sql immutable strict parallel safe return ''",
      "function joined(text[]) differs from that of this release",
    ],
    ["drop function settle_usage", "function settle_usage() is missing"],
    ["grant execute on function settle_usage to public", "function settle_usage() differs from that of this release"],
    [
      "revoke execute on function lowered from public",
      "function lowered(text[]) differs from that of this release",
    ],
    [
      "alter sequence history.transaction_ids increment 2",
      "sequence history.transaction_ids differs from that of this release",
    ],
    [
      "alter sequence accounts_account_id_seq cycle",
      "sequence accounts_account_id_seq differs from that of this release",
    ],
    [
      // Dropping the extension also drops its indexes, which are repaired after the extension.
      "drop extension pg_trgm cascade",
      "extension pg_trgm is missing",
    ],
  ]

  it.effect("finds each object of the schema that is missing, differs or is disabled, and its statements repair it (D17, operations/history)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const check = runDatabaseCheck(url, SchemaChecks.checkSchema)
      assert.strictEqual((yield* check)?.found, "all objects are those of this release")
      for (const [statement, expected] of defects) {
        yield* runAsOwner(url, statement)
        const { advice = "", found = "", state } = (yield* check) ?? {}
        assert.strictEqual(state, "failed", statement)
        assert.isTrue(
          found === expected || found.startsWith(`${expected}; as_of and /v1/changes miss`),
          `${statement}: ${found}`,
        )
        // If the statement also dropped dependent objects, those have separate findings.
        const repairs: Array<string> = []
        for (let next = advice; next !== "" && !repairs.includes(next); next = (yield* check)?.advice ?? "") {
          repairs.push(next)
          const [, repair = ""] = /run: (.*?)\.(?: Then see "Repair the history".*)?$/s.exec(next) ?? []
          yield* runAsOwner(url, ...splitStatements(repair))
        }
        assert.strictEqual((yield* check)?.state, "ok", `${statement}: ${repairs.join("\n")}`)
      }
    }))

  it.effect("repairs every function of the schema (operations/command-line)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      yield* runAsOwner(
        url,
        `do $$ declare one record; begin
          for one in
            select pg_proc.oid::regprocedure as name, has_function_privilege('public', pg_proc.oid, 'execute') as is_open
            from pg_proc join pg_namespace on pg_namespace.oid = pronamespace
            where nspname in ('public', 'history') and prokind = 'f'
              and not exists (select from pg_depend where objid = pg_proc.oid and deptype = 'e')
          loop
            if one.is_open then execute format('revoke execute on function %s from public', one.name);
            else execute format('grant execute on function %s to public', one.name); end if;
          end loop;
        end $$`,
      )
      const findings = yield* runDoctorCheck({ name: "check", effect: SchemaChecks.checkSchema }).pipe(
        Effect.provide(DatabaseChecks.doctorConnectionLayer(url)),
      )
      assertFoundMoreThan(50, "findings", findings)
      for (const { advice = "" } of findings) {
        const [, repair = ""] = /run: (.*?)\.(?: Then see "Repair the history".*)?$/s.exec(advice) ?? []
        yield* runAsOwner(url, ...splitStatements(repair))
      }
      assert.strictEqual(
        (yield* runDatabaseCheck(url, SchemaChecks.checkSchema))?.found,
        "all objects are those of this release",
      )
    }))

  it.effect.each([
    ["alter table news drop column author cascade", "column news.author is missing"],
    ["alter table news alter title set not null", "column news.title differs from that of this release"],
    ["drop table failed_requests", "table failed_requests is missing"],
    ["drop view usage_totals", "view usage_totals is missing"],
    ["delete from role_privileges where object = 'public.leases'", "privileges of service on leases is missing"],
  ])(
    "names what no single statement repairs: %s (operations/command-line)",
    ([statement = "", expected = ""]) =>
      Effect.gen(function* () {
        const url = yield* copyMigratedDatabase
        yield* runAsOwner(url, statement)
        const { findingsOf } = yield* runDoctor({ DATABASE_URL: Redacted.value(url) })
        const findings = findingsOf("schema")
        const finding = findings.find(({ found }) => found.includes(expected))
        assert.strictEqual(finding?.state, "failed", JSON.stringify(findings))
        assert.match(finding?.advice ?? "", /^Create it as the folder sql of this release does|history\.track/)
      }),
  )

  it.effect("accepts objects that an operator has added (operations/command-line)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      yield* runAsOwner(url, "create index own on news (author)", "create table own_table (id int)")
      assert.strictEqual((yield* runDatabaseCheck(url, SchemaChecks.checkSchema))?.state, "ok")
    }))

  it.effect("warns of each constraint that is not validated, and explains how to find invalid rows (D34)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const rules = ["close > 1", "close < 9"].map((rule, index) => ({ rule, name: `daily_prices_test_${index}` }))
      for (const { name, rule } of rules) {
        yield* runAsOwner(url, `alter table daily_prices add constraint ${name} check (${rule}) not valid`)
      }
      const { findingsOf } = yield* runDoctor({ DATABASE_URL: Redacted.value(url) })
      const findings = findingsOf("rules")
      assert.deepStrictEqual(findings.map(({ state }) => state), ["warning", "warning"])
      for (const [index, { advice = "", found }] of findings.entries()) {
        const [, query = ""] = /^Find the rows: (select .*)\. Correct/.exec(advice) ?? []
        yield* runAsOwner(url, query)
        assert.include(advice, `alter table daily_prices validate constraint ${rules[index]?.name}.`)
        assert.match(found, new RegExp(`^${rules[index]?.name} is not validated; `))
      }
    }))

  it.effect("gives up on a database that accepts connections but never responds (operations/command-line)", () =>
    Effect.gen(function* () {
      const { port } = yield* startOtherProgram(() => {})
      const { code, findingsOf } = yield* runDoctor({ DATABASE_URL: `postgres://a:geheim@127.0.0.1:${port}/x` })
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(findingsOf("connection").map(({ state }) => state), ["failed"])
    }))

  it.effect("fails if migrations are missing, and warns if the database is newer than the program (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      yield* runAsOwner(
        url,
        "insert into tickerline_migrations (migration_id, name) values (9998, 'kept')",
        "delete from tickerline_migrations where migration_id = 0",
      )
      const development = yield* runDatabaseCheck(url, SchemaChecks.checkMigrations)
      assert.match(development?.advice ?? "", /made by a development version/)
      yield* runAsOwner(url, "delete from tickerline_migrations")
      const older = yield* runDatabaseCheck(url, SchemaChecks.checkMigrations)
      assert.strictEqual(older?.state, "failed")
      assert.match(older?.found ?? "", /are missing: schema/)
      assert.include(older?.advice ?? "", "tickerline -- migrate")
      yield* runAsOwner(
        url,
        "insert into tickerline_migrations (migration_id, name) values (0, 'schema'), (9999, 'later')",
      )
      const newer = yield* runDatabaseCheck(url, SchemaChecks.checkMigrations)
      assert.strictEqual(newer?.state, "warning")
      assert.match(newer?.found ?? "", /newer than this program: 9999_later/)
    }))

  it.effect("lists the privileges that a role lacks or has in excess (operations/deployment)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const name = `doctored_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
      yield* Effect.acquireRelease(
        runAsOwner(url, `create role ${name} login password 'hunter2'`),
        () => Effect.orDie(runAsOwner(url, `drop owned by ${name}`, `drop role ${name}`)),
      )
      const its = new URL(Redacted.value(url))
      its.username = name
      its.password = "hunter2"
      const environment = { DATABASE_URL: its.href }
      const bare = yield* runDoctor(environment)
      assert.strictEqual(bare.code, 1)
      assert.match(bare.findingsOf("role")[0]?.found ?? "", /lacks: .*select on/)
      assert.include(bare.findingsOf("role")[0]?.advice ?? "", `tickerline -- grant ${name}`)
      assert.notInclude(`${bare.out}${bare.err}`, "hunter2")
      assert.strictEqual((yield* runCommandProcess(["grant", name], { DATABASE_URL: Redacted.value(url) })).code, 0)
      const serving = yield* runDoctor(environment)
      assert.deepStrictEqual(
        serving.findingsOf("role").map(({ state }) => state),
        ["ok"],
        JSON.stringify(serving.findingsOf("role")),
      )
      yield* runAsOwner(url, `grant insert on news to ${name}`)
      const excessRights = yield* runDatabaseCheck(Redacted.make(its.href), SchemaChecks.checkRolePrivileges(false))
      assert.deepStrictEqual([excessRights?.state, excessRights?.found], ["warning", `${name} can also write news`])
      assert.isTrue(
        excessRights?.advice?.startsWith(`Run \`npm run tickerline -- grant ${name}\``),
        excessRights?.advice,
      )
      const owner = { DATABASE_URL: Redacted.value(url) }
      assert.strictEqual((yield* runCommandInProcess(["grant", name, "--admin"], owner)).code, 0)
      const admin = yield* runDatabaseCheck(Redacted.make(its.href), SchemaChecks.checkRolePrivileges(false))
      assert.strictEqual(admin?.state, "failed")
      assert.match(
        admin?.advice ?? "",
        /^If the admin API uses this role, set DATABASE_URL to another role\. Otherwise: /,
      )
    }))

  it.effect("counts the connections of the admin API, but not against the limit of another role (operations/admin-api)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const name = `limited_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
      yield* Effect.acquireRelease(
        runAsOwner(url, `create role ${name} login password 'hunter2' connection limit 40`),
        () => Effect.orDie(runAsOwner(url, `drop role ${name}`)),
      )
      const its = new URL(Redacted.value(url))
      its.username = name
      its.password = "hunter2"
      const readCount = Effect.fnUntraced(function* (environment: Environment, address = Redacted.value(url)) {
        const found = yield* runDatabaseCheck(Redacted.make(address), DatabaseChecks.checkConnectionLimit).pipe(
          Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: environment }))),
        )
        return Number(/uses up to (\d+)/.exec(found?.found ?? "")?.[1])
      })
      const count = yield* readCount({})
      const [shared, separate] = [{ ADMIN_PORT: "8081" }, { ADMIN_PORT: "8081", ADMIN_DATABASE_URL: its.href }]
      assert.strictEqual(yield* readCount(shared), count + 4)
      assert.strictEqual(yield* readCount(separate), count + 4)
      assert.strictEqual(yield* readCount(shared, its.href), count + 4)
      assert.strictEqual(yield* readCount(separate, its.href), count)
    }))

  it.effect("reports an unreachable database and invalid or misspelled settings, but no secrets (operations/command-line)", () =>
    Effect.gen(function* () {
      const { code, err, findingsOf, out, report } = yield* runDoctor({
        DATABASE_URL: "postgres://user:geheim@127.0.0.1:1/none",
        RATE_LIMIT_PRO: "many",
        TICKERLINE_HOM: "/tmp/x",
        RATE_LIMT_BASIC: "5",
        BASE_URL: "https://api.example.com",
      }, runCommandProcess)
      assert.strictEqual(code, 1)
      assert.strictEqual(err, `tickerline: doctor: 2 of ${report.checks.length} checks failed.\n`)
      assert.match(findingsOf("connection")[0]?.found ?? "", /DATABASE_URL: no connection/)
      assert.match(
        findingsOf("settings")[0]?.found ?? "",
        /^RATE_LIMIT_PRO is "many", but must be a whole number of requests per minute/,
      )
      assert.strictEqual(findingsOf("TICKERLINE_HOM")[0]?.advice, "Did you mean TICKERLINE_HOME?")
      assert.strictEqual(findingsOf("RATE_LIMT_BASIC")[0]?.advice, "Did you mean RATE_LIMIT_BASIC?")
      assert.match(findingsOf("clients")[0]?.advice ?? "", /TRUSTED_PROXIES/)
      assert.notInclude(out, "geheim")
    }))

  it.effect("names the setting that a check cannot use, its rule and an example (operations/settings)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const settings = { DATABASE_URL: Redacted.value(url), INGEST_EDGAR: "daily 25:00", WHOLE_LISTS: "none" }
      const { code, findingsOf } = yield* runDoctor(settings)
      assert.strictEqual(code, 1)
      const schedule = {
        state: "failed" as const,
        found: `INGEST_EDGAR is "daily 25:00", but must be daily, a time and a time zone, for example ` +
          `INGEST_EDGAR="daily 22:15 America/New_York".`,
        advice: "Correct it, or unset it to ingest nothing on a schedule.",
      }
      assert.deepStrictEqual(findingsOf("ingest"), [{ section: "database", check: "ingest", ...schedule }])
      assert.deepInclude(findingsOf("settings"), { section: "service", check: "settings", ...schedule })
      assert.match(findingsOf("connections")[0]?.found ?? "", /^WHOLE_LISTS is "none", but must be an integer between/)
    }))

  it.effect("warns if a trusted proxy names no client, as the running process has seen (operations/load-balancer)", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const metrics = String(yield* chooseFreePort)
      const settings = { TRUSTED_PROXIES: "127.0.0.1", METRICS_PORT: metrics, DATABASE_URL: Redacted.value(url) }
      const findProxies = Effect.map(runDoctor(settings), ({ findingsOf }) => findingsOf("proxies"))
      const { METRICS_PORT: _, ...withoutMetrics } = settings
      assert.deepStrictEqual((yield* runDoctor(withoutMetrics)).findingsOf("proxies").map(({ state }) => state), [
        "skipped",
      ])
      assert.deepStrictEqual((yield* findProxies).map(({ state }) => state), ["skipped"], "no process runs")
      const { DATABASE_URL, ...more } = settings
      const { port } = yield* startServiceProcess(DATABASE_URL, more)
      assert.deepStrictEqual((yield* findProxies).map(({ state }) => state), ["ok"])
      const { status } = yield* requestOverWire(port, "/v1/account", "nonsense")
      assert.strictEqual(status, 401)
      const [finding] = yield* findProxies
      assert.strictEqual(finding?.state, "warning")
      assert.match(finding?.found ?? "", /1 requests with a key .* named no client in X-Forwarded-For/)
      assert.include(finding?.advice ?? "", "docs/operations/load-balancer.md")
    }))

  it.effect("reports a port in use, and does not create the home folder (operations/command-line)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-doctor-" })}/home`
      const port = yield* startOtherProgram((socket) => socket.end("220 mail\r\n"))
      const { code, err, out } = yield* runCommandProcess(["doctor"], {
        TICKERLINE_HOME: home,
        PORT: String(port.port),
        LANG: "C",
      })
      assert.strictEqual(code, 1)
      assert.match(err, /^tickerline: doctor: 1 of \d+ checks failed\.\n$/)
      assert.include(out, `x  port: ${port.port} is in use by another program\n    -> End that program, or set PORT`)
      assert.match(out, /ok home: .* does not exist yet; the first start creates it/)
      assert.isTrue(Array.from(out).every((sign) => sign === "\n" || (sign >= " " && sign <= "~")), out)
      assert.isFalse(yield* fs.exists(home))
    }))

  it.effect("reads exactly the settings that the documentation lists (operations/settings)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const page = yield* fs.readFileString(`${projectRoot}/docs/operations/settings.md`)
      const named = Array.from(page.matchAll(/^\| (`[^|]*?) +\|/gm), ([, cell = ""]) => {
        const names = Array.from(cell.matchAll(/`([A-Z_]+)`/g), ([, name = ""]) => name)
        const [first = ""] = names
        return names.map((name) => name.startsWith("_") ? `${first.slice(0, first.lastIndexOf("_"))}${name}` : name)
      }).flat()
      assertFoundMoreThan(20, "documented settings", named)
      assert.sameMembers([...settingNames], named)
    }))
})
