/** The `webhooks` command: manages webhook endpoints, and lists, resends, and tests their messages. */
import { Console, Duration, Effect, Option, Schema, SchemaTransformation } from "effect"
import { Command, Flag } from "effect/cli"
import { TrimmedName } from "../../accounts/TrimmedName.ts"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { normalizeTimestamp } from "../../contract/rules/AsOfParameter.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { tickerPattern } from "../../contract/rules/Tickers.ts"
import { changeFeedDatasets } from "../../contract/endpoints/changes.ts"
import * as Webhooks from "../../outbox/webhooks/WebhookEndpoints.ts"
import { subscribableWebhookEvents } from "../../outbox/webhooks/WebhookEvents.ts"
import {
  CommandFailed,
  makeArgument,
  makeBooleanFlag,
  makeFlag,
  makeUsageError,
  withExamples,
  withPipeableExamples,
} from "./CommandParts.ts"
import { ShortDuration } from "./KeysCommand.ts"
import { escapeTerminalLine } from "./terminal/TerminalText.ts"
import { formatTimeCell, printTextTable } from "./terminal/TextTable.ts"

const EndpointId = Schema.String.check(
  Schema.isPattern(/^\d{1,15}$/, {
    message: "must be a whole number: the ID of an endpoint, which this command prints: tickerline webhooks list",
  }),
).pipe(Schema.decodeTo(Schema.NumberFromString))

const id = makeArgument("id", EndpointId, "ID of the endpoint, as listed by webhooks list")

const TimeWithZone = Schema.String.check(
  Schema.makeFilter((text: string) => normalizeTimestamp(text) !== undefined, {
    message: "must be a time with its zone, such as 2026-06-01T08:30:00-05:00",
  }),
)

const TickerList = Schema.String.pipe(Schema.decodeTo(
  Schema.Array(Schema.String.check(
    Schema.isPattern(tickerPattern, { message: "must be symbols separated by commas, such as NVDA,IMNN" }),
  )).check(Schema.isMaxLength(100)),
  SchemaTransformation.transform({
    decode: (text): ReadonlyArray<string> => text.toUpperCase().split(",").map((ticker) => ticker.trim()),
    encode: (tickers: ReadonlyArray<string>) => tickers.join(","),
  }),
))

/** Prints the secret on standard output, so that scripts can capture it, and everything else on standard error. */
const printSecret = Effect.fnUntraced(function* (title: string, secret: string) {
  yield* Console.error(escapeTerminalLine(title))
  yield* Console.log(secret)
  yield* Console.error("Give it to the receiver now: it is not shown again. Whoever has it can forge messages.")
})

const createCommand = Command.make(
  "create",
  {
    account: makeFlag("account", TrimmedName, "Name of the account whose events are sent"),
    url: makeFlag("url", Schema.String, "Address of the receiver, https://…"),
    event: Flag.Literals("event", subscribableWebhookEvents).pipe(
      Flag.withDescription("Type of event, or a group such as key.*; repeatable (default: all)"),
      Flag.atLeast(0),
    ),
    dataset: Flag.Literals("dataset", changeFeedDatasets).pipe(
      Flag.withDescription("Dataset of dataset.changed; repeatable (default: all that the account may read)"),
      Flag.atLeast(0),
    ),
    ticker: Flag.optional(
      makeFlag("ticker", TickerList, "Symbols of dataset.changed, separated by commas (default: all)"),
    ),
  },
  Effect.fnUntraced(function* ({ account, dataset, event, ticker, url }) {
    const orAll = <A>(values: ReadonlyArray<A>) => values.length === 0 ? null : values
    const created = yield* Webhooks.createWebhookEndpoint({
      account,
      url,
      events: orAll(event),
      datasets: orAll(dataset),
      tickers: Option.getOrNull(ticker),
    })
    yield* printSecret(`The secret of webhook endpoint ${created.endpoint_id}, ${created.url}:`, created.secret)
  }),
).pipe(
  Command.withDescription("Create an endpoint and print its secret; it cannot be shown again"),
  withPipeableExamples({
    "webhooks create --account acme --url https://acme.example/hooks": "Send all events of the account",
    "webhooks create --account acme --url https://acme.example/hooks --event dataset.changed --dataset news":
      "Send only changes of news",
  }),
)

