/**
 * Tests how much memory a completed request leaves behind. Nothing may retain its connection, and V8 must have little
 * to promote to the old generation (§8, performance).
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { globSync, readFileSync } from "node:fs"
import { IncomingMessage, ServerResponse } from "node:http"
import { connect } from "node:net"
import { join } from "node:path"
import { queryObjects } from "node:v8"
import { parseAst } from "rolldown/parseAst"
import { buildUrl, documentedDatasetEndpoints, makeRequiredQuery } from "../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import { printOnSignal, takeHeapSample } from "../support/HeapSamples.ts"
import { projectRoot, type RunningProcess } from "../support/Processes.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as Service from "../support/Service.ts"
import {
  databaseWithKeysLayer,
  requestOverWire,
  startServiceInstance,
  startServiceProcess,
} from "../support/ServiceInstances.ts"

/** All source files that run for each request. Other files of `postgres` run at startup, per connection, or in jobs. */
const sourceFiles = globSync(
  ["src/{api,accounts,contract,query,site}/**/*.ts", "src/postgres/{Re*,*Reader,*Row*,*Record}.ts"],
  {
    cwd: projectRoot,
  },
).toSorted()

/** Functions that run only once, although they are neither the generator of a layer nor inside one. */
const runOnce: ReadonlyArray<string> = [
  "layer",
  "compileList",
  "makeListReader",
  "makeBruteForceGuard",
  "makeEmptyReasonFinder",
  "makeInternalApiClient",
  "makeMcpPipeline",
  "makeResolvedEndpoint",
  "makeSecretFormat",
  "makeTickerChangeReader",
  "makeWriteLoop",
]

/** Factories that run once per exported Parquet file. Their generators retain the file, not the request. */
const runPerFile: ReadonlyArray<string> = ["makeParquetWriter", "makeParquetExportWriter"]

/** Enough requests to cause several scavenges. */
const requestsPerMeasurement = 4_000

/**
 * The maximum number of bytes that V8 may promote to the old generation per request: less than the size of an object
 * with its usage.
 */
const maxPromotedBytes = 500

/**
 * The bytes in the old generation, and the number of compactions. A compaction between two samples makes them
 * incomparable.
 */
const OldGeneration = Schema.Struct({ bytes: Schema.Finite, compactions: Schema.Finite })

const printOldGeneration = printOnSignal(`{
  bytes: getHeapSpaceStatistics().find(({ space_name }) => space_name === "old_space").space_used_size,
  compactions,
}`)

const readOldGeneration = (running: RunningProcess) =>
  Effect.flatMap(takeHeapSample(running), Schema.decodeUnknownEffect(OldGeneration))

/** Measures by how many bytes a process's old generation grows while an effect runs. */
const measurePromotedBytes = Effect.fnUntraced(function* <E>(running: RunningProcess, run: Effect.Effect<void, E>) {
  const before = yield* readOldGeneration(running)
  yield* run
  const after = yield* readOldGeneration(running)
  return after.compactions === before.compactions ? after.bytes - before.bytes : Infinity
})

