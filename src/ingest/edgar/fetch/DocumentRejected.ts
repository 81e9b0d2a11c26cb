import { Data } from "effect"

/**
 * An SEC document, or an element of one, that is set aside: it is missing, not what its URL names, or its values cannot
 * be trusted. `reason` tells an operator why, and continues a sentence that begins with the URL: "is not there". It
 * never quotes the document, whose text may be personal data.
 */
export class DocumentRejected extends Data.TaggedError("DocumentRejected")<{
  readonly url: string
  readonly reason: string
}> {
  override get message() {
    return `${this.url}: ${this.reason}`
  }
}
