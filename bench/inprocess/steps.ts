/** Steps of request handling that `measure.ts` measures separately. */
import { PgClient, PgPool } from "@effect/sql-pg"
import { Context, Effect, Scope } from "effect"
import { createServer } from "node:http"
import { UsageMetering } from "../../src/accounts/billing/UsageMetering.ts"
import { DatabaseReader } from "../../src/postgres/DatabaseReader.ts"
import { makeQueryDecoder } from "../../src/contract/rules/QueryValidation.ts"
import { makeStorablePage } from "../../src/query/lists/QueryCache.ts"
import { getRecordColumn } from "../../src/postgres/BinaryRecord.ts"
import { makeSingleRowResultEncoder } from "../../src/query/rows/ResultWriter.ts"
import { encodeListPage } from "../../src/query/rows/PageEncoder.ts"
import { IntradayRunner, IntradayRunnersQuery } from "../../src/contract/endpoints/intraday-runners.ts"
import { sleep } from "../processes.ts"
import { connectClients, type Response, sendAll } from "./memoryClient.ts"
import type { MemoryPostgres } from "./memoryPostgres.ts"
import type { Service } from "./service.ts"

/** A step of request handling. */
export interface Step {
  readonly name: string
  readonly title: string
  /** How many times `run` repeats the step. */
  readonly count: number
  /** The case whose recorded replies PostgreSQL sends. */
  readonly replies?: string
  readonly run: () => Promise<unknown>
}

/** The number of concurrent statements. It equals the maximum number of connections for a single endpoint. */
const concurrency = 8

const parameters = { ticker: "AAAA", min_gap_percentage: "-9000.1000000000" }

/** Runs a synchronous step repeatedly. */
const repeat = (count: number, run: () => unknown) => async () => {
  for (let times = 0; times < count; times += 1) run()
}

/** Measures Node's HTTP server alone. It sends the headers and the body of a response that the service returned. */
const makeServerStep = (
  { body, head }: Response,
  connections: number,
): Step => {
  const headers = head.split("\r\n").slice(1, -2).flatMap((line) => {
    const [name = "", value = ""] = line.split(": ", 2)
    return /^(date|connection|keep-alive)$/i.test(name) ? [] : [name, value]
  })
  const server = createServer((_, response) => void response.writeHead(200, headers).end(body))
  const clients = connectClients(server, connections)
  const request = Buffer.from(
    "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n",
  )
  const requests = Array.from({ length: 4000 }, () => request)
  return {
    name: "node",
    title: "The client and `node:http`, with all headers and 10 rows from memory",
    count: requests.length,
    run: () => sendAll(clients, requests, 200),
  }
}

/** Measures recording the usage of requests until the usage has been written. */
const makeUsageStep = (
  { services }: Service,
  postgres: MemoryPostgres,
): Step => {
  const { record } = Context.get(services, UsageMetering)
  const count = 4000
  const recordRequest = (number: number) =>
    record({
      requested_at: Date.now(),
      account_id: 1,
      key_id: 1,
      request_id: `0193a5f0-0000-7000-8000-${String(number).padStart(12, "0")}`,
      endpoint: "/v1/intraday-runners",
      status_code: 200,
      records_returned: 10,
      bytes: 9000,
      cost_microdollars: 0,
      price_per_gb_microdollars: 0,
      duration_ms: 3,
      cached: false,
      deprecated: false,
      via: null,
      reservation_id: null,
    })
  return {
    name: "usage",
    title: "Recording usage, and writing it in batches of 2,000",
    count,
    run: async () => {
      const expected = postgres.usageRows + count
      for (let number = 0; number < count; number += 1) recordRequest(number)
      while (postgres.usageRows < expected) await sleep(10)
    },
  }
}

/** Measures reading intraday runners, both through the database driver with a separate pool and through the service. */
const makeReadSteps = async (
  { services }: Service,
  postgres: MemoryPostgres,
) => {
  const { config } = Context.get(services, PgClient.PgClient)
  const pool = await Effect.runPromise(
    Scope.provide(PgPool.make({ ...config, maxConnections: concurrency }), Scope.makeUnsafe()),
  )
  const { read } = Context.get(services, DatabaseReader)
  const results = makeSingleRowResultEncoder(IntradayRunner)
  const values = Object.values(parameters)

  const repeatStatement = <E>(count: number, effect: Effect.Effect<unknown, E>) => () =>
    Effect.runPromise(
      Effect.forEach(Array.from({ length: count }), () => effect, {
        concurrency,
        discard: true,
      }),
    )

  const steps: Array<Step> = []
  for (const rows of [0, 10, 100]) {
    const replies = `runners-${rows}`
    postgres.startCase(replies)
    const text = postgres.findStatement("intraday_runners", replies)
    const query = pool.use((session) => session.queryValues(text, values, true))
    const records = getRecordColumn(await Effect.runPromise(query))
    const limit = Math.max(10, rows)
    const encode = () =>
      encodeListPage({ page: 1, limit }, {
        format: "json",
        message: undefined,
        results,
        rows: records,
      })
    const content = encode()
    const count = rows === 100 ? 200 : 1000
    steps.push(
      {
        name: "driver",
        title: `Statement with ${rows} rows, driver and its pool alone`,
        count,
        replies,
        run: repeatStatement(count, query),
      },
      {
        name: "read",
        title: `Statement with ${rows} rows, read by the service`,
        count,
        replies,
        run: repeatStatement(
          count,
          // Tracing is disabled, as it is in the service unless tracing is configured.
          Effect.withTracerEnabled(
            read({ text, parameters: values, isPrepared: true }, { partition: "bench", from: "primary" }),
            false,
          ),
        ),
      },
    )
    if (rows === 0) continue
    steps.push(
      {
        name: "encode",
        title: `JSON of ${rows} rows`,
        count,
        run: repeat(count, encode),
      },
      {
        name: "etag",
        title: `\`ETag\` of ${rows} rows`,
        count,
        run: repeat(count, () => makeStorablePage(content, { past: undefined, route: "/v1/intraday-runners" })),
      },
    )
  }
  return steps
}

const makeDecodeStep = (): Step => {
  const decode = makeQueryDecoder(IntradayRunnersQuery)
  const count = 2000
  return {
    name: "decode",
    title: "Decoding a query of two parameters",
    count,
    run: repeat(count, () => decode(parameters, Date.now())),
  }
}

const idleMillis = 500

/** Measures background work, such as polls and probes, which uses CPU time even if there are no requests. */
const idleStep: Step = {
  name: "idle",
  title: "Background work per millisecond of time",
  count: idleMillis,
  run: () => sleep(idleMillis),
}

/** Creates all steps. `response` is the response that Node's HTTP server alone sends. */
export const makeSteps = async (
  service: Service,
  postgres: MemoryPostgres,
  response: Response,
  connections: number,
): Promise<ReadonlyArray<Step>> => [
  makeServerStep(response, connections),
  makeDecodeStep(),
  ...await makeReadSteps(service, postgres),
  makeUsageStep(service, postgres),
  idleStep,
]
