/**
 * The client process of `changeFeed.ts`. Arguments: port, API key, number of clients. Prints a line of JSON every
 * second.
 */
import { request } from "node:http"
import process from "node:process"

const [port, key = "", clients] = process.argv.slice(2)

const marker = Buffer.from(`"recorded_at":"`)
const timeLength = "2026-01-01T00:00:00.000000-05:00".length

const bytes: Array<number> = []
let delays: Array<number> = []
let [opened, ended] = [0, 0]

/**
 * Returns the delay, in milliseconds, of the change whose marker is at offset `at` of the chunk. Returns undefined if
 * `at` is -1, or if the chunk ends before the timestamp does.
 */
const readDelay = (chunk: Buffer, at: number, now: number) => {
  const start = at + marker.length
  if (at < 0 || start + timeLength > chunk.length) return undefined
  return now - Date.parse(chunk.toString("latin1", start, start + timeLength))
}

for (let client = 0; client < Number(clients); client += 1) {
  bytes[client] = 0
  const headers = { authorization: `Bearer ${key}` }
  const outgoing = request({ port, host: "127.0.0.1", path: "/v1/changes/stream?after=now", headers, agent: false })
  outgoing.on("response", (response) => {
    opened += response.statusCode === 200 ? 1 : 0
    response.on("data", (chunk: Buffer) => {
      bytes[client] = (bytes[client] ?? 0) + chunk.length
      const now = Date.now()
      // Samples only the oldest and the newest change in the chunk. Parsing every change would take longer than sending
      // it.
      for (const at of [chunk.indexOf(marker), chunk.lastIndexOf(marker)]) {
        const delay = readDelay(chunk, at, now)
        if (delay !== undefined) delays.push(delay)
      }
    })
    response.on("close", () => ended += 1)
  })
  outgoing.end()
}

setInterval(() => {
  const sorted = delays.toSorted((one, other) => one - other)
  delays = []
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  const [least, most] = [Math.min(...bytes), Math.max(...bytes)]
  console.log(
    JSON.stringify({ opened, ended, least, most, samples: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) }),
  )
}, 1000)
