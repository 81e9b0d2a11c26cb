/**
 * Sends the typed client's requests through Prism, which validates requests and responses against the served OpenAPI
 * document.
 */
import { Effect } from "effect"
import { toEndpointName } from "../../src/client/EndpointTypes.ts"
import { createClient, TickerlineError } from "../../src/client/PromiseClient.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { eventStreamContentType } from "../../src/contract/rules/EventStreamFormat.ts"
import { type Judge, type JudgedService, readJsonValue, startProgram } from "./Judge.ts"

/** A request, and the expected status of its response. */
interface PlannedRequest {
  readonly path: string
  readonly query: URLSearchParams
  readonly status: number
}

const parametersOf = (operation: unknown) => Array.from(Object.values(Object(readJsonValue(operation, "parameters"))))

/** Returns a query with the example value, or the first allowed value, of each required parameter. */
const makeMinimalQuery = (operation: unknown) =>
  new URLSearchParams(
    parametersOf(operation).filter((parameter) => readJsonValue(parameter, "required") === true).map((parameter) => {
      const schema = readJsonValue(parameter, "schema")
      const value = readJsonValue(schema, "examples", 0) ?? readJsonValue(schema, "enum", 0)
      return [String(readJsonValue(parameter, "name")), String(value)]
    }),
  )

/**
 * Returns the requests listed in the summaries of an operation's examples. Omits the invalid requests, which get a 422.
 */
const listExamples = (path: string, operation: unknown): ReadonlyArray<PlannedRequest> =>
  Object.entries(Object(readJsonValue(operation, "responses"))).flatMap(([code, response]) =>
    Object.values(Object(readJsonValue(response, "content", "application/json", "examples"))).map((example) => ({
      path,
      query: new URLSearchParams(String(readJsonValue(example, "summary")).split("?")[1] ?? ""),
      status: Number(code),
    }))
  ).filter(({ status }) => status !== 422)

/**
 * Returns whether the operation responds with an event stream. Prism waits for the end of the response, and a stream
 * has no end.
 */
const isEndless = (operation: unknown) =>
  readJsonValue(operation, "responses", "200", "content", eventStreamContentType) !== undefined

/**
 * Returns the example requests of all operations, plus a minimal request for each operation without a successful
 * example.
 */
const listRequests = (document: unknown): ReadonlyArray<PlannedRequest> =>
  Object.entries(Object(readJsonValue(document, "paths"))).flatMap(([path, item]) => {
    const operation = readJsonValue(item, "get")
    if (isEndless(operation)) return []
    const examples = listExamples(path, operation)
    const lacksSuccess = examples.every(({ status }) => status !== 200)
    return [...examples, ...(lacksSuccess ? [{ path, query: makeMinimalQuery(operation), status: 200 }] : [])]
  })

/** Returns the successful requests, each repeated for every text format other than JSON that its list supports. */
const listFormatRequests = (document: unknown): ReadonlyArray<PlannedRequest> =>
  listRequests(document).filter(({ status }) => status === 200).flatMap(({ path, query, status }) => {
    const parameters = parametersOf(readJsonValue(document, "paths", path, "get"))
    const format = parameters.find((parameter) => readJsonValue(parameter, "name") === "format")
    const formats = Object.values(Object(readJsonValue(format, "schema", "enum"))).map(String)
    return formats.filter((name) => name !== "json" && name !== "parquet").map((name) => ({
      path,
      query: new URLSearchParams([...query, ["format", name]]),
      status,
    }))
  })

/** Starts Prism as a proxy in front of the service and waits until it forwards requests. */
const startPrism = async ({ documentFile, origin }: JudgedService) => {
  const port = String(await Effect.runPromise(chooseFreePort))
  const prism = startProgram("prism", ["proxy", documentFile, origin, "--errors", "-p", port, "-v", "warn"])
  let outputOfEnd: string | undefined
  void prism.ended.then(({ output }) => {
    outputOfEnd = output
  })
  const url = `http://127.0.0.1:${port}`
  while (!await fetch(`${url}/health/live`).then(({ ok }) => ok, () => false)) {
    if (outputOfEnd !== undefined) throw new Error(`Prism ended:\n${outputOfEnd}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return { url, stop: prism.stop }
}

/** Returns a `fetch` that records the violations reported by Prism and the response statuses. */
const makeRecordingFetch = (findings: Array<string>, statuses: Array<number>): typeof fetch => async (input, init) => {
  const response = await fetch(input, init)
  const violations = response.headers.get("sl-violations")
  const text = await response.clone().text()
  if (violations !== null || text.includes("stoplight.io/prism")) {
    findings.push(`${String(input)}: ${violations ?? text}`)
  }
  statuses.push(response.status)
  return response
}

type Send = (query: Readonly<Record<string, string>>) => Promise<unknown>

const isSend = (value: unknown): value is Send => typeof value === "function"

/** Checks the typed client's requests and their responses. */
export const prism: Judge = {
  name: "prism",
  programs: ["prism"],
  run: async (target) => {
    const proxy = await startPrism(target)
    try {
      const [findings, statuses]: [Array<string>, Array<number>] = [[], []]
      const recordingFetch = makeRecordingFetch(findings, statuses)
      const client = createClient({
        baseUrl: proxy.url,
        apiKey: target.key,
        retries: 0,
        onDeprecated: () => {},
        fetch: recordingFetch,
      })
      const headers = { authorization: `Bearer ${target.key}` }
      const sendPlain = ({ path, query }: PlannedRequest) => recordingFetch(`${proxy.url}${path}?${query}`, { headers })
      const send = async (request: PlannedRequest) => {
        const get = readJsonValue(client, toEndpointName(request.path), "get")
        // The changelog feed is not JSON, so the typed client has no method for it.
        if (!isSend(get)) return await sendPlain(request)
        return await get(Object.fromEntries(request.query)).catch((error: unknown) => {
          if (!(error instanceof TickerlineError)) throw error
        })
      }
      const check = async (request: PlannedRequest, sendRequest: (request: PlannedRequest) => Promise<unknown>) => {
        await sendRequest(request)
        const status = statuses.pop()
        if (status === request.status) return
        findings.push(`${request.path}?${request.query}: status ${status}, not ${request.status}`)
      }
      const requests = listRequests(target.document)
      if (requests.length === 0) throw new Error("The document has no operations")
      for (const request of requests) await check(request, send)
      for (const request of listFormatRequests(target.document)) await check(request, sendPlain)
      // Checks that Prism validates at all: it must reject a request that the OpenAPI document forbids.
      const invalid = await fetch(`${proxy.url}/v1/news?page=none`, { headers })
      if (!(await invalid.text()).includes("stoplight.io/prism")) findings.push("Prism accepted page=none")
      return findings
    } finally {
      await proxy.stop()
    }
  },
}
