/** Fails if Redocly or Spectral reports anything about the OpenAPI document (§4.5). No rule is switched off. */
import { createConfig, lintFromString } from "@redocly/openapi-core"
import spectral from "@stoplight/spectral-core"
import rulesets from "@stoplight/spectral-rulesets"
import process from "node:process"
import { getDefaultOpenApiDocument, makeOpenApiDocument } from "../../src/catalogue/OpenApiDocument.ts"

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

/** @param {unknown} value */
const lint = async (value) => {
  const text = JSON.stringify(value)
  return [...await redocly(text), ...await spectralOas(text)]
}

/** A document with known mistakes. If a linter reports none of them, the linter does not work. */
const invalid = { openapi: "3.1.0", info: { title: "x", version: "1" }, paths: {}, tags: [{ name: "x" }] }
const known = (await lint(invalid)).join("\n")
const missed = ["tag-description", "oas3-api-servers"].filter((rule) => !known.includes(rule))

// Without BASE_URL the document's server is `/`. Only Spectral checks that, because Redocly requires a full URL.
const found = [...await lint(getDefaultOpenApiDocument()), ...await spectralOas(JSON.stringify(makeOpenApiDocument("/")))]

for (const line of found) console.error(line)
for (const rule of missed) console.error(`The linters did not find ${rule} in a document that breaks it.`)
console.log(`${found.length} findings in the OpenAPI document`)
process.exitCode = found.length + missed.length === 0 ? 0 : 1
