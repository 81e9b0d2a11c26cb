import { Data } from "effect"

/**
 * An SEC document, or an element of one, cannot be used: it is missing, it is not the document that its URL identifies,
 * or its values cannot be trusted. The ingest sets it aside, that is, queues it for a later attempt. `reason` explains
 * the problem to an operator, and completes a sentence that begins with the URL, such as "is not there". It never
 * quotes the document, which may contain personal data.
 */
export class DocumentRejected extends Data.TaggedError("DocumentRejected")<{
  readonly url: string
  readonly reason: string
}> {
  override get message() {
    return `${this.url}: ${this.reason}`
  }
}
