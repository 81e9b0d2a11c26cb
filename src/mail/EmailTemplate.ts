/** The words of a customer email, made of an entry of the changelog. */
import { Option, Schema } from "effect"
import { escaped } from "../changelog/Atom.ts"
import { isOperational } from "../changelog/Changelog.ts"
import { type Entry, page } from "../changelog/Entry.ts"
import { documentation } from "../rules/Lifecycle.ts"

export const Letter = Schema.Struct({
  subject: Schema.String,
  text: Schema.String,
  html: Schema.String,
  /** Sent to those as well who want no news. */
  operational: Schema.Boolean,
})
export type Letter = typeof Letter.Type

export interface Surroundings {
  /** Where customers reach the service. */
  readonly base: Option.Option<string>
  readonly unsubscribe: Option.Option<string>
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

const subject = ({ breaking, title, type }: Entry) =>
  `Tickerline: ${breaking ? "breaking change: " : type === "deprecated" ? "deprecation: " : ""}${title}`

const facts = ({ date, names, paths, release, successor, sunset, takes_effect }: Entry) =>
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

export const letter = (entry: Entry, { base, unsubscribe }: Surroundings): Letter => {
  const operational = isOperational(entry)
  const body = [entry.text, ...(entry.migration === null ? [] : [`What to do: ${entry.migration}`])]
  const links = Option.match(base, {
    onNone: () => [],
    onSome: (address) => [`${address}${page}#${entry.id}`, `${address}${documentation}`],
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
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escaped(entry.title)}</title></head><body>`,
    `<h1 style="font-size:1.2em">${escaped(entry.title)}</h1>`,
    ...body.map((paragraph) => `<p>${escaped(paragraph)}</p>`),
    "<table>",
    ...told.map(([name, value]) => `<tr><th align="left">${escaped(name)}</th><td>${escaped(value)}</td></tr>`),
    "</table>",
    ...links.map((link) => `<p><a href="${escaped(link)}">${escaped(link)}</a></p>`),
    `<hr><p><small>${escaped(end)}</small></p>`,
    "</body></html>",
  ].join("\n")
  return { subject: subject(entry), text: `${text}\n`, html: `${html}\n`, operational }
}
