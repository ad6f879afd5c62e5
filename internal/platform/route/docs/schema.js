// JSON schemas as a person reads them: a list of properties that opens into deeper ones.

import { el, inline } from "./dom.js";

const maxDepth = 6;
const componentPrefix = "#/components/schemas/";

let components = {};

// useComponents names the schemas that references lead to.
export function useComponents(schemas) {
  components = schemas ?? {};
}

// resolve follows a reference; name is that of the component, if it was one.
function resolve(schema) {
  let name = "";
  while (schema?.$ref) {
    name = schema.$ref.replace(componentPrefix, "");
    schema = { ...components[name], description: schema.description };
  }
  return { schema: schema ?? {}, name };
}

// simplify takes null out of a schema, and says whether it was in.
function simplify(given) {
  const { schema, name } = resolve(given);
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return { schema: { ...schema, type: types.length === 1 ? types[0] : types }, name, nullable: types.length < schema.type.length };
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (!choices) return { schema, name, nullable: false };
  const others = choices.filter((choice) => choice.type !== "null");
  const nullable = others.length < choices.length;
  if (others.length !== 1) return { schema: { ...schema, anyOf: others, oneOf: undefined }, name, nullable };
  const only = simplify(others[0]);
  return { schema: { ...only.schema, description: schema.description ?? only.schema.description }, name: only.name, nullable: nullable || only.nullable };
}

// typeName says in words what a value is.
export function typeName(given) {
  const { schema, name, nullable } = simplify(given);
  return bareType(schema, name) + (nullable ? " or null" : "");
}

function bareType(schema, name) {
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.type === "array") return `array of ${typeName(schema.items)}`;
  if (name) return name;
  if (schema.type === "object" && schema.additionalProperties) return `object of ${typeName(schema.additionalProperties)}`;
  if (Array.isArray(schema.type)) return schema.type.join(" or ");
  if (schema.format) return `${schema.type} (${schema.format})`;
  return schema.type ?? (schema.properties ? "object" : "anything");
}

// inner returns the schema whose properties make up a value: its own, or those of its items.
function inner(given) {
  const { schema, name } = simplify(given);
  if (schema.type === "array") return inner(schema.items);
  if (schema.properties) return { schema, name };
  if (typeof schema.additionalProperties === "object") return inner(schema.additionalProperties);
  return { schema: {}, name: "" };
}

// schemaTree shows a schema. Properties that hold objects are closed, except at the top, and a schema
// inside of itself is only named.
export function schemaTree(given, depth = 0, within = []) {
  const { schema, name } = inner(given);
  const properties = Object.entries(schema.properties ?? {});
  if (properties.length === 0) return null;
  const around = [...within, name];
  const items = properties.map(([key, property]) => propertyItem(key, property, schema.required, depth, around));
  return el("ul", { class: "schema" }, items);
}

function propertyItem(key, property, required, depth, within) {
  const { schema } = simplify(property);
  const line = [
    el("code", { class: "name" }, key), " ",
    el("span", { class: "type" }, typeName(property)), " ",
    required && !required.includes(key) ? el("span", { class: "optional" }, "optional") : null,
  ];
  const about = [
    schema.description ? el("p", {}, inline(schema.description)) : null,
    schema.enum ? el("p", {}, "One of ", schema.enum.flatMap((value, i) => [i ? ", " : "", el("code", {}, String(value))]), ".") : null,
    limits(schema),
  ];
  const deeper = inner(property);
  const again = deeper.name !== "" && within.includes(deeper.name);
  const tree = depth < maxDepth && !again ? schemaTree(property, depth + 1, within) : null;
  if (!tree) return el("li", {}, el("div", { class: "line" }, line), about);
  return el("li", {}, el("details", {}, el("summary", { class: "line" }, line), about, tree));
}

function limits(schema) {
  const words = [
    ["minimum", "at least"], ["maximum", "at most"], ["minLength", "at least this many characters:"],
    ["maxLength", "at most this many characters:"], ["maxItems", "at most this many items:"], ["pattern", "matches"],
  ].filter(([key]) => schema[key] !== undefined).map(([key, word]) => `${word} ${schema[key]}`);
  return words.length ? el("p", {}, words.join(", ")) : null;
}

// example returns a value of a schema to begin editing with.
export function example(given, depth = 0) {
  const { schema } = simplify(given);
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return example(schema.anyOf[0], depth);
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case "string": return "";
    case "integer": case "number": return 0;
    case "boolean": return false;
    case "array": return [];
    case "object": break;
    default: return null;
  }
  if (depth >= 2) return {};
  return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([key, property]) => [key, example(property, depth + 1)]));
}
