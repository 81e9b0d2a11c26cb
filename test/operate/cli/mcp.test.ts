/** Tests the `mcp` command: the MCP server over standard input and output (guides/mcp). */
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem } from "effect"
import { spawn } from "node:child_process"
import { createServer, type Server } from "node:http"
import { createInterface } from "node:readline"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import * as McpClients from "../../support/McpClients.ts"
import { commandFile, compileCacheFolder, projectRoot } from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"

const { servicePort, TestKeys, valueAt } = Service

// @module-tag slow

const environment = (more: Readonly<Record<string, string>>) => ({
  PATH: process.env["PATH"] ?? "",
  HOME: process.env["HOME"] ?? "",
  TICKERLINE_HOME: "/nonexistent",
  NODE_COMPILE_CACHE: compileCacheFolder,
  ...more,
})

/**
 * Starts the command. `send` writes a line to standard input, and `receive` returns the next line of standard output.
 */
const startRaw = (args: ReadonlyArray<string>, more: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [commandFile, "mcp", ...args], {
        cwd: projectRoot,
        env: environment(more),
      })
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      let errors = ""
      child.stderr.on("data", (chunk) => errors += String(chunk))
      const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
      return {
        child,
        send: (line: string) => void child.stdin.write(`${line}\n`),
        receive: Effect.promise(async (): Promise<unknown> => {
          const { done, value } = await lines.next()
          return done === true ? undefined : JSON.parse(value)
        }),
        end: Effect.promise(() => {
          child.stdin.end()
          return ended
        }),
        getErrors: () => errors,
      }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL")),
  )

const ping = (id: string | number) => JSON.stringify({ jsonrpc: "2.0", id, method: "ping" })

const callLineage = (ticker: string) =>
  JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "lineage", arguments: { ticker } } })

layer(Service.sampleServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })("mcp", (it) => {
  it.effect.each(McpClients.negotiationModes)(
    "connects the SDK's client, which negotiates as %s, to the service (guides/mcp)",
    (mode) =>
      Effect.gen(function* () {
        const { basic } = yield* TestKeys
        const url = `http://127.0.0.1:${yield* servicePort}`
        const client = yield* Effect.acquireRelease(
          Effect.promise(async () => {
            const client = McpClients.makeSdkClient(mode)
            await client.connect(
              new StdioClientTransport({
                command: process.execPath,
                args: [commandFile, "mcp", "--url", url],
                cwd: projectRoot,
                env: environment({ TICKERLINE_KEY: basic }),
              }),
            )
            return client
          }),
          (client) => Effect.promise(() => client.close()),
        )
        assert.strictEqual(client.getNegotiatedProtocolVersion(), McpClients.newestProtocolVersion[mode])
        const { tools } = yield* Effect.promise(() => client.listTools())
        assert.sameMembers(tools.map(({ name }) => name), ["find_endpoint", "query", "lineage", "estimate"])
        const results = yield* Effect.forEach(
          ["OSTK", "META"],
          (ticker) => McpClients.callTool(client, "lineage", { ticker }),
          { concurrency: 2 },
        )
        assert.deepStrictEqual(results.map(({ isError }) => isError), [false, true])
        assert.strictEqual(valueAt(results[0]?.value, "current_ticker"), "NXH")
        const { contents } = yield* Effect.promise(() => client.readResource({ uri: "tickerline://guides/errors" }))
        assert.strictEqual(contents.length, 1)
      }).pipe(Effect.scoped),
  )

  it.effect("prints only messages, reads the key from a file, and exits when its input ends (guides/mcp)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const fs = yield* FileSystem.FileSystem
      const keyFile = yield* fs.makeTempFileScoped()
      yield* fs.writeFileString(keyFile, `${basic}\n`)
      // The warning about the misspelled setting and the debug logs go to standard error.
      const { end, getErrors, receive, send } = yield* startRaw(
        ["--url", `http://127.0.0.1:${yield* servicePort}/`, "--key-file", keyFile],
        { LOG_LEVEL: "debug", METRICS_PROT: "1" },
      )
      send("no JSON")
      assert.strictEqual(valueAt(yield* receive, "error", "code"), -32700)
      send(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }))
      send("")
      send(ping("last"))
      assert.deepStrictEqual(yield* receive, { jsonrpc: "2.0", id: "last", result: {} })
      send(callLineage("OSTK"))
      assert.strictEqual(yield* end, 0)
      assert.strictEqual(valueAt(yield* receive, "result", "structuredContent", "current_ticker"), "NXH")
      assert.isUndefined(yield* receive)
      assert.include(getErrors(), "METRICS_PROT")
      assert.notInclude(getErrors(), basic)
    }).pipe(Effect.scoped))

  it.effect("prints each message as one line, and no web page (guides/mcp)", () =>
    Effect.gen(function* () {
      const port = yield* chooseFreePort
      const bodies = [`{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "result": {}\n}\n`, `<p>Use "jsonrpc" here.\n</p>`]
      yield* Effect.acquireRelease(
        Effect.callback<Server>((resume) => {
          const server = createServer((_, response) => response.end(bodies.shift()))
          server.listen(port, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.sync(() => server.close()),
      )
      const { receive, send } = yield* startRaw(["--url", `http://127.0.0.1:${port}`], { TICKERLINE_KEY: "x" })
      send(ping(1))
      assert.deepStrictEqual(yield* receive, { jsonrpc: "2.0", id: 1, result: {} })
      send(ping(2))
      assert.match(String(valueAt(yield* receive, "error", "message")), /is not an MCP server\.$/)
    }).pipe(Effect.scoped))

  it.effect("replies with the reason if the key is wrong or no service listens (guides/mcp)", () =>
    Effect.gen(function* () {
      const url = `http://127.0.0.1:${yield* servicePort}`
      const wrong = yield* startRaw(["--url", url], { TICKERLINE_KEY: "tl_live_wrong" })
      wrong.send(ping(1))
      assert.match(String(valueAt(yield* wrong.receive, "error", "message")), /^The API key is unknown\./)
      const none = yield* startRaw(["--url", url], {})
      none.send(ping(2))
      assert.match(String(valueAt(yield* none.receive, "error", "message")), /^No API key\./)
      const port = yield* chooseFreePort
      const absent = yield* startRaw(["--url", `http://127.0.0.1:${port}`], { TICKERLINE_KEY: "x" })
      absent.send(ping(3))
      assert.match(String(valueAt(yield* absent.receive, "error", "message")), /^Nothing answers at http:/)
    }).pipe(Effect.scoped))
})
