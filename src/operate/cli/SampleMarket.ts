/** Prevents the fictional sample market and real data from being mixed by mistake. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"
import { CommandFailed, makeBooleanFlag } from "./CommandParts.ts"
import { askOnTerminal } from "./terminal/Confirmation.ts"

/** Whether a table contains rows of the sample market. Its CIKs begin with 9990 or 0999, as no real ones do. */
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

/** The flag with which scripts accept the mixture. */
export const mixingFlag = makeBooleanFlag("yes", "Load into a database with the fictional sample market without asking")

/** Fails if the database contains the sample market, unless a flag or the user of a terminal accepts the mixture. */
export const confirmMixingWithSamples = Effect.fnUntraced(function* (isAccepted: boolean) {
  if (isAccepted || !(yield* hasSampleMarket)) return
  if (yield* askOnTerminal(`${description} Continue?`)) return
  return yield* new CommandFailed({ message: `${description} ${advice}. To mix them, add --yes.` })
})

/** Warns about the sample market, in a service that ingests real data by itself. */
export const warnOfSampleMarket = Effect.gen(function* () {
  if (yield* hasSampleMarket) yield* Effect.logWarning(`${description} ${advice}`)
})
