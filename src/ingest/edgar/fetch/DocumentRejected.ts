import { Schema } from "effect"

/**
 * An SEC document that is set aside, because it is not the document that its URL names, or its rows cannot be trusted.
 * `reason` tells an operator why. It never quotes the document, whose text may be personal data.
 */
export class DocumentRejected extends Schema.TaggedError<DocumentRejected>()("DocumentRejected", {
  url: Schema.String,
  reason: Schema.String,
}) {
  override get message() {
    return `${this.url}: ${this.reason}`
  }
}
