/**
 * The visitor's key. It is known here and nowhere else: kept for this tab alone (`sessionStorage`), sent as a header to
 * this origin alone, and shown nowhere but in the field that it is typed into.
 */
import { byId } from "./dom.js"

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
  try {
    if (value === "") storage?.removeItem(kept)
    else storage?.setItem(kept, value)
  } catch {
    // It is full, or switched off: the key lasts as long as the page.
  }
}

export const hasKey = () => key !== ""

/**
 * An answer, or that there was none (`status` 0).
 * @typedef {{ readonly status: number, readonly headers: Headers, readonly body: unknown }} Answer
 */

/**
 * Asks this service with the visitor's key.
 * @param {string} path from `/` on
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer>}
 */
export const ask = async (path, signal) => {
  const url = new URL(path, location.origin)
  if (url.origin !== location.origin) throw new Error("The key is for this origin alone")
  try {
    const response = await fetch(url, {
      headers: { Accept: "application/json", ...(key === "" ? {} : { Authorization: `Bearer ${key}` }) },
      credentials: "omit",
      redirect: "error",
      ...(signal === undefined ? {} : { signal }),
    })
    /** @type {unknown} */
    const body = await response.json().catch(() => undefined)
    return { status: response.status, headers: response.headers, body }
  } catch {
    return { status: 0, headers: new Headers(), body: undefined }
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
    // The first characters are what the account page calls the key by.
    state.textContent = hasKey()
      ? `${key.slice(0, 12)}… is used, until this tab is closed or it is forgotten.`
      : "No key is set."
  }
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
