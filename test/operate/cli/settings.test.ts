/** Tests the messages about invalid settings, misspelled settings, and ports that cannot be used. */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { ConfigProvider, Effect, FileSystem, Layer, Option, Redacted, Result } from "effect"
import { HttpServerError } from "effect/http"
import { execFileSync } from "node:child_process"
import { createServer } from "node:net"
import { checkSettings } from "../../../src/operate/cli/doctor/SettingsChecks.ts"
import { describeListenError } from "../../../src/operate/cli/ErrorReport.ts"
import { secretFilesLayer } from "../../../src/operate/cli/SecretFiles.ts"
import {
  findInvalidSettings,
  findMisspelledSettings,
  formatSettingProblem,
  formatSettingProblems,
  readSettingText,
  secretNames,
  settingDefinitions,
  settingNames,
} from "../../../src/operate/cli/Settings.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import * as InProcessCommands from "../../support/InProcessCommands.ts"
import { runCommandProcess } from "../../support/Processes.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import { copyMigratedDatabase } from "../../support/Service.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"

type Environment = Readonly<Record<string, string>>

const configOf = (env: Environment) => ConfigProvider.layer(ConfigProvider.fromEnv({ env }))

const findProblems = (env: Environment) => Effect.provide(findInvalidSettings, configOf(env))

/**
 * An invalid value for each setting, except for settings that accept any text. The values of secrets contain `geheim`.
 */
const invalidValues: Environment = {
  PORT: "abc",
  BASE_URL: "ftp://example.com",
  MCP_RESULT_TOKENS: "999",
  DATABASE_URL: "mysql://user:geheim@host/database",
  DATABASE_READ_URLS: "http://user:geheim@host",
  DATABASE_DIRECT_URL: "geheim",
  DATABASE_POOLER_PREPARES: "perhaps",
  PGSSLMODE: "full",
  DATABASE_POOL_SIZE: "0",
  DATABASE_POOL_TIMEOUT: "soon",
  WHOLE_LISTS: "101",
  WHOLE_LISTS_MIN_RATE: "0",
  WHOLE_LISTS_MAX_TIME: "soon",
  MAX_STREAMS_PER_ACCOUNT: "0",
  CACHE_MEGABYTES: "-1",
  REUSE_PORT: "perhaps",
  SHUTDOWN_DELAY: "3days",
  PRICE_PER_GB_MICRODOLLARS: "1.5",
  ENDPOINT_PRICES: "/v1/nws=1",
  RATE_LIMIT_BASIC: "many",
  RATE_LIMIT_PRO: "0",
  RATE_LIMIT_ULTIMATE: "-5",
  WRONG_KEYS_LIMIT: "0",
  TRUSTED_PROXIES: "10.0.0/8",
  USAGE_BUFFER: "none",
  USAGE_RETENTION: "3days",
  HISTORY_RETENTION: "3days",
  AUDIT_RETENTION: "1 day",
  ADMIN_PORT: "70000",
  ADMIN_URL: "https://admin.example.com/console",
  ADMIN_OIDC_ISSUER: "http://login.example.com",
  ADMIN_OIDC_GROUPS: "platform=owner",
  ADMIN_DATABASE_URL: "mysql://user:geheim@host/database",
  INGEST_EDGAR: "hourly",
  EDGAR_USER_AGENT: "Acme Inc",
  EDGAR_TICKERS: "@@",
  EDGAR_BASE_URL: "ftp://example.com",
  SMTP_URL: "smtp://geheim@mail.example?x=geheim",
  MAIL_FROM: "me",
  MAIL_UNSUBSCRIBE: "me",
  MAIL_PER_MINUTE: "0",
  MAIL_RETRY_AFTER: "later",
  WEBHOOKS: "true",
  WEBHOOKS_ALLOWED_HOSTS: "10.0.0/8",
  CORS_ORIGINS: "https://app.example.com/",
  LOG_FORMAT: "xml",
  LOG_LEVEL: "loud",
  METRICS_PORT: "70000",
  OTEL_EXPORTER_OTLP_ENDPOINT: "collector",
}

