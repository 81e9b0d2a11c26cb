/** Defines `npm run bench` and the other benchmark commands of `package.json`, with their options. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Console, Effect } from "effect"
import { CliOutput, Command } from "effect/cli"
import process from "node:process"
import { count, flags, options, setOptions } from "./options.ts"

type Load = () => Promise<unknown>
type Flags = Partial<typeof flags>

/**
 * Returns a function that imports a module. The path is not a string literal, because the tests import this file, and
 * their type check must not require the benchmark's dependencies.
 */
const run = (file: string): Load => () => import(`./${file}`)

/**
 * Creates a command. Importing the command's module runs it. `onChosen` receives a function that imports the module,
 * after the options have been set.
 */
const makeCommand = (onChosen: (load: Load) => void) => (name: string, description: string, flags: Flags, load: Load) =>
  Command.make(name, flags, (values) =>
    Effect.sync(() => {
      setOptions(values)
      onChosen(load)
    })).pipe(Command.withDescription(description))

/**
 * Creates all commands of the benchmarks. Each has a name, a description, options, and the module that it imports,
 * which measures. With `isQuick`, some options have different defaults. `onChosen` receives the function that imports
 * the module of the command that the user has chosen.
 */
const makeRootCommand = (isQuick: boolean, onChosen: (load: Load) => void) => {
  const make = makeCommand(onChosen)
  const { fresh, only, quick, rounds, rows, seconds, tickerline, warmup } = flags
  const rate = count("rate", "Requests per second", 50)
  const minute = count("seconds", "Seconds of each measurement", 60)
  const batches = count("batches", "Measured batches per case and process", isQuick ? 3 : 12)
  return Command.make("npm run").pipe(Command.withSubcommands([
    make("bench", "Compare Tickerline with other servers", {
      only,
      servers: flags.servers,
      connections: flags.connections,
      rounds: count("rounds", "Rounds of each measurement", isQuick ? 1 : 11),
      seconds: count("seconds", "Seconds of each measurement", 1),
      warmupRequests: count("warmup-requests", "Requests before the first round of a case", isQuick ? 1000 : 10_000),
      skipMemory: flags.skipMemory,
      skipGrowth: flags.skipGrowth,
      quick,
      fresh,
      tickerline,
    }, run("run.ts")),
    make("inprocess", "Measure requests and their steps without sockets and PostgreSQL", {
      only,
      batches,
      processes: count("processes", "Processes that measure, one after the other", isQuick ? 1 : 2),
      quick,
      fresh,
    }, run("inprocess.ts")),
    make(
      "growth",
      "Measure large tables",
      { datasets: flags.datasets, rows, tickerline },
      run("growth/run.ts"),
    ),
    make(
      "usage",
      "Measure how usage is written and read",
      { only, rounds, rows, tickerline, against: flags.against },
      run("growth/usage.ts"),
    ),
    make("past", "Compare pages of the past with current ones", { tickerline }, run("asOf.ts")),
    make("feed", "Measure streams of changes", {
      clients: flags.clients,
      rate: flags.rate,
      seconds: minute,
      tickerline,
    }, run("changeFeed.ts")),
    make("ingest", "Turn 2 GB of ownership filings into rows", {}, run("ingest.ts")),
    make("first-load", "Measure requests during a load of archives", {
      folder: flags.folder,
      rate,
      seconds: minute,
      tickerline,
    }, run("firstLoad.ts")),
    make(
      "costs",
      "Measure the costs of one request",
      { rounds, seconds, warmup, fresh, tickerline },
      run("capacity/costs.ts"),
    ),
    make("machines", "Compare two services with one", {
      rounds,
      seconds,
      warmup,
      share: flags.share,
      fresh,
      tickerline,
    }, run("capacity/machines.ts")),
    make(
      "capacity",
      "Print the tables of SCALING.md",
      { write: flags.write },
      () => import("./capacity/tables.ts").then(({ printTables }) => printTables(options.write)),
    ),
    make(
      "speed-table",
      "Write the figures of the newest report of `bench` into the README of the project",
      {},
      () => import("./speedTable.ts").then(({ writeSpeedSection }) => writeSpeedSection()),
    ),
    // The following commands run in processes that other commands start.
    make("measure", "Measure the cases of `inprocess`", { only, batches }, run("inprocess/measure.ts")).pipe(
      Command.unlisted,
    ),
    make("heap", "Measure the memory of a cached lineage", {}, run("inprocess/heap.ts")).pipe(
      Command.unlisted,
    ),
    make("usage-writing", "Write usage", { tickerline }, run("growth/usageWriting.ts")).pipe(
      Command.unlisted,
    ),
  ]))
}

/** Prints help that shows options after `--`, as npm requires. The flags that every Effect command has are left out. */
const presenter = CliOutput.layerPresenter({
  present: (event) => {
    if (event._tag === "Version") return CliOutput.defaultPresenter.present(event)
    const { globalFlags: _, ...rest } = event.helpDoc
    const helpDoc = { ...rest, usage: rest.usage.replace("[flags]", "-- [options]") }
    if (event._tag === "Help") return CliOutput.defaultPresenter.present({ ...event, helpDoc })
    const known = rest.flags.map(({ name }) => `--${name}`).join(", ")
    return Effect.forEach(event.errors, (error) =>
      Console.error(
        error._tag === "UnrecognizedOption"
          ? `${error.option} is not an option of ${event.commandPath.join(" ")}. It has ${known || "none"}.`
          : error.message,
      ), { discard: true })
  },
})

/**
 * Parses the arguments, and prints help or an error message if appropriate. Returns the exit code, and a function that
 * runs the selected command.
 */
export const chooseCommand = (args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    let chosen: Load | undefined
    const command = makeRootCommand(args.includes("--quick"), (load) => chosen = load)
    return yield* Effect.match(Command.runWith(command, { version: "0.1.0" })(args), {
      onFailure: () => ({ exitCode: 2, load: undefined }),
      onSuccess: () => ({ exitCode: 0, load: chosen }),
    })
  }).pipe(Effect.provide(presenter))

if (import.meta.main) {
  const { exitCode, load } = await Effect.runPromise(
    Effect.provide(chooseCommand(process.argv.slice(2)), NodeServices.layer),
  )
  process.exitCode = exitCode
  await load?.()
}
