/**
 * The `accounts` command: creates accounts, adds credit, and changes tiers, budgets, email addresses, and newsletter
 * subscriptions.
 */
import { Console, Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { NewAccountName, TrimmedName } from "../../accounts/TrimmedName.ts"
import { eraseAccount, type ErasureState, finishErasure, readErasureState } from "../../accounts/AccountErasure.ts"
import * as Accounts from "../../accounts/Accounts.ts"
import { setBudget } from "../../accounts/billing/Budgets.ts"
import { formatUsd, PositiveUsdAmount, UsdAmount } from "../../accounts/billing/Usd.ts"
import { EmailAddress } from "../../contract/EmailAddress.ts"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { tiers } from "../../contract/rules/EndpointAnnotations.ts"
import {
  CommandFailed,
  makeArgument,
  makeBooleanFlag,
  makeFlag,
  makeUsageError,
  withExamples,
  withPipeableExamples,
} from "./CommandParts.ts"
import { confirmOnTerminal } from "./terminal/Confirmation.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"
import { escapeTerminalLine } from "./terminal/TerminalText.ts"
import { formatTimeCell, printTextTable } from "./terminal/TextTable.ts"

const name = makeArgument("name", TrimmedName, "Name of the account")

const createCommand = Command.make(
  "create",
  {
    name: makeArgument("name", NewAccountName, "Name of the account"),
    tier: Flag.Literals("tier", tiers).pipe(
      Flag.withDescription("Tier, which sets the accessible endpoints and the rate limit"),
    ),
    email: Flag.optional(makeFlag("email", EmailAddress, "Contact address")),
    prepaid: makeBooleanFlag(
      "prepaid",
      "Prepaid: requests are refused once the balance is used up (default: postpaid)",
    ),
  },
  Effect.fnUntraced(function* ({ email, name, prepaid, tier }) {
    yield* Accounts.createAccount({ name, tier, email: Option.getOrNull(email), prepaid })
    yield* Console.log(
      `Account ${name} was created. Create its first key with: keys create --account ${JSON.stringify(name)}`,
    )
  }),
).pipe(
  Command.withDescription("Create an account"),
  withExamples({
    "accounts create acme --tier pro --email ops@acme.example --prepaid": "Create a prepaid account",
  }),
)

const formatBudget = ({ budget_microdollars: budget, budget_spent_microdollars: spent }: Accounts.Account) =>
  budget === null ? "-" : `${formatUsd(BigInt(budget))}${spent !== null && spent >= budget ? ", used up" : ""}`

const listCommand = Command.make(
  "list",
  {},
  Effect.fnUntraced(function* () {
    const accounts = yield* Accounts.listAccounts()
    yield* printTextTable({
      columns: [
        { name: "id", isNumber: true },
        { name: "name" },
        { name: "tier" },
        { name: "balance (USD)", isNumber: true },
        { name: "budget (USD)" },
        { name: "last charged (UTC-5)" },
        { name: "keys", isNumber: true },
        { name: "email" },
      ],
      rows: accounts.map((account) => [
        String(account.account_id),
        account.name,
        account.tier,
        account.balance_microdollars === null ? "postpaid" : formatUsd(BigInt(account.balance_microdollars)),
        formatBudget(account),
        formatTimeCell(account.last_charged_at) ?? "-",
        String(account.keys),
        account.contact_email ?? "-",
      ]),
    })
  }),
).pipe(
  Command.withDescription("List all accounts in a table"),
  withPipeableExamples({ "accounts list": "List accounts with their balances" }),
)

const creditCommand = Command.make(
  "credit",
  {
    name,
    usd: makeFlag("usd", UsdAmount, "Amount to add to the balance, in USD; --usd=-5 subtracts five"),
    reference: Flag.optional(
      makeFlag("reference", TrimmedName, "Reference of the payment; a reference is credited only once per account"),
    ),
    prepaid: makeBooleanFlag(
      "prepaid",
      "Make a postpaid account prepaid; its requests are refused once its balance is used up",
    ),
  },
  Effect.fnUntraced(function* ({ name, prepaid, reference, usd }) {
    const { balance, switched } = yield* Accounts.creditAccount({
      name,
      microdollars: usd,
      reference: Option.getOrNull(reference),
      mayBecomePrepaid: prepaid,
    })
    yield* Console.log([
      `The balance of ${name} is ${formatUsd(balance)} USD.`,
      ...(switched ? [`${name} was postpaid until now. From now on, it is prepaid.`] : []),
      ...(balance <= 0n
        ? ["Its requests are refused with 402 until the balance is above 0."]
        : switched
        ? ["Once the balance is used up, its requests are refused with 402."]
        : []),
    ].join("\n"))
  }),
).pipe(
  Command.withDescription(
    "Add to the balance of a prepaid account; with --prepaid, a postpaid account becomes prepaid",
  ),
  withExamples({
    "accounts credit acme --usd 25 --reference invoice-42": "Credit 25 USD, only once for this reference",
    "accounts credit acme --usd 25 --prepaid": "Make an account prepaid and credit 25 USD",
  }),
)

const describeBudget = (account: Accounts.Account) => {
  const { budget_microdollars: budget, budget_spent_microdollars: spent, budget_stops, name } = account
  if (budget === null || spent === null) return `${name} has no budget.`
  const usd = (amount: number) => formatUsd(BigInt(amount))
  const consequence = budget_stops
    ? spent >= budget
      ? "Its requests for data are refused with 402 until the next month or a higher budget."
      : "Once the budget is used up, requests for data are refused with 402."
    : "Requests are not refused if the budget is used up."
  return `The budget of ${name} is ${usd(budget)} USD per month. This month it has spent ${usd(spent)} USD, ` +
    `${BigInt(spent) * 100n / BigInt(budget)}%. ${consequence}`
}

const budgetCommand = Command.make(
  "budget",
  {
    name,
    monthly: Flag.optional(makeFlag("monthly", PositiveUsdAmount, "Budget per month in New York, in USD")),
    stop: makeBooleanFlag("stop", "Refuse requests for data with 402 once the budget is used up"),
    none: makeBooleanFlag("none", "Remove the budget"),
  },
  Effect.fnUntraced(function* ({ monthly, name, none, stop }) {
    if (none ? Option.isSome(monthly) || stop : stop && Option.isNone(monthly)) {
      return yield* makeUsageError("accounts budget", "Use either --none, or --monthly with or without --stop.")
    }
    if (none) yield* setBudget(name, null)
    if (Option.isSome(monthly)) yield* setBudget(name, { microdollars: monthly.value, stops: stop })
    yield* Console.log(describeBudget(yield* Accounts.findAccount(name)))
  }),
).pipe(
  Command.withDescription(
    "Set, remove or show an account's monthly budget; at 75, 90 and 100% its customer is notified",
  ),
  withExamples({
    "accounts budget acme --monthly 500": "Notify the customer before 500 USD are spent in a month",
    "accounts budget acme --monthly 500 --stop": "Also refuse requests for data once they are spent",
    "accounts budget acme": "Show the budget, and what is spent of it",
  }),
)

const setTierCommand = Command.make(
  "set-tier",
  { name, tier: Argument.Literals("tier", tiers).pipe(Argument.withDescription("New tier")) },
  Effect.fnUntraced(function* ({ name, tier }) {
    yield* Accounts.updateAccount(name, { tier })
    yield* Console.log(`The tier of ${name} is ${tier}.`)
  }),
).pipe(
  Command.withDescription("Change an account's tier; takes effect in all instances within a second"),
  withExamples({ "accounts set-tier acme ultimate": "Give access to all endpoints" }),
)

const setEmailCommand = Command.make(
  "set-email",
  {
    name,
    email: Argument.optional(makeArgument("email", EmailAddress, "New contact address; omit it to remove the address")),
  },
  Effect.fnUntraced(function* ({ email, name }) {
    yield* Accounts.updateAccount(name, { contact_email: Option.getOrNull(email) })
    yield* Console.log(
      Option.match(email, {
        onNone: () => `${name} no longer has a contact address and gets no emails.`,
        onSome: (address) => `The contact address of ${name} is ${address}.`,
      }),
    )
  }),
).pipe(
  Command.withDescription("Change or remove an account's contact address"),
  withExamples({ "accounts set-email acme api@acme.example": "Set a new address" }),
)

const newsCommand = Command.make(
  "news",
  {
    name,
    preference: Argument.Literals("preference", ["on", "off"]).pipe(
      Argument.withDescription("Whether the account gets emails about new features"),
    ),
  },
  Effect.fnUntraced(function* ({ name, preference }) {
    yield* Accounts.updateAccount(name, { news: preference === "on" })
    yield* Console.log(
      preference === "on"
        ? `${name} gets emails about new features.`
        : `${name} gets no emails about new features. It still gets those about deprecations and breaking changes.`,
    )
  }),
).pipe(
  Command.withDescription("Turn emails about new features on or off; emails about deprecations are always sent"),
  withExamples({ "accounts news acme off": "Unsubscribe an account" }),
)

/**
 * Describes what erasing an account would remove, with one line per kind of data that the account has. `contact` is the
 * account's contact address.
 */
const formatErasure = (state: ErasureState, contact: string | null) => {
  const { audit_rows, credit_references, emails, keys, usage_rows, webhook_messages, webhooks } = state
  const parts: ReadonlyArray<readonly [number, string]> = [
    [contact === null ? 0 : 1, `its contact address ${contact}`],
    [keys, `${formatCountWithNoun(keys, "key")}, which ${keys === 1 ? "stops" : "stop"} working within a second`],
    [
      webhooks,
      `${formatCountWithNoun(webhooks, "webhook endpoint")} with ${formatCountWithNoun(webhook_messages, "message")}`,
    ],
    [emails, `its known addresses in ${formatCountWithNoun(emails, "email")}, of which no more are sent`],
    [credit_references, `the references of ${formatCountWithNoun(credit_references, "credit")}, but not the amounts`],
    [usage_rows, `the key and the request id of ${formatCountWithNoun(usage_rows, "recorded request")}, but no sums`],
    [audit_rows, `its names and addresses in ${formatCountWithNoun(audit_rows, "row")} of the audit log`],
  ]
  return [
    `Erasing the account ${state.account} removes its name and:`,
    ...parts.flatMap(([count, part]) => count === 0 ? [] : [`  ${part}`]),
  ].map(escapeTerminalLine).join("\n")
}

const eraseCommand = Command.make(
  "erase",
  { name, yes: makeBooleanFlag("yes", "Erase the account without asking; needed in scripts") },
  Effect.fnUntraced(function* ({ name, yes }) {
    const state = yield* readErasureState(name)
    if (state.finished_at !== null) return yield* Console.log(`${name} was erased at ${state.erased_at}.`)
    const { account_id, contact_email } = yield* Accounts.findAccount(name)
    if (state.erased_at === null) {
      yield* Console.log(formatErasure(state, contact_email))
      if (!yes && !(yield* confirmOnTerminal(`Erase ${name}? This cannot be undone.`))) {
        return yield* new CommandFailed({ message: `Nothing was changed. To erase ${name}, add --yes.` })
      }
    }
    const newName = yield* eraseAccount(name)
    const finish = Effect.gen(function* () {
      const progress = yield* OperationProgress
      progress.label = `Erasing ${newName}`
      progress.total = state.usage_rows + state.webhook_messages
      yield* finishErasure(account_id)
    })
    yield* withProgressDisplay(finish).pipe(
      Effect.onInterrupt(() =>
        Console.error(`Interrupted. A running \`serve\` erases the rest, or: accounts erase ${newName} --yes`)
      ),
    )
    yield* Console.log(`The account is erased. Its name is ${newName}.`)
  }),
).pipe(
  Command.withDescription("Erase what identifies an account, after showing it; sums of usage and credits stay"),
  withExamples({
    "accounts erase acme": "Show what would be erased, and ask",
    "accounts erase erased-17 --yes": "Finish an interrupted erasure",
  }),
)

/** `accounts`: manages accounts. */
export const accountsCommand = Command.make("accounts").pipe(
  Command.withDescription("Manage accounts and their balances"),
  withExamples({ "accounts list": "List all accounts" }),
  Command.withSubcommands([
    createCommand,
    listCommand,
    creditCommand,
    budgetCommand,
    setTierCommand,
    setEmailCommand,
    newsCommand,
    eraseCommand,
  ]),
  Command.provide(migratedDatabaseClientLayer),
)
