/** Prevents users from accidentally mixing the fictional sample market with real data. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"
import { CommandFailed, makeBooleanFlag } from "./CommandParts.ts"
import { confirmOnTerminal } from "./terminal/Confirmation.ts"

/**
 * Returns whether the database contains rows of the sample market. They are recognized by their CIKs, which begin with
 * 9990 or 0999. No real CIK does.
 */
const hasSampleMarket = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly found: boolean }>`
    select exists (select from screener where cik ~ '^(9990|0999)')
      or exists (select from ticker_changes where cik ~ '^(9990|0999)')
      or exists (select from historical_float_pro where cik ~ '^(9990|0999)') as found
  `
  return row?.found === true
})

const description = "The database contains the fictional sample market, with which real rows would mix."
const advice = `Remove it with: ${tickerlineCommand} samples remove`

/** The flag that allows a script to load real data into a database that contains the sample market. */
export const allowSampleDataFlag = makeBooleanFlag(
  "yes",
  "Load into a database with the fictional sample market without asking",
)

/**
 * Fails if the database contains the sample market, unless mixing it with real data was accepted by a flag or by the
 * user at a terminal.
 */
export const confirmMixingWithSamples = Effect.fnUntraced(function* (isAccepted: boolean) {
  if (isAccepted || !(yield* hasSampleMarket)) return
  if (yield* confirmOnTerminal(`${description} Continue?`)) return
  return yield* new CommandFailed({ message: `${description} ${advice}. To mix them, add --yes.` })
})

/** Warns if the database of a service with a scheduled ingest of real data contains the sample market. */
export const warnOfSampleMarket = Effect.gen(function* () {
  if (yield* hasSampleMarket) yield* Effect.logWarning(`${description} ${advice}`)
})
