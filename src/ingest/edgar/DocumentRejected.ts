import { Schema } from "effect"

/**
 * A document of the SEC that is set aside, because it is not the document that its URL names, or its rows cannot be
 * trusted. `reason` tells an operator why, and never repeats text of the document, which may be personal data.
 */
export class DocumentRejected extends Schema.TaggedError<DocumentRejected>()("DocumentRejected", {
  url: Schema.String,
  reason: Schema.String,
}) {
  override get message() {
    return `${this.url}: ${this.reason}`
  }
}
