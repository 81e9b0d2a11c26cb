/** `keys` on the command line. */
import { Console, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as Connection from "../db/Connection.ts"
import { tiers } from "../policy/Access.ts"
import { Day } from "../policy/Dates.ts"
import * as Keys from "./Keys.ts"

const AccountName = Schema.String.check(
  Schema.makeFilter((name: string) => name !== "" && name.trim() === name && !/\p{Cc}/u.test(name), {
    message: "must not be empty, start or end with white space or contain control characters",
  }),
)

const create = Command.make(
  "create",
  {
    account: Flag.String("account").pipe(
      Flag.withSchema(AccountName),
      Flag.withDescription("Its name; the account is made where there is none"),
    ),
    tier: Flag.Literals("tier", tiers).pipe(Flag.withDescription("The account's tier from now on")),
    email: Flag.String("email").pipe(Flag.withDescription("Contact address of the account"), Flag.optional),
    expires: Flag.String("expires").pipe(
      Flag.withDescription("The last day on which the key works, YYYY-MM-DD"),
      Flag.withSchema(Day),
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ account, email, expires, tier }) {
    const key = yield* Keys.create({
      account,
      tier,
      email: Option.getOrNull(email),
      expires: Option.getOrNull(expires),
    })
    yield* Console.log(key)
  }),
).pipe(
  Command.withDescription("Make a key and print it; it cannot be shown again"),
  Command.withExamples([{
    command: "npm run --silent tickerline -- keys create --account acme --tier pro --email ops@acme.example",
    description: "Prints the key alone on standard output",
  }]),
)

const list = Command.make(
  "list",
  {},
  Effect.fnUntraced(function* () {
    const keys = yield* Keys.list
    const lines = keys.map((
      key,
    ) => [
      key.key_id,
      key.account,
      key.tier,
      key.key_hint,
      key.status,
      key.created,
      key.expires ?? "-",
      key.last_used ?? "-",
    ])
    const header = ["id", "account", "tier", "hint", "status", "created", "expires", "last used (UTC)"]
    yield* Console.log([header, ...lines].map((cells) => cells.join("\t")).join("\n"))
  }),
).pipe(
  Command.withDescription("List all keys, tab-separated"),
  Command.withExamples([{ command: "npm run --silent tickerline -- keys list", description: "Ids for revoke" }]),
)

const revoke = Command.make(
  "revoke",
  {
    id: Argument.Int("id").pipe(Argument.withDescription("The key's id, from keys list")),
  },
  Effect.fnUntraced(function* ({ id }) {
    yield* Keys.revoke(id)
    yield* Console.log(`Key ${id} is revoked.`)
  }),
).pipe(
  Command.withDescription("End a key; every instance notices within a second"),
  Command.withExamples([{ command: "npm run tickerline -- keys revoke 7", description: "End key 7" }]),
)

export const command = Command.make("keys").pipe(
  Command.withDescription("API keys"),
  Command.withExamples([{ command: "npm run tickerline -- keys list", description: "All keys" }]),
  Command.withSubcommands([create, list, revoke]),
  Command.provide(Connection.migrated),
)
