/**
 * Forms of the console, which work without scripts. A form that was refused is shown again with its values and errors.
 */
import { SecureRandom } from "effect/crypto"
import { type Html, markup } from "../../site/browser/markup.js"

/** What is wrong with a field. */
export interface FieldError {
  /** The field's name in the API. */
  readonly field: string
  /** Completes a sentence that starts with the label. */
  readonly reason: string
}

/** A form that was sent and refused. */
export interface RefusedForm {
  readonly values: URLSearchParams
  readonly errors: ReadonlyArray<FieldError>
  readonly message: string
  /** Whether a new `Idempotency-Key` is needed, because the old one was used for something else. */
  readonly isKeyUsed: boolean
}

/** A field of a form. */
export interface Field {
  readonly name: string
  readonly label: string
  readonly type?: "checkbox" | "checkboxes" | "date" | "email" | "select" | "text" | "textarea"
  readonly value?: string
  /** The choices of a select or a group of checkboxes: value and label. */
  readonly options?: ReadonlyArray<readonly [string, string]>
  readonly hint?: string
  /** A note about a conflict, such as the value that somebody else has saved. */
  readonly note?: string | undefined
  readonly isRequired?: boolean
}

/** A form. */
export interface Form {
  /** Identifies the form on its page. */
  readonly id: string
  readonly fields?: ReadonlyArray<Field>
  /** Values that are sent unchanged. */
  readonly hidden?: Readonly<Record<string, string>>
  readonly submit: string
  /** Whether the form deletes or revokes something. Its button must then not look like the page's main action. */
  readonly isDestructive?: boolean
}

/** Declares a form. Its type contains the names of the fields, so that its action can read no others. */
export const declareForm = <const Declared extends Form>(form: Declared) => form

/** The values in a form that was sent, for these names. */
export interface SentValues<Name extends string> {
  readonly get: (name: Name) => string | null
  readonly getAll: (name: Name) => ReadonlyArray<string>
  readonly has: (name: Name) => boolean
}

type Made<Declaration> = Declaration extends (...parameters: never) => infer Result ? Result : Declaration
type FieldNames<Declared> = Declared extends { readonly fields: ReadonlyArray<{ readonly name: infer Name }> } ? Name
  : never
type HiddenNames<Declared> = Declared extends { readonly hidden: infer Hidden } ? keyof Hidden : never
type NamesOf<Declared> = (FieldNames<Declared> | HiddenNames<Declared>) & string

/** A form as its action receives it. `Declaration` is the type of the form, or of the function that declares it. */
export type SentForm<Declaration> = SentValues<NamesOf<Made<Declaration>> | typeof formField | typeof keyField>

const renderOption = (selected: string) => ([value, label]: readonly [string, string]) =>
  markup`<option value="${value}"${value === selected && markup` selected`}>${label}</option>`

const renderControl = (field: Field, id: string, value: string, attributes: Html) => {
  const { isRequired = false, name, options = [], type = "text" } = field
  const common = markup`id="${id}" name="${name}"${isRequired && markup` required`}${attributes}`
  if (type === "select") return markup`<select ${common}>${options.map(renderOption(value))}</select>`
  if (type === "textarea") return markup`<textarea ${common} rows="3" spellcheck="false">${"\n"}${value}</textarea>`
  return markup`<input ${common} type="${type}" value="${value}" autocomplete="off" spellcheck="false">`
}

