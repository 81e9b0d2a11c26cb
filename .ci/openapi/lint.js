/** Fails if Redocly or Spectral reports anything about the OpenAPI document (§4.5). No rule is switched off. */
import { createConfig, lintFromString } from "@redocly/openapi-core"
import spectral from "@stoplight/spectral-core"
import rulesets from "@stoplight/spectral-rulesets"
import process from "node:process"
import { openApiDocument, openApiDocumentFor } from "../../src/catalogue/OpenApiDocument.ts"

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

/** A document with a known mistake, so that a linter that reports nothing at all is noticed. */
const poor = { openapi: "3.1.0", info: { title: "x", version: "1" }, paths: {}, tags: [{ name: "x" }] }
const known = (await lint(poor)).join("\n")
const silent = ["tag-description", "oas3-api-servers"].filter((rule) => !known.includes(rule))

// `/` is the server of a document whose service has no BASE_URL; Redocly wants an absolute address.
const found = [...await lint(openApiDocument), ...await spectralOas(JSON.stringify(openApiDocumentFor("/")))]

for (const line of found) console.error(line)
for (const rule of silent) console.error(`The linters did not find ${rule} in a document that breaks it.`)
console.log(`${found.length} findings in the OpenAPI document`)
process.exitCode = found.length + silent.length === 0 ? 0 : 1
