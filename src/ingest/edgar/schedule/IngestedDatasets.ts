/** The datasets that the ingest can fill from the SEC's documents. */
export const ingestedDatasets = [
  "news",
  "registrations",
  "float_outstanding",
  "historical_float_pro",
  "ownership",
  "screener",
  "ticker_changes",
] as const

/** The name of such a dataset. */
export type IngestedDataset = typeof ingestedDatasets[number]

/** The datasets with the shares outstanding and the public float: newest, and by filing. */
export const floatDatasets = ["float_outstanding", "historical_float_pro"] as const

/** The datasets with share counts, which come from the company's facts and from XBRL instances. */
export const datasetsWithCounts = [...floatDatasets, "screener"] as const

/** The datasets for which companies are visited. `ticker_changes` is made from the ticker list instead. */
export const datasetsFromCompanyFilings = ingestedDatasets.filter((dataset) => dataset !== "ticker_changes")