const listCommand = Command.make(
  "list",
  {},
  Effect.fnUntraced(function* () {
    const endpoints = yield* Webhooks.listWebhookEndpoints()
    yield* printTextTable({
      columns: [
        { name: "id", isNumber: true },
        { name: "account" },
        { name: "url" },
        { name: "status" },
        { name: "waiting", isNumber: true },
        { name: "created" },
        { name: "events" },
        { name: "datasets" },
        { name: "tickers" },
      ],
      rows: endpoints.map((endpoint) => [
        String(endpoint.endpoint_id),
        endpoint.account,
        endpoint.url,
        endpoint.disabled_reason === null ? "enabled" : `disabled: ${endpoint.disabled_reason}`,
        String(endpoint.waiting),
        endpoint.created_at.slice(0, 10),
        endpoint.events?.join(",") ?? "all",
        endpoint.datasets?.join(",") ?? "all",
        endpoint.tickers?.join(",") ?? "all",
      ]),
    })
  }),
).pipe(
  Command.withDescription("List all endpoints in a table"),
  withPipeableExamples({ "webhooks list": "Find the IDs that the other commands take" }),
)

const rotateSecretCommand = Command.make(
  "rotate-secret",
  {
    id,
    grace: makeFlag("grace", ShortDuration, "How long the old secret also signs: 30m, 24h, 7d").pipe(
      Flag.withDefault(Duration.hours(24)),
    ),
    endPrevious: makeBooleanFlag("end-previous", "End the secret before the old one now if it still signs"),
  },
  Effect.fnUntraced(function* ({ endPrevious, grace, id }) {
    const secret = yield* Webhooks.rotateWebhookSecret(id, { grace, endPrevious })
    const end = Duration.isZero(grace) ? "no longer signs" : `also signs for another ${Duration.format(grace)}`
    yield* printSecret(`The new secret of webhook endpoint ${id}. The old one ${end}:`, secret)
  }),
).pipe(
  Command.withDescription("Replace the secret with a new one, and print the new one"),
  withPipeableExamples({
    "webhooks rotate-secret 7 --grace 7d": "Let both secrets sign for a week",
  }),
)

const disableCommand = Command.make(
  "disable",
  {
    id,
    reason: makeFlag("reason", TrimmedName, "Reason, which webhooks list shows").pipe(
      Flag.withDefault("by an operator"),
    ),
  },
  Effect.fnUntraced(function* ({ id, reason }) {
    yield* Webhooks.disableWebhookEndpoint(id, reason)
    yield* Console.log(`Webhook endpoint ${id} is disabled. It gets no new messages; those that wait remain.`)
  }),
).pipe(
  Command.withDescription("Send nothing to an endpoint until it is enabled again"),
  withExamples({ "webhooks disable 7": "Endpoint 7 gets no messages" }),
)

const enableCommand = Command.make(
  "enable",
  { id },
  Effect.fnUntraced(function* ({ id }) {
    yield* Webhooks.enableWebhookEndpoint(id)
    yield* Console.log(`Webhook endpoint ${id} is enabled. Its waiting messages are sent now.`)
  }),
).pipe(
  Command.withDescription("Enable an endpoint, and send its waiting messages without further delay"),
  withExamples({ "webhooks enable 7": "Also retries at once if the endpoint is enabled and its receiver is back" }),
)

const deleteCommand = Command.make(
  "delete",
  { id },
  Effect.fnUntraced(function* ({ id }) {
    yield* Webhooks.deleteWebhookEndpoint(id)
    yield* Console.log(`Webhook endpoint ${id} and its messages are deleted.`)
  }),
).pipe(
  Command.withDescription("Delete an endpoint and all its messages"),
  withExamples({ "webhooks delete 7": "Delete endpoint 7" }),
)

