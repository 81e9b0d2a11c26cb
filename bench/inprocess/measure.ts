/** Measures all cases and steps in this process, and prints the lowest CPU times as JSON. */
import process from "node:process"
import { options } from "../options.ts"
import { sleep } from "../processes.ts"
import { median } from "../report.ts"
import { type InProcessCase, makeInProcessCases, popularRequests } from "./cases.ts"
import { connectClients, MemoryClient, sendAll } from "./memoryClient.ts"
import { MemoryPostgres } from "./memoryPostgres.ts"
import { readRecording } from "./recording.ts"
import { startService } from "./service.ts"
import { makeSteps, type Step } from "./steps.ts"

export interface Measured {
  readonly part: "request" | "step"
  readonly title: string
  /** The lowest CPU time of a batch, and the median, divided by the number of requests. */
  readonly micros: number
  readonly medianMicros: number
}

/** As many connections as wrk uses in `npm run bench`. */
const connections = 32

const warmUpBatches = 5

/** Time limit for writing the usage of a batch. */
const usageTimeoutMillis = 30_000

const recording = readRecording(process.env["RECORDING"] ?? "")
const postgres = new MemoryPostgres(recording)
const service = await startService(
  "postgres://bench:secret@127.0.0.1:1/bench",
  () => postgres.open(),
)
const clients = connectClients(service.server, connections)
const firstClient = new MemoryClient(service.server)

const fail = (message: string): never => {
  throw new Error(
    `${message}${Array.from(postgres.unknown, (text) => `\nNot recorded: ${text}`).join("")}`,
  )
}

const waitForUsage = async (rows: number) => {
  const deadline = performance.now() + usageTimeoutMillis
  while (postgres.usageRows < rows) {
    if (performance.now() > deadline) fail(`Only ${postgres.usageRows} of ${rows} rows of usage were written`)
    await sleep(10)
  }
}

const readETags = async (makeRequest: InProcessCase["makeRequest"]) => {
  const tags: Array<string> = []
  for (let number = 0; number < popularRequests; number += 1) {
    const { head } = await firstClient.request(makeRequest(number, []))
    tags.push(
      /^etag: (.*)$/im.exec(head)?.[1]?.trim() ??
        fail("A response has no ETag"),
    )
  }
  return tags
}

const all = makeInProcessCases(recording.key)
const chosen = all.filter(({ name }) => options.only?.includes(name) ?? true)
const hit = all.find(({ name }) => name === "hit") ??
  fail("There is no case for hits")
postgres.startCase(hit.name)
const tags = await readETags(hit.makeRequest)

interface Task {
  readonly part: Measured["part"]
  readonly title: string
  readonly count: number
  /** Makes what a batch needs, without being measured. */
  readonly prepare: () => () => Promise<void>
  readonly check: () => void
}

const makeRequestTask = async (of: InProcessCase): Promise<Task> => {
  const {
    absent,
    makeRequest,
    name,
    requestsPerBatch: count,
    statement,
    status,
  } = of
  postgres.startCase(name)
  const { body } = await firstClient.request(of.recorded)
  const isSame = body.toString() === recording.bodies[name] || status >= 400
  if (!isSame) {
    fail(
      `${name} has another response than with PostgreSQL: ${body.toString()}`,
    )
  }
  // A request without a key belongs to no account, so its usage is not recorded.
  const usagePerRequest = status === 401 ? 0 : 1
  let number = 0
  let expected = 0
  const part = statement ?? absent ?? ""
  return {
    part: "request",
    title: of.title,
    count,
    prepare: () => {
      postgres.startCase(name)
      const requests = Array.from(
        { length: count },
        () => makeRequest(number++, tags),
      )
      const usageRows = postgres.usageRows + usagePerRequest * count
      expected = postgres.countExecutions(part) +
        (statement === undefined ? 0 : count)
      return async () => {
        await sendAll(clients, requests, status)
        await waitForUsage(usageRows)
      }
    },
    check: () => {
      const found = postgres.countExecutions(part)
      if (found !== expected) {
        fail(`${name} sent ${found - expected} statements more than expected`)
      }
    },
  }
}

const makeStepTask = ({ count, replies, run, title }: Step): Task => ({
  part: "step",
  title,
  count,
  prepare: () => {
    if (replies !== undefined) postgres.startCase(replies)
    return run
  },
  check: () => {},
})

const runBatch = async ({ count, prepare }: Task) => {
  const run = prepare()
  globalThis.gc?.()
  const before = process.cpuUsage()
  await run()
  const { system, user } = process.cpuUsage(before)
  return (system + user) / count
}

const tasks: Array<Task> = []
for (const of of chosen) tasks.push(await makeRequestTask(of))
postgres.startCase(hit.name)
const steps = await makeSteps(
  service,
  postgres,
  await firstClient.request(hit.recorded),
  connections,
)
tasks.push(
  ...steps.filter(({ name }) => options.only?.includes(name) ?? true).map(
    makeStepTask,
  ),
)

const found = tasks.map((task) => ({ task, micros: new Array<number>() }))
// Until the usage of the requests above is written.
await sleep(1000)
// In turns, so that other load on the machine affects all of them.
for (let batch = -warmUpBatches; batch < options.batches; batch += 1) {
  for (const { micros, task } of found) {
    const one = await runBatch(task)
    if (batch < 0) continue
    // Not during the warm-up, because only the third response to a request comes from the cache.
    task.check()
    micros.push(one)
  }
}
if (postgres.unknown.size > 0) fail("Statements are not recorded")
const measured = found.map(({ micros, task: { part, title } }): Measured => ({
  part,
  title,
  micros: Math.min(...micros),
  medianMicros: median(micros),
}))
process.stdout.write(JSON.stringify(measured), () => process.exit())
