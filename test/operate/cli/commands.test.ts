/**
 * Tests the output, exit codes and effects of all commands except `query`, `changes`, `doctor`, `lineage` and `mcp`.
 */
import { NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Clock, Context, DateTime, Effect, FileSystem, Layer, Redacted, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { basename, dirname, resolve } from "node:path"
import { inject } from "vitest"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { todayInNewYork } from "../../../src/contract/rules/Dates.ts"
import { getDisplayWidth } from "../../../src/operate/cli/terminal/TerminalText.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import {
  canWriteFiles,
  commandFile,
  type EndedProcess,
  endProcess,
  type Environment,
  runCommandProcess as runProgram,
  startCommandProcess,
  startProgram,
  waitForOutput,
} from "../../support/Processes.ts"
import { sampleCompanies } from "../../support/SampleMarket.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"

const { requestJson, valueAt } = Service

const assertNoStack = (text: string) => assert.notMatch(text, /\n\s+at |node:internal|file:\/\//)

/** Asserts that the command succeeded and wrote nothing to standard error. Returns its output. */
const assertSuccess = (ended: EndedProcess) => {
  assert.strictEqual(ended.code, 0, ended.err)
  assert.strictEqual(ended.err, "")
  return ended.out
}

/** Returns a function that asserts the exit code, the messages on standard error, and an empty standard output. */
const makeFailureAssertion = (code: number) => (ended: EndedProcess, ...messages: ReadonlyArray<RegExp>) => {
  assert.strictEqual(ended.code, code, `${ended.out}${ended.err}`)
  for (const message of messages) assert.match(ended.err, message)
  assertNoStack(ended.err)
  assert.notMatch(ended.err, /\[object|undefined/)
  assert.strictEqual(ended.out, "")
}

const assertFailure = makeFailureAssertion(1)

/** Asserts that the command failed with a usage error. */
const assertUsageError = makeFailureAssertion(2)

/** Asserts that the command failed with a one-line message. */
const assertOneLineError = (ended: EndedProcess, ...messages: ReadonlyArray<RegExp>) => {
  assertFailure(ended, ...messages)
  assert.match(ended.err, /^tickerline: [^\n]+\n$/)
}

/** Provides the URL of a migrated database. */
class DatabaseUrl extends Context.Service<DatabaseUrl, string>()("test/operate/cli/DatabaseUrl") {
  static readonly layer = Layer.effect(
    DatabaseUrl,
    Effect.map(Service.copyMigratedDatabase, (url) => Redacted.value(url)),
  )
}

/**
 * Reads everything that the account and key commands can change, except the columns that the service updates when it
 * bills earlier requests in the background. If a command adds a credit, `credits` shows it.
 */
const readAccountTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`
    select (select jsonb_agg(to_jsonb(a)
          - '{last_charged_at,balance_microdollars,budget_month,budget_spent_microdollars}'::text[] order by account_id)
        from accounts as a) as accounts,
      (select jsonb_agg(to_jsonb(k) - '{last_used_at,last_used_address}'::text[] order by key_id) from api_keys as k) as keys,
      (select jsonb_agg(to_jsonb(c) order by credit_id) from credits as c) as credits
  `
})

const notStarted: EndedProcess = { code: null, out: "", err: "" }

/** Runs commands that must fail with the given messages, and asserts that they changed nothing. */
const assertAllFail = Effect.fnUntraced(function* (
  tried: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]>,
  check: (ended: EndedProcess, message: RegExp) => void,
) {
  const environment = { DATABASE_URL: yield* DatabaseUrl }
  const before = yield* readAccountTables
  const ended = yield* Effect.forEach(tried, ([args]) => runCommandInProcess(args, environment), { concurrency: 3 })
  for (const [index, [, message]] of tried.entries()) check(ended[index] ?? notStarted, message)
  assert.deepStrictEqual(yield* readAccountTables, before)
})

/**
 * Parses a printed table. Returns the header cells, and a map from the first cell of each row to all cells of that row.
 */
const parseTable = (out: string) => {
  const [header = [], ...rows] = out.trimEnd().split("\n").map((line) => line.trim().split(/ {2,}/))
  return { header, rows: new Map(rows.map((cells) => [cells[0], cells])) }
}

/** Returns the key that `keys create` or `keys rotate` printed. */
const parseKey = ({ code, err, out }: EndedProcess) => {
  assert.strictEqual(code, 0, err)
  assert.match(err, /^The API key .*:\nStore it now: .*\n$/)
  assert.match(out, /^tl_live_[0-9A-Za-z]{38}\n$/)
  return out.trim()
}

const readKeyRow = Effect.fnUntraced(function* (key: string) {
  const sql = yield* SqlClient.SqlClient
  const hash = createHash("sha256").update(key).digest("hex")
  const [row] = yield* sql<{
    readonly id: string
    readonly account: string
    readonly name: string
    readonly endpoints: ReadonlyArray<string> | null
    readonly networks: ReadonlyArray<string> | null
    readonly expires_at: Date | null
  }>`
    select key_id::text as id, accounts.name as account, api_keys.name, endpoints, networks::text[] as networks, expires_at
    from api_keys join accounts using (account_id) where key_hash = decode(${hash}, 'hex')
  `
  if (row === undefined) return yield* Effect.die(new Error("the key is not stored"))
  return row
})

/** Creates a PostgreSQL role whose only privilege is to log in. Drops the role when the scope closes. */
const makeRole = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const name = `serving ${SecureRandom.uuidV7Unsafe()}`
  yield* Effect.acquireRelease(
    sql.unsafe(`create role "${name}" login password 'hunter2'`),
    () => Effect.orDie(Effect.andThen(sql.unsafe(`drop owned by "${name}"`), sql.unsafe(`drop role "${name}"`))),
  )
  const url = new URL(yield* DatabaseUrl)
  url.username = encodeURIComponent(name)
  url.password = "hunter2"
  return { name, url: url.href }
})

const target = "/v1/ticker-changes?ticker=AAA"

const requestStatus = (key: string, path = target) => Effect.map(requestJson(path, { key }), ({ status }) => status)

const waitForStatus = (key: string, status: number, validMillis?: number) =>
  Service.waitForResponseStatus(target, key, status, validMillis)

