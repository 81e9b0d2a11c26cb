/**
 * Runs the cluster test in two processes. The outer process installs packages, creates namespaces, and starts this
 * program again inside them. The inner process starts the cluster and runs the scenarios. It ends when the outer
 * process ends.
 */
import { Cause, Data, Effect, Exit, Layer, Option } from "effect"
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { projectRoot } from "../support/Processes.ts"
import { Cluster } from "./Cluster.ts"
import * as DebianPackages from "./DebianPackages.ts"
import * as Report from "./Report.ts"
import { runScenario, type ScenarioResult } from "./Scenario.ts"
import { clusterScenarios } from "./Scenarios.ts"
import { ClusterHosts, hostNames } from "./Hosts.ts"

class Failed extends Data.TaggedError("Failed")<{ readonly message: string }> {}

const prefix = "tickerline-cluster-"

/**
 * Kills all processes whose command line contains the run's folder. Otherwise PostgreSQL might keep running after the
 * run.
 */
const killProcesses = (folder: string) => {
  for (const line of spawnSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" }).stdout.split("\n")) {
    const pid = Number(line.trim().split(" ")[0])
    if (!line.includes(`${folder}/`) || pid === process.pid) continue
    try {
      process.kill(pid, "SIGKILL")
    } catch {
      // The process has already exited.
    }
  }
}

/** Cleans up after runs that were killed: kills their remaining processes and deletes their folders. */
const removeKilledRuns = Effect.sync(() => {
  for (const name of readdirSync(tmpdir()).filter((name) => name.startsWith(prefix))) {
    const folder = join(tmpdir(), name)
    const owner = join(folder, "pid")
    if (!existsSync(owner) || existsSync(`/proc/${readFileSync(owner, "utf8")}`)) continue
    killProcesses(folder)
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
})

const namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]

/**
 * Runs the program from a shell, because the first process in a PID namespace must reap orphans, which Node.js does not
 * do.
 */
const shell = ["bash", "-c", `"$@" & wait $!`, "cluster"]

const canCreateNamespaces = () => {
  const [first = "", ...rest] = namespaces
  return spawnSync(first, [...rest, "ip", "link", "add", "probe", "type", "bridge"]).status === 0
}

/** Creates the folder for a run. At the end, deletes it, but keeps the logs if the run failed. */
const makeRunFolder = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = mkdtempSync(join(tmpdir(), prefix))
    chmodSync(folder, 0o755)
    writeFileSync(join(folder, "pid"), String(process.pid))
    return folder
  }),
  (folder, exit) =>
    Effect.sync(() => {
      killProcesses(folder)
      if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)) {
        return rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
      }
      for (const name of readdirSync(folder)) {
        if (name !== "logs") {
          rmSync(join(folder, name), { recursive: true, force: true })
        }
      }
      process.stderr.write(`The logs of all processes are in ${join(folder, "logs")}\n`)
    }),
)

/** Runs the outer process. With `loopback`, creates no namespaces. */
export const runInNamespaces = ({ loopback }: { readonly loopback: boolean }) =>
  Effect.gen(function* () {
    yield* removeKilledRuns
    yield* DebianPackages.installMissingPackages
    const isolated = !loopback && canCreateNamespaces()
    if (!isolated) {
      yield* Effect.logWarning(
        `${
          loopback ? "As requested" : "Namespaces are not permitted here"
        }: hosts are loopback addresses, and a host is isolated by stopping its processes.`,
      )
    }
    const folder = yield* makeRunFolder
    const all = ["setpriv", "--pdeathsig", "KILL", "--", ...isolated ? namespaces : [], ...shell]
    const [first = "", ...rest] = [...all, process.execPath, ...process.argv.slice(1)]
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(first, rest, {
          cwd: projectRoot,
          // In its own process group, the inner process does not receive Ctrl-C from the terminal. The outer process
          // receives it and stops the inner one.
          detached: true,
          stdio: ["ignore", "inherit", "inherit"],
          env: { ...process.env, TICKERLINE_CLUSTER_FOLDER: folder, TICKERLINE_CLUSTER_ISOLATED: String(isolated) },
        })
      ),
      (child) => stopChild(child, "SIGKILL"),
    )
    const code = yield* Effect.promise(() => waitForExit(child))
    if (code !== 0) return yield* new Failed({ message: "The cluster test failed." })
  }).pipe(Effect.scoped)

