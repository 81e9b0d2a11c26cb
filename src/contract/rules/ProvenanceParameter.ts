/** `provenance`, a parameter of lists: it adds the source documents to each row. */
import { Schema } from "effect"

/** The parameter `provenance`, for queries. */
export const ProvenanceParameter = {
  provenance: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "`true`: rows get the field `source`, a list of links to the documents that they come from, or null.",
      filter: { operator: "statement" },
    }),
  ),
}

/** The decoded parameter. */
export interface ProvenanceQuery {
  readonly provenance?: boolean
}
