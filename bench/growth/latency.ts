/** Measures the latency of requests to large tables, with cold caches and with warm caches. */
import { spawnSync } from "node:child_process"
import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import type pg from "pg"
import { authorizationHeaders, sendRequest } from "../httpClient.ts"
import { readTreeCpu } from "../processStats.ts"
import { dataFolder, type Postgres } from "../postgres.ts"
import type { NamedRequest } from "./requests.ts"

const folder = join(dataFolder, "growth")
const log = join(dataFolder, "postgres.log")

/**
 * Evicts the tables from PostgreSQL's buffer cache and from the operating system's page cache. Files of up to 1 MB,
 * such as the PostgreSQL system catalogs, remain in the page cache.
 */
export const dropCaches = async (client: pg.Client) => {
  await client.query("checkpoint")
  await client.query("select pg_buffercache_evict_all()")
  const { rows: [found] } = await client.query<{ readonly oid: string }>(
    "select oid::text from pg_database where datname = current_database()",
  )
  const files = join(folder, "base", found?.oid ?? "")
  // With `count=0`, `dd` writes nothing, but `oflag=nocache` makes the kernel drop the cached pages of the file.
  const forget = `find "$0" -size +1M -exec dd of={} oflag=nocache conv=notrunc count=0 status=none \\;`
  spawnSync("sh", ["-c", forget, files], { stdio: "inherit" })
}

/** A node of a query plan, in the format of `explain (format json)`. */
interface Plan {
  readonly "Node Type": string
  readonly "Index Name"?: string
  readonly "Shared Hit Blocks"?: number
  readonly "Shared Read Blocks"?: number
  readonly Plans?: ReadonlyArray<Plan>
}

interface Explained {
  readonly milliseconds: number
  readonly plan: Plan
}

/**
 * Reads the query plans that `auto_explain` has written to PostgreSQL's log file after the byte `from`, with the
 * duration of each statement. A plan is JSON over several lines, and ends where the next line begins with a date. A
 * plan that is not complete yet is left out.
 */
const plansSince = (from: number): ReadonlyArray<Explained> => {
  const text = readFileSync(log).subarray(from).toString()
  return Array.from(
    text.matchAll(
      /duration: ([\d.]+) ms {2}plan:\n([\s\S]*?)(?=\n\d{4}-\d\d-\d\d |$)/g,
    ),
  ).flatMap(
    ([, milliseconds, json]) => {
      try {
        const { Plan } = JSON.parse(json ?? "")
        return [{ milliseconds: Number(milliseconds), plan: Plan }]
      } catch {
        return []
      }
    },
  )
}

/** Lists the nodes of a query plan from the top. The month is removed from the names of partition indexes. */
const allSteps = (plan: Plan): ReadonlyArray<string> => [
  plan["Index Name"] === undefined
    ? plan["Node Type"]
    : `${plan["Node Type"]} (${plan["Index Name"].replace(/_\d{4}_\d{2}/, "")})`,
  ...(plan.Plans ?? []).flatMap(allSteps),
]

/** Returns the distinct nodes of a query plan, because a plan repeats the same nodes for each monthly partition. */
const steps = (plan: Plan) => Array.from(new Set(allSteps(plan)))

/** The result of measuring a request to a large table. */
export interface RequestTiming {
  readonly name: string
  readonly path: string
  readonly status: number
  readonly bytes: number
  /** The time in milliseconds until the response was complete, with cold caches. */
  readonly cold: number
  /** The shortest time of the warm requests that followed the cold request, in milliseconds. */
  readonly best: number
  /** The median time of the warm requests, in milliseconds. */
  readonly median: number
  /** PostgreSQL's CPU time per warm request, in milliseconds. */
  readonly database: number
  /** The number of 8 KiB pages that the cold request used. Undefined if the query plan was not logged. */
  readonly touched: number | undefined
  /** The number of those pages that were not in PostgreSQL's buffer cache. */
  readonly read: number | undefined
  /** The nodes of the query plan, outermost first. */
  readonly plan: string | undefined
}

interface LatencyContext {
  readonly postgres: Postgres
  readonly client: pg.Client
  readonly port: number
  readonly key: string
}

/** Sends a request once with cold caches, and then repeatedly with warm caches. */
export const measureRequest = async (
  { client, key, port, postgres }: LatencyContext,
  { name, path }: NamedRequest,
): Promise<RequestTiming> => {
  const once = async () => {
    const began = performance.now()
    const response = await sendRequest(port, path, authorizationHeaders(key))
    return { ...response, took: performance.now() - began }
  }
  await dropCaches(client)
  const from = statSync(log).size
  const cold = await once()
  const [longest] = plansSince(from).toSorted((one, other) => other.milliseconds - one.milliseconds)
  const before = readTreeCpu(postgres.pid)
  const warm: Array<number> = []
  // A very slow request is sent only once with warm caches.
  const times = cold.took > 10_000 ? 1 : 5
  while (warm.length < times) warm.push((await once()).took)
  const sorted = warm.toSorted((one, other) => one - other)
  const plan = longest?.plan
  return {
    name,
    path,
    status: cold.status,
    bytes: cold.body.length,
    cold: cold.took,
    best: sorted[0] ?? Number.NaN,
    median: sorted[Math.floor(times / 2)] ?? Number.NaN,
    database: (readTreeCpu(postgres.pid) - before) / 1000 / times,
    touched: plan === undefined ? undefined : (plan["Shared Hit Blocks"] ?? 0) + (plan["Shared Read Blocks"] ?? 0),
    read: plan?.["Shared Read Blocks"],
    plan: plan === undefined ? undefined : steps(plan).join(" ← "),
  }
}

/**
 * Runs a statement three times with `explain analyze`. Returns the shortest time in milliseconds, and the number of
 * pages that this run used.
 */
export const measureStatement = async (client: pg.Client, sql: string) => {
  const found: Array<{ readonly took: number; readonly plan: Plan }> = []
  while (found.length < 3) {
    const { rows: [row] } = await client.query<
      { "QUERY PLAN": ReadonlyArray<{ "Execution Time": number; Plan: Plan }> }
    >(
      `explain (analyze, buffers, timing off, format json) ${sql}`,
    )
    const [one] = row?.["QUERY PLAN"] ?? []
    if (one === undefined) throw new Error("no plan")
    found.push({ took: one["Execution Time"], plan: one.Plan })
  }
  const [best] = found.toSorted((one, other) => one.took - other.took)
  return {
    best: best?.took ?? Number.NaN,
    touched: (best?.plan["Shared Hit Blocks"] ?? 0) +
      (best?.plan["Shared Read Blocks"] ?? 0),
    plan: best === undefined ? "" : steps(best.plan).join(" ← "),
  }
}
