/** Tests that no log, error or response contains the database password or an API key (operations/deployment). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Layer, Redacted, Schedule } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import * as ServiceRole from "../../../src/postgres/migrations/ServiceRole.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as Processes from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const {
  endProcess,
  waitForOutput,
  runCommandProcess,
  startCommandProcess,
  exchangeText,
  combinedOutput,
} = Processes

const secret = "hidden-word"

/** Settings with a malformed or unreachable database address. */
const wrongAddresses = [
  ["DATABASE_URL", `postgres://u:${secret}@127.0.0.1:1/db`],
  ["DATABASE_URL", `postgres://u:${secret}@nowhere.invalid/db`],
  ["DATABASE_URL", `postgres://u:${secret}@host:port/db`],
  ["DATABASE_URL", `postgres://u:${secret}%ZZ@host/db`],
  ["DATABASE_URL", `mysql://u:${secret}@host/db`],
  ["DATABASE_URL", `u:${secret}@host`],
] as const

/** Sends a GET request. Returns the status, headers and body as one string. */
const requestText = (port: number, path: string, key: string) =>
  Effect.promise(async () => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { "X-API-Key": key } })
    return `${response.status} ${JSON.stringify(Array.from(response.headers))} ${await response.text()}`
  })

layer(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("The service", (it) => {
  it.effect("shows no password if a database address is malformed or unreachable at startup (operations/deployment)", () =>
    Effect.gen(function* () {
      const checkAddress = Effect.fnUntraced(function* ([name, value]: (typeof wrongAddresses)[number]) {
        const environment = { [name]: value, PORT: String(yield* chooseFreePort) }
        // A command prints the same in this process as in a separate one (test/operate/cli/commands), so one separate
        // process is enough.
        const run = value === wrongAddresses[0][1] ? runCommandProcess : runCommandInProcess
        const { code, err, out } = yield* run(["--log-level", "all", "serve"], environment)
        assert.strictEqual(code, 1, value)
        assert.match(`${out}${err}`, new RegExp(`\\b${name}(: | is | has a value )`), value)
        assert.notInclude(`${out}${err}`, secret, value)
        assert.notMatch(`${out}${err}`, /^\s+at .*node_modules/m, value)
      })
      yield* Effect.forEach(wrongAddresses, checkAddress, { concurrency: 2, discard: true })
    }))

  it.effect.each(["pretty", "json"])(
    "shows no password or key in logs and responses while the database is unreachable, with LOG_FORMAT=%s (operations/deployment)",
    (format) =>
      Effect.gen(function* () {
        const database = yield* Service.copyMigratedDatabase
        const owner = yield* Layer.build(databaseClientLayer({ url: database, applicationName: "owner" }))
        const sql = Context.get(owner, SqlClient.SqlClient)
        const key = yield* Effect.provide(Service.ensureAccountWithKey("keeper", "basic"), owner)
        const role = `keeper_${SecureRandom.uuidV7Unsafe().replaceAll("-", "")}`
        yield* Effect.acquireRelease(
          sql.unsafe(`create role ${role} login password '${secret}'`),
          () => Effect.orDie(Effect.andThen(sql.unsafe(`drop owned by ${role}`), sql.unsafe(`drop role ${role}`))),
        )
        yield* Effect.provide(ServiceRole.grantRolePrivileges(role), owner)
        const url = new URL(Redacted.value(database))
        url.username = role
        url.password = secret
        const port = yield* chooseFreePort
        const running = yield* startCommandProcess(["--log-level", "all", "serve"], {
          DATABASE_URL: url.href,
          PORT: String(port),
          LOG_FORMAT: format,
        })
        yield* waitForOutput(running, /keys create/)

        // Without this lock, usage from the first request might be recorded before the outage.
        const isLocked = yield* Deferred.make<void>()
        yield* Effect.forkScoped(sql.withTransaction(
          sql`lock table usage_batches`.pipe(
            Effect.andThen(Deferred.succeed(isLocked, undefined)),
            Effect.andThen(Effect.never),
          ),
        ))
        yield* Deferred.await(isLocked)
        const responses = [yield* requestText(port, "/v1/screener", key)]
        yield* sql.unsafe(`alter role ${role} nologin password 'another'`)
        yield* sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}`
        const unavailable = Effect.repeat(requestText(port, "/health/ready", key), {
          until: (response) => response.startsWith("503 "),
          schedule: Schedule.spaced("20 millis"),
        })
        responses.push(yield* unavailable)
        for (const path of ["/v1/screener", "/estimate?endpoint=/v1/news", "/v1/account"]) {
          responses.push(yield* requestText(port, path, key))
        }
        responses.push(yield* exchangeText(port, `GET /v1/news?api_key=${key} and more HTTP/1.1\r\nHost: x\r\n\r\n`))
        responses.push(yield* exchangeText(port, `GET /v1/news HTTP/1.1\r\nX-API-Key : ${key}\r\nHost: x\r\n\r\n`))
        yield* waitForOutput(running, /The database cannot be reached/)
        assert.match(responses[0] ?? "", /^200 /)
        assert.match(responses.at(-1) ?? "", /^HTTP\/1\.1 400 /)
        yield* waitForOutput(running, /was not recorded/)
        // A graceful shutdown would wait for the database.
        yield* endProcess(running, "SIGKILL")
        for (const text of [...responses, combinedOutput(running)]) {
          assert.notInclude(text, secret)
          assert.notInclude(text, key.slice(12))
        }
      }),
  )
})
