// Shows numbers in tables and in lists.

function cell(name, content, scope) {
  const element = document.createElement(name);
  element.append(content);
  if (scope) element.scope = scope;
  return element;
}

function row(cells) {
  const element = document.createElement("tr");
  element.append(...cells);
  return element;
}

/** Fills a table. heads has the texts of the head, and each row is a list of texts or elements. The first one of a row is its header cell. */
export function fill(table, heads, rows) {
  const head = document.createElement("thead");
  const body = document.createElement("tbody");
  head.append(row(heads.map((text) => cell("th", text, "col"))));
  body.append(...rows.map(([first, ...rest]) => row([cell("th", first, "row"), ...rest.map((text, i) => {
    const value = cell("td", text);
    value.dataset.head = heads[i + 1]; // on a phone, the style sheet shows the column's head beside the value
    return value;
  })])));
  table.replaceChildren(head, body);
}

/** Fills a list of figures, each [label, number, class]. */
export function figures(list, entries) {
  list.replaceChildren(...entries.map(([label, number, kind]) => {
    const group = document.createElement("div");
    if (kind) group.className = kind;
    group.append(cell("dt", label), cell("dd", number));
    return group;
  }));
}
