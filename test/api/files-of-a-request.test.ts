/** Tests that a request runs through the `src` files that docs/ARCHITECTURE.md lists. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Profiler, Session } from "node:inspector/promises"
import { readFileSync } from "node:fs"
import * as Service from "../support/Service.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"

const architecture = readFileSync(new URL("../../docs/ARCHITECTURE.md", import.meta.url), "utf8")

const maxFiles = 25

/** Returns the files listed in the section "A page" of docs/ARCHITECTURE.md, in the order of its steps. */
const listFiles = () => {
  const [, steps = ""] = /## A page\n([\s\S]*?)\n## /.exec(architecture) ?? []
  let folder = ""
  return Array.from(steps.matchAll(/`(src\/[\w/-]+\/)?((?:[\w-]+\/)?[A-Z]\w+\.ts)`/g), ([, at, name = ""]) => {
    folder = at ?? folder
    return `${folder}${name}`
  })
}

const withSession = <A, E, R>(use: (session: Session) => Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const session = new Session()
      session.connect()
      return session
    }),
    use,
    (session) => Effect.sync(() => session.disconnect()),
  )

/** Returns the `src` files in which a function ran since the last call. */
const takeFiles = (session: Session) =>
  Effect.map(
    Effect.promise(() => session.post("Profiler.takePreciseCoverage")),
    ({ result }: Profiler.TakePreciseCoverageReturnType) =>
      result.flatMap(({ functions, url }) => {
        const [, file] = /\/(src\/[^?]+\.ts)/.exec(url) ?? []
        const hasRun = functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0)
        return file !== undefined && !url.includes("node_modules") && hasRun ? [file] : []
      }),
  )

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(Service.sampleDatabaseLayer),
  Layer.provideMerge(NodeCrypto.layer),
  Layer.provideMerge(NodeServices.layer),
)

layer(database, { excludeTestServices: true, timeout: "60 seconds" })("A request", (it) => {
  it.effect("crosses the files that the architecture lists, at most 25 (ARCHITECTURE.md)", () =>
    Effect.gen(function* () {
      const port = yield* ServiceInstances.startServiceInstance()
      const { ultimate } = yield* Service.TestKeys
      const send = (query: string) =>
        ServiceInstances.requestOverWire(port, `/v1/intraday-runners?ticker=gap7,@@&${query}`, ultimate)
      yield* send("limit=1")
      const files = yield* withSession((session) =>
        Effect.gen(function* () {
          yield* Effect.promise(() => session.post("Profiler.enable"))
          yield* Effect.promise(() => session.post("Profiler.startPreciseCoverage", { callCount: true }))
          const { status } = yield* send("page=2&limit=2")
          assert.strictEqual(status, 200)
          return yield* takeFiles(session)
        })
      )
      const listed = listFiles()
      assert.isAtMost(new Set(listed).size, maxFiles)
      assert.includeMembers(files, listed)
    }).pipe(Effect.scoped))
})
