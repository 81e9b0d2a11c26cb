/** Tickerline's performance goals. Determines whether the results of a run meet them. */
import type { Mode } from "./cases.ts"
import { formatMarkdownTable, medianOf, type Outcome, pairRatios, type Result, spreadOf } from "./outcome.ts"
import { median, quartiles } from "./statistics.ts"

/** A metric of a run, and the limit for its value. */
interface Goal {
  readonly name: string
  readonly measure: (outcome: Outcome) => Measured
  /** The limit, or undefined if the value is only reported. */
  readonly limit: number | undefined
  /** Whether the limit is a maximum. If not set, the limit is a minimum. */
  readonly isMaximum?: true
  readonly unit: string
}

interface Measured {
  /** The value, or NaN if it was not measured. */
  readonly value: number
  /**
   * Text to show after the value. If the value is the worst of several results, identifies that result; if it is a
   * median of ratios, gives their interquartile range.
   */
  readonly detail?: string
}

const notMeasured: Measured = { value: Number.NaN }

type ServerName = Result["server"]

/** Finds a result. Returns undefined if the case was not measured or if any of its rounds failed. */
const find = ({ results }: Outcome, server: ServerName, name: string, mode: Mode, connections: number) => {
  const found = results.find((result) =>
    result.server === server && result.case === name && result.mode === mode && result.connections === connections
  )
  return found === undefined || found.failures.length > 0 ? undefined : found
}

/** Returns the median of the ratios between `server` and its rival, over all pairs in which both were measured. */
const comparePairs = (
  server: ServerName,
  rival: Result | undefined,
  figure: "p99" | "perSecond" = "perSecond",
): Measured => {
  const ratios = rival === undefined ? [] : pairRatios(server, rival, figure)
  if (ratios.length === 0) return notMeasured
  return { value: median(ratios), detail: quartiles(ratios).map((ratio) => ratio.toFixed(2)).join(" to ") }
}

/** A goal for the ratio of two request rates: the rate of a Tickerline server divided by the rate of its rival. */
interface Comparison {
  readonly case: string
  readonly mode: Mode
  readonly rival: ServerName
  readonly server: ServerName
  /** The name of the rival in the table. */
  readonly title: string
  readonly limit: Goal["limit"]
  /** The maximum ratio of the 99th-percentile latencies, if there is such a goal. */
  readonly tail?: number
}

const compare = (
  name: string,
  mode: Mode,
  rival: ServerName,
  title: string,
  limit: Goal["limit"],
  { server = "tickerline", tail }: { readonly server?: ServerName; readonly tail?: number } = {},
): Comparison => ({ case: name, mode, rival, server, title, limit, ...(tail !== undefined && { tail }) })

const inMemory = { server: "tickerline-lineage" } as const

const comparisons = [
  compare("runners-0", "miss", "fastify", "Fastify", 2),
  compare("runners-0", "miss", "fastify-our-sql", "Fastify with our SQL", 1),
  compare("runners-0", "miss", "fastify-postgres-js", "Fastify with postgres.js and our SQL", 0.9),
  compare("runners-10", "miss", "fastify", "Fastify", 2.2, { tail: 0.8 }),
  compare("runners-10", "miss", "fastify-our-sql", "Fastify with our SQL", 1.5),
  compare("runners-10", "miss", "fastify-postgres-js", "Fastify with postgres.js and our SQL", 1.5),
  compare("runners-100", "miss", "fastify", "Fastify", 2.2),
  compare("runners-10-gzip", "miss", "fastify-gzip", "Fastify", 1.5),
  compare("lineage-3", "miss", "fastify", "Fastify, changes in memory", 2, { ...inMemory, tail: 1.2 }),
  compare("lineage-12", "miss", "fastify", "Fastify, changes in memory", 2, { ...inMemory, tail: 1.2 }),
  compare("lineage-3", "miss", "fastify", "Fastify, too many changes for memory", 1, { tail: 1.2 }),
  compare("lineage-12", "miss", "fastify", "Fastify, too many changes for memory", 1, { tail: 1.2 }),
  compare("lineage-3", "miss", "effect", "HttpApiBuilder, changes in memory", undefined, inMemory),
  compare("lineage-3", "hit", "effect", "HttpApiBuilder from memory", undefined),
  compare("screener", "miss", "fastify", "Fastify", 1.3),
  compare("float", "miss", "fastify", "Fastify", 1.3),
  compare("runners-10", "hit", "fastify", "Fastify", 12),
  compare("runners-10", "hit", "effect", "HttpApiBuilder from memory", undefined),
  compare("runners-10", "hit", "floor-headers", "node:http with all headers", 0.8, { tail: 1.5 }),
  compare("runners-10", "304", "floor-headers", "node:http with all headers", 0.8, { tail: 1.5 }),
]

