/**
 * Prints the findings of Redocly and Spectral about an OpenAPI document, and exits with 1 if there are any. No
 * recommended rule is switched off. It is JavaScript, because the project's type check runs without these packages.
 */
import { createConfig, lintFromString } from "@redocly/openapi-core"
import spectral from "@stoplight/spectral-core"
import rulesets from "@stoplight/spectral-rulesets"
import { readFileSync } from "node:fs"
import process from "node:process"

/** @param {string} text */
const redocly = async (text) => {
  const config = await createConfig({ extends: ["recommended"] })
  const found = await lintFromString({ source: text, absoluteRef: "openapi.json", config })
  return found.map(({ location, message, ruleId, severity }) =>
    `Redocly ${severity} ${ruleId} ${String(location[0]?.pointer)}: ${message}`
  )
}

/** @param {string} text */
const spectralOas = async (text) => {
  const linter = new spectral.Spectral()
  linter.setRuleset(new spectral.Ruleset({ extends: [[rulesets.oas, "recommended"]] }))
  const found = await linter.run(text)
  return found.map(({ code, message, path }) => `Spectral ${String(code)} ${path.join("/")}: ${message}`)
}

/** A document with known mistakes. If a linter reports none of them, the linter does not work. */
const invalid = JSON.stringify({
  openapi: "3.1.0",
  info: { title: "x", version: "1" },
  paths: {},
  tags: [{ name: "x" }],
})
const known = [...await redocly(invalid), ...await spectralOas(invalid)].join("\n")
const missed = ["tag-description", "oas3-api-servers"].filter((rule) => !known.includes(rule))

const [, , file = ""] = process.argv
const text = readFileSync(file, "utf8")
const found = [...await redocly(text), ...await spectralOas(text)]

for (const line of found) console.error(line)
for (const rule of missed) console.error(`The linters did not find ${rule} in a document that breaks it.`)
process.exitCode = found.length + missed.length === 0 ? 0 : 1
