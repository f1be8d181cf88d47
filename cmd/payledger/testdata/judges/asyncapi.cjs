// Prints what AsyncAPI's own parser and rules have to say about a document.
const { readFileSync } = require("node:fs");
const { Parser } = require("@asyncapi/parser");

new Parser().parse(readFileSync(process.argv[2], "utf8")).then(({ document, diagnostics }) => {
  for (const d of diagnostics) console.log(d.code, d.path.join("."), d.message);
  if (!document || diagnostics.length > 0) process.exit(1);
  console.log("nothing to say");
});
