/** Runs the service under the permission models of Node and Deno, which allow only what the service needs. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Redacted } from "effect"
import { execFileSync } from "node:child_process"
import { databaseClientLayer } from "../../src/db/Database.ts"
import * as Processes from "../support/Processes.ts"
import * as Service from "../support/Service.ts"

// @module-tag slow

const {
  endProcess,
  findFreePort,
  projectRoot,
  waitForOutput,
  startProgram,
  combinedOutput,
} = Processes

const get = (port: number, path: string, key: string) =>
  Effect.promise(async () => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { "X-API-Key": key } })
    return { status: response.status, text: await response.text() }
  })

const folder = Effect.flatMap(
  FileSystem.FileSystem,
  (fs) => fs.makeTempDirectoryScoped({ prefix: "tickerline-confined-" }),
)

/** Asserts that the flags take effect: a script with the same flags cannot write a temporary file. */
const cannotWrite = Effect.fnUntraced(function* (program: string, flags: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* folder}/written`
  const script = `import("node:fs").then((fs) => fs.writeFileSync(${JSON.stringify(file)}, ""))`
  const running = yield* startProgram(
    program,
    [...flags, ...(flags[0] === "run" ? [`data:text/javascript,${script}`] : ["--eval", script])],
    {},
  )
  assert.notStrictEqual((yield* Effect.promise(() => running.ended)).code, 0)
  assert.match(combinedOutput(running), /ERR_ACCESS_DENIED|NotCapable/)
  assert.isFalse(yield* fs.exists(file))
})

/** With an external database, the service reads its own folder and writes no files. */
const serves = Effect.fnUntraced(function* (program: string, flags: ReadonlyArray<string>) {
  const url = yield* Service.copyMigratedDatabase
  const context = yield* Layer.build(databaseClientLayer({ url, applicationName: "tickerline-test" }))
  const key = yield* Effect.provide(Service.ensureAccountWithKey("confined", "basic"), context)
  const port = yield* findFreePort
  const environment = { DATABASE_URL: Redacted.value(url), PORT: String(port), LOG_FORMAT: "json" }
  const running = yield* startProgram(program, [...flags, "src/main.ts", "serve"], environment)
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
    it.effect("writes no files with DATABASE_URL under Node's permission model (operations/deployment)", () =>
      Effect.gen(function* () {
        const flags = ["--permission", `--allow-fs-read=${projectRoot}`]
        yield* cannotWrite(process.execPath, flags)
        yield* serves(process.execPath, flags)
      }))

    it.effect("needs only one network address, its own folder and its settings with DATABASE_URL on Deno (operations/deployment)", () =>
      Effect.gen(function* () {
        const deno = execFileSync("deno", ["eval", "console.log(Deno.execPath())"], { encoding: "utf8" }).trim()
        const flags = ["run", "--no-prompt", "--allow-net=127.0.0.1", "--allow-env", `--allow-read=${projectRoot}`]
        yield* cannotWrite(deno, flags)
        yield* serves(deno, flags)
      }))

    it.effect("writes only to TICKERLINE_HOME with the embedded server (decisions/0085)", () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const place = yield* folder
        yield* fs.chmod(place, 0o755)
        const home = `${place}/home`
        yield* fs.makeDirectory(home)
        // Stops the server even if the test fails.
        yield* Effect.addFinalizer(() =>
          Effect.ignore(Effect.map(fs.readFileString(`${home}/postgres/cluster/data/postmaster.pid`), (text) => {
            process.kill(Number(text.split("\n")[0]), "SIGQUIT")
          }))
        )
        const flags = ["--permission", "--allow-fs-read=*", `--allow-fs-write=${home}`, "--allow-child-process"]
        yield* cannotWrite(process.execPath, flags)
        const port = yield* findFreePort
        const running = yield* startProgram(process.execPath, [...flags, "src/main.ts", "serve"], {
          TICKERLINE_HOME: home,
          PORT: String(port),
        })
        yield* waitForOutput(running, /Bearer tl_live_/)
        const key = (yield* fs.readFileString(`${home}/demo-key`)).trim()
        const { status, text } = yield* get(port, "/v1/ticker-changes?ticker=OSTK", key)
        assert.strictEqual(status, 200)
        assert.include(text, "NXH")
        assert.strictEqual((yield* endProcess(running, "SIGTERM")).code, 0)
      }))
  },
)
