/** Prints the scenario results as a table, and writes them as JSON. */
import { Console, Effect } from "effect"
import { writeFileSync } from "node:fs"
import { cpus } from "node:os"
import type { ScenarioResult } from "./Scenario.ts"
import { patroniTiming } from "./Patroni.ts"

const formatResponses = ({ responses }: ScenarioResult) =>
  Object.entries(responses).toSorted().map(([name, count]) => `${count} × ${name}`).join(", ")

const formatFindings = ({ findings }: ScenarioResult) =>
  Object.entries(findings).map(([name, value]) => `${name} ${value}`).join(", ")

/** Formats a scenario's result for the terminal. */
export const formatResult = (result: ScenarioResult) =>
  [
    `${result.wrong.length === 0 ? "passed" : "FAILED"}: ${result.scenario} (${result.seconds} s)`,
    `  ${formatResponses(result)}; outage ${result.outage} s, slowest ${result.slowest} s (${result.slowestWas})`,
    `  ${result.recorded} recorded, ${result.missing} missing as allowed`,
    ...(formatFindings(result) === "" ? [] : [`  ${formatFindings(result)}`]),
    ...result.wrong.map((text) => `  error: ${text}`),
  ].join("\n")

const formatTable = (results: ReadonlyArray<ScenarioResult>) =>
  [
    "| Scenario | Passed | Requests | Outage | Slowest | Responses | Figures |",
    "| --- | --- | --: | --: | --: | --- | --- |",
    ...results.map((one) => {
      const passed = one.wrong.length === 0 ? "yes" : "NO"
      const cells = [
        one.scenario,
        passed,
        one.requests,
        `${one.outage} s`,
        `${one.slowest} s`,
        formatResponses(one),
        formatFindings(one),
      ]
      return `| ${cells.join(" | ")} |`
    }),
  ].join("\n")

/** Prints the table. If a `json` file is given, also writes all figures to it. */
export const writeReport = (
  results: ReadonlyArray<ScenarioResult>,
  { isolated, json }: { readonly isolated: boolean; readonly json: string | undefined },
) =>
  Effect.gen(function* () {
    yield* Console.log(formatTable(results))
    if (json === undefined) return
    const report = { at: new Date().toISOString(), cores: cpus().length, isolated, patroni: patroniTiming, results }
    yield* Effect.sync(() => writeFileSync(json, `${JSON.stringify(report, null, 2)}\n`))
  })
