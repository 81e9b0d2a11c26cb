/** The `keys` command: creates, lists, changes, rotates, and revokes API keys. */
import { Array, Console, Duration, Effect, Option, Schema, SchemaTransformation } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { TrimmedName } from "../../accounts/TrimmedName.ts"
import { ensureAccountForKey } from "../../accounts/Accounts.ts"
import { EmailAddress } from "../../contract/EmailAddress.ts"
import { ExpiryDate } from "../../accounts/keys/ExpiryDate.ts"
import * as Keys from "../../accounts/keys/ApiKeyManagement.ts"
import { keyEndpointPaths } from "../../api/catalogue/Endpoints.ts"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { tiers } from "../../contract/rules/EndpointAnnotations.ts"
import {
  makeArgument,
  makeBooleanFlag,
  makeFlag,
  makeUsageError,
  withExamples,
  withPipeableExamples,
} from "./CommandParts.ts"
import { escapeTerminalLine } from "./terminal/TerminalText.ts"
import { formatTimeCell, printTextTable } from "./terminal/TextTable.ts"

const units = { s: Duration.seconds, m: Duration.minutes, h: Duration.hours, d: Duration.days }

const isUnit = (letter: string): letter is keyof typeof units => letter in units

/** A duration, such as `30m`, `24h`, or `7d`. */
export const ShortDuration = Schema.String.check(
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

/** Prints the key on standard output, so that scripts can capture it, and everything else on standard error. */
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
    endpoint: Flag.Literals("endpoint", keyEndpointPaths).pipe(
      Flag.withDescription("Limit the key to this endpoint; repeatable (default: all endpoints)"),
      Flag.atLeast(0),
    ),
    network: makeFlag(
      "network",
      Keys.Network,
      "Limit the key to this IP address or network, such as 10.0.0.0/8; repeatable (default: all addresses)",
    ).pipe(Flag.between(0, Keys.maxNetworksPerKey)),
  },
  Effect.fnUntraced(function* ({ account, email, endpoint, expires, name, network, tier }) {
    yield* ensureAccountForKey(account, Option.getOrNull(tier), Option.getOrNull(email))
    const { key } = yield* Keys.createApiKey({
      account,
      name,
      expires: Option.getOrNull(expires),
      endpoints: endpoint.length === 0 ? null : endpoint,
      networks: Array.isReadonlyArrayNonEmpty(network) ? network : null,
    })
    const until = Option.match(expires, { onNone: () => "", onSome: (date) => `, valid until ${date}` })
    const access = endpoint.length === 0 ? "" : `, only for ${endpoint.join(", ")}`
    const addresses = network.length === 0 ? "" : `, only from ${network.join(", ")}`
    yield* printKey(`The API key "${name}" of the account ${account}${access}${addresses}${until}:`, key)
  }),
).pipe(
  Command.withDescription("Create a key and print it; it cannot be shown again"),
  withPipeableExamples({
    "keys create --account acme --tier pro --email ops@acme.example": "Print only the key on standard output",
    "keys create --account acme --name news --endpoint /v1/news":
      "Create another key that only gives access to /v1/news",
    "keys create --account acme --name office --network 192.0.2.0/24 --network 2001:db8::7":
      "Create a key that works only from these addresses",
  }),
)

const setNetworksCommand = Command.make(
  "set-networks",
  {
    id,
    networks: makeArgument("network", Keys.Network, "IP address or network, such as 10.0.0.0/8").pipe(
      Argument.variadic(),
    ),
    any: makeBooleanFlag("any", "Allow all addresses"),
  },
  Effect.fnUntraced(function* ({ any, id, networks }) {
    if (any === networks.length > 0) {
      return yield* makeUsageError("keys set-networks", "Name the addresses and networks of the key, or use --any.")
    }
    if (networks.length > Keys.maxNetworksPerKey) {
      const message = `A key has at most ${Keys.maxNetworksPerKey} networks; ${networks.length} are named.`
      return yield* makeUsageError("keys set-networks", message)
    }
    yield* Keys.setApiKeyNetworks(id, Array.isReadonlyArrayNonEmpty(networks) ? networks : null)
    yield* Console.log(`Key ${id} may be used from ${any ? "all addresses" : networks.join(", ")}.`)
  }),
).pipe(
  Command.withDescription("Replace the networks from which a key may be used; takes effect within a second"),
  withExamples({
    "keys set-networks 7 192.0.2.0/24 2001:db8::/32": "Requests with key 7 from elsewhere get 403",
    "keys set-networks 7 --any": "Key 7 may be used from everywhere",
  }),
)

