/** Renders emails about changelog entries (§9.6, notification) and notices to single accounts. */
import { Option, Schema } from "effect"
import { isEmailMandatory } from "../../api/changelog/Changelog.ts"
import { type ChangelogEntry, changelogPagePath } from "../../contract/ChangelogEntry.ts"
import { documentationPath } from "../../contract/rules/Deprecation.ts"
import { markup } from "../../site/browser/markup.js"

/** An email's rendered content. */
export const EmailContent = Schema.Struct({
  subject: Schema.String,
  text: Schema.String,
  html: Schema.String,
  /** Whether the email is sent even to customers who have unsubscribed from news. */
  operational: Schema.Boolean,
})

/** The decoded email content. */
export type EmailContent = typeof EmailContent.Type

/** The base URL and the unsubscribe address used in emails. */
export interface EmailLinks {
  /** The service's base URL. Without it, emails contain no links. */
  readonly baseUrl: Option.Option<string>
  readonly unsubscribeAddress: Option.Option<string>
}

const maxLineLength = 76

/** Wraps a line between words. Words are never split. */
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

interface Contents {
  readonly title: string
  readonly paragraphs: ReadonlyArray<string>
  readonly facts: ReadonlyArray<readonly [label: string, value: string]>
  readonly links: ReadonlyArray<readonly [label: string, url: string]>
  readonly footer: string
}

const formatLines = (lines: Contents["facts"]) => lines.map(([label, value]) => `${label}: ${value}`).join("\n")

/** Renders an email both as plain text and as HTML. */
const renderContent = ({ facts, footer, links, paragraphs, title }: Contents) => {
  const text = [
    title,
    ...paragraphs,
    ...(facts.length === 0 ? [] : [formatLines(facts)]),
    ...(links.length === 0 ? [] : [formatLines(links)]),
    `-- \n${footer}`,
  ].map((paragraph) => paragraph.split("\n").map(wrapLine).join("\n")).join("\n\n")
  const rows = facts.map(([label, value]) => markup`<tr><th align="left">${label}</th><td>${value}</td></tr>\n`)
  const html = markup`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title></head><body>
<h1 style="font-size:1.2em">${title}</h1>
${paragraphs.map((paragraph) => markup`<p>${paragraph}</p>\n`)}${
    rows.length > 0 && markup`<table>\n${rows}</table>\n`
  }${
    links.map(([label, url]) => markup`<p>${label}: <a href="${url}">${url}</a></p>\n`)
  }<hr><p><small>${footer}</small></p>
</body></html>
`
  return { text: `${text}\n`, html: html.toString() }
}

/**
 * Renders an email about a changelog entry. It is `operational`, so that even customers who have unsubscribed from news
 * get it, if the change may break their programs. Without the service's `baseUrl`, the email has no links.
 */
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
  const content = renderContent({ title: entry.title, paragraphs, facts, links, footer })
  return { subject: renderSubject(entry), ...content, operational }
}

/** Renders a notice to a single account. The subject is also used as the title. */
export const renderNotice = (subject: string, paragraphs: ReadonlyArray<string>): EmailContent => {
  const footer = "You are receiving this email because it concerns your account. We send such notices to the contact " +
    "address of the account."
  const content = renderContent({ title: subject, paragraphs, facts: [], links: [], footer })
  return { subject: `Tickerline: ${subject}`, ...content, operational: true }
}
