/**
 * Queues emails to single accounts, such as the warning that a key is about to expire
 * (docs/operations/announcements.md).
 */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { renderNotice } from "./EmailTemplate.ts"

/** An email to a single account. */
export interface Notice {
  /**
   * Permanently identifies the notice, so that no one receives it twice. The id consists of the kind of notice, a
   * colon, and the subject matter, such as `key-expiry:7:…`.
   */
  readonly id: string
  readonly account_id: bigint
  /** A single line without a period at the end. It is also the email's title. */
  readonly subject: string
  readonly paragraphs: ReadonlyArray<string>
}

const decodeQueued = decodeRows(Schema.Struct({ is_queued: Schema.Boolean }))

/**
 * Queues a notice to an account's contact address. Returns false if the account has no address or has been erased, or
 * if the notice has already been queued.
 */
export const queueNotice = Effect.fnUntraced(function* ({ account_id, id, paragraphs, subject }: Notice) {
  const sql = yield* SqlClient.SqlClient
  const { html, text, ...title } = renderNotice(subject, paragraphs)
  const [row] = yield* decodeQueued(sql`
    select queue_notice(${id}, ${String(account_id)}::text::bigint, ${title.subject}, ${text}, ${html}) as is_queued
  `)
  return row?.is_queued === true
})
