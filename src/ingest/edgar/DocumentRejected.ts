import { Schema } from "effect"

/**
 * A document of the SEC that is set aside: it is not what its address promises, or its rows cannot be trusted.
 * The reason is plain English for an operator, and never repeats text of the document, which may be personal data.
 */
export class DocumentRejected extends Schema.TaggedError<DocumentRejected>()("DocumentRejected", {
  url: Schema.String,
  reason: Schema.String,
}) {
  override get message() {
    return `${this.url}: ${this.reason}`
  }
}
