import { startDemos } from "./demos.js";
import { startLive } from "./live.js";
import { startUsage } from "./usage.js";

startLive();
startUsage();
await startDemos();
document.documentElement.dataset.ready = ""; // tests wait for this attribute
