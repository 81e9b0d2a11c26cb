/** `query` on the command line: a request to the running service, its answer as a table. */
import { Console, Effect, Option, Schema } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import { encodeCsvCell } from "../../rows/CsvCells.ts"
import { suggestName } from "../../rules/Suggestions.ts"
import { Progress } from "../../observability/Progress.ts"
import { type Screen, stderrScreen, stdoutScreen } from "../terminal/Screen.ts"
import { formatRecord, printTable } from "../terminal/Table.ts"
import { escapeLine, escapeLines, formatCount } from "../terminal/Text.ts"
import { withProgressDisplay } from "../terminal/ProgressDisplay.ts"
import * as Ask from "./QueryRequests.ts"
import { listColumnNames, type ResponseRow, toTable } from "./ResponseRows.ts"
import * as Key from "./KeyFile.ts"
import { containsApiKey, parseQueryTarget } from "./QueryTarget.ts"

const misused = (message: string) =>
  new CliError.ShowHelp({
    commandPath: ["tickerline", "query"],
    errors: [new CliError.ValidationError({ message })],
  })

/** On a terminal nothing of the data is obeyed; a program gets them as they are. */
const shown = (text: string, screen: Screen) => screen.isTerminal ? escapeLines(text) : text

const chosen = Effect.fnUntraced(function* (rows: ReadonlyArray<ResponseRow>, wanted: Option.Option<string>) {
  const names = listColumnNames(rows)
  if (Option.isNone(wanted)) return names
  const columns = wanted.value.split(",").map((name) => name.trim()).filter((name) => name !== "")
  const strange = columns.find((name) => rows.length > 0 && !names.includes(name))
  if (strange === undefined) return columns
  return yield* misused(`There is no column ${strange}.${suggestName(strange, names)} There are: ${names.join(", ")}.`)
})

/** As the service writes it: lists are JSON, and no cell is a formula. */
const toCsv = (rows: ReadonlyArray<ResponseRow>, columns: ReadonlyArray<string>) =>
  [
    columns.join(","),
    ...rows.map((row) => columns.map((name) => encodeCsvCell(JSON.stringify(row[name] ?? null))).join(",")),
  ].join("\n")

const microdollars = (cost: number) => cost === 0 ? "free" : `${(cost / 1_000_000).toFixed(6)} USD`

/** What was asked, what it cost and how many requests are left, in one line beside the result. */
const footer = ({ answer: { headers }, cost, isCut, rows }: Ask.Asked, all: boolean) => {
  const remaining = headers["x-ratelimit-remaining"]
  return [
    `${formatCount(rows.length, "row")}${
      isCut ? `, and more (${all ? "--max raises the bound" : "--all follows"})` : ""
    }`,
    ...(headers["x-cost-microdollars"] === undefined ? [] : [microdollars(cost)]),
    ...(remaining === undefined ? [] : [`${remaining} of ${headers["x-ratelimit-limit"]} requests left this minute`]),
  ].join(", ")
}

const deprecated = (headers: Ask.Answer["headers"]) => {
  if (headers["deprecation"] === undefined) return []
  const [, successor] = /<([^>]*)>;\s*rel="successor-version"/.exec(headers["link"] ?? "") ?? []
  return [`This endpoint is deprecated${successor === undefined ? "." : `; its successor is ${successor}`}`]
}

const printed = Effect.fnUntraced(function* (asked: Ask.Asked, wanted: Option.Option<string>) {
  const screen = yield* stdoutScreen
  const columns = yield* chosen(asked.rows, wanted)
  const arrow = screen.unicode ? "→" : "->"
  const rows = toTable(asked.rows, columns, arrow)
  if (screen.isTerminal && asked.rows.length === 1) return yield* Console.log(formatRecord(rows, screen).join("\n"))
  yield* printTable(rows, "or choose columns with --columns")
})

