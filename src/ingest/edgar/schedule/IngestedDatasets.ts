/** Datasets that the ingest can fill from SEC documents. */
export const ingestedDatasets = [
  "news",
  "registrations",
  "float_outstanding",
  "historical_float_pro",
  "ownership",
  "screener",
  "ticker_changes",
] as const

/** The name of a dataset that the ingest can fill. */
export type IngestedDataset = typeof ingestedDatasets[number]

/** Datasets with shares outstanding and public float: the latest values, and the values per filing. */
export const floatDatasets = ["float_outstanding", "historical_float_pro"] as const

/** Datasets that describe only the present, with one row per symbol. */
export const currentDatasets: ReadonlySet<IngestedDataset> = new Set(["float_outstanding", "screener"])

/** Datasets with share counts, which come from company facts and XBRL instances. */
export const datasetsWithCounts = [...floatDatasets, "screener"] as const

/**
 * Datasets that are built from the filing lists and documents of companies. `ticker_changes` is built from the ticker
 * list instead.
 */
export const datasetsFromCompanyFilings = ingestedDatasets.filter((dataset) => dataset !== "ticker_changes")
