/**
 * `npm run test:cluster`: starts a cluster on this machine and makes its components fail. See README.md in this folder.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Console, Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { runInNamespaces, runScenarios } from "./Run.ts"

const command = Command.make(
  "test:cluster",
  {
    only: Flag.String("only").pipe(
      Flag.withDescription("Comma-separated names of scenarios (default: all)"),
      Flag.optional,
    ),
    short: Flag.Boolean("short").pipe(
      Flag.withDescription("Run the quickest scenarios only"),
      Flag.withDefault(false),
    ),
    keep: Flag.Boolean("keep").pipe(
      Flag.withDescription("Run no scenario, and keep the cluster up until Ctrl-C"),
      Flag.withDefault(false),
    ),
    loopback: Flag.Boolean("loopback").pipe(
      Flag.withDescription("Use loopback addresses as hosts, instead of namespaces"),
      Flag.withDefault(false),
    ),
    json: Flag.String("json").pipe(
      Flag.withDescription("Write the results to this file"),
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
  Command.withDescription("Starts a cluster of PostgreSQL, poolers, a load balancer and the service, and breaks it"),
)

command.pipe(
  Command.run({ version: "1" }),
  Effect.tapCause((cause) => Console.error(Cause.pretty(cause))),
  Effect.provide(NodeServices.layer),
  (program) => NodeRuntime.runMain(program, { disableErrorReporting: true }),
)
