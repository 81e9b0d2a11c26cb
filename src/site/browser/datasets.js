/** The page of the datasets: puts into its table when each changed, and draws it. */
import { byId, make, picture } from "./dom.js"
import { listAt, textAt } from "./json.js"
import { figure } from "./freshness.js"
import { ask, hasKey, keyForm } from "./key.js"
import { problem } from "./problem.js"
import { ago, fromPrinted } from "./time.js"
import { addTips } from "./tips.js"

const state = byId("state", HTMLElement)
const drawing = byId("freshness", HTMLElement)
const listing = byId("datasets", HTMLElement)
const cells = new Map(
  Array.from(document.querySelectorAll("td[data-dataset]"), (cell) => [cell.getAttribute("data-dataset") ?? "", cell]),
)

let turn = 0

const show = async () => {
  turn += 1
  const own = turn
  drawing.replaceChildren()
  // The column of times is shown once they are known.
  listing.classList.add("no-answer")
  state.textContent = ""
  if (!hasKey()) return
  state.textContent = "Asking…"
  const answer = await ask("/v1/datasets?limit=100")
  if (own !== turn) return
  if (answer.status !== 200) {
    state.replaceChildren(problem(answer, () => void show()))
    return
  }
  const told = Date.parse(answer.headers.get("Date") ?? "")
  const now = Number.isFinite(told) ? told : Date.now()
  const datasets = listAt(answer.body, "results").map((row) => {
    const printed = textAt(row, "changed_at")
    return {
      name: textAt(row, "dataset") ?? "",
      printed,
      changed: printed === undefined ? undefined : fromPrinted(printed),
    }
  })
  for (const { changed, name, printed } of datasets) {
    const cell = cells.get(name)
    if (cell === undefined) continue
    cell.replaceChildren(
      ...(printed === undefined || changed === undefined ? ["never"] : [
        make("time", { datetime: printed }, printed.slice(0, 19).replace("T", " ")),
        make("br", {}),
        ago(changed, now),
      ]),
    )
  }
  listing.classList.remove("no-answer")
  drawing.replaceChildren(picture(figure(datasets, { id: "ages", now })))
  addTips(drawing)
  state.textContent = "As of now."
}

keyForm(() => void show())
void show()
