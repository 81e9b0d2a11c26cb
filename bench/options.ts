/**
 * The options of all benchmark commands. `main.ts` determines which options each command has, and sets their values
 * before the command runs.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { resolve } from "node:path"
import { fileURLToPath } from "node:url"

const text = (name: string, description: string) =>
  Flag.String(name).pipe(Flag.withDescription(description), Flag.optional, Flag.map(Option.getOrUndefined))

const splitList = (value: string | undefined) =>
  value?.split(",").map((word) => word.trim()).filter((word) => word !== "")

const list = (name: string, description: string) => Flag.map(text(name, description), splitList)

const boolean = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

const folder = (name: string, description: string) =>
  Flag.map(text(name, description), (path) => path === undefined ? undefined : resolve(path))

/** Defines an option whose value is a positive integer. */
export const count = (name: string, description: string, value: number) =>
  Flag.Int(name).pipe(
    Flag.filter((found) => found > 0, () => "Expected a whole number above 0"),
    Flag.withDescription(`${description} (default: ${value})`),
    Flag.withDefault(value),
  )

const project = fileURLToPath(new URL("..", import.meta.url))

/** All options. A command may use a different default. */
export const flags = {
  only: list("only", "What to measure, separated by commas (default: everything)"),
  servers: list("servers", "The servers to measure, such as tickerline,fastify (default: all)"),
  datasets: list("datasets", "Of intraday_runners, news and historical_float_pro (default: the first two)"),
  connections: list("connections", "The numbers of connections, such as 1,32 (default: all that a case has)").pipe(
    Flag.map((counts) => counts?.map(Number)),
    Flag.filter((counts) => counts?.every((one) => one > 0) ?? true, () => "Expected numbers above 0"),
  ),
  rounds: count("rounds", "Rounds of each measurement", 5),
  // wrk accepts only whole seconds.
  seconds: count("seconds", "Seconds of each measurement", 3),
  warmup: count("warmup", "Seconds of warm-up before each measurement", 1),
  warmupRequests: count("warmup-requests", "Requests that a server serves before a case is measured", 10_000),
  rows: count("rows", "Rows of a dataset, or requests of an account", 1_000_000),
  batches: count("batches", "Measured batches per case and process", 12),
  processes: count("processes", "Processes that measure, one after the other", 2),
  clients: count("clients", "Clients that follow the stream", 100),
  rate: count("rate", "Changes per second", 10_000),
  share: Flag.Finite("share").pipe(
    Flag.withDescription("CPU quota of each service, in cores (default: 0.25)"),
    Flag.withDefault(0.25),
  ),
  quick: boolean("quick", "Measure briefly, to see whether everything works"),
  fresh: boolean("fresh", "Create the data again"),
  skipMemory: boolean("skip-memory", "Do not measure the memory after a million requests"),
  skipGrowth: boolean("skip-growth", "Do not compare two sizes of a table"),
  write: boolean("write", "Write the tables into docs/SCALING.md"),
  tickerline: Flag.map(
    folder("tickerline", "Folder of the version to measure (default: this checkout)"),
    (path) => path ?? project,
  ),
  against: folder("against", "Folder of a version to compare with"),
  folder: Flag.map(folder("folder", "Folder with the archives (default: /tmp/edgar)"), (path) => path ?? "/tmp/edgar"),
}

type Options = { readonly [Name in keyof typeof flags]: typeof flags[Name] extends Flag.Flag<infer A> ? A : never }

/** The options of the current command. Options that the command does not have are set to their defaults. */
export let options: Options

/** Sets the options given on the command line. */
export const setOptions = (values: Partial<Options>) => {
  options = { ...options, ...values }
}

const readDefaults = Command.make("defaults", flags, (values) =>
  Effect.sync(() => {
    options = values
  }))
await Effect.runPromise(Effect.provide(Command.runWith(readDefaults, { version: "" })([]), NodeServices.layer))
