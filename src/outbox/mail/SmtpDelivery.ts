/** Composes MIME messages and delivers them to the SMTP server. */
import { Data, Effect, Option, Redacted } from "effect"
import MailComposer from "nodemailer/lib/mail-composer"
import SMTPConnection from "nodemailer/lib/smtp-connection"
import { Readable } from "node:stream"
import type { EmailContent } from "./EmailTemplate.ts"
import type { Mailbox, MailSettings } from "./MailSettings.ts"

// ---------------------------------------------------------------------------------------------------------------------
// Message
// ---------------------------------------------------------------------------------------------------------------------

/** An email to a single recipient. */
export interface OutgoingEmail extends EmailContent {
  readonly mail_id: string
  readonly recipient: string
}

/**
 * Returns the domain of an email address. The URL parser converts it to ASCII, so it can safely be used in a header.
 */
const getDomain = ({ address }: Mailbox) => new URL(`http://${address.slice(address.lastIndexOf("@") + 1)}`).hostname

/**
 * Composes a MIME message. An email always gets the same Message-ID, so that mail programs recognize a duplicate if it
 * is sent again.
 */
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
        // These headers suppress out-of-office replies. The first is defined by RFC 3834, the second by Microsoft.
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        ...(email.operational || Option.isNone(unsubscribe)
          ? {}
          : { "List-Unsubscribe": `<mailto:${encodeURI(unsubscribe.value)}?subject=unsubscribe>` }),
      },
      // Nothing is attached from files or URLs, so nodemailer must not read any, whatever the texts contain.
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
   * `away`: no server could be reached, or it refused the sender, so that no other email can be sent either.
   * `later`: the server rejected this email temporarily. `refused`: it rejected this email permanently. `unknown`: it
   * received the complete message, but did not reply.
   */
  readonly outcome: "away" | "later" | "refused" | "unknown"
  /** The server's reply. It is stored with the email in the database, and may contain the recipient's address. */
  readonly message: string
  /** Error codes for logs. They do not contain addresses. */
  readonly code: string
}> {}

/**
 * Parses `SMTP_URL`, such as `smtps://user:password@host:port`, and determines how the connection is encrypted. Returns
 * the server's credentials, if the URL has any, and the options of the connection.
 */
const parseServerUrl = (url: Redacted.Redacted) => {
  const { hostname, password, port, protocol, username } = new URL(Redacted.value(url))
  // IPv6 addresses are in brackets in URLs only.
  const host = hostname.replace(/^\[(.*)\]$/, "$1")
  const secure = protocol === "smtps:"
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host)
  return {
    auth: username === "" ? undefined : { user: decodeURIComponent(username), pass: decodeURIComponent(password) },
    connection: {
      host,
      // 465 and 587 are the standard ports for mail submission: with TLS from the start, and with STARTTLS.
      port: port === "" ? (secure ? 465 : 587) : Number(port),
      secure,
      // A password is sent only over TLS, except to a local server. Without a password, TLS is used if the server
      // offers it.
      requireTLS: username !== "" && !secure && !isLocal,
      // STARTTLS is not used with a local server, because its certificate rarely matches its address.
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
 * Converts text to a single line of at most 500 characters. Otherwise, a server could forge log lines with line breaks
 * in its reply.
 */
const toSingleLine = (text: string) => text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim().slice(0, 500)

/**
 * Returns whether the server refused the connection or the sender, given the SMTP command that failed. It would then
 * refuse all other emails as well.
 */
const isSenderRefused = (command: string | undefined) =>
  command === undefined || /^(CONN|API|EHLO|HELO|STARTTLS|AUTH|MAIL FROM)/.test(command)

/**
 * Classifies a failure to deliver an email. `isHandedOver` is whether the complete message had been sent, so that the
 * server may have accepted it.
 */
const classifyOutcome = (error: SmtpFailure, isHandedOver: boolean): EmailDeliveryError["outcome"] => {
  const { command, responseCode } = error ?? {}
  if (responseCode === undefined) return isHandedOver ? "unknown" : "away"
  if (isSenderRefused(command)) return "away"
  // SMTP reply codes from 500 on are permanent failures, and lower ones are temporary (RFC 5321, section 4.2.1).
  return responseCode >= 500 ? "refused" : "later"
}

/**
 * Converts a failure to deliver an email to an error. `error` is null if the server closed the connection without
 * reporting one.
 */
const makeDeliveryError = (error: SmtpFailure, isHandedOver: boolean) => {
  const { code, command, message, response, responseCode } = error ?? {}
  return new EmailDeliveryError({
    outcome: classifyOutcome(error, isHandedOver),
    message: toSingleLine(response ?? message ?? "The connection ended without a reply."),
    // nodemailer does not give every failure a code. The command `MAIL FROM:<…>` is shortened to `MAIL`, because the
    // rest contains an address.
    code: [code ?? "ESMTP", command?.split(" ", 1)[0], responseCode].filter((part) => part !== undefined).join(" "),
  })
}

interface EmailDelivery {
  readonly from: string
  readonly to: string
  readonly message: Uint8Array
  /**
   * Called before the end of the message is sent to the server, and awaited. If it returns false, the connection is
   * closed instead, and the email is not sent.
   */
  readonly confirmHandover: () => Promise<boolean>
}

const deliveryTimeout = "2 minutes"

/**
 * Returns a function that delivers an email. Each email uses a new connection, because emails are too infrequent to
 * keep a connection open. The function calls `confirmHandover` before it sends the end of the message. If the result is
 * false, another process has taken over the email, and the message is not completed.
 *
 * `isHandedOver` is set at that point, because from then on a failure no longer means that the email was not delivered.
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
        // When this generator ends, the connection sends the end of the message. This hands the email over to the
        // server.
        const messageContent = async function* () {
          yield message
          if (!(await confirmHandover())) throw new Error("Another process has taken over.")
          isHandedOver = true
        }
        const send = () =>
          connection.send({ from, to: [to] }, Readable.from(messageContent()), (error) => {
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
