/** The settings: what a wrong or misspelt one makes the service say. */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { ConfigProvider, Effect, FileSystem, Redacted, Result } from "effect"
import { HttpServerError } from "effect/http"
import { createServer } from "node:net"
import { invalidSettings, settingReaders } from "../../src/cli/doctor/SettingChecks.ts"
import { describeListenError } from "../../src/cli/ListenErrors.ts"
import {
  findMisspeltSettings,
  formatSettingProblem,
  formatSettingProblems,
  settingNames,
} from "../../src/cli/SettingErrors.ts"
import { settings } from "../../src/cli/SettingsTable.ts"
import * as Commands from "../support/InProcessCommands.ts"
import { findFreePort, runCommandProcess } from "../support/Processes.ts"
import { copyMigratedDatabase } from "../support/Service.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"

type Environment = Readonly<Record<string, string>>

const under = (env: Environment) => ConfigProvider.layer(ConfigProvider.fromEnv({ env }))

const problemsUnder = (env: Environment) => Effect.provide(invalidSettings, under(env))

/** A value that each setting refuses. Every text is a host, a folder or a key. */
const wrong: Environment = {
  PORT: "abc",
  BASE_URL: "ftp://example.com",
  DATABASE_URL: "mysql://user:geheim@host/database",
  DATABASE_READ_URLS: "http://user:geheim@host",
  DATABASE_DIRECT_URL: "geheim",
  DATABASE_POOLER_PREPARES: "perhaps",
  DATABASE_POOL_SIZE: "0",
  DATABASE_POOL_TIMEOUT: "soon",
  WHOLE_LISTS: "101",
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
  SMTP_URL: "smtp://geheim@mail.example?x=geheim",
  MAIL_FROM: "me",
  MAIL_UNSUBSCRIBE: "me",
  MAIL_PER_MINUTE: "0",
  MAIL_RETRY_AFTER: "later",
  CORS_ORIGINS: "https://app.example.com/",
  LOG_FORMAT: "xml",
  LOG_LEVEL: "loud",
  METRICS_PORT: "70000",
  OTEL_EXPORTER_OTLP_ENDPOINT: "collector",
}

/** Variables of other programs, the shell, npm and Kubernetes. */
const common = `
  PATH HOME HOST HOSTNAME PORT PORT_RANGE SHELL TERM LANG LC_ALL PWD USER NODE_OPTIONS NODE_ENV NO_COLOR CI DEBUG
  TZ EDITOR DISPLAY LOGNAME MAIL SSH_TTY DATABASE_USER DATABASE_NAME DATABASE_HOST DATABASE_PORT DATABASE_PASSWORD
  POSTGRES_URL PGHOST REDIS_HOST REDIS_PORT REDIS_TLS_URL SMTP_HOST SMTP_PORT SMTP_USER MAIL_HOST HTTP_URL FTP_URL
  SITE_URL LOG_DIR CACHE_DIR METRICS_PATH http_proxy HTTPS_PROXY npm_config_cache npm_package_name
  OTEL_SERVICE_NAME OTEL_EXPORTER_OTLP_HEADERS KUBERNETES_PORT KUBERNETES_SERVICE_HOST TICKERLINE_SERVICE_HOST
  TICKERLINE_SERVICE_PORT_HTTP TICKERLINE_URL TICKERLINE_PORT_8080_TCP_ADDR METRICS_PORT_9464_TCP
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT _
`.trim().split(/\s+/)

