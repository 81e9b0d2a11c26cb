/**
 * Creates hosts and starts programs on them. Each host is a network namespace connected to a bridge, inside namespaces
 * that end with this process. If namespaces are not permitted, each host is a loopback address and is isolated by
 * stopping its processes.
 */
import { Context, Data, Effect, Layer } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs"
import { performance } from "node:perf_hooks"
import { projectRoot } from "../support/Processes.ts"

/** The last octet of each host's IP address. `clients` and `stranger` are addresses that this process uses itself. */
const hostNumbers = {
  clients: 1,
  stranger: 2,
  db1: 11,
  db2: 12,
  db3: 13,
  app1: 21,
  app2: 22,
  app3: 23,
  lb: 41,
} as const

type AddressName = keyof typeof hostNumbers
/** The name of a host that runs programs. */
export type HostName = Exclude<AddressName, "clients" | "stranger">

const isHost = (name: string): name is HostName => name in hostNumbers && name !== "clients" && name !== "stranger"

/** The names of all hosts that run programs. */
export const hostNames: ReadonlyArray<HostName> = Object.keys(hostNumbers).filter(isHost)

/** A program to start on a host. */
export interface ProgramOptions {
  readonly host: HostName
  /** The name of the program and its log file. */
  readonly name: string
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
  /** Whether to run the program at a higher priority, so that a busy machine does not delay its heartbeats. */
  readonly isUrgent?: boolean
  /** Whether to run the program as the user `postgres`, because it refuses to run as root. */
  readonly asPostgres?: boolean
}

/** A program running on a host. */
export interface HostProgram {
  readonly name: string
  readonly pid: number
  readonly isRunning: () => boolean
  /** Sends a signal and waits until the program has exited. */
  readonly end: (signal: "SIGTERM" | "SIGKILL" | "SIGINT") => Effect.Effect<void>
}

/** A command could not be started or exited with a nonzero code. */
export class CommandFailed extends Data.TaggedError("CommandFailed")<{ readonly message: string }> {}

/** Settings for creating the hosts. */
export interface HostSettings {
  /** The run's folder. It contains one folder per host and one for logs. */
  readonly folder: string
  /** Whether hosts are network namespaces. Otherwise they are loopback addresses. */
  readonly isolated: boolean
}

/** Creates a network namespace for each host and connects the namespaces with a bridge. */
const makeNetwork = () => {
  const ip = (...args: ReadonlyArray<string>) => execFileSync("ip", args, { stdio: "pipe" })
  // `ip netns` stores namespace names in /run. A separate /run in this mount namespace keeps the names from appearing
  // on the machine.
  execFileSync("mount", ["-t", "tmpfs", "tmpfs", "/run"], { stdio: "pipe" })
  ip("link", "set", "lo", "up")
  ip("link", "add", "tickerline", "type", "bridge")
  for (const own of [hostNumbers.clients, hostNumbers.stranger]) {
    ip("address", "add", `10.77.0.${own}/24`, "dev", "tickerline")
  }
  ip("link", "set", "tickerline", "up")
  for (const host of hostNames) {
    ip("netns", "add", host)
    ip("link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", host)
    ip("link", "set", host, "master", "tickerline", "up")
    ip("-n", host, "address", "add", `10.77.0.${hostNumbers[host]}/24`, "dev", "eth0")
    ip("-n", host, "link", "set", "eth0", "up")
    ip("-n", host, "link", "set", "lo", "up")
  }
}

const isRoot = process.getuid?.() === 0

/** Returns the ids of all processes whose command line contains the host's folder. */
const findProcessIds = (folder: string, host: HostName) => {
  const found = execFileSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" }).split("\n")
  return found.filter((line) => line.includes(`${folder}/${host}/`)).map((line) => Number(line.trim().split(" ")[0]))
}

