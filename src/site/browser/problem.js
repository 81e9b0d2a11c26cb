/** An answer that is an error, said so that the visitor knows what to do. */
import { make, prose } from "./dom.js"
import { textAt } from "./json.js"

/** @typedef {import("./key.js").Answer} Answer */

/** @param {Answer} answer */
const codeOf = ({ body }) => textAt(body, "error", "code")

/**
 * What the visitor does about it.
 * @param {Answer} answer
 */
const advice = (answer) => {
  const { headers, status } = answer
  const wait = headers.get("Retry-After")
  switch (status) {
    case 0:
      return "The service could not be reached. Check the connection, and try again."
    case 401:
      if (codeOf(answer) === "invalid_api_key") {
        return "The service does not know this key. Check that it was copied whole, or enter another one above."
      }
      if (codeOf(answer) === "api_key_disabled") return "Enter another key of the account above, or ask for a new one."
      return "Enter your API key above. Whoever runs this service makes one with `tickerline keys create`; the demo " +
        "key of a new one is in the file `.tickerline/demo-key`."
    case 402:
      return "The account's prepaid balance is used up."
    case 403:
      return "This key may not ask for that."
    case 429:
      return `That was more than the account may ask in a minute.${wait === null ? "" : ` Try again in ${wait} s.`}`
    case 503:
      return `The data are not to be had just now.${wait === null ? "" : ` Try again in ${wait} s.`}`
    default:
      return undefined
  }
}

const titles = new Map([
  [0, "No answer"],
  [401, "A key is needed"],
  [402, "Nothing left to spend"],
  [403, "Not allowed"],
  [404, "Nothing found"],
  [422, "That cannot be asked"],
  [429, "Too many requests"],
  [503, "Try again shortly"],
])

const titlesOfCodes = new Map([
  ["invalid_api_key", "This key is wrong"],
  ["api_key_disabled", "This key is no longer valid"],
])

/** @param {Answer} answer */
export const isTemporary = ({ status }) => status === 0 || status === 429 || status === 503

/**
 * @param {Answer} answer
 * @param {() => void} again what a button repeats, where that helps
 */
export const problem = (answer, again) => {
  const { body, headers, status } = answer
  const [message, told] = [textAt(body, "error", "message"), advice(answer)]
  const id = headers.get("X-Request-Id")
  const code = codeOf(answer)
  const title = titlesOfCodes.get(code ?? "") ?? titles.get(status) ?? `The service answered ${status}`
  const notice = make("div", { class: "notice" })
  notice.append(
    make("p", {}, make("strong", {}, title)),
    ...(message === undefined ? [] : [make("p", {}, ...prose(message))]),
    ...(told === undefined ? [] : [make("p", {}, ...prose(told))]),
    ...(code === undefined
      ? []
      : [make("p", { class: "quiet" }, `${status} ${code}${id === null ? "" : `, request ${id}`}`)]),
  )
  if (isTemporary(answer)) {
    const button = make("button", { type: "button", class: "quiet" }, "Try again")
    button.addEventListener("click", again)
    notice.append(make("p", {}, button))
  }
  return notice
}