/** Variables set by other programs, the shell, npm and Kubernetes. */
const foreignVariables = `
  PATH HOME HOST HOSTNAME PORT PORT_RANGE SHELL TERM LANG LC_ALL PWD USER NODE_OPTIONS NODE_ENV NO_COLOR CI DEBUG
  TZ EDITOR DISPLAY LOGNAME MAIL SSH_TTY DATABASE_USER DATABASE_NAME DATABASE_HOST DATABASE_PORT DATABASE_PASSWORD
  POSTGRES_URL PGHOST REDIS_HOST REDIS_PORT REDIS_TLS_URL SMTP_HOST SMTP_PORT SMTP_USER MAIL_HOST HTTP_URL FTP_URL
  SITE_URL LOG_DIR CACHE_DIR METRICS_PATH http_proxy HTTPS_PROXY npm_config_cache npm_package_name
  OTEL_SERVICE_NAME OTEL_EXPORTER_OTLP_HEADERS KUBERNETES_PORT KUBERNETES_SERVICE_HOST TICKERLINE_SERVICE_HOST
  TICKERLINE_SERVICE_PORT_HTTP TICKERLINE_URL TICKERLINE_PORT_8080_TCP_ADDR METRICS_PORT_9464_TCP
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT _
`.trim().split(/\s+/)

