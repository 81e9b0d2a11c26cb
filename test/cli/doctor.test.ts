/** `doctor`: what it finds in databases that are ill in one way each, and that it leaves all as it was. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { createServer, type Socket } from "node:net"
import { databaseClientLayer } from "../../src/db/Database.ts"
import { readOnlyConnection as readOnly } from "../../src/cli/doctor/DatabaseChecks.ts"
import { type Finding, runCheck } from "../../src/cli/doctor/Finding.ts"
import * as Ill from "../../src/cli/doctor/SchemaChecks.ts"
import { settingReaders } from "../../src/cli/doctor/SettingChecks.ts"
import { type Environment, findFreePort, projectRoot, runCommandProcess } from "../support/Processes.ts"
import { copyMigratedDatabase } from "../support/Service.ts"

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

/** As a process, with what it says of each check. */
const doctor = Effect.fnUntraced(function* (environment: Environment) {
  const { code, err, out } = yield* runCommandProcess(["doctor", "--json"], {
    PORT: String(yield* findFreePort),
    ...environment,
  })
  const report = yield* Schema.decodeEffect(Report)(out)
  const of = (check: string) => report.checks.filter((one) => one.check === check)
  return { code, err, out, report, of }
})

/** Within the process, over the connection that doctor itself has. */
const looked = <E>(
  url: Redacted.Redacted,
  look: Effect.Effect<Finding | ReadonlyArray<Finding>, E, SqlClient.SqlClient | FileSystem.FileSystem | PathService>,
) => runCheck({ name: "check", effect: look }).pipe(Effect.provide(readOnly(url)), Effect.map(([first]) => first))

/** Another program on a port of the loopback. */
const listening = (greet: (socket: Socket) => void) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
      const sockets = new Set<Socket>()
      const server = createServer((socket) => {
        sockets.add(socket)
        // The doctor hangs up where it has waited long enough.
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

type PathService = Layer.Success<typeof NodeServices.layer>

const admin = (url: Redacted.Redacted) => databaseClientLayer({ url, applicationName: "tickerline-test" })

const as = (url: Redacted.Redacted, ...statements: ReadonlyArray<string>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true }),
  ).pipe(Effect.provide(admin(url)))

