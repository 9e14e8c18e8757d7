// What `make lint` asks of JavaScript: of explorers, the site's script, and what drives the browsers.
import js from "@eslint/js";
import globals from "globals";

const RULES = {
  ...js.configs.recommended.rules,
  eqeqeq: "error",
  "no-shadow": ["error", { allow: ["_"] }],
  "no-var": "error",
  "object-shorthand": "error",
  "prefer-const": "error",
  "max-len": ["error", { code: 110, ignoreStrings: true, ignoreTemplateLiterals: true }],
  "max-lines": ["error", 300],
  // Text from elsewhere must never become HTML: explorers make elements.
  "no-restricted-properties": ["error", { property: "innerHTML" }, { property: "outerHTML" }],
  "no-restricted-globals": ["error", "fetch", "XMLHttpRequest", "alert", "eval"],
};

export default [
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    files: ["kda_learn/widgets/*.js", "site/assets/*.js"],
    languageOptions: { globals: globals.browser },
    rules: RULES,
  },
  {
    files: ["tests/browser/*.js"],
    languageOptions: { globals: { ...globals.node, document: "readonly" } },
    rules: RULES,
  },
];