describe("The settings check", () => {
  it.effect("accepts the example of every setting (operations/settings)", () =>
    Effect.gen(function* () {
      for (const [name, { example, read }] of Object.entries(settingDefinitions)) {
        const result = yield* Effect.result(Effect.provide(read, configOf({ [name]: example })))
        assert.isTrue(Result.isSuccess(result), `${name}=${example}`)
      }
    }))

  it.effect("reports the invalid value, what is expected, an example and the fix, but no secret (operations/settings)", () =>
    Effect.gen(function* () {
      const acceptAnyText = new Set([
        "HOST",
        "POSTGRES_PROGRAMS",
        "TICKERLINE_HOME",
        "TICKERLINE_KEY",
        "METRICS_HOST",
        "ADMIN_HOST",
        "ADMIN_OIDC_CLIENT_ID",
        "ADMIN_OIDC_CLIENT_SECRET",
        "ADMIN_OIDC_GROUPS_CLAIM",
        "ADMIN_OIDC_SCOPES",
        "PGSSLROOTCERT",
        "PGSSLCERT",
        "PGSSLKEY",
      ])
      assert.sameMembers(Object.keys(invalidValues), settingNames.filter((name) => !acceptAnyText.has(name)))
      for (const [name, value] of Object.entries(invalidValues)) {
        const problems = yield* findProblems({ [name]: value })
        assert.deepStrictEqual(problems.map((problem) => problem.name), [name])
        const message = problems.map(formatSettingProblem).join("")
        const { expected, isSecret } = settingDefinitions[name] ?? { expected: "?" }
        assert.isTrue(message.startsWith(`${name} `), message)
        assert.include(message, `must be ${expected}`)
        assert.include(message, `for example ${name}=`)
        assert.match(message, /Correct it, or unset it (to|for|if|together) [^[]+\.$/)
        if (isSecret !== true) assert.include(message, `is ${JSON.stringify(value)}`)
        assert.notInclude(message, "geheim")
      }
    }))

  it.effect.each([
    ["PORT", "to use the default: 8080"],
    ["DATABASE_POOL_TIMEOUT", "to use the default: 5s"],
    ["REUSE_PORT", "to use the default: false"],
    ["LOG_FORMAT", "to use the default: pretty"],
    ["DATABASE_READ_URLS", "to read from the primary"],
  ])(
    "explains what happens when %s is unset (operations/settings)",
    ([name = "", unset]) =>
      Effect.map(
        findProblems({ [name]: invalidValues[name] ?? "" }),
        ([problem]) => assert.strictEqual(problem?.fix, `Correct it, or unset it ${unset}.`),
      ),
  )

  it.effect("reports several invalid settings together (operations/settings)", () =>
    Effect.gen(function* () {
      const problems = yield* findProblems(invalidValues)
      assert.strictEqual(problems.length, Object.keys(invalidValues).length)
      const lines = formatSettingProblems(problems).split("\n")
      assert.strictEqual(lines[0], `${problems.length} settings cannot be used:`)
      assert.strictEqual(lines.length, problems.length + 1)
    }))

  it.effect("shows no password in messages, even if the URL is malformed (SECURITY.md)", () =>
    Effect.gen(function* () {
      const secret = "hunter2"
      const secrets = settingNames.filter((name) =>
        settingDefinitions[name]?.isSecret === true && name !== "TICKERLINE_KEY"
      )
      assertFoundMoreThan(3, "secret settings", secrets)
      for (const name of secrets) {
        for (const url of [`x://a:${secret}@b/c`, `x://b?p=${secret}`, `x://:${secret}@`, `//a:${secret}@b`, secret]) {
          assert.notInclude(formatSettingProblems(yield* findProblems({ [name]: url })), secret, `${name}=${url}`)
        }
      }
    }))

  it.effect("refuses SMTP_URL without MAIL_FROM, and the same port for API and metrics (operations/settings)", () =>
    Effect.gen(function* () {
      const sender = formatSettingProblems(yield* findProblems({ SMTP_URL: "smtp://mail.example" }))
      assert.match(sender, /^MAIL_FROM is not set, but SMTP_URL is.* for example MAIL_FROM=.*, or unset SMTP_URL\.$/)
      const both = { SMTP_URL: "smtp://mail.example", MAIL_FROM: "a@example.com" }
      assert.deepStrictEqual(yield* findProblems(both), [])
      const port = formatSettingProblems(yield* findProblems({ METRICS_PORT: "8080" }))
      assert.match(port, /^METRICS_PORT is 8080, which is also the PORT of the API\./)
    }))

  const findSimilar = (name: string, value = "x") =>
    findMisspelledSettings({ [name]: value }).map(({ similar }) => Option.getOrNull(similar))

  it.each([
    { name: "DATABSE_URL", setting: "DATABASE_URL" },
    { name: "DATABASE_READ_URL", setting: "DATABASE_READ_URLS" },
    { name: "CORS_ORIGIN", setting: "CORS_ORIGINS" },
    { name: "RATE_LIMT_BASIC", setting: "RATE_LIMIT_BASIC" },
    { name: "SMPT_URL", setting: "SMTP_URL" },
    { name: "database_url", setting: "DATABASE_URL" },
    { name: "TICKERLINE_HOM", setting: "TICKERLINE_HOME" },
    { name: "TICKERLINE_HOST", setting: "TICKERLINE_HOME" },
    { name: "TICKERLINE_DATABASE", setting: null },
    { name: "TICKERLINE_KEY_FLIE", setting: "TICKERLINE_KEY_FILE" },
    { name: "DATABSE_URL_FILE", setting: "DATABASE_URL_FILE" },
    { name: "PORTT", setting: "PORT" },
    { name: "PROT", setting: "PORT" },
    { name: "HSOT", setting: "HOST" },
    { name: "port", setting: "PORT" },
  ])("recognizes $name as a misspelling of $setting (operations/settings)", ({ name, setting }) => {
    assert.deepStrictEqual(findSimilar(name), [setting])
  })

  it("ignores variables of other programs and settings that are set (operations/settings)", () => {
    assert.deepStrictEqual(foreignVariables.filter((name) => findSimilar(name).length > 0), [])
    assert.deepStrictEqual(findSimilar("TICKERLINE_PORT", "tcp://10.0.0.7:8080"), [])
    for (const name of ["PATH", "POST", "PORTS", "PORT0", "SPORT", "HOSTS", "COST", "HOME", "GHOST"]) {
      assert.deepStrictEqual(findSimilar(name), [], name)
    }
    // A setting that is already set is not suggested as the correction of a misspelled variable.
    assert.deepStrictEqual(findMisspelledSettings({ DATABASE_URL: "x", DATABSE_URL: "y" }), [])
    assert.deepStrictEqual(findMisspelledSettings({ DATABASE_URL_FILE: "x", DATABSE_URL: "y" }), [])
    assert.deepStrictEqual(findMisspelledSettings(Object.fromEntries(settingNames.map((name) => [name, "x"]))), [])
    assert.deepStrictEqual(
      findMisspelledSettings(Object.fromEntries(Array.from(secretNames, (name) => [`${name}_FILE`, "x"]))),
      [],
    )
  })
})

const withSecretFiles = (env: Environment) => Layer.provide(secretFilesLayer(secretNames), configOf(env))

const findSecretProblems = (env: Environment) =>
  Effect.map(
    Effect.provide(findInvalidSettings, withSecretFiles(env)),
    (problems) => problems.map(formatSettingProblem).join("\n"),
  )

const writeSecret = Effect.fnUntraced(function* (content: string) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* fs.makeTempFileScoped({ prefix: "tickerline-secret-" })
  yield* fs.writeFileString(file, content)
  return file
})

