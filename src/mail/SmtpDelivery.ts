/** One delivery to the server that takes the mails. */
import { Data, Effect, Redacted } from "effect"
import SMTPConnection from "nodemailer/lib/smtp-connection"
import { Readable } from "node:stream"

/** How far it came, which says whether it may be sent again. */
export class DeliveryError extends Data.TaggedError("NotDelivered")<{
  /**
   * `away`: no server that takes mails from us was reached; `later`: this mail is not taken now; `refused`: it never
   * will be; `unknown`: the server got all of it and did not answer.
   */
  readonly why: "away" | "later" | "refused" | "unknown"
  /** In the server's words, with the address in them perhaps: for the outbox. */
  readonly message: string
  /** Without them: for logs. */
  readonly code: string
}> {}

const optionsOf = (url: Redacted.Redacted) => {
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
      // A password never goes over a network in the clear; without one TLS is used where it is offered.
      requireTLS: username !== "" && !secure && !isLocal,
      // A loopback server rarely has a certificate that holds for its address.
      ignoreTLS: isLocal && !secure,
      connectionTimeout: 10_000,
      greetingTimeout: 10_000,
      socketTimeout: 60_000,
      dnsTimeout: 10_000,
    },
  }
}

type Failure = Parameters<Parameters<InstanceType<typeof SMTPConnection>["send"]>[2]>[0]

/** One line, so that no log and no table is led astray by a server. */
const tidy = (text: string) => text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim().slice(0, 500)

/** What the sender is refused, rather than a mail, will be refused of every mail until somebody acts. */
const isAboutUs = (command: string | undefined) =>
  command === undefined || /^(CONN|API|EHLO|HELO|STARTTLS|AUTH|MAIL FROM)/.test(command)

const notDelivered = (error: Failure, handed: boolean) => {
  const { code, command, message, responseCode } = error ?? {}
  const why = responseCode === undefined
    ? handed ? "unknown" : "away"
    : isAboutUs(command)
    ? "away"
    : responseCode >= 500
    ? "refused"
    : "later"
  const told = [code ?? "ESMTP", command?.split(" ", 1)[0], responseCode].filter((part) => part !== undefined).join(" ")
  return new DeliveryError({
    why,
    message: tidy(error?.response ?? message ?? "It failed without a word."),
    code: told,
  })
}

export interface EmailDelivery {
  readonly from: string
  readonly to: string
  readonly message: Uint8Array
  /** Awaited before the server gets the end of the mail; where it is not true the mail is cut off, and void. */
  readonly hand: () => Promise<boolean>
}

/** The longest that a server may take for a mail in all. */
const patience = "2 minutes"

/** One connection for each mail: paced as they are, none is worth keeping. */
export const makeSmtpDelivery = (url: Redacted.Redacted) => {
  const { auth, connection: options } = optionsOf(url)
  return ({ from, hand, message, to }: EmailDelivery) =>
    Effect.suspend(() => {
      let handed = false
      const tooLong = () => {
        const error = Object.assign(new Error("The server took too long."), { code: "ETIMEDOUT" })
        return Effect.fail(notDelivered(error, handed))
      }
      return Effect.callback<void, DeliveryError>((resume) => {
        const connection = new SMTPConnection(options)
        const fail = (error: Failure) => {
          resume(Effect.fail(notDelivered(error, handed)))
          connection.close()
        }
        const content = async function* () {
          yield message
          if (!(await hand())) throw new Error("Another instance has taken over.")
          handed = true
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
      }).pipe(Effect.timeoutOrElse({ duration: patience, orElse: tooLong }))
    })
}
