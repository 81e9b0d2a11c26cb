/** The `keys` command: creates, lists, rotates, disables and revokes API keys. */
import { Console, Duration, Effect, Option, Schema, SchemaGetter, SchemaIssue, SchemaTransformation } from "effect"
import { Command, Flag } from "effect/cli"
import { TrimmedName } from "../accounts/TrimmedName.ts"
import { ensureAccountForKey } from "../accounts/Accounts.ts"
import { EmailAddress } from "../accounts/EmailAddress.ts"
import * as Keys from "../accounts/keys/ApiKeyManagement.ts"
import { catalogueEndpoints } from "../catalogue/Endpoints.ts"
import { migratedDatabaseClientLayer } from "../db/ConnectionLayers.ts"
import { CalendarDate, todayInNewYork } from "../rules/Dates.ts"
import { tiers } from "../rules/EndpointAnnotations.ts"
import { makeArgument, makeFlag, withExamples, withSilentExamples } from "./CommandParts.ts"
import { escapeTerminalLine } from "./terminal/TerminalText.ts"
import { printTextTable } from "./terminal/TextTable.ts"

const units = { s: Duration.seconds, m: Duration.minutes, h: Duration.hours, d: Duration.days }

const isUnit = (letter: string): letter is keyof typeof units => letter in units

/** A duration such as `30m`, `24h` or `7d`. */
export const GracePeriod = Schema.String.check(
  Schema.isPattern(/^\d{1,5}[smhd]$/, { message: "must be a duration such as 30m, 24h or 7d" }),
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

/** The last day on which a key works: today in New York, or later. */
export const ExpiryDate = CalendarDate.pipe(Schema.decode({
  decode: SchemaGetter.checkEffect((date: string) =>
    Effect.map(
      todayInNewYork,
      (today) =>
        date >= today ? undefined : new SchemaIssue.InvalidValue({
          message: `must be today or later: ${date} is in the past; today is ${today} in New York`,
        }),
    )
  ),
  encode: SchemaGetter.passthrough(),
}))

/** Prints only the key on standard output, for scripts, and everything else on standard error. */
const printKey = Effect.fnUntraced(function* (title: string, key: string) {
  yield* Console.error(escapeTerminalLine(title))
  yield* Console.log(key)
  yield* Console.error("Store it now: it is not shown again. Whoever has it can send requests for the account.")
})

const KeyId = Schema.String.check(
  Schema.isPattern(/^\d{1,15}$/, {
    message: "must be a whole number: the ID of a key, which this command prints: tickerline keys list",
  }),
).pipe(Schema.decodeTo(Schema.NumberFromString))

const id = makeArgument("id", KeyId, "ID of the key, as listed by keys list")

/** The endpoints to which a key can be limited. */
const paths = catalogueEndpoints.filter(({ row }) => row.tier !== null).map(({ row }) => row.path)

const createCommand = Command.make(
  "create",
  {
    account: makeFlag("account", TrimmedName, "Name of the account; with --tier, it is created if it does not exist"),
    tier: Flag.Literals("tier", tiers).pipe(
      Flag.withDescription("Tier of a new account"),
      Flag.optional,
    ),
    email: Flag.optional(makeFlag("email", EmailAddress, "Contact address of a new account")),
    name: makeFlag("name", TrimmedName, "Name of the key, such as its purpose").pipe(Flag.withDefault("default")),
    expires: Flag.optional(
      makeFlag("expires", ExpiryDate, "Last day on which the key works, in New York, YYYY-MM-DD"),
    ),
    endpoint: Flag.Literals("endpoint", paths).pipe(
      Flag.withDescription("Limit the key to this endpoint; repeatable (default: all endpoints)"),
      Flag.atLeast(0),
    ),
  },
  Effect.fnUntraced(function* ({ account, email, endpoint, expires, name, tier }) {
    yield* ensureAccountForKey(account, Option.getOrNull(tier), Option.getOrNull(email))
    const key = yield* Keys.createApiKey({
      account,
      name,
      expires: Option.getOrNull(expires),
      endpoints: endpoint.length === 0 ? null : endpoint,
    })
    const until = Option.match(expires, { onNone: () => "", onSome: (date) => `, valid until ${date}` })
    const access = endpoint.length === 0 ? "" : `, only for ${endpoint.join(", ")}`
    yield* printKey(`The API key "${name}" of the account ${account}${access}${until}:`, key)
  }),
).pipe(
  Command.withDescription("Create a key and print it; it cannot be shown again"),
  withSilentExamples({
    "keys create --account acme --tier pro --email ops@acme.example": "Print only the key on standard output",
    "keys create --account acme --name news --endpoint /v1/news":
      "Create another key that only gives access to /v1/news",
  }),
)

const rotateCommand = Command.make(
  "rotate",
  {
    id,
    grace: makeFlag("grace", GracePeriod, "How long the old key continues to work: 30m, 24h, 7d").pipe(
      Flag.withDefault(Duration.zero),
    ),
  },
  Effect.fnUntraced(function* ({ grace, id }) {
    const key = yield* Keys.rotateApiKey(id, grace)
    const end = Duration.isZero(grace) ? "no longer works" : `works for another ${Duration.format(grace)}`
    yield* printKey(`The API key that replaces key ${id}, which ${end}:`, key)
  }),
).pipe(
  Command.withDescription("Replace a key with a new one, and print the new one"),
  withSilentExamples({
    "keys rotate 7 --grace 24h": "Replace key 7, which continues to work for another day",
  }),
)

const listCommand = Command.make(
  "list",
  {},
  Effect.fnUntraced(function* () {
    const keys = yield* Keys.listApiKeys
    yield* printTextTable({
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
  withSilentExamples({ "keys list": "Find the IDs that the other commands take" }),
)

const makeStatusCommand = <E, R>(
  verb: string,
  status: string,
  description: string,
  setStatus: (id: number) => Effect.Effect<void, E, R>,
) =>
  Command.make(
    verb,
    { id },
    Effect.fnUntraced(function* ({ id }) {
      yield* setStatus(id)
      yield* Console.log(`Key ${id} is ${status}.`)
    }),
  ).pipe(
    Command.withDescription(description),
    withExamples({ [`keys ${verb} 7`]: `Key 7 is ${status}` }),
  )

export const keysCommand = Command.make("keys").pipe(
  Command.withDescription("Manage API keys"),
  withExamples({ "keys list": "List all keys" }),
  Command.withSubcommands([
    createCommand,
    listCommand,
    rotateCommand,
    makeStatusCommand(
      "disable",
      "disabled",
      "Disable a key until it is enabled again; takes effect in all instances within a second",
      Keys.disableApiKey,
    ),
    makeStatusCommand("enable", "enabled", "Enable a disabled key", Keys.enableApiKey),
    makeStatusCommand(
      "revoke",
      "revoked",
      "Revoke a key permanently; takes effect in all instances within a second",
      Keys.revokeApiKey,
    ),
  ]),
  Command.provide(migratedDatabaseClientLayer),
)