/** Renders a field with its hint and errors, which screen readers read together with the field. */
const renderField = (form: string, field: Field, refused: RefusedForm | undefined) => {
  const { hint, label, name, note, options = [], type, value = "" } = field
  const id = `${form}-${name}`
  const errors = refused?.errors.filter(({ field }) => field === name) ?? []
  const remarks = [
    { kind: "hint", text: hint },
    { kind: "note", text: note },
    { kind: "error", text: errors.map(({ reason }) => `${label} ${reason}`).join("; ") },
  ].filter(({ text = "" }) => text !== "")
  const notes = remarks.map(({ kind, text }) => markup`<span class="${kind}" id="${id}-${kind}">${text}</span>`)
  const described = remarks.map(({ kind }) => `${id}-${kind}`).join(" ")
  const attributes = markup`${described !== "" && markup` aria-describedby="${described}"`}${
    errors.length > 0 && markup` aria-invalid="true"`
  }`
  if (type === "checkbox") {
    const isChecked = refused === undefined ? value === "on" : refused.values.get(name) === "on"
    const checked = isChecked && markup` checked`
    return markup`<p class="control"><span><input type="checkbox" id="${id}" name="${name}"${checked}${attributes}>
<label for="${id}">${label}</label></span>${notes}</p>`
  }
  if (type === "checkboxes") {
    const chosen = refused?.values.getAll(name) ?? []
    return markup`<details class="control"${chosen.length > 0 && markup` open`}><summary>${label}</summary>
<fieldset${attributes}><legend class="hidden">${label}</legend>${notes}${
      options.map(([option, text]) =>
        markup`<span><input type="checkbox" id="${id}-${option}" name="${name}" value="${option}"${
          chosen.includes(option) && markup` checked`
        }> <label for="${id}-${option}">${text}</label></span>`
      )
    }</fieldset></details>`
  }
  return markup`<p class="control"><label for="${id}">${label}</label>${
    renderControl(field, id, refused?.values.get(name) ?? value, attributes)
  }${notes}</p>`
}

const getFormId = (id: string) => `form-${id}`

/** The name of the hidden field with the form's id. */
export const formField = "form"
/** The name of the hidden field with the `Idempotency-Key`. */
export const keyField = "idempotency_key"
/**
 * The name of a hidden field that says what the form changes, `account` or `key`. Only forms that handle conflicts have
 * it: if somebody else has changed the resource since the form was rendered, the form is shown again with both values.
 */
export const resourceField = "resource"

/** Renders a hidden field. */
export const renderHiddenField = (name: string, value: string) =>
  markup`<input type="hidden" name="${name}" value="${value}">`

/**
 * Renders a form that is sent to its own page. The random `Idempotency-Key` makes a double click or a repeated request
 * harmless. `refused` is the page's refused form, if there is one.
 */
export const renderForm = (form: Form, refused?: RefusedForm) => {
  const { fields = [], hidden = {}, id, isDestructive = false, submit } = form
  const own = refused?.values.get(formField) === id ? refused : undefined
  const key = own === undefined || own.isKeyUsed ? undefined : own.values.get(keyField)
  const all = { [formField]: id, [keyField]: key ?? SecureRandom.uuidV7Unsafe(), ...hidden }
  return markup`<form method="post" id="${getFormId(id)}">${
    Object.entries(all).map(([name, value]) => renderHiddenField(name, value))
  }${fields.map((field) => renderField(id, field, own))}<button class="${
    isDestructive ? "danger" : "main"
  }">${submit}</button></form>`
}

/** Renders a search form, whose values become part of the page's URL. */
export const renderSearchForm = (fields: ReadonlyArray<Field>, submit: string) =>
  markup`<form method="get" role="search" class="search-form">${
    fields.map((field) => renderField("search", field, undefined))
  }<button class="main">${submit}</button></form>`

/** Renders what is wrong with a refused form. It takes the focus, so that screen readers start with it. */
export const renderErrorSummary = ({ errors, message, values }: RefusedForm) => {
  const form = values.get(formField) ?? ""
  const links = errors.map(({ field, reason }) => [
    `${form}-${field}`,
    `${field.replace(/_microdollars$/, "").replaceAll("_", " ")} ${reason}`,
  ])
  const items = links.length === 0 ? [[getFormId(form), "Go to the form"]] : links
  return markup`<div class="notice" role="alert" tabindex="-1" autofocus id="problem"><h2>Please check this</h2>
<p>${message}</p><ul>${items.map(([target, text]) => markup`<li><a href="#${target}">${text}</a></li>`)}</ul></div>`
}

/** Returns the value of a field, or undefined if it is empty. */
export const getText = <Name extends string>(values: SentValues<Name>, name: NoInfer<Name>) => {
  const text = values.get(name)?.trim() ?? ""
  return text === "" ? undefined : text
}
