/**
 * The `changes` command: prints row changes from a service as NDJSON. With `--follow`, continues to wait for new
 * changes.
 */
import { Console, Effect, Option, Predicate, Schema, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import { type ChangeReader, followChanges, maxChangesPerPoll } from "../../../client/ChangeFollower.ts"
import type { AnyQuery } from "../../../client/EndpointTypes.ts"
import type { RawResponse } from "../../../client/ResponseDecoder.ts"
import { shownDatasets } from "../../../query/history/ShownRows.ts"
import {
  type CommandFailed,
  makeBooleanFlag,
  makeFlag,
  makeUsageError,
  refuseApiKeysInArguments,
  requireHttpUrls,
  serviceConnectionFlags,
  splitList,
  withPipeableExamples,
} from "../CommandParts.ts"
import { apiBaseUrl } from "../ServeSettings.ts"
import { formatNameSuggestion } from "../../../contract/rules/NameSuggestions.ts"
import { escapeOnTerminal, stderrCapabilities, stdoutCapabilities } from "../terminal/OutputCapabilities.ts"
import { formatCountWithNoun } from "../../../contract/rules/CountWithNoun.ts"
import { escapeTerminalLine } from "../terminal/TerminalText.ts"
import {
  findClientApiKey,
  makeNoResponseError,
  makeSingleAttemptSender,
  type QueryCommandRequest,
  waitForRateLimit,
} from "./QueryRequest.ts"
import { makeQueryErrorFromResponse, parseJsonWithExactNumbers } from "./QueryResponse.ts"

const path = "/v1/changes"

/**
 * Creates the reader with which the client reads responses of the change feed. It returns each change as a line of JSON
 * in which numbers keep all their digits. `readChange` reads an event of a stream, `readPage` reads a page, and
 * `readError` converts any other response to an error. `arrow` is the arrow that error messages contain: `→`, or `->`
 * on a terminal without Unicode.
 */
const makeReader = (arrow: string): ChangeReader<string, CommandFailed> => {
  const readError = ({ metadata: { retry_after_seconds, status }, text }: RawResponse) =>
    Effect.fail(makeQueryErrorFromResponse({ status, text, retryAfterSeconds: retry_after_seconds }, arrow))
  return {
    readChange: (response) =>
      Option.match(parseJsonWithExactNumbers(response.text), {
        onNone: () => readError(response),
        onSome: (change) => Effect.succeed(JSON.stringify(change)),
      }),
    readPage: (response) => {
      const page = Option.getOrUndefined(parseJsonWithExactNumbers(response.text))
      if (!Predicate.hasProperty(page, "results") || !Array.isArray(page.results)) return readError(response)
      if (!Predicate.hasProperty(page, "cursor") || typeof page.cursor !== "string") return readError(response)
      const has_more = Predicate.hasProperty(page, "has_more") && page.has_more === true
      const results = page.results.map((change) => JSON.stringify(change))
      return Effect.succeed({ results, cursor: page.cursor, has_more })
    },
    readError,
  }
}

/**
 * Calls `print` with every change recorded so far. Returns the number of changes, and the cursor after the last one.
 */
const printKnownChanges = Effect.fnUntraced(function* <E, R>(
  request: QueryCommandRequest,
  query: AnyQuery,
  print: (line: string) => Effect.Effect<void, E, R>,
) {
  const { send } = yield* makeSingleAttemptSender(request)
  const { readError, readPage } = makeReader(request.arrow)
  let count = 0
  let after = query["after"]
  for (;;) {
    const response = yield* Effect.mapError(
      send(path, { ...query, after, limit: maxChangesPerPoll }),
      (error) => makeNoResponseError(request, error),
    )
    if (response.metadata.status !== 200) return yield* readError(response)
    const { cursor, has_more, results } = yield* readPage(response)
    yield* Effect.forEach(results, print, { discard: true })
    count += results.length
    after = cursor
    if (!has_more) return { count, cursor }
    yield* waitForRateLimit(response.metadata)
  }
})

const followAndPrint = Effect.fnUntraced(function* <E, R>(
  request: QueryCommandRequest,
  query: AnyQuery,
  print: (line: string) => Effect.Effect<void, E, R>,
) {
  const sender = yield* makeSingleAttemptSender(request)
  yield* followChanges(sender, makeReader(request.arrow), path, query, {}).pipe(
    Stream.mapError((error) => error._tag === "NoAnswer" ? makeNoResponseError(request, error) : error),
    Stream.runForEach(print),
  )
})

/** Fails if the list contains an unknown dataset, and suggests a similar name. */
const requireDatasets = (list: string) => {
  const known = shownDatasets.map(({ table }) => table)
  const unknown = splitList(list).find((name) => !known.some((table) => table === name.toLowerCase()))
  return unknown === undefined ? Effect.void : Effect.fail(makeUsageError(
    "changes",
    `There are no changes of ${unknown}.${formatNameSuggestion(unknown, known)} The datasets are: ${known.join(", ")}.`,
  ))
}

const makeListFlag = (name: string, description: string) => Flag.optional(makeFlag(name, Schema.String, description))

/** `changes`: prints the change feed. */
export const changesCommand = Command.make(
  "changes",
  {
    dataset: makeListFlag("dataset", "Only changes of these datasets, separated by commas"),
    ticker: makeListFlag("ticker", "Only changes of these symbols, separated by commas"),
    kind: makeListFlag("kind", "Only these kinds: added, corrected, removed"),
    after: makeListFlag("after", "Where to continue: the cursor of a line, a time with its zone, or now"),
    follow: makeBooleanFlag("follow", "Wait for further changes, until the command is interrupted"),
    ...serviceConnectionFlags,
  },
  Effect.fnUntraced(function* ({ follow, keyFile, url, ...filters }) {
    const values = Object.entries(filters).flatMap(([name, value]) =>
      Option.isSome(value) ? [[name, name === "dataset" ? value.value.replaceAll("-", "_") : value.value] as const] : []
    )
    const empty = values.find(([, value]) => value.trim() === "")
    if (empty !== undefined) return yield* makeUsageError("changes", `--${empty[0]} has no value.`)
    yield* requireDatasets(Object.fromEntries(values)["dataset"] ?? "")
    yield* refuseApiKeysInArguments("changes", values.map(([, value]) => value))
    yield* requireHttpUrls("changes", Option.toArray(url))
    const stdout = yield* stdoutCapabilities
    const stderr = yield* stderrCapabilities
    const request: QueryCommandRequest = {
      baseUrl: Option.isSome(url) ? url.value : yield* apiBaseUrl,
      path,
      search: "",
      apiKey: yield* findClientApiKey(keyFile, Option.isNone(url)),
      arrow: stderr.hasUnicode ? "→" : "->",
    }
    const query = Object.fromEntries(values)
    const print = (line: string) => Console.log(escapeOnTerminal(stdout, line))
    if (follow) return yield* followAndPrint(request, query, print)
    const { count, cursor } = yield* printKnownChanges(request, query, print)
    const footer = `${formatCountWithNoun(count, "change")}. To continue: --after ${cursor}`
    yield* Console.error(stderr.paint("dim", escapeTerminalLine(footer)))
  }),
).pipe(
  Command.withDescription("Print what changed in the datasets, one JSON object per line"),
  withPipeableExamples({
    "changes --dataset news --after 2026-06-01T08:30:00-05:00": "Print the changes since a time",
    "changes --follow --after now --ticker GAP7": "Print each change of a symbol as it happens",
  }),
  Command.provide(FetchHttpClient.layer),
)
