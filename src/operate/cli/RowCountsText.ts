/** Formats the row counts of a load or an ingest. */
import type { MergedRowCounts, ReplacedRowCounts } from "../../ingest/load/LoadingTable.ts"

/**
 * Formats the counts, such as `2 added, 0 updated, 5 unchanged`. Rows that were kept although the file omits them, and
 * removed rows, are listed last.
 */
export const formatMergedRowCounts = (counts: MergedRowCounts | ReplacedRowCounts) =>
  [
    `${counts.added} added`,
    `${counts.updated} updated`,
    `${counts.unchanged} unchanged`,
    ...(counts.kept === 0 ? [] : [`${counts.kept} kept`]),
    ...("removed" in counts ? [`${counts.removed} removed`] : []),
  ].join(", ")
