/** Defines and runs a scenario. Checks the responses that clients receive, the outage, and the recorded usage. */
import { Data, Effect, Schedule } from "effect"
import * as Accounts from "../../src/accounts/Accounts.ts"
import * as Clients from "./Clients.ts"
import { Cluster, retryWithin } from "./Cluster.ts"
import * as UsageReconciliation from "./UsageReconciliation.ts"

/** Something that a scenario expects did not happen. */
export class FailedExpectation extends Data.TaggedError("FailedExpectation")<{ readonly message: string }> {}

/** Fails with a message unless a condition holds. */
export const failUnless = (holds: boolean, message: string) =>
  holds ? Effect.void : Effect.fail(new FailedExpectation({ message }))

/** Measurements of a scenario, by name, for the report. */
export type ScenarioMeasurements = Readonly<Record<string, string | number>>

/** What happens to the cluster, and what clients may notice. */
export interface Scenario {
  readonly name: string
  /** What happens, and what must hold. */
  readonly promise: string
  /** Whether the short run (`--short`) includes this scenario. */
  readonly isInShortRun?: boolean
  /** Number of requests that may fail with a 502, a 504 or a broken connection. Default: none. */
  readonly maxBrokenRequests?: number
  /** Maximum time between the first and the last refused or broken request, in seconds. 0 allows no such request. */
  readonly maxOutageSeconds: number
  readonly run: (controls: ScenarioControls) => Effect.Effect<ScenarioMeasurements, unknown, Cluster>
}

/** What a running scenario uses. */
export interface ScenarioControls {
  readonly clients: Clients.ClusterClients
  /** Records that a process is killed. Usage of its last second may then be missing. */
  readonly recordKill: (app: string) => void
  /** Allows the database to lose commits from now on. */
  readonly allowCommitLoss: () => void
}

/** What a scenario showed. It passed if `wrong` is empty. */
export interface ScenarioResult {
  readonly scenario: string
  readonly seconds: number
  readonly requests: number
  /** Numbers of responses by status and error code. */
  readonly responses: Readonly<Record<string, number>>
  /** Time from the first to the last refused or broken request, seconds. */
  readonly outage: number
  /** Longest response time, seconds. */
  readonly slowest: number
  readonly slowestWas: string
  /** Numbers of requests whose usage was recorded, and of those for which it is missing, as is allowed. */
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

/** Runs a scenario in a healthy cluster, and waits until the cluster is healthy again. */
export const runScenario = Effect.fnUntraced(function* (scenario: Scenario, name: string) {
  const { address, asOwner, checkHealth, counter, keys } = yield* Cluster
  const began = performance.now()
  yield* retryWithin(90)(checkHealth())
  // The account `ending` uses up its balance during each scenario.
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