describe("Settings", () => {
  it.effect("README, settings: every setting has a description, and its example is one that the service takes", () =>
    Effect.gen(function* () {
      assert.sameMembers(Object.keys(settingReaders), [...settingNames])
      for (const [name, reader] of Object.entries(settingReaders)) {
        const example = settings[name]?.example ?? ""
        const read = yield* Effect.result(Effect.provide(reader, under({ [name]: example })))
        assert.isTrue(Result.isSuccess(read), `${name}=${example}`)
      }
    }))

  it.effect("README, settings: a wrong value is named with what is expected, an example and the fix; no secret is", () =>
    Effect.gen(function* () {
      const text = new Set(["HOST", "TICKERLINE_HOME", "TICKERLINE_KEY", "METRICS_HOST"])
      assert.sameMembers(Object.keys(wrong), settingNames.filter((name) => !text.has(name)))
      for (const [name, value] of Object.entries(wrong)) {
        const problems = yield* problemsUnder({ [name]: value })
        assert.deepStrictEqual(problems.map((problem) => problem.name), [name])
        const said = problems.map(formatSettingProblem).join("")
        const { expected, isSecret } = settings[name] ?? { expected: "?" }
        assert.isTrue(said.startsWith(`${name} `), said)
        assert.include(said, `must be ${expected}`)
        assert.include(said, `for example ${name}=`)
        assert.include(said, "Correct it, or unset it")
        if (isSecret !== true) assert.include(said, `is ${JSON.stringify(value)}`)
        assert.notInclude(said, "geheim")
      }
    }))

  it.effect("README, settings: several wrong settings are reported together", () =>
    Effect.gen(function* () {
      const problems = yield* problemsUnder(wrong)
      assert.strictEqual(problems.length, Object.keys(wrong).length)
      const lines = formatSettingProblems(problems).split("\n")
      assert.strictEqual(lines[0], `${problems.length} settings cannot be used:`)
      assert.strictEqual(lines.length, problems.length + 1)
    }))

  it.effect("SECURITY, secrets: no message shows the password of a URL, whatever else is wrong with it", () =>
    Effect.gen(function* () {
      const secret = "hunter2"
      const secrets = settingNames.filter((name) => settings[name]?.isSecret === true && name !== "TICKERLINE_KEY")
      assert.isAtLeast(secrets.length, 4)
      for (const name of secrets) {
        for (const url of [`x://a:${secret}@b/c`, `x://b?p=${secret}`, `x://:${secret}@`, `//a:${secret}@b`, secret]) {
          assert.notInclude(formatSettingProblems(yield* problemsUnder({ [name]: url })), secret, `${name}=${url}`)
        }
      }
    }))

  it.effect("README, settings: SMTP_URL without MAIL_FROM, and one port for the API and the metrics, are refused", () =>
    Effect.gen(function* () {
      const sender = formatSettingProblems(yield* problemsUnder({ SMTP_URL: "smtp://mail.example" }))
      assert.match(sender, /^MAIL_FROM is not set, but SMTP_URL is.* for example MAIL_FROM=.*, or unset SMTP_URL\.$/)
      const both = { SMTP_URL: "smtp://mail.example", MAIL_FROM: "a@example.com" }
      assert.deepStrictEqual(yield* problemsUnder(both), [])
      const port = formatSettingProblems(yield* problemsUnder({ METRICS_PORT: "8080" }))
      assert.match(port, /^METRICS_PORT is 8080, which is the PORT of the API too\./)
    }))

  it("README, settings: a misspelt name is noticed, and no variable of another program is", () => {
    const meant = (name: string, value = "x") =>
      findMisspeltSettings({ [name]: value }).map((one) => one.meant._tag === "Some" ? one.meant.value : null)
    for (
      const [name, setting] of [
        ["DATABSE_URL", "DATABASE_URL"],
        ["DATABASE_READ_URL", "DATABASE_READ_URLS"],
        ["CORS_ORIGIN", "CORS_ORIGINS"],
        ["RATE_LIMT_BASIC", "RATE_LIMIT_BASIC"],
        ["SMPT_URL", "SMTP_URL"],
        ["database_url", "DATABASE_URL"],
        ["TICKERLINE_HOM", "TICKERLINE_HOME"],
        ["TICKERLINE_HOST", "TICKERLINE_HOME"],
        ["TICKERLINE_DATABASE", null],
      ] as const
    ) assert.deepStrictEqual(meant(name), [setting], name)
    assert.deepStrictEqual(common.filter((name) => meant(name).length > 0), [])
    assert.deepStrictEqual(meant("TICKERLINE_PORT", "tcp://10.0.0.7:8080"), [])
    // A setting that is set is not misspelt.
    assert.deepStrictEqual(findMisspeltSettings({ DATABASE_URL: "x", DATABSE_URL: "y" }), [])
    assert.deepStrictEqual(findMisspeltSettings(Object.fromEntries(settingNames.map((name) => [name, "x"]))), [])
  })
})

