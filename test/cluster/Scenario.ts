/** Defines and runs scenarios. Checks client responses, the length of the outage, and the recorded usage. */
import { Data, Effect, Schedule } from "effect"
import * as Accounts from "../../src/accounts/Accounts.ts"
import * as Clients from "./Clients.ts"
import { Cluster, retryWithin } from "./Cluster.ts"
import * as UsageReconciliation from "./UsageReconciliation.ts"

/** A condition that the scenario requires is not met. */
export class FailedExpectation extends Data.TaggedError("FailedExpectation")<{ readonly message: string }> {}

/** Fails with the message if the condition is false. */
export const failUnless = (holds: boolean, message: string) =>
  holds ? Effect.void : Effect.fail(new FailedExpectation({ message }))

/** A scenario's measurements for the report, by name. */
export type ScenarioMeasurements = Readonly<Record<string, string | number>>

/** A scenario: what happens to the cluster, and which effects clients may see. */
export interface Scenario {
  readonly name: string
  /** Describes the event and the guarantee that the scenario verifies. */
  readonly promise: string
  /** Whether the short run (`--short`) includes this scenario. */
  readonly isInShortRun?: boolean
  /** The number of requests that may fail with a 502, a 504 or a broken connection. The default is none. */
  readonly maxBrokenRequests?: number
  /**
   * The maximum time between the first and the last refused or broken request, in seconds. With 0, no request may be
   * refused or broken.
   */
  readonly maxOutageSeconds: number
  readonly run: (controls: ScenarioControls) => Effect.Effect<ScenarioMeasurements, unknown, Cluster>
}

/** What a scenario can use while it runs. */
export interface ScenarioControls {
  readonly clients: Clients.ClusterClients
  /** Records that a process was killed. Usage from its last second may be missing. */
  readonly recordKill: (app: string) => void
  /** Allows the database to lose commits from this point on. */
  readonly allowCommitLoss: () => void
}

/** The result of a scenario. The scenario passed if `wrong` is empty. */
export interface ScenarioResult {
  readonly scenario: string
  readonly seconds: number
  readonly requests: number
  /** The number of responses by status and error code. */
  readonly responses: Readonly<Record<string, number>>
  /** The time from the first to the last refused or broken request, in seconds. */
  readonly outage: number
  /** The longest response time, in seconds. */
  readonly slowest: number
  readonly slowestWas: string
  /**
   * The number of requests whose usage was recorded. `missing` counts the requests whose usage is missing. If usage
   * must not be missing, it is also reported in `wrong`.
   */
  readonly recorded: number
  readonly missing: number
  readonly findings: ScenarioMeasurements
  readonly wrong: ReadonlyArray<string>
}

const isBad = ({ status }: Clients.ObservedRequest) => status === 0 || status >= 500

const nameOf = ({ code, status }: Clients.ObservedRequest) => status === 0 ? "no response" : `${status} ${code}`.trim()

const countResponses = (observed: ReadonlyArray<Clients.ObservedRequest>) => {
  const responses: Record<string, number> = {}
  for (const one of observed) responses[nameOf(one)] = (responses[nameOf(one)] ?? 0) + 1
  return responses
}

/** Converts milliseconds to seconds with two decimals. */
const toSeconds = (milliseconds: number) => Math.round(milliseconds / 10) / 100

/** Returns the time from the first to the last refused or broken request, in seconds. */
const measureOutage = (observed: ReadonlyArray<Clients.ObservedRequest>) => {
  const bad = observed.filter(isBad)
  const began = Math.min(...bad.map(({ startedAt: began }) => began))
  return bad.length === 0 ? 0 : toSeconds(Math.max(...bad.map(({ endedAt: ended }) => ended)) - began)
}

/** Runs a scenario in a healthy cluster, then waits until the cluster is healthy again. */
export const runScenario = Effect.fnUntraced(function* (scenario: Scenario, name: string) {
  const { address, asOwner, checkHealth, counter, keys } = yield* Cluster
  const began = performance.now()
  yield* retryWithin(90)(checkHealth())
  // The account `ending` uses up this credit during the scenario.
  yield* asOwner(
    Accounts.creditAccount({ name: "ending", microdollars: 3_000n, reference: name, mayBecomePrepaid: false }),
  )
  const killed: Array<UsageReconciliation.KilledProcess> = []
  let lossFrom = Infinity
  const clients = yield* Clients.startClusterClients({
    address,
    keys,
    counter,
    name,
    mayBreak: scenario.maxBrokenRequests !== undefined,
  })
  const controls: ScenarioControls = {
    clients,
    recordKill: (by) => void killed.push({ by, at: performance.now() }),
    allowCommitLoss: () => void (lossFrom = performance.now() - UsageReconciliation.maxUsageLoss),
  }
  yield* clients.more()
  const outcome = yield* Effect.result(scenario.run(controls))
  const ended = yield* clients.more().pipe(Effect.andThen(retryWithin(90)(checkHealth())), Effect.result)
  const { observed, wrong } = yield* clients.stop
  const reconciliation = yield* UsageReconciliation.reconcileUsage(name, observed, killed, lossFrom).pipe(
    asOwner,
    Effect.retry({ schedule: Schedule.spaced("1 second"), times: 20 }),
  )
  const broken = observed.filter(({ status }) => [0, 502, 504].includes(status)).length
  const outage = measureOutage(observed)
  const failure = (result: typeof outcome | typeof ended) =>
    result._tag === "Success" ? [] : [result.failure instanceof Error ? result.failure.message : String(result.failure)]
  const all = [
    ...failure(outcome),
    ...failure(ended),
    ...wrong.slice(0, 10).map((text) => `${text} (one of ${wrong.length} wrong responses)`),
    ...reconciliation.wrong.slice(0, 10),
    ...(broken > (scenario.maxBrokenRequests ?? 0)
      ? [`${broken} requests failed with a 502, a 504 or a broken connection`]
      : []),
    ...(outage > scenario.maxOutageSeconds
      ? [`Clients were refused for ${outage} s, longer than the limit of ${scenario.maxOutageSeconds} s`]
      : []),
  ]
  const [longest] = observed.toSorted((one, other) => other.endedAt - other.startedAt - (one.endedAt - one.startedAt))
  const result: ScenarioResult = {
    scenario: scenario.name,
    seconds: toSeconds(performance.now() - began),
    requests: observed.length,
    responses: countResponses(observed),
    outage,
    slowest: longest === undefined ? 0 : toSeconds(longest.endedAt - longest.startedAt),
    slowestWas: longest === undefined ? "" : `${longest.path}: ${longest.status} by ${longest.servedBy}`,
    recorded: reconciliation.rows,
    missing: reconciliation.missing,
    findings: outcome._tag === "Success" ? outcome.success : {},
    wrong: all,
  }
  return result
}, Effect.scoped)
