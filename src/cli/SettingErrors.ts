/** Messages about settings that are wrong or misspelt. Each names the setting, its value, an example and the fix. */
import { Config, Effect, Option, Schema, SchemaIssue } from "effect"
import { findNearestName } from "../rules/Suggestions.ts"
import { settings } from "./SettingsTable.ts"

export const settingNames: ReadonlyArray<string> = Object.keys(settings)

/** A setting that cannot be used: what is wrong with it, and what to do. */
export interface SettingProblem {
  readonly name: string
  readonly problem: string
  readonly fix: string
}

/** The URL without what may be a password, or nothing if one may be anywhere in it. */
const withoutPassword = (text: string) => {
  if (!URL.canParse(text)) return undefined
  const { host, password, pathname, protocol, search, username } = new URL(text)
  if (host === "") return undefined
  // A name alone may be a token.
  const user = password === "" ? username === "" ? "" : "***@" : `${username}:***@`
  return `${protocol}//${user}${host}${pathname}${search === "" ? "" : "?…"}`
}

const quoted = (text: string) => JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)

/** How a value is shown in a message; a secret never is. */
const shown = (text: string, isSecret: boolean) => {
  if (!isSecret) return `is ${quoted(text)}`
  const safe = withoutPassword(text)
  return safe === undefined ? "has a value that is not shown, since it may hold a password" : `is ${quoted(safe)}`
}

/** What is wrong with the value of a setting, as a sentence with an example. */
const problemOf = (name: string, value: Option.Option<string>, rule: string): SettingProblem => {
  const setting = settings[name]
  if (setting === undefined) return { name, problem: `${name}: ${rule}.`, fix: "Correct it." }
  const is = Option.match(value, {
    onNone: () => "is not set",
    onSome: (text) => shown(text, setting.isSecret === true),
  })
  // The schema library's own words add nothing to what is expected.
  const why = setting.hasRules === true && !rule.startsWith("Expected") ? ` (${rule})` : ""
  return {
    name,
    problem: `${name} ${is}, but must be ${setting.expected}${why}, for example ${assignment(name, setting.example)}.`,
    fix: `Correct it, or unset it ${setting.unset}.`,
  }
}

/** As a shell takes it. */
const assignment = (name: string, value: string) => `${name}=${/\s/.test(value) ? JSON.stringify(value) : value}`

const describe = SchemaIssue.makeFormatterStandardSchemaV1()

/** The settings that an error is about, and which rule each breaks. */
const rulesOf = ({ cause, message }: Config.ConfigError) =>
  Schema.isSchemaError(cause)
    ? describe(cause.issue).issues.map(({ message, path }) => ({ name: (path ?? []).join("_"), rule: message }))
    : [{ name: "", rule: message }]

/** The text of a setting, whether or not it can be used. */
export const readSettingText = (name: string) =>
  Effect.orElseSucceed(Config.option(Config.String(name)), () => Option.none<string>())

/** What an error of reading settings says to whoever sets them. */
export const toSettingProblems = (error: Config.ConfigError): Effect.Effect<ReadonlyArray<SettingProblem>> =>
  Effect.forEach(
    rulesOf(error),
    ({ name, rule }) => Effect.map(readSettingText(name), (value) => problemOf(name, value, rule)),
  )

export const formatSettingProblem = ({ fix, problem }: SettingProblem) => `${problem} ${fix}`

/** One line for one problem, else a list. */
export const formatSettingProblems = (problems: ReadonlyArray<SettingProblem>) =>
  problems.length === 1 ? problems.map(formatSettingProblem).join("") : [
    `${problems.length} settings cannot be used:`,
    ...problems.map((problem) => `- ${formatSettingProblem(problem)}`),
  ].join("\n")

/** Kubernetes sets these for a Service that is called "tickerline"; examples of the guides use the last. */
const isForeign = (name: string, value: string) =>
  /_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_/.test(name) || value.startsWith("tcp://") || name === "TICKERLINE_URL"

/** How many letters of a name may differ before it is taken for another program's. */
const tolerance = (name: string) => name.length < 10 ? 1 : 2

interface Unknown {
  readonly name: string
  readonly meant: Option.Option<string>
}

/** Variables that no setting has the name of, but that look like a slip in one that is not set. */
export const findMisspeltSettings = (
  environment: Readonly<Record<string, string | undefined>>,
): ReadonlyArray<Unknown> => {
  const free = settingNames.filter((name) => environment[name] === undefined && name.length > 7)
  return Object.entries(environment).flatMap(([name, value = ""]) => {
    if (settingNames.includes(name) || name.length < 6 || isForeign(name, value)) return []
    const meant = findNearestName(name, free, tolerance)
    return Option.isSome(meant) || name.startsWith("TICKERLINE_") ? [{ name, meant }] : []
  })
}

/** What to do about a misspelt name. */
export const suggestSetting = ({ meant }: Unknown) =>
  Option.match(meant, {
    onNone: () => "The README lists all settings.",
    onSome: (known) => `Did you mean ${known}?`,
  })
