/**
 * Manages the visitor's API key. It is stored only in this tab (`sessionStorage`), sent only to this origin, as a
 * header, and shown only in the field where it is typed.
 */
import { requireElement } from "./dom.js"
import { getTextAt } from "./json-values.js"

const storageKey = "tickerline-key"

/** Undefined if the browser's storage is disabled. The key is then kept only until the visitor leaves the page. */
const storage = (() => {
  try {
    const { sessionStorage } = globalThis
    sessionStorage.getItem(storageKey)
    return sessionStorage
  } catch {
    return undefined
  }
})()

let apiKey = storage?.getItem(storageKey) ?? ""

/** The error code with which the service rejected the current key; empty if it did not. */
let rejection = ""

/** Called after `rejection` has changed. */
let onRejectionChange = () => {}

/** @param {string} value */
const storeKey = (value) => {
  apiKey = value
  rejection = ""
  try {
    if (value === "") storage?.removeItem(storageKey)
    else storage?.setItem(storageKey, value)
  } catch {
    // If the storage is full or disabled, the key is kept only until the visitor leaves the page.
  }
}

/** Whether the visitor has set a key. */
export const hasApiKey = () => apiKey !== ""

/**
 * A response from the service. `status` is 0 if no response arrived. `body` is the parsed JSON, or undefined.
 * @typedef {object} ApiResponse
 * @property {number} status
 * @property {Headers} headers
 * @property {string} text
 * @property {unknown} body
 */

/**
 * Used in place of a response if none arrived.
 * @type {ApiResponse}
 */
const noResponse = { status: 0, headers: new Headers(), text: "", body: undefined }

/**
 * Used in place of a response if no request is sent because there is no key.
 * @type {ApiResponse}
 */
export const missingKeyResponse = {
  status: 401,
  headers: new Headers(),
  text: "",
  body: { error: { code: "missing_api_key", message: "This request needs an API key." } },
}

/** @param {string} text @returns {unknown} */
const parseJson = (text) => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Sends a GET request to this service with the visitor's key.
 * @param {string} path begins with `/`
 * @param {AbortSignal} [signal]
 * @param {string} [accept]
 * @returns {Promise<ApiResponse>}
 */
export const requestWithKey = async (path, signal, accept = "application/json") => {
  const url = new URL(path, location.origin)
  if (url.origin !== location.origin) throw new Error("The API key is sent to this origin only")
  const sentKey = apiKey
  try {
    const response = await fetch(url, {
      headers: { Accept: accept, ...(apiKey === "" ? {} : { Authorization: `Bearer ${apiKey}` }) },
      credentials: "omit",
      redirect: "error",
      ...(signal === undefined ? {} : { signal }),
    })
    const text = await response.text()
    const body = parseJson(text)
    if (sentKey === apiKey && sentKey !== "") {
      rejection = response.status === 401 ? getTextAt(body, "error", "code") ?? "" : ""
      onRejectionChange()
    }
    // Something else than the service responded, such as the login page of a network.
    if (response.ok && accept === "application/json" && body === undefined) return noResponse
    return { status: response.status, headers: response.headers, text, body }
  } catch {
    return noResponse
  }
}

/**
 * Activates the form for the API key. While a key is set and valid, only a line about it is visible.
 * @param {() => void} onChange called after the key is set, replaced or forgotten
 */
export const activateKeyForm = (onChange) => {
  const box = requireElement("key-box", HTMLElement)
  const form = requireElement("key-form", HTMLFormElement)
  const field = requireElement("key", HTMLInputElement)
  const state = requireElement("key-state", HTMLElement)
  const showButton = requireElement("key-show", HTMLButtonElement)
  const changeButton = requireElement("key-change", HTMLButtonElement)
  const forgetButton = requireElement("key-forget", HTMLButtonElement)

  /** Whether the visitor opened the form to replace a valid key. */
  let isChanging = false

  /** @param {boolean} visible */
  const setVisible = (visible) => {
    field.type = visible ? "text" : "password"
    showButton.textContent = visible ? "Hide" : "Show"
    showButton.setAttribute("aria-pressed", String(visible))
  }
  const updateState = () => {
    forgetButton.hidden = !hasApiKey()
    changeButton.hidden = !hasApiKey() || rejection !== ""
    form.hidden = !changeButton.hidden && !isChanging
    changeButton.setAttribute("aria-expanded", String(isChanging))
    // Shows the same first characters of the key as the list of keys on the account page.
    const hint = `${apiKey.slice(0, 12)}…`
    state.classList.toggle("bad", rejection !== "")
    if (!hasApiKey()) state.textContent = "No API key is set."
    else if (rejection === "api_key_disabled") state.textContent = `${hint} is revoked, disabled or expired.`
    else if (rejection !== "") state.textContent = `${hint} is not a valid key.`
    else state.textContent = `Key ${hint} is used until you close this tab.`
  }
  onRejectionChange = updateState
  requireElement("without-scripts", HTMLElement).hidden = true
  box.hidden = false
  changeButton.addEventListener("click", () => {
    isChanging = !isChanging
    updateState()
    if (isChanging) field.focus()
  })
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const typed = field.value.trim()
    field.value = ""
    setVisible(false)
    // Rejects characters that a header cannot carry. No key contains any of them.
    if (!/^[\x21-\x7e]+$/.test(typed)) {
      state.textContent = "This is not an API key. Keys begin with tl_live_ and contain no spaces."
      state.classList.add("bad")
      return
    }
    storeKey(typed)
    isChanging = false
    updateState()
    // The field that had the focus is hidden now.
    changeButton.focus({ preventScroll: true })
    onChange()
  })
  showButton.addEventListener("click", () => setVisible(field.type === "password"))
  forgetButton.addEventListener("click", () => {
    storeKey("")
    isChanging = false
    updateState()
    field.focus()
    onChange()
  })
  // The back-forward cache may restore this page after the key was forgotten on another page.
  addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return
    apiKey = storage?.getItem(storageKey) ?? ""
    updateState()
    onChange()
  })
  updateState()
}
