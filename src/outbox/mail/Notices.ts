/** Queues emails to single accounts, such as a warning that a key expires (docs/operations/announcements.md). */
import { Effect, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { renderNotice } from "./EmailTemplate.ts"

export interface Notice {
  /**
   * Identifies the notice for ever, so that nobody gets it twice: its kind, a colon, and what it is about, such as
   * `key-expiry:7:…`.
   */
  readonly id: string
  readonly account_id: bigint
  /** One line without a full stop. It is also the title of the email. */
  readonly subject: string
  readonly paragraphs: ReadonlyArray<string>
}

/**
 * Makes the SQL expression that queues a notice to the contact address of an account, for use in another statement. It
 * is true if it was queued, and false if the account has no address or the notice was queued before.
 */
export const makeQueueNoticeSql = (sql: SqlClient.SqlClient, notice: Notice): Statement.Fragment => {
  const { html, subject, text } = renderNotice(notice.subject, notice.paragraphs)
  return sql`queue_notice(${notice.id}, ${String(notice.account_id)}::text::bigint, ${subject}, ${text}, ${html})`
}

const decodeQueued = decodeRows(Schema.Struct({ is_queued: Schema.Boolean }))

/** Queues a notice. Returns whether it was queued, as `makeQueueNoticeSql` says. */
export const queueNotice = Effect.fnUntraced(function* (notice: Notice) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* decodeQueued(sql`select ${makeQueueNoticeSql(sql, notice)} as is_queued`)
  return row?.is_queued === true
})