layer(NodeServices.layer)("A secret in a file", (it) => {
  it.effect.each([
    ["geheim", "geheim"],
    ["geheim\n", "geheim"],
    ["geheim\r\n", "geheim"],
    [" geheim \n\n", " geheim \n"],
  ])(
    "is read without one line break at its end: %j (operations/settings)",
    ([content = "", expected]) =>
      Effect.gen(function* () {
        assertFoundMoreThan(4, "secret settings", secretNames)
        const file = yield* writeSecret(content)
        for (const name of secretNames) {
          const text = Effect.provide(readSettingText(name), withSecretFiles({ [`${name}_FILE`]: file }))
          assert.deepStrictEqual(yield* text, Option.some(expected))
        }
      }),
  )

  it.effect("is refused, and never shown, if it is also set without a file, or if the file or its content cannot be used (operations/settings)", () =>
    Effect.gen(function* () {
      const empty = yield* writeSecret("\n")
      const invalid = yield* writeSecret("x://user:geheim@geheim/?geheim\n")
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped()
      const [pipe, pipeLink, link] = [`${folder}/pipe`, `${folder}/pipe-link`, `${folder}/link`]
      execFileSync("mkfifo", [pipe])
      yield* fs.symlink(pipe, pipeLink)
      for (const name of secretNames) {
        const variable = `${name}_FILE`
        const { example = "", expected = "" } = settingDefinitions[name] ?? {}
        const valid = { [variable]: yield* writeSecret(`${example}\n`), MAIL_FROM: "a@example.com" }
        assert.strictEqual(yield* findSecretProblems(valid), "")
        yield* fs.symlink(valid[variable] ?? "", `${link}-${name}`)
        assert.strictEqual(yield* findSecretProblems({ ...valid, [variable]: `${link}-${name}` }), "")
        // An empty variable counts as unset, as with all other settings.
        assert.strictEqual(yield* findSecretProblems({ ...valid, [name]: "" }), "")
        const emptyVariable =
          `${variable} is empty. Set it to the path of a file with the value of ${name}, or unset it.`
        assert.strictEqual(yield* findSecretProblems({ [variable]: "" }), emptyVariable)
        assert.strictEqual(yield* findSecretProblems({ [variable]: "", [name]: example }), emptyVariable)
        const both = yield* findSecretProblems({ [name]: "geheim", [variable]: invalid })
        assert.strictEqual(both, `${name} and ${variable} are both set. Unset one of them.`)
        for (
          const [file, reason] of [
            ["/nowhere", "cannot be read: no such file or directory"],
            [folder, "is not a regular file"],
            [pipe, "is not a regular file"],
            [pipeLink, "is not a regular file"],
            ["/dev/zero", "is not a regular file"],
            [empty, "is empty"],
          ]
        ) {
          const problem = yield* findSecretProblems({ [variable]: file ?? "" })
          assert.isTrue(problem.startsWith(`${variable} is "${file}", which ${reason}. `), problem)
        }
        // These settings accept any text.
        if (["TICKERLINE_KEY", "ADMIN_OIDC_CLIENT_SECRET"].includes(name)) continue
        const wrong = yield* findSecretProblems({ [variable]: invalid })
        assert.isTrue(wrong.startsWith(`${variable} is "${invalid}", but this file must contain ${expected}`), wrong)
        assert.include(wrong, `for example ${example}. Correct the file, or unset ${variable} `)
        assert.notInclude(wrong, "geheim")
      }
    }))
})

