/** `keys` on the command line. */
import { Console, Duration, Effect, Option, Schema, SchemaGetter, SchemaIssue, SchemaTransformation } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as Connection from "../db/Connection.ts"
import { tiers } from "../rules/EndpointAnnotations.ts"
import { CalendarDate, todayInNewYork } from "../rules/Dates.ts"
import { printTable } from "./terminal/Table.ts"
import * as Accounts from "../accounts/Accounts.ts"
import { EmailAddress } from "../accounts/EmailAddress.ts"
import * as Keys from "../accounts/keys/ApiKeys.ts"

/** A name of an account or a key. */
export const PlainName = Schema.String.check(
  Schema.makeFilter((name: string) => name !== "" && name.trim() === name && !/\p{Cc}/u.test(name), {
    message: "must not be empty, start or end with white space or contain control characters",
  }),
)

const units = { s: Duration.seconds, m: Duration.minutes, h: Duration.hours, d: Duration.days }

const isUnit = (letter: string): letter is keyof typeof units => letter in units

const Grace = Schema.String.check(
  Schema.isPattern(/^\d{1,5}[smhd]$/, { message: "must be a time such as 30m, 24h or 7d" }),
).pipe(Schema.decodeTo(
  Schema.Duration,
  SchemaTransformation.transform({
    decode: (text) => {
      const unit = text.slice(-1)
      return isUnit(unit) ? units[unit](Number(text.slice(0, -1))) : Duration.zero
    },
    encode: (duration) => `${Duration.toSeconds(duration)}s`,
  }),
))

/** A day that is not over yet in New York. */
const LastDay = CalendarDate.pipe(Schema.decode({
  decode: SchemaGetter.checkEffect((day: string) =>
    Effect.map(
      todayInNewYork,
      (today) =>
        day >= today ? undefined : new SchemaIssue.InvalidValue({
          message: `must be today or later: ${day} is over, and today is ${today} in New York`,
        }),
    )
  ),
  encode: SchemaGetter.passthrough(),
}))

const id = Argument.Int("id").pipe(Argument.withDescription("The key's id, from keys list"))

/** `paths` are those that a key may be limited to. */
const create = (paths: ReadonlyArray<string>) =>
  Command.make(
    "create",
    {
      account: Flag.String("account").pipe(
        Flag.withSchema(PlainName),
        Flag.withDescription("The account's name; with --tier an account that does not exist is made"),
      ),
      tier: Flag.Literals("tier", tiers).pipe(
        Flag.withDescription("The tier of an account that is made"),
        Flag.optional,
      ),
      email: Flag.String("email").pipe(
        Flag.withSchema(EmailAddress),
        Flag.withDescription("Contact address of an account that is made"),
        Flag.optional,
      ),
      name: Flag.String("name").pipe(
        Flag.withSchema(PlainName),
        Flag.withDescription("What the key is for"),
        Flag.withDefault("default"),
      ),
      expires: Flag.String("expires").pipe(
        Flag.withDescription("The last day in New York on which the key works, YYYY-MM-DD"),
        Flag.withSchema(LastDay),
        Flag.optional,
      ),
      endpoint: Flag.Literals("endpoint", paths).pipe(
        Flag.withDescription("A path that the key opens, which then opens no others; may be repeated"),
        Flag.atLeast(0),
      ),
    },
    Effect.fnUntraced(function* ({ account, email, endpoint, expires, name, tier }) {
      yield* Accounts.ensureAccountForKey(account, Option.getOrNull(tier), Option.getOrNull(email))
      const key = yield* Keys.createApiKey({
        account,
        name,
        expires: Option.getOrNull(expires),
        endpoints: endpoint.length === 0 ? null : endpoint,
      })
      yield* Console.log(key)
    }),
  ).pipe(
    Command.withDescription("Make a key and print it; it cannot be shown again"),
    Command.withExamples([{
      command: "npm run --silent tickerline -- keys create --account acme --tier pro --email ops@acme.example",
      description: "Prints the key alone on standard output",
    }, {
      command: "npm run --silent tickerline -- keys create --account acme --name news --endpoint /v1/news",
      description: "Another key of the account, for the news alone",
    }]),
  )

const rotate = Command.make(
  "rotate",
  {
    id,
    grace: Flag.String("grace").pipe(
      Flag.withDescription("For how long the old key still works: 30m, 24h, 7d"),
      Flag.withSchema(Grace),
      Flag.withDefault(Duration.zero),
    ),
  },
  Effect.fnUntraced(function* ({ grace, id }) {
    yield* Console.log(yield* Keys.rotateApiKey(id, grace))
  }),
).pipe(
  Command.withDescription("Make a key that takes another one's place, and print it"),
  Command.withExamples([{
    command: "npm run --silent tickerline -- keys rotate 7 --grace 24h",
    description: "The old key works for another day",
  }]),
)

const list = Command.make(
  "list",
  {},
  Effect.fnUntraced(function* () {
    const keys = yield* Keys.listApiKeys
    yield* printTable({
      columns: [
        { name: "id", isNumber: true },
        { name: "account" },
        { name: "tier" },
        { name: "name" },
        { name: "hint" },
        { name: "status" },
        { name: "created" },
        { name: "expires (UTC)" },
        { name: "last used (UTC)" },
        { name: "endpoints" },
      ],
      rows: keys.map((key) => [
        String(key.key_id),
        key.account,
        key.tier,
        key.name,
        key.key_hint,
        key.status,
        key.created,
        key.expires ?? "-",
        key.last_used ?? "-",
        key.endpoints?.join(",") ?? "all",
      ]),
    })
  }),
).pipe(
  Command.withDescription("List all keys in a table"),
  Command.withExamples([{ command: "npm run --silent tickerline -- keys list", description: "Ids for the others" }]),
)

const change = <E, R>(
  verb: string,
  done: string,
  description: string,
  effect: (id: number) => Effect.Effect<void, E, R>,
) =>
  Command.make(
    verb,
    { id },
    Effect.fnUntraced(function* ({ id }) {
      yield* effect(id)
      yield* Console.log(`Key ${id} is ${done}.`)
    }),
  ).pipe(
    Command.withDescription(description),
    Command.withExamples([{ command: `npm run tickerline -- keys ${verb} 7`, description: `Key 7 is ${done}` }]),
  )

export const makeKeysCommand = (paths: ReadonlyArray<string>) =>
  Command.make("keys").pipe(
    Command.withDescription("API keys"),
    Command.withExamples([{ command: "npm run tickerline -- keys list", description: "All keys" }]),
    Command.withSubcommands([
      create(paths),
      list,
      rotate,
      change("disable", "disabled", "Put a key aside; every instance notices within a second", Keys.disableApiKey),
      change("enable", "enabled", "Take a disabled key back into use", Keys.enableApiKey),
      change("revoke", "revoked", "End a key for good; every instance notices within a second", Keys.revokeApiKey),
    ]),
    Command.provide(Connection.migratedConnectionLayer),
  )
