/**
 * The visitor's key. It is known here and nowhere else: kept for this tab alone (`sessionStorage`), sent as a header to
 * this origin alone, and shown nowhere but in the field that it is typed into.
 */
import { byId } from "./dom.js"
import { textAt } from "./json.js"

const kept = "tickerline-key"

/** Where a browser keeps nothing for pages, the key lasts as long as the page. */
const storage = (() => {
  try {
    const { sessionStorage } = globalThis
    sessionStorage.getItem(kept)
    return sessionStorage
  } catch {
    return undefined
  }
})()

let key = storage?.getItem(kept) ?? ""

/** @param {string} value */
const keep = (value) => {
  key = value
  refusal = ""
  try {
    if (value === "") storage?.removeItem(kept)
    else storage?.setItem(kept, value)
  } catch {
    // It is full, or switched off: the key lasts as long as the page.
  }
}

export const hasKey = () => key !== ""

/**
 * An answer, or that there was none (`status` 0). `body` is its JSON, if it is JSON.
 * @typedef {object} Answer
 * @property {number} status
 * @property {Headers} headers
 * @property {string} text
 * @property {unknown} body
 */

/**
 * The answer to a request that is not sent for want of a key.
 * @type {Answer}
 */
export const withoutKey = {
  status: 401,
  headers: new Headers(),
  text: "",
  body: { error: { code: "missing_api_key", message: "This needs an API key." } },
}

/** The service's answer to the key in use, as an error code, if it refused the key. */
let refusal = ""

/** Called when `refusal` changes. */
let refused = () => {}

/** @param {string} text @returns {unknown} */
const parsed = (text) => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Asks this service with the visitor's key.
 * @param {string} path from `/` on
 * @param {AbortSignal} [signal]
 * @param {string} [accept]
 * @returns {Promise<Answer>}
 */
export const ask = async (path, signal, accept = "application/json") => {
  const url = new URL(path, location.origin)
  if (url.origin !== location.origin) throw new Error("The key is for this origin alone")
  const sent = key
  try {
    const response = await fetch(url, {
      headers: { Accept: accept, ...(key === "" ? {} : { Authorization: `Bearer ${key}` }) },
      credentials: "omit",
      redirect: "error",
      ...(signal === undefined ? {} : { signal }),
    })
    const text = await response.text()
    const body = parsed(text)
    if (sent === key && sent !== "") {
      refusal = response.status === 401 ? textAt(body, "error", "code") ?? "" : ""
      refused()
    }
    return { status: response.status, headers: response.headers, text, body }
  } catch {
    return { status: 0, headers: new Headers(), text: "", body: undefined }
  }
}

/**
 * Brings the form of the key to life.
 * @param {() => void} changed there is another key, or none any more
 */
export const keyForm = (changed) => {
  const form = byId("key-form", HTMLFormElement)
  const field = byId("key", HTMLInputElement)
  const state = byId("key-state", HTMLElement)
  const show = byId("key-show", HTMLButtonElement)
  const forget = byId("key-forget", HTMLButtonElement)

  /** @param {boolean} visible */
  const setVisible = (visible) => {
    field.type = visible ? "text" : "password"
    show.textContent = visible ? "Hide" : "Show"
    show.setAttribute("aria-pressed", String(visible))
  }
  const tell = () => {
    forget.hidden = !hasKey()
    // The account page names a key by its first characters.
    const name = `${key.slice(0, 12)}…`
    state.classList.toggle("bad", refusal !== "")
    if (!hasKey()) state.textContent = "No key is set."
    else if (refusal === "api_key_disabled") state.textContent = `${name} was revoked or disabled, or has expired.`
    else if (refusal !== "") state.textContent = `${name} is wrong: the service does not know this key.`
    else state.textContent = `${name} is used, until this tab is closed or it is forgotten.`
  }
  refused = tell
  byId("without-scripts", HTMLElement).hidden = true
  form.hidden = false
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const typed = field.value.trim()
    field.value = ""
    setVisible(false)
    // Whatever else was pasted cannot be sent in a header, and is no key.
    if (!/^[\x21-\x7e]+$/.test(typed)) {
      state.textContent = "That is no key. One begins with tl_live_ and has no spaces."
      return
    }
    keep(typed)
    tell()
    changed()
  })
  show.addEventListener("click", () => setVisible(field.type === "password"))
  forget.addEventListener("click", () => {
    keep("")
    tell()
    field.focus()
    changed()
  })
  // A page that the browser kept whole may come back after the key was forgotten on another.
  addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return
    key = storage?.getItem(kept) ?? ""
    tell()
    changed()
  })
  tell()
}
