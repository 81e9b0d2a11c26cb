/** Appends a summary of the responses during a fault to the file in `FAULTS_SEEN`, for RELIABILITY.md. */
import { Effect } from "effect"
import { appendFileSync } from "node:fs"
import type { ClientSummary } from "./SteadyClients.ts"

export const recordFaultSummary = (fault: string, seen: ClientSummary) =>
  Effect.sync(() => {
    const file = process.env["FAULTS_SEEN"]
    if (file !== undefined) appendFileSync(file, `${JSON.stringify({ fault, ...seen })}\n`)
  })