/** Sends requests over ten connections, each after the previous response. The client allocates few objects. */
const sendRequests = ({ count, key, makeTarget, port }: {
  readonly port: number
  readonly key: string
  readonly count: number
  readonly makeTarget: () => string
}) =>
  Effect.callback<void, string>((resume) => {
    let [remaining, open] = [count, 10]
    for (const _ of Array.from({ length: open })) {
      const socket = connect(port, "127.0.0.1")
      const send = () => {
        if (remaining-- > 0) {
          socket.write(`GET ${makeTarget()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
        } else {
          socket.destroy()
          if (--open === 0) resume(Effect.void)
        }
      }
      let received = ""
      socket.on("data", (chunk) => {
        received += chunk.toString("latin1")
        const [head = "", body] = received.split("\r\n\r\n")
        const length = Number(/^content-length: (\d+)/im.exec(head)?.[1])
        if (body === undefined || body.length < length) return
        if (!head.startsWith("HTTP/1.1 200")) return resume(Effect.fail(received))
        received = ""
        send()
      })
      socket.on("connect", send)
      socket.on("error", ({ message }) => resume(Effect.fail(message)))
    }
  })

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
}

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value

const childrenOf = (node: Node): ReadonlyArray<Node> => Object.values(node).flat().filter(isNode)

/** Returns the source text of each generator function that is created inside a function that may run more than once. */
const findRepeatedGenerators = (code: string) => {
  const textOf = ({ end, start }: Node) => code.slice(start, end)
  const found: Array<string> = []
  /**
   * `name` is the variable or property to which the expression in `node` is assigned, directly or as an argument of a
   * call.
   */
  const visit = (node: Node, parent: Node | undefined, isRepeated: boolean, name = "") => {
    const isFunction = /Function/.test(node.type) && "body" in node && node.body !== null
    const isGenerator = isFunction && "generator" in node && node.generator === true
    if (isGenerator && isRepeated) found.push(`${textOf(node).slice(0, 80)}…`)
    const isLayer = isGenerator && !isRepeated && parent !== undefined && textOf(parent).startsWith("Effect.gen(")
    const isOnce = isLayer || [...runOnce, ...runPerFile].includes(name)
    const within = isFunction ? isRepeated || !isOnce : isRepeated
    const isNamed = /^(VariableDeclarator|Property|PropertyDefinition)$/.test(node.type)
    const inner = isNamed ? /^(?:static readonly )?(\w*)/.exec(textOf(node))?.[1] : isFunction ? "" : name
    for (const child of childrenOf(node)) visit(child, node, within, inner)
  }
  for (const node of parseAst(code, { lang: "ts" }).body) visit(node, undefined, false)
  return found
}

describe("Functions that run per request", () => {
  it("create no generator function, which V8 keeps with the request (§8)", () => {
    const found = sourceFiles.flatMap((file) =>
      findRepeatedGenerators(readFileSync(join(projectRoot, file), "utf8")).map((text) => `${file}: ${text}`)
    )
    assertFoundMoreThan(100, "source files", sourceFiles)
    assert.deepStrictEqual(found, [])
  })

  it("are found by this test if they create one (§8)", () => {
    const nested = "const answer = (request) => Effect.gen(function* () { yield* request })"
    const inLayer = `class A { static readonly layer = Layer.effect(A, Effect.gen(function* () { ${nested} })) }`
    assert.lengthOf(findRepeatedGenerators(nested), 1)
    assert.lengthOf(
      findRepeatedGenerators("const makeBody = () => ({ read: Effect.gen(function* () { yield* x }) })"),
      1,
    )
    assert.lengthOf(findRepeatedGenerators(inLayer), 1)
    assert.isEmpty(findRepeatedGenerators("const answer = Effect.fnUntraced(function* (request) { yield* request })"))
  })
})

const filled = Layer.effectDiscard(GeneratedRows.fillAllTables(300)).pipe(Layer.provideMerge(databaseWithKeysLayer))

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("A request that was answered", (it) => {
  it.effect("is kept by no cache, on any endpoint of a dataset (§8)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const port = yield* startServiceInstance()
      const countLiving = () =>
        [IncomingMessage, ServerResponse].map((constructor) => queryObjects(constructor, { format: "count" }))
      const before = countLiving()
      let requests = 0
      for (const endpoint of documentedDatasetEndpoints.filter(({ path }) => path.startsWith("/v1/"))) {
        const names = new Set(endpoint.parameters.map(({ name }) => name))
        for (let number = 0; number < 12; number++) {
          const isPast = names.has("as_of") && number % 4 === 1
          const url = buildUrl(endpoint.path, [
            ...makeRequiredQuery(endpoint, "ticker"),
            ...(names.has("ticker") ? [["ticker", `T${number}`]] as const : []),
            ...(names.has("limit") ? [["limit", "2"]] as const : []),
            ...(names.has("follow_lineage") && number % 2 === 0 ? [["follow_lineage", "true"]] as const : []),
            ...(names.has("explain") && number % 3 === 0 ? [["explain", "true"]] as const : []),
            ...(isPast ? [["as_of", "now"]] as const : []),
          ])
          for (let repetition = 0; repetition < 4; repetition++) {
            // For /v1/historical-tickers, most symbols do not exist and get a 404.
            assert.include([200, 404], (yield* requestOverWire(port, url, ultimate)).status, url)
            requests += 1
          }
        }
      }
      assert.isAbove(requests, 500)
      const [messages = 0, responses = 0] = countLiving().map((count, index) => count - (before[index] ?? 0))
      // A few messages belong to connections that are still open.
      assert.isBelow(messages, 20, "requests")
      assert.isBelow(responses, 20, "responses")
    }).pipe(Effect.scoped))

  it.effect("is kept in no packets of its connection, which stays open (§8)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const port = yield* startServiceInstance()
      const countPackets = () => queryObjects(Buffer, { format: "count" })
      const before = countPackets()
      const count = 600
      let [sent, packets] = [0, Infinity]
      const makeTarget = () => {
        sent += 1
        // Counts while all connections are still open.
        if (sent === count) packets = countPackets() - before
        return "/health/live"
      }
      yield* sendRequests({ port, key: ultimate, count, makeTarget })
      // Each of the ten connections may keep its last packet.
      assert.isBelow(packets, count / 4)
    }).pipe(Effect.scoped))

  it.effect("leaves little in the old generation, from the cache and from memory (§8)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      // Runs in a separate process, because earlier tests in this process affect what V8 promotes.
      const { port, running } = yield* startServiceProcess(yield* Service.databaseUrl, {
        NODE_OPTIONS: `--max-semi-space-size=16 --import "${printOldGeneration}"`,
        RATE_LIMIT_ULTIMATE: "1000000000",
      })
      const hit = () => "/v1/news?limit=10"
      let number = 0
      const lineage = () => `/v1/ticker-changes?ticker=Q${(number++).toString(36).toUpperCase()}`
      for (const makeTarget of [hit, lineage]) {
        const send = (count: number) => sendRequests({ port, key: ultimate, count, makeTarget })
        yield* send(20_000)
        // Repeats the measurement, because on a busy machine pending usage may add bytes. Bytes that every request
        // leaves behind appear in every measurement.
        const bytesPerRequest = yield* measurePromotedBytes(running, send(requestsPerMeasurement)).pipe(
          Effect.map((bytes) => bytes / requestsPerMeasurement),
          Effect.repeat({ until: (bytes) => bytes < maxPromotedBytes, times: 20 }),
        )
        assert.isBelow(bytesPerRequest, maxPromotedBytes, makeTarget())
      }
    }).pipe(Effect.scoped))
})