const rotateCommand = Command.make(
  "rotate",
  {
    id,
    grace: makeFlag("grace", ShortDuration, "How long the old key continues to work: 30m, 24h, 7d").pipe(
      Flag.withDefault(Duration.zero),
    ),
  },
  Effect.fnUntraced(function* ({ grace, id }) {
    const { key } = yield* Keys.rotateApiKey(id, grace)
    const end = Duration.isZero(grace) ? "no longer works" : `works for another ${Duration.format(grace)}`
    yield* printKey(`The API key that replaces key ${id}, which ${end}:`, key)
  }),
).pipe(
  Command.withDescription("Replace a key with a new one, and print the new one"),
  withPipeableExamples({
    "keys rotate 7 --grace 24h": "Replace key 7, which continues to work for another day",
  }),
)

/** Prints a table of keys with their limits and time of last use. */
const printKeyTable = (keys: ReadonlyArray<Keys.ListedApiKey>) =>
  printTextTable({
    columns: [
      { name: "id", isNumber: true },
      { name: "account" },
      { name: "tier" },
      { name: "name" },
      { name: "hint" },
      { name: "status" },
      { name: "created" },
      { name: "expires (UTC-5)" },
      { name: "last used (UTC-5)" },
      { name: "last address" },
      { name: "endpoints" },
      { name: "networks" },
    ],
    rows: keys.map((key) => [
      String(key.key_id),
      key.account,
      key.tier,
      key.name,
      key.key_hint,
      key.status,
      key.created_at.slice(0, 10),
      formatTimeCell(key.expires_at) ?? "-",
      formatTimeCell(key.last_used_at) ?? "-",
      key.last_used_address ?? "-",
      key.endpoints?.join(",") ?? "all",
      key.networks?.join(",") ?? "all",
    ]),
  })

const listCommand = Command.make(
  "list",
  {
    account: Flag.optional(makeFlag("account", TrimmedName, "Only keys of this account")),
    unusedFor: Flag.optional(makeFlag(
      "unused-since",
      ShortDuration,
      "Only keys that have not been used for this time, such as 90d, and have neither expired nor been revoked",
    )),
    json: makeBooleanFlag("json", "Print one JSON object per line"),
  },
  Effect.fnUntraced(function* ({ account, json, unusedFor }) {
    const found = yield* Keys.listApiKeys({
      account: Option.getOrNull(account),
      unusedFor: Option.getOrNull(unusedFor),
    })
    const keys = found.toReversed()
    if (!json) return yield* printKeyTable(keys)
    yield* Effect.forEach(keys, (key) => Console.log(JSON.stringify(key)), { discard: true })
  }),
).pipe(
  Command.withDescription("List keys in a table, oldest first"),
  withPipeableExamples({
    "keys list": "Find the IDs that the other commands take",
    "keys list --unused-since 90d": "Find keys that are perhaps no longer needed",
    "keys list --account acme --json": "Pass the keys of an account to another program",
  }),
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

/** `keys`: manages API keys. */
export const keysCommand = Command.make("keys").pipe(
  Command.withDescription("Manage API keys"),
  withExamples({ "keys list": "List all keys" }),
  Command.withSubcommands([
    createCommand,
    listCommand,
    rotateCommand,
    setNetworksCommand,
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
