/** What clients saw of a fault, for RELIABILITY.md: written to the file of `FAULTS_SEEN`, where it names one. */
import { Effect } from "effect"
import { appendFileSync } from "node:fs"
import type { ClientSummary } from "./SteadyClients.ts"

export const recordFaultSummary = (fault: string, seen: ClientSummary) =>
  Effect.sync(() => {
    const file = process.env["FAULTS_SEEN"]
    if (file !== undefined) appendFileSync(file, `${JSON.stringify({ fault, ...seen })}\n`)
  })
