/** Measures all cases and steps in this process, and prints the lowest CPU times as JSON. */
import process from "node:process"
import { options } from "../options.ts"
import { sleep } from "../processes.ts"
import { median } from "../statistics.ts"
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

const warmUpBatches = 4

/** Time for V8 to finish a garbage collection. */
const sweepMillis = 200

/** Time limit for writing the usage of a batch. */
const usageTimeoutMillis = 30_000

const recording = readRecording(process.env["RECORDING"] ?? "")
const postgres = new MemoryPostgres(recording)
const isUncached = process.env["UNCACHED"] === undefined ? undefined : true
const service = await startService("postgres://bench:secret@127.0.0.1:1/bench", () => postgres.open(), isUncached)
const clients = connectClients(service.server, connections)
const client = new MemoryClient(service.server)

const fail = (message: string): never => {
  throw new Error(`${message}${Array.from(postgres.unknown, (text) => `\nNot recorded: ${text}`).join("")}`)
}

interface Task {
  readonly part: Measured["part"]
  readonly title: string
  readonly count: number
  /** Makes what a batch needs, which is not measured. Returns the batch, which resolves with what went wrong. */
  readonly prepare: () => () => Promise<string | undefined>
  readonly check: () => string | undefined
}

const waitForUsage = async (rows: number) => {
  const deadline = performance.now() + usageTimeoutMillis
  while (postgres.usageRows < rows && performance.now() < deadline) await sleep(10)
}

const makeRequestTask = async (of: InProcessCase, tags: ReadonlyArray<string>): Promise<Task> => {
  const { absent, makeRequest, name, requestsPerBatch: count, statement, status } = of
  postgres.startCase(name)
  const { body } = await client.request(of.recorded)
  // Errors contain the id of the request.
  const isSame = status >= 400 || body.toString() === recording.bodies[name]
  if (!isSame) fail(`${name} has another response than with PostgreSQL: ${body.toString()}`)
  // A request without a key belongs to no account, so its usage is not recorded.
  const usagePerRequest = status === 401 ? 0 : 1
  const part = statement ?? absent ?? ""
  let [number, statements] = [0, 0]
  return {
    part: "request",
    title: of.title,
    count,
    prepare: () => {
      postgres.startCase(name)
      const requests = Array.from({ length: count }, () => makeRequest(number++, tags))
      const usageRows = postgres.usageRows + usagePerRequest * count
      statements = postgres.countExecutions(part)
      return async () => {
        const [unexpected] = await sendAll(clients, requests, status)
        await waitForUsage(usageRows)
        return unexpected
      }
    },
    check: () => {
      const sent = postgres.countExecutions(part) - statements
      const wrong = Math.abs(sent - (statement === undefined ? 0 : count))
      // Few entries of the response cache expire, if other load on the machine delays the poll of their version.
      return wrong > count / 100 ? `${name}: ${count} requests sent ${sent} statements` : undefined
    },
  }
}

const makeStepTask = ({ count, replies, run, title }: Step): Task => ({
  part: "step",
  title,
  count,
  prepare: () => {
    if (replies !== undefined) postgres.startCase(replies)
    return () => run().then(() => undefined)
  },
  check: () => undefined,
})

const readETags = async ({ makeRequest }: InProcessCase) => {
  const tags: Array<string> = []
  for (let number = 0; number < popularRequests; number += 1) {
    const { head } = await client.request(makeRequest(number, []))
    tags.push(/^etag: (.*)$/im.exec(head)?.[1]?.trim() ?? fail("A response has no ETag"))
  }
  return tags
}

const isChosen = ({ name }: { readonly name: string }) => options.only?.includes(name) ?? true

const cases = makeInProcessCases(recording.key).filter((of) => of.isUncached === isUncached)

const makeUncachedTasks = async () => {
  const tasks: Array<Task> = []
  for (const of of cases.filter(isChosen)) tasks.push(await makeRequestTask(of, []))
  return tasks
}

const makeTasks = async () => {
  if (isUncached) return makeUncachedTasks()
  const hit = cases.find(({ name }) => name === "hit") ?? fail("There is no case for hits")
  postgres.startCase(hit.name)
  const tags = await readETags(hit)
  const response = await client.request(hit.recorded)
  const tasks: Array<Task> = []
  for (const of of cases.filter(isChosen)) tasks.push(await makeRequestTask(of, tags))
  const steps = await makeSteps(service, postgres, response, connections)
  return [...tasks, ...steps.filter(isChosen).map(makeStepTask)]
}

const runBatch = async ({ check, count, prepare }: Task) => {
  const run = prepare()
  globalThis.gc?.()
  // V8 sweeps the heap in other threads for some time, whose CPU time is part of the process's.
  await sleep(sweepMillis)
  const before = process.cpuUsage()
  const problem = await run()
  const { system, user } = process.cpuUsage(before)
  return { micros: (system + user) / count, problem: problem ?? check() }
}

const measured = (await makeTasks()).map((task) => ({
  task,
  micros: new Array<number>(),
  problems: new Array<string>(),
}))
// Until the usage of the requests above is written.
await sleep(1000)
// In turns, so that other load on the machine affects all of them.
for (let batch = -warmUpBatches; batch < options.batches; batch += 1) {
  for (const { micros, problems, task } of measured) {
    const { micros: one, problem } = await runBatch(task)
    if (batch < 0) continue
    // Timeouts pass if other load stops this process for seconds.
    if (problem === undefined) micros.push(one)
    else problems.push(problem)
    if (problems.length > options.batches / 2) fail(`Half of the batches failed: ${problem}`)
  }
}
// Statements of rare background work fail, which disturbs no request.
for (const text of postgres.unknown) console.error(`Not recorded: ${text}`)
const lowest = measured.map(({ micros, task: { part, title } }): Measured => ({
  part,
  title,
  micros: Math.min(...micros),
  medianMicros: median(micros),
}))
process.stdout.write(JSON.stringify(lowest), () => process.exit())
