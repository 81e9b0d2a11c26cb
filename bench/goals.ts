/** Performance goals of Tickerline, compared with the results. */
import type { Mode } from "./cases.ts"
import { formatMarkdownTable, medianOf, type Outcome, type Result, spreadOf } from "./outcome.ts"

interface Goal {
  readonly name: string
  readonly measure: (of: Outcome) => Measured
  /** Undefined if the value is only shown. */
  readonly limit: number | undefined
  /** The limit is a maximum. Without this flag it is a minimum. */
  readonly isMaximum?: true
  readonly unit: string
}

interface Measured {
  /** NaN if it was not measured. */
  readonly value: number
  /** The result that decides, if the goal concerns several. */
  readonly of?: string
}

const notMeasured: Measured = { value: Number.NaN }

type ServerName = Result["server"]

const find = ({ results }: Outcome, server: ServerName, name: string, mode: Mode, connections: number) => {
  const found = results.find((of) =>
    of.server === server && of.case === name && of.mode === mode && of.connections === connections
  )
  return found === undefined || found.failures.length > 0 ? undefined : found
}

const divide = (one: Result | undefined, other: Result | undefined) =>
  one === undefined || other === undefined ? Number.NaN : medianOf(one, "perSecond") / medianOf(other, "perSecond")

interface Comparison {
  readonly case: string
  readonly mode: Mode
  readonly rival: ServerName
  readonly server: ServerName
  /** What the rival is called in the table. */
  readonly title: string
  readonly limit: Goal["limit"]
}

const compare = (
  name: string,
  mode: Mode,
  rival: ServerName,
  title: string,
  limit: Goal["limit"],
  server: ServerName = "tickerline",
): Comparison => ({
  case: name,
  mode,
  rival,
  server,
  title,
  limit,
})

const comparisons = [
  compare("runners-0", "miss", "fastify", "Fastify", 1.5),
  compare("runners-0", "miss", "fastify-our-sql", "Fastify with our SQL", 0.75),
  compare("runners-0", "miss", "fastify-postgres-js", "Fastify with postgres.js and our SQL", undefined),
  compare("runners-10", "miss", "fastify", "Fastify", 2),
  compare("runners-10", "miss", "fastify-our-sql", "Fastify with our SQL", 1.35),
  compare("runners-10", "miss", "fastify-postgres-js", "Fastify with postgres.js and our SQL", undefined),
  compare("runners-100", "miss", "fastify", "Fastify", 2),
  compare("runners-10-gzip", "miss", "fastify-gzip", "Fastify", 1.5),
  compare("lineage-3", "miss", "fastify", "Fastify, changes in memory", 2, "tickerline-lineage"),
  compare("lineage-12", "miss", "fastify", "Fastify, changes in memory", 2, "tickerline-lineage"),
  compare("lineage-3", "miss", "fastify", "Fastify, too many changes for memory", 0.8),
  compare("lineage-12", "miss", "fastify", "Fastify, too many changes for memory", 0.8),
  compare("screener", "miss", "fastify", "Fastify", 1.2),
  compare("float", "miss", "fastify", "Fastify", 1.2),
  compare("runners-10", "hit", "fastify", "Fastify", 12),
  compare("runners-10", "hit", "floor-headers", "node:http with all headers", 0.8),
  compare("runners-10", "304", "floor-headers", "node:http with all headers", 0.8),
]

const measureComparison = (of: Outcome, { case: name, mode, rival, server }: Comparison): Measured => ({
  value: divide(find(of, server, name, mode, 32), find(of, rival, name, mode, 32)),
})

const measureTail = (mode: Mode) => (of: Outcome): Measured => {
  const found = find(of, "tickerline", "runners-10", mode, 256)
  return found === undefined ? notMeasured : { value: medianOf(found, "p99") / medianOf(found, "p50") }
}

