/** The `usage` command: explains a recorded request, for a customer who disputes its cost. */
import { Console, Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { maxFoundRequests, RequestId } from "../../accounts/billing/UsageSearch.ts"
import { TrimmedName } from "../../accounts/TrimmedName.ts"
import { type ExplainedRequest, explainRequests, formatExplanation } from "../admin/RequestExplanation.ts"
import { migratedDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { CalendarDate } from "../../contract/rules/Dates.ts"
import { CommandFailed, makeArgument, makeBooleanFlag, makeFlag, withExamples } from "./CommandParts.ts"
import { apiBaseUrl } from "./ServeSettings.ts"
import { escapeTerminalLine } from "./terminal/TerminalText.ts"

const formatRequest = (request: ExplainedRequest, baseUrl: string) =>
  [
    ...formatExplanation(request),
    ...request.as_of.slice(0, 1).map((moment) =>
      ["", `curl -H "Authorization: Bearer $TICKERLINE_KEY" "${baseUrl}${request.endpoint}?as_of=${moment}"`] as const
    ),
  ].flatMap(([name, ...values]) =>
    values.map((value, index) => `${(index === 0 ? name : "").padEnd(12)}${escapeTerminalLine(value)}`)
  ).join("\n")

const day = (name: string, description: string) => Flag.optional(makeFlag(name, CalendarDate, description))

const explainCommand = Command.make(
  "explain",
  {
    id: makeArgument("id", RequestId, "Request id: the header X-Request-Id, request_id in an error or in /v1/usage"),
    account: Flag.optional(
      makeFlag("account", TrimmedName, "Account that sent the request; needed if the client has made the id"),
    ),
    from: day("from", "With --account, search from this day on (New York)"),
    to: day("to", "With --account, search up to this day (New York)"),
    json: makeBooleanFlag("json", "Print one JSON object per request and line"),
  },
  Effect.fnUntraced(function* ({ account, from, id, json, to }) {
    const { requests, searchedBackTo } = yield* explainRequests({
      id,
      account: Option.getOrUndefined(account),
      from: Option.getOrUndefined(from),
      to: Option.getOrUndefined(to),
    })
    const baseUrl = yield* apiBaseUrl
    const texts = requests.map((request) => json ? JSON.stringify(request) : formatRequest(request, baseUrl))
    yield* Console.log(texts.join(json ? "\n" : "\n\n"))
    if (searchedBackTo !== undefined) {
      return yield* new CommandFailed({
        message: `The search was stopped, so there may be more requests with this id up to ${searchedBackTo}. ` +
          `Continue with --to ${searchedBackTo}.`,
      })
    }
    if (requests.length === maxFoundRequests) {
      yield* Console.error(
        `These are the newest ${formatCountWithNoun(maxFoundRequests, "request")} with this id. ` +
          "--account, --from and --to select others.",
      )
    }
  }),
).pipe(
  Command.withDescription(
    "Show everything that is known about one request: its account, its cost, and how to repeat it",
  ),
  withExamples({
    "usage explain 01980b5e-7c1a-7003-9f3b-2a6d8c4e5f70": "Explain the request with this X-Request-Id",
    "usage explain order-42 --account acme --from 2026-11-02 --to 2026-11-03":
      "The same for an id of the client, on two days",
  }),
)

/** `usage`: explains recorded requests. */
export const usageCommand = Command.make("usage").pipe(
  Command.withDescription("Explain recorded requests"),
  withExamples({ "usage explain 01980b5e-7c1a-7003-9f3b-2a6d8c4e5f70": "Explain one request" }),
  Command.withSubcommands([explainCommand]),
  Command.provide(migratedDatabaseClientLayer),
)
