/**
 * Renders and reads the console's forms, which work without JavaScript. A refused form is shown again with its values
 * and errors.
 */
import { SecureRandom } from "effect/crypto"
import { type Html, markup } from "../../site/browser/markup.js"

/** An error in a form field. */
export interface FieldError {
  /** The name of the field in the API. */
  readonly field: string
  /** Why the value was rejected. Follows the field's label to form a sentence. */
  readonly reason: string
}

/** A submitted form that was refused. */
export interface RefusedForm {
  readonly values: URLSearchParams
  readonly errors: ReadonlyArray<FieldError>
  readonly message: string
  /** Whether the form needs a new `Idempotency-Key`, because the old one was already used for a different write. */
  readonly needsNewIdempotencyKey: boolean
}

/** A form field. */
export interface Field {
  readonly name: string
  readonly label: string
  readonly type?: "checkbox" | "checkboxes" | "date" | "email" | "select" | "text" | "textarea"
  readonly value?: string
  /** The options of a select or of a group of checkboxes, as pairs of value and label. */
  readonly options?: ReadonlyArray<readonly [string, string]>
  readonly hint?: string
  /** A note about a conflict, such as the value that another admin has saved. */
  readonly note?: string | undefined
  readonly isRequired?: boolean
}

/** The declaration of a form. */
export interface Form {
  /** The ID of the form, unique within its page. */
  readonly id: string
  readonly fields?: ReadonlyArray<Field>
  /** Hidden fields, as pairs of name and value. */
  readonly hidden?: Readonly<Record<string, string>>
  readonly submit: string
  /**
   * Whether the form deletes or revokes something. If so, the button does not look like the main action of the page.
   */
  readonly isDestructive?: boolean
}

/**
 * Declares a form. The inferred type contains the names of the fields, so that the code that handles the form can read
 * no others.
 */
export const declareForm = <const Declared extends Form>(form: Declared) => form

/** The submitted values of the fields with the given names. */
export interface SubmittedValues<Name extends string> {
  readonly get: (name: Name) => string | null
  readonly getAll: (name: Name) => ReadonlyArray<string>
  readonly has: (name: Name) => boolean
}

type Made<Declaration> = Declaration extends (...parameters: never) => infer Result ? Result : Declaration
type FieldNames<Declared> = Declared extends { readonly fields: ReadonlyArray<{ readonly name: infer Name }> } ? Name
  : never
type HiddenNames<Declared> = Declared extends { readonly hidden: infer Hidden } ? keyof Hidden : never
type NamesOf<Declared> = (FieldNames<Declared> | HiddenNames<Declared>) & string

/**
 * A submitted form, as passed to its handler. `Declaration` is the type of the form, or of a function that returns the
 * form.
 */
export type SubmittedForm<Declaration> = SubmittedValues<
  NamesOf<Made<Declaration>> | typeof formIdField | typeof idempotencyKeyField
>

const renderOption = (selected: string) => ([value, label]: readonly [string, string]) =>
  markup`<option value="${value}"${value === selected && markup` selected`}>${label}</option>`

const renderControl = (field: Field, id: string, value: string, attributes: Html) => {
  const { isRequired = false, name, options = [], type = "text" } = field
  const common = markup`id="${id}" name="${name}"${isRequired && markup` required`}${attributes}`
  if (type === "select") return markup`<select ${common}>${options.map(renderOption(value))}</select>`
  if (type === "textarea") return markup`<textarea ${common} rows="3" spellcheck="false">${"\n"}${value}</textarea>`
  return markup`<input ${common} type="${type}" value="${value}" autocomplete="off" spellcheck="false">`
}

/**
 * Renders a field of the form with the ID `formId`: a control with its label, and the field's hint, note, and errors.
 * Screen readers read these texts together with the field. If the form was refused, the field has the submitted value
 * instead of its own.
 */
const renderField = (formId: string, field: Field, refused: RefusedForm | undefined) => {
  const { hint, label, name, note, options = [], type, value = "" } = field
  const id = `${formId}-${name}`
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
    // A browser sends a checkbox only if it is checked, so a missing value means unchecked, not unchanged.
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

/** The name of the hidden field that contains the form's ID. */
export const formIdField = "form"
/** The name of the hidden field that contains the `Idempotency-Key`. */
export const idempotencyKeyField = "idempotency_key"
/**
 * The name of the hidden field that contains the type of resource that the form changes: `account` or `key`. Only forms
 * that handle conflicts have this field. If another admin has changed the resource since the form was rendered, such a
 * form is shown again with the typed and the saved values.
 */
export const resourceField = "resource"

/** Renders a hidden field. */
export const renderHiddenField = (name: string, value: string) =>
  markup`<input type="hidden" name="${name}" value="${value}">`

/**
 * Renders a form that is submitted to the URL of its page. The random `Idempotency-Key` makes double clicks and
 * repeated requests harmless. `refused` is the refused form on the page, which may be another form. If it is this one,
 * its values and its key are used again, unless the key was already used for a write with other values.
 */
export const renderForm = (form: Form, refused?: RefusedForm) => {
  const { fields = [], hidden = {}, id, isDestructive = false, submit } = form
  const thisRefused = refused?.values.get(formIdField) === id ? refused : undefined
  const usedKey = thisRefused?.needsNewIdempotencyKey === false ? thisRefused.values.get(idempotencyKeyField) : null
  const allHidden = { [formIdField]: id, [idempotencyKeyField]: usedKey ?? SecureRandom.uuidV7Unsafe(), ...hidden }
  return markup`<form method="post" id="${getFormId(id)}">${
    Object.entries(allHidden).map(([name, value]) => renderHiddenField(name, value))
  }${fields.map((field) => renderField(id, field, thisRefused))}<button class="${
    isDestructive ? "danger" : "main"
  }">${submit}</button></form>`
}

/** Renders a search form. The submitted values become query parameters in the page's URL. */
export const renderSearchForm = (fields: ReadonlyArray<Field>, submit: string) =>
  markup`<form method="get" role="search" class="search-form">${
    fields.map((field) => renderField("search", field, undefined))
  }<button class="main">${submit}</button></form>`

/**
 * Renders a summary of the errors in a refused form. The summary receives focus, so that screen readers start with it.
 */
export const renderErrorSummary = ({ errors, message, values }: RefusedForm) => {
  const form = values.get(formIdField) ?? ""
  const links = errors.map(({ field, reason }) => [
    `${form}-${field}`,
    `${field.replace(/_microdollars$/, "").replaceAll("_", " ")} ${reason}`,
  ])
  const items = links.length === 0 ? [[getFormId(form), "Go to the form"]] : links
  return markup`<div class="notice" role="alert" tabindex="-1" autofocus id="problem"><h2>Please check this</h2>
<p>${message}</p><ul>${items.map(([target, text]) => markup`<li><a href="#${target}">${text}</a></li>`)}</ul></div>`
}

/** Returns the trimmed value of a field, or undefined if it is empty. */
export const getText = <Name extends string>(values: SubmittedValues<Name>, name: NoInfer<Name>) => {
  const text = values.get(name)?.trim() ?? ""
  return text === "" ? undefined : text
}