const TestLayer = Service.serviceLayerOver(
  Layer.unwrap(
    Effect.map(
      DatabaseUrl,
      (url) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
    ),
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

const writeTestFile = Effect.fnUntraced(function* (name: string, content: string) {
  const fs = yield* FileSystem.FileSystem
  const path = `${yield* folder}/${name}`
  yield* fs.writeFileString(path, content)
  return path
})

const changesFile = "old_ticker,new_ticker,effective_date,status\nAAA,BBB,2025-01-02,confirmed\n"

const commands = [
  "serve",
  "migrate",
  "grant",
  "load",
  "accounts",
  "accounts create",
  "accounts list",
  "accounts credit",
  "accounts set-tier",
  "lineage",
  "lineage review",
  "lineage confirm",
  "lineage reject",
  "keys",
  "keys create",
  "keys list",
  "keys rotate",
  "keys set-networks",
  "keys disable",
  "keys enable",
  "keys revoke",
  "doctor",
  "query",
  "openapi",
]

const wrongValues: ReadonlyArray<readonly [string, string, RegExp]> = [
  ["PORT", "http", /"http", but must be a port from 1 to 65535, for example PORT=8080/],
  ["PORT", "0", /1 to 65535/],
  ["PORT", "70000", /1 to 65535/],
  ["PORT", "80.5", /1 to 65535/],
  ["HOST", "192.0.2.1", /192\.0\.2\.1/],
  ["BASE_URL", "nonsense", /URL/],
  ["BASE_URL", "localhost:8080", /http/],
  ["DATABASE_URL", "nonsense", /URL|postgres:\/\//],
  ["DATABASE_URL", "mysql://a:b@127.0.0.1/x", /postgres/],
  ["DATABASE_POOL_SIZE", "many", /number|integer/],
  ["CORS_ORIGINS", "foo", /foo is not an origin such as https:/],
  ["USAGE_RETENTION", "3days", /"3days", but must be a duration between 31 days and 1,000 years/],
  ["USAGE_RETENTION", "7 days", /between 31 days and 1,000 years/],
  ["USAGE_RETENTION", "Infinity", /between 31 days and 1,000 years/],
  ["HISTORY_RETENTION", "Infinity", /between 31 days and 1,000 years/],
  ["SMTP_URL", "smtp://mail.example", /MAIL_FROM is not set, but SMTP_URL is/],
  ["DATABASE_POOL_SIZE", "0", /at least|greater|positive|between/],
  ["DATABASE_POOL_SIZE", "-3", /at least|greater|positive|between/],
  ["DATABASE_POOL_SIZE", "1.5", /integer/],
  ["LOG_FORMAT", "xml", /"?pretty"?.*"?json"?/],
]

/** Provides the results of starting the service once with each invalid value. Three starts run at the same time. */
class WrongStarts extends Context.Service<WrongStarts, ReadonlyArray<EndedProcess>>()("test/operate/cli/WrongStarts") {
  static readonly layer = Layer.effect(
    WrongStarts,
    Effect.gen(function* () {
      const [url, port] = [yield* DatabaseUrl, String(yield* chooseFreePort)]
      return yield* Effect.forEach(
        wrongValues,
        ([name, value]) => runCommandInProcess(["serve"], { DATABASE_URL: url, PORT: port, [name]: value }),
        { concurrency: 3 },
      )
    }),
  )
}

/** One command for each exit code and each kind of output. */
const exitCodeCases: ReadonlyArray<readonly [number, ReadonlyArray<string>]> = [
  [0, ["accounts", "list"]],
  [1, ["keys", "revoke", "999999999"]],
  [2, []],
]

layer(TestLayer, { excludeTestServices: true })("On the command line,", (it) => {
  it.effect("a command has the same output and exit code in-process and as its own process (operations/command-line)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const environment = { DATABASE_URL: yield* DatabaseUrl, LOG_FORMAT: "json" }
      const programs = yield* Effect.forEach(exitCodeCases, ([, args]) => runProgram(args, environment), {
        concurrency: 3,
      })
      for (const [index, [code, args]] of exitCodeCases.entries()) {
        const program = programs[index] ?? notStarted
        assert.strictEqual(program.code, code, args.join(" "))
        assert.notStrictEqual(`${program.out}${program.err}`, "", args.join(" "))
        assert.deepStrictEqual(yield* runCommandInProcess(args, environment), program, args.join(" "))
      }
      const wrong = { ...environment, PORT: "http" }
      const program = yield* runProgram(["serve"], wrong)
      assertFailure(program, /PORT/)
      assert.deepStrictEqual(yield* runCommandInProcess(["serve"], wrong), program)
    }))

  it.effect("generate writes files that load --all accepts, with and without --check; datasets describes their format (operations/data)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const market = `${yield* folder}/market`
      const generated = yield* runCommandInProcess(["generate", market], environment)
      assert.strictEqual(generated.code, 0, generated.err)
      assert.match(generated.out, /^daily_prices\.csv: \d+ rows$/m)
      const fs = yield* FileSystem.FileSystem
      // Removes the largest file to save time. Every other test that uses the sample market covers it.
      yield* fs.remove(`${market}/daily_prices.csv`)
      assert.match(
        assertSuccess(yield* runCommandInProcess(["load", "--all", market, "--check"], environment)),
        /news: \d+ rows would be loaded \(\d+ added, 0 updated, 0 unchanged, 0 removed\); nothing was loaded/,
      )
      // `--check` has read all remaining files, so the rest of the test needs only two of them.
      const others = (yield* fs.readDirectory(market)).filter((name) => !["news.csv", "screener.csv"].includes(name))
      assertFoundMoreThan(10, "other files", others)
      yield* Effect.forEach(others, (name) => fs.remove(`${market}/${name}`))
      assert.deepStrictEqual(yield* sql`select 1 from news limit 1`, [])
      assert.match(
        assertSuccess(yield* runCommandInProcess(["load", "--all", market], environment)),
        new RegExp(`screener: ${sampleCompanies} rows loaded`),
      )
      assert.strictEqual((yield* sql`select 1 from screener`).length, sampleCompanies)
      const unknown = `${market}/unknown.csv`
      yield* fs.writeFileString(
        unknown,
        "old_ticker,new_ticker,effective_date,status,company_name\nA,B,2025-01-02,confirmed,NULL\n" +
          "C,D,2025-01-02,confirmed,None\n",
      )
      const kept = yield* runCommandInProcess(["load", "ticker-changes", unknown, "--append"], environment)
      assert.include(
        kept.err,
        '"NULL" in 1 cell of company_name, "None" in 1 cell of company_name. If they are missing',
      )
      const nulls = ["--null", "NULL", "--null", "None"]
      const empty = yield* runCommandInProcess(["load", "ticker-changes", unknown, "--append", ...nulls], environment)
      assert.include(empty.out, "2 rows merged: 0 added, 2 updated")
      assert.notInclude(empty.err, "company_name")
      yield* fs.remove(unknown)
      const [description = ""] = assertSuccess(yield* runCommandInProcess(["datasets", "screener"], {})).split("\n\n")
      assert.match(description, /^screener \(one row for each ticker\)$/m)
      assert.match(description, /^ {2}is_adr +true \| false +required/m)
      assertUsageError(yield* runCommandInProcess(["datasets", "nope"], {}), /There is no dataset nope/)
      assertUsageError(
        yield* runCommandInProcess(["load", "news"], environment),
        /load takes a dataset and a file, or --all with a folder/,
      )
      assertFailure(
        yield* runCommandInProcess(["load", "--all", "/nowhere"], environment),
        /There is no folder \/nowhere\./,
      )
      const file = `${market}/news.csv`
      assertFailure(
        yield* runCommandInProcess(["load", "--all", file], environment),
        /news\.csv is a file, but --all takes a folder\./,
      )
      assertFailure(
        yield* runCommandInProcess(["load", "news", market], environment),
        /market is a folder, but load takes a file\./,
      )
      yield* sql`truncate screener, news`
    }))

  it.effect("--help shows an example for every command, without starting anything (operations/command-line)", () =>
    Effect.gen(function* () {
      const noHome = { TICKERLINE_HOME: "/proc/none", DATABASE_URL: "postgres://nobody@127.0.0.1:1/none" }
      const shown = yield* Effect.forEach(
        commands,
        (name) => runCommandInProcess([...name.split(" "), "--help"], noHome),
        {
          concurrency: 3,
        },
      )
      for (const [index, name] of commands.entries()) {
        const out = assertSuccess(shown[index] ?? { code: null, out: "", err: "" })
        assert.match(out, /EXAMPLES\n(?:.*\n)* {2}npm run (--silent )?tickerline -- /, name)
        assert.include(out, `tickerline ${name}`)
      }
    }))

  it.effect("usage errors cause exit code 2, and are explained on standard error (operations/command-line)", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
        [["bogus"], /bogus/],
        [["serve", "--bogus"], /--bogus/],
        [["migrate", "more"], /more/],
        [["load", "ticker-changes"], /file/],
        [["load", "news", "a.csv", "--keep-omitted"], /--keep-omitted needs --append/],
        [["lineage", "confirm", "AAA", "BBB"], /date/],
        [["load", "no-such-dataset", "a.csv"], /no-such-dataset.*ticker.changes/],
        [["keys", "create", "--account", "a", "--tier", "gold"], /--tier.*gold.*basic.*pro.*ultimate/],
        [
          ["keys", "create", "--account", "a", "--tier", "pro", "--expires", "2027-02-30"],
          /--expires.*2027-02-30.*YYYY-MM-DD/,
        ],
        [["keys", "create", "--tier", "pro"], /--account/],
        [["keys", "create", "--account", "a", "--endpoint", "/v1/nowhere"], /--endpoint.*nowhere.*\/v1\/news/s],
        [["keys", "create", "--account", "a", "--endpoint", "/endpoints"], /--endpoint.*\/endpoints/],
        [["keys", "create", "--account", "a", "--name", " a"], /--name.*white space/s],
        ...["10.0.0.1/8", "10.0.0/8", "2001:db8::/129", "office", ""].map((network) =>
          [["keys", "create", "--account", "a", `--network=${network}`], /--network.*without host bits/s] as const
        ),
        [["backup", "check", "folder", "--files-only", "--max-age", "-1 hours"], /--max-age.*greater than zero/s],
        [["keys", "set-networks", "1"], /--any/],
        [["keys", "set-networks", "1", "10.0.0.0/8", "--any"], /--any/],
        [["keys", "set-networks", "1", "office"], /office.*without host bits/s],
        [
          ["keys", "set-networks", "1", ...Array.from({ length: 101 }, (_, at) => `10.0.0.${at}`)],
          /at most 100 networks; 101 are named/,
        ],
        [["keys", "list", "--unused-since", "3 months"], /--unused-since.*7d/s],
        [["keys", "revoke", "seven"], /seven/],
        [["keys", "enable", "1.5"], /1\.5/],
        [["keys", "disable"], /id/],
        ...["24", "-1h", "1.5h", "1w"].map((grace) =>
          [["keys", "rotate", "1", `--grace=${grace}`], /--grace.*30m, 24h or 7d/s] as const
        ),
        [["accounts", "create", "a"], /--tier/],
        [["accounts", "create", "--tier", "pro"], /name/],
        [["accounts", "create", "a", "--tier", "gold"], /--tier.*gold.*basic.*pro.*ultimate/],
        [["accounts", "create", "", "--tier", "pro"], /name.*empty/s],
        [["accounts", "create", "a\nb", "--tier", "pro"], /name.*control/s],
        [["accounts", "set-tier", "a", "gold"], /gold.*basic.*pro.*ultimate/],
        [["accounts", "credit", "a"], /--usd/],
        ...["0", "-0.000000", "1.0000001", "abc", "", "1e3", ".5", "1234567890"].map((usd) =>
          [["accounts", "credit", "a", `--usd=${usd}`], /--usd.*six decimals/s] as const
        ),
        [["accounts", "credit", "a", "--usd", "5", "--reference", ""], /--reference.*empty/s],
        [["grant"], /role/],
      ]
      yield* assertAllFail(cases, assertUsageError)
    }))

  it.effect("keys create and keys rotate state on standard error what the key is for (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const create = [
        "keys",
        "create",
        "--account",
        "stated",
        "--tier",
        "pro",
        "--name",
        "ci",
        "--endpoint",
        "/v1/news",
      ]
      const created = yield* runCommandInProcess(create, environment)
      const stored = yield* readKeyRow(parseKey(created))
      const advice = "Store it now: it is not shown again. Whoever has it can send requests for the account.\n"
      assert.strictEqual(created.err, `The API key "ci" of the account stated, only for /v1/news:\n${advice}`)
      const rotated = yield* runCommandInProcess(["keys", "rotate", stored.id, "--grace", "24h"], environment)
      parseKey(rotated)
      assert.strictEqual(
        rotated.err,
        `The API key that replaces key ${stored.id}, which works for another 1d:\n${advice}`,
      )
    }))

  it.effect("the help of a subcommand omits the flags of every command (operations/command-line)", () =>
    Effect.gen(function* () {
      assert.include(assertSuccess(yield* runCommandInProcess(["--help"], {})), "GLOBAL FLAGS")
      for (const command of ["load", "keys", "keys create"]) {
        const help = assertSuccess(yield* runCommandInProcess([...command.split(" "), "--help"], {}))
        assert.include(help, "USAGE")
        assert.notInclude(help, "GLOBAL FLAGS")
      }
    }))

  it.effect("an invalid value is reported with its rule, without repeated words (operations/command-line)", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["query", "news", "--max", "0"], `flag --max: "0". Expected a value between 1 and 1000000`],
        [["keys", "rotate", "1", "--grace", "1y"], `flag --grace: "1y". It must be a duration such as 30m, 24h or 7d`],
        [
          ["keys", "create", "--account", "a", "--tier", "x"],
          `flag --tier: "x". Expected: "basic" | "pro" | "ultimate"`,
        ],
        [["query", "news", "-p", "limit"], `flag --param: "limit". Write NAME=VALUE, such as limit=10.`],
        ...["abc", "1.5", "1e3", "99999999999999999999"].map((id) =>
          [
            ["keys", "revoke", id],
            `argument <id>: "${id}". It must be a whole number: the ID of a key, which this command prints: ` +
            "tickerline keys list",
          ] as const
        ),
        [["query", "news", "--max", "abc"], `flag --max: "abc". Expected a whole number`],
        [["generate", "market", "--scale", "x"], `flag --scale: "x". Expected a whole number`],
        [["generate", "market", "--seed", "1.5"], `flag --seed: "1.5". Expected a whole number`],
        [["keys", "create", "--account", "a", "--endpoint", "/v1/nws"], `"/estimate". Did you mean /v1/news?`],
        [["keys", "create", "--account", "a", "--tier", "ultimat"], `"ultimate". Did you mean ultimate?`],
        [["query", ""], "query needs an endpoint, such as news."],
        [["query", " "], "query needs an endpoint, such as news."],
      ]
      for (const [args, message] of cases) {
        const { code, err } = yield* runCommandInProcess(args, {})
        assert.strictEqual(code, 2, err)
        assert.include(err, message)
        assert.notMatch(err, /Schema validation|Expected.*Expected/)
      }
    }))

  it.effect("keys create prints only the key, and the database does not store the key itself (D2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const url = yield* DatabaseUrl
      const key = parseKey(
        yield* runCommandInProcess([
          "keys",
          "create",
          "--account",
          "acme",
          "--tier",
          "pro",
          "--email",
          "ops@acme.example",
        ], {
          DATABASE_URL: url,
        }),
      )
      const [row] = yield* sql<Record<string, unknown>>`
        select to_jsonb(k) - 'key_hash' || to_jsonb(a) as stored, encode(key_hash, 'hex') as hash
        from api_keys as k join accounts as a using (account_id) where a.name = 'acme'
      `
      assert.strictEqual(row?.["hash"], createHash("sha256").update(key).digest("hex"))
      assert.strictEqual(valueAt(row, "stored", "key_hint"), key.slice(0, 12))
      assert.strictEqual(valueAt(row, "stored", "tier"), "pro")
      assert.strictEqual(valueAt(row, "stored", "contact_email"), "ops@acme.example")
      assert.notInclude(JSON.stringify(row), key.slice(12))
      assert.strictEqual((yield* requestJson("/v1/ticker-changes?ticker=AAA", { key })).status, 200)
    }))

  it.effect("keys list shows every key, and a key stops working after keys revoke (operations/accounts)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const made = yield* runCommandInProcess(
        ["keys", "create", "--account", "lister", "--tier", "basic", "--expires", "2099-12-31"],
        environment,
      )
      const key = parseKey(made)
      const { id } = yield* readKeyRow(key)
      const listed = Effect.map(runCommandInProcess(["keys", "list"], environment), (ended) => {
        const out = assertSuccess(ended)
        const { header, rows } = parseTable(out)
        assert.deepStrictEqual(header, [
          "id",
          "account",
          "tier",
          "name",
          "hint",
          "status",
          "created",
          "expires (UTC-5)",
          "last used (UTC-5)",
          "last address",
          "endpoints",
          "networks",
        ])
        assert.notInclude(out, key.slice(12))
        assert.deepStrictEqual(Array.from(rows.values()).filter((row) => row.length !== header.length), [])
        return rows
      })
      const before = (yield* listed).get(id)
      assert.deepStrictEqual(before?.slice(0, 6), [id, "lister", "basic", "default", key.slice(0, 12), "active"])
      // The key expires when its last day ends: at midnight in New York. The list shows 00:00, because its time zone,
      // UTC-05:00, matches New York in winter.
      assert.deepStrictEqual(before?.slice(7), ["2100-01-01 00:00:00", "-", "-", "all", "all"])
      assert.strictEqual(yield* requestStatus(key), 200)
      yield* Effect.repeat(listed, {
        until: (rows) => rows.get(id)?.[8] !== "-",
        schedule: Schedule.spaced("20 millis"),
        times: 2_000,
      })
      assert.match((yield* listed).get(id)?.[8] ?? "", /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
      assert.strictEqual((yield* listed).get(id)?.[9], "127.0.0.1")
      assert.match(
        assertSuccess(yield* runCommandInProcess(["keys", "revoke", id], environment)),
        new RegExp(`${id}.*revoked`),
      )
      assert.strictEqual((yield* listed).get(id)?.[5], "revoked")
      yield* waitForStatus(key, 401)
      const response = yield* requestJson(target, { key })
      assert.deepStrictEqual([response.status, valueAt(response.body, "error", "code")], [401, "api_key_disabled"])
      yield* sql`update api_keys set revoked_at = null, disabled_at = now() where key_id = ${id}::text::bigint`
      assert.strictEqual((yield* listed).get(id)?.[5], "disabled")
      yield* sql`update api_keys set disabled_at = null, expires_at = now() where key_id = ${id}::text::bigint`
      assert.strictEqual((yield* listed).get(id)?.[5], "expired")
    }))

  it.effect("keys create --endpoint limits a key, and the list shows it (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const paths = ["/v1/news", "/v1/ticker-changes"]
      const key = parseKey(
        yield* runCommandInProcess([
          "keys",
          "create",
          "--account",
          "limited",
          "--tier",
          "pro",
          "--name",
          "the news",
          ...paths.flatMap((path) => ["--endpoint", path]),
        ], environment),
      )
      const { id } = yield* readKeyRow(key)
      const row = parseTable(assertSuccess(yield* runCommandInProcess(["keys", "list"], environment))).rows.get(id)
      assert.deepStrictEqual([row?.[3], row?.[10]], ["the news", paths.join(",")])
      for (const path of paths) assert.strictEqual(yield* requestStatus(key, `${path}?ticker=AAA`), 200)
      const { body, status } = yield* requestJson("/v1/screener", { key })
      assert.strictEqual(status, 403)
      assert.deepStrictEqual(valueAt(body, "error", "details"), { endpoint: "/v1/screener", allowed: paths })
      // The account now exists, so its second key needs no tier. That key can use every endpoint of the account's tier.
      const other = parseKey(yield* runCommandInProcess(["keys", "create", "--account", "limited"], environment))
      assert.strictEqual(yield* requestStatus(other, "/v1/screener"), 200)
      assert.deepStrictEqual(yield* readKeyRow(other), {
        ...yield* readKeyRow(other),
        account: "limited",
        name: "default",
        endpoints: null,
        expires_at: null,
      })
    }))

  it.effect("keys set-networks replaces the networks of a key, and the list shows them (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const run = (...args: ReadonlyArray<string>) => runCommandInProcess(["keys", ...args], environment)
      const networks = ["--network", "::FFFF:127.0.0.0/104", "--network", "2001:DB8:0::/32", "--network", "192.0.2.1"]
      const created = yield* run("create", "--account", "office", "--tier", "basic", ...networks)
      const key = parseKey(created)
      const { id } = yield* readKeyRow(key)
      assert.include(created.err, `of the account office, only from 127.0.0.0/8, 2001:db8::/32, 192.0.2.1:`)
      const listed = Effect.map(
        run("list", "--account", "office", "--json"),
        (ended): unknown => JSON.parse(assertSuccess(ended)),
      )
      assert.deepInclude(yield* listed, {
        key_id: Number(id),
        account: "office",
        status: "active",
        last_used_at: null,
        last_used_address: null,
        networks: ["127.0.0.0/8", "2001:db8::/32", "192.0.2.1"],
      })
      assert.strictEqual(yield* requestStatus(key), 200)
      assert.include(
        assertSuccess(yield* run("set-networks", id, "192.0.2.0/24")),
        `Key ${id} may be used from 192.0.2.0`,
      )
      yield* waitForStatus(key, 403)
      assertSuccess(yield* run("set-networks", id, "--any"))
      yield* waitForStatus(key, 200)
      assert.isNull(valueAt(yield* listed, "networks"))
      assertFailure(yield* run("set-networks", "999999", "--any"), /no key 999999/)
      assertSuccess(yield* run("revoke", id))
      assertFailure(yield* run("set-networks", id, "--any"), /revoked/)
    }))

  it.effect("keys list --unused-since finds keys that nobody has used, by account (operations/accounts)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const ages = [
        { name: "new", created: 1, used: null, isListed: false },
        { name: "never used", created: 91, used: null, isListed: true },
        { name: "used", created: 200, used: 89, isListed: false },
        { name: "forgotten", created: 200, used: 91, isListed: true },
        { name: "revoked", created: 200, used: 91, isListed: false },
        { name: "expired", created: 200, used: 91, isListed: false },
      ]
      for (const { created, name, used } of ages) {
        yield* Service.ensureAccountWithKey("reviewed", "basic", { name })
        yield* sql`
          update api_keys set created_at = now() - make_interval(days => ${created}),
            last_used_at = now() - make_interval(days => ${used}::int),
            revoked_at = case when name = 'revoked' then now() end,
            expires_at = case when name = 'expired' then now() end
          where name = ${name} and account_id = (select account_id from accounts where name = 'reviewed')
        `
      }
      const list = (...args: ReadonlyArray<string>) =>
        runCommandInProcess(["keys", "list", "--account", ...args], environment)
      const { rows } = parseTable(assertSuccess(yield* list("reviewed", "--unused-since", "90d")))
      assert.deepStrictEqual(
        Array.from(rows.values(), (row) => row[3]),
        ages.filter(({ isListed }) => isListed).map(({ name }) => name),
      )
      assertFailure(yield* list("nobody"), /no account nobody/)
    }))

  it.effect("keys list and accounts list align columns by display width (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const names = ["日本の株", "naïve café", "a"]
      for (const name of names) {
        parseKey(yield* runCommandInProcess(["keys", "create", "--account", name, "--tier", "ultimate"], environment))
      }
      for (const [list, after] of [["keys", "ultimate"], ["accounts", "ultimate"]] as const) {
        const lines = assertSuccess(yield* runCommandInProcess([list, "list"], environment)).trimEnd().split("\n")
        const starts = lines.filter((line) => names.some((name) => line.includes(` ${name} `)))
          .map((line) => getDisplayWidth(line.slice(0, line.indexOf(after))))
        assert.strictEqual(starts.length, names.length, list)
        assert.strictEqual(new Set(starts).size, 1, `${list}: ${starts.join(", ")}`)
        assert.strictEqual(starts[0], (lines[0] ?? "").indexOf("tier"))
      }
    }))

  it.effect("keys create refuses an expiry date in the past, and accepts today (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const today = yield* todayInNewYork
      const create = (
        expires: string,
      ) => ["keys", "create", "--account", "dated", "--tier", "basic", "--expires", expires]
      const yesterday = DateTime.formatIsoDate(DateTime.subtract(DateTime.makeUnsafe(today), { days: 1 }))
      yield* assertAllFail(
        ["2020-01-01", yesterday].map((day) =>
          [create(day), new RegExp(`--expires.*${day}.*is in the past`, "s")] as const
        ),
        assertUsageError,
      )
      assert.strictEqual(
        yield* requestStatus(parseKey(yield* runCommandInProcess(create("2099-12-31"), environment))),
        200,
      )
      // Accepts either day, because the date in New York may change between the two steps.
      if ((yield* todayInNewYork) === today) {
        parseKey(yield* runCommandInProcess(create(yield* todayInNewYork), environment))
      }
    }))

  it.effect("keys create creates an account with --tier, and never changes one (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const create = (...more: ReadonlyArray<string>) => ["keys", "create", "--account", "riser", ...more]
      yield* assertAllFail([
        [["keys", "create", "--account", "nobody"], /no account nobody.*accounts list.*accounts create/],
        [["keys", "create", "--account", "nobody", "--email", "a@b.example"], /no account nobody/],
      ], assertOneLineError)
      parseKey(yield* runCommandInProcess(create("--tier", "basic"), environment))
      yield* assertAllFail([
        [
          create("--tier", "ultimate"),
          /riser has the tier basic.*No key was created.*accounts set-tier "riser" ultimate/,
        ],
        [create("--tier", "basic", "--email", "a@b.example"), /no email.*accounts set-email "riser" a@b\.example/],
        [create("--email", "a@b.example"), /No key was created.*accounts set-email "riser" a@b\.example/],
      ], assertOneLineError)
      assertSuccess(yield* runCommandInProcess(["accounts", "set-email", "riser", "a@b.example"], environment))
      yield* assertAllFail(
        [[create("--email", "c@b.example"), /another email address.*set-email "riser" c@b\.example/]],
        assertOneLineError,
      )
      // The command accepts the tier and email that the account already has.
      parseKey(yield* runCommandInProcess(create("--tier", "basic", "--email", "a@b.example"), environment))
      const { rows } = parseTable(assertSuccess(yield* runCommandInProcess(["accounts", "list"], environment)))
      const [row = [], ...others] = Array.from(rows.values()).filter(([, name]) => name === "riser")
      assert.deepStrictEqual(others, [])
      assert.deepStrictEqual(row.slice(1), ["riser", "basic", "postpaid", "-", "-", "2", "a@b.example"])
    }))

  it.effect("keys rotate copies the limits of the old key, which works until its grace period ends (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const createKey = (account: string, ...more: ReadonlyArray<string>) =>
        Effect.map(
          runCommandInProcess(["keys", "create", "--account", account, "--tier", "basic", ...more], environment),
          parseKey,
        )
      const rotateKey = (id: string, ...more: ReadonlyArray<string>) =>
        Effect.map(runCommandInProcess(["keys", "rotate", id, ...more], environment), parseKey)
      const limits = ["--name", "turning", "--endpoint", "/v1/ticker-changes", "--expires", "2099-06-30"]
        .concat(["--network", "127.0.0.0/8", "--network", "::1"])

      const old = yield* createKey("turner", ...limits)
      const before = yield* readKeyRow(old)
      const began = yield* Clock.currentTimeMillis
      const next = yield* rotateKey(before.id, "--grace", "24h")
      const done = yield* Clock.currentTimeMillis
      assert.notStrictEqual(next, old)
      const { id: nextId, ...fresh } = yield* readKeyRow(next)
      const { id: _, ...like } = before
      assert.notStrictEqual(nextId, before.id)
      assert.deepStrictEqual(fresh, like)
      // The old key stays valid for only one more day, although its own expiry date is later.
      const { expires_at: ends, ...kept } = yield* readKeyRow(old)
      assert.deepStrictEqual({ ...kept, expires_at: before.expires_at }, before)
      const day = 86_400_000
      assert.isAtLeast(ends?.getTime() ?? 0, began + day)
      assert.isAtMost(ends?.getTime() ?? 0, done + day)
      for (const key of [old, next]) {
        assert.strictEqual(yield* requestStatus(key), 200)
        assert.strictEqual(yield* requestStatus(key, "/v1/news"), 403)
      }

      // Without a grace period, the old key stops working immediately.
      const last = yield* rotateKey(nextId)
      yield* waitForStatus(next, 401)
      assert.strictEqual(valueAt((yield* requestJson(target, { key: next })).body, "error", "code"), "api_key_disabled")
      assert.strictEqual(yield* requestStatus(last), 200)
      assert.strictEqual(yield* requestStatus(old), 200)

      // A grace period never moves a key's expiry date to a later time.
      const short = yield* createKey("turner", "--expires", "2099-06-30")
      const { expires_at, id } = yield* readKeyRow(short)
      const endless = yield* rotateKey(id, "--grace", "99999d")
      assert.deepStrictEqual((yield* readKeyRow(short)).expires_at, expires_at)
      assert.deepStrictEqual((yield* readKeyRow(endless)).expires_at, expires_at)

      // Rotation sets an expiry time on an old key that had none, but not on the new key.
      const open = yield* createKey("turner")
      const successor = yield* rotateKey((yield* readKeyRow(open)).id, "--grace", "2s")
      assert.isNotNull((yield* readKeyRow(open)).expires_at)
      assert.isNull((yield* readKeyRow(successor)).expires_at)
      yield* waitForStatus(open, 401, 2_000)
      assert.strictEqual(yield* requestStatus(successor), 200)
    }))

  it.effect("keys enable restores a disabled key, but not a revoked one (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const key = parseKey(
        yield* runCommandInProcess(["keys", "create", "--account", "switched", "--tier", "basic"], environment),
      )
      const { id } = yield* readKeyRow(key)
      const runVerb = (verb: string) => Effect.map(runCommandInProcess(["keys", verb, id], environment), assertSuccess)
      const status = Effect.map(
        runCommandInProcess(["keys", "list"], environment),
        (ended) => parseTable(assertSuccess(ended)).rows.get(id)?.[5],
      )
      assert.strictEqual(yield* requestStatus(key), 200)
      assert.strictEqual(yield* runVerb("disable"), `Key ${id} is disabled.\n`)
      yield* waitForStatus(key, 401)
      assert.strictEqual(yield* status, "disabled")
      yield* assertAllFail([[["keys", "rotate", id], new RegExp(`Key ${id} is not active`)]], assertOneLineError)
      // Repeating a command changes nothing.
      assert.strictEqual(yield* runVerb("disable"), `Key ${id} is disabled.\n`)
      assert.strictEqual(yield* runVerb("enable"), `Key ${id} is enabled.\n`)
      yield* waitForStatus(key, 200)
      assert.strictEqual(yield* status, "active")
      assert.strictEqual(yield* runVerb("enable"), `Key ${id} is enabled.\n`)
      assert.strictEqual(yield* runVerb("revoke"), `Key ${id} is revoked.\n`)
      yield* waitForStatus(key, 401)
      yield* assertAllFail([
        [["keys", "enable", id], new RegExp(`Key ${id} was revoked.*cannot be undone`)],
        [["keys", "disable", id], new RegExp(`Key ${id} was revoked.*cannot be undone`)],
        [["keys", "rotate", id], new RegExp(`Key ${id} is not active`)],
        [["keys", "rotate", id, "--grace", "7d"], new RegExp(`Key ${id} is not active`)],
      ], assertOneLineError)
      assert.strictEqual(yield* requestStatus(key), 401)
    }))

  it.effect("keys enable does not restore a key that was disabled and then revoked (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const key = parseKey(
        yield* runCommandInProcess(["keys", "create", "--account", "ended", "--tier", "basic"], environment),
      )
      const { id } = yield* readKeyRow(key)
      for (const verb of ["disable", "revoke"]) {
        assertSuccess(yield* runCommandInProcess(["keys", verb, id], environment))
      }
      yield* assertAllFail([[["keys", "enable", id], new RegExp(`Key ${id} was revoked`)]], assertOneLineError)
    }))

  it.effect("keys commands name an unknown ID, and change nothing (operations/accounts)", () =>
    assertAllFail(
      ["rotate", "disable", "enable", "revoke"].flatMap((verb) =>
        ["987654", "99999999999"].map((id) => [["keys", verb, id], new RegExp(`no key ${id}\\b.*keys list`)] as const)
      ),
      assertOneLineError,
    ))

  it.effect("accounts create, list and set-tier manage accounts (operations/accounts)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const created = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
        const out = assertSuccess(yield* runCommandInProcess(["accounts", "create", ...args], environment))
        assert.match(out, /^Account [^\n]+\n$/)
        return out
      })
      assert.include(
        yield* created("two words", "--tier", "pro", "--email", "ops@two.example", "--prepaid"),
        `keys create --account "two words"`,
      )
      yield* created("plain", "--tier", "basic")
      const listed = Effect.map(runCommandInProcess(["accounts", "list"], environment), (ended) => {
        const { header, rows } = parseTable(assertSuccess(ended))
        assert.deepStrictEqual(header, [
          "id",
          "name",
          "tier",
          "balance (USD)",
          "budget (USD)",
          "last charged (UTC-5)",
          "keys",
          "email",
        ])
        return (name: string) => Array.from(rows.values()).find((row) => row[1] === name)?.slice(2)
      })
      const before = yield* listed
      assert.deepStrictEqual(before("two words"), ["pro", "0.000000", "-", "-", "0", "ops@two.example"])
      assert.deepStrictEqual(before("plain"), ["basic", "postpaid", "-", "-", "0", "-"])
      yield* assertAllFail([
        [
          ["accounts", "create", "plain", "--tier", "ultimate"],
          /The account plain exists already\. Nothing was changed/,
        ],
        [["accounts", "create", "two words", "--tier", "pro", "--prepaid"], /The account two words exists already/],
        [["accounts", "set-tier", "nobody", "pro"], /no account nobody.*accounts list/],
      ], assertOneLineError)

      const key = parseKey(yield* runCommandInProcess(["keys", "create", "--account", "plain"], environment))
      assert.strictEqual(yield* requestStatus(key, "/v1/research-reports"), 403)
      const set = yield* runCommandInProcess(["accounts", "set-tier", "plain", "ultimate"], environment)
      assert.strictEqual(assertSuccess(set), "The tier of plain is ultimate.\n")
      yield* Service.waitForResponseStatus("/v1/research-reports", key, 200)
      const [tier, balance, budget, , ...rest] = (yield* listed)("plain") ?? []
      assert.deepStrictEqual([tier, balance, budget, ...rest], ["ultimate", "postpaid", "-", "1", "-"])
    }))

  it.effect("accounts credit adds or subtracts the exact amount, once per reference (D27)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      assertSuccess(
        yield* runCommandInProcess(["accounts", "create", "payer", "--tier", "basic", "--prepaid"], environment),
      )
      const key = parseKey(yield* runCommandInProcess(["keys", "create", "--account", "payer"], environment))
      const other = yield* runCommandInProcess(["accounts", "create", "other payer", "--tier", "basic"], environment)
      assertSuccess(other)
      assert.strictEqual(yield* requestStatus(key), 402)

      const credited = (...args: ReadonlyArray<string>) =>
        Effect.map(runCommandInProcess(["accounts", "credit", ...args], environment), assertSuccess)
      const balance = (amount: string) =>
        `The balance of payer is ${amount} USD.\n${
          amount.startsWith("-") ? "Its requests are refused with 402 until the balance is above 0.\n" : ""
        }`
      // A double can represent neither 0.1 + 0.2 exactly, nor a billion dollars plus one microdollar.
      const steps: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["--usd", "0.1"], "0.100000"],
        [["--usd", "0.2", "--reference", "invoice-1"], "0.300000"],
        [["--usd", "999999999.999999"], "1000000000.299999"],
        [["--usd=-999999999.999999", "--reference", "mistake"], "0.300000"],
        [["--usd=-5"], "-4.700000"],
        [["--usd", "0.000001"], "-4.699999"],
        [["--usd", "4.199999", "--reference", "invoice-2"], "-0.500000"],
        [["--usd", "25.5"], "25.000000"],
      ]
      for (const [args, left] of steps) assert.strictEqual(yield* credited("payer", ...args), balance(left))
      yield* assertAllFail([
        [
          ["accounts", "credit", "payer", "--usd", "0.2", "--reference", "invoice-1"],
          /payer was credited for invoice-1/,
        ],
        [["accounts", "credit", "payer", "--usd", "7", "--reference", "invoice-1"], /[Nn]othing was changed/],
        [["accounts", "credit", "nobody", "--usd", "7"], /no account nobody.*accounts list/],
        [["accounts", "credit", "nobody", "--usd", "7", "--reference", "invoice-1"], /no account nobody/],
      ], assertOneLineError)

      // References are unique per account, so another account may use the same reference. That account is postpaid, so
      // a credit requires --prepaid.
      const credit = ["other payer", "--usd", "1", "--reference", "invoice-1"]
      yield* assertAllFail([
        [["accounts", "credit", ...credit], /other payer is postpaid.*Nothing was changed.*--prepaid.*402/],
        [["accounts", "credit", "other payer", "--usd=-1"], /other payer is postpaid/],
      ], assertOneLineError)
      assert.strictEqual(
        yield* credited(...credit, "--prepaid"),
        "The balance of other payer is 1.000000 USD.\n" +
          "other payer was postpaid until now. From now on, it is prepaid.\n" +
          "Once the balance is used up, its requests are refused with 402.\n",
      )
      assert.strictEqual(yield* credited("other payer", "--usd", "1"), "The balance of other payer is 2.000000 USD.\n")
      const kept = yield* sql`
        select amount_microdollars::text as amount, reference from credits join accounts using (account_id)
        where name = 'payer' order by credit_id
      `
      assert.deepStrictEqual(kept, [
        { amount: "100000", reference: null },
        { amount: "200000", reference: "invoice-1" },
        { amount: "999999999999999", reference: null },
        { amount: "-999999999999999", reference: "mistake" },
        { amount: "-5000000", reference: null },
        { amount: "1", reference: null },
        { amount: "4199999", reference: "invoice-2" },
        { amount: "25500000", reference: null },
      ])

      // The balance decreases by the exact cost of later requests.
      yield* waitForStatus(key, 200)
      const recorded = sql<{ readonly responses: number; readonly left: string; readonly cost: string }>`
        select current_balance(accounts)::text as left, count(*)::int as responses, sum(cost_microdollars)::text as cost
        from usage_requests join accounts using (account_id) where name = 'payer' and status_code = 200
        group by accounts.account_id
      `
      const [row] = yield* Effect.repeat(recorded, {
        until: ([row]) => row?.responses === 1,
        schedule: Schedule.spaced("20 millis"),
        times: 2_000,
      })
      assert.strictEqual(row?.responses, 1)
      assert.isAbove(Number(row?.cost), 0)
      assert.strictEqual(Number(row?.left), 25_000_000 - Number(row?.cost))
      const { rows } = parseTable(assertSuccess(yield* runCommandInProcess(["accounts", "list"], environment)))
      const [, , , left, , charged] = Array.from(rows.values()).find(([, name]) => name === "payer") ?? []
      assert.strictEqual(left, `24.${String(row?.left).slice(2)}`)
      assert.match(charged ?? "", /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    }))

  it.effect("accounts credit counts a payment once, even if several commands credit it at once (D27)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      assertSuccess(yield* runCommandInProcess(["accounts", "create", "hurried", "--tier", "basic"], environment))
      const ended = yield* Effect.all(
        Array.from(
          { length: 4 },
          () =>
            runCommandInProcess(
              ["accounts", "credit", "hurried", "--usd", "3", "--reference", "once", "--prepaid"],
              environment,
            ),
        ),
        { concurrency: 4 },
      )
      const good = ended.filter(({ code }) => code === 0)
      assert.strictEqual(good.length, 1)
      for (const one of good) {
        assert.match(assertSuccess(one), /^The balance of hurried is 3\.000000 USD\.\nhurried was postpaid/)
      }
      for (const one of ended) {
        if (!good.includes(one)) {
          assertOneLineError(one, /hurried was credited for once already\. Nothing was changed/)
        }
      }
      const [row] = yield* sql`select balance_microdollars::text as balance from accounts where name = 'hurried'`
      assert.deepStrictEqual(row, { balance: "3000000" })
    }))

  it.effect("grant gives a role exactly the privileges that the service needs (operations/deployment)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      const owner = yield* DatabaseUrl
      const { name, url } = yield* makeRole
      const own = { DATABASE_URL: url }

      // Before `grant`, the role may not even read.
      assertOneLineError(yield* runCommandInProcess(["keys", "list"], own), /permission denied|may not/)
      const granted = assertSuccess(yield* runCommandInProcess(["grant", name], { DATABASE_URL: owner }))
      assert.match(granted, new RegExp(`^Granted ${name} the privileges to serve[^\\n]*\\n$`))
      assert.strictEqual(assertSuccess(yield* runCommandInProcess(["grant", name], { DATABASE_URL: owner })), granted)

      assert.strictEqual(assertSuccess(yield* runCommandInProcess(["migrate"], own)), "The schema is up to date.\n")
      const port = yield* chooseFreePort
      const running = yield* startCommandProcess(["serve"], { ...own, PORT: String(port) })
      yield* waitForOutput(running, /keys create/)
      const { basic } = yield* Service.TestKeys
      const base = `http://127.0.0.1:${port}`
      assert.strictEqual((yield* get(`${base}/health/ready`)).status, 200)
      assert.strictEqual((yield* get(`${base}${target}`, { "X-API-Key": basic })).status, 200)
      const { code, err } = yield* endProcess(running, "SIGTERM")
      assert.strictEqual(code, 0)
      assert.notMatch(err, /permission denied/)
      const used = yield* sql`
        select endpoint, status_code::int from usage_requests join accounts using (account_id) where name = 'test basic'
          and requested_at >= (select max(requested_at) from usage_requests)
      `
      assert.deepStrictEqual(used, [{ endpoint: "/v1/ticker-changes", status_code: 200 }])

      const file = yield* writeTestFile("granted.csv", changesFile)
      const id = (yield* readKeyRow(basic)).id
      const before = yield* readAccountTables
      const forbidden: ReadonlyArray<ReadonlyArray<string>> = [
        ["accounts", "create", "mine", "--tier", "ultimate"],
        ["accounts", "set-tier", "test basic", "ultimate"],
        ["accounts", "credit", "test basic", "--usd", "1000"],
        ["keys", "create", "--account", "test basic"],
        ["keys", "rotate", id],
        ["keys", "revoke", id],
        ["keys", "disable", id],
        ["load", "ticker-changes", file],
      ]
      const ended = yield* Effect.forEach(forbidden, (args) => runCommandInProcess(args, own), { concurrency: 3 })
      for (const [index, args] of forbidden.entries()) {
        const one = ended[index] ?? notStarted
        assert.strictEqual(one.code, 1, args.join(" "))
        assertFailure(one, /permission denied|must be owner|no privileges/)
        assert.notInclude(one.err, "hunter2")
      }
      assert.deepStrictEqual(yield* readAccountTables, before)
    }))

  it.effect("grant fails for a user who may not grant, and changes nothing (operations/deployment)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [serving, other] = [yield* makeRole, yield* makeRole]
      assertSuccess(yield* runCommandInProcess(["grant", serving.name], { DATABASE_URL: yield* DatabaseUrl }))
      assertOneLineError(
        yield* runCommandInProcess(["grant", other.name], { DATABASE_URL: serving.url }),
        /may not|permission denied|no privileges/,
      )
      const may = yield* sql`select has_table_privilege(${other.name}, 'accounts', 'select') as may`
      assert.deepStrictEqual(may, [{ may: false }])
    }))

  it.effect("grant explains how to create a missing role (operations/deployment)", () =>
    assertAllFail([
      [["grant", "nobody there"], /no role nobody there.*create role "nobody there" login password/],
      [["grant", `"; drop table accounts; --`], /no role "; drop table accounts; --\. .*create role """; drop table/],
    ], assertOneLineError))

  it.effect("commands refuse invalid account names (operations/command-line)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const ended = yield* Effect.forEach(
        [" acme ", ""],
        (name) => runCommandInProcess(["keys", "create", "--account", name, "--tier", "pro"], environment),
        { concurrency: 2 },
      )
      for (const each of ended) assertUsageError(each, /account/)
    }))

  it.effect("migrate prints the applied migrations, or that the schema is up to date (operations/command-line)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* emptyDatabase }
      const first = yield* runCommandInProcess(["migrate"], environment)
      assert.strictEqual(first.code, 0, first.err)
      // A migration that takes more than ten seconds reports its progress.
      assert.match(first.err, /^.* INFO .*: Applying migrations to the database\.\n(migration .* so far\n)*$/)
      assert.strictEqual(first.out, "schema\n")
      assert.match(assertSuccess(yield* runCommandInProcess(["migrate"], environment)), /^[^\n]*\n$/)
    }))

  it.effect("openapi prints the document that the service serves, without a database (operations/command-line)", () =>
    Effect.gen(function* () {
      const noHome = { TICKERLINE_HOME: "/proc/none" }
      const printed: unknown = JSON.parse(assertSuccess(yield* runCommandInProcess(["openapi"], noHome)))
      const { body, status } = yield* requestJson("/v1/openapi.json", { key: null })
      assert.strictEqual(status, 200)
      for (const part of ["openapi", "paths", "components", "tags"]) {
        assert.deepStrictEqual(valueAt(printed, part), valueAt(body, part))
      }
      assert.strictEqual(valueAt(printed, "openapi"), "3.1.0")
    }))

  it.effect("openapi names BASE_URL or the address of HOST and PORT as its server (D1)", () =>
    Effect.gen(function* () {
      const server = (environment: Readonly<Record<string, string>>) =>
        Effect.map(
          runCommandInProcess(["openapi"], environment),
          (ended) => valueAt(JSON.parse(assertSuccess(ended)), "servers", 0, "url"),
        )
      assert.strictEqual(yield* server({}), "http://127.0.0.1:8080")
      assert.strictEqual(yield* server({ HOST: "0.0.0.0", PORT: "9000" }), "http://localhost:9000")
      assert.strictEqual(yield* server({ BASE_URL: "https://api.example.com/data/" }), "https://api.example.com/data")
    }))

  it.effect("load replaces rows, load --append adds rows, and a bad row is reported with its line (D31)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const file = yield* writeTestFile("a.csv", changesFile)
      const bad = yield* writeTestFile("bad.csv", changesFile.replace("2025-01-02", "2025-02-30"))
      assert.match(
        assertSuccess(yield* runCommandInProcess(["load", "ticker-changes", file, "--yes"], environment)),
        /^ticker_changes: 1 row loaded: 1 added, 0 updated, 0 unchanged, \d+ removed, in \d+\.\d s\n$/,
      )
      assert.match(
        assertSuccess(yield* runCommandInProcess(["load", "ticker-changes", file, "--append"], environment)),
        /^ticker_changes: 1 row merged: 0 added, 0 updated, 1 unchanged, in \d+\.\d s\n$/,
      )
      assertFailure(
        yield* runCommandInProcess(["load", "ticker-changes", bad], environment),
        /bad\.csv/,
        /^ {2}line 2: effective_date .*calendar/m,
      )
      assertFailure(
        yield* runCommandInProcess(["load", "ticker-changes", `${file}.none.csv`], environment),
        /There is no file .*none\.csv\./,
      )
      const exported = yield* writeTestFile(
        "exported.csv",
        changesFile.replace("status\n", "status,lineage_ticker,recorded_in\n").replace(
          "confirmed\n",
          "confirmed,B,1\n",
        ),
      )
      const { err } = yield* runCommandInProcess(["load", "ticker-changes", exported], environment)
      assert.strictEqual(
        err,
        `Columns of ${exported} that were not loaded, because the service itself sets them: recorded_in, ` +
          "lineage_ticker. Leave them out of files.\n",
      )
      assertFailure(
        yield* runCommandInProcess(["generate", exported], {}),
        /exported\.csv cannot be written: file already exists\. Choose another folder\./,
      )
      assert.strictEqual((yield* sql`select 1 from ticker_changes`).length, 1)
    }))

  it.effect("load counts the confirmed events that it kept, of the table and of the file (D22)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const load = Effect.fnUntraced(function* (content: string, ...flags: ReadonlyArray<string>) {
        const file = yield* writeTestFile("kept.csv", content)
        return assertSuccess(yield* runCommandInProcess(["load", "ticker-changes", file, ...flags], environment))
      })
      const twoEstimates = "AAA,BBB,2025-01-02,estimated\nAAA,BBB,2025-01-02,backfill\n"
      const inFile = "earlier rows kept instead of 2 later rows with the same key"
      assert.match(
        yield* load(`${changesFile}${twoEstimates}`, "--yes"),
        new RegExp(`^ticker_changes: 1 row loaded: [^:]* removed, ${inFile}, in `),
      )
      const onlyEstimates = changesFile.replace("confirmed", "estimated")
      assert.match(
        yield* load(onlyEstimates, "--append", "--check"),
        /: 1 row would be merged \(0 added, 0 updated, 0 unchanged, 1 kept\); nothing was loaded, in /,
      )
      assert.match(
        yield* load(onlyEstimates, "--append"),
        /: 1 row merged: 0 added, 0 updated, 0 unchanged, 1 kept, in /,
      )
    }))

  it.effect("load removes more than a tenth of the rows only with --yes, or after asking on a terminal (operations/data)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const rows = Array.from({ length: 20 }, (_, at) => `AAA${at},BBB,2020-01-01`)
      const write = (count: number) =>
        writeTestFile("former.csv", ["ticker,former_ticker,date", ...rows.slice(0, count)].join("\n"))
      const load = Effect.fnUntraced(function* (count: number, ...flags: ReadonlyArray<string>) {
        return yield* runCommandInProcess(["load", "historical-tickers", yield* write(count), ...flags], environment)
      })
      assert.match(assertSuccess(yield* load(20, "--yes")), /: 20 rows loaded: 20 added, 0 updated, 0 unchanged, /)
      assert.match(assertSuccess(yield* load(18)), /: 18 rows loaded: 0 added, 0 updated, 18 unchanged, 2 removed, /)
      const checked = yield* load(16, "--check")
      assert.match(
        checked.out,
        /: 16 rows would be loaded \(0 added, 0 updated, 16 unchanged, 2 removed\); nothing was loaded, /,
      )
      assert.strictEqual(
        checked.err,
        "Loading the file would remove 2 of the 18 rows of historical_tickers, so load will ask for a confirmation. " +
          "In a script, add --yes.\n",
      )
      assertSuccess(yield* load(16, "--check", "--yes"))
      assertSuccess(yield* load(16, "--check", "--append"))
      assertSuccess(yield* load(17, "--check"))
      assertFailure(
        yield* load(16),
        /historical_tickers is unchanged: it would remove 2 of the 18 rows\. If that is intended, add --yes\./,
      )
      assert.match(assertSuccess(yield* load(16, "--yes")), /: 16 rows loaded: .*, 2 removed, /)
      assert.match(assertSuccess(yield* load(0, "--allow-empty")), /: 0 rows loaded: .*, 16 removed, /)
    }))

  it.effect("load mentions further bad rows only if there are more than 20 (D31)", () =>
    Effect.gen(function* () {
      const environment = { DATABASE_URL: yield* DatabaseUrl }
      const [header, row] = changesFile.replace("2025-01-02", "2025-02-30").split("\n")
      const loadBadRows = Effect.fnUntraced(function* (count: number) {
        const file = yield* writeTestFile("bad.csv", [header, ...Array.from({ length: count }, () => row)].join("\n"))
        return yield* runCommandInProcess(["load", "ticker-changes", file], environment)
      })
      const [twenty, more] = [yield* loadBadRows(20), yield* loadBadRows(21)]
      for (const ended of [twenty, more]) assert.strictEqual(ended.err.match(/^ {2}line \d+:/gm)?.length, 20)
      assert.notMatch(twenty.err, /only the first/)
      assertFailure(more, /only the first 20 bad rows are shown/)
    }))

  it.layer(WrongStarts.layer)("serve", (it) => {
    it.effect.each(wrongValues.map(([name, value, expected], index) => ({ name, value, expected, index })))(
      "refuses to start with $name=$value, and names the expected value (operations/settings)",
      ({ expected, index, name }) =>
        Effect.map(
          WrongStarts,
          (ended) =>
            assertFailure(ended[index] ?? { code: null, out: "", err: "" }, new RegExp(`\\b${name}\\b`), expected),
        ),
    )
  })

  it.effect("serve and migrate report an unreachable database without showing its password (operations/command-line)", () =>
    Effect.gen(function* () {
      const away = "postgres://someone:hunter2@127.0.0.1:1/none"
      for (const args of [["serve"], ["migrate"]]) {
        const ended = yield* runCommandInProcess(args, { DATABASE_URL: away, PORT: String(yield* chooseFreePort) })
        assertFailure(ended, /DATABASE_URL/, /127\.0\.0\.1|connect|reach/)
        assert.notInclude(ended.err, "hunter2")
      }
      const wrongPassword = new URL(yield* DatabaseUrl)
      wrongPassword.password = "hunter2"
      const ended = yield* runCommandInProcess(["migrate"], { DATABASE_URL: wrongPassword.href })
      assertFailure(ended, /DATABASE_URL/, /password|authenti/i)
      assert.notInclude(ended.err, "hunter2")
    }))

  it.effect("serve starts no embedded server if DATABASE_URL is set, accepts options before its name, and exits with 0 after SIGTERM (operations/data, operations/deployment)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const fs = yield* FileSystem.FileSystem
      const home = `${yield* folder}/home`
      const port = yield* chooseFreePort
      const running = yield* startCommandProcess(["--log-level", "warn", "serve"], {
        DATABASE_URL: yield* DatabaseUrl,
        TICKERLINE_HOME: home,
        PORT: String(port),
      })
      yield* waitForOutput(running, /keys create/)
      assert.strictEqual((yield* get(`http://127.0.0.1:${port}/health/ready`)).status, 200)
      assert.isFalse(yield* fs.exists(home))
      const { code } = yield* endProcess(running, "SIGTERM")
      assert.strictEqual(code, 0)
    }))
})

