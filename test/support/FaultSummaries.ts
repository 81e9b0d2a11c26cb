/**
 * Appends summaries of what clients observed during a fault to the file named in `FAULTS_SEEN`, for use in
 * RELIABILITY.md.
 */
import { Effect } from "effect"
import { appendFileSync } from "node:fs"

/** Appends a summary if `FAULTS_SEEN` is set. */
export const recordFaultSummary = (fault: string, seen: object) =>
  Effect.sync(() => {
    const file = process.env["FAULTS_SEEN"]
    if (file !== undefined) appendFileSync(file, `${JSON.stringify({ fault, ...seen })}\n`)
  })
