/**
 * Renders changelog entries as an Atom feed (RFC 4287). For the reasons not to use a library, see
 * docs/decisions/0050-atom-feed-as-text.md. Entry ids must never change, because feed readers use them to recognize
 * entries that they have already shown.
 */
import { hash } from "node:crypto"
import { newestReleaseDate } from "./Changelog.ts"
import { type ChangelogEntry, changelogPagePath } from "../../contract/ChangelogEntry.ts"

/** The characters that must be escaped in XML and HTML, and their replacements. */
const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
}

/** Control characters (except tab, LF and CR), U+FFFE and U+FFFF, which `escapeXml` removes. */
const forbiddenCharacters = /[^\t\n\r\P{Cc}]|[\ufffe\uffff]/gu

/** Escapes text for use in XML and HTML elements and attributes. */
export const escapeXml = (text: string) =>
  text.toWellFormed().replaceAll(forbiddenCharacters, "").replaceAll(
    /[&<>"']/g,
    (character) => entities[character] ?? character,
  )

/** Returns a URN with a version 8 UUID (RFC 9562) derived from the SHA-256 of the name. */
const makeUrn = (name: string) => {
  const digest = hash("sha256", `tickerline changelog ${name}`)
  // The RFC fixes two digits: the third group begins with the version, 8, and the fourth with a digit whose two highest
  // bits are 10.
  const variant = ((parseInt(digest.slice(16, 17), 16) & 3) | 8).toString(16)
  const parts = [digest.slice(0, 8), digest.slice(8, 12), `8${digest.slice(13, 16)}`, variant + digest.slice(17, 20)]
  return `urn:uuid:${[...parts, digest.slice(20, 32)].join("-")}`
}

/** Returns the start of a day, with the fixed offset that all of the API's datetimes have. */
const toTimestamp = (day: string) => `${day}T00:00:00-05:00`

/**
 * Returns the XML of a feed entry. Its title begins with `Unreleased: ` and `Breaking: ` where these apply. Its
 * categories are the type of change, the same marks in lower case, and the release. A change that is not released has
 * no date of publication.
 */
const renderEntry = (entry: ChangelogEntry, baseUrl: string) => {
  const { breaking, date, id, migration, release, released, text, title, type } = entry
  const marks = [...(released ? [] : ["Unreleased"]), ...(breaking ? ["Breaking"] : [])]
  const paragraphs = [text, ...(migration === null ? [] : [`What to do: ${migration}`])]
  return [
    "  <entry>",
    `    <id>${makeUrn(id)}</id>`,
    `    <title>${escapeXml([...marks, title].join(": "))}</title>`,
    `    <updated>${toTimestamp(date)}</updated>`,
    ...(released ? [`    <published>${toTimestamp(date)}</published>`] : []),
    ...[type, ...marks.map((mark) => mark.toLowerCase()), release].map((term) =>
      `    <category term="${escapeXml(term)}"/>`
    ),
    `    <link rel="alternate" type="text/html" href="${escapeXml(`${baseUrl}${changelogPagePath}#${id}`)}"/>`,
    `    <content type="text">${escapeXml(paragraphs.join("\n\n"))}</content>`,
    "  </entry>",
  ].join("\n")
}

interface AtomFeedOptions {
  /** The service's URL, without a trailing slash. */
  readonly baseUrl: string
  /** The feed's query string, without the question mark. It determines the feed's id. */
  readonly search: string
}

/**
 * Returns the XML of a feed that contains the given entries. The first one must be the newest. `search` is the feed's
 * query string, which selects the entries and is part of the feed's id.
 */
export const renderAtomFeed = (
  entries: ReadonlyArray<ChangelogEntry>,
  { baseUrl, search }: AtomFeedOptions,
) => {
  const self = `${baseUrl}/v1/changelog.atom${search === "" ? "" : `?${search}`}`
  return [
    `<?xml version="1.0" encoding="utf-8"?>`,
    `<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">`,
    `  <id>${makeUrn(`feed ${search}`)}</id>`,
    "  <title>Tickerline changelog</title>",
    `  <updated>${toTimestamp(entries[0]?.date ?? newestReleaseDate)}</updated>`,
    "  <author><name>Tickerline</name></author>",
    `  <link rel="self" type="application/atom+xml" href="${escapeXml(self)}"/>`,
    `  <link rel="alternate" type="text/html" href="${escapeXml(baseUrl + changelogPagePath)}"/>`,
    ...entries.map((entry) => renderEntry(entry, baseUrl)),
    "</feed>",
    "",
  ].join("\n")
}
