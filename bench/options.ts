/** Command-line options. */
import { parseArgs } from "node:util"
import { fileURLToPath } from "node:url"
import { resolve } from "node:path"

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    servers: { type: "string" },
    rounds: { type: "string" },
    seconds: { type: "string" },
    warmup: { type: "string" },
    "warmup-requests": { type: "string" },
    connections: { type: "string" },
    tickerline: { type: "string" },
    against: { type: "string" },
    "skip-memory": { type: "boolean", default: false },
    "skip-growth": { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    fresh: { type: "boolean", default: false },
    rows: { type: "string" },
    datasets: { type: "string" },
    share: { type: "string" },
    batches: { type: "string" },
    processes: { type: "string" },
  },
})

const list = (text: string | undefined) => text?.split(",").map((word) => word.trim()).filter((word) => word !== "")

const number = (name: string, text: string | undefined, fallback: number) => {
  const value = text === undefined ? fallback : Number(text)
  // wrk accepts whole seconds only.
  if (!Number.isInteger(value) || value < 1) {
    throw new Error(`--${name} must be an integer above 0, not ${text}`)
  }
  return value
}

const only = list(values.only)
const wants = (extra: string, skipped: boolean) => !skipped && (only === undefined || only.includes(extra))

export const options = {
  only,
  servers: list(values.servers),
  rounds: number("rounds", values.rounds, values.quick ? 1 : 5),
  seconds: number("seconds", values.seconds, values.quick ? 1 : 3),
  /** Seconds of warm-up before each measurement. */
  warmup: number("warmup", values.warmup, 1),
  /** Requests that each server answers before the first measurement of a case. */
  warmupRequests: number("warmup-requests", values["warmup-requests"], values.quick ? 1000 : 10_000),
  connections: list(values.connections)?.map((text) => number("connections", text, 1)),
  memory: wants("memory", values["skip-memory"] || values.quick),
  growth: wants("growth", values["skip-growth"] || values.quick),
  quick: values.quick,
  fresh: values.fresh,
  /** For `growth`: the number of rows of a dataset. */
  rows: number("rows", values.rows, 1_000_000),
  datasets: list(values.datasets),
  /** For `machines`: the CPU quota of each service, in cores. */
  share: Number(values.share ?? 0.25),
  /** For `inprocess`: batches per case and process, and the number of processes. */
  batches: number("batches", values.batches, values.quick ? 3 : 15),
  processes: number("processes", values.processes, 2),
  /** Folder of the service that is measured. */
  tickerline: resolve(
    values.tickerline ?? fileURLToPath(new URL("..", import.meta.url)),
  ),
  /** For `usage`: folder of the version to compare with. */
  against: values.against === undefined ? undefined : resolve(values.against),
}
