/**
 * Starts the service in this process. In-memory connections link it to clients and to a simulated PostgreSQL server
 * with recorded replies.
 */
import process from "node:process"
import { sleep } from "../processes.ts"
import { connectClients, MemoryClient } from "./memoryClient.ts"
import { MemoryPostgres } from "./memoryPostgres.ts"
import { readRecording } from "./recording.ts"
import { startService } from "./service.ts"

/** The number of connections. wrk uses the same number in `npm run bench`. */
export const connections = 32

/** The maximum time to wait until the usage of a batch has been written. */
const usageTimeoutMillis = 30_000

/** Starts the service with the recording in the file that `RECORDING` specifies. */
export const startMemoryService = async (isUncached: boolean) => {
  const recording = readRecording(process.env["RECORDING"] ?? "")
  const postgres = new MemoryPostgres(recording)
  const service = await startService("postgres://bench:secret@127.0.0.1:1/bench", () => postgres.open(), isUncached)
  return {
    recording,
    postgres,
    service,
    clients: connectClients(service.server, connections),
    client: new MemoryClient(service.server),
    /** Waits until the usage of the given number of requests has been written. */
    waitForUsage: async (rows: number) => {
      const deadline = performance.now() + usageTimeoutMillis
      while (postgres.usageRows < rows && performance.now() < deadline) await sleep(10)
    },
    fail: (message: string): never => {
      throw new Error(`${message}${Array.from(postgres.unknown, (text) => `\nNot recorded: ${text}`).join("")}`)
    },
  }
}
