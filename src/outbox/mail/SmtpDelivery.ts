/** Composes a MIME message, and delivers it to the SMTP server. */
import { Data, Effect, Option, Redacted } from "effect"
import MailComposer from "nodemailer/lib/mail-composer"
import SMTPConnection from "nodemailer/lib/smtp-connection"
import { Readable } from "node:stream"
import type { EmailContent } from "./EmailTemplate.ts"
import type { Mailbox, MailSettings } from "./MailSettings.ts"

// ---------------------------------------------------------------------------------------------------------------------
// Message
// ---------------------------------------------------------------------------------------------------------------------

/** An email to one recipient. */
export interface OutgoingEmail extends EmailContent {
  readonly mail_id: string
  readonly recipient: string
}

/** Returns the domain of an address. The URL parser converts it to ASCII, which is safe in a header. */
const getDomain = ({ address }: Mailbox) => new URL(`http://${address.slice(address.lastIndexOf("@") + 1)}`).hostname

/** Composes a message. If it is sent again, it has the same Message-ID, so mail programs recognize the duplicate. */
export const composeMimeMessage = (
  email: OutgoingEmail,
  { from, unsubscribe }: Pick<MailSettings, "from" | "unsubscribe">,
) =>
  Effect.promise(() =>
    new MailComposer({
      from,
      to: { name: "", address: email.recipient },
      subject: email.subject,
      text: email.text,
      html: email.html,
      messageId: `<${email.mail_id}@${getDomain(from)}>`,
      headers: {
        // These headers suppress out-of-office replies. RFC 3834 defines the first one, Microsoft the second.
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        ...(email.operational || Option.isNone(unsubscribe)
          ? {}
          : { "List-Unsubscribe": `<mailto:${encodeURI(unsubscribe.value)}?subject=unsubscribe>` }),
      },
      disableFileAccess: true,
      disableUrlAccess: true,
    }).compile().build()
  )

// ---------------------------------------------------------------------------------------------------------------------
// Delivery
// ---------------------------------------------------------------------------------------------------------------------

/** An attempt to deliver an email failed. */
export class EmailDeliveryError extends Data.TaggedError("EmailDeliveryError")<{
  /**
   * `away`: no server was usable. `later`: the server refused the email temporarily. `refused`: it refused the email
   * permanently. `unknown`: it received the complete message, but did not reply.
   */
  readonly outcome: "away" | "later" | "refused" | "unknown"
  /** The server's reply, which is stored in the outbox. It may contain the recipient's address. */
  readonly message: string
  /** Error codes for logs, without addresses. */
  readonly code: string
}> {}

/** Reads `SMTP_URL`, and decides how the connection is encrypted. */
const parseServerUrl = (url: Redacted.Redacted) => {
  const { hostname, password, port, protocol, username } = new URL(Redacted.value(url))
  const host = hostname.replace(/^\[(.*)\]$/, "$1")
  const secure = protocol === "smtps:"
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host)
  return {
    auth: username === "" ? undefined : { user: decodeURIComponent(username), pass: decodeURIComponent(password) },
    connection: {
      host,
      port: port === "" ? (secure ? 465 : 587) : Number(port),
      secure,
      // A password is sent only over TLS, except to a local server. Without a password, TLS is used if it is offered.
      requireTLS: username !== "" && !secure && !isLocal,
      // A local server is used without STARTTLS, because its certificate rarely matches its address.
      ignoreTLS: isLocal && !secure,
      connectionTimeout: 10_000,
      greetingTimeout: 10_000,
      socketTimeout: 60_000,
      dnsTimeout: 10_000,
    },
  }
}

type SmtpFailure = Parameters<Parameters<InstanceType<typeof SMTPConnection>["send"]>[2]>[0]

/**
 * Returns the text as one line of at most 500 characters. A server's reply with line breaks could otherwise forge lines
 * of the log.
 */
const toSingleLine = (text: string) => text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim().slice(0, 500)

/** Whether the server refused the connection or the sender. If so, it would refuse every other email, too. */
const isSenderRefused = (command: string | undefined) =>
  command === undefined || /^(CONN|API|EHLO|HELO|STARTTLS|AUTH|MAIL FROM)/.test(command)

/** Classifies a failure. Without a reply code, what matters is whether the server already had the complete message. */
const makeDeliveryError = (error: SmtpFailure, isHandedOver: boolean) => {
  const { code, command, message, responseCode } = error ?? {}
  const outcome = responseCode === undefined
    ? isHandedOver ? "unknown" : "away"
    : isSenderRefused(command)
    ? "away"
    : responseCode >= 500
    ? "refused"
    : "later"
  return new EmailDeliveryError({
    outcome,
    message: toSingleLine(error?.response ?? message ?? "The connection ended without a reply."),
    code: [code ?? "ESMTP", command?.split(" ", 1)[0], responseCode].filter((part) => part !== undefined).join(" "),
  })
}

interface EmailDelivery {
  readonly from: string
  readonly to: string
  readonly message: Uint8Array
  /**
   * Called, and awaited, before the end of the message is sent. If the result is false, the connection is closed
   * instead.
   */
  readonly confirmHandover: () => Promise<boolean>
}

const deliveryTimeout = "2 minutes"

/**
 * Returns a function that delivers an email. Each gets a new connection, because emails are too rare to keep one open.
 */
export const makeSmtpDelivery = (url: Redacted.Redacted) => {
  const { auth, connection: options } = parseServerUrl(url)
  return ({ confirmHandover, from, message, to }: EmailDelivery) =>
    Effect.suspend(() => {
      let isHandedOver = false
      const onTimeout = () => {
        const error = Object.assign(new Error("The server took too long."), { code: "ETIMEDOUT" })
        return Effect.fail(makeDeliveryError(error, isHandedOver))
      }
      return Effect.callback<void, EmailDeliveryError>((resume) => {
        const connection = new SMTPConnection(options)
        const fail = (error: SmtpFailure) => {
          resume(Effect.fail(makeDeliveryError(error, isHandedOver)))
          connection.close()
        }
        // The connection ends the message, and thereby hands it over, when this generator ends.
        const content = async function* () {
          yield message
          if (!(await confirmHandover())) throw new Error("Another process has taken over.")
          isHandedOver = true
        }
        const send = () =>
          connection.send({ from, to: [to] }, Readable.from(content()), (error) => {
            if (error !== null) return fail(error)
            resume(Effect.void)
            connection.quit()
          })
        connection.on("error", fail)
        connection.once("end", () => fail(null))
        connection.connect((error) => {
          if (error !== undefined) return fail(error)
          if (auth === undefined) return send()
          connection.login({ credentials: auth }, (refused) => refused === null ? send() : fail(refused))
        })
        return Effect.sync(() => connection.close())
      }).pipe(Effect.timeoutOrElse({ duration: deliveryTimeout, orElse: onTimeout }))
    })
}