const measureComparison = (
  outcome: Outcome,
  { case: name, mode, rival, server }: Comparison,
  figure?: "p99",
) => comparePairs(server, find(outcome, rival, name, mode, 32), figure)

/** Returns the ratio of the 99th-percentile latency to the median latency, at 256 connections. */
const measureTail = (mode: Mode) => (outcome: Outcome): Measured => {
  const found = find(outcome, "tickerline", "runners-10", mode, 256)
  if (found === undefined) return notMeasured
  return {
    value: median(found.rounds.flatMap(({ p50, p99 }) => p50 === undefined || p99 === undefined ? [] : [p99 / p50])),
  }
}

/**
 * Returns the value that decides whether the goal is met: the largest value if the limit is a maximum, and the smallest
 * if it is a minimum.
 */
const selectWorst = (measured: ReadonlyArray<Measured>, isMaximum: boolean) =>
  measured.filter(({ value }) => !Number.isNaN(value)).toSorted((one, other) =>
    isMaximum ? other.value - one.value : one.value - other.value
  )[0] ?? notMeasured

/** Returns the largest spread of the ratios of any comparison, in percent. */
const measureSpread = (outcome: Outcome) =>
  selectWorst(
    comparisons.map(({ case: name, mode, rival, server }) => {
      const found = find(outcome, rival, name, mode, 32)
      return {
        value: found === undefined ? Number.NaN : 100 * spreadOf(pairRatios(server, found)),
        detail: `${rival}, ${name}, ${mode}`,
      }
    }),
    true,
  )

/**
 * Returns the lowest ratio of the request rate on Deno to the rate on Node. The measured pairs contain the inverse,
 * Node divided by Deno.
 */
const measureDeno = (outcome: Outcome) =>
  selectWorst(
    outcome.results.filter(({ connections, server }) => server === "tickerline-deno" && connections === 32).map((
      found,
    ) => ({
      value: 1 / median(pairRatios("tickerline", found)),
      detail: `${found.case}, ${found.mode}`,
    })),
    false,
  )

/** Returns the 99.9th percentile of the event loop delay, in milliseconds. */
const measureDelay = (outcome: Outcome): Measured => {
  const found = find(outcome, "tickerline", "runners-10", "hit", 32)
  return found === undefined ? notMeasured : { value: medianOf(found, "delayP999") }
}

const goals: ReadonlyArray<Goal> = [
  ...comparisons.map((one): Goal => ({
    name: `${one.case}, ${one.mode}: ${one.title}`,
    measure: (outcome) => measureComparison(outcome, one),
    limit: one.limit,
    unit: "×",
  })),
  ...comparisons.filter(({ tail }) => tail !== undefined).map((one): Goal => ({
    name: `p99 of ${one.case}, ${one.mode}: ${one.title}`,
    measure: (outcome) => measureComparison(outcome, one, "p99"),
    limit: one.tail,
    isMaximum: true,
    unit: "×",
  })),
  {
    name: "Delay of the event loop in runners-10, hit, p99.9",
    measure: measureDelay,
    limit: 5,
    isMaximum: true,
    unit: " ms",
  },
  {
    name: "Time for the runners of thirteen symbols / of one, miss",
    measure: (outcome) => comparePairs("tickerline", find(outcome, "tickerline", "runners-followed", "miss", 32)),
    limit: 3,
    isMaximum: true,
    unit: "×",
  },
  { name: "Spread of these ratios", measure: measureSpread, limit: 15, isMaximum: true, unit: " %" },
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
  { name: "Rate on Deno / on Node, in every case", measure: measureDeno, limit: 1, unit: "×" },
  {
    name: "Time for a miss with 500,000 rows / with 50,000",
    measure: ({ growth }) =>
      selectWorst(
        growth.map(({ connections, ratio }) => ({
          value: ratio,
          detail: `${connections} connection(s)`,
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

/** Formats the goals and the measured values as a Markdown table. */
export const formatGoals = (outcome: Outcome) =>
  formatMarkdownTable(
    ["Tickerline on Node, at 32 connections", "measured", "goal", ""],
    goals.map((goal) => {
      const { detail, value } = goal.measure(outcome)
      const measured = Number.isNaN(value)
        ? "–"
        : `${value.toFixed(goal.limit !== undefined && goal.limit >= 15 ? 0 : 2)}${goal.unit}`
      return [
        goal.name,
        detail === undefined ? measured : `${measured} (${detail})`,
        goal.limit === undefined ? "–" : `${goal.isMaximum ? "≤" : "≥"} ${goal.limit}${goal.unit}`,
        judge(goal, value),
      ]
    }),
  )
