/**
 * Tests that samples/examples.json contains the service's current responses. The OpenAPI document shows them as
 * examples.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assertPrintedTimes } from "../support/PrintedTimes.ts"
import * as Service from "../support/Service.ts"

const file = fileURLToPath(new URL("../../samples/examples.json", import.meta.url))

interface Example {
  readonly name: string
  readonly request: string
  readonly status: number
  readonly response: Readonly<Record<string, unknown>>
}

const examples: ReadonlyArray<Example> = JSON.parse(readFileSync(file, "utf8"))

/** Replaces request ids, cursors and change times, which differ in every run. */
const replaceChangingValues = (response: unknown) =>
  JSON.parse(
    JSON.stringify(response)
      .replace(/"request_id":"[^"]*"/, `"request_id":"01a1f000-0000-7000-8000-000000000000"`)
      .replace(/"cursor":"[^"]*"/g, `"cursor":"4711.2.5b0c7a52d6f24c0e9a3e1f7c8d90ab12"`)
      .replace(/"recorded_at":"[^"]*"/g, `"recorded_at":"2026-06-01T09:15:02.381246-05:00"`),
  )

/** To write the current responses into the file, run `UPDATE_EXAMPLES=1 npm run test:all -- samples-examples`. */
const update = process.env["UPDATE_EXAMPLES"] === "1"

layer(Service.sampleServiceLayer, { excludeTestServices: true })("samples/examples.json", (it) => {
  it.effect("contains the service's responses with the sample data (§4.5)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const responses = yield* Effect.forEach(
        examples,
        ({ name, request }) =>
          Effect.map(Service.requestJson(request, { key: ultimate }), ({ body, headers, status, text }) => {
            assertPrintedTimes(request, headers, text)
            return { name, request, status, response: replaceChangingValues(body) }
          }),
      )
      if (update) {
        writeFileSync(file, `${JSON.stringify(responses, null, 2)}\n`)
      } else assert.deepStrictEqual(responses, [...examples])
    }))
})