const deliveriesCommand = Command.make(
  "deliveries",
  {
    id,
    status: Flag.Literals("status", Webhooks.messageStatuses).pipe(
      Flag.withDescription("Only messages with this status"),
      Flag.optional,
    ),
    limit: Flag.Int("limit").pipe(
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000 }))),
      Flag.withDescription("Maximum number of messages"),
      Flag.withDefault(50),
    ),
  },
  Effect.fnUntraced(function* ({ id, ...selection }) {
    const deliveries = yield* Webhooks.listWebhookDeliveries(id, selection)
    yield* printTextTable({
      columns: [
        { name: "message" },
        { name: "type" },
        { name: "status" },
        { name: "attempts", isNumber: true },
        { name: "created (UTC-5)" },
        { name: "last attempt (UTC-5)" },
        { name: "next attempt (UTC-5)" },
        { name: "http", isNumber: true },
        { name: "error" },
      ],
      rows: deliveries.map((delivery) => [
        delivery.message_id,
        delivery.type,
        delivery.status,
        String(delivery.attempts),
        formatTimeCell(delivery.created_at),
        formatTimeCell(delivery.last_attempt_at),
        formatTimeCell(delivery.next_attempt_at),
        delivery.http_status === null ? null : String(delivery.http_status),
        delivery.last_error,
      ]),
    })
  }),
).pipe(
  Command.withDescription("List the newest messages of an endpoint in a table"),
  withPipeableExamples({ "webhooks deliveries 7 --status dead": "List the dead letters of endpoint 7" }),
)

const replayCommand = Command.make(
  "replay",
  {
    messageId: Flag.optional(makeFlag("message", Schema.String, "ID of a message, as listed by webhooks deliveries")),
    endpointId: Flag.optional(makeFlag("endpoint", EndpointId, "ID of the endpoint whose messages are sent again")),
    since: Flag.optional(makeFlag("since", TimeWithZone, "Only messages since this time, which must have a zone")),
    includeDelivered: makeBooleanFlag("delivered", "Also send messages again that the receiver accepted"),
  },
  Effect.fnUntraced(function* (selection) {
    const { endpointId, messageId, since } = selection
    if (Option.isNone(messageId) && Option.isNone(endpointId) && Option.isNone(since)) {
      return yield* makeUsageError("webhooks replay", "Select messages with --message, --endpoint or --since.")
    }
    const { disabled, found, replayed } = yield* Webhooks.replayWebhookMessages(selection)
    yield* Console.log(`${formatCountWithNoun(replayed, "message")} queued again.`)
    if (disabled.length > 0) {
      yield* Effect.logWarning(
        `Nothing is sent to disabled endpoints. Enable them with \`webhooks enable ID\`: ${disabled.join(", ")}`,
      )
    }
    if (found > replayed) {
      yield* Effect.logWarning(`${found - replayed} others did not fit. Repeat the command after these were sent.`)
    }
  }),
).pipe(
  Command.withDescription("Send dead letters again, with the same ids"),
  withExamples({
    "webhooks replay --endpoint 7": "Send all dead letters of endpoint 7 again",
    "webhooks replay --endpoint 7 --since 2026-06-01T08:30:00-05:00 --delivered": "Send everything since then again",
  }),
)

const testCommand = Command.make(
  "test",
  { id },
  Effect.fnUntraced(function* ({ id }) {
    const result = yield* Webhooks.testWebhookEndpoint(id)
    if (result._tag === "Failed") {
      return yield* new CommandFailed({
        message: escapeTerminalLine(`Webhook endpoint ${id} did not accept the message: ${result.reason}`),
      })
    }
    yield* Console.log(`Webhook endpoint ${id} accepted the message with status ${result.status}.`)
  }),
).pipe(
  Command.withDescription("Send a message of the type webhook.test from this machine, and print the result"),
  withExamples({ "webhooks test 7": "Check the receiver of endpoint 7" }),
)

/** `webhooks`: manages webhook endpoints. */
export const webhooksCommand = Command.make("webhooks").pipe(
  Command.withDescription("Manage webhooks"),
  withExamples({ "webhooks list": "List all endpoints" }),
  Command.withSubcommands([
    createCommand,
    listCommand,
    rotateSecretCommand,
    disableCommand,
    enableCommand,
    deleteCommand,
    deliveriesCommand,
    replayCommand,
    testCommand,
  ]),
  Command.provide(migratedDatabaseClientLayer),
)
