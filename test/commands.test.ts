import { NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Context, Data, Effect, FileSystem, Layer, Redacted, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { type ChildProcess, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { createServer } from "node:net"
import { fileURLToPath } from "node:url"
import { inject } from "vitest"
import { client } from "../src/db/Database.ts"
import * as Service from "./support/Service.ts"

const { ask, at } = Service
const root = fileURLToPath(new URL("..", import.meta.url))

type Environment = Readonly<Record<string, string>>

interface Ended {
  /** `null`: it did not end by itself. */
  readonly code: number | null
  readonly out: string
  readonly err: string
}

interface Running {
  readonly child: ChildProcess
  readonly said: { out: string; err: string }
  readonly ended: Promise<Ended>
}

const launch = (args: ReadonlyArray<string>, environment: Environment): Running => {
  const child = spawn(process.execPath, ["src/main.ts", ...args], {
    cwd: root,
    // Nothing of the environment of the tests decides what the command does.
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const said = { out: "", err: "" }
  child.stdout.on("data", (chunk) => said.out += String(chunk))
  child.stderr.on("data", (chunk) => said.err += String(chunk))
  const { promise, resolve } = Promise.withResolvers<Ended>()
  child.once("close", (code) => resolve({ code, ...said }))
  return { child, said, ended: promise }
}

/** The real command, as a process of its own; it never outlives the test. */
const start = (args: ReadonlyArray<string>, environment: Environment) =>
  Effect.acquireRelease(
    Effect.sync(() => launch(args, environment)),
    ({ child, ended }) => Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), Effect.promise(() => ended)),
  )

/** To its end; one that does not end within ninety seconds is killed and has no code. */
const run = (args: ReadonlyArray<string>, environment: Environment) =>
  Effect.scoped(
    Effect.flatMap(start(args, environment), ({ ended, said }) =>
      Effect.timeoutOrElse(Effect.promise(() => ended), {
        duration: "90 seconds",
        orElse: () => Effect.succeed<Ended>({ code: null, ...said }),
      })),
  )

const end = ({ child, ended }: Running, signal: NodeJS.Signals) =>
  Effect.andThen(Effect.sync(() => child.kill(signal)), Effect.promise(() => ended))

const assertNoStack = (text: string) => assert.notMatch(text, /\n\s+at |node:internal|file:\/\//)

/** It did as it was told and said nothing but the result. */
const succeeded = (ended: Ended) => {
  assert.strictEqual(ended.code, 0, ended.err)
  assert.strictEqual(ended.err, "")
  return ended.out
}

/** It failed in words on standard error, and there is no result. */
const failed = (ended: Ended, ...said: ReadonlyArray<RegExp>) => {
  assert.strictEqual(ended.code, 1, `${ended.out}${ended.err}`)
  for (const words of said) assert.match(ended.err, words)
  assertNoStack(ended.err)
  assert.notMatch(ended.err, /\[object|undefined/)
  assert.strictEqual(ended.out, "")
}

/** The database of another program, as `DATABASE_URL` names it. */
class DatabaseUrl extends Context.Service<DatabaseUrl, string>()("test/commands/DatabaseUrl") {
  static readonly layer = Layer.effect(DatabaseUrl, Effect.map(Service.ownDatabase, (url) => Redacted.value(url)))
}

const TestLayer = Service.layerOver(
  Layer.unwrap(
    Effect.map(DatabaseUrl, (url) => client({ url: Redacted.make(url), applicationName: "tickerline-test" })),
  ),
).pipe(Layer.provideMerge(DatabaseUrl.layer))

const emptyDatabase = Effect.gen(function* () {
  const url = new URL(inject("databaseUrl"))
  const admin = new URL(url)
  admin.pathname = "/postgres"
  url.pathname = `/test_empty_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
  const as = (statement: string) =>
    Effect.scoped(
      Effect.flatMap(
        PgConnection.make({ url: Redacted.make(admin.href) }),
        (connection) => connection.query(statement),
      ),
    )
  const name = url.pathname.slice(1)
  yield* Effect.acquireRelease(
    as(`create database ${name}`),
    () => Effect.orDie(as(`drop database ${name} with (force)`)),
  )
  return url.href
})

const folder = Effect.flatMap(
  FileSystem.FileSystem,
  (fs) => fs.makeTempDirectoryScoped({ prefix: "tickerline-commands-" }),
)

const written = Effect.fnUntraced(function* (name: string, content: string) {
  const fs = yield* FileSystem.FileSystem
  const path = `${yield* folder}/${name}`
  yield* fs.writeFileString(path, content)
  return path
})

/** Nothing listens there, and nothing is told so by accident. */
const freePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

const changesFile = "old_ticker,new_ticker,effective_date,status\nAAA,BBB,2025-01-02,confirmed\n"

const commands = ["serve", "migrate", "load", "keys", "keys create", "keys list", "keys revoke", "openapi"]

const wrongValues: ReadonlyArray<readonly [string, string, RegExp]> = [
  ["PORT", "http", /number|integer/],
  ["PORT", "0", /1 and 65535/],
  ["PORT", "70000", /1 and 65535/],
  ["PORT", "80.5", /integer|number/],
  ["HOST", "192.0.2.1", /192\.0\.2\.1/],
  ["BASE_URL", "nonsense", /URL/],
  ["BASE_URL", "localhost:8080", /http/],
  ["DATABASE_URL", "nonsense", /URL|postgres:\/\//],
  ["DATABASE_URL", "mysql://a:b@127.0.0.1/x", /postgres/],
  ["DATABASE_POOL_SIZE", "many", /number|integer/],
  ["DATABASE_POOL_SIZE", "0", /at least|greater|positive|between/],
  ["DATABASE_POOL_SIZE", "-3", /at least|greater|positive|between/],
  ["DATABASE_POOL_SIZE", "1.5", /integer/],
  ["LOG_FORMAT", "xml", /"?pretty"?.*"?json"?/],
]

/** What each of them makes of the start; asked of several processes at once, since each takes a moment. */
class WrongStarts extends Context.Service<WrongStarts, ReadonlyArray<Ended>>()("test/commands/WrongStarts") {
  static readonly layer = Layer.effect(
    WrongStarts,
    Effect.gen(function* () {
      const [url, port] = [yield* DatabaseUrl, String(yield* freePort)]
      return yield* Effect.forEach(
        wrongValues,
        ([name, value]) => run(["serve"], { DATABASE_URL: url, PORT: port, [name]: value }),
        { concurrency: 3 },
      )
    }),
  )
}

layer(TestLayer, { excludeTestServices: true })("commands", (it) => {
  it.effect("README, loading: generate writes a folder, load --check and --all take it, datasets tells its columns", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const market = `${yield* folder}/market`
      const generated = yield* run(["generate", market], environment)
      assert.strictEqual(generated.code, 0, generated.err)
      assert.match(generated.out, /^daily_prices\.csv: \d+ rows$/m)
      assert.match(succeeded(yield* run(["load", "--all", market, "--check"], environment)), /news: \d+ rows are right/)
      assert.deepStrictEqual(yield* sql`select 1 from news limit 1`, [])
      assert.match(succeeded(yield* run(["load", "--all", market], environment)), /screener: 51 rows loaded/)
      assert.strictEqual((yield* sql`select 1 from screener`).length, 51)
      const [description = ""] = succeeded(yield* run(["datasets", "screener"], {})).split("\n\n")
      assert.match(description, /^screener \(one row for each ticker\)$/m)
      assert.match(description, /^ {2}is_adr +true \| false +required/m)
      failed(yield* run(["datasets", "nope"], {}), /There is no dataset nope/)
      failed(yield* run(["load", "news"], environment), /load takes a dataset and a file, or --all with a folder/)
      failed(yield* run(["load", "--all", "/nowhere"], environment), /\/nowhere cannot be read/)
      yield* sql`truncate screener, news, daily_prices`
    }))

  it.effect("README, command line: --help of every command shows an example, and starts nothing", () =>
    Effect.gen(function* () {
      const nowhere = { TICKERLINE_HOME: "/proc/none", DATABASE_URL: "postgres://nobody@127.0.0.1:1/none" }
      const shown = yield* Effect.forEach(commands, (name) => run([...name.split(" "), "--help"], nowhere), {
        concurrency: 3,
      })
      for (const [index, name] of commands.entries()) {
        const out = succeeded(shown[index] ?? { code: null, out: "", err: "" })
        assert.match(out, /EXAMPLES\n(?:.*\n)* {2}npm run (--silent )?tickerline -- /, name)
        assert.include(out, `tickerline ${name}`)
      }
    }))

  it.effect("README, command line: what cannot be understood exits 1 and says what, on standard error alone", () =>
    Effect.gen(function* () {
      const url = yield* DatabaseUrl
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
        [["bogus"], /bogus/],
        [["serve", "--bogus"], /--bogus/],
        [["migrate", "more"], /more/],
        [["load", "ticker-changes"], /file/],
        [["load", "no-such-dataset", "a.csv"], /no-such-dataset.*ticker.changes/],
        [["keys", "create", "--account", "a", "--tier", "gold"], /--tier.*gold.*basic.*pro.*ultimate/],
        [
          ["keys", "create", "--account", "a", "--tier", "pro", "--expires", "2027-02-30"],
          /--expires.*2027-02-30.*YYYY-MM-DD/,
        ],
        [["keys", "revoke", "seven"], /seven/],
      ]
      const ended = yield* Effect.forEach(cases, ([args]) => run(args, { DATABASE_URL: url }), { concurrency: 3 })
      for (const [index, [, said]] of cases.entries()) failed(ended[index] ?? { code: null, out: "", err: "" }, said)
    }))

  it.effect("D2 keys create prints the key alone, and what is stored does not tell it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const url = yield* DatabaseUrl
      const out = succeeded(
        yield* run(["keys", "create", "--account", "acme", "--tier", "pro", "--email", "ops@acme.example"], {
          DATABASE_URL: url,
        }),
      )
      assert.match(out, /^tl_live_[0-9A-Za-z]{38}\n$/)
      const key = out.trim()
      const [row] = yield* sql<Record<string, unknown>>`
        select to_jsonb(k) - 'key_hash' || to_jsonb(a) as stored, encode(key_hash, 'hex') as hash
        from api_keys as k join accounts as a using (account_id) where name = 'acme'
      `
      assert.strictEqual(row?.["hash"], createHash("sha256").update(key).digest("hex"))
      assert.strictEqual(at(row, "stored", "key_hint"), key.slice(0, 12))
      assert.strictEqual(at(row, "stored", "tier"), "pro")
      assert.strictEqual(at(row, "stored", "contact_email"), "ops@acme.example")
      assert.notInclude(JSON.stringify(row), key.slice(12))
      assert.strictEqual((yield* ask("/v1/ticker-changes?ticker=AAA", { key })).status, 200)
    }))

  it.effect("README, command line: keys list shows every key and revoke ends one", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const made = yield* run(
        ["keys", "create", "--account", "lister", "--tier", "basic", "--expires", "2099-12-31"],
        environment,
      )
      const key = succeeded(made).trim()
      const [{ id } = { id: "" }] = yield* sql<{ readonly id: string }>`
        select key_id::text as id from api_keys join accounts using (account_id) where name = 'lister'
      `
      const listed = Effect.map(run(["keys", "list"], environment), (ended) => {
        const [header = "", ...lines] = succeeded(ended).trimEnd().split("\n").map((line) => line.split("\t"))
        assert.strictEqual(header[0], "id")
        assert.notInclude(JSON.stringify(lines), key.slice(12))
        return lines.filter(([first]) => first === id)
      })
      const [before] = yield* listed
      assert.deepStrictEqual(before?.slice(0, 5), [id, "lister", "basic", key.slice(0, 12), "active"])
      // The last day on which it works, as it was given.
      assert.strictEqual(before?.[6], "2099-12-31")
      assert.match(succeeded(yield* run(["keys", "revoke", id], environment)), new RegExp(`${id}.*revoked`))
      const [after] = yield* listed
      assert.strictEqual(after?.[4], "disabled")
      const answer = yield* ask("/v1/ticker-changes?ticker=AAA", { key })
      assert.deepStrictEqual([answer.status, at(answer.body, "error", "code")], [401, "api_key_disabled"])
      failed(yield* run(["keys", "revoke", "987654"], environment), /987654/)
    }))

  it.effect("README, command line: an account name that cannot be is refused in words", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const ended = yield* Effect.forEach(
        [" acme ", ""],
        (name) => run(["keys", "create", "--account", name, "--tier", "pro"], environment),
        { concurrency: 2 },
      )
      for (const each of ended) failed(each, /account/)
    }))

  it.effect("README, command line: migrate prints what it applied, and then that nothing is left to do", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* emptyDatabase }
      const first = succeeded(yield* run(["migrate"], environment)).trimEnd().split("\n")
      assert.deepStrictEqual(first.slice(0, 3), ["1_accounts", "2_ticker_changes", "3_intraday_runners"])
      assert.match(succeeded(yield* run(["migrate"], environment)), /^[^\n]*\n$/)
    }))

  it.effect("README, command line: openapi prints the document that the service serves, without a database", () =>
    Effect.gen(function* () {
      const nowhere = { TICKERLINE_HOME: "/proc/none" }
      const printed: unknown = JSON.parse(succeeded(yield* run(["openapi"], nowhere)))
      const { body, status } = yield* ask("/v1/openapi.json", { key: null })
      assert.strictEqual(status, 200)
      assert.deepStrictEqual(printed, body)
      assert.strictEqual(at(printed, "openapi"), "3.1.0")
    }))

  it.effect("D31 load replaces, --append adds, and a bad row exits 1 with its line", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const file = yield* written("a.csv", changesFile)
      const bad = yield* written("bad.csv", changesFile.replace("2025-01-02", "2025-02-30"))
      assert.match(
        succeeded(yield* run(["load", "ticker-changes", file], environment)),
        /^ticker_changes: 1 rows loaded, in \d+\.\d s\n$/,
      )
      assert.match(
        succeeded(yield* run(["load", "ticker-changes", file, "--append"], environment)),
        /^ticker_changes: 0 rows added, 1 repeated rows dropped, in \d+\.\d s\n$/,
      )
      failed(
        yield* run(["load", "ticker-changes", bad], environment),
        /bad\.csv/,
        /^ {2}line 2: effective_date .*calendar/m,
      )
      failed(yield* run(["load", "ticker-changes", `${file}.none.csv`], environment), /none\.csv/)
      assert.strictEqual((yield* sql`select 1 from ticker_changes`).length, 1)
    }))

  it.layer(WrongStarts.layer)("configuration", (it) => {
    it.effect.each(wrongValues.map(([name, value, expected], index) => ({ name, value, expected, index })))(
      "README, command line: $name=$value stops the start with its name and what was expected",
      ({ expected, index, name }) =>
        Effect.map(
          WrongStarts,
          (ended) => failed(ended[index] ?? { code: null, out: "", err: "" }, new RegExp(`\\b${name}\\b`), expected),
        ),
    )
  })

  it.effect("README, command line: a server that is away stops the start, and no password is shown", () =>
    Effect.gen(function* () {
      const away = "postgres://someone:hunter2@127.0.0.1:1/none"
      for (const args of [["serve"], ["migrate"]]) {
        const ended = yield* run(args, { DATABASE_URL: away, PORT: String(yield* freePort) })
        failed(ended, /DATABASE_URL/, /127\.0\.0\.1|connect|reach/)
        assert.notInclude(ended.err, "hunter2")
      }
      const wrongPassword = new URL(yield* DatabaseUrl)
      wrongPassword.password = "hunter2"
      const ended = yield* run(["migrate"], { DATABASE_URL: wrongPassword.href })
      failed(ended, /DATABASE_URL/, /password|authenti/i)
      assert.notInclude(ended.err, "hunter2")
    }))

  it.effect("README, embedded server: with DATABASE_URL nothing embedded is started or needed", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = `${yield* folder}/home`
      const port = yield* freePort
      const running = yield* start(["serve"], {
        DATABASE_URL: yield* DatabaseUrl,
        TICKERLINE_HOME: home,
        PORT: String(port),
      })
      yield* saying(running, /keys create/)
      assert.strictEqual((yield* get(`http://127.0.0.1:${port}/health/ready`)).status, 200)
      assert.isFalse(yield* fs.exists(home))
      const { code } = yield* end(running, "SIGTERM")
      assert.strictEqual(code, 0)
    }))

  it.effect("README, deploy: SIGTERM exits with 0 whatever options stand before serve", () =>
    Effect.gen(function* () {
      const running = yield* start(["--log-level", "warn", "serve"], {
        DATABASE_URL: yield* DatabaseUrl,
        PORT: String(yield* freePort),
      })
      yield* saying(running, /keys create/)
      const { code } = yield* end(running, "SIGTERM")
      assert.strictEqual(code, 0)
    }))
})

class NotSaid extends Data.TaggedError("NotSaid")<{ readonly message: string }> {}

/** Until standard output says it; a process that ended before fails with what it said. */
const saying = ({ child, said }: Running, words: RegExp) =>
  Effect.suspend(() => {
    if (words.test(said.out)) return Effect.succeed(said.out)
    return Effect.fail(new NotSaid({ message: `${words} was not said, but:\n${said.out}${said.err}` }))
  }).pipe(
    Effect.retry({ schedule: Schedule.spaced("20 millis"), times: 4500, while: () => child.exitCode === null }),
  )

const get = (url: string, headers: Readonly<Record<string, string>> = {}) =>
  Effect.promise(async () => {
    const response = await fetch(url, { headers })
    const text = await response.text()
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true
    const body: unknown = isJson ? JSON.parse(text) : text
    return { status: response.status, body }
  })

const dataOf = (home: string) => `${home}/postgres/cluster/data`

/** Every process whose arguments name the data of the home. */
const serversOf = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const pids = (yield* fs.readDirectory("/proc")).filter((name) => /^\d+$/.test(name))
  return yield* Effect.filter(pids, (pid) =>
    Effect.map(
      Effect.orElseSucceed(fs.readFileString(`/proc/${pid}/cmdline`), () => ""),
      (line) => line.split("\0").includes(dataOf(home)),
    ))
})