layer(NodeServices.layer, { excludeTestServices: true })("doctor", (it) => {
  it.effect("README, doctor: a database that is as it should be, though empty, is well; nothing in it changes", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const { code, err, of, report } = yield* doctor({ DATABASE_URL: Redacted.value(url) })
      assert.strictEqual(code, 0, err)
      assert.strictEqual(err, "")
      assert.isTrue(report.ok)
      for (const name of ["runtime", "clock", "clocks", "time zones", "version", "migrations", "triggers", "indexes"]) {
        assert.deepStrictEqual(of(name).map(({ state }) => state), ["ok"], name)
      }
      assert.match(of("datasets")[0]?.found ?? "", /^0 of 18 have rows/)
      assert.include(of("datasets")[0]?.advice ?? "", "tickerline load")
      const refused = yield* Effect.flip(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`create table mine (a int)`).pipe(
          Effect.provide(readOnly(url)),
        ),
      )
      assert.include(String(refused.reason.cause), "read-only")
    }))

  it.effect("D17 a trigger that is off or gone is found, by name and with the cure", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      yield* as(url, "alter table news disable trigger note_change")
      const off = yield* looked(url, Ill.checkTriggers)
      assert.strictEqual(off?.state, "failed")
      assert.match(off?.found ?? "", /: news;/)
      yield* as(url, off?.advice ?? "")
      assert.strictEqual((yield* looked(url, Ill.checkTriggers))?.state, "ok")
      yield* as(url, "drop trigger note_change on screener")
      assert.match((yield* looked(url, Ill.checkTriggers))?.found ?? "", /: screener;/)
    }))

  it.effect("README, doctor: an invalid index is found, with the cure", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      assert.strictEqual((yield* looked(url, Ill.checkIndexes))?.state, "ok")
      yield* as(
        url,
        "update pg_index set indisvalid = false where indexrelid = 'news_ticker_created_at_id_idx'::regclass",
      )
      const found = yield* looked(url, Ill.checkIndexes)
      assert.deepStrictEqual([found?.state, found?.advice], [
        "failed",
        "reindex index concurrently news_ticker_created_at_id_idx",
      ])
    }))

  it.effect("README, doctor: a database that takes connections and says nothing holds it up for seconds only", () =>
    Effect.gen(function* () {
      const { port } = yield* listening(() => {})
      const { code, of } = yield* doctor({ DATABASE_URL: `postgres://a:geheim@127.0.0.1:${port}/x` })
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(of("connection").map(({ state }) => state), ["failed"])
    }))

  it.effect("README, deploy: missing migrations fail; a database that is newer than the program, as while a release is replaced, is told", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      yield* as(url, "delete from tickerline_migrations where migration_id = 24")
      const older = yield* looked(url, Ill.checkMigrations)
      assert.strictEqual(older?.state, "failed")
      assert.match(older?.found ?? "", /1 are missing: 24_/)
      assert.include(older?.advice ?? "", "tickerline migrate")
      yield* as(
        url,
        "insert into tickerline_migrations (migration_id, name) values (24, 'triggers_that_loads_dropped'), (9999, 'later')",
      )
      const newer = yield* looked(url, Ill.checkMigrations)
      assert.strictEqual(newer?.state, "warning")
      assert.match(newer?.found ?? "", /newer than this program: 9999_later/)
    }))

  it.effect("README, deploy: a role is told what it lacks, and what it has too much", () =>
    Effect.gen(function* () {
      const url = yield* copyMigratedDatabase
      const name = `doctored_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
      yield* Effect.acquireRelease(
        as(url, `create role ${name} login password 'hunter2'`),
        () => Effect.orDie(as(url, `drop owned by ${name}`, `drop role ${name}`)),
      )
      const its = new URL(Redacted.value(url))
      its.username = name
      its.password = "hunter2"
      const environment = { DATABASE_URL: its.href }
      const bare = yield* doctor(environment)
      assert.strictEqual(bare.code, 1)
      assert.match(bare.of("role")[0]?.found ?? "", /lacks: .*select on/)
      assert.include(bare.of("role")[0]?.advice ?? "", `tickerline grant ${name}`)
      assert.notInclude(`${bare.out}${bare.err}`, "hunter2")
      assert.strictEqual((yield* runCommandProcess(["grant", name], { DATABASE_URL: Redacted.value(url) })).code, 0)
      const serving = yield* doctor(environment)
      assert.deepStrictEqual(serving.of("role").map(({ state }) => state), ["ok"], JSON.stringify(serving.of("role")))
      yield* as(url, `grant insert on news to ${name}`)
      const rich = yield* looked(Redacted.make(its.href), Ill.checkRole(false))
      assert.deepStrictEqual([rich?.state, rich?.found], ["warning", `${name} may also write news`])
    }))

  it.effect("README, doctor: a database that is away, wrong and misspelt settings, and no secret is told", () =>
    Effect.gen(function* () {
      const { code, err, of, out, report } = yield* doctor({
        DATABASE_URL: "postgres://user:geheim@127.0.0.1:1/none",
        RATE_LIMIT_PRO: "many",
        TICKERLINE_HOM: "/tmp/x",
        RATE_LIMT_BASIC: "5",
        BASE_URL: "https://api.example.com",
      })
      assert.strictEqual(code, 1)
      assert.strictEqual(err, `tickerline: doctor: 2 of ${report.checks.length} checks failed.\n`)
      assert.match(of("connection")[0]?.found ?? "", /DATABASE_URL: no connection/)
      assert.match(
        of("settings")[0]?.found ?? "",
        /^RATE_LIMIT_PRO is "many", but must be a whole number of requests per minute/,
      )
      assert.strictEqual(of("TICKERLINE_HOM")[0]?.advice, "Did you mean TICKERLINE_HOME?")
      assert.strictEqual(of("RATE_LIMT_BASIC")[0]?.advice, "Did you mean RATE_LIMIT_BASIC?")
      assert.match(of("clients")[0]?.advice ?? "", /TRUSTED_PROXIES/)
      assert.notInclude(out, "geheim")
    }))

  it.effect("README, doctor: a home that is not there stays so, and a taken port is told", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-doctor-" })}/home`
      const port = yield* listening((socket) => socket.end("220 mail\r\n"))
      const { code, err, out } = yield* runCommandProcess(["doctor"], {
        TICKERLINE_HOME: home,
        PORT: String(port.port),
        LANG: "C",
      })
      assert.strictEqual(code, 1)
      assert.match(err, /^tickerline: doctor: 1 of \d+ checks failed\.\n$/)
      assert.include(out, `x  port: ${port.port} is in use by another program\n    -> End that program, or set PORT`)
      assert.match(out, /ok home: .* is not there; the first start makes it/)
      assert.isTrue(Array.from(out).every((sign) => sign === "\n" || (sign >= " " && sign <= "~")), out)
      assert.isFalse(yield* fs.exists(home))
    }))

  it.effect("README, settings: each variable of the table is one that doctor reads, and no other is", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const page = yield* fs.readFileString(`${projectRoot}/docs/operations/settings.md`)
      const named = Array.from(page.matchAll(/^\| (`[^|]*?) +\|/gm), ([, cell = ""]) => {
        const names = Array.from(cell.matchAll(/`([A-Z_]+)`/g), ([, name = ""]) => name)
        const [first = ""] = names
        return names.map((name) => name.startsWith("_") ? `${first.slice(0, first.lastIndexOf("_"))}${name}` : name)
      }).flat()
      assert.isAbove(named.length, 20)
      assert.sameMembers(Object.keys(settingReaders), named)
    }))
})
