/** Measures the memory that each cached lineage takes in this process, and prints it as JSON. */
import { Effect, Metric } from "effect"
import process from "node:process"
import { sleep } from "../processes.ts"
import { makeInProcessCases } from "./cases.ts"
import { sendAll } from "./memoryClient.ts"
import { startMemoryService } from "./memoryService.ts"

export interface CachedLineageMemory {
  readonly lineages: number
  /** Bytes per lineage in V8's heap, in buffers outside of it, and as counted for `CACHE_MEGABYTES`. */
  readonly heap: number
  readonly buffers: number
  readonly counted: number
}

/** Lineages before the first measurement, so that the growth has no code and no structures of the service. */
const [warmUpLineages, lineages] = [2000, 6000]

const { clients, fail, postgres, recording, service, waitForUsage } = await startMemoryService(false)
const of = makeInProcessCases(recording.key).find(({ name }) => name === "lineage-3") ?? fail("There is no lineage")
postgres.startCase(of.name)

const sumMetric = (name: string, label: readonly [string, string]) =>
  Effect.runSync(Effect.provideContext(Metric.snapshot, service.services)).reduce(
    (sum, { attributes, id, state }) =>
      id === name && attributes?.[label[0]] === label[1]
        ? sum + Number("count" in state ? state.count : "value" in state ? state.value : 0)
        : sum,
    0,
  )
const readCountedBytes = () =>
  sumMetric("tickerline_cache_bytes", ["part", "asked"]) +
  sumMetric("tickerline_cache_bytes", ["part", "sent"])
const countHits = () => sumMetric("tickerline_http_requests_total", ["cached", "true"])

const request = async (first: number, count: number) => {
  const usageRows = postgres.usageRows + count
  const requests = Array.from({ length: count }, (_, number) => of.makeRequest(first + number, []))
  const [unexpected] = await sendAll(clients, requests, of.status)
  if (unexpected !== undefined) fail(`A lineage is answered with ${unexpected}`)
  await waitForUsage(usageRows)
}

/** Sends each request three times: the second fills the query cache, and the third the response cache. */
const fill = async (first: number, count: number) => {
  for (const _ of [1, 2, 3]) await request(first, count)
}

/** Reads the memory after two collections, because the first one may run finalizers that free more. */
const read = async () => {
  for (const _ of [1, 2]) {
    globalThis.gc?.()
    await sleep(200)
  }
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return { heap: heapUsed, buffers: arrayBuffers, counted: readCountedBytes() }
}

await fill(0, warmUpLineages)
const before = await read()
await fill(warmUpLineages, lineages)
const after = await read()
const hits = countHits()
await request(warmUpLineages, lineages)
if (countHits() - hits < lineages) fail(`Of ${lineages} lineages, ${countHits() - hits} are cached`)
const each = (name: keyof typeof before) => (after[name] - before[name]) / lineages
const found: CachedLineageMemory = { lineages, heap: each("heap"), buffers: each("buffers"), counted: each("counted") }
process.stdout.write(JSON.stringify(found), () => process.exit())
