import { assert, describe, it } from "@effect/vitest"
import { addResponseExamples } from "../../../src/api/catalogue/OpenApiDocument.ts"

const documentOf = (content: object) => ({
  paths: { "/v1/widgets": { get: { responses: { "200": { content: { "application/json": content } } } } } },
})

describe("addResponseExamples", () => {
  it("leaves out an example whose response is not filled in yet (§4.5)", () => {
    const content = {}
    addResponseExamples(documentOf(content), [
      { name: "New", request: "/v1/widgets?ticker=GAP7", status: 200 },
      { name: "Known", request: "/v1/widgets?ticker=NEW1", status: 200, response: { count: 0 } },
    ])
    assert.deepStrictEqual(content, {
      examples: { Known: { summary: "/v1/widgets?ticker=NEW1", value: { count: 0 } } },
    })
  })

  it("refuses an example of a response that is not documented (§4.5)", () => {
    assert.throws(
      () => addResponseExamples(documentOf({}), [{ name: "Odd", request: "/v1/widgets", status: 404, response: {} }]),
      "has no response 404 of /v1/widgets",
    )
  })
})
