/** Queues emails to single accounts, such as a warning that a key expires (docs/operations/announcements.md). */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { renderNotice } from "./EmailTemplate.ts"

/** An email to one account. */
export interface Notice {
  /**
   * Identifies the notice forever, so that nobody gets it twice. It consists of the kind of notice, a colon, and what
   * it is about, such as `key-expiry:7:…`.
   */
  readonly id: string
  readonly account_id: bigint
  /** One line without a full stop. It is also the title of the email. */
  readonly subject: string
  readonly paragraphs: ReadonlyArray<string>
}

const decodeQueued = decodeRows(Schema.Struct({ is_queued: Schema.Boolean }))

/**
 * Queues a notice to the contact address of an account. Returns false if the account has no address or has been erased,
 * or if the notice was queued before.
 */
export const queueNotice = Effect.fnUntraced(function* ({ account_id, id, paragraphs, subject }: Notice) {
  const sql = yield* SqlClient.SqlClient
  const { html, text, ...title } = renderNotice(subject, paragraphs)
  const [row] = yield* decodeQueued(sql`
    select queue_notice(${id}, ${String(account_id)}::text::bigint, ${title.subject}, ${text}, ${html}) as is_queued
  `)
  return row?.is_queued === true
})
