import { Data } from "effect"

/**
 * An SEC document that is set aside, because it is not the document that its URL names, or its rows cannot be trusted.
 * `reason` tells an operator why. It never quotes the document, whose text may be personal data.
 */
export class DocumentRejected extends Data.TaggedError("DocumentRejected")<{
  readonly url: string
  readonly reason: string
}> {
  override get message() {
    return `${this.url}: ${this.reason}`
  }
}
