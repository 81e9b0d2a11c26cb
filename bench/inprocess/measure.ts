/** Measures the chosen cases and steps in this process, and prints the figures of each as JSON. */
import { createHistogram } from "node:perf_hooks"
import process from "node:process"
import { type EventLoopDelay, readDelay, watchEventLoop } from "../eventLoop.ts"
import { options } from "../options.ts"
import { sleep } from "../processes.ts"
import { type InProcessCase, makeInProcessCases, popularRequests } from "./cases.ts"
import { type Collections, recordCollections } from "./collections.ts"
import { sendAll } from "./memoryClient.ts"
import { connections, startMemoryService } from "./memoryService.ts"
import { makeSteps, type Step } from "./steps.ts"

/** The figures of a case or a step. */
export interface Measured extends Collections {
  readonly part: "request" | "step"
  readonly title: string
  /** The CPU time of each batch per request, in microseconds. */
  readonly micros: ReadonlyArray<number>
  /** Number of requests in all batches. */
  readonly requests: number
  readonly delay: EventLoopDelay
}

/**
 * Requests or repetitions of a case before the first batch that counts. V8 compiles functions only after many calls.
 */
const warmUpRequests = 4000

/** Cases take turns, so that other load on the machine affects all of them. */
const turns = 3

const isUncached = process.env["UNCACHED"] === undefined ? undefined : true
const { client, clients, fail, postgres, recording, service, waitForUsage } = await startMemoryService(
  isUncached === true,
)

interface Task {
  readonly part: Measured["part"]
  readonly title: string
  readonly count: number
  /**
   * Creates what a batch needs, which is not measured. Returns the batch, which resolves with what went wrong, if
   * anything.
   */
  readonly prepare: () => () => Promise<string | undefined>
}

/** Creates the task that sends the requests of a case, and checks how many statements the service sends. */
const makeRequestTask = async (inProcessCase: InProcessCase, tags: ReadonlyArray<string>): Promise<Task> => {
  const { absent, makeRequest, name, requestsPerBatch: count, statement, status } = inProcessCase
  postgres.startCase(name)
  const { body } = await client.request(inProcessCase.recorded)
  // Errors contain the id of the request.
  const isSame = status >= 400 || body.toString() === recording.bodies[name]
  if (!isSame) fail(`The response of ${name} differs from the one with PostgreSQL: ${body.toString()}`)
  // A request without a key belongs to no account, so its usage is not recorded.
  const usagePerRequest = status === 401 ? 0 : 1
  const part = statement ?? absent ?? ""
  let number = 0
  return {
    part: "request",
    title: inProcessCase.title,
    count,
    prepare: () => {
      const requests = Array.from({ length: count }, () => makeRequest(number++, tags))
      return async () => {
        postgres.startCase(name)
        const usageRows = postgres.usageRows + usagePerRequest * count
        const statements = postgres.countExecutions(part)
        const [unexpected] = await sendAll(clients, requests, status)
        await waitForUsage(usageRows)
        const sent = postgres.countExecutions(part) - statements
        const wrong = Math.abs(sent - (statement === undefined ? 0 : count))
        // A few entries of the response cache may expire, if other load on the machine delays the poll of their
        // version.
        return unexpected ?? (wrong > count / 100 ? `${name}: ${count} requests sent ${sent} statements` : undefined)
      }
    },
  }
}

const makeStepTask = ({ count, replies, run, title }: Step): Task => ({
  part: "step",
  title,
  count,
  prepare: () => () => {
    if (replies !== undefined) postgres.startCase(replies)
    return run().then(() => undefined)
  },
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

const cases = makeInProcessCases(recording.key).filter((one) => one.isUncached === isUncached)

const makeUncachedTasks = async () => {
  const tasks: Array<Task> = []
  for (const one of cases.filter(isChosen)) tasks.push(await makeRequestTask(one, []))
  return tasks
}

const makeTasks = async () => {
  if (isUncached) return makeUncachedTasks()
  const hit = cases.find(({ name }) => name === "hit") ?? fail("There is no case for hits")
  postgres.startCase(hit.name)
  const tags = await readETags(hit)
  const response = await client.request(hit.recorded)
  const tasks: Array<Task> = []
  for (const one of cases.filter(isChosen)) tasks.push(await makeRequestTask(one, tags))
  const steps = await makeSteps(service, postgres, response, connections)
  return [...tasks, ...steps.filter(isChosen).map(makeStepTask)]
}

const readCpu = () => {
  const { system, user } = process.cpuUsage()
  return system + user
}

const takeDelays = watchEventLoop()

const measured = (await makeTasks()).map((task) => ({
  task,
  micros: new Array<number>(),
  delays: createHistogram(),
  collections: new Array<Collections>(),
  problems: 0,
}))

/**
 * Runs the batches of one turn. Garbage is collected only when V8 decides to, because a forced collection would discard
 * optimized code. The requests of all batches are created first. The first batch does not count: its collections move
 * the requests, and what the case before has left, to the old generation.
 */
const takeTurn = async (one: typeof measured[number], batches: number) => {
  const { count, prepare } = one.task
  const [settle = fail("There is no batch"), ...runs] = Array.from({ length: 1 + batches }, prepare)
  await settle()
  takeDelays()
  const stopRecording = recordCollections()
  for (const run of runs) {
    const before = readCpu()
    const problem = await run()
    const micros = (readCpu() - before) / count
    // Timeouts pass if other load stops this process for seconds.
    if (problem === undefined) one.micros.push(micros)
    else if (++one.problems > options.batches / 2) fail(`Half of the batches failed: ${problem}`)
  }
  one.collections.push(stopRecording())
  one.delays.add(takeDelays())
}

// Waits until the usage of the requests above is written.
await sleep(1000)
for (const { task: { count, prepare } } of measured) {
  for (let sent = 0; sent < warmUpRequests; sent += count) await prepare()()
}
for (let turn = 0; turn < turns; turn += 1) {
  for (const one of measured) await takeTurn(one, Math.ceil(options.batches / turns))
}
// The recording lacks statements of rare background work. They fail without disturbing any request.
for (const text of postgres.unknown) console.error(`Not recorded: ${text}`)
const found = measured.map(({ collections, delays, micros, task: { count, part, title } }): Measured => ({
  part,
  title,
  micros,
  requests: turns * Math.ceil(options.batches / turns) * count,
  scavenges: collections.flatMap(({ scavenges }) => scavenges),
  promotedBytes: collections.reduce((sum, { promotedBytes }) => sum + promotedBytes, 0),
  markCompacts: collections.flatMap(({ markCompacts }) => markCompacts),
  delay: readDelay(delays),
}))
process.stdout.write(JSON.stringify(found), () => process.exit())