const describeFailure = (cause: object, env: Environment = {}) =>
  Effect.provide(describeListenError(new HttpServerError.ServeError({ cause })), configOf(env))

describe("The port error", () => {
  it.effect("names the setting to change if the port cannot be used (operations/settings)", () =>
    Effect.gen(function* () {
      const socket = { address: "127.0.0.1", port: 80, syscall: "listen" }
      assert.match(
        yield* describeFailure({ ...socket, code: "EACCES" }, { PORT: "80" }),
        /^PORT is 80, but this user may not listen .*Set PORT to 1024 or higher/,
      )
      assert.match(
        yield* describeFailure({ ...socket, code: "EADDRINUSE" }),
        /^PORT is 80, but another program .*lsof -i :80 .*example PORT=81\.$/,
      )
      assert.match(
        yield* describeFailure({ ...socket, port: 9464, code: "EADDRINUSE" }, { METRICS_PORT: "9464" }),
        /^METRICS_PORT is 9464, but another program .*METRICS_PORT=9465\.$/,
      )
      assert.match(
        yield* describeFailure({ ...socket, address: "192.0.2.1", code: "EADDRNOTAVAIL" }, { HOST: "192.0.2.1" }),
        /^HOST is "192\.0\.2\.1", which is not an address of this machine .*HOST=127\.0\.0\.1/,
      )
      assert.match(
        yield* describeFailure({ code: "ENOTFOUND", hostname: "nowhere", syscall: "getaddrinfo" }, { HOST: "nowhere" }),
        /^HOST is "nowhere", .*ENOTFOUND/,
      )
      assert.match(
        yield* describeFailure({ code: "ENOTFOUND", hostname: "nowhere" }, {
          METRICS_PORT: "1",
          METRICS_HOST: "nowhere",
        }),
        /^METRICS_HOST is "nowhere"/,
      )
      const admin = { METRICS_PORT: "9464", ADMIN_PORT: "8081", ADMIN_HOST: "nowhere" }
      assert.match(
        yield* describeFailure({ ...socket, port: 8081, code: "EADDRINUSE" }, admin),
        /^ADMIN_PORT is 8081, but another program .*ADMIN_PORT=8082\.$/,
      )
      assert.match(
        yield* describeFailure({ code: "ENOTFOUND", hostname: "nowhere" }, admin),
        /^ADMIN_HOST is "nowhere"/,
      )
      assert.match(
        yield* describeFailure({ ...socket, address: "192.0.2.1", port: 8081, code: "EADDRNOTAVAIL" }, admin),
        /^ADMIN_HOST is "192\.0\.2\.1"/,
      )
      assert.match(
        yield* describeFailure({ ...socket, code: "ENOTSUP" }, { REUSE_PORT: "true" }),
        /^REUSE_PORT is set, but this system cannot share a port .*Linux can/,
      )
    }))
})

