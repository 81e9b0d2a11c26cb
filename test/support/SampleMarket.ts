/** Counts in the sample market that several tests rely on (samples/README.md). */

/** The companies of the sample market. Each has one row in `screener`. */
export const sampleCompanies = 51

/** The rows of `/v1/gap-stats?ticker=GAP7`, the company whose gaps samples/README.md shows. */
export const gapsOfGap7 = 12
