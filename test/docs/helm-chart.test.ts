/**
 * Tests that all values in the Helm chart are documented and that they cover every setting. `test/judges` renders the
 * chart.
 */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { parse } from "yaml"
import schema from "../../ops/helm/tickerline/values.schema.json" with { type: "json" }
import { settingDefinitions, settingNames } from "../../src/operate/cli/Settings.ts"
import { projectRoot } from "../support/Processes.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"

const chart = `${projectRoot}/ops/helm/tickerline`
const values: unknown = parse(readFileSync(`${chart}/values.yaml`, "utf8"))
const deployment = readFileSync(`${chart}/templates/deployment.yaml`, "utf8")

/** Settings that the templates set themselves. */
const setByTemplates = Array.from(deployment.matchAll(/^ +- name: ([A-Z_]+)$/gm), ([, name = ""]) => name)

/** Settings that have no use in a Pod of the service. */
const withoutUse = new Set([
  // A Pod runs one process.
  "REUSE_PORT",
  // The image contains neither an embedded server nor the backup programs.
  "TICKERLINE_HOME",
  "POSTGRES_PROGRAMS",
  // Only client commands read this setting.
  "TICKERLINE_KEY",
])

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/**
 * Compares one level of the schema with the defaults, then recursively compares the nested levels. Returns the paths
 * that differ.
 */
const findDifferences = (level: unknown, defaults: unknown, path: string): ReadonlyArray<string> => {
  if (!isRecord(level) || !isRecord(level["properties"]) || level["propertyNames"] !== undefined) return []
  const { properties } = level
  const names = isRecord(defaults) ? Object.keys(defaults) : []
  return [
    ...(level["additionalProperties"] === false ? [] : [`${path} accepts unknown names`]),
    ...names.filter((name) => !(name in properties)).map((name) => `${path}.${name} is not in the schema`),
    ...Object.entries(properties).flatMap(([name, next]) =>
      names.includes(name)
        ? findDifferences(next, isRecord(defaults) ? defaults[name] : undefined, `${path}.${name}`)
        : [`${path}.${name} has no default`]
    ),
  ]
}

describe("The values of the Helm chart", () => {
  it("accept every setting, those with passwords only from a Secret (operations/kubernetes)", () => {
    assert.includeMembers(setByTemplates, ["HOST", "PORT", "METRICS_PORT", "SHUTDOWN_DELAY"])
    const possible = settingNames.filter((name) => !setByTemplates.includes(name) && !withoutUse.has(name))
    const isSecret = (name: string) => settingDefinitions[name]?.isSecret === true
    const { config, secrets } = schema.properties
    assert.sameMembers(config.propertyNames.enum, possible.filter((name) => !isSecret(name)))
    assert.sameMembers(secrets.properties.keys.propertyNames.enum, possible.filter(isSecret))
  })

  it("permit only what a setting with a list of values permits, also as YAML reads it (operations/kubernetes)", () => {
    const { config } = schema.properties
    const listed = config.propertyNames.enum.flatMap((name) => {
      const { expected = "" } = settingDefinitions[name] ?? {}
      const permitted = Array.from(expected.matchAll(/"([^"]+)"/g), ([, value = ""]) => value)
      // YAML reads unquoted on, off, true and false as booleans.
      const isBoolean = permitted.some((value) => ["on", "true"].includes(value))
      return expected.startsWith('"') ? [[name, { enum: [...permitted, ...(isBoolean ? [true, false] : [])] }]] : []
    })
    assertFoundMoreThan(3, "settings with fixed values", listed)
    const { BASE_URL: _, ...others } = config.properties
    assert.deepStrictEqual(others, Object.fromEntries(listed))
    assert.notInclude(config.additionalProperties.type, "boolean")
  })

  it("name each secret in a comment (operations/kubernetes)", () => {
    const text = readFileSync(`${chart}/values.yaml`, "utf8")
    const [comment = ""] = /# The key in that Secret, by setting:[^.]*\./.exec(text) ?? []
    assert.sameMembers(
      comment.match(/[A-Z]+(?:_[A-Z]+)+/g) ?? [],
      schema.properties.secrets.properties.keys.propertyNames.enum,
    )
  })

  it("are all in the schema and in values.yaml, and unknown ones are refused (operations/kubernetes)", () => {
    // Helm passes `global` to every chart.
    assert.deepStrictEqual(findDifferences(schema, values, "values"), ["values.global has no default"])
  })
})