/** Sends a request and parses the JSON response body. */
const get = (url: string, headers: Readonly<Record<string, string>> = {}) =>
  Effect.promise(async () => {
    const response = await fetch(url, { headers })
    const text = await response.text()
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true
    const body: unknown = isJson ? JSON.parse(text) : text
    return { status: response.status, body }
  })

const getDataFolder = (home: string) => `${home}/postgres/cluster/data`

/** Finds the database server processes: those with the home folder's data directory in their arguments. */
const findServerProcesses = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const pids = (yield* fs.readDirectory("/proc")).filter((name) => /^\d+$/.test(name))
  const read = (pid: string, name: string) => Effect.orElseSucceed(fs.readFileString(`/proc/${pid}/${name}`), () => "")
  const found = yield* Effect.filter(
    pids,
    (pid) => Effect.map(read(pid, "cmdline"), (line) => line.split("\0").includes(getDataFolder(home))),
  )
  // A child process that the server has just forked still shows the server's command line, so children are excluded.
  return yield* Effect.filter(
    found,
    (pid) =>
      Effect.map(read(pid, "stat"), (stat) => !found.includes(stat.replace(/^.*\) \S+ /s, "").split(" ")[0] ?? "")),
  )
})

/** Provides a new home folder. Its database server is stopped even if a test fails. */
class Home extends Context.Service<Home, { readonly home: string; readonly port: number }>()("test/operate/cli/Home") {
  static readonly layer = Layer.effect(
    Home,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const place = yield* folder
      yield* fs.chmod(place, 0o755)
      const home = `${place}/home`
      yield* Effect.addFinalizer(() =>
        Effect.ignore(Effect.map(fs.readFileString(`${getDataFolder(home)}/postmaster.pid`), (text) => {
          process.kill(Number(text.split("\n")[0]), "SIGQUIT")
        }))
      )
      return { home, port: yield* chooseFreePort }
    }),
  ).pipe(Layer.provideMerge(NodeServices.layer))
}