/** A new home whose server, should a test fail, does not outlive the test. */
class Home extends Context.Service<Home, { readonly home: string; readonly port: number }>()("test/commands/Home") {
  static readonly layer = Layer.effect(
    Home,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const place = yield* folder
      yield* fs.chmod(place, 0o755)
      const home = `${place}/home`
      yield* Effect.addFinalizer(() =>
        Effect.ignore(Effect.map(fs.readFileString(`${dataOf(home)}/postmaster.pid`), (text) => {
          process.kill(Number(text.split("\n")[0]), "SIGQUIT")
        }))
      )
      return { home, port: yield* freePort }
    }),
  ).pipe(Layer.provideMerge(NodeServices.layer))
}

/** The line to paste: what it asks with which key. */
const pasted = (out: string) => {
  const [, header = "", url = ""] = /^ *curl -H "([^"]+)" "([^"]+)"$/m.exec(out) ?? []
  const [name = "", value = ""] = header.split(": ")
  return { headers: { [name]: value }, url, key: value.replace("Bearer ", "") }
}

layer(Home.layer, { excludeTestServices: true })("serve on a new home", (it) => {
  const remembered = { key: "", milliseconds: 0 }

  const serving = Effect.fnUntraced(function* (more: Environment = {}) {
    const { home, port } = yield* Home
    const began = performance.now()
    const running = yield* start(["serve"], { TICKERLINE_HOME: home, PORT: String(port), ...more })
    const out = yield* saying(running, /curl .*\n/)
    return { running, out, milliseconds: performance.now() - began }
  })

  const assertStopped = Effect.gen(function* () {
    const { home } = yield* Home
    const fs = yield* FileSystem.FileSystem
    assert.deepStrictEqual(yield* serversOf(home), [])
    assert.isFalse(yield* fs.exists(`${dataOf(home)}/postmaster.pid`))
  })

  it.effect("README, the two commands: the first start prints docs and a curl that answers; SIGTERM ends it", () =>
    Effect.gen(function* () {
      const { home, port } = yield* Home
      const base = `http://127.0.0.1:${port}`
      const { milliseconds, out, running } = yield* serving({ LOG_FORMAT: "json" })
      const { headers, key, url } = pasted(out)
      Object.assign(remembered, { key, milliseconds })
      assert.strictEqual((yield* serversOf(home)).length, 1)

      assert.include(out, `${base}/v1/docs`)
      assert.strictEqual((yield* get(`${base}/v1/docs`)).status, 200)
      assert.isTrue(url.startsWith(`${base}/`), url)
      const answer = yield* get(url, headers)
      assert.strictEqual(answer.status, 200)
      assert.strictEqual(at(answer.body, "results", 0, "current_ticker"), "NXH")

      // Logs are JSON lines on standard error; standard output has the address alone.
      const lines = running.said.err.trimEnd().split("\n").map((line): unknown => JSON.parse(line))
      assert.isAtLeast(lines.length, 1)
      for (const line of lines) assert.strictEqual(at(line, "level"), "INFO")
      assert.notInclude(running.said.err, key)

      const mine = { "X-API-Key": key }
      const environment = { TICKERLINE_HOME: home }
      const file = yield* written("names.csv", "ticker,former_ticker,date\nLATER,SOONER,2020-02-02\n")
      assert.strictEqual((yield* get(`${base}/v1/historical-tickers?ticker=LATER`, mine)).status, 404)
      const [loaded, made] = yield* Effect.all([
        run(["load", "historical-tickers", file, "--append"], environment),
        run(["keys", "create", "--account", "beside", "--tier", "basic"], environment),
      ], { concurrency: 2 })
      assert.match(succeeded(loaded), /^historical_tickers: 1 rows added/)
      const seen = yield* get(`${base}/v1/historical-tickers?ticker=LATER`, { "X-API-Key": succeeded(made).trim() })
      assert.deepStrictEqual(seen.body, { count: 1, historical_tickers: [{ ticker: "SOONER", date: "2020-02-02" }] })

      // A second service finds its port in use, says so, and does no harm to the first.
      const second = yield* run(["serve"], { TICKERLINE_HOME: home, PORT: String(port) })
      failed(second, new RegExp(String(port)), /in use|taken|EADDRINUSE/)
      assert.strictEqual((yield* get(`${base}/health/ready`)).status, 200)

      const { code } = yield* end(running, "SIGTERM")
      assert.strictEqual(code, 0)
      yield* assertStopped
    }))

  it.effect("README, the two commands: the second start is faster and has the same key and data; SIGINT ends it", () =>
    Effect.gen(function* () {
      const { port } = yield* Home
      const { milliseconds, out, running } = yield* serving()
      console.info(`first start ${remembered.milliseconds.toFixed(0)} ms, second ${milliseconds.toFixed(0)} ms`)
      assert.notInclude(running.said.err, "Loaded sample data")
      const { headers, key, url } = pasted(out)
      assert.strictEqual(key, remembered.key)
      assert.strictEqual((yield* get(url, headers)).status, 200)
      assert.strictEqual(
        (yield* get(`http://127.0.0.1:${port}/v1/historical-tickers?ticker=LATER`, headers)).status,
        200,
      )
      assert.notInclude(running.said.err, "Loaded")
      const { code } = yield* end(running, "SIGINT")
      assert.strictEqual(code, 0)
      yield* assertStopped
    }))

  it.effect("README, embedded server: after a kill -9 of the service the next one works and has the data", () =>
    Effect.gen(function* () {
      const { home, port } = yield* Home
      const killed = yield* serving()
      const { headers } = pasted(killed.out)
      yield* end(killed.running, "SIGKILL")
      const { running } = yield* serving()
      assert.strictEqual(
        (yield* get(`http://127.0.0.1:${port}/v1/historical-tickers?ticker=LATER`, headers)).status,
        200,
      )
      assert.strictEqual((yield* serversOf(home)).length, 1)
      const { code } = yield* end(running, "SIGTERM")
      assert.strictEqual(code, 0)
      yield* assertStopped
    }))
})
