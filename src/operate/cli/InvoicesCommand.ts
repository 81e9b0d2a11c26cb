/** The `invoices` command: closes months for billing, and prints invoices. */
import { Console, Effect, Option, Stdio, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { closeMonth, type Invoice, listInvoices, readInvoice } from "../../accounts/billing/Invoices.ts"
import { formatUsd } from "../../accounts/billing/Usd.ts"
import { TrimmedName } from "../../accounts/TrimmedName.ts"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { CalendarMonth } from "../../contract/rules/Dates.ts"
import {
  makeArgument,
  makeBooleanFlag,
  makeFlag,
  makeUsageError,
  withExamples,
  withPipeableExamples,
} from "./CommandParts.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { formatTimeCell, printTextTable } from "./terminal/TextTable.ts"

const month = makeArgument("month", CalendarMonth, "Month in New York, such as 2026-11")
const account = Flag.optional(makeFlag("account", TrimmedName, "Only this account"))

const formatCost = (microdollars: number) => formatUsd(BigInt(microdollars))

const closeCommand = Command.make(
  "close",
  {
    month,
    account,
    skipsEarlierUsage: makeBooleanFlag(
      "skip-earlier-usage",
      "Start the invoices of accounts that have none with this month; what they used before is never invoiced",
    ),
  },
  Effect.fnUntraced(function* ({ account, month, skipsEarlierUsage }) {
    const { created, existing, later } = yield* withProgressDisplay(
      closeMonth({ month, account: Option.getOrNull(account), skipsEarlierUsage }),
    )
    const result = created > 0
      ? `Closed ${month}: ${formatCountWithNoun(created, "new invoice")}` +
        (existing > 0 ? `, ${existing} existed already.` : ".")
      : existing > 0
      ? `${month} is closed already. Nothing was changed.`
      : later > 0
      ? "Nothing was changed."
      : `No account existed in ${month}. Nothing was changed.`
    yield* Console.log(
      later === 0 ? result : `${result} Accounts with only a later invoice, which get none for ${month}: ${later}.`,
    )
  }),
).pipe(
  Command.withDescription("Close a month: make an invoice for each account, which never changes afterwards"),
  withExamples({
    "invoices close 2026-11": "Close November for all accounts",
    "invoices close 2026-11 --account acme": "Close November for one account",
    "invoices close 2026-11 --skip-earlier-usage": "Begin with invoices in November",
  }),
)

const invoiceColumns = [
  { name: "account" },
  { name: "month" },
  { name: "closed (UTC-5)" },
  { name: "lines", isNumber: true },
  { name: "requests", isNumber: true },
  { name: "bytes", isNumber: true },
  { name: "cost (USD)", isNumber: true },
  { name: "SHA-256" },
]

const formatInvoice = (invoice: Invoice) => [
  invoice.account,
  invoice.month,
  formatTimeCell(invoice.closed_at),
  String(invoice.lines),
  String(invoice.requests),
  String(invoice.bytes),
  formatCost(invoice.cost_microdollars),
  invoice.digest,
]

const listCommand = Command.make(
  "list",
  { account },
  Effect.fnUntraced(function* ({ account }) {
    const invoices = yield* listInvoices(Option.getOrNull(account))
    yield* printTextTable({ columns: invoiceColumns, rows: invoices.map(formatInvoice) })
  }),
).pipe(
  Command.withDescription("List invoices in a table, newest first"),
  withPipeableExamples({ "invoices list --account acme": "List the invoices of an account" }),
)

const showCommand = Command.make(
  "show",
  {
    account: makeArgument("account", TrimmedName, "Name of the account"),
    month,
    csv: makeBooleanFlag("csv", "Print the lines as the CSV that customers get, of which the digest is the SHA-256"),
    json: makeBooleanFlag("json", "Print one JSON object"),
  },
  Effect.fnUntraced(function* ({ account, csv, json, month }) {
    if (csv && json) return yield* makeUsageError("invoices show", "Use either --csv or --json.")
    const { csv: text, invoice, lines } = yield* readInvoice(account, month)
    if (json) return yield* Console.log(JSON.stringify({ ...invoice, lines }))
    if (csv) {
      const { stdout } = yield* Stdio.Stdio
      return yield* Stream.run(Stream.encodeText(Stream.succeed(text)), stdout())
    }
    yield* printTextTable({
      columns: [
        { name: "line", isNumber: true },
        { name: "day" },
        { name: "endpoint" },
        { name: "kind" },
        { name: "requests", isNumber: true },
        { name: "bytes", isNumber: true },
        { name: "USD per GB", isNumber: true },
        { name: "cost (USD)", isNumber: true },
      ],
      rows: lines.map((line) => [
        String(line.line),
        line.usage_date,
        line.endpoint,
        line.kind,
        String(line.requests),
        String(line.bytes),
        line.price_per_gb_microdollars === null ? null : formatCost(line.price_per_gb_microdollars),
        formatCost(line.cost_microdollars),
      ]),
    })
    yield* Console.log(
      `${formatCountWithNoun(invoice.requests, "request")}, ${formatCost(invoice.cost_microdollars)} USD. ` +
        `SHA-256 of the CSV: ${invoice.digest}`,
    )
  }),
).pipe(
  Command.withDescription("Print the lines of an invoice"),
  withPipeableExamples({
    "invoices show acme 2026-11": "Show the lines in a table",
    "invoices show acme 2026-11 --csv | sha256sum": "Compute the digest of the invoice",
  }),
)

/** `invoices`: closes months for billing, and prints invoices. */
export const invoicesCommand = Command.make("invoices").pipe(
  Command.withDescription("Close months, and show the invoices of accounts"),
  withPipeableExamples({ "invoices list": "List all invoices" }),
  Command.withSubcommands([closeCommand, listCommand, showCommand]),
  Command.provide(migratedDatabaseClientLayer),
)
