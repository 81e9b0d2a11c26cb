/** Performance goals, and whether the results meet them. */
import type { Mode } from "./cases.ts"
import { type BenchmarkOutcome, markdownTable, medianOf, type TimingResult } from "./report.ts"

interface Goal {
  readonly name: string
  readonly value: (outcome: BenchmarkOutcome) => number
  readonly limit: number
  /** `limit` is a maximum instead of a minimum. */
  readonly atMost?: true
  readonly unit: string
}

const findResult = (
  { results }: BenchmarkOutcome,
  server: TimingResult["server"],
  name: string,
  mode: Mode,
  connections: number,
) =>
  results.find((result) =>
    result.server === server && result.case === name && result.mode === mode &&
    result.connections === connections
  )

const rateOf = (
  outcome: BenchmarkOutcome,
  server: TimingResult["server"],
  name: string,
  mode: Mode,
) => {
  const found = findResult(outcome, server, name, mode, 32)
  return found === undefined || found.failures.length > 0 ? Number.NaN : medianOf(found, "perSecond")
}

const rateRatio = (name: string, mode: Mode, rival: TimingResult["server"]) => (outcome: BenchmarkOutcome) =>
  rateOf(outcome, "tickerline", name, mode) / rateOf(outcome, rival, name, mode)

const tailRatio = (mode: Mode) => (outcome: BenchmarkOutcome) => {
  const found = findResult(outcome, "tickerline", "runners-10", mode, 256)
  return found === undefined ? Number.NaN : medianOf(found, "p99") / medianOf(found, "p50")
}

const goals: ReadonlyArray<Goal> = [
  {
    name: "runners-10, miss: Fastify",
    value: rateRatio("runners-10", "miss", "fastify"),
    limit: 1.5,
    unit: "×",
  },
  {
    name: "runners-10, miss: pgbench",
    value: rateRatio("runners-10", "miss", "pgbench"),
    limit: 0.5,
    unit: "×",
  },
  {
    name: "runners-100, miss: Fastify",
    value: rateRatio("runners-100", "miss", "fastify"),
    limit: 2,
    unit: "×",
  },
  {
    name: "runners-10, hit: Fastify",
    value: rateRatio("runners-10", "hit", "fastify"),
    limit: 10,
    unit: "×",
  },
  {
    name: "runners-10, hit: node:http",
    value: rateRatio("runners-10", "hit", "floor"),
    limit: 0.6,
    unit: "×",
  },
  {
    name: "runners-10, 304: node:http",
    value: rateRatio("runners-10", "304", "floor"),
    limit: 0.8,
    unit: "×",
  },
  {
    name: "p99 by p50 at 256 connections, miss",
    value: tailRatio("miss"),
    limit: 3,
    atMost: true,
    unit: "×",
  },
  {
    name: "p99 by p50 at 256 connections, hit",
    value: tailRatio("hit"),
    limit: 3,
    atMost: true,
    unit: "×",
  },
  {
    name: "Memory after 1,000,000 different requests",
    value: ({ memory }) => memory?.now ?? Number.NaN,
    limit: 300,
    atMost: true,
    unit: " MiB",
  },
  {
    name: "A miss with ten times the rows",
    value: ({ growth }) =>
      growth.length === 0 ? Number.NaN : Math.max(...growth.map(({ large, small }) => small / large)),
    limit: 1.2,
    atMost: true,
    unit: "×",
  },
]

const goalStatus = ({ atMost, limit }: Goal, value: number) =>
  Number.isNaN(value) ? "not measured" : (atMost ? value <= limit : value >= limit) ? "met" : "**not met**"

export const goalsTable = (outcome: BenchmarkOutcome) =>
  markdownTable(
    ["Tickerline on Node, at 32 connections", "measured", "goal", ""],
    goals.map((goal) => {
      const value = goal.value(outcome)
      const measured = Number.isNaN(value) ? "–" : `${value.toFixed(goal.limit >= 100 ? 0 : 2)}${goal.unit}`
      return [
        goal.name,
        measured,
        `${goal.atMost ? "≤" : "≥"} ${goal.limit}${goal.unit}`,
        goalStatus(goal, value),
      ]
    }),
  )
