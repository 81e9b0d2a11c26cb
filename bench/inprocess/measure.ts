/** Measures the selected cases and steps in this process, and prints the results as JSON. */
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

/** The results for a case or a step. */
export interface Measured extends Collections {
  readonly part: "request" | "step"
  readonly title: string
  /** The CPU time per request for each batch, in microseconds. */
  readonly micros: ReadonlyArray<number>
  /** The total number of requests in all batches. */
  readonly requests: number
  readonly delay: EventLoopDelay
}

/**
 * The number of warm-up requests or repetitions per case. A warm-up is needed because V8 compiles functions only after
 * many calls.
 */
const warmUpRequests = 4000

/**
 * How many times each case is measured. The cases alternate, so that other load on the machine affects all of them
 * equally.
 */
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
   * Prepares a batch; the preparation is not measured. Returns a function that runs the batch and resolves with an
   * error message, or undefined on success.
   */
  readonly prepare: () => () => Promise<string | undefined>
}

/**
 * Creates a task that sends the requests of a case. First checks that the response is the recorded one. After each
 * batch, checks how often the service has sent the SQL statement that contains the text `statement`: once per request.
 * A case without `statement` is served from memory, and the statement that contains `absent` must not have been sent.
 * `tags` are the ETags with which clients revalidate responses.
 */
const makeRequestTask = async (inProcessCase: InProcessCase, tags: ReadonlyArray<string>): Promise<Task> => {
  const { absent, makeRequest, name, requestsPerBatch: count, statement, status } = inProcessCase
  postgres.startCase(name)
  const { body } = await client.request(inProcessCase.recorded)
  // Error responses are not compared, because they contain the request ID.
  const isSame = status >= 400 || body.toString() === recording.bodies[name]
  if (!isSame) fail(`The response of ${name} differs from the one with PostgreSQL: ${body.toString()}`)
  // Requests without a key do not belong to an account, so no usage is recorded for them.
  const usagePerRequest = status === 401 ? 0 : 1
  const statementText = statement ?? absent ?? ""
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
        const sentBefore = postgres.countExecutions(statementText)
        const [unexpected] = await sendAll(clients, requests, status)
        await waitForUsage(usageRows)
        const sent = postgres.countExecutions(statementText) - sentBefore
        const wrong = Math.abs(sent - (statement === undefined ? 0 : count))
        // Tolerates a few mismatches: if other load on the machine delays the poll for dataset versions, a few entries
        // of the response cache may expire.
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
 * Runs the batches of one turn of a case, and adds the measurements to `one`: the CPU time per request (`micros`), the
 * garbage collections, and the delays of the event loop. The requests of all batches are created in advance. Garbage
 * collection is not forced, because that would discard optimized code. The first batch is not measured: its collections
 * move the requests, and garbage from the previous case, to the old generation.
 */
const takeTurn = async (one: typeof measured[number], batches: number) => {
  const { count, prepare } = one.task
  const [runUnmeasured = fail("There is no batch"), ...runs] = Array.from({ length: 1 + batches }, prepare)
  await runUnmeasured()
  // Discards the delays of the event loop until now.
  takeDelays()
  const stopRecording = recordCollections()
  for (const run of runs) {
    const before = readCpu()
    const problem = await run()
    const micros = (readCpu() - before) / count
    // A batch can fail with a timeout if other load stops this process for several seconds.
    if (problem === undefined) one.micros.push(micros)
    else if (++one.problems > options.batches / 2) fail(`Half of the batches failed: ${problem}`)
  }
  one.collections.push(stopRecording())
  one.delays.add(takeDelays())
}

// Waits until the usage of the requests above has been written.
await sleep(1000)
for (const { task: { count, prepare } } of measured) {
  for (let sent = 0; sent < warmUpRequests; sent += count) await prepare()()
}
for (let turn = 0; turn < turns; turn += 1) {
  for (const one of measured) await takeTurn(one, Math.ceil(options.batches / turns))
}
// The recording does not include statements of infrequent background work. They fail, but no request is affected.
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