/** Parses the curl command in the greeting the way a shell in `folder` would. */
const parseCurlCommand = Effect.fnUntraced(function* (out: string, folder: string) {
  const fs = yield* FileSystem.FileSystem
  const [, name = "", file = "", url = ""] = /^ *curl -H "(\S+): Bearer \$\(cat ([^'")]+)\)" "([^"]+)"$/m.exec(out) ??
    []
  const key = (yield* fs.readFileString(resolve(folder, file))).trim()
  return { headers: { [name]: `Bearer ${key}` }, url, key }
})

layer(Home.layer, { excludeTestServices: true })("serve on a new home folder", (it) => {
  const remembered = { key: "", milliseconds: 0 }

  /**
   * Returns flags that allow writing only to the home folder's parent. The parent must be writable because the first
   * start creates the home folder.
   */
  const writeOnlyNextTo = (home: string) => [
    "--permission",
    "--allow-fs-read=*",
    `--allow-fs-write=${dirname(home)}`,
    "--allow-child-process",
  ]

  /** Starts the service under Node's permission model. */
  const serving = Effect.fnUntraced(function* (more: Environment = {}) {
    const { home, port } = yield* Home
    const began = performance.now()
    const running = yield* startProgram(
      process.execPath,
      [...writeOnlyNextTo(home), "--disable-warning=SecurityWarning", commandFile, "serve"],
      { TICKERLINE_HOME: home, PORT: String(port), ...more },
    )
    const out = yield* waitForOutput(running, /curl .*\n/)
    return { running, out, milliseconds: performance.now() - began }
  })

  const assertStopped = Effect.gen(function* () {
    const { home } = yield* Home
    const fs = yield* FileSystem.FileSystem
    assert.deepStrictEqual(yield* findServerProcesses(home), [])
    assert.isFalse(yield* fs.exists(`${getDataFolder(home)}/postmaster.pid`))
  })

  it.effect("prints the documentation's address and a working curl command at the first start, without the demo key, and writes only to TICKERLINE_HOME; SIGTERM stops it (README.md, decision 0085)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const { home, port } = yield* Home
      const fs = yield* FileSystem.FileSystem
      assert.isFalse(yield* canWriteFiles(process.execPath, writeOnlyNextTo(home)))
      const base = `http://127.0.0.1:${port}`
      // npm changes the working directory, and passes the user's original one in INIT_CWD.
      const { milliseconds, out, running } = yield* serving({ LOG_FORMAT: "json", INIT_CWD: dirname(home) })
      assert.include(out, `$(cat ${basename(home)}/demo-key)`)
      const { headers, key, url } = yield* parseCurlCommand(out, dirname(home))
      assert.strictEqual((yield* findServerProcesses(home)).length, 1)
      assert.deepStrictEqual(yield* fs.readDirectory(dirname(home)), [basename(home)])

      assert.include(out, `${base}/v1/docs`)
      assert.strictEqual((yield* get(`${base}/v1/docs`)).status, 200)
      assert.isTrue(url.startsWith(`${base}/`), url)
      const response = yield* get(url, headers)
      assert.strictEqual(response.status, 200)
      assert.strictEqual(valueAt(response.body, "results", 0, "current_ticker"), "NXH")

      // Standard error contains JSON log lines.
      const lines = running.output.err.trimEnd().split("\n").map((line): unknown => JSON.parse(line))
      assert.isAtLeast(lines.length, 1)
      for (const line of lines) assert.strictEqual(valueAt(line, "level"), "INFO")
      assert.notInclude(running.output.err + running.output.out, key)

      const mine = { "X-API-Key": key }
      const environment = { TICKERLINE_HOME: home }
      const file = yield* writeTestFile("names.csv", "ticker,former_ticker,date\nLATER,SOONER,2020-02-02\n")
      assert.strictEqual((yield* get(`${base}/v1/historical-tickers?ticker=LATER`, mine)).status, 404)
      const [loaded, made] = yield* Effect.all([
        runProgram(["load", "historical-tickers", file, "--append"], environment),
        runProgram(["keys", "create", "--account", "beside", "--tier", "basic"], environment),
      ], { concurrency: 2 })
      assert.strictEqual(loaded.code, 0, loaded.err)
      assert.match(loaded.out, /^historical_tickers: 1 row merged: 1 added/)
      assert.match(loaded.err, /The demo key was revoked.* keys create --account me --tier ultimate/)
      const own = parseKey(made)
      Object.assign(remembered, { key: own, milliseconds })
      const seen = yield* get(`${base}/v1/historical-tickers?ticker=LATER`, { "X-API-Key": own })
      assert.deepStrictEqual(seen.body, { count: 1, historical_tickers: [{ ticker: "SOONER", date: "2020-02-02" }] })

      yield* Effect.repeat(get(url, mine), {
        until: ({ status }) => status === 401,
        schedule: Schedule.spaced("50 millis"),
      })

      // A second service on the same port reports that the port is in use, and does not affect the first one.
      const second = yield* runProgram(["serve"], { TICKERLINE_HOME: home, PORT: String(port) })
      assertFailure(
        second,
        new RegExp(`PORT is ${port}, but another program already uses that port.*example PORT=${port + 1}`),
      )
      assert.strictEqual((yield* get(`${base}/health/ready`)).status, 200)

      const { code } = yield* endProcess(running, "SIGTERM")
      assert.strictEqual(code, 0)
      yield* assertStopped
    }))

  it.effect("keeps keys and data when it starts again, even after kill -9, and creates no other demo key; SIGINT stops it (README.md, operations/data, SECURITY.md)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const { home, port } = yield* Home
      const { milliseconds, out, running } = yield* serving()
      console.info(`first start ${remembered.milliseconds.toFixed(0)} ms, second ${milliseconds.toFixed(0)} ms`)
      assert.notInclude(running.output.err, "Loaded sample data")
      // Data other than the samples has been loaded, which removed the demo key. Starting the service does not create a
      // new one.
      assert.match(out, /Bearer <key>"/)
      assert.match(running.output.out, /Create a key with: /)
      assert.isFalse(yield* (yield* FileSystem.FileSystem).exists(`${home}/demo-key`))
      const headers = { "X-API-Key": remembered.key }
      assert.strictEqual(
        (yield* get(`http://127.0.0.1:${port}/v1/historical-tickers?ticker=LATER`, headers)).status,
        200,
      )
      assert.notInclude(running.output.err, "Loaded")
      yield* endProcess(running, "SIGKILL")
      const again = yield* serving()
      assert.strictEqual(
        (yield* get(`http://127.0.0.1:${port}/v1/historical-tickers?ticker=LATER`, headers)).status,
        200,
      )
      assert.strictEqual((yield* findServerProcesses(home)).length, 1)
      const { code } = yield* endProcess(again.running, "SIGINT")
      assert.strictEqual(code, 0)
      yield* assertStopped
    }))
})
