// Elements are made by hand: text from the document or from a response never becomes markup.

// el makes an element. Attributes whose value is null, undefined or false are left out; on… ones are
// listeners; children are nodes, text, or nothing.
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// prose makes paragraphs of text with `code` in it.
export function prose(text) {
  return (text ?? "").split(/\n{2,}/).filter(Boolean).map((paragraph) => el("p", {}, inline(paragraph)));
}

// inline makes code elements of what stands between backticks.
export function inline(text) {
  return (text ?? "").split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}
