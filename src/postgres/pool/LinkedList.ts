/**
 * A doubly linked list from which any item can be removed in constant time, unlike from an array or Effect's
 * `MutableList`.
 */

/** An item that can be in at most one list at a time. */
export class ListItem<Self> {
  previous: Self | undefined
  next: Self | undefined
  /** Whether the item is currently in a list. */
  isListed = false
}

/** A doubly linked list that stores the links in the items themselves and allocates no nodes. */
export class LinkedList<Item extends ListItem<Item>> {
  first: Item | undefined
  #last: Item | undefined

  append(item: Item) {
    item.isListed = true
    item.previous = this.#last
    if (this.#last === undefined) this.first = item
    else this.#last.next = item
    this.#last = item
  }

  remove(item: Item) {
    const { next, previous } = item
    if (previous === undefined) this.first = next
    else previous.next = next
    if (next === undefined) this.#last = previous
    else next.previous = previous
    item.previous = undefined
    item.next = undefined
    item.isListed = false
  }
}
