/** Measures how much memory a cached lineage occupies in this process, and prints the result as JSON. */
import { Effect, Metric } from "effect"
import process from "node:process"
import { sleep } from "../processes.ts"
import { makeInProcessCases } from "./cases.ts"
import { sendAll } from "./memoryClient.ts"
import { startMemoryService } from "./memoryService.ts"

/** The memory that cached lineages occupy. */
export interface CachedLineageMemory {
  readonly lineages: number
  /** Bytes per lineage in the V8 heap. */
  readonly heap: number
  /** Bytes per lineage in buffers outside the V8 heap. */
  readonly buffers: number
  /** Bytes per lineage that the service counts toward `CACHE_MEGABYTES`. */
  readonly counted: number
}

/**
 * The numbers of lineages to request before and during the measurement. The warm-up ensures that compiled code and the
 * service's data structures do not count as growth.
 */
const [warmUpLineages, lineages] = [2000, 6000]

const { clients, fail, postgres, recording, service, waitForUsage } = await startMemoryService(false)
const lineageCase = makeInProcessCases(recording.key).find(({ name }) => name === "lineage-3") ??
  fail("There is no lineage")
postgres.startCase(lineageCase.name)

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
  const requests = Array.from({ length: count }, (_, number) => lineageCase.makeRequest(first + number, []))
  const [unexpected] = await sendAll(clients, requests, lineageCase.status)
  if (unexpected !== undefined) fail(`A request for a lineage returned ${unexpected}`)
  await waitForUsage(usageRows)
}

/**
 * Sends each request three times: the second time fills the query cache, and the third time fills the response cache.
 */
const fill = async (first: number, count: number) => {
  for (const _ of [1, 2, 3]) await request(first, count)
}

/**
 * Reads the memory usage after two garbage collections, because finalizers that the first collection runs may free more
 * memory.
 */
const readMemory = async () => {
  for (const _ of [1, 2]) {
    globalThis.gc?.()
    await sleep(200)
  }
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return { heap: heapUsed, buffers: arrayBuffers, counted: readCountedBytes() }
}

await fill(0, warmUpLineages)
const before = await readMemory()
await fill(warmUpLineages, lineages)
const after = await readMemory()
const hits = countHits()
await request(warmUpLineages, lineages)
if (countHits() - hits < lineages) fail(`Of ${lineages} lineages, ${countHits() - hits} are cached`)
const perLineage = (name: keyof typeof before) => (after[name] - before[name]) / lineages
const found: CachedLineageMemory = {
  lineages,
  heap: perLineage("heap"),
  buffers: perLineage("buffers"),
  counted: perLineage("counted"),
}
process.stdout.write(JSON.stringify(found), () => process.exit())
