/** Runs this project and an invented next release on the same database, behind a load balancer. */
import { Data, Effect, FileSystem, Schedule } from "effect"
import packageJson from "../../package.json" with { type: "json" }
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { haproxyProgram } from "../support/HaProxy.ts"
import { requestOverWire } from "../support/ServiceInstances.ts"
import { type Environment, projectRoot, startProgram } from "../support/Processes.ts"
import { copyProjectWithRecipes } from "../support/Recipes.ts"

/** The release installed before the upgrade: the code in this repository. */
export const installedRelease = { version: packageJson.version, folder: projectRoot }

/** The version of an invented next release, which adds the field, filter and endpoint described in docs/recipes.md. */
export const nextVersion = packageJson.version.replace(/\.(\d+)\.\d+$/, (_, minor: string) => `.${Number(minor) + 1}.0`)

/** The missing prerequisite, for the title of the skipped test. It is empty if the test can run. */
export const missingPrerequisite = haproxyProgram === undefined ? "no haproxy" : ""

export class MissingPrerequisite extends Data.TaggedError("MissingPrerequisite")<{ readonly message: string }> {}

/** Builds the next release in a temporary folder. Returns the folder. */
export const makeNextRelease = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* copyProjectWithRecipes
  const file = `${folder}/package.json`
  const text = yield* fs.readFileString(file)
  yield* fs.writeFileString(file, text.replace(`"version": "${packageJson.version}"`, `"version": "${nextVersion}"`))
  return folder
})

/** Runs a command from a release's source folder. Returns its output. */
export const runReleaseCommand = (folder: string, environment: Environment, ...args: ReadonlyArray<string>) =>
  Effect.scoped(Effect.gen(function* () {
    const { ended } = yield* startProgram(process.execPath, [`${folder}/src/main.ts`, ...args], environment)
    const { code, err, out } = yield* Effect.promise(() => ended)
    if (code !== 0) return yield* new MissingPrerequisite({ message: `${args.join(" ")}: ${err}` })
    return out.trim()
  }))

/** Starts the service from a release's source folder and waits until it is ready. */
export const startRelease = Effect.fnUntraced(function* (folder: string, port: number, environment: Environment) {
  const running = yield* startProgram(process.execPath, [`${folder}/src/main.ts`, "serve"], {
    PORT: String(port),
    ...environment,
  })
  const ready = Effect.flatMap(
    requestOverWire(port, "/health/ready", ""),
    ({ status }) =>
      status === 200 ? Effect.void : Effect.fail(new MissingPrerequisite({ message: running.output.err })),
  )
  yield* Effect.retry(ready, {
    schedule: Schedule.spaced("50 millis"),
    times: 1800,
    while: () => running.child.exitCode === null,
  })
  return running
})

/** Starts HAProxy with retries disabled and without TLS. */
export const startLoadBalancer = Effect.fnUntraced(function* (backends: ReadonlyArray<number>) {
  if (haproxyProgram === undefined) return yield* new MissingPrerequisite({ message: "REQUIRE_UPGRADE: no haproxy" })
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-haproxy-" })
  const [port, stats] = [yield* chooseFreePort, yield* chooseFreePort]
  const servers = backends.map((backend) => `  server s${backend} 127.0.0.1:${backend}`)
  yield* fs.writeFileString(
    `${folder}/haproxy.cfg`,
    [
      "defaults",
      "  mode http",
      "  timeout connect 5s",
      "  timeout client 60s",
      "  timeout server 60s",
      // With a short timeout, HAProxy would mistake a slow process on a busy machine for a dead one.
      "  timeout check 5s",
      "  retries 0",
      "  option forwardfor",
      "listen states",
      `  bind 127.0.0.1:${stats}`,
      "  stats enable",
      "  stats uri /states",
      "frontend clients",
      `  bind 127.0.0.1:${port}`,
      "  default_backend tickerline",
      "backend tickerline",
      "  option httpchk GET /health/ready",
      "  default-server check inter 500ms fall 2 rise 1",
      ...servers,
      "",
    ].join("\n"),
  )
  yield* startProgram(haproxyProgram, ["-db", "-f", `${folder}/haproxy.cfg`], {})
  /** Fails until the first health checks are done. Until then, HAProxy assumes that every server is ready. */
  const settled = Effect.flatMap(
    requestOverWire(stats, "/states;csv", ""),
    ({ text }) =>
      /,UP,/.test(text) && backends.length - 1 === Array.from(text.matchAll(/^tickerline,s\d+,.*,DOWN,/gm)).length
        ? Effect.void
        : Effect.fail(new MissingPrerequisite({ message: text })),
  )
  yield* Effect.retry(settled, { schedule: Schedule.spaced("50 millis"), times: 600 })
  return port
})