const assertNoStack = (text: string) => assert.notMatch(text, /\n\s+at |node:internal|file:\/\//)

layer(NodeServices.layer, { excludeTestServices: true })("The command line", (it) => {
  it.effect("reports all invalid settings at startup, and warns of misspelled ones (operations/settings)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const fs = yield* FileSystem.FileSystem
      const home = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-settings-" })}/home`
      const environment = {
        TICKERLINE_HOME: home,
        PORT: "abc",
        LOG_FORMAT: "xml",
        DATABSE_URL: "x",
        RATE_LIMIT_PRO: "x",
      }
      const { code, err, out } = yield* runCommandProcess(["serve"], environment)
      assert.deepStrictEqual([code, out], [1, ""])
      assert.match(
        err,
        /^tickerline: 3 settings cannot be used:\n- PORT is "abc".*\n- RATE_LIMIT_PRO .*\n- LOG_FORMAT /m,
      )
      assertNoStack(err)
      const warned = yield* runCommandProcess(["datasets", "news"], { DATABSE_URL: "x" })
      assert.strictEqual(warned.code, 0)
      assert.match(warned.err, /WARN.*DATABSE_URL is set, but is not a setting.* Did you mean DATABASE_URL\?/)
      assert.isFalse(yield* fs.exists(home))
    }))

  it.effect("names the invalid setting and an example if a command fails (operations/settings)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const file = yield* fs.makeTempFileScoped({ prefix: "tickerline-home-" })
      const asFile = yield* InProcessCommands.runCommandInProcess(["migrate"], { TICKERLINE_HOME: file })
      assert.strictEqual(asFile.code, 1)
      assert.match(
        asFile.err,
        new RegExp(`^tickerline: TICKERLINE_HOME is "${file}", which is a file, but must be a folder`),
      )
      const noUrl = yield* InProcessCommands.runCommandInProcess(["migrate"], {
        DATABASE_URL: "localhost/tickerline:geheim",
      })
      assert.strictEqual(noUrl.code, 1)
      assert.match(noUrl.err, /^tickerline: DATABASE_URL has a value that is not shown.*DATABASE_URL=postgres:\/\//)
      assert.notInclude(noUrl.err, "geheim")
    }))

  it.effect("reads secrets from files in every command, and doctor names the files (operations/settings)", () =>
    Effect.gen(function* () {
      const url = yield* writeSecret(`${Redacted.value(yield* copyMigratedDatabase)}\n`)
      const listed = yield* InProcessCommands.runCommandInProcess(["accounts", "list"], { DATABASE_URL_FILE: url })
      assert.deepStrictEqual([listed.code, listed.err], [0, ""])
      const doctor = yield* InProcessCommands.runCommandInProcess(["doctor"], { DATABASE_URL_FILE: url })
      assert.include(doctor.out, `database: from DATABASE_URL (in ${url})`)
      const findings = yield* Effect.provide(checkSettings({ SMTP_URL_FILE: "/run/smtp", PORT: "80" }), configOf({}))
      assert.strictEqual(findings[0]?.found, "set: PORT, SMTP_URL (in /run/smtp)")
      const settings = { DATABASE_URL_FILE: "/nowhere", TICKERLINE_KEY: "a", TICKERLINE_KEY_FILE: url }
      const { code, err } = yield* InProcessCommands.runCommandInProcess(["migrate"], settings)
      assert.strictEqual(code, 1)
      assert.match(
        err,
        /^tickerline: 2 settings cannot be used:\n- DATABASE_URL_FILE is "\/nowhere", .*\n- TICKERLINE_KEY /,
      )
      assertNoStack(err)
    }))

  it.effect.each(["METRICS_PORT", "ADMIN_PORT"])(
    "names %s if that port is in use (operations/settings)",
    (name) =>
      Effect.gen(function* () {
        const port = yield* chooseFreePort
        yield* Effect.acquireRelease(
          Effect.callback<ReturnType<typeof createServer>>((resume) => {
            const server = createServer().listen(port, "127.0.0.1", () => resume(Effect.succeed(server)))
          }),
          (server) => Effect.sync(() => server.close()),
        )
        const { code, err } = yield* InProcessCommands.runCommandInProcess(["serve"], {
          DATABASE_URL: Redacted.value(yield* copyMigratedDatabase),
          PORT: String(yield* chooseFreePort),
          [name]: String(port),
        })
        assert.strictEqual(code, 1)
        assert.match(err, new RegExp(`${name} is ${port}, but another program already uses that port`))
        assertNoStack(err)
      }),
  )
})
