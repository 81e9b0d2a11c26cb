/** The words of a customer email, made of an entry of the changelog. */
import { Option, Schema } from "effect"
import { escapeXml } from "../changelog/AtomFeed.ts"
import { isMandatoryNotice } from "../changelog/Changelog.ts"
import { type ChangelogEntry, changelogPagePath } from "../changelog/ChangelogEntry.ts"
import { documentationPath } from "../rules/Lifecycle.ts"

export const EmailContent = Schema.Struct({
  subject: Schema.String,
  text: Schema.String,
  html: Schema.String,
  /** Sent to those as well who want no news. */
  operational: Schema.Boolean,
})
export type EmailContent = typeof EmailContent.Type

export interface EmailAddresses {
  /** Where customers reach the service. */
  readonly baseUrl: Option.Option<string>
  readonly unsubscribeAddress: Option.Option<string>
}

const width = 76

/** No line is longer than a reader of plain text shows, but for a word that is. */
const wrapped = (text: string) =>
  text.split("\n").map((paragraph) =>
    paragraph.split(" ").reduce(
      ({ line, lines }, word) =>
        line === ""
          ? { line: word, lines }
          : line.length + 1 + word.length > width
          ? { line: word, lines: `${lines}${line}\n` }
          : { line: `${line} ${word}`, lines },
      { line: "", lines: "" },
    )
  ).map(({ line, lines }) => lines + line).join("\n")

const subject = ({ breaking, title, type }: ChangelogEntry) =>
  `Tickerline: ${breaking ? "breaking change: " : type === "deprecated" ? "deprecation: " : ""}${title}`

const facts = ({ date, names, paths, release, successor, sunset, takes_effect }: ChangelogEntry) =>
  [
    ["Announced", `${date}, release ${release}`],
    ["Holds from", takes_effect],
    ["Works until", sunset],
    ["Instead", successor],
    ["Endpoints", paths.join(", ")],
    ["Names", names.length === 0 ? null : names.join(", ")],
  ].filter((fact): fact is [string, string] => typeof fact[1] === "string")

const why = (operational: boolean, unsubscribe: Option.Option<string>) => {
  if (operational) {
    return "You read this because it concerns how the requests of your account are answered. Such notices go to the " +
      "contact address of every account."
  }
  const stop = Option.match(unsubscribe, {
    onNone: () => "Whoever runs the service can turn such news off for you.",
    onSome: (address) => `To get no more of them, write to ${address}.`,
  })
  return `You read this because news of the service go to the contact address of your account. ${stop}`
}

export const renderEmail = (
  entry: ChangelogEntry,
  { baseUrl: base, unsubscribeAddress: unsubscribe }: EmailAddresses,
): EmailContent => {
  const operational = isMandatoryNotice(entry)
  const body = [entry.text, ...(entry.migration === null ? [] : [`What to do: ${entry.migration}`])]
  const links = Option.match(base, {
    onNone: () => [],
    onSome: (address) => [`${address}${changelogPagePath}#${entry.id}`, `${address}${documentationPath}`],
  })
  const end = why(operational, unsubscribe)
  const told = facts(entry)
  const text = [
    entry.title,
    ...body,
    told.map(([name, value]) => `${name}: ${value}`).join("\n"),
    ...(links.length === 0 ? [] : [links.join("\n")]),
    `-- \n${end}`,
  ].map(wrapped).join("\n\n")
  const html = [
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escapeXml(entry.title)}</title></head><body>`,
    `<h1 style="font-size:1.2em">${escapeXml(entry.title)}</h1>`,
    ...body.map((paragraph) => `<p>${escapeXml(paragraph)}</p>`),
    "<table>",
    ...told.map(([name, value]) => `<tr><th align="left">${escapeXml(name)}</th><td>${escapeXml(value)}</td></tr>`),
    "</table>",
    ...links.map((link) => `<p><a href="${escapeXml(link)}">${escapeXml(link)}</a></p>`),
    `<hr><p><small>${escapeXml(end)}</small></p>`,
    "</body></html>",
  ].join("\n")
  return { subject: subject(entry), text: `${text}\n`, html: `${html}\n`, operational }
}
