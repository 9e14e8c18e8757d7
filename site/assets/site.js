// Starts the explorers of a page; kda_learn/widgets/mount.js says how they are found.
import { mountAll } from "./widgets/mount.js";

try {
  await mountAll();
} finally {
  document.body.dataset.explorers = "done"; // what a test waits for; an error goes to the console as well
}
