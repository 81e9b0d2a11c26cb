/** Datasets that the ingest fills from the SEC's documents. */
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

export const floatDatasets = ["float_outstanding", "historical_float_pro"] as const

/** Datasets that contain values from the company facts. */
export const datasetsWithCounts = [...floatDatasets, "screener"] as const

/** Datasets that are made from each company's filings. `ticker_changes` is made from the ticker list instead. */
export const datasetsFromCompanyFilings = ingestedDatasets.filter((dataset) => dataset !== "ticker_changes")
