/** Runs the load generator wrk with a single thread. */
import { join } from "node:path"
import { runToEnd } from "./processes.ts"
import type { RequestPlan } from "./requestFiles.ts"

/** The results of a wrk run. */
export interface WrkResult {
  readonly requests: number
  readonly perSecond: number
  /** Latency percentiles in milliseconds. */
  readonly p50: number
  readonly p99: number
  readonly p999: number
  readonly max: number
  readonly bytesPerResponse: number
  /** The number of requests of the plan that have been sent so far, in this run and all earlier runs. */
  readonly cursor: number
  /** The CPU usage of wrk, in cores. */
  readonly generator: number
}

/** The output of `wrk.lua`. Latencies are in microseconds, and `ticks` is the CPU time in hundredths of a second. */
interface Result {
  readonly requests: number
  readonly microseconds: number
  readonly bytes: number
  readonly p50: number
  readonly p99: number
  readonly p999: number
  readonly max: number
  readonly cursor: number
  readonly ticks: number
  readonly errors: Readonly<Record<string, number>>
}

/** What wrk sends, and for how long. */
export interface WrkOptions {
  readonly port: number
  readonly plan: RequestPlan
  /** The number of requests of the plan that earlier runs sent. */
  readonly cursor: number
  readonly connections: number
  readonly seconds: number
  /** The error status that all responses must have. If not set, all responses must be successful. */
  readonly expect?: number
}

/** Sends the requests of a plan. Fails if a response is missing or does not have the expected status. */
export const runWrk = async (
  { connections, cursor, expect, plan, port, seconds }: WrkOptions,
): Promise<WrkResult> => {
  const clock = [
    "-t1",
    `-c${connections}`,
    `-d${seconds}s`,
    "--timeout",
    "10s",
  ]
  const script = [
    "-s",
    join(import.meta.dirname, "wrk.lua"),
    `http://127.0.0.1:${port}/`,
  ]
  const printed = await runToEnd({
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
    throw new Error(`wrk printed no result:\n${printed}`)
  }
  const result: Result = JSON.parse(json)
  const wrong = Object.entries(result.errors).filter(([, count]) => count > 0)
    .map(([kind, count]) => `${count} ${kind}`)
  if (wrong.length > 0) {
    throw new Error(`failed requests: ${wrong.join(", ")} of ${result.requests}`)
  }
  if (result.requests === 0) throw new Error("wrk received no response")
  if (result.cursor > plan.most) {
    throw new Error(
      `the case has only ${plan.most} different requests, which is too few for this run`,
    )
  }
  return {
    requests: result.requests,
    perSecond: result.requests / (result.microseconds / 1e6),
    p50: result.p50 / 1000,
    p99: result.p99 / 1000,
    p999: result.p999 / 1000,
    max: result.max / 1000,
    bytesPerResponse: result.bytes / result.requests,
    cursor: result.cursor,
    generator: result.ticks / 100 / (result.microseconds / 1e6),
  }
}
