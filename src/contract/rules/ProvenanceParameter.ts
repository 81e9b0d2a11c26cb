/** The list parameter `provenance`, which adds links to the source documents to each row. */
import { Schema } from "effect"

/** The parameter `provenance`, to be included in a query schema. */
export const ProvenanceParameter = {
  provenance: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "`true`: rows get the field `source`, a list of links to the documents that they come from, or null.",
      filter: { operator: "statement" },
    }),
  ),
}

/** The decoded parameter `provenance`. */
export interface ProvenanceQuery {
  readonly provenance?: boolean
}
