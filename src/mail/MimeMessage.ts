/** A mail as it goes over the wire. */
import { Effect, Option } from "effect"
import MailComposer from "nodemailer/lib/mail-composer"
import type { ClaimedEmail } from "./Outbox.ts"
import type { Mailbox } from "./MailSettings.ts"

/** Only letters that mean nothing in a header. */
const domainOf = ({ address }: Mailbox) => new URL(`http://${address.slice(address.lastIndexOf("@") + 1)}`).hostname

interface Sender {
  readonly from: Mailbox
  readonly unsubscribe: Option.Option<string>
}

/** Sent again, it has the same Message-ID, by which servers and readers know it. */
export const composeMimeMessage = (mail: ClaimedEmail, { from, unsubscribe }: Sender) =>
  Effect.promise(() =>
    new MailComposer({
      from,
      to: { name: "", address: mail.recipient },
      subject: mail.subject,
      text: mail.text,
      html: mail.html,
      messageId: `<${mail.mail_id}@${domainOf(from)}>`,
      headers: {
        // RFC 3834: nobody's holiday note shall answer.
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        ...(mail.operational || Option.isNone(unsubscribe)
          ? {}
          : { "List-Unsubscribe": `<mailto:${encodeURI(unsubscribe.value)}?subject=unsubscribe>` }),
      },
      disableFileAccess: true,
      disableUrlAccess: true,
    }).compile().build()
  )
