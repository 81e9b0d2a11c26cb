// @module-tag slow
/** Tests `backup`, `backup check` and `restore` with the PostgreSQL client programs (operations/backups). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Layer, Redacted, Schedule, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { spawnSync } from "node:child_process"
import { dirname } from "node:path"
import { inject } from "vitest"
import { Manifest } from "../../../src/operate/backups/Manifest.ts"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { checkSchema } from "../../../src/operate/cli/doctor/SchemaChecks.ts"
import { runMigrations } from "../../../src/postgres/migrations/Migrations.ts"
import { grantRolePrivileges } from "../../../src/postgres/migrations/ServiceRole.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { installedPostgresPrograms } from "../../support/PostgresCluster.ts"
import { endProcess, getCandidateProgramPaths, isExecutable, startCommandProcess } from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"
import { mayMount, mountSmallDisk, smallDiskSize, unmountSmallDisk } from "../../support/SmallDisks.ts"

/** The folder that contains the installed client programs. If there are none, a folder that does not exist. */
const programs = installedPostgresPrograms ?? dirname(getCandidateProgramPaths("pg_dump").find(isExecutable) ?? "/-/-")

const readMajor = (text: string) => /\(PostgreSQL\) (\d+)/.exec(text)?.[1]
const programMajor = readMajor(spawnSync(`${programs}/pg_dump`, ["--version"], { encoding: "utf8" }).stdout ?? "")

const connectTo = (database: string) => {
  const url = new URL(inject("databaseUrl"))
  url.pathname = `/${database}`
  return PgConnection.make({ url: Redacted.make(url.href) })
}

const admin = Effect.suspend(() => connectTo("postgres"))

const serverMajor = Effect.map(
  Effect.flatMap(admin, (connection) => connection.query("show server_version")),
  ({ rows: [row] }) => /^\d+/.exec(String(row?.["server_version"]))?.[0],
)

/** The tests require client programs of the server's version, such as those in TEST_POSTGRES_BIN. */
const canTest = programMajor !== undefined && installedPostgresPrograms !== undefined

const findDatabase = Effect.fnUntraced(function* (name: string) {
  const { rows } = yield* (yield* admin).query("select 1 from pg_database where datname = $1", [name])
  return rows.length > 0
})

const makeName = (prefix: string) => `${prefix}_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`

/** Creates a PostgreSQL role that is not a superuser. */
const makeRole = Effect.fnUntraced(function* (options: string) {
  const connection = yield* admin
  const name = makeName("role")
  yield* Effect.acquireRelease(
    connection.query(`create role ${name} login password 'secret' ${options}`),
    () => Effect.orDie(connection.query(`drop role ${name}`)),
  )
  return name
})

const connectAs = (username: string, url: Redacted.Redacted, database?: string) => {
  const target = Object.assign(new URL(Redacted.value(url)), { username, password: "secret" })
  if (database !== undefined) target.pathname = `/${database}`
  return Redacted.make(target.href)
}

/** Returns an unused database name. When the scope closes, drops the database if it has been created. */
const newDatabaseName = Effect.acquireRelease(
  Effect.sync(() => makeName("restored")),
  (name) =>
    Effect.orDie(
      Effect.scoped(Effect.flatMap(admin, ({ query }) => query(`drop database if exists ${name} with (force)`))),
    ),
)

/**
 * Creates a folder with wrapper programs that log their arguments. `pg_restore` and `pg_dump` run the given shell lines
 * first.
 */
const makePrograms = Effect.fnUntraced(function* (lines: string) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-programs-" })
  for (const name of ["pg_dump", "pg_restore"]) {
    const script = `#!/bin/sh\nprintf '%s\\n' "$*" >> ${folder}/arguments\n${lines.replaceAll("FOLDER", folder)}\n`
    yield* fs.writeFileString(`${folder}/${name}`, `${script}exec ${programs}/${name} "$@"\n`, { mode: 0o755 })
  }
  return folder
})

const makeFolder = Effect.flatMap(
  FileSystem.FileSystem,
  (fs) => Effect.map(fs.makeTempDirectoryScoped({ prefix: "tickerline-backup-" }), (folder) => `${folder}/backup`),
)

const run = (url: Redacted.Redacted, args: ReadonlyArray<string>, POSTGRES_PROGRAMS = programs) =>
  runCommandInProcess(args, { DATABASE_URL: Redacted.value(url), POSTGRES_PROGRAMS })

