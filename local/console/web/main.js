import { startDemos } from "./demos.js";
import { startLive } from "./live.js";

startLive();
await startDemos();
document.documentElement.dataset.ready = ""; // for tests
