/** Prints the results as a table, and writes them as JSON. */
import { Console, Effect } from "effect"
import { writeFileSync } from "node:fs"
import { cpus } from "node:os"
import type { ScenarioResult } from "./Scenario.ts"
import { patroniTiming } from "./Patroni.ts"

const formatResponses = ({ responses }: ScenarioResult) =>
  Object.entries(responses).toSorted().map(([name, count]) => `${count} × ${name}`).join(", ")

const findingsOf = ({ findings }: ScenarioResult) =>
  Object.entries(findings).map(([name, value]) => `${name} ${value}`).join(", ")

export const formatResult = (result: ScenarioResult) =>
  [
    `${result.wrong.length === 0 ? "passed" : "FAILED"}: ${result.scenario} (${result.seconds} s)`,
    `  ${formatResponses(result)}; outage ${result.outage} s, slowest ${result.slowest} s (${result.slowestWas})`,
    `  ${result.recorded} recorded, ${result.missing} missing as allowed`,
    ...(findingsOf(result) === "" ? [] : [`  ${findingsOf(result)}`]),
    ...result.wrong.map((text) => `  error: ${text}`),
  ].join("\n")

const table = (results: ReadonlyArray<ScenarioResult>) =>
  [
    "| Scenario | Passed | Requests | Outage | Slowest | Responses | Figures |",
    "| --- | --- | --: | --: | --: | --- | --- |",
    ...results.map((one) => {
      const held = one.wrong.length === 0 ? "yes" : "NO"
      const cells = [
        one.scenario,
        held,
        one.requests,
        `${one.outage} s`,
        `${one.slowest} s`,
        formatResponses(one),
        findingsOf(one),
      ]
      return `| ${cells.join(" | ")} |`
    }),
  ].join("\n")

export const writeReport = (
  results: ReadonlyArray<ScenarioResult>,
  { isolated, json }: { readonly isolated: boolean; readonly json: string | undefined },
) =>
  Effect.gen(function* () {
    yield* Console.log(table(results))
    if (json === undefined) return
    const report = { at: new Date().toISOString(), cores: cpus().length, isolated, patroni: patroniTiming, results }
    yield* Effect.sync(() => writeFileSync(json, `${JSON.stringify(report, null, 2)}\n`))
  })