const getDatabaseName = (url: Redacted.Redacted) => new URL(Redacted.value(url)).pathname.slice(1)

/** Backs up a copy of the sample market. Returns the URL of the copy and the folder of the backup. */
const makeBackup = Effect.gen(function* () {
  const url = yield* Service.copySampleDatabase
  const folder = yield* makeFolder
  const { code, err } = yield* run(url, ["backup", folder])
  assert.strictEqual(code, 0, err)
  return { url, folder }
})

const changeManifest = Effect.fnUntraced(function* (folder: string, change: (manifest: Manifest) => Manifest) {
  const fs = yield* FileSystem.FileSystem
  const file = `${folder}/manifest.json`
  const before = yield* fs.readFileString(file)
  const manifest = yield* Schema.decodeEffect(Schema.fromJsonString(Manifest))(before)
  yield* fs.writeFileString(file, JSON.stringify(change(manifest)))
  return fs.writeFileString(file, before)
})

/**
 * Runs a command until one of its client programs has created the file `started`, and then sends the signal to the
 * command.
 */
const stopCommand = Effect.fnUntraced(
  function* (url: Redacted.Redacted, args: ReadonlyArray<string>, tools: string, signal: NodeJS.Signals) {
    const fs = yield* FileSystem.FileSystem
    const environment = { DATABASE_URL: Redacted.value(url), POSTGRES_PROGRAMS: tools }
    const running = yield* startCommandProcess(args, environment)
    yield* Effect.repeat(fs.exists(`${tools}/started`), {
      until: (exists) => exists || running.child.exitCode !== null,
      schedule: Schedule.spaced("20 millis"),
    })
    yield* fs.remove(`${tools}/started`)
    return yield* endProcess(running, signal)
  },
)

/** Shell lines for a client program: once it has started its work, it waits until the command is killed. */
const waitUntilKilled = `case "$*" in *--list*|*--version*) ;; *)
  touch FOLDER/started; while kill -0 $PPID; do sleep 0.1; done; exit 1;;
esac`

const platform = Layer.mergeAll(NodeServices.layer, NodeCrypto.layer)

layer(platform, { excludeTestServices: true })("The client programs of PostgreSQL", (it) => {
  it.effect("must be installed, and have the server's version; the error names the package (operations/backups)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const url = yield* Service.copyMigratedDatabase
      const folder = yield* makeFolder
      const major = yield* serverMajor
      const missing = yield* run(url, ["backup", folder], "/nowhere")
      assert.deepInclude(missing, { code: 1, out: "" })
      assert.match(missing.err, /pg_dump cannot be started \(not found\)/)
      assert.include(missing.err, `the package postgresql-client-${major}`)
      const old = yield* makePrograms("echo 'pg_dump (PostgreSQL) 9.6'; exit 0")
      assert.match(
        (yield* run(url, ["backup", folder], old)).err,
        /pg_dump has version 9\.6, but the server is PostgreSQL/,
      )
      assert.isFalse(yield* fs.exists(folder))
    }))

  it.effect("are not needed for digests, with which a restored base backup is checked (operations/backups)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copySampleDatabase
      const folder = yield* makeFolder
      const made = yield* run(url, ["backup", folder, "--digests-only"], "/nowhere")
      assert.match(
        made.out,
        /digests of \d+ tables with [\d,]+ rows, at the WAL position ([0-9A-F]+\/[0-9A-F]+|unknown)\./,
      )
      const same = yield* run(url, ["backup", "check", folder, "--recovered"], "/nowhere")
      assert.deepInclude(same, { code: 0 }, same.err)
      const connection = yield* PgConnection.make({ url })
      yield* connection.query("update news set title = title || '.' where id = (select min(id) from news)")
      yield* connection.query("delete from screener where ticker = (select min(ticker) from screener)")
      const changed = yield* run(url, ["backup", "check", folder, "--recovered"], "/nowhere")
      assert.strictEqual(changed.code, 1)
      assert.match(changed.err, /public\.news has \d+ rows as recorded, but other values/)
      assert.match(changed.err, /public\.screener has 50 rows, but 51 were recorded/)
      assert.match((yield* run(url, ["backup", "check", folder])).err, /has only digests and no dump/)
    }))
})

