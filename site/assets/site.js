// Starts the explorers of a page; kda_learn/widgets/mount.js says how they are found. And adds what the theme
// leaves out for readers who use a keyboard or a screen reader.
import { mountAll } from "./widgets/mount.js";

const SCROLLERS = ".md-typeset :is(pre, pre > code, figure, .output-text, .output-html, .output-picture)";

// What is wider than its place can be scrolled with the arrow keys once it can have the focus.
function letScroll() {
  for (const node of document.querySelectorAll(SCROLLERS)) {
    if (node.scrollWidth > node.clientWidth) node.tabIndex = 0;
    else node.removeAttribute("tabindex");
  }
}

document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
try {
  await mountAll();
} finally {
  letScroll();
  addEventListener("resize", letScroll);
  document.body.dataset.explorers = "done"; // what a test waits for; an error goes to the console as well
}
