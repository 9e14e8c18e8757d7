// Starts the explorers of a page; kda_learn/widgets/mount.js says how they are found.
import { mountAll } from "./widgets/mount.js";

await mountAll();
document.body.dataset.explorers = "ready";