/** Where `base` is the service's own address, and `paths` its endpoints. */
export const makeQueryCommand = <E, R>(base: Effect.Effect<string, E, R>, paths: ReadonlyArray<string>) =>
  Command.make(
    "query",
    {
      path: Argument.String("path").pipe(
        Argument.withDescription("An endpoint, such as /v1/news?ticker=GAP7; news alone does too"),
      ),
      parameters: Flag.KeyValuePair("param").pipe(
        Flag.withAlias("p"),
        Flag.withDescription("A parameter, which needs no quotes then: -p ticker=GAP7 -p limit=5"),
        Flag.withDefault({}),
      ),
      url: Flag.String("url").pipe(Flag.withDescription("Another service than that of the settings"), Flag.optional),
      keyFile: Flag.File("key-file").pipe(
        Flag.withDescription("A file that holds the key; else TICKERLINE_KEY, else the embedded database's demo key"),
        Flag.optional,
      ),
      columns: Flag.String("columns").pipe(
        Flag.withDescription("Only these columns, separated by commas, in this order"),
        Flag.optional,
      ),
      json: Flag.Boolean("json").pipe(Flag.withDescription("The answer itself"), Flag.withDefault(false)),
      csv: Flag.Boolean("csv").pipe(Flag.withDescription("The rows as CSV"), Flag.withDefault(false)),
      all: Flag.Boolean("all").pipe(
        Flag.withDescription("Follow the pages, up to --max rows"),
        Flag.withDefault(false),
      ),
      max: Flag.Int("max").pipe(
        Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 }))),
        Flag.withDescription("The most rows of --all"),
        Flag.withDefault(10_000),
      ),
    },
    Effect.fnUntraced(function* ({ all, columns, csv, json, keyFile, max, parameters, path: typed, url }) {
      if (json && csv) return yield* misused("--json and --csv are two forms of one answer; choose one of them.")
      if (containsApiKey(typed) || Object.values(parameters).some(containsApiKey)) {
        return yield* misused("A key does not belong into an argument, which others can read. Use TICKERLINE_KEY.")
      }
      for (const address of [...Option.toArray(url), ...(/^https?:/i.test(typed) ? [typed] : [])]) {
        if (!/^https?:\/\/./i.test(address) || !URL.canParse(address)) {
          return yield* misused(`${address} is no address; expected one such as https://api.example.com.`)
        }
      }
      const { origin, path, search } = parseQueryTarget(typed, parameters, paths)
      const elsewhere = Option.orElse(url, () => Option.fromUndefinedOr(origin))
      const key = yield* Key.findApiKey(keyFile, Option.isNone(elsewhere))
      const screen = yield* stdoutScreen
      const question: Ask.Question = {
        base: Option.isSome(elsewhere) ? elsewhere.value.replace(/\/+$/, "") : yield* base,
        path,
        search,
        key,
        arrow: (yield* stderrScreen).unicode ? "→" : "->",
      }
      const asked = yield* all ? withProgressDisplay(everything(question, max)) : Ask.onePage(question)
      if (json && !all) yield* Console.log(shown(asked.answer.text, screen))
      else if (json) yield* Console.log(shown(JSON.stringify(asked.rows), screen))
      else if (csv) {
        yield* Console.log(shown(toCsv(asked.rows, yield* chosen(asked.rows, columns)), screen))
      } else if (isData(asked)) yield* printed(asked, columns)
      else yield* Console.log(shown(asked.answer.text, screen))
      const { paint } = yield* stderrScreen
      for (const line of deprecated(asked.answer.headers)) yield* Console.error(paint("yellow", escapeLine(line)))
      yield* Console.error(paint("dim", escapeLine(footer(asked, all))))
    }),
  ).pipe(
    Command.withDescription("Ask the running service, and print the answer as a table"),
    Command.withExamples([
      {
        command: `npm run --silent tickerline -- query "/v1/intraday-runners?ticker=GAP7&limit=5"`,
        description: "Five sessions of a symbol",
      },
      {
        command: "npm run --silent tickerline -- query news -p ticker=GAP7 --columns filed_at,form_type,title",
        description: "Some columns, and no quotes",
      },
      {
        command: "npm run --silent tickerline -- query screener -p limit=100 --all --csv > screener.csv",
        description: "All pages into a file",
      },
    ]),
    Command.provide(FetchHttpClient.layer),
  )

const isData = ({ answer, rows }: Ask.Asked) =>
  rows.length > 0 || answer.headers["content-type"]?.startsWith("application/json") === true

const everything = Effect.fnUntraced(function* (question: Ask.Question, max: number) {
  const progress = yield* Progress
  Object.assign(progress, { label: question.path, unit: "rows" })
  return yield* Ask.allPages(question, max, (rows) => {
    progress.count = rows
  })
})