const waitForExit = (child: ChildProcess) =>
  new Promise<number | null>((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve(child.exitCode)
    else child.once("exit", resolve)
  })

const stopChild = (child: ChildProcess, signal: NodeJS.Signals) =>
  Effect.andThen(
    Effect.sync(() => {
      // Signals the entire process group, including the shell.
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, signal)
    }),
    Effect.promise(() => waitForExit(child)),
  )

/** The options of the process inside the network namespace: how to create the hosts, and the command-line options. */
export interface ScenarioRunOptions {
  readonly folder: string
  readonly isolated: boolean
  readonly only: Option.Option<ReadonlyArray<string>>
  readonly short: boolean
  readonly keep: boolean
  readonly json: string | undefined
}

const chooseScenarios = ({ only, short }: ScenarioRunOptions) => {
  const names = Option.getOrElse(
    only,
    () => clusterScenarios.filter((one) => !short || one.isInShortRun === true).map(({ name }) => name),
  )
  const unknown = names.filter((name) => !clusterScenarios.some((one) => one.name === name))
  if (unknown.length > 0) {
    const known = clusterScenarios.map(({ name }) => name).join(", ")
    return Effect.fail(new Failed({ message: `There is no scenario ${unknown.join(", ")}. There are: ${known}` }))
  }
  return Effect.succeed(clusterScenarios.filter(({ name }) => names.includes(name)))
}

/** Prints instructions for using the cluster, and keeps it running. */
const keepRunning = Effect.gen(function* () {
  const { address, hosts, keys } = yield* Cluster
  yield* Effect.log([
    "The cluster runs until Ctrl-C.",
    ...hosts.isolated
      ? [`To enter it: nsenter --target ${"$(pgrep --oldest --full TICKERLINE_CLUSTER)"} --net --mount --pid`]
      : [],
    ...hostNames.map((host) => `${host}: ${hosts.addressOf(host)}`),
    `The service: http://${address.host}:${address.port}`,
    ...Object.entries(keys).map(([account, key]) => `An API key of ${account}: ${key}`),
    `Logs: ${hosts.folder}/logs`,
  ].join("\n"))
  return yield* Effect.never
})

/** Runs the inner process: starts the cluster and runs the chosen scenarios. Fails if any scenario fails. */
export const runScenarios = (settings: ScenarioRunOptions) =>
  Effect.gen(function* () {
    const wanted = yield* chooseScenarios(settings)
    if (settings.keep) return yield* keepRunning
    const results: Array<ScenarioResult> = []
    let isIncomplete = false
    for (const [at, scenario] of wanted.entries()) {
      yield* Effect.log(`${scenario.name}: ${scenario.promise}`)
      const result = yield* Effect.result(runScenario(scenario, `s${at}x`))
      if (result._tag === "Failure") {
        // The cluster may be broken now, so the results of later scenarios would be meaningless.
        yield* Effect.logError(`${scenario.name} could not be run: ${result.failure.message}`)
        isIncomplete = true
        break
      }
      results.push(result.success)
      yield* Effect.log(Report.formatResult(result.success))
    }
    yield* Report.writeReport(results, settings)
    if (isIncomplete || results.some(({ wrong }) => wrong.length > 0)) {
      return yield* new Failed({ message: "Some scenarios failed." })
    }
  }).pipe(Effect.provide(Cluster.layer.pipe(Layer.provide(ClusterHosts.layer(settings)))))
