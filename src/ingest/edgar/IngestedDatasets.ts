/** The datasets that the SEC's documents fill. */
export const ingestedDatasets = [
  "news",
  "registrations",
  "float_outstanding",
  "historical_float_pro",
  "ownership",
  "screener",
  "ticker_changes",
] as const

export type IngestedDataset = typeof ingestedDatasets[number]

/** Datasets that come from the filings of one company; `ticker_changes` comes from the ticker list. */
export const companyDatasets = ingestedDatasets.filter((dataset) => dataset !== "ticker_changes")
