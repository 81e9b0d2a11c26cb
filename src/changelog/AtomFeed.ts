/** RFC 4287: entries as a feed. Its ids depend on the entries alone, so that no reader shows one twice. */
import { hash } from "node:crypto"
import { type ChangelogEntry, changelogPagePath } from "./ChangelogEntry.ts"

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
}

/** XML 1.0 has no character for these, not even escaped. */
const unspeakable = /[^\t\n\r\P{Cc}]|[\ufffe\uffff]/gu

/** Text in XML and HTML, between tags and in attributes. */
export const escapeXml = (text: string) =>
  text.toWellFormed().replaceAll(unspeakable, "").replaceAll(/[&<>"']/g, (sign) => entities[sign] ?? sign)

/** RFC 9562, version 8: a UUID that is a digest of the name. */
const urn = (name: string) => {
  const digest = hash("sha256", `tickerline changelog ${name}`)
  const variant = ((parseInt(digest.slice(16, 17), 16) & 3) | 8).toString(16)
  const parts = [digest.slice(0, 8), digest.slice(8, 12), `8${digest.slice(13, 16)}`, variant + digest.slice(17, 20)]
  return `urn:uuid:${[...parts, digest.slice(20, 32)].join("-")}`
}

const moment = (day: string) => `${day}T00:00:00Z`

const element = (entry: ChangelogEntry, base: string) => {
  const { breaking, date, id, migration, release, text, title, type } = entry
  const paragraphs = [text, ...(migration === null ? [] : [`What to do: ${migration}`])]
  return [
    "  <entry>",
    `    <id>${urn(id)}</id>`,
    `    <title>${escapeXml(`${breaking ? "Breaking: " : ""}${title}`)}</title>`,
    `    <updated>${moment(date)}</updated>`,
    `    <published>${moment(date)}</published>`,
    ...[type, ...(breaking ? ["breaking"] : []), release].map((term) => `    <category term="${escapeXml(term)}"/>`),
    `    <link rel="alternate" type="text/html" href="${escapeXml(`${base}${changelogPagePath}#${id}`)}"/>`,
    `    <content type="text">${escapeXml(paragraphs.join("\n\n"))}</content>`,
    "  </entry>",
  ].join("\n")
}

export interface AtomFeedOptions {
  /** What clients put before a path. */
  readonly baseUrl: string
  /** The query as it was sent, without the question mark: another choice of entries is another feed. */
  readonly search: string
  /** The day of the newest entry of all, so that a feed without entries has been updated, too. */
  readonly newestDate: string
}

export const renderAtomFeed = (
  entries: ReadonlyArray<ChangelogEntry>,
  { baseUrl: base, newestDate: newest, search }: AtomFeedOptions,
) => {
  const self = `${base}/v1/changelog.atom${search === "" ? "" : `?${search}`}`
  return [
    `<?xml version="1.0" encoding="utf-8"?>`,
    `<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">`,
    `  <id>${urn(`feed ${search}`)}</id>`,
    "  <title>Tickerline changelog</title>",
    `  <updated>${moment(entries[0]?.date ?? newest)}</updated>`,
    "  <author><name>Tickerline</name></author>",
    `  <link rel="self" type="application/atom+xml" href="${escapeXml(self)}"/>`,
    `  <link rel="alternate" type="text/html" href="${escapeXml(base + changelogPagePath)}"/>`,
    ...entries.map((entry) => element(entry, base)),
    "</feed>",
    "",
  ].join("\n")
}
