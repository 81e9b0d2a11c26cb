/**
 * Runs the service under the permission models of Node and Deno, with only the permissions that it needs.
 * `test/operate/cli/commands.test.ts` does the same for the first start of the embedded server.
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { execFileSync } from "node:child_process"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import * as Processes from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const {
  combinedOutput,
  commandFile,
  endProcess,
  canWriteFiles,
  projectRoot,
  startProgram,
  waitForOutput,
} = Processes

/** Sends a GET request to the service. */
const get = (port: number, path: string, key: string) =>
  Effect.promise(async () => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { "X-API-Key": key } })
    return { status: response.status, text: await response.text() }
  })

/**
 * Starts, uses and stops the service with an external database. Fails if the service needs a permission that `flags` do
 * not grant.
 */
const checkConfinedService = Effect.fnUntraced(function* (program: string, flags: ReadonlyArray<string>) {
  const url = yield* Service.copyMigratedDatabase
  const context = yield* Layer.build(databaseClientLayer({ url, applicationName: "tickerline-test" }))
  const key = yield* Effect.provide(Service.ensureAccountWithKey("confined", "basic"), context)
  const port = yield* chooseFreePort
  const environment = { DATABASE_URL: Redacted.value(url), PORT: String(port), LOG_FORMAT: "json" }
  const running = yield* startProgram(program, [...flags, commandFile, "serve"], environment)
  yield* waitForOutput(running, /keys create/)
  assert.strictEqual((yield* get(port, "/v1/ticker-changes?ticker=NONE", key)).status, 200)
  assert.strictEqual((yield* get(port, "/v1/screener", key)).status, 200)
  assert.strictEqual((yield* get(port, "/v1/docs", key)).status, 200)
  assert.strictEqual((yield* endProcess(running, "SIGTERM")).code, 0)
  assert.notMatch(combinedOutput(running), /ERR_ACCESS_DENIED|NotCapable|ERROR/)
})

layer(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })(
  "A confined service",
  (it) => {
    it.effect("with DATABASE_URL, needs no write access to files under Node's permission model (operations/deployment)", () =>
      Effect.gen(function* () {
        const flags = ["--permission", `--allow-fs-read=${projectRoot}`]
        assert.isFalse(yield* canWriteFiles(process.execPath, flags))
        yield* checkConfinedService(process.execPath, flags)
      }))

    it.effect("with DATABASE_URL, needs access only to one network address, the project folder and the environment variables on Deno (operations/deployment)", () =>
      Effect.gen(function* () {
        const deno = execFileSync("deno", ["eval", "console.log(Deno.execPath())"], { encoding: "utf8" }).trim()
        const flags = ["run", "--no-prompt", "--allow-net=127.0.0.1", "--allow-env", `--allow-read=${projectRoot}`]
        assert.isFalse(yield* canWriteFiles(deno, flags))
        yield* checkConfinedService(deno, flags)
      }))
  },
)
