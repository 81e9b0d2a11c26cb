/** Measures requests per second and CPU time for one process and for two processes, without the load balancer. */
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { Agent } from "node:http"
import { performance } from "node:perf_hooks"
import { Cluster } from "./Cluster.ts"
import { type AppHost, servicePorts } from "./ProxiesAndPoolers.ts"
import { requestWithTimeout } from "./RequestWithTimeout.ts"

/** The duration of each measurement. */
const seconds = 4
const connections = 16

/** Returns a process's CPU time in milliseconds. The kernel reports it in hundredths of a second. */
const readCpuTime = (pid: number) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ")
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Request paths that the cache can serve (`hits`) and paths that it cannot serve (`misses`). */
const kinds = {
  hits: (at: number) => `/v1/gap-stats?page=${at % 20 + 1}`,
  misses: (at: number) => `/v1/gap-stats?page=${at % 300 + 1}&limit=${Math.floor(at / 300) % 100 + 1}`,
} as const

let sentCount = 0

/**
 * Sends requests to the processes in turn. Returns the requests per second, and the CPU time per request in
 * microseconds.
 */
const measureRate = Effect.fnUntraced(function* (apps: ReadonlyArray<AppHost>, kind: keyof typeof kinds) {
  const { hosts, keys, service } = yield* Cluster
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const readTotalCpu = () => apps.reduce((sum, app) => sum + readCpuTime(service.running.get(app)?.pid ?? 0), 0)
  const [began, before] = [performance.now(), readTotalCpu()]
  let receivedCount = 0
  const sendNext = Effect.suspend(() => {
    sentCount += 1
    const host = hosts.addressOf(apps[sentCount % apps.length] ?? "app1")
    const path = kinds[kind](sentCount)
    return requestWithTimeout({
      host,
      port: servicePorts.service,
      path,
      agent,
      headers: { Authorization: `Bearer ${keys["later"]}` },
    })
  })
  const client = Effect.whileLoop({
    while: () => performance.now() - began < seconds * 1000,
    body: () => sendNext,
    step: ({ status }) => void (receivedCount += status === 200 ? 1 : 0),
  })
  yield* Effect.all(Array.from({ length: connections }, () => client), { concurrency: "unbounded" })
  agent.destroy()
  const taken = (performance.now() - began) / 1000
  return {
    rate: Math.round(receivedCount / taken),
    cpu: Math.round(1000 * (readTotalCpu() - before) / Math.max(1, receivedCount)),
  }
})

/** Measures one process alone, then two processes together. Returns the figures for the report. */
export const measureThroughput = Effect.gen(function* () {
  const found: Record<string, number | string> = {}
  for (const kind of ["hits", "misses"] as const) {
    // Warms up both processes.
    yield* measureRate(["app1", "app2"], kind)
    const one = yield* measureRate(["app1"], kind)
    const two = yield* measureRate(["app1", "app2"], kind)
    found[`${kind}/s of one`] = one.rate
    found[`${kind}/s of two`] = two.rate
    found[`${kind} of two to one`] = (two.rate / Math.max(1, one.rate)).toFixed(2)
    found[`µs of CPU per request (${kind}) of one`] = one.cpu
    found[`µs of CPU per request (${kind}) of two`] = two.cpu
    // The estimated ratio if each process had a dedicated core.
    found[`${kind} of two to one, with enough cores`] = (2 * one.cpu / Math.max(1, two.cpu)).toFixed(2)
  }
  return found
})
