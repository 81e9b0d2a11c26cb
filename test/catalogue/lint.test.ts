/** §4.5: the OpenAPI document has nothing that linters report. They run as libraries, which send no telemetry. */
import { createConfig, lintFromString } from "@redocly/openapi-core"
import spectral from "@stoplight/spectral-core"
import rulesets from "@stoplight/spectral-rulesets"
import { assert, describe, it } from "@effect/vitest"
import { document, documentAt } from "../../src/catalogue/OpenApi.ts"

/** As `redocly lint --extends recommended` reads it; no rule is switched off. */
const redocly = async (text: string) => {
  const config = await createConfig({ extends: ["recommended"] })
  const found = await lintFromString({ source: text, absoluteRef: "openapi.json", config })
  return found.map(({ location, message, ruleId, severity }) =>
    `${severity} ${ruleId} ${String(location[0]?.pointer)}: ${message}`
  )
}

/** As `spectral lint` reads it with the ruleset `spectral:oas`; no rule is switched off. */
const spectralOas = async (text: string) => {
  const linter = new spectral.Spectral()
  linter.setRuleset(new spectral.Ruleset({ extends: [[rulesets.oas, "recommended"]] }))
  const found = await linter.run(text)
  return found.map(({ code, message, path }) => `${String(code)} ${path.join("/")}: ${message}`)
}

/** Both have something against it. */
const poor = JSON.stringify({ openapi: "3.1.0", info: { title: "x", version: "1" }, paths: {}, tags: [{ name: "x" }] })

describe("The OpenAPI document", () => {
  it("§4.5 Redocly has nothing against it, no warning either", async () => {
    assert.deepStrictEqual(await redocly(JSON.stringify(document)), [])
    assert.include((await redocly(poor)).join("\n"), "tag-description")
  })

  it.each([["at an address", document], ["at the origin from which it was read", documentAt("/")]])(
    "§4.5 Spectral has nothing against it, no hint either: %s",
    async (_, document) => {
      assert.deepStrictEqual(await spectralOas(JSON.stringify(document)), [])
      assert.include((await spectralOas(poor)).join("\n"), "oas3-api-servers")
    },
  )
})