const listening = (cause: object, env: Environment = {}) =>
  Effect.provide(describeListenError(new HttpServerError.ServeError({ cause })), under(env))

describe("Listening", () => {
  it.effect("README, settings: what cannot be listened on blames the setting that is wrong", () =>
    Effect.gen(function* () {
      const socket = { address: "127.0.0.1", port: 80, syscall: "listen" }
      assert.match(
        yield* listening({ ...socket, code: "EACCES" }, { PORT: "80" }),
        /^PORT is 80, but this user may not listen .*1024.*for example PORT=8080/,
      )
      assert.match(
        yield* listening({ ...socket, code: "EADDRINUSE" }),
        /^PORT is 80, but another program .*lsof -i :80 .*example PORT=81\.$/,
      )
      assert.match(
        yield* listening({ ...socket, port: 9464, code: "EADDRINUSE" }, { METRICS_PORT: "9464" }),
        /^METRICS_PORT is 9464, but another program .*METRICS_PORT=9465\.$/,
      )
      assert.match(
        yield* listening({ ...socket, address: "192.0.2.1", code: "EADDRNOTAVAIL" }, { HOST: "192.0.2.1" }),
        /^HOST is "192\.0\.2\.1", which is not an address of this machine .*HOST=127\.0\.0\.1/,
      )
      assert.match(
        yield* listening({ code: "ENOTFOUND", hostname: "nowhere", syscall: "getaddrinfo" }, { HOST: "nowhere" }),
        /^HOST is "nowhere", .*ENOTFOUND/,
      )
      assert.match(
        yield* listening({ code: "ENOTFOUND", hostname: "nowhere" }, { METRICS_PORT: "1", METRICS_HOST: "nowhere" }),
        /^METRICS_HOST is "nowhere"/,
      )
      assert.match(
        yield* listening({ ...socket, code: "ENOTSUP" }, { REUSE_PORT: "true" }),
        /^REUSE_PORT is set, but this system cannot share a port .*Linux can/,
      )
    }))
})

const assertNoStack = (text: string) => assert.notMatch(text, /\n\s+at |node:internal|file:\/\//)

layer(NodeServices.layer, { excludeTestServices: true })("settings of commands", (it) => {
  it.effect("README, settings: the start reports all wrong settings, warns of misspelt ones, and exits with 1", () =>
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

  it.effect("README, settings: a command names the setting that it cannot use, with an example", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const file = yield* fs.makeTempFileScoped({ prefix: "tickerline-home-" })
      const asFile = yield* Commands.runCommand(["migrate"], { TICKERLINE_HOME: file })
      assert.strictEqual(asFile.code, 1)
      assert.match(
        asFile.err,
        new RegExp(`^tickerline: TICKERLINE_HOME is "${file}", which is a file, but must be a folder`),
      )
      const noUrl = yield* Commands.runCommand(["migrate"], { DATABASE_URL: "localhost/tickerline:geheim" })
      assert.strictEqual(noUrl.code, 1)
      assert.match(noUrl.err, /^tickerline: DATABASE_URL has a value that is not shown.*DATABASE_URL=postgres:\/\//)
      assert.notInclude(noUrl.err, "geheim")
    }))

  it.effect("README, settings: a port of the metrics that is in use is blamed on METRICS_PORT", () =>
    Effect.gen(function* () {
      const port = yield* findFreePort
      yield* Effect.acquireRelease(
        Effect.callback<ReturnType<typeof createServer>>((resume) => {
          const server = createServer().listen(port, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.sync(() => server.close()),
      )
      const { code, err } = yield* Commands.runCommand(["serve"], {
        DATABASE_URL: Redacted.value(yield* copyMigratedDatabase),
        PORT: String(yield* findFreePort),
        METRICS_PORT: String(port),
      })
      assert.strictEqual(code, 1)
      assert.match(err, new RegExp(`METRICS_PORT is ${port}, but another program already uses that port`))
      assertNoStack(err)
    }))
})
