/** What a scenario is, and what it is held to: its clients' answers, its bounds, and the books at its end. */
import { Data, Effect, Schedule } from "effect"
import * as Accounts from "../../src/accounts/Accounts.ts"
import * as Clients from "./Clients.ts"
import { Cluster, within } from "./Cluster.ts"
import * as Reckoning from "./Reckoning.ts"

export class Wrong extends Data.TaggedError("Wrong")<{ readonly message: string }> {}

export const hold = (holds: boolean, message: string) => holds ? Effect.void : Effect.fail(new Wrong({ message }))

/** What a scenario tells beyond what all do. */
export type Findings = Readonly<Record<string, string | number>>

export interface Scenario {
  readonly name: string
  /** What is done, and what must be so. */
  readonly promise: string
  /** In the short form. */
  readonly short?: boolean
  /** Whether answers may show that a process went away: the balancer's 502, or a broken connection; so many. */
  readonly mayBreak?: number
  /** The longest that clients may be refused, seconds; 0: never. */
  readonly outage: number
  readonly run: (act: Acting) => Effect.Effect<Findings, unknown, Cluster>
}

export interface Acting {
  readonly clients: Clients.Clients
  /** From now on what this process answered within its last second may be unrecorded. */
  readonly killed: (app: string) => void
  /** From now on the database may lose what it committed. */
  readonly mayLose: () => void
}

export interface Result {
  readonly scenario: string
  readonly seconds: number
  readonly requests: number
  readonly answers: Readonly<Record<string, number>>
  /** From the first answer that was refused or broken to the last, seconds. */
  readonly outage: number
  /** The longest that anybody waited, seconds. */
  readonly slowest: number
  readonly slowestWas: string
  readonly recorded: number
  readonly missing: number
  readonly findings: Findings
  readonly wrong: ReadonlyArray<string>
}

const isBad = ({ status }: Clients.Told) => status === 0 || status >= 500

const nameOf = ({ code, status }: Clients.Told) => status === 0 ? "no answer" : `${status} ${code}`.trim()

const counted = (told: ReadonlyArray<Clients.Told>) => {
  const answers: Record<string, number> = {}
  for (const one of told) answers[nameOf(one)] = (answers[nameOf(one)] ?? 0) + 1
  return answers
}

const rounded = (milliseconds: number) => Math.round(milliseconds / 10) / 100

const outageOf = (told: ReadonlyArray<Clients.Told>) => {
  const bad = told.filter(isBad)
  const began = Math.min(...bad.map(({ began }) => began))
  return bad.length === 0 ? 0 : rounded(Math.max(...bad.map(({ ended }) => ended)) - began)
}

/** In a cluster that is well, and until it is well again. */
export const run = Effect.fnUntraced(function* (scenario: Scenario, name: string) {
  const { address, asOwner, keys, numbers, well } = yield* Cluster
  const began = performance.now()
  yield* within(90)(well())
  // It is used up on the way, each time.
  yield* asOwner(Accounts.credit({ name: "ending", microdollars: 3_000n, reference: name, prepaid: false }))
  const killed: Array<Reckoning.Lost> = []
  let lossFrom = Infinity
  const clients = yield* Clients.start({ address, keys, numbers, name, mayBreak: scenario.mayBreak !== undefined })
  const acting: Acting = {
    clients,
    killed: (by) => void killed.push({ by, at: performance.now() }),
    mayLose: () => void (lossFrom = performance.now() - 1_100),
  }
  yield* clients.more()
  const acted = yield* Effect.result(scenario.run(acting))
  const ended = yield* clients.more().pipe(Effect.andThen(within(90)(well())), Effect.result)
  const { told, wrong } = yield* clients.stop
  const books = yield* Reckoning.reckon(name, told, killed, lossFrom).pipe(
    asOwner,
    Effect.retry({ schedule: Schedule.spaced("1 second"), times: 20 }),
  )
  const broken = told.filter(({ status }) => [0, 502, 504].includes(status)).length
  const outage = outageOf(told)
  const failure = (result: typeof acted | typeof ended) =>
    result._tag === "Success" ? [] : [result.failure instanceof Error ? result.failure.message : String(result.failure)]
  const all = [
    ...failure(acted),
    ...failure(ended),
    ...wrong.slice(0, 10).map((text) => `${text} (${wrong.length} such answers in all)`),
    ...books.wrong.slice(0, 10),
    ...(broken > (scenario.mayBreak ?? 0) ? [`${broken} requests were broken off`] : []),
    ...(outage > scenario.outage
      ? [`Clients were refused for ${outage} s, where ${scenario.outage} s is the bound`]
      : []),
  ]
  const [longest] = told.toSorted((one, other) => other.ended - other.began - (one.ended - one.began))
  const result: Result = {
    scenario: scenario.name,
    seconds: rounded(performance.now() - began),
    requests: told.length,
    answers: counted(told),
    outage,
    slowest: longest === undefined ? 0 : rounded(longest.ended - longest.began),
    slowestWas: longest === undefined ? "" : `${longest.path}: ${longest.status} by ${longest.by}`,
    recorded: books.rows,
    missing: books.missing,
    findings: acted._tag === "Success" ? acted.success : {},
    wrong: all,
  }
  return result
}, Effect.scoped)
