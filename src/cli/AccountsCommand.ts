/** `accounts` on the command line. */
import { Console, Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as Connection from "../db/Connection.ts"
import { tiers } from "../rules/EndpointAnnotations.ts"
import { printTable } from "./terminal/Table.ts"
import * as Accounts from "../accounts/Accounts.ts"
import { EmailAddress } from "../accounts/EmailAddress.ts"
import { PlainName } from "./KeysCommand.ts"
import { formatUsd, UsdAmount } from "../accounts/billing/Usd.ts"

const name = Argument.String("name").pipe(
  Argument.withSchema(PlainName),
  Argument.withDescription("The account's name"),
)

const create = Command.make(
  "create",
  {
    name,
    tier: Flag.Literals("tier", tiers).pipe(Flag.withDescription("What it may see, and how much it may ask")),
    email: Flag.String("email").pipe(
      Flag.withSchema(EmailAddress),
      Flag.withDescription("Contact address of the account"),
      Flag.optional,
    ),
    prepaid: Flag.Boolean("prepaid").pipe(
      Flag.withDescription(
        "It pays in advance, and is refused where its balance is used up; otherwise it is billed later",
      ),
      Flag.withDefault(false),
    ),
  },
  Effect.fnUntraced(function* ({ email, name, prepaid, tier }) {
    yield* Accounts.createAccount({ name, tier, email: Option.getOrNull(email), prepaid })
    yield* Console.log(`Account ${name} is there. It needs a key: keys create --account ${JSON.stringify(name)}`)
  }),
).pipe(
  Command.withDescription("Make an account"),
  Command.withExamples([{
    command: "npm run tickerline -- accounts create acme --tier pro --email ops@acme.example --prepaid",
    description: "An account that pays in advance",
  }]),
)

const list = Command.make(
  "list",
  {},
  Effect.fnUntraced(function* () {
    const accounts = yield* Accounts.listAccounts
    yield* printTable({
      columns: [
        { name: "id", isNumber: true },
        { name: "name" },
        { name: "tier" },
        { name: "balance (USD)", isNumber: true },
        { name: "last charged (UTC)" },
        { name: "keys", isNumber: true },
        { name: "email" },
      ],
      rows: accounts.map((account) => [
        String(account.account_id),
        account.name,
        account.tier,
        account.balance_microdollars === null ? "billed later" : formatUsd(account.balance_microdollars),
        account.last_charged ?? "-",
        String(account.keys),
        account.contact_email ?? "-",
      ]),
    })
  }),
).pipe(
  Command.withDescription("List all accounts in a table"),
  Command.withExamples([{ command: "npm run --silent tickerline -- accounts list", description: "With balances" }]),
)

const credit = Command.make(
  "credit",
  {
    name,
    usd: Flag.String("usd").pipe(
      Flag.withSchema(UsdAmount),
      Flag.withDescription("What is added to the balance, in USD; --usd=-5 takes five off"),
    ),
    reference: Flag.String("reference").pipe(
      Flag.withSchema(PlainName),
      Flag.withDescription("Of the payment; it is credited once, however often this is run"),
      Flag.optional,
    ),
    prepaid: Flag.Boolean("prepaid").pipe(
      Flag.withDescription(
        "Let an account that is billed later pay in advance from now on; it is refused once its balance is used up",
      ),
      Flag.withDefault(false),
    ),
  },
  Effect.fnUntraced(function* ({ name, prepaid, reference, usd }) {
    const { balance, switched } = yield* Accounts.creditAccount({
      name,
      microdollars: usd,
      reference: Option.getOrNull(reference),
      prepaid,
    })
    yield* Console.log([
      `The balance of ${name} is ${formatUsd(balance)} USD.`,
      ...(switched ? [`${name} was billed later until now. From now on it pays in advance.`] : []),
      ...(balance <= 0n
        ? ["Its requests are refused with 402 until the balance is above 0."]
        : switched
        ? ["Once the balance is used up, its requests are refused with 402."]
        : []),
    ].join("\n"))
  }),
).pipe(
  Command.withDescription(
    "Add to an account's prepaid balance; an account that is billed later is credited with --prepaid only",
  ),
  Command.withExamples([{
    command: "npm run tickerline -- accounts credit acme --usd 25 --reference invoice-42",
    description: "25 USD, once",
  }, {
    command: "npm run tickerline -- accounts credit acme --usd 25 --prepaid",
    description: "An account that was billed later pays in advance from now on",
  }]),
)

const setTier = Command.make(
  "set-tier",
  { name, tier: Argument.Literals("tier", tiers).pipe(Argument.withDescription("Its tier from now on")) },
  Effect.fnUntraced(function* ({ name, tier }) {
    yield* Accounts.setAccountTier(name, tier)
    yield* Console.log(`The tier of ${name} is ${tier}.`)
  }),
).pipe(
  Command.withDescription("Change an account's tier; every instance notices within a second"),
  Command.withExamples([{
    command: "npm run tickerline -- accounts set-tier acme ultimate",
    description: "All of it",
  }]),
)

const setEmail = Command.make(
  "set-email",
  {
    name,
    email: Argument.String("email").pipe(
      Argument.withSchema(EmailAddress),
      Argument.withDescription("Where it is written to; left out: nowhere"),
      Argument.optional,
    ),
  },
  Effect.fnUntraced(function* ({ email, name }) {
    yield* Accounts.setContactEmail(name, Option.getOrNull(email))
    yield* Console.log(
      Option.match(email, {
        onNone: () => `${name} is not written to.`,
        onSome: (address) => `${name} is written to at ${address}.`,
      }),
    )
  }),
).pipe(
  Command.withDescription("Change an account's contact address, or take it away"),
  Command.withExamples([{
    command: "npm run tickerline -- accounts set-email acme api@acme.example",
    description: "A new address",
  }]),
)

const news = Command.make(
  "news",
  { name, wish: Argument.Literals("wish", ["on", "off"]).pipe(Argument.withDescription("Whether it gets news")) },
  Effect.fnUntraced(function* ({ name, wish }) {
    yield* Accounts.setNewsPreference(name, wish === "on")
    yield* Console.log(
      `${name} gets ${wish === "on" ? "news" : "no news"}. Deprecations and breaking changes it is told in any case.`,
    )
  }),
).pipe(
  Command.withDescription("Turn mails about new features off, or on again; deprecations are told in any case"),
  Command.withExamples([{ command: "npm run tickerline -- accounts news acme off", description: "It unsubscribed" }]),
)

export const accountsCommand = Command.make("accounts").pipe(
  Command.withDescription("Accounts: who asks, and who pays"),
  Command.withExamples([{ command: "npm run tickerline -- accounts list", description: "All accounts" }]),
  Command.withSubcommands([create, list, credit, setTier, setEmail, news]),
  Command.provide(Connection.migratedConnectionLayer),
)
