/** Tests the chart of dataset ages (D30, tables). */
import { assert, describe, it } from "@effect/vitest"
import { renderDatasetAges } from "../../src/site/browser/dataset-age-chart.js"

describe("The dataset age chart", () => {
  it("shows the word never instead of a point for a dataset that has never changed (D30)", () => {
    const html = renderDatasetAges([{ name: "news", changedAt: undefined }], { id: "ages", now: 0 }).toString()
    assert.match(html, />never</)
    assert.notMatch(html, /<circle/)
  })
})
