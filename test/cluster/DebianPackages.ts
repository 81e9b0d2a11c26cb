/** Installs missing Debian packages as root, without starting the services that they contain. */
import { Data, Effect } from "effect"
import { spawnSync } from "node:child_process"
import { accessSync, constants, existsSync, globSync, mkdirSync, rmSync, writeFileSync } from "node:fs"

/** Required packages, each with a glob pattern for a file that it installs. */
const requiredFiles = {
  "postgresql": "/usr/lib/postgresql/*/bin/postgres",
  "patroni": "/usr/bin/patroni",
  "python3-etcd": "/usr/lib/python3/dist-packages/etcd/__init__.py",
  "etcd-server": "/usr/bin/etcd",
  "pgbouncer": "/usr/sbin/pgbouncer",
  "haproxy": "/usr/sbin/haproxy",
  "iproute2": "/{bin,sbin,usr/bin,usr/sbin}/ip",
} as const

/** Required packages are missing and could not be installed. */
export class MissingPackages extends Data.TaggedError("MissingPackages")<{ readonly message: string }> {}

const findMissing = () =>
  Object.entries(requiredFiles).filter(([, place]) => globSync(place).length === 0).map(([name]) => name)

/**
 * Finds the programs of the oldest installed PostgreSQL version, because Patroni 3.0 does not support the newest
 * version.
 */
export const findPostgresPrograms = () =>
  globSync("/usr/lib/postgresql/*/bin").toSorted((left, right) => left.localeCompare(right, "en", { numeric: true }))
    .find((folder) => existsSync(`${folder}/initdb`)) ?? ""

/** Runs a program. Returns its standard error output if it failed, otherwise an empty string. */
const run = (program: string, args: ReadonlyArray<string>) => {
  const { status, stderr } = spawnSync(program, args, {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    encoding: "utf8",
  })
  return status === 0 ? "" : stderr
}

const apt = (args: ReadonlyArray<string>) => run("apt-get", ["-qq", "-o", "DPkg::Lock::Timeout=120", ...args])

/** Creates a file before an effect runs and removes it afterwards. If the file already exists, leaves it unchanged. */
const withFile = <A, E, R>(file: string, text: string, mode: number, act: Effect.Effect<A, E, R>) =>
  existsSync(file) ? act : Effect.acquireUseRelease(
    Effect.sync(() => writeFileSync(file, text, { mode })),
    () => act,
    () => Effect.sync(() => rmSync(file, { force: true })),
  )

const isWritable = (folder: string) => {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

const install = (names: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    yield* Effect.log(`Installing Debian packages: ${names.join(", ")}`)
    yield* Effect.sync(() => mkdirSync("/etc/postgresql-common/createcluster.d", { recursive: true }))
    const install = Effect.sync(() =>
      // Completes an interrupted installation. Otherwise apt-get would refuse to install anything.
      run("dpkg", ["--configure", "-a"]) ||
      apt(["update"]) ||
      apt(["install", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", ...names])
    )
    // These files keep the packages from starting services, and PostgreSQL's package from creating a cluster.
    const failure = yield* withFile(
      "/usr/sbin/policy-rc.d",
      "#!/bin/sh\nexit 101\n",
      0o755,
      withFile(
        "/etc/postgresql-common/createcluster.d/tickerline.conf",
        "create_main_cluster = false\n",
        0o644,
        install,
      ),
    )
    if (failure !== "") return yield* new MissingPackages({ message: `apt-get could not install them: ${failure}` })
  })

/**
 * Installs all missing packages. Without root privileges or outside Debian, fails with a message that contains the
 * command to run.
 */
export const installMissingPackages = Effect.gen(function* () {
  const before = findMissing()
  if (before.length === 0) return
  const command = `apt-get install --no-install-recommends ${before.join(" ")}`
  if (process.getuid?.() !== 0 || !isWritable("/usr/sbin") || !existsSync("/usr/bin/apt-get")) {
    return yield* new MissingPackages({
      message: `The cluster test needs missing packages. As root on Debian, run: ${command}`,
    })
  }
  yield* install(before)
  const after = findMissing()
  if (after.length > 0) {
    return yield* new MissingPackages({ message: `Still missing after ${command}: ${after.join(", ")}` })
  }
})
