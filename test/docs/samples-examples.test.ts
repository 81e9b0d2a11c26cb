import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as Service from "../support/Service.ts"

const file = fileURLToPath(new URL("../../samples/examples.json", import.meta.url))

interface Example {
  readonly name: string
  readonly request: string
  readonly status: number
  readonly response: Readonly<Record<string, unknown>>
}

const examples: ReadonlyArray<Example> = JSON.parse(readFileSync(file, "utf8"))

/** An error's id is another one each time. */
const sameId = (response: unknown) =>
  JSON.parse(
    JSON.stringify(response).replace(/"request_id":"[^"]*"/, `"request_id":"01a1f000-0000-7000-8000-000000000000"`),
  )

/** `UPDATE_EXAMPLES=1 npm test -- examples` writes down what the service answers now. */
const update = process.env["UPDATE_EXAMPLES"] === "1"

layer(Service.sampleDataLayer, { excludeTestServices: true })("the documentation's examples", (it) => {
  it.effect("are what the service answers over its sample data", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const answers = yield* Effect.forEach(examples, ({ name, request }) =>
        Effect.map(
          Service.requestJson(request, { key: ultimate }),
          ({ body, status }) => ({ name, request, status, response: sameId(body) }),
        ))
      if (update) {
        writeFileSync(file, `${JSON.stringify(answers, null, 2)}\n`)
      } else assert.deepStrictEqual(answers, [...examples])
    }))
})
