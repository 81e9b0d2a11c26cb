/** Renders a changelog entry as an email: §9.6 (notification). */
import { Option, Schema } from "effect"
import { escapeXml } from "../changelog/AtomFeed.ts"
import { isEmailMandatory } from "../changelog/Changelog.ts"
import { type ChangelogEntry, changelogPagePath } from "../changelog/ChangelogEntry.ts"
import { documentationPath } from "../rules/Deprecation.ts"

export const EmailContent = Schema.Struct({
  subject: Schema.String,
  text: Schema.String,
  html: Schema.String,
  /** Whether the email is sent even to customers who have unsubscribed from news emails. */
  operational: Schema.Boolean,
})
export type EmailContent = typeof EmailContent.Type

export interface EmailLinks {
  /** URL of the service, for links. */
  readonly baseUrl: Option.Option<string>
  readonly unsubscribeAddress: Option.Option<string>
}

const maxLineLength = 76

/** Breaks a line between words. Words are never split. */
const wrapLine = (line: string) => {
  const [first = "", ...words] = line.split(" ")
  let wrapped = first
  let length = first.length
  for (const word of words) {
    const fits = length + 1 + word.length <= maxLineLength
    wrapped += `${fits ? " " : "\n"}${word}`
    length = fits ? length + 1 + word.length : word.length
  }
  return wrapped
}

const renderSubject = ({ breaking, title, type }: ChangelogEntry) =>
  `Tickerline ${breaking ? "breaking change" : type === "deprecated" ? "deprecation" : "update"}: ${title}`

const listFacts = ({ date, names, paths, release, successor, sunset, takes_effect }: ChangelogEntry) =>
  [
    ["Announced", `${date} (release ${release})`],
    ["Takes effect", takes_effect],
    ["Works until", sunset],
    ["Replacement", successor],
    ["Endpoints", paths.join(", ")],
    ["Parameters and fields", names.length === 0 ? null : names.join(", ")],
  ].filter((fact): fact is [string, string] => typeof fact[1] === "string")

const explainRecipient = (operational: boolean, unsubscribeAddress: Option.Option<string>) => {
  if (operational) {
    return "You are receiving this email because it affects how the API answers your requests. We send such notices " +
      "to the contact address of every account."
  }
  const unsubscribe = Option.match(unsubscribeAddress, {
    onNone: () => "To unsubscribe, contact the operator of the service.",
    onSome: (address) => `To unsubscribe, write to ${address}.`,
  })
  return `You are receiving this email because your account is subscribed to Tickerline news. ${unsubscribe}`
}

export const renderChangelogEmail = (
  entry: ChangelogEntry,
  { baseUrl, unsubscribeAddress }: EmailLinks,
): EmailContent => {
  const operational = isEmailMandatory(entry)
  const paragraphs = [entry.text, ...(entry.migration === null ? [] : [`What to do: ${entry.migration}`])]
  const facts = listFacts(entry)
  const links = Option.match(baseUrl, {
    onNone: () => [],
    onSome: (base) => [
      ["Details", `${base}${changelogPagePath}#${entry.id}`] as const,
      ["Documentation", `${base}${documentationPath}`] as const,
    ],
  })
  const footer = explainRecipient(operational, unsubscribeAddress)
  const text = [
    entry.title,
    ...paragraphs,
    facts.map(([label, value]) => `${label}: ${value}`).join("\n"),
    ...(links.length === 0 ? [] : [links.map(([label, url]) => `${label}: ${url}`).join("\n")]),
    `-- \n${footer}`,
  ].map((paragraph) => paragraph.split("\n").map(wrapLine).join("\n")).join("\n\n")
  const html = [
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escapeXml(entry.title)}</title></head><body>`,
    `<h1 style="font-size:1.2em">${escapeXml(entry.title)}</h1>`,
    ...paragraphs.map((paragraph) => `<p>${escapeXml(paragraph)}</p>`),
    "<table>",
    ...facts.map(([label, value]) => `<tr><th align="left">${label}</th><td>${escapeXml(value)}</td></tr>`),
    "</table>",
    ...links.map(([label, url]) => `<p>${label}: <a href="${escapeXml(url)}">${escapeXml(url)}</a></p>`),
    `<hr><p><small>${escapeXml(footer)}</small></p>`,
    "</body></html>",
  ].join("\n")
  return { subject: renderSubject(entry), text: `${text}\n`, html: `${html}\n`, operational }
}