describe.skipIf(!canTest)("With these programs,", () => {
  layer(platform, { excludeTestServices: true })("backup, check and restore", (it) => {
    it.effect("agree while others write; roles, triggers and keys work in the restored database (operations/backups)", () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const [role, restorer] = [yield* makeRole(""), yield* makeRole("createdb")]
        const into = yield* newDatabaseName
        const url = yield* Service.copySampleDatabase
        yield* grantRolePrivileges(role).pipe(
          Effect.provide(databaseClientLayer({ url, applicationName: "tickerline-test" })),
        )
        const writer = yield* PgConnection.make({ url })
        yield* Effect.forkScoped(Effect.forever(
          writer.query("update news set title = title || '.' where id = (select min(id) from news)"),
        ))
        const tools = yield* makePrograms("")
        const folder = yield* makeFolder
        const made = yield* run(url, ["backup", folder, "--jobs", "3"], tools)
        assert.deepInclude(made, { code: 0 }, made.err)
        assert.strictEqual((yield* fs.stat(folder)).mode & 0o777, 0o700)
        const checked = yield* run(url, ["backup", "check", folder, "--max-age", "1 hour"], tools)
        assert.deepInclude(checked, { code: 0 }, checked.err)
        assert.isFalse(yield* findDatabase(`${getDatabaseName(url)}_backup_check`))
        const restored = yield* run(connectAs(restorer, url), ["restore", folder, "--into", into], tools)
        assert.deepInclude(restored, { code: 0 }, restored.err)
        const { password } = new URL(Redacted.value(url))
        assert.isNotEmpty(password)
        assert.notInclude(yield* fs.readFileString(`${tools}/arguments`), password)
        const again = yield* run(url, ["restore", folder, "--into", into], tools)
        assert.match(again.err, /already has a database/)

        const target = new URL(Redacted.value(url))
        target.pathname = `/${into}`
        const owner = yield* PgConnection.make({ url: Redacted.make(target.href) })
        const recorded = yield* owner.query("select subject, change from audit where subject_type = 'database'")
        assert.deepStrictEqual(recorded.rows, [{ subject: into, change: "created" }])
        const copied = yield* writer.query("select subject from audit where subject_type = 'backup'")
        assert.deepStrictEqual(copied.rows, [{ subject: folder }])
        const before = yield* owner.query("select count(*)::int as count from history.transactions")
        yield* owner.query("delete from screener where ticker = (select min(ticker) from screener)")
        const after = yield* owner.query("select count(*)::int as count from history.transactions")
        assert.strictEqual(Number(after.rows[0]?.["count"]), Number(before.rows[0]?.["count"]) + 1)
        const applied = yield* runMigrations.pipe(Effect.provide(
          databaseClientLayer({ url: Redacted.make(target.href), applicationName: "tickerline-test" }),
        ))
        assert.deepStrictEqual(applied, [])
        const findings = yield* checkSchema.pipe(Effect.provide(
          databaseClientLayer({ url: Redacted.make(target.href), applicationName: "tickerline-test" }),
        ))
        assert.deepStrictEqual(findings.map(({ found, state }) => ({ found, state })), [
          { found: "all objects are those of this release", state: "ok" },
        ])
        const service = yield* PgConnection.make({ url: connectAs(role, url, into) })
        yield* service.query("select count(*) from news")
        assert.match(
          String((yield* Effect.flip(service.query("select from credits"))).reason.cause),
          /permission denied/,
        )
        assert.match(
          String((yield* Effect.flip(service.query("create temporary table hidden ()"))).reason.cause),
          /permission denied/,
        )
      }))

    it.effect("find files that are missing, truncated or altered, and other rows (operations/backups)", () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const { folder, url } = yield* makeBackup
        const into = yield* newDatabaseName
        const refuse = Effect.fnUntraced(function* (reason: RegExp) {
          const commands = [["backup", "check", folder], ["restore", folder, "--into", into]]
          for (const args of [...commands, ["backup", "check", folder, "--files-only"]]) {
            const { code, err } = yield* run(url, args)
            assert.strictEqual(code, 1, args.join(" "))
            assert.match(err, reason)
          }
          assert.isFalse(yield* findDatabase(into))
        })
        const name = (yield* fs.readDirectory(`${folder}/dump`)).find((file) => file.endsWith(".gz")) ?? ""
        const file = `${folder}/dump/${name}`
        const bytes = yield* fs.readFile(file)
        yield* fs.writeFile(file, bytes.subarray(0, -1))
        yield* refuse(/is damaged: dump\/\d+\.dat\.gz has \d+ bytes instead of \d+/)
        yield* fs.writeFile(file, bytes.map((byte, index) => index === 12 ? byte ^ 1 : byte))
        yield* refuse(/is damaged: dump\/\d+\.dat\.gz was altered/)
        yield* fs.remove(file)
        yield* refuse(/is damaged: There is no file [^ ]*\/dump\/\d+\.dat\.gz\. Use another backup\./)
        yield* fs.writeFile(file, bytes)

        const repair = yield* changeManifest(folder, (manifest) => ({
          ...manifest,
          tables: manifest.tables.map((table) => table.table === "public.news" ? { ...table, digest: "1" } : table),
        }))
        const { err } = yield* run(url, ["backup", "check", folder])
        assert.match(err, /not what was backed up:\n {2}public\.news has \d+ rows as recorded, but/)
        assert.isFalse(yield* findDatabase(`${getDatabaseName(url)}_backup_check`))
        yield* repair

        const aged = yield* changeManifest(folder, (manifest) => ({ ...manifest, created_at: "2026-01-01T00:00:00Z" }))
        const old = yield* run(url, ["backup", "check", folder, "--files-only", "--max-age", "26 hours"])
        assert.match(old.err, /The backup is from 2026-01-01T00:00:00Z, which is more than/)
        yield* aged
        const early = yield* changeManifest(folder, (manifest) => ({ ...manifest, created_at: "2999-01-01T00:00:00Z" }))
        const future = yield* run(url, ["backup", "check", folder, "--files-only", "--max-age", "26 hours"])
        assert.strictEqual(future.code, 1)
        assert.match(future.err, /from 2999-01-01T00:00:00Z, which is in the future/)
        yield* early
        const whole = yield* fs.readFileString(`${folder}/manifest.json`)
        yield* fs.writeFileString(
          `${folder}/manifest.json`,
          whole.replace(/("created_at": ?)"[^"]*"/, '$1"2026-99-99T00:00:00Z"'),
        )
        const undated = yield* run(url, ["backup", "check", folder, "--files-only", "--max-age", "26 hours"])
        assert.match(undated.err, /manifest\.json was damaged/)
        yield* fs.writeFileString(`${folder}/manifest.json`, "{}")
        yield* refuse(/manifest\.json was damaged, or written by a later release/)
        yield* fs.remove(`${folder}/manifest.json`)
        yield* refuse(/is no complete backup/)
      }))

    it.effect("refuse what would damage data: used databases and folders, and unknown versions (operations/backups)", () =>
      Effect.gen(function* () {
        const { folder, url } = yield* makeBackup
        assert.match((yield* run(url, ["backup", folder])).err, /is not empty\. Choose a new folder/)
        assert.match((yield* run(url, ["restore", folder])).err, /is not empty: it has the table or view/)
        const empty = yield* Service.createTestDatabase()
        const live = yield* PgConnection.make({ url: empty, applicationName: "tickerline" })
        yield* live.query("select 1")
        assert.match(
          (yield* run(empty, ["restore", folder])).err,
          /is in use by tickerline as \w+, so nothing was restored/,
        )
        assert.match((yield* run(empty, ["backup", `${folder}-2`])).err, /has no tables of Tickerline/)
        const idle = yield* makePrograms('case "$*" in *--version*) ;; *) exit 0;; esac')
        const nothing = yield* run(url, ["backup", `${folder}-2`], idle)
        assert.match(nothing.err, /pg_dump ended without an error, but wrote no dump\. Check the program/)
        const long = yield* run(url, ["restore", folder, "--into", "é".repeat(32)])
        assert.match(long.err, /at most 63 bytes, and this one has 64/)
        const refuse = Effect.fnUntraced(function* (change: (manifest: Manifest) => Manifest, reason: RegExp) {
          const repair = yield* changeManifest(folder, change)
          assert.match((yield* run(url, ["restore", folder, "--into", "never_created"])).err, reason)
          yield* repair
        })
        yield* refuse(
          (manifest) => ({ ...manifest, migrations: [0, 9_999] }),
          /migrations that this release does not know: 9999/,
        )
        yield* refuse((manifest) => ({ ...manifest, postgresql: 99 }), /is from PostgreSQL 99, and this server is \d+/)
        yield* refuse((manifest) => ({ ...manifest, roles: ["nobody_there"] }), /has no role nobody_there.*create role/)
        assert.isFalse(yield* findDatabase("never_created"))
      }))

    it.effect("say in one line if a check cannot drop its database, because a session of another role uses it (operations/backups)", () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const { folder, url } = yield* makeBackup
        const role = yield* makeRole("createdb")
        const scratch = `${getDatabaseName(url)}_backup_check`
        yield* Effect.addFinalizer(() =>
          Effect.orDie(
            Effect.scoped(Effect.flatMap(admin, ({ query }) => query(`drop database ${scratch} with (force)`))),
          )
        )
        const tools = yield* makePrograms(`case "$*" in *--use-list*)
          touch FOLDER/started; until test -e FOLDER/continued; do sleep 0.1; done;;
        esac`)
        const checking = yield* Effect.forkScoped(run(connectAs(role, url), ["backup", "check", folder], tools))
        yield* Effect.repeat(fs.exists(`${tools}/started`), {
          until: (exists) => exists || checking.pollUnsafe() !== undefined,
          schedule: Schedule.spaced("20 millis"),
        })
        const { query } = yield* connectTo(scratch)
        yield* query("select 1")
        yield* fs.writeFileString(`${tools}/continued`, "")
        const { code, err } = yield* Fiber.join(checking)
        assert.strictEqual(code, 0, err)
        const lines = err.split("\n").filter((line) => line.includes(scratch))
        assert.lengthOf(lines, 1, err)
        assert.match(lines[0] ?? "", /could not be dropped: .*The next check drops it\./)
        assert.notMatch(err, /^ +at /m)
      }))

    it.effect("leave nothing behind when they are interrupted, and continue after a kill (operations/backups)", () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const { folder, url } = yield* makeBackup
        const tools = yield* makePrograms(waitUntilKilled)
        const scratch = `${getDatabaseName(url)}_backup_check`
        assert.deepInclude(yield* stopCommand(url, ["backup", `${folder}-2`], tools, "SIGINT"), { code: 130 })
        assert.isFalse(yield* fs.exists(`${folder}-2`))
        assert.deepInclude(yield* stopCommand(url, ["backup", "check", folder], tools, "SIGINT"), { code: 130 })
        assert.isFalse(yield* findDatabase(scratch))
        const into = yield* newDatabaseName
        assert.deepInclude(yield* stopCommand(url, ["restore", folder, "--into", into], tools, "SIGTERM"), {
          code: 143,
        })
        assert.isFalse(yield* findDatabase(into))
        yield* stopCommand(url, ["backup", "check", folder], tools, "SIGKILL")
        assert.isTrue(yield* findDatabase(scratch))
        yield* Effect.repeat(run(url, ["backup", "check", folder]), { until: ({ code }) => code === 0 })
        assert.isFalse(yield* findDatabase(scratch))
      }))

    it.effect("tell an unfinished restore from other tables, and the service refuses it (operations/backups)", () =>
      Effect.gen(function* () {
        const { folder } = yield* makeBackup
        const empty = yield* Service.createTestDatabase()
        // Fails before the second step of the restore, which restores the rows of the migrations table.
        const once = 'case "$*" in *--use-list*) test ! -e FOLDER/once || exit 7; touch FOLDER/once;; esac'
        const failed = yield* run(empty, ["restore", folder], yield* makePrograms(once))
        assert.match(failed.err, /pg_restore failed with status 7/)
        assert.match(
          (yield* run(empty, ["restore", folder])).err,
          /has the tables of a restore that did not finish\. Drop/,
        )
        const refused = yield* run(empty, ["migrate"])
        assert.strictEqual(refused.code, 1)
        assert.match(
          refused.err,
          /a restore that did not finish, drop and create it \(drop database \w+; create database/,
        )
      }))

    it.effect.skipIf(!mayMount)(
      "remove a backup that the disk has no space for (operations/backups)",
      () =>
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          const url = yield* Service.copySampleDatabase
          const disk = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-disk-" })
          yield* Effect.acquireRelease(
            Effect.sync(() => mountSmallDisk(disk)),
            () => Effect.sync(() => unmountSmallDisk(disk)),
          )
          yield* fs.writeFile(`${disk}/other`, new Uint8Array(smallDiskSize - 300_000))
          const { code, err } = yield* run(url, ["backup", `${disk}/backup`])
          assert.strictEqual(code, 1)
          assert.match(err, /pg_dump failed with status \d+\. The disk is full: free some space\./)
          assert.deepStrictEqual(yield* fs.readDirectory(disk), ["other"])
        }),
    )
  })
})