const make = ({ folder, isolated }: HostSettings) =>
  Effect.gen(function* () {
    if (isolated) yield* Effect.sync(makeNetwork)
    mkdirSync(`${folder}/logs`, { recursive: true })
    const running = new Map<HostName, Set<number>>(hostNames.map((host) => [host, new Set()]))
    const addressOf = (host: AddressName) => isolated ? `10.77.0.${hostNumbers[host]}` : `127.77.0.${hostNumbers[host]}`

    /** Creates a host's folder, owned by the user that runs the host's programs. Returns its path. */
    const folderOf = (host: HostName) => {
      const own = `${folder}/${host}`
      mkdirSync(own, { recursive: true })
      if (isRoot) execFileSync("chown", ["postgres:", own])
      return own
    }

    /** Returns the command line that runs a command on a host. The kernel kills the command when this process ends. */
    const buildCommand = (
      { args, asPostgres = false, command, host, isUrgent = false }: Omit<ProgramOptions, "name">,
    ) => [
      ...(isUrgent && isRoot ? ["nice", "-n", "-10"] : []),
      ...(isolated ? ["nsenter", `--net=/run/netns/${host}`, "--"] : []),
      "setpriv",
      "--pdeathsig",
      "KILL",
      ...(asPostgres && isRoot ? ["--reuid", "postgres", "--regid", "postgres", "--init-groups"] : []),
      "--",
      command,
      ...args,
    ]

    /** Starts a program and redirects its output to a log file. */
    const start = (wanted: ProgramOptions) =>
      Effect.sync((): HostProgram => {
        const { env = {}, host, name } = wanted
        const log = openSync(`${folder}/logs/${name}.log`, "a")
        const [first = "", ...rest] = buildCommand(wanted)
        const child = spawn(first, rest, {
          cwd: projectRoot,
          env: { PATH: `${process.env["PATH"]}:/usr/sbin:/sbin`, LC_ALL: "C.UTF-8", HOME: folderOf(host), ...env },
          stdio: ["ignore", log, log],
        })
        closeSync(log)
        const pid = child.pid ?? 0
        const all = running.get(host)
        all?.add(pid)
        const { promise, resolve } = Promise.withResolvers<void>()
        let hasEnded = false
        const handleEnd = () => {
          hasEnded = true
          all?.delete(pid)
          resolve()
        }
        child.once("exit", handleEnd)
        child.once("error", handleEnd)
        const end = (signal: NodeJS.Signals) =>
          Effect.andThen(Effect.sync(() => child.kill(signal)), Effect.promise(() => promise))
        return { name, pid, isRunning: () => !hasEnded, end }
      })

    /**
     * Runs a command to completion. Returns its standard output, or fails with its standard error and standard output.
     */
    const run = (wanted: Omit<ProgramOptions, "name">) =>
      Effect.callback<string, CommandFailed>((resume) => {
        const [first = "", ...rest] = buildCommand(wanted)
        const child = spawn(first, rest, {
          cwd: projectRoot,
          env: { PATH: `${process.env["PATH"]}:/usr/sbin:/sbin`, LC_ALL: "C.UTF-8", ...wanted.env },
          stdio: ["ignore", "pipe", "pipe"],
        })
        let [out, err] = ["", ""]
        child.stdout.on("data", (chunk) => out += String(chunk))
        child.stderr.on("data", (chunk) => err += String(chunk))
        child.once("error", ({ message }) => resume(Effect.fail(new CommandFailed({ message }))))
        child.once("close", (code) => {
          const message = `${wanted.command} ${wanted.args.join(" ")} ended with ${code}: ${err}${out}`
          resume(code === 0 ? Effect.succeed(out) : Effect.fail(new CommandFailed({ message })))
        })
        return Effect.sync(() => child.kill("SIGKILL"))
      })

    const signalAll = (host: HostName, signal: NodeJS.Signals) => {
      const found = new Set([...running.get(host) ?? [], ...findProcessIds(folder, host)])
      for (const pid of found) {
        try {
          process.kill(pid, signal)
        } catch {
          // The process has already exited.
        }
      }
    }
    const link = (host: HostName, state: "up" | "down") => execFileSync("ip", ["link", "set", host, state])
    /** Isolates a host: silently drops all its network packets or, without namespaces, suspends its processes. */
    const cut = (host: HostName) => Effect.sync(() => isolated ? link(host, "down") : signalAll(host, "SIGSTOP"))
    const reconnect = (host: HostName) => Effect.sync(() => isolated ? link(host, "up") : signalAll(host, "SIGCONT"))
    /** Kills all processes on a host at the same time, including processes whose parent has exited. */
    const kill = (host: HostName) => Effect.sync(() => signalAll(host, "SIGKILL"))

    yield* Effect.addFinalizer(() => Effect.sync(() => hostNames.forEach((host) => signalAll(host, "SIGKILL"))))
    const logOf = (name: string) => readFileSync(`${folder}/logs/${name}.log`, "utf8")
    return {
      folder,
      isolated,
      addressOf,
      folderOf,
      start,
      run,
      cut,
      reconnect,
      kill,
      logOf,
      now: () => performance.now(),
    }
  })

/** The hosts on which everything else in the cluster runs. */
export class ClusterHosts
  extends Context.Service<ClusterHosts, Effect.Success<ReturnType<typeof make>>>()("test/cluster/ClusterHosts") {
  static readonly layer = (settings: HostSettings) => Layer.effect(ClusterHosts, make(settings))
}
