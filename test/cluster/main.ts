/** `npm run test:cluster`: a cluster of this machine's own, and what goes wrong with it. See README.md beside it. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Console, Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { runInNamespaces, runScenarios } from "./Run.ts"

const command = Command.make(
  "test:cluster",
  {
    only: Flag.String("only").pipe(
      Flag.withDescription("Names of scenarios, separated by commas; left out: all"),
      Flag.optional,
    ),
    short: Flag.Boolean("short").pipe(
      Flag.withDescription("The scenarios that take the least time"),
      Flag.withDefault(false),
    ),
    keep: Flag.Boolean("keep").pipe(
      Flag.withDescription("Run no scenario, and keep the cluster up until Ctrl-C"),
      Flag.withDefault(false),
    ),
    loopback: Flag.Boolean("loopback").pipe(
      Flag.withDescription("Make hosts of addresses of the loopback, as where namespaces are refused"),
      Flag.withDefault(false),
    ),
    json: Flag.String("json").pipe(
      Flag.withDescription("The file that what was measured is written to"),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ json, keep, loopback, only, short }) {
    const folder = process.env["TICKERLINE_CLUSTER_FOLDER"]
    if (folder === undefined) return yield* runInNamespaces({ loopback })
    const isolated = process.env["TICKERLINE_CLUSTER_ISOLATED"] === "true"
    const names = Option.map(only, (text) => text.split(","))
    yield* runScenarios({ folder, isolated, only: names, short, keep, json: Option.getOrUndefined(json) })
  }),
).pipe(
  Command.withDescription("Builds a cluster of PostgreSQL, poolers, a balancer and the service, and breaks it"),
)

command.pipe(
  Command.run({ version: "1" }),
  Effect.tapCause((cause) => Console.error(Cause.pretty(cause))),
  Effect.provide(NodeServices.layer),
  (program) => NodeRuntime.runMain(program, { disableErrorReporting: true }),
)
