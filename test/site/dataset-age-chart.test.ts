/** D30 (tables): the chart of dataset ages. */
import { assert, describe, it } from "@effect/vitest"
import { renderDatasetAges } from "../../src/site/browser/dataset-age-chart.js"

describe("The chart of dataset ages", () => {
  it("shows the word never for a dataset that never changed, like the table below it (D30)", () => {
    const html = renderDatasetAges([{ name: "news", changedAt: undefined }], { id: "ages", now: 0 })
    assert.match(html, />never</)
    assert.notMatch(html, /<circle/)
  })
})
