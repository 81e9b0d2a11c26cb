/** Generates load with wrk, on one thread. */
import { join } from "node:path"
import { runProgram } from "./processes.ts"
import type { RequestPlan } from "./requests.ts"

export interface LoadResult {
  readonly requests: number
  readonly perSecond: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  readonly max: number
  readonly bytesPerResponse: number
  /** Number of requests of the plan sent so far. */
  readonly cursor: number
  /** CPU usage of wrk, in cores. */
  readonly generator: number
}

interface WrkResult {
  readonly requests: number
  readonly microseconds: number
  readonly bytes: number
  readonly p50: number
  readonly p99: number
  readonly max: number
  readonly cursor: number
  readonly ticks: number
  readonly errors: Readonly<Record<string, number>>
}

export interface LoadOptions {
  readonly port: number
  readonly plan: RequestPlan
  readonly cursor: number
  readonly connections: number
  readonly seconds: number
  /** Status code that every response must have; absent if all must succeed. */
  readonly expect?: number
}

/** Runs wrk. Throws if any response is missing or has an unexpected status. */
export const runWrk = async (
  { connections, cursor, expect, plan, port, seconds }: LoadOptions,
): Promise<LoadResult> => {
  const clock = [
    "-t1",
    `-c${connections}`,
    `-d${seconds}s`,
    "--timeout",
    "10s",
  ]
  const script = [
    "-s",
    join(import.meta.dirname, "load.lua"),
    `http://127.0.0.1:${port}/`,
  ]
  const printed = await runProgram({
    program: "wrk",
    args: [
      ...clock,
      ...script,
      "--",
      plan.requests,
      plan.order,
      String(cursor),
      String(expect ?? 0),
    ],
  })
  const [, json] = /^RESULT (.*)$/m.exec(printed) ?? []
  if (json === undefined) {
    throw new Error(`wrk did not say what it did:\n${printed}`)
  }
  const result: WrkResult = JSON.parse(json)
  const wrong = Object.entries(result.errors).filter(([, count]) => count > 0)
    .map(([kind, count]) => `${count} ${kind}`)
  if (wrong.length > 0) {
    throw new Error(`wrong answers: ${wrong.join(", ")} of ${result.requests}`)
  }
  if (result.requests === 0) throw new Error("no answer at all")
  if (result.cursor > plan.most) {
    throw new Error(
      `only ${plan.most} different requests are there, which is too few`,
    )
  }
  return {
    requests: result.requests,
    perSecond: result.requests / (result.microseconds / 1e6),
    p50: result.p50 / 1000,
    p99: result.p99 / 1000,
    max: result.max / 1000,
    bytesPerResponse: result.bytes / result.requests,
    cursor: result.cursor,
    generator: result.ticks / 100 / (result.microseconds / 1e6),
  }
}