/** Returns the value that decides whether the goal is met: the largest for a maximum, the smallest for a minimum. */
const selectWorst = (measured: ReadonlyArray<Measured>, isMaximum: boolean) =>
  measured.filter(({ value }) => !Number.isNaN(value)).toSorted((one, other) =>
    isMaximum ? other.value - one.value : one.value - other.value
  )[0] ?? notMeasured

/** Returns the largest spread among the rates that the comparisons use. */
const measureSpread = (of: Outcome) => {
  const used = comparisons.flatMap(({ case: name, mode, rival, server }) =>
    [find(of, server, name, mode, 32), find(of, rival, name, mode, 32)].filter((one) => one !== undefined)
  )
  return selectWorst(
    used.map((one) => ({ value: 100 * spreadOf(one), of: `${one.server}, ${one.case}, ${one.mode}` })),
    true,
  )
}

const measureDeno = (of: Outcome) =>
  selectWorst(
    of.results.filter(({ connections, server }) => server === "tickerline-deno" && connections === 32).map((
      { case: name, mode },
    ) => ({
      value: divide(find(of, "tickerline-deno", name, mode, 32), find(of, "tickerline", name, mode, 32)),
      of: `${name}, ${mode}`,
    })),
    false,
  )

const goals: ReadonlyArray<Goal> = [
  ...comparisons.map((one): Goal => ({
    name: `${one.case}, ${one.mode}: ${one.title}`,
    measure: (of) => measureComparison(of, one),
    limit: one.limit,
    unit: "×",
  })),
  {
    name: "Time for the runners of thirteen symbols / of one, miss",
    measure: (of) => ({
      value: divide(
        find(of, "tickerline", "runners-10", "miss", 32),
        find(of, "tickerline", "runners-followed", "miss", 32),
      ),
    }),
    limit: 3,
    isMaximum: true,
    unit: "×",
  },
  { name: "Spread of these rates", measure: measureSpread, limit: 15, isMaximum: true, unit: " %" },
  {
    name: "p99 / p50 at 256 connections, miss",
    measure: measureTail("miss"),
    limit: 3,
    isMaximum: true,
    unit: "×",
  },
  {
    name: "p99 / p50 at 256 connections, hit",
    measure: measureTail("hit"),
    limit: 3,
    isMaximum: true,
    unit: "×",
  },
  {
    name: "Memory after 1,000,000 different requests",
    measure: ({ memory }) => ({ value: memory?.now ?? Number.NaN }),
    limit: 300,
    isMaximum: true,
    unit: " MiB",
  },
  { name: "Rate on Deno / on Node, in every case", measure: measureDeno, limit: 0.85, unit: "×" },
  {
    name: "Time for a miss with 500,000 rows / with 50,000",
    measure: ({ growth }) =>
      selectWorst(
        growth.map(({ connections, large, small }) => ({
          value: small / large,
          of: `${connections} connection(s)`,
        })),
        true,
      ),
    limit: 1.2,
    isMaximum: true,
    unit: "×",
  },
]

const judge = ({ isMaximum, limit }: Goal, value: number) => {
  if (Number.isNaN(value)) return "not measured"
  if (limit === undefined) return ""
  return (isMaximum ? value <= limit : value >= limit) ? "met" : "**not met**"
}

export const goalsTable = (outcome: Outcome) =>
  formatMarkdownTable(
    ["Tickerline on Node, at 32 connections", "measured", "goal", ""],
    goals.map((goal) => {
      const { of, value } = goal.measure(outcome)
      const measured = Number.isNaN(value)
        ? "–"
        : `${value.toFixed(goal.limit !== undefined && goal.limit >= 15 ? 0 : 2)}${goal.unit}`
      return [
        goal.name,
        of === undefined ? measured : `${measured} (${of})`,
        goal.limit === undefined ? "–" : `${goal.isMaximum ? "≤" : "≥"} ${goal.limit}${goal.unit}`,
        judge(goal, value),
      ]
    }),
  )
