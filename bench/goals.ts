/** Performance goals of Tickerline, compared with the results. */
import type { Mode } from "./cases.ts"
import { medianOf, type Outcome, type Result, table } from "./report.ts"

interface Goal {
  readonly name: string
  readonly value: (of: Outcome) => number
  readonly limit: number
  /** The limit is a maximum. Without this flag it is a minimum. */
  readonly atMost?: true
  readonly unit: string
}

const find = (
  { results }: Outcome,
  server: Result["server"],
  name: string,
  mode: Mode,
  connections: number,
) =>
  results.find((of) =>
    of.server === server && of.case === name && of.mode === mode &&
    of.connections === connections
  )

const rate = (
  of: Outcome,
  server: Result["server"],
  name: string,
  mode: Mode,
) => {
  const found = find(of, server, name, mode, 32)
  return found === undefined || found.failures.length > 0 ? Number.NaN : medianOf(found, "perSecond")
}

const over = (name: string, mode: Mode, rival: Result["server"]) => (of: Outcome) =>
  rate(of, "tickerline", name, mode) / rate(of, rival, name, mode)

const tail = (mode: Mode) => (of: Outcome) => {
  const found = find(of, "tickerline", "runners-10", mode, 256)
  return found === undefined ? Number.NaN : medianOf(found, "p99") / medianOf(found, "p50")
}

const goals: ReadonlyArray<Goal> = [
  {
    name: "runners-10, miss: Fastify",
    value: over("runners-10", "miss", "fastify"),
    limit: 1.5,
    unit: "×",
  },
  {
    name: "runners-10, miss: pgbench",
    value: over("runners-10", "miss", "pgbench"),
    limit: 0.5,
    unit: "×",
  },
  {
    name: "runners-100, miss: Fastify",
    value: over("runners-100", "miss", "fastify"),
    limit: 2,
    unit: "×",
  },
  {
    name: "runners-10, hit: Fastify",
    value: over("runners-10", "hit", "fastify"),
    limit: 10,
    unit: "×",
  },
  {
    name: "runners-10, hit: node:http",
    value: over("runners-10", "hit", "floor"),
    limit: 0.6,
    unit: "×",
  },
  {
    name: "runners-10, 304: node:http",
    value: over("runners-10", "304", "floor"),
    limit: 0.8,
    unit: "×",
  },
  {
    name: "p99 by p50 at 256 connections, miss",
    value: tail("miss"),
    limit: 3,
    atMost: true,
    unit: "×",
  },
  {
    name: "p99 by p50 at 256 connections, hit",
    value: tail("hit"),
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

const verdict = ({ atMost, limit }: Goal, value: number) =>
  Number.isNaN(value) ? "not measured" : (atMost ? value <= limit : value >= limit) ? "met" : "**not met**"

export const goalsTable = (outcome: Outcome) =>
  table(
    ["Tickerline on Node, at 32 connections", "measured", "goal", ""],
    goals.map((goal) => {
      const value = goal.value(outcome)
      const measured = Number.isNaN(value) ? "–" : `${value.toFixed(goal.limit >= 100 ? 0 : 2)}${goal.unit}`
      return [
        goal.name,
        measured,
        `${goal.atMost ? "≤" : "≥"} ${goal.limit}${goal.unit}`,
        verdict(goal, value),
      ]
    }),
  )
